//! The way from a text to its footprint, and what is gathered on the way.

use std::{collections::HashMap, ops::ControlFlow};

use sqlparser::ast::{Query, SetExpr, Statement, Visit, Visitor};

use crate::{
    Cause, Dialect, Footprint, Isolation, Lock, Rows, Schema, Strength, Table, TableName, Through, Unreadable, Verb,
    Wait, locking::Clause, name, query::Cte, scope::Output, setting::settings, text::Text,
};

/// The footprint of `sql`, which may be several statements, as `dialect` would run it on `schema`.
///
/// Several statements give one footprint: the locks of all, one after the other, and the verb that a policy must look at
/// most closely. An empty text reads nothing and locks nothing.
///
/// Assumed: isolation READ COMMITTED, which rowlock sets on InnoDB; [`analyze_under`] takes another. `FOR UPDATE` on SQLite, which has no such clause, is read as on PostgreSQL.
///
/// # Errors
///
/// [`Unreadable`] for a syntax error (with line and column), a statement that the model does not know, a text of more than
/// 1 MiB, or one that nests too deeply.
///
/// # Examples
///
/// A child's INSERT locks the row that its foreign key points at:
///
/// ```
/// use rowlock_footprint::{Cause, Dialect, Rows, Schema, Strength, Value, analyze};
/// # use rowlock_footprint::{Action, Column, ForeignKey, Table, TableName, UniqueKey};
/// # let mut schema = Schema::default();
/// # let mut orders = Table::new(TableName::parse("orders"));
/// # orders.primary_key = vec!["id".into()];
/// # schema.insert(orders);
/// # let mut lines = Table::new(TableName::parse("order_lines"));
/// # lines.primary_key = vec!["order_id".into(), "line".into()];
/// # lines.foreign_keys.push(ForeignKey {
/// #     name: "order_lines_order_id_fkey".into(), columns: vec!["order_id".into()], parent: TableName::parse("orders"),
/// #     parent_columns: vec!["id".into()], on_delete: Action::Cascade, on_update: Action::NoAction, deferred: false,
/// # });
/// # schema.insert(lines);
/// let footprint = analyze("INSERT INTO order_lines (order_id, line) VALUES ($1, 1)", Dialect::Postgres, &schema)?;
/// let parent = &footprint.locks[1];
/// assert_eq!(parent.table.name, "orders");
/// assert_eq!(parent.strength, Strength::KeyShare);
/// assert_eq!(parent.rows, Rows::Keys { columns: vec!["id".into()], keys: vec![vec![Value::Parameter(0)]] });
/// assert_eq!(parent.cause, Cause::ForeignKey("order_lines_order_id_fkey".into()));
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
pub fn analyze(sql: &str, dialect: Dialect, schema: &Schema) -> Result<Footprint, Unreadable> {
    analyze_under(sql, dialect, schema, Isolation::ReadCommitted)
}

/// The footprint of `sql` in a transaction of that isolation.
///
/// It differs on InnoDB only: under REPEATABLE READ every statement that writes shares the rows that it reads, under
/// SERIALIZABLE every one that reads. (An autocommit SELECT is none such: ask for it at a lower level.)
///
/// # Errors
///
/// As [`analyze`].
///
/// # Examples
///
/// ```
/// use rowlock_footprint::{Dialect, Isolation, Schema, analyze_under};
///
/// let of = |isolation| {
///     let sql = "INSERT INTO archive SELECT * FROM orders WHERE id = 1";
///     analyze_under(sql, Dialect::MySql, &Schema::default(), isolation).map(|footprint| footprint.locks.len())
/// };
/// assert_eq!((of(Isolation::ReadCommitted)?, of(Isolation::RepeatableRead)?), (1, 2));
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
pub fn analyze_under(
    sql: &str,
    dialect: Dialect,
    schema: &Schema,
    isolation: Isolation,
) -> Result<Footprint, Unreadable> {
    let text = Text::read(sql, dialect)?;
    let mut analysis = Analysis::new(dialect, schema, isolation);
    analysis.footprint.parameters = text.parameters;
    for (tokens, nesting) in text.statements {
        analysis.footprint.settings.extend(settings(&tokens, dialect));
        nesting.with_stack(|| analysis.tokens(tokens))?;
        if let Some(what) = analysis.too_many {
            return Err(Unreadable { reason: format!("more {what} than the model follows") });
        }
    }
    Ok(analysis.footprint)
}

/// What is known so far.
pub(crate) struct Analysis<'s> {
    pub(crate) dialect: Dialect,
    pub(crate) schema: &'s Schema,
    pub(crate) isolation: Isolation,
    pub(crate) footprint: Footprint,
    /// The locking clauses of the statement at hand.
    pub(crate) clauses: Vec<Clause>,
    /// The CTEs that can be seen, the innermost last.
    pub(crate) ctes: Vec<Cte>,
    /// The subqueries of expressions that have been gone through.
    pub(crate) outputs: Outputs,
    /// InnoDB: the statement locks what its subqueries read.
    pub(crate) shares_reads: bool,
    /// Of what there is so much that finding the locks could take long: see [`MAX_LOCKS`].
    pub(crate) too_many: Option<&'static str>,
}

/// Most locks and opaque names of a text, each of which is compared with all others.
const MAX_LOCKS: usize = 4_096;

/// Most tables of one level, for the same reason. (MySQL joins 61.)
pub(crate) const MAX_RELATIONS: usize = 256;

/// Most CTEs that can be seen at once.
pub(crate) const MAX_CTES: usize = 1_024;

impl<'s> Analysis<'s> {
    fn new(dialect: Dialect, schema: &'s Schema, isolation: Isolation) -> Analysis<'s> {
        Analysis {
            dialect,
            schema,
            isolation,
            footprint: Footprint {
                verb: Verb::Read,
                locks: Vec::new(),
                parameters: 0,
                opaque: Vec::new(),
                through: Vec::new(),
                temporary: Vec::new(),
                settings: Vec::new(),
            },
            clauses: Vec::new(),
            ctes: Vec::new(),
            outputs: Outputs::default(),
            shares_reads: dialect.is_innodb() && isolation == Isolation::Serializable,
            too_many: None,
        }
    }

    /// Several statements have the verb that a policy must look at most closely.
    pub(crate) fn verb(&mut self, verb: Verb) {
        let rank = |verb| match verb {
            Verb::Read => 0,
            Verb::Write => 1,
            Verb::Session => 2,
            Verb::TableLock => 3,
            Verb::Opaque => 4,
            Verb::TransactionControl => 5,
        };
        if rank(verb) > rank(self.footprint.verb) {
            self.footprint.verb = verb;
        }
    }

    pub(crate) fn opaque(&mut self, name: impl Into<String>) {
        let name = name.into();
        if self.footprint.opaque.len() >= MAX_LOCKS {
            self.too_many = Some("functions");
        } else if !self.footprint.opaque.contains(&name) {
            self.footprint.opaque.push(name);
        }
    }

    /// Triggers and rules of a table that is written to.
    pub(crate) fn fires(&mut self, table: Option<&Table>) {
        for name in table.into_iter().flat_map(|t| t.triggers.iter().chain(&t.rules)) {
            self.opaque(name);
        }
    }

    pub(crate) fn lock(&mut self, table: &TableName, strength: Strength, rows: Rows, cause: Cause) {
        self.lock_waiting(table, strength, rows, cause, Wait::Wait);
    }

    pub(crate) fn lock_waiting(&mut self, table: &TableName, strength: Strength, rows: Rows, cause: Cause, wait: Wait) {
        if matches!(&rows, Rows::Keys { keys, .. } if keys.is_empty()) {
            return;
        }
        if self.footprint.locks.len() >= MAX_LOCKS {
            self.too_many = Some("locks");
            return;
        }
        let lock = Lock { table: table.clone(), strength: strength.on(self.dialect), rows, cause, wait };
        if !self.footprint.locks.contains(&lock) {
            self.footprint.locks.push(lock);
        }
    }

    /// The table's full name when the schema has it, else as written; and what the schema has.
    pub(crate) fn find(&self, written: TableName) -> (TableName, Option<&'s Table>) {
        match name::find(self.schema, &written, self.dialect) {
            Some(table) => (table.name.clone(), Some(table)),
            None => (written, None),
        }
    }

    /// InnoDB under READ COMMITTED reads without locks in INSERT .. SELECT, in REPLACE .. SELECT and in the subqueries of
    /// an UPDATE of one table. Whatever else writes shares the rows that it reads
    /// (`ha_innobase::store_lock`, by the kind of command; seen on MySQL 9.7 and MariaDB 10.11).
    pub(crate) fn shares_what_it_reads(&self, statement: &Statement) -> bool {
        self.dialect.is_innodb()
            && match statement {
                Statement::Insert(insert) => {
                    self.isolation > Isolation::ReadCommitted
                        || insert.source.as_ref().is_none_or(|source| matches!(&*source.body, SetExpr::Values(_)))
                }
                Statement::Update(update) if !update.table.joins.is_empty() => true,
                Statement::Delete(_) => true,
                Statement::Update(_) | Statement::Merge(_) => self.isolation > Isolation::ReadCommitted,
                _ => false,
            }
    }

    /// A view's rows are those of tables that the text does not show. `true`: it was one.
    pub(crate) fn is_view(&mut self, table: Option<&Table>) -> bool {
        let Some(view) = table.filter(|t| t.view) else { return false };
        let beneath = self.schema.base_tables(view);
        // Its own triggers and rules do what they do in place of the statement.
        if beneath.is_empty() || !view.triggers.is_empty() || !view.rules.is_empty() {
            self.opaque(view.name.to_string());
        }
        for table in beneath {
            let through = Through { view: view.name.clone(), table: table.clone() };
            if !self.footprint.through.contains(&through) {
                self.footprint.through.push(through);
            }
        }
        true
    }

    /// Goes through the subqueries that stand in expressions of `node`.
    pub(crate) fn subqueries(&mut self, node: &impl Visit) {
        let _ = node.visit(&mut Subqueries { analysis: self, depth: 0 });
    }
}

/// The results of subqueries, found again by where they stand in the statement.
#[derive(Default)]
pub(crate) struct Outputs(HashMap<usize, Output>);

impl Outputs {
    pub(crate) fn get(&self, query: &Query) -> Option<&Output> {
        self.0.get(&place(query))
    }

    fn set(&mut self, query: &Query, output: Output) {
        self.0.insert(place(query), output);
    }

    /// For the next statement, which may stand where this one stood.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

fn place(query: &Query) -> usize {
    std::ptr::from_ref(query).addr()
}

/// Meets the outermost subqueries only: a query goes through its own.
struct Subqueries<'a, 's> {
    analysis: &'a mut Analysis<'s>,
    depth: usize,
}

impl Visitor for Subqueries<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        if self.depth == 0 {
            let output = self.analysis.query(query, &[]);
            self.analysis.outputs.set(query, output);
        }
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }
}
