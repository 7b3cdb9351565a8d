//! What a transaction asks a server for, one lock after the other, and which of them can meet another's.

use rowlock_footprint::{Cause, Literal, Rows, Schema, Strength, TableName, Value, Verb, Wait, analyze_under};

use crate::report::Engine;
use crate::workload::{Isolation, Kind, Rise, Statement, Workload};

/// Most keys of one statement that are told apart; of a longer list, the model knows only that it is some rows.
const MOST_KEYS: usize = 64;

/// A lock that a transaction asks for.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// By which of its statements.
    pub(crate) statement: usize,
    pub(crate) table: TableName,
    /// The row, by a key; none: some rows, one after the other.
    pub(crate) row: Option<Key>,
    pub(crate) strength: Strength,
    pub(crate) cause: Cause,
    pub(crate) wait: Wait,
}

/// A key: columns, and values as the statement gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub(crate) columns: Vec<String>,
    pub(crate) values: Vec<Value>,
}

/// What a transaction asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests {
    /// In the order in which they are asked for.
    pub(crate) locks: Vec<Request>,
    /// Statements that the model cannot judge, by their place, with why.
    pub(crate) unread: Vec<(usize, String)>,
    /// Names behind which more may be locked, and tables of which nothing is known.
    pub(crate) assumed: Vec<String>,
    /// Parameters that rose in each transaction that was seen.
    pub(crate) rises: Vec<Rise>,
}

impl Requests {
    pub(crate) fn of(kind: &Kind, workload: &Workload) -> Requests {
        let rises = kind.seen.as_ref().map(|seen| seen.rises.clone()).unwrap_or_default();
        let mut requests = Requests { rises, ..Requests::default() };
        // A SELECT that is alone reads a snapshot at every level.
        let most = if kind.autocommit { Isolation::RepeatableRead } else { Isolation::Serializable };
        let isolation = workload.isolation_of(kind).min(most);
        for (at, statement) in kind.statements.iter().enumerate() {
            requests.add(at, statement, workload, isolation);
        }
        requests.assume_rises(kind, &workload.schema);
        requests
    }

    fn add(&mut self, at: usize, statement: &Statement, workload: &Workload, isolation: Isolation) {
        let Workload { engine, schema, .. } = workload;
        let engine = *engine;
        let footprint = match analyze_under(&statement.text, engine.dialect(), schema, isolation) {
            Ok(footprint) => footprint,
            Err(unreadable) => return self.unread.push((at, unreadable.to_string())),
        };
        match footprint.verb {
            Verb::TableLock => {
                self.unread.push((at, "it locks whole tables, which is not judged".to_owned()));
            }
            Verb::Opaque => self.unread.push((at, "it hides what it runs".to_owned())),
            Verb::Read | Verb::Write | Verb::Session | Verb::TransactionControl => {}
        }
        for name in &footprint.opaque {
            self.assume(format!("{name} locks nothing (the text does not show what it runs)"));
        }
        for mut lock in footprint.locks {
            bind(&mut lock.rows, statement, engine);
            if schema.table(&lock.table).is_none() {
                let keys = "the schema does not have it: the columns of its WHERE are taken for a key, and foreign keys are not seen";
                self.assume(format!("of {}: {keys}", short(&lock.table, schema)));
            }
            let request = |row| Request {
                statement: at,
                table: lock.table.clone(),
                row,
                strength: lock.strength,
                cause: lock.cause.clone(),
                wait: lock.wait,
            };
            match &lock.rows {
                Rows::Fresh => {}
                Rows::Keys { columns, keys } if keys.len() <= MOST_KEYS && !keys.iter().flatten().any(is_array) => {
                    let mut keys: Vec<Key> = keys
                        .iter()
                        .filter(|values| !values.contains(&Value::Literal(Literal::Null)))
                        .map(|values| Key { columns: columns.clone(), values: values.clone() })
                        .collect();
                    keys.sort_by(|a, b| in_order(a, b).unwrap_or(std::cmp::Ordering::Equal));
                    keys.dedup();
                    self.locks.extend(keys.into_iter().map(|key| request(Some(key))));
                }
                Rows::Keys { .. } | Rows::Unknown => self.locks.push(request(None)),
            }
        }
    }

    /// What only the transactions that were seen speak for.
    fn assume_rises(&mut self, kind: &Kind, schema: &Schema) {
        let Some(seen) = kind.seen.as_ref().filter(|seen| !seen.rises.is_empty()) else { return };
        let has = |request: &Request, parameter| {
            request.row.as_ref().is_some_and(|key| key.values.contains(&Value::Parameter(parameter)))
        };
        let mut tables: Vec<String> = self
            .locks
            .iter()
            .filter(|request| seen.rises.iter().any(|rise| has(request, rise.high)))
            .map(|request| short(&request.table, schema))
            .collect();
        tables.dedup();
        if !tables.is_empty() {
            let (tables, name) = (tables.join(", "), &kind.name);
            let count = match seen.count {
                1 => "the one transaction that was seen".to_owned(),
                n => format!("all {n} transactions that were seen"),
            };
            self.assume(format!("{name} locks {tables} in rising order of keys, as in {count}"));
        }
    }

    fn assume(&mut self, text: String) {
        if !self.assumed.contains(&text) {
            self.assumed.push(text);
        }
    }
}

impl Request {
    /// Whether it can be for a row of the other's, which another transaction asks for.
    pub(crate) fn may_meet(&self, other: &Request) -> bool {
        let apart = |(a, b): (&Key, &Key)| {
            a.columns == b.columns
                && a.values
                    .iter()
                    .zip(&b.values)
                    .any(|(a, b)| matches!((a, b), (Value::Literal(a), Value::Literal(b)) if !equal(a, b)))
        };
        self.table == other.table && !self.row.as_ref().zip(other.row.as_ref()).is_some_and(apart)
    }

    /// Whether it is surely for the other's row. `own`: both are of one transaction, in which a parameter has one value.
    pub(crate) fn surely_meets(&self, other: &Request, own: bool) -> bool {
        let same = |(a, b): (&Key, &Key)| {
            a.columns == b.columns
                && a.values.iter().zip(&b.values).all(|pair| match pair {
                    (Value::Literal(a), Value::Literal(b)) => equal(a, b),
                    (Value::Parameter(a), Value::Parameter(b)) => own && a == b,
                    _ => false,
                })
        };
        self.table == other.table && self.row.as_ref().zip(other.row.as_ref()).is_some_and(same)
    }

    /// Whether it waits for a holder of `held`, when both are for one row.
    ///
    /// PostgreSQL does not show a row to others before its INSERT commits; and a new row waits only for one that may yet
    /// take its key or give it free.
    pub(crate) fn waits_for(&self, held: &Request, engine: Engine) -> bool {
        let inserts = |request: &Request| request.cause == Cause::Insert;
        let frees = |request: &Request| {
            matches!(request.cause, Cause::Delete | Cause::Update | Cause::Upsert | Cause::Cascade(_))
                && request.strength == Strength::Update
        };
        let seen = match (engine, inserts(self), inserts(held)) {
            (Engine::Postgres, true, false) => frees(held),
            (Engine::Postgres, false, true) => false,
            _ => true,
        };
        seen && self.wait == Wait::Wait && self.strength.conflicts(held.strength)
    }

    /// Whether a later request of the same transaction lies surely above this one in the order of their keys: what one
    /// statement asks for, it asks for in that order.
    pub(crate) fn climbs_to(&self, later: &Request, rises: &[Rise]) -> bool {
        let up = |(a, b): (&Key, &Key)| {
            in_order(a, b) == Some(std::cmp::Ordering::Less) || rise(a, b, rises, self.strength >= later.strength)
        };
        self.table == later.table
            && ((self.row.is_none() && later.row.is_none() && self.statement == later.statement)
                || self.row.as_ref().zip(later.row.as_ref()).is_some_and(up))
    }
}

/// A table's name, without the schema that names are looked for in.
pub(crate) fn short(table: &TableName, schema: &Schema) -> String {
    match &table.schema {
        Some(own) if schema.search_path.contains(own) => table.name.clone(),
        _ => table.to_string(),
    }
}

fn is_array(value: &Value) -> bool {
    matches!(value, Value::ParameterArray(_))
}

/// Puts what a statement's parameters stand for in their place.
pub(crate) fn bind(rows: &mut Rows, statement: &Statement, engine: Engine) {
    if let Rows::Keys { keys, .. } = rows {
        keys.iter_mut().flatten().for_each(|value| bind_value(value, statement, engine));
    }
}

/// The same of one value. `?` has no number: unless that is told, each is a value of its own.
pub(crate) fn bind_value(value: &mut Value, statement: &Statement, engine: Engine) {
    if let Value::Parameter(n) = *value {
        match statement.bindings.get(n) {
            Some(bound) => *value = bound.clone(),
            None if engine == Engine::Postgres && statement.bindings.is_empty() => {}
            None => *value = Value::Unknown,
        }
    }
}

/// Whether two literals can be one value of a column: `5` and `'5'` are, and texts that differ in case or in blanks at the
/// end, which most collations of MySQL and MariaDB take for equal.
pub(crate) fn equal(a: &Literal, b: &Literal) -> bool {
    let plain = |literal: &Literal| literal.to_string().trim_matches('\'').trim_end().to_lowercase();
    a == b || plain(a) == plain(b)
}

/// Whether the first key's parameters rise to those of the second. `again`: a row that is asked for once more is not waited
/// for, so that the two may be one.
fn rise(a: &Key, b: &Key, rises: &[Rise], again: bool) -> bool {
    if a.columns != b.columns {
        return false;
    }
    for pair in a.values.iter().zip(&b.values) {
        match pair {
            (Value::Parameter(low), Value::Parameter(high)) if low != high => {
                let last = a.columns.len() == 1;
                return rises
                    .iter()
                    .any(|rise| rise.low == *low && rise.high == *high && (rise.strictly || (last && again)));
            }
            (a, b) if a == b && *a != Value::Unknown => {}
            _ => return false,
        }
    }
    false
}

/// The order of two keys of the same columns, where it is known.
fn in_order(a: &Key, b: &Key) -> Option<std::cmp::Ordering> {
    if a.columns != b.columns {
        return None;
    }
    for pair in a.values.iter().zip(&b.values) {
        let order = match pair {
            (Value::Literal(Literal::Integer(a)), Value::Literal(Literal::Integer(b))) => a.cmp(b),
            (Value::Literal(Literal::Text(a)), Value::Literal(Literal::Text(b))) => a.cmp(b),
            (a, b) if a == b => std::cmp::Ordering::Equal,
            _ => return None,
        };
        if order.is_ne() {
            return Some(order);
        }
    }
    Some(std::cmp::Ordering::Equal)
}
