//! What a load showed, for people.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::invariant;
use crate::load::tally::{Row, Tally};
use crate::stats::{Locks, Stats};

/// What happened under load, and whether everything holds.
#[derive(Debug)]
pub struct Outcome {
    pub(crate) tally: Tally,
    pub(crate) elapsed: Duration,
    pub(crate) clients: u32,
    pub(crate) before: Stats,
    pub(crate) after: Stats,
    pub(crate) invariants: invariant::Report,
}

impl Outcome {
    /// Whether everything holds: in the database, and in what the clients were told.
    pub fn holds(&self) -> bool {
        self.invariants.holds() && self.tally.inconsistent == 0
    }

    /// The database's errors that reached clients, by the engine's own code.
    pub fn surfaced(&self) -> BTreeMap<String, u64> {
        let before = |code: &str| self.before.surfaced.get(code).copied().unwrap_or_default();
        self.after
            .surfaced
            .iter()
            .map(|(code, count)| (code.clone(), count.saturating_sub(before(code))))
            .filter(|(_, count)| *count > 0)
            .collect()
    }

    /// What rowlock did meanwhile, when the shop uses it.
    pub fn locks(&self) -> Option<Locks> {
        let before = self.before.locks.unwrap_or_default();
        self.after.locks.map(|after| after.since(&before))
    }

    /// How many requests were sent.
    pub fn requests(&self) -> u64 {
        self.tally.kinds.values().map(Row::requests).sum()
    }

    /// What nothing should be: answers that no client expects, with how often each was seen.
    pub fn strange(&self) -> &BTreeMap<String, u64> {
        &self.tally.strange
    }

    /// What is broken, a line each.
    pub fn broken(&self) -> Vec<String> {
        let mut broken: Vec<_> = self.invariants.broken().collect();
        if self.tally.inconsistent > 0 {
            broken.push(format!("{} requests were answered differently when they came again", self.tally.inconsistent));
        }
        broken
    }

    /// Prints everything; the last line says whether it holds.
    pub fn print(&self) {
        let seconds = self.elapsed.as_secs_f64();
        let (requests, done) = (self.requests(), self.tally.kinds.values().map(|row| row.done).sum::<u64>());
        crate::say!(
            "{}, {} way: {} clients, {seconds:.1} s, {requests} requests, {:.0}/s, of which done {:.0}/s",
            self.after.engine,
            self.after.way,
            self.clients,
            requests as f64 / seconds,
            done as f64 / seconds,
        );
        crate::say!("");
        crate::say!(
            "{:<14} {:>8} {:>8} {:>8} {:>6} {:>7} {:>9} {:>8} {:>8} {:>8}",
            "",
            "requests",
            "done",
            "declined",
            "busy",
            "failed",
            "p50 ms",
            "p95",
            "p99",
            "max"
        );
        for (kind, row) in &self.tally.kinds {
            let ms = |micros: u64| micros as f64 / 1000.0;
            crate::say!(
                "{:<14} {:>8} {:>8} {:>8} {:>6} {:>7} {:>9.1} {:>8.1} {:>8.1} {:>8.1}",
                kind.name(),
                row.requests(),
                row.done,
                row.declined,
                row.busy,
                row.failed,
                ms(row.latency.quantile(0.5)),
                ms(row.latency.quantile(0.95)),
                ms(row.latency.quantile(0.99)),
                ms(row.latency.max()),
            );
        }
        crate::say!("");
        if let Some(locks) = self.locks() {
            crate::say!(
                "rowlock: {} transactions committed, {} rolled back, {} deadlocks, {} retries, {} restarts, {} late places, \
                 {} busy, {:.1} statements each",
                locks.committed,
                locks.rolled_back,
                locks.deadlocks,
                locks.retries,
                locks.restarts,
                locks.late,
                locks.busy,
                locks.statements as f64 / (locks.committed + locks.rolled_back).max(1) as f64,
            );
        }
        let surfaced = self.surfaced();
        let deadlocks: u64 = ["40P01", "1213"].iter().filter_map(|code| surfaced.get(*code)).sum();
        crate::say!("deadlocks that reached clients: {deadlocks}");
        for (code, count) in &surfaced {
            crate::say!("database error {code}{}: {count}", meaning(code));
        }
        for (what, count) in self.strange() {
            crate::say!("unexpected, {count} times: {what}");
        }
        for what in self.broken() {
            crate::say!("broken: {what}");
        }
        crate::say!("invariants: {}", if self.holds() { "ok" } else { "BROKEN" });
    }
}

/// What an engine means by a code.
fn meaning(code: &str) -> &'static str {
    match code {
        "40P01" | "1213" => " (deadlock)",
        "40001" => " (could not serialize)",
        "55P03" | "1205" | "3572" => " (lock wait ended)",
        "1020" => " (record changed since it was read)",
        "5" | "261" | "517" => " (database is locked)",
        "23514" | "3819" | "4025" | "275" => " (a check constraint stopped it)",
        "23505" | "1062" | "1555" | "2067" => " (the row is there already)",
        _ => "",
    }
}
