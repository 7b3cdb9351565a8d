//! `advisory-mixed`: application locks and row locks, or several application locks, taken in different orders.

use super::{Hazard, Verdict, fix};
use crate::report::{Certainty, Object};
use crate::statement::Case;

pub(super) const HAZARD: Hazard = Hazard {
    name: "advisory-mixed",
    title: "advisory locks taken in another order than other locks",
    about: "An advisory lock (pg_advisory_lock, GET_LOCK) is a lock like any other: it waits, and it can close a cycle. Code \
            that locks rows first and then asks for an advisory lock deadlocks with code that has the advisory lock and asks \
            for the rows. Session-level advisory locks even outlive COMMIT. Give them a rank of their own, before all rows: \
            ask for them first, in ascending order of their numbers, and never while rows are locked.",
    judge: Some(judge),
    ..Hazard::PLAIN
};

fn judge(case: &Case<'_>) -> Option<Verdict> {
    let waits = || case.report.parties.iter().filter_map(|party| party.waits.as_ref());
    let advisory = waits().filter(|wait| matches!(wait.object, Object::Advisory(_))).count();
    if advisory == 0 {
        return None;
    }
    let (cause, first) = if advisory == waits().count() {
        (
            "Each holds an advisory lock and asks for one that another holds: they take them in different orders.",
            "Take advisory locks in ascending order of their numbers, all of them before anything else.",
        )
    } else {
        (
            "One holds an advisory lock and asks for rows, another holds those rows and asks for the advisory lock.",
            "Take the advisory lock first, before the transaction touches rows, in every code path.",
        )
    };
    let second =
        "Where a row stands for what the advisory lock protects, lock the row instead: one kind of lock has one order.";
    Some(Verdict { cause: cause.into(), certainty: Certainty::Known, fix: vec![fix(first), fix(second)] })
}
