//! The course of one kind of transaction: its statements in the order in which they run, read by the lock model. What one
//! kind shows by itself is judged on it.

use rowlock_footprint::{
    Cause, Column, Footprint, Given, Isolation, Literal, Lock, Outline, Rows, Schema, Strength, Table, Value,
    Verb as Does, Wait, analyze_under,
};

use crate::finding::Step;
use crate::report::Engine;
use crate::request::{self, bind_value, equal};
use crate::sql::shape;
use crate::statement::{Verb, same_table};
use crate::workload::{self, Kind, Workload};

/// Most statements of a kind that are looked at: judges hold each against each.
pub(crate) const MOST_STATEMENTS: usize = 500;

/// A kind of transaction, read.
pub(crate) struct Course<'a> {
    pub(crate) kind: &'a Kind,
    pub(crate) engine: Engine,
    pub(crate) schema: &'a Schema,
    pub(crate) isolation: Isolation,
    pub(crate) statements: Vec<Statement<'a>>,
}

/// A statement of it.
pub(crate) struct Statement<'a> {
    pub(crate) written: &'a workload::Statement,
    /// In lower case, with `?` for each value.
    pub(crate) shape: String,
    pub(crate) verb: Verb,
    /// None when the model cannot read it.
    pub(crate) footprint: Option<Footprint>,
    /// None when it is not about one table.
    pub(crate) outline: Option<Outline>,
}

impl<'a> Course<'a> {
    pub(crate) fn of(kind: &'a Kind, workload: &'a Workload) -> Course<'a> {
        let (engine, schema) = (workload.engine, &workload.schema);
        let isolation = workload.isolation_of(kind);
        let read = |written: &'a workload::Statement| Statement {
            written,
            shape: shape(&written.text, engine),
            verb: Verb::of(&written.text, engine),
            footprint: footprint(written, engine, schema, isolation),
            outline: Outline::of(&written.text, engine.dialect()).map(|outline| bind(outline, written, engine)),
        };
        let statements = kind.statements.iter().take(MOST_STATEMENTS).map(read).collect();
        Course { kind, engine, schema, isolation, statements }
    }

    /// What the schema has of the table that a statement is about.
    pub(crate) fn table(&self, outline: &Outline) -> Option<&'a Table> {
        self.schema.table(&outline.table).filter(|table| !table.view)
    }

    /// Each statement with those that follow it.
    pub(crate) fn with_later(&self) -> impl Iterator<Item = (usize, &Statement<'a>, &[Statement<'a>])> {
        self.statements
            .iter()
            .enumerate()
            .map(|(at, statement)| (at, statement, self.statements.get(at + 1..).unwrap_or_default()))
    }

    /// Whether two values of the transaction are one. Of a `?` that was written down nobody knows; the two that look for a row
    /// and write it are taken to be one.
    pub(crate) fn same(&self, a: &Value, b: &Value) -> bool {
        match (a, b) {
            (Value::Literal(a), Value::Literal(b)) => *a != Literal::Null && equal(a, b),
            (Value::Parameter(a), Value::Parameter(b)) => a == b,
            (Value::Unknown, Value::Unknown) => self.engine != Engine::Postgres && self.kind.seen.is_none(),
            _ => false,
        }
    }

    /// Whether something that was locked before the statement at `at` keeps away whoever wants the same rows of `table`: a row
    /// of another table whose key has one of these values, or an advisory lock.
    pub(crate) fn is_gated(&self, at: usize, table: &str, pins: &[(String, Value)]) -> bool {
        let gates = |lock: &Lock| {
            let exclusive = matches!(lock.strength, Strength::Update | Strength::NoKeyUpdate);
            let Rows::Keys { keys, .. } = &lock.rows else { return false };
            exclusive
                && !matches!(lock.cause, Cause::Insert)
                && !same_table(&lock.table.name, table)
                && keys.iter().flatten().any(|value| pins.iter().any(|(_, pin)| self.same(value, pin)))
        };
        self.statements.iter().take(at).any(|earlier| {
            earlier.shape.contains("advisory") || earlier.shape.contains("get_lock(") || earlier.locks().any(gates)
        })
    }

    /// What a statement does, as a step of a finding.
    pub(crate) fn step(&self, statement: &Statement<'_>, effect: impl Into<String>) -> Step {
        Step {
            transaction: "A".to_owned(),
            statement: Some(statement.written.text.clone()),
            place: Some(statement.written.place.clone()),
            effect: effect.into(),
        }
    }
}

impl Statement<'_> {
    pub(crate) fn text(&self) -> &str {
        &self.written.text
    }

    /// The locks that another transaction can come to wait for.
    pub(crate) fn locks(&self) -> impl Iterator<Item = &Lock> {
        self.footprint.iter().flat_map(|footprint| &footprint.locks).filter(|lock| lock.rows != Rows::Fresh)
    }

    /// The lock of its locking clause, where it is a SELECT of one table.
    pub(crate) fn clause(&self) -> Option<&Lock> {
        self.locks().find(|lock| lock.cause == Cause::LockingClause).filter(|_| self.outline.is_some())
    }

    /// Whether it waits for a row that another transaction has.
    pub(crate) fn waits(&self) -> bool {
        self.locks().any(|lock| lock.wait == Wait::Wait)
    }

    /// Whether it reads a table, and locks nothing.
    pub(crate) fn is_plain_read(&self) -> bool {
        self.footprint.as_ref().is_some_and(|footprint| footprint.verb == Does::Read && footprint.locks.is_empty())
            && self.verb == Verb::Other
            && self.shape.contains(" from ")
    }
}

/// A column of a table; names that differ in case are one where the server says so, and no sensible table has both elsewhere.
pub(crate) fn column<'t>(table: Option<&'t Table>, name: &str) -> Option<&'t Column> {
    table?.columns.iter().find(|column| column.name.eq_ignore_ascii_case(name))
}

/// Puts what the parameters of a text stand for in its kind in their place.
fn bind(mut outline: Outline, written: &workload::Statement, engine: Engine) -> Outline {
    let pins = outline.finds.equal.iter_mut().map(|(_, value)| value);
    let given = outline.sets.iter_mut().filter_map(|(_, given)| match given {
        Given::Value(value) => Some(value),
        Given::Computed => None,
    });
    pins.chain(given).for_each(|value| bind_value(value, written, engine));
    outline
}

fn footprint(
    written: &workload::Statement,
    engine: Engine,
    schema: &Schema,
    isolation: Isolation,
) -> Option<Footprint> {
    let mut footprint = analyze_under(&written.text, engine.dialect(), schema, isolation).ok()?;
    footprint.locks.iter_mut().for_each(|lock| request::bind(&mut lock.rows, written, engine));
    Some(footprint)
}
