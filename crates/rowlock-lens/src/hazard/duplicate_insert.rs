//! `duplicate-insert`: several transactions insert the same keys.

use super::{Hazard, Verdict, fix, inferred};
use crate::finding::Fix;
use crate::fix::sorted_insert;
use crate::innodb::Mode;
use crate::report::{Certainty, Engine};
use crate::statement::{Case, Verb};

pub(super) const HAZARD: Hazard = Hazard {
    name: "duplicate-insert",
    title: "several transactions insert the same keys",
    about: "An INSERT whose key somebody else has inserted and not committed waits for that transaction's end. Two that insert \
            the same keys in opposite orders deadlock, on every engine. On InnoDB the duplicate check takes a shared lock, so \
            that three inserts of one key deadlock when the first rolls back. Sort the rows of a batch by their key, write each \
            batch by one statement, and put an INSERT that may meet its like in a transaction of its own.",
    judge: Some(judge),
    ..Hazard::PLAIN
};

fn judge(case: &Case<'_>) -> Option<Verdict> {
    let engine = case.report.engine;
    let inserts: Vec<usize> = (0..case.count()).filter(|party| case.verb(*party) == Verb::Insert).collect();
    let certainty = match engine {
        Engine::Postgres => postgres(case, &inserts)?,
        _ => innodb(case, &inserts)?,
    };
    let one_row =
        inserts.iter().filter_map(|party| case.current(*party)).all(|statement| !statement.text.contains("),"));
    let cause = if one_row {
        "Each has inserted a key that another one is about to insert, and waits for the other's end to know whether its own is a \
         duplicate: they insert the same keys in different orders."
    } else {
        "Batches insert some of the same keys, each in its own order: each waits for the other's end at a key that it has not \
         come to first."
    };
    let mut fixes = vec![fix(
        "Insert in ascending order of the unique key, in every batch and loop: then one waits for the other, and no cycle closes.",
    )];
    let sorted =
        inserts.iter().filter_map(|party| case.current(*party)).find_map(|statement| sorted_insert(&statement.text));
    if let (Some(sql), Some(first)) = (sorted, fixes.first_mut()) {
        first.sql = Some(sql);
    }
    let mut alone = Fix {
        text: "Or commit after each row: an INSERT alone holds nothing that another waits for.".into(),
        sql: None,
    };
    if engine != Engine::Postgres {
        alone
            .text
            .push_str(" (Three inserts of one key can still deadlock on InnoDB when the first rolls back: retry.)");
    }
    fixes.push(alone);
    Some(Verdict { cause: cause.into(), certainty, fix: fixes })
}

/// A wait at a unique index; or all insert, and wait for each other's ends.
fn postgres(case: &Case<'_>, inserts: &[usize]) -> Option<Certainty> {
    let at_index = case
        .report
        .parties
        .iter()
        .any(|party| party.waits.as_ref().and_then(|w| w.row()).is_some_and(|row| row.index.is_some()));
    if at_index && !inserts.is_empty() {
        return Some(Certainty::Known);
    }
    (inserts.len() == case.count() && !inserts.is_empty())
        .then(|| inferred("all of them were inserting, and each waited for another's end"))
}

/// The duplicate check's shared lock: waited for, or held while the insertion waits.
fn innodb(case: &Case<'_>, inserts: &[usize]) -> Option<Certainty> {
    let waits_shared = inserts.iter().any(|at| {
        let Some(party) = case.report.parties.get(*at) else { return false };
        let Some(wait) = &party.waits else { return false };
        let mode = Mode::read(&wait.mode);
        let own = case
            .current(*at)
            .and_then(|s| s.table())
            .is_some_and(|own| wait.table().is_some_and(|t| crate::statement::same_table(&own, t)));
        let exclusive_own = mode.exclusive && !mode.insert_intention && own;
        let holds_shared =
            || party.holds.iter().any(|lock| Mode::read(&lock.mode).shared && lock.table() == wait.table());
        own && (mode.shared || exclusive_own || (mode.insert_intention && holds_shared()))
    });
    waits_shared.then_some(Certainty::Known)
}
