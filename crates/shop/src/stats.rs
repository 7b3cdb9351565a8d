//! What the shop counts while it runs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What the shop has counted since its start.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Stats {
    /// The engine.
    pub engine: String,
    /// `naive` or `rowlock`.
    pub way: String,
    /// The database's errors that reached a client, by the engine's own code.
    pub surfaced: BTreeMap<String, u64>,
    /// What rowlock did, when it is used.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub locks: Option<Locks>,
}

/// What rowlock did; see [`rowlock::Counts`].
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct Locks {
    /// Transactions that were committed.
    pub committed: u64,
    /// Transactions that were rolled back for good.
    pub rolled_back: u64,
    /// Attempts that the server ended for a deadlock.
    pub deadlocks: u64,
    /// Attempts run again for another transient cause.
    pub retries: u64,
    /// Attempts run again with a larger set of rows.
    pub restarts: u64,
    /// Places taken below what was held.
    pub late: u64,
    /// Statements that the guard refused or found out of order.
    pub refused: u64,
    /// Locking calls that ended busy.
    pub busy: u64,
    /// Statements sent inside transactions.
    pub statements: u64,
}

impl From<rowlock::Counts> for Locks {
    fn from(counts: rowlock::Counts) -> Self {
        Self {
            committed: counts.committed,
            rolled_back: counts.rolled_back,
            deadlocks: counts.deadlocks,
            retries: counts.serialization_failures + counts.other_retries,
            restarts: counts.restarts,
            late: counts.late,
            refused: counts.refusals + counts.violations,
            busy: counts.busy,
            statements: counts.statements,
        }
    }
}

impl Locks {
    /// What happened since an earlier reading; nothing, where the shop was started anew in between.
    pub fn since(&self, before: &Self) -> Self {
        Self {
            committed: self.committed.saturating_sub(before.committed),
            rolled_back: self.rolled_back.saturating_sub(before.rolled_back),
            deadlocks: self.deadlocks.saturating_sub(before.deadlocks),
            retries: self.retries.saturating_sub(before.retries),
            restarts: self.restarts.saturating_sub(before.restarts),
            late: self.late.saturating_sub(before.late),
            refused: self.refused.saturating_sub(before.refused),
            busy: self.busy.saturating_sub(before.busy),
            statements: self.statements.saturating_sub(before.statements),
        }
    }
}
