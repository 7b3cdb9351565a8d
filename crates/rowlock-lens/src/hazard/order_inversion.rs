//! `order-inversion`: two tables, locked in opposite orders.

use super::{Hazard, Verdict, fix};
use crate::finding::Fix;
use crate::fix::lock_first;
use crate::report::Certainty;
use crate::statement::{Case, same_table};

pub(super) const HAZARD: Hazard = Hazard {
    name: "order-inversion",
    title: "tables are locked in opposite orders",
    about: "One transaction locks a row of A and then one of B, another a row of B and then one of A; each is right by itself. \
            Rank the tables once for the whole system, and lock in ascending rank everywhere: what is needed late is locked early, \
            by a SELECT .. FOR UPDATE at its place, before the statement that changes it.",
    judge: Some(judge),
    ..Hazard::PLAIN
};

fn judge(case: &Case<'_>) -> Option<Verdict> {
    let engine = case.report.engine;
    // (party, held, wanted), of those of whom both are known.
    let steps: Vec<(usize, String, String)> = (0..case.count())
        .filter_map(|party| Some((party, case.held_table(party)?, case.wanted_table(party)?)))
        .collect();
    if steps.len() < 2 || steps.iter().all(|(_, held, wanted)| same_table(held, wanted)) {
        return None;
    }
    let mut order: Vec<&str> = steps.iter().map(|(_, held, _)| held.as_str()).collect();
    order.sort_unstable();
    order.dedup_by(|a, b| same_table(a, b));
    let told: Vec<String> = steps.iter().map(|(_, held, wanted)| format!("{held} and then {wanted}")).collect();
    let cause = format!("They lock the same tables in different orders: {}.", told.join("; "));
    let rank = |table: &str| order.iter().position(|other| same_table(other, table)).unwrap_or(usize::MAX);
    let mut fixes = vec![fix(format!(
        "Choose one order for the whole system, for example {}, and hold every transaction to it.",
        order.join(", then ")
    ))];
    // Those that break the order: what they want ranks below what they hold.
    for (party, held, wanted) in steps.iter().filter(|(_, held, wanted)| rank(wanted) < rank(held)) {
        let Some((columns, key)) = case.wanted_key(*party) else { continue };
        let lock = lock_first(engine, wanted, columns, &[key.to_vec()]);
        let name = crate::explain::letter(*party);
        let sql = match case.earlier.get(*party).filter(|earlier| !earlier.is_empty()) {
            None => lock,
            Some(earlier) => {
                let mut all = vec!["BEGIN".to_owned(), lock];
                all.extend(earlier.iter().map(|statement| statement.text.clone()));
                all.extend(case.current(*party).map(|statement| statement.text.clone()));
                all.join("; ")
            }
        };
        fixes.push(Fix {
            text: format!("In that order, {name} locks {wanted} before it touches {held}."),
            sql: Some(sql),
        });
    }
    Some(Verdict { cause, certainty: Certainty::Known, fix: fixes })
}
