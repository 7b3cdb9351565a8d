//! `unsorted-keys`: several rows of one table, in different orders.

use super::{Hazard, Verdict, inferred};
use crate::finding::Fix;
use crate::fix::{lock_first, sorted};
use crate::statement::{Case, same_table};

pub(super) const HAZARD: Hazard = Hazard {
    name: "unsorted-keys",
    title: "rows of one table are locked in different orders",
    about: "A loop that updates rows as its input lists them, or a statement with IN (..), which locks in the order of whatever \
            scan the server chooses, meets its like that goes the other way round. Sort and de-duplicate the keys, and lock all \
            rows in that order by one statement, before the first change: on PostgreSQL SELECT .. ORDER BY key FOR NO KEY UPDATE \
            (UPDATE .. WHERE id IN (..) has no order), on InnoDB by FORCE INDEX (PRIMARY) with ORDER BY.",
    judge: Some(judge),
    ..Hazard::PLAIN
};

fn judge(case: &Case<'_>) -> Option<Verdict> {
    let engine = case.report.engine;
    let tables: Vec<String> = (0..case.count()).filter_map(|party| case.wanted_table(party)).collect();
    let table = tables.first()?;
    if tables.len() < 2 || tables.len() < case.count() || !tables.iter().all(|other| same_table(other, table)) {
        return None;
    }
    let several = (0..case.count()).filter_map(|party| case.current(party)).find(|statement| statement.several(table));
    let (cause, fix) = if let Some(statement) = several {
        let cause = format!(
            "A statement locks several rows of {table}, one after the other, in the order of its scan; another locks some of them in another order."
        );
        (
            cause,
            Fix {
                text: format!(
                    "Lock the rows first, in the order of their key{}, then change them.",
                    if statement.keys(table).is_none() { " (here: id)" } else { "" }
                ),
                sql: sorted(statement, table, engine),
            },
        )
    } else {
        let cause = format!("Each changes several rows of {table}, one by one, in an order of its own.");
        let mut keys: Vec<_> = (0..case.count()).filter_map(|party| case.wanted_key(party)).collect();
        keys.retain(|(columns, _)| Some(*columns) == case.wanted_key(0).map(|(first, _)| first));
        let columns = keys.first().map(|(columns, _)| columns.to_vec());
        let list: Vec<_> = keys.iter().map(|(_, key)| key.to_vec()).collect();
        let sql = columns.map(|columns| lock_first(engine, table, &columns, &list));
        (
            cause,
            Fix {
                text: "Sort and de-duplicate the keys, and lock all rows by one statement before the loop.".into(),
                sql,
            },
        )
    };
    let certainty = match case.one_shape() {
        true => inferred("they run one and the same statement on one table"),
        false => inferred("all of them wait for rows of one table"),
    };
    Some(Verdict { cause, certainty, fix: vec![fix] })
}
