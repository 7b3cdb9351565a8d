//! `ddl-after-rows`: a whole table is locked by a transaction that has touched tables before.

use super::{Hazard, Verdict, fix};
use crate::finding::Fix;
use crate::report::{Certainty, Engine, Object};
use crate::statement::{Case, Verb};

pub(super) const HAZARD: Hazard = Hazard {
    name: "ddl-after-rows",
    title: "a whole table is locked after rows were",
    about: "ALTER TABLE, CREATE INDEX, TRUNCATE, LOCK TABLE and their like lock a whole table, against every reader or writer \
            of it. A transaction that has read or changed tables before already holds what others of its kind wait for. Run \
            DDL in a transaction of its own, with a short lock_timeout, and retry; lock tables first, in one LOCK TABLE that \
            names them all, in one order.",
    judge: Some(judge),
    ..Hazard::PLAIN
};

/// Modes that a plain SELECT, INSERT, UPDATE or DELETE does not take on a table.
const STRONG: [&str; 5] =
    ["AccessExclusiveLock", "ExclusiveLock", "ShareRowExclusiveLock", "ShareLock", "ShareUpdateExclusiveLock"];

fn judge(case: &Case<'_>) -> Option<Verdict> {
    let table = |party: &crate::report::Party| match &party.waits {
        Some(wait) => match &wait.object {
            Object::Table(table) => Some((table.clone(), wait.mode.clone())),
            // CREATE INDEX CONCURRENTLY waits for the ends of others.
            Object::Other(text) if text.starts_with("virtual transaction") => Some((text.clone(), wait.mode.clone())),
            _ => None,
        },
        None => None,
    };
    let waits: Vec<_> = case.report.parties.iter().filter_map(table).collect();
    let whole = (0..case.count()).any(|party| case.verb(party) == Verb::Table);
    let auto_increment = waits.iter().any(|(_, mode)| mode.contains("AUTO-INC"));
    let strong = waits.iter().any(|(_, mode)| STRONG.contains(&mode.as_str()));
    if waits.is_empty() || !(whole || strong || auto_increment || case.report.engine != Engine::Postgres) {
        return None;
    }
    if auto_increment {
        return Some(Verdict {
            cause: "One holds the table's AUTO-INC lock, which bulk inserts keep to their end, and waits for rows of the other.".into(),
            certainty: Certainty::Known,
            fix: vec![fix("Set innodb_autoinc_lock_mode = 2 (with row-based replication), so that no AUTO-INC lock is held."), fix("Insert in a transaction of its own, without rows locked before.")],
        });
    }
    let same = waits.len() == case.count()
        && waits.iter().all(|(table, _)| Some(table) == waits.first().map(|(first, _)| first));
    let cause = if same && waits.len() > 1 {
        "Each has used the table already, which leaves a weaker lock on it until its end, and then asks to lock it whole: \
         neither can have it while the other is there."
    } else {
        "A transaction that holds locks asks to lock a whole table, which others use while they wait for what it holds."
    };
    let ddl = (0..case.count()).filter_map(|party| case.current(party)).find(|statement| statement.verb == Verb::Table);
    let sql = ddl.map(|statement| statement.text.clone());
    let first = "Run what locks the table as the first statement of a transaction of its own, with a short limit on its wait (lock_timeout, lock_wait_timeout), and retry.";
    Some(Verdict {
        cause: cause.into(),
        certainty: Certainty::Known,
        fix: vec![
            Fix { text: first.into(), sql },
            fix("Where the table must be locked beside others, name them all in one LOCK TABLE, first."),
        ],
    })
}
