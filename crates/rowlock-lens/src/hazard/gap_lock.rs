//! `gap-lock`: the gap where a row would stand is locked by several, and each wants to insert into it (InnoDB).

use super::{Hazard, Verdict, inferred};
use crate::finding::Fix;
use crate::innodb::Mode;
use crate::report::{Certainty, Engine};
use crate::statement::{Case, Verb};

pub(super) const HAZARD: Hazard = Hazard {
    name: "gap-lock",
    title: "gaps between rows are locked, and then inserted into",
    about: "Under REPEATABLE READ (InnoDB's default) a locking read, UPDATE or DELETE locks the gaps around what it finds, and \
            where it finds nothing, the gap where the row would stand: up to the table's end when it lies past the last key. Any \
            number of transactions can hold one gap, but none may insert into a gap that another holds. \"Look whether it is \
            there, else insert it\" therefore deadlocks with itself. Insert first and handle the duplicate, or use READ COMMITTED, \
            which does not lock those gaps.",
    judge: Some(judge),
    ..Hazard::PLAIN
};

fn judge(case: &Case<'_>) -> Option<Verdict> {
    if case.report.engine == Engine::Postgres {
        return None;
    }
    let wait = |party: usize| case.report.parties.get(party)?.waits.as_ref();
    let inserting: Vec<usize> =
        (0..case.count()).filter(|at| wait(*at).is_some_and(|lock| Mode::read(&lock.mode).insert_intention)).collect();
    let first = *inserting.first()?;
    let lock = wait(first)?;
    let end = lock.row().and_then(|row| row.record.as_ref()).is_some_and(|record| record.supremum);
    let (table, index) =
        (lock.table().unwrap_or("the table"), lock.row().and_then(|row| row.index.as_deref()).unwrap_or("an index"));
    let gap = if end {
        format!("the gap behind the last key of index {index} of {table}")
    } else {
        format!("a gap in index {index} of {table}")
    };
    let (cause, certainty) = if inserting.len() == case.count() {
        (
            format!(
                "Each holds {gap}, by an earlier statement that looked for rows there, and wants to insert into what another holds."
            ),
            Certainty::Known,
        )
    } else {
        (
            format!(
                "One wants to insert into {gap}, which the other holds; the other waits for a row that the first has locked."
            ),
            inferred("only one of them waits to insert"),
        )
    };
    let mut fixes = Vec::new();
    let insert =
        inserting.iter().filter_map(|party| case.current(*party)).find(|statement| statement.verb == Verb::Insert);
    let plain = insert.filter(|statement| {
        let shape = crate::sql::shape(&statement.text, case.report.engine);
        shape.starts_with("insert into") && !shape.contains("on duplicate key") && shape.contains(" values")
    });
    fixes.push(Fix {
        text:
            "Insert without looking first, and handle what is there already (put the key's own column into the no-op)."
                .into(),
        sql: plain.map(|statement| format!("{} ON DUPLICATE KEY UPDATE id = id", statement.text)),
    });
    fixes.push(Fix {
        text: "Or run these transactions under READ COMMITTED, where a search that finds nothing locks nothing.".into(),
        sql: Some("SET TRANSACTION ISOLATION LEVEL READ COMMITTED".into()),
    });
    Some(Verdict { cause, certainty, fix: fixes })
}
