//! The model's answer against the server's.

use std::{collections::BTreeMap, fmt};

use rowlock_footprint::{Footprint, Literal, Lock, Rows, Strength, Value};

use crate::server::{Row, TABLES, Truth};

/// One row on which they differ.
#[derive(Debug)]
pub(crate) enum Difference {
    /// The server holds it, the model says nothing of it: the kind that lets a deadlock through.
    Unreported(Row, Strength),
    /// The server holds it more strongly.
    TooWeak(Row, Strength, Strength),
    /// The server holds it more weakly.
    TooStrong(Row, Strength, Strength),
    /// The server does not hold it.
    NotLocked(Row, Strength),
    /// A new row of which the model says nothing.
    UnreportedInsert(Row),
    /// A new row whose key another insert does not wait for.
    NotGuarded(Row),
}

impl Difference {
    /// The word that `differences.rs` knows it by.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Difference::Unreported(..) => "unreported",
            Difference::TooWeak(..) => "too weak",
            Difference::TooStrong(..) => "too strong",
            Difference::NotLocked(..) => "not locked",
            Difference::UnreportedInsert(..) => "unreported insert",
            Difference::NotGuarded(..) => "not guarded",
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Unreported(row, _)
        | Self::TooWeak(row, ..)
        | Self::TooStrong(row, ..)
        | Self::NotLocked(row, _)
        | Self::UnreportedInsert(row)
        | Self::NotGuarded(row)) = self;
        let values: Vec<&str> = row.1.iter().map(|v| v.as_deref().unwrap_or("null")).collect();
        write!(f, "{}: {} ({})", self.word(), row.0, values.join(", "))?;
        match self {
            Self::TooWeak(_, model, server) | Self::TooStrong(_, model, server) => {
                write!(f, ": the model says {model}, the server holds {server}")
            }
            Self::Unreported(_, strength) => write!(f, ": the server holds {strength}"),
            Self::NotLocked(_, strength) => write!(f, ": the model says {strength}"),
            _ => Ok(()),
        }
    }
}

pub(crate) fn differences(footprint: &Footprint, truth: &Truth, filters: bool) -> Vec<Difference> {
    let mut found = Vec::new();
    for (row, &held) in &truth.before {
        let (named, some) = said(footprint, row);
        let most = named.max(some);
        match (held, most) {
            (None, None) => {}
            (Some(held), None) => found.push(Difference::Unreported(row.clone(), held)),
            (Some(held), Some(most)) if held > most => found.push(Difference::TooWeak(row.clone(), most, held)),
            (Some(held), Some(most)) if held < most && some.is_none() => {
                found.push(Difference::TooStrong(row.clone(), most, held));
            }
            (None, Some(most)) if named.is_some() && some.is_none() && !filters => {
                found.push(Difference::NotLocked(row.clone(), most));
            }
            _ => {}
        }
    }
    for row in &truth.made {
        let fresh = footprint.locks.iter().any(|lock| lock.table.name == row.0 && lock.rows == Rows::Fresh);
        let (named, some) = said(footprint, row);
        if named.max(some).is_none() && !fresh {
            found.push(Difference::UnreportedInsert(row.clone()));
        }
        if !truth.guarded.contains(row) {
            found.push(Difference::NotGuarded(row.clone()));
        }
    }
    found
}

/// How strongly the model says that the row is locked: by name, and as one of some rows.
fn said(footprint: &Footprint, row: &Row) -> (Option<Strength>, Option<Strength>) {
    let table = TABLES.iter().find(|table| table.name == row.0).unwrap();
    let values: BTreeMap<&str, Option<&str>> =
        table.columns.iter().copied().zip(row.1.iter().map(Option::as_deref)).collect();
    let (mut named, mut some) = (None, None);
    for Lock { strength, rows, .. } in footprint.locks.iter().filter(|lock| lock.table.name == row.0) {
        match rows {
            Rows::Fresh => {}
            Rows::Unknown => some = some.max(Some(*strength)),
            Rows::Keys { columns, keys } => {
                for key in keys {
                    let parts = columns.iter().zip(key).map(|(column, value)| match value {
                        Value::Literal(literal) => Some(values.get(&**column) == Some(&text(literal).as_deref())),
                        _ => None,
                    });
                    let parts: Vec<Option<bool>> = parts.collect();
                    if parts.contains(&Some(false)) {
                        continue;
                    }
                    if parts.contains(&None) {
                        some = some.max(Some(*strength))
                    } else {
                        named = named.max(Some(*strength))
                    }
                }
            }
        }
    }
    (named, some)
}

fn text(literal: &Literal) -> Option<String> {
    match literal {
        Literal::Integer(n) => Some(n.to_string()),
        Literal::Text(text) => Some(text.clone()),
        Literal::Bytes(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        Literal::Null => None,
    }
}
