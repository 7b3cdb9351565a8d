//! `trigger-locks`: a function or trigger locked what the statement does not name.

use super::{Hazard, Verdict, fix};
use crate::report::Certainty;
use crate::statement::Case;

pub(super) const HAZARD: Hazard = Hazard {
    name: "trigger-locks",
    title: "a trigger or function locks rows that the statement does not name",
    about: "A trigger runs statements of its own in the transaction that fires it: a counter in a parent, an audit row, a \
            denormalised sum. Their locks come at a place in the order that the calling code does not see. Lock what the trigger \
            will touch before the statement that fires it, or move its work out of the transaction.",
    judge: Some(judge),
    ..Hazard::PLAIN
};

fn judge(case: &Case<'_>) -> Option<Verdict> {
    let function = case.report.parties.iter().flat_map(|party| &party.context).find_map(|line| {
        let rest = line.strip_prefix("PL/pgSQL function ").or_else(|| line.strip_prefix("SQL function "))?;
        Some(rest.split(" line ").next().unwrap_or(rest).trim_matches('"').to_owned())
    })?;
    let table = (0..case.count()).find_map(|party| case.wanted_table(party)).unwrap_or_else(|| "a table".to_owned());
    Some(Verdict {
        cause: format!(
            "The wait came about inside {function}, which locks rows of {table} that the calling statement does not name."
        ),
        certainty: Certainty::Known,
        fix: vec![
            fix(format!(
                "Lock the rows that {function} touches before the statement that calls or fires it, in the order of all others."
            )),
            fix("Or let the function note the work (an outbox row), and do it in a transaction of its own."),
        ],
    })
}
