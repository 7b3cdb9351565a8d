//! `index-order`: one row's entries in two indexes, locked in opposite orders (InnoDB).

use super::{Hazard, Verdict, fix};
use crate::finding::Fix;
use crate::fix::by_primary_key;
use crate::report::{Certainty, Engine, Row};
use crate::statement::{Case, same_table};

pub(super) const HAZARD: Hazard = Hazard {
    name: "index-order",
    title: "one statement goes by a secondary index, another by the primary key",
    about: "InnoDB locks entries of indexes, not rows. A statement that finds its rows by a secondary index locks the entry there \
            and then the primary key's; an UPDATE that comes by the primary key and changes that column locks them the other way \
            round. Even autocommit statements deadlock so. Look the keys up first, without a lock, then lock and change by primary \
            key, in its order, and check the condition again under the lock.",
    judge: Some(judge),
    ..Hazard::PLAIN
};

fn judge(case: &Case<'_>) -> Option<Verdict> {
    if case.report.engine == Engine::Postgres {
        return None;
    }
    let rows: Vec<&Row> = case.report.parties.iter().filter_map(|party| party.waits.as_ref()?.row()).collect();
    let first = rows.first()?;
    let table = first.table.clone()?;
    if rows.len() < 2 || !rows.iter().all(|row| row.table.as_deref().is_some_and(|other| same_table(other, &table))) {
        return None;
    }
    let other = rows.iter().find(|row| row.index != first.index)?;
    let (a, b) = (first.index.as_deref()?, other.index.as_deref()?);
    let secondary = if a == "PRIMARY" { b } else { a };
    let sql = (0..case.count())
        .filter_map(|party| case.current(party))
        .find_map(|statement| by_primary_key(statement, &table));
    Some(Verdict {
        cause: format!(
            "Both lock rows of {table}, one by index {a}, the other by index {b}: the same row's entries in the two are locked in \
             opposite orders."
        ),
        certainty: Certainty::Known,
        fix: vec![
            Fix {
                text: format!(
                    "Find the keys by {secondary} without a lock, then lock by primary key (here: id), in ascending order."
                ),
                sql,
            },
            fix("READ COMMITTED lets go of entries that do not meet the condition, and makes it rarer."),
        ],
    })
}
