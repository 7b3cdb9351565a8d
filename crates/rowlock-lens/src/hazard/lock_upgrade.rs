//! `lock-upgrade`: both share a row, and both want to change it.

use super::{Hazard, Verdict, fix, inferred};
use crate::finding::Fix;
use crate::fix::{lock_first, strengthen};
use crate::innodb::Mode;
use crate::report::{Certainty, Engine, Party, Row};
use crate::statement::Case;

pub(super) const HAZARD: Hazard = Hazard {
    name: "lock-upgrade",
    title: "a shared lock is raised while another shares it",
    about: "Two transactions hold one row in a weak mode (FOR SHARE, LOCK IN SHARE MODE, a foreign key's check), and each asks \
            for a stronger one: each waits for the other to let go of the weak one. Ask for the strength that will be needed at \
            once, at the first touch of the row.",
    judge: Some(judge),
    ..Hazard::PLAIN
};

fn judge(case: &Case<'_>) -> Option<Verdict> {
    let engine = case.report.engine;
    if case.count() < 2 {
        return None;
    }
    let certainty = match engine {
        Engine::Postgres => postgres(case)?,
        _ => innodb(case)?,
    };
    let table = case.wanted_table(0)?;
    let shared = (0..case.count())
        .filter_map(|party| case.taker(party))
        .find_map(|taker| Some((taker, strengthen(&taker.text, engine)?)));
    let mut fixes = Vec::new();
    let (how, sql) = match &shared {
        Some((_, sql)) => {
            (format!("Ask for the full strength at the first touch of the row of {table}."), Some(sql.clone()))
        }
        None => {
            let sql = case.wanted_key(0).map(|(columns, key)| lock_first(engine, &table, columns, &[key.to_vec()]));
            (
                format!(
                    "Lock the row of {table} at full strength before whatever shares it (FOR SHARE, or the INSERT of a child)."
                ),
                sql,
            )
        }
    };
    fixes.push(Fix { text: how, sql });
    fixes.push(fix("Where the row is only subtracted from, one conditional UPDATE needs no lock before it."));
    let cause = format!(
        "All of them share one row of {table}, and each waits to change it, which it may only when no other shares it."
    );
    Some(Verdict { cause, certainty, fix: fixes })
}

/// Each holds a shared lock on the record that it waits for.
fn innodb(case: &Case<'_>) -> Option<Certainty> {
    let first = case.report.parties.first()?.waits.as_ref()?.row()?;
    let same = case.report.parties.iter().all(|party| {
        let row = party.waits.as_ref().and_then(|wait| wait.row());
        match keyed(party) {
            Some(_) => raises(party),
            None => row.is_some_and(|row| row.place.is_some() && row.place == first.place && row.table == first.table),
        }
    });
    let shares = case.report.parties.iter().flat_map(|party| &party.holds).any(|lock| Mode::read(&lock.mode).shared);
    match (same, shares) {
        (true, true) => Some(Certainty::Known),
        (true, false) => Some(inferred("all of them wait for one record")),
        _ => None,
    }
}

/// The key of the row that a party waits for, where `check` wrote it.
fn keyed(party: &Party) -> Option<&Row> {
    party.waits.as_ref()?.row().filter(|row| row.key.is_some())
}

/// Whether a party waits for the very row that it holds.
fn raises(party: &Party) -> bool {
    let wanted = keyed(party).map(|row| (&row.table, &row.key));
    party.holds.iter().filter_map(|lock| lock.row()).any(|row| Some((&row.table, &row.key)) == wanted)
}

/// All wait for one row. By its place, where CONTEXT tells it of all; else by their statements' keys.
fn postgres(case: &Case<'_>) -> Option<Certainty> {
    if case.report.parties.iter().all(|party| keyed(party).is_some()) {
        let raised = case.report.parties.iter().all(raises);
        return raised.then(|| inferred("each asks for the row that it holds"));
    }
    // A queue for a row that somebody else queues for: the holder of the queue waits for the row itself.
    let on_tuple = case
        .report
        .parties
        .iter()
        .any(|party| party.waits.as_ref().is_some_and(|wait| wait.mode == "ExclusiveLock" && wait.row().is_some()));
    let keys: Vec<_> =
        (0..case.count()).filter_map(|party| Some((case.wanted_table(party)?, case.wanted_key(party)?))).collect();
    let (table, key) = keys.first()?;
    let literal = |key: &(&[String], &[rowlock_footprint::Value])| {
        key.1.iter().all(|value| matches!(value, rowlock_footprint::Value::Literal(_)))
    };
    let same = keys.len() == case.count()
        && keys.iter().all(|(other, its)| crate::statement::same_table(other, table) && its == key && literal(its));
    let from =
        if on_tuple { "they wait for one row, one of them in its queue" } else { "their statements name one row" };
    same.then(|| inferred(from))
}
