//! `hidden-foreign-key-lock`: the check of a foreign key locks the parent's row, which no statement of the code names.

use super::{Hazard, Verdict, fix, inferred};
use crate::fix::lock_first;
use crate::innodb::Mode;
use crate::report::{Certainty, Engine, Object};
use crate::statement::{Case, Verb, same_table};

pub(super) const HAZARD: Hazard = Hazard {
    name: "hidden-foreign-key-lock",
    title: "a foreign key locks the parent's row",
    about: "INSERT of a child, and UPDATE of its foreign key, lock the parent's row: key share on PostgreSQL, shared on InnoDB. \
            No statement names that row, so that code which takes care of its order forgets it. Lock the parent first, with \
            the strength that the transaction will need (FOR NO KEY UPDATE on PostgreSQL, FOR UPDATE on InnoDB), at its place in \
            the order. On PostgreSQL an UPDATE of a parent's other columns does not conflict; DELETE and a change of its key do.",
    judge: Some(judge),
    ..Hazard::PLAIN
};

fn judge(case: &Case<'_>) -> Option<Verdict> {
    let engine = case.report.engine;
    let check = case.report.parties.iter().position(|party| {
        party
            .context
            .iter()
            .chain(&party.statement)
            .any(|line| line.contains("SELECT 1 FROM ONLY") && line.contains("FOR KEY SHARE"))
    });
    let (party, certainty) = match check {
        Some(party) => (party, Certainty::Known),
        None => match foreign_wait(case) {
            Some(found) => found,
            None if at_commit(case).is_some() => return at_commit(case),
            None => return unnamed(case).map(|(waiter, certainty)| held_parent(case, waiter, certainty)),
        },
    };
    let parent = case.wanted_table(party).unwrap_or_else(|| "the parent".to_owned());
    let cause = format!(
        "The statement writes a child row, whose foreign key is checked by locking its row in {parent}. That row is locked by \
         the other transaction, which in turn waits for what this one has changed."
    );
    // The other one names the parent's row in its own statement, or holds it by an earlier one.
    let rewritten = (0..case.count()).find_map(|other| {
        let (columns, key) = case.current(other)?.key(&parent)?;
        Some(lock_first(engine, &parent, columns, &[key.to_vec()]))
    });
    let rewritten = rewritten.or_else(|| {
        let taker = case.taker(case.report.parties.get(party)?.blocked_by?)?;
        let (columns, keys) = taker.keys(&parent)?;
        Some(lock_first(engine, &parent, columns, keys))
    });
    let mut first = fix(format!(
        "Lock the row of {parent} before the child is written, at its place in the order, at full strength."
    ));
    first.sql = rewritten;
    let mut all = vec![first];
    if engine == Engine::Postgres {
        all.push(fix("Where the other locks the parent by FOR UPDATE and neither deletes it nor changes its key, FOR NO KEY UPDATE lets children in."));
    }
    Some(Verdict { cause, certainty, fix: all })
}

/// COMMIT waits for rows where a deferred constraint is checked: a foreign key, or a unique or exclusion constraint.
fn at_commit(case: &Case<'_>) -> Option<Verdict> {
    let commit = (0..case.count()).find(|party| case.verb(*party) == Verb::Commit)?;
    let name = crate::explain::letter(commit);
    let cause = format!(
        "{name} waits at COMMIT, where constraints that are deferred are checked: it locks rows then (a parent's row, a key that \
         another inserts) while it holds all that it has changed."
    );
    let mut immediate =
        fix("Check at the statement, whose place in the order can be seen, where the cycle of references allows it.");
    immediate.sql = Some("SET CONSTRAINTS ALL IMMEDIATE".to_owned());
    let first = fix(
        "Or lock the rows that the check will lock (parents of the foreign key) at their place in the order, before COMMIT.",
    );
    Some(Verdict {
        cause,
        certainty: inferred("only a deferred constraint makes COMMIT wait for rows"),
        fix: vec![immediate, first],
    })
}

/// What is waited for is the parent's row, which the check of an earlier statement has locked.
fn held_parent(case: &Case<'_>, waiter: usize, certainty: Certainty) -> Verdict {
    let parent = case.wanted_table(waiter).unwrap_or_else(|| "the parent".to_owned());
    let cause = format!(
        "An earlier statement wrote a child row, whose foreign key is checked by locking its row in {parent}; the other \
         transaction waits to change that row, and holds what this one wants now."
    );
    let mut first = fix(format!(
        "Lock the row of {parent} before the child is written, at its place in the order, at full strength."
    ));
    first.sql =
        case.wanted_key(waiter).map(|(columns, key)| lock_first(case.report.engine, &parent, columns, &[key.to_vec()]));
    Verdict { cause, certainty, fix: vec![first] }
}

/// The log has all of a transaction, and none of its statements names the row that it is waited for at; but one writes a row
/// of another table, which can be its child.
fn unnamed(case: &Case<'_>) -> Option<(usize, Certainty)> {
    (0..case.count()).find_map(|waiter| {
        let wait = case.report.parties.get(waiter)?;
        let holder = wait.blocked_by?;
        let table = case.wanted_table(waiter)?;
        let rows = matches!(wait.waits.as_ref()?.object, Object::Row(_) | Object::Transaction(_));
        let earlier = case.earlier.get(holder)?;
        let whole = case.report.parties.get(holder)?.whole;
        if !rows || !whole || earlier.iter().any(|statement| statement.lock(&table).is_some()) {
            return None;
        }
        let child = earlier.iter().find(|statement| matches!(statement.verb, Verb::Insert | Verb::Update))?.table()?;
        let from = format!(
            "the log has all its statements; none names {table}, and one writes {child}, which can refer to it"
        );
        Some((waiter, inferred(from)))
    })
}

/// A transaction waits for a shared lock, or holds one and wants another row, on a table that its INSERT does not name.
fn foreign_wait(case: &Case<'_>) -> Option<(usize, Certainty)> {
    if case.report.engine == Engine::Postgres {
        return None;
    }
    (0..case.count()).find_map(|at| {
        let statement = case.current(at).filter(|statement| matches!(statement.verb, Verb::Insert | Verb::Update))?;
        let party = case.report.parties.get(at)?;
        let wait = party.waits.as_ref()?;
        let (mode, table, own) = (Mode::read(&wait.mode), wait.table()?, statement.table()?);
        let shared = mode.shared && !same_table(&own, table) && statement.lock(table).is_none();
        shared.then(|| (at, inferred(format!("the statement writes {own} and waits for a shared lock on {table}"))))
    })
}
