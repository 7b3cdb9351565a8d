//! `cascade-locks`: ON DELETE CASCADE and its like lock children that no statement names.

use super::{Hazard, Verdict, fix};
use crate::report::{Certainty, Engine};
use crate::statement::{Case, Verb, same_table};

pub(super) const HAZARD: Hazard = Hazard {
    name: "cascade-locks",
    title: "a cascade locks child rows",
    about: "DELETE of a parent with ON DELETE CASCADE or SET NULL changes its children, in whatever order the index has them; \
            others that lock children first and the parent later meet it head on. Lock the parent first in every transaction that \
            touches its children, or delete the children yourself, in key order, before the parent.",
    judge: Some(judge),
    ..Hazard::PLAIN
};

fn judge(case: &Case<'_>) -> Option<Verdict> {
    let by_context = case.context_has(&["SQL statement \"DELETE FROM ONLY", "SQL statement \"UPDATE ONLY"]);
    let by_table = case.report.engine != Engine::Postgres
        && (0..case.count()).any(|at| {
            let Some(statement) = case.current(at).filter(|statement| statement.verb == Verb::Delete) else {
                return false;
            };
            let (Some(own), Some(wanted)) = (statement.table(), case.wanted_table(at)) else { return false };
            !same_table(&own, &wanted) && statement.lock(&wanted).is_none()
        });
    if !by_context && !by_table {
        return None;
    }
    let cause = "A statement changes a parent's row, and by a foreign key's cascade rows of its children, which the other \
                 transaction has locked already while it waits for what this one holds.";
    let certainty = match by_context {
        true => Certainty::Known,
        false => super::inferred("a DELETE waits for a table that it does not name"),
    };
    Some(Verdict {
        cause: cause.into(),
        certainty,
        fix: vec![
            fix("Lock the parent's row first in every transaction that touches its children."),
            fix("Or delete the children by a statement of your own, in key order, before the parent."),
        ],
    })
}
