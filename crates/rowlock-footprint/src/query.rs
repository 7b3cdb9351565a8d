//! `SELECT`: its levels, its CTEs, its locking clauses, and what it gives to the query around it.

use sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, ObjectName, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, SetOperator, TableAlias,
};

use crate::{
    Cause, Dialect, Strength, Value, Verb, Wait,
    analyze::{Analysis, MAX_CTES},
    condition::{self, Alternative, get},
    locking::{self, Clause},
    name,
    rows::rows,
    scope::{Level, Output, Source},
    value,
};

/// A common table expression that can be seen.
pub(crate) struct Cte {
    pub(crate) name: String,
    pub(crate) output: Output,
}

impl<'s> Analysis<'s> {
    /// Goes through a query on which the locking clauses `from_outside` lie as well as its own.
    pub(crate) fn query(&mut self, query: &Query, from_outside: &[Clause]) -> Output {
        let seen = self.ctes.len();
        let before = self.shares_reads;
        if let SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement) = &*query.body {
            self.shares_reads |= self.shares_what_it_reads(statement);
        }
        if let Some(with) = &query.with {
            for cte in &with.cte_tables {
                if self.ctes.len() >= MAX_CTES {
                    self.too_many = Some("CTEs");
                    break;
                }
                let name = name::fold(&cte.alias.name, self.dialect);
                if with.recursive {
                    self.ctes.push(Cte { name: name.clone(), output: Output::unknown() });
                }
                // A locking clause does not reach into a CTE: PostgreSQL, SELECT, "The Locking Clause".
                let output = self.query(&cte.query, &[]).rename(alias_columns(&cte.alias, self.dialect));
                if with.recursive {
                    self.ctes.pop();
                }
                // A recursive one gives more rows than its first part.
                let output = if with.recursive { Output::unknown() } else { output };
                self.ctes.push(Cte { name, output });
            }
        }
        let mut clauses = from_outside.to_vec();
        for lock in &query.locks {
            let mark = lock.of.as_ref().and_then(|of| name::parts(of, self.dialect).pop());
            clauses.extend(mark.and_then(|mark| locking::marked(&self.clauses, &mark)).cloned());
        }
        let output = self.body(&query.body, &clauses);
        self.subqueries(&query.order_by);
        self.subqueries(&query.limit_clause);
        self.ctes.truncate(seen);
        self.shares_reads = before;
        output
    }

    fn body(&mut self, body: &SetExpr, clauses: &[Clause]) -> Output {
        // A chain of UNION leans to the left: go down it without recursion.
        let mut right_sides = Vec::new();
        let mut leftmost = body;
        while let SetExpr::SetOperation { left, op, right, .. } = leftmost {
            right_sides.push((op, right));
            leftmost = left;
        }
        // InnoDB takes a clause after the last SELECT of a UNION for that one's; PostgreSQL has none there.
        let last_only = self.dialect.is_innodb() && !right_sides.is_empty();
        let mut output = self.operand(leftmost, if last_only { &[] } else { clauses });
        let last = right_sides.len();
        for (at, (operator, right)) in right_sides.into_iter().rev().enumerate() {
            let right = self.operand(right, if last_only && at + 1 < last { &[] } else { clauses });
            // EXCEPT and INTERSECT give rows of their left side only.
            if *operator == SetOperator::Union {
                output = union(output, right);
            }
        }
        output
    }

    fn operand(&mut self, body: &SetExpr, clauses: &[Clause]) -> Output {
        match body {
            SetExpr::Select(select) => self.select(select, clauses),
            SetExpr::Query(query) => self.query(query, clauses),
            SetExpr::SetOperation { .. } => self.body(body, clauses),
            SetExpr::Values(values) => {
                self.subqueries(values);
                let value = |expr: &Expr| Some(value::constant(expr, self.dialect).unwrap_or(Value::Unknown));
                let rows: Vec<Vec<_>> = values.rows.iter().map(|row| row.content.iter().map(value).collect()).collect();
                let width = rows.first().map_or(0, Vec::len);
                if rows.iter().any(|r| r.len() != width) {
                    return Output::unknown();
                }
                let columns = (0..width).map(|i| values_column(i, self.dialect)).collect();
                Output { columns, complete: true, rows }
            }
            SetExpr::Insert(statement)
            | SetExpr::Update(statement)
            | SetExpr::Delete(statement)
            | SetExpr::Merge(statement) => {
                // The parser makes nothing else of these.
                self.statement(statement).unwrap_or_else(|_| Output::unknown())
            }
            SetExpr::Table(table) => {
                let parts = table.schema_name.iter().chain(&table.table_name).cloned().collect::<Vec<_>>();
                let mut level = Level::new(self.dialect);
                self.add_table(&mut level, &ObjectName::from(parts), None);
                self.lock_level(&level, clauses);
                Output::unknown()
            }
        }
    }

    fn select(&mut self, select: &Select, clauses: &[Clause]) -> Output {
        let mut level = Level::new(self.dialect);
        for table in &select.from {
            self.add_joined(&mut level, table, clauses);
        }
        level.require(select.selection.as_ref());
        self.subqueries(&select.projection);
        self.subqueries(&select.selection);
        self.subqueries(&select.group_by);
        self.subqueries(&select.having);
        self.subqueries(&select.distinct);
        self.lock_level(&level, clauses);
        if select.into.is_some() && !self.dialect.is_innodb() {
            // It makes a table.
            self.verb(Verb::TableLock);
        }
        self.output(&level, select)
    }

    /// The locks that the clauses put on the tables of one level; and those of reading, where reading locks.
    fn lock_level(&mut self, level: &Level<'s, '_>, clauses: &[Clause]) {
        for (at, relation) in level.relations.iter().enumerate() {
            let Source::Table(name, table) = &relation.source else { continue };
            let of = combined(clauses, &relation.alias, self.dialect);
            let (strength, wait, cause) = match of {
                Some((strength, wait)) => (strength, wait, Cause::LockingClause),
                None if self.shares_reads => (Strength::Share, Wait::Wait, Cause::Read),
                None => continue,
            };
            if self.is_view(*table) {
                continue;
            }
            let alternatives = condition::alternatives(level, Some(at), &self.outputs);
            self.lock_waiting(name, strength, rows(level, at, &alternatives), cause, wait);
        }
    }

    /// What the query around this one can know of its rows.
    fn output(&self, level: &Level<'s, '_>, select: &Select) -> Output {
        let alternatives = condition::alternatives(level, None, &self.outputs);
        let mut output = Output { columns: Vec::new(), complete: true, rows: vec![Vec::new(); alternatives.len()] };
        for item in &select.projection {
            let (expr, alias) = match item {
                SelectItem::Wildcard(_) if level.relations.len() == 1 => {
                    if !all_columns(level, 0, &alternatives, &mut output) {
                        return Output::unknown();
                    }
                    continue;
                }
                SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), _) => {
                    let relation = name::parts(name, self.dialect).pop().and_then(|n| level.relation(&n));
                    if !relation.is_some_and(|at| all_columns(level, at, &alternatives, &mut output)) {
                        return Output::unknown();
                    }
                    continue;
                }
                SelectItem::UnnamedExpr(expr) => (expr, None),
                SelectItem::ExprWithAlias { expr, alias } => (expr, Some(name::fold(alias, self.dialect))),
                _ => return Output::unknown(),
            };
            let unnested = unnested(expr, self.dialect);
            for (alternative, row) in alternatives.iter().zip(&mut output.rows) {
                row.push(unnested.clone().or_else(|| value_of(expr, level, alternative)));
            }
            output.columns.push(alias.unwrap_or_else(|| natural_name(expr, self.dialect)));
        }
        output
    }
}

/// The strongest strength and the strictest wait that the clauses put on the relation of that name.
pub(crate) fn combined(clauses: &[Clause], alias: &str, dialect: Dialect) -> Option<(Strength, Wait)> {
    // PostgreSQL: the strongest, and NOWAIT before SKIP LOCKED before waiting.
    let rank = |wait: Wait| match wait {
        Wait::Wait => 0,
        Wait::SkipLocked => 1,
        Wait::NoWait => 2,
    };
    clauses
        .iter()
        .filter(|c| c.of.is_empty() || c.of.iter().any(|of| name::same(of, alias, dialect)))
        .map(|c| (c.strength, c.wait))
        .reduce(|a, b| (a.0.max(b.0), if rank(b.1) > rank(a.1) { b.1 } else { a.1 }))
}

/// Adds every column of a relation to the result; `false` when they are not known.
fn all_columns(level: &Level<'_, '_>, relation: usize, alternatives: &[Alternative], output: &mut Output) -> bool {
    let columns: Vec<String> = match &level.relations[relation].source {
        Source::Table(_, Some(table)) if !table.columns.is_empty() => {
            table.columns.iter().map(|c| c.name.clone()).collect()
        }
        Source::Rows(rows) if rows.complete => rows.columns.clone(),
        _ => return false,
    };
    // Columns of one name can only be told apart by their place.
    if let Source::Rows(rows) = &level.relations[relation].source
        && level.relations.len() == 1
        && level.conditions.is_empty()
    {
        output.rows.clone_from(&rows.rows);
        output.columns = columns;
        return true;
    }
    for column in columns {
        for (alternative, row) in alternatives.iter().zip(&mut output.rows) {
            row.push(get(alternative, &(relation, column.clone())).cloned());
        }
        output.columns.push(column);
    }
    true
}

/// The value of a result's column or of an inserted expression in the rows that agree with `alternative`.
/// `None`: any, and perhaps several.
pub(crate) fn value_of(expr: &Expr, level: &Level<'_, '_>, alternative: &Alternative) -> Option<Value> {
    if let Some(value) = value::constant(expr, level.dialect) {
        return Some(value);
    }
    match level.column(expr) {
        Some(column) => get(alternative, &column).cloned(),
        // Without a FROM there is one row, whatever the expression.
        None if level.relations.is_empty() => Some(Value::Unknown),
        None => None,
    }
}

/// `unnest($1)` as a column of the result.
fn unnested(expr: &Expr, dialect: Dialect) -> Option<Value> {
    let Expr::Function(function) = expr else { return None };
    let FunctionArguments::List(list) = &function.args else { return None };
    match list.args.as_slice() {
        [only] if function.name.to_string().eq_ignore_ascii_case("unnest") => {
            match value::elements(argument(only)?, dialect)?.as_slice() {
                [array @ Value::ParameterArray(_)] => Some(array.clone()),
                _ => None,
            }
        }
        _ => None,
    }
}

pub(crate) fn argument(argument: &FunctionArg) -> Option<&Expr> {
    match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

fn union(mut left: Output, right: Output) -> Output {
    if !left.complete || !right.complete || left.columns.len() != right.columns.len() {
        return Output::unknown();
    }
    left.rows.extend(right.rows);
    left
}

pub(crate) fn alias_columns(alias: &TableAlias, dialect: Dialect) -> Vec<String> {
    alias.columns.iter().map(|c| name::fold(&c.name, dialect)).collect()
}

/// What a result's column is called without an alias; a name that cannot be written when it has none.
fn natural_name(expr: &Expr, dialect: Dialect) -> String {
    match expr {
        Expr::Identifier(ident) => name::fold(ident, dialect),
        Expr::CompoundIdentifier(idents) => idents.last().map(|i| name::fold(i, dialect)).unwrap_or_default(),
        Expr::Function(function) => name::parts(&function.name, dialect).pop().unwrap_or_default(),
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => natural_name(inner, dialect),
        _ => String::new(),
    }
}

fn values_column(at: usize, dialect: Dialect) -> String {
    if dialect.is_innodb() { format!("column_{at}") } else { format!("column{}", at + 1) }
}
