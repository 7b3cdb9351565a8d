//! Counters: what happened to transactions, for the process itself ([`Db::counts`](crate::Db::counts)) and for any
//! recorder of the `metrics` facade.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{error::KindName, failure::Failure};

/// Something that is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Committed,
    RolledBack,
    Retry(Failure),
    Restart,
    Late,
    Fallback,
    Violation,
    Refusal,
    Busy,
    Conflict,
    Queued,
    TurnedAway,
    Cancelled,
    Statement,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident = $metric:literal for $pattern:pat,)+) => {
        #[derive(Default)]
        pub(crate) struct Counters { $($name: AtomicU64),+ }

        /// A reading of a database's counters, each from its opening on. Differences of two readings are what happened
        /// in between.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct Counts { $($(#[$doc])* pub $name: u64),+ }

        impl Counters {
            pub(crate) fn read(&self) -> Counts {
                Counts { $($name: self.$name.load(Relaxed)),+ }
            }

            /// Counts `event`, here and with the recorder that is installed, if one is.
            pub(crate) fn count(&self, event: Event, kind: &KindName) {
                let (counter, metric) = match event { $($pattern => (&self.$name, $metric),)+ };
                counter.fetch_add(1, Relaxed);
                if event != Event::Statement {
                    metrics::counter!(metric, "kind" => kind.label()).increment(1);
                }
            }
        }
    };
}

counters! {
    /// Transactions that were committed.
    committed = "rowlock_committed_total" for Event::Committed,
    /// Transactions that were rolled back for good: the closure's own error, or one of rowlock's.
    rolled_back = "rowlock_rolled_back_total" for Event::RolledBack,
    /// Attempts that the server ended for a deadlock.
    deadlocks = "rowlock_deadlocks_total" for Event::Retry(Failure::Deadlock),
    /// Attempts that ended in a serialization failure.
    serialization_failures = "rowlock_serialization_failures_total" for Event::Retry(Failure::Serialization),
    /// Attempts that ended for another transient cause: a lost connection, the server's own lock timeout.
    other_retries = "rowlock_other_retries_total" for Event::Retry(_),
    /// Attempts that were restarted with a larger set of rows, since a late place was busy.
    restarts = "rowlock_restarts_total" for Event::Restart,
    /// Places taken below what was held: without waiting, or not at all. On SQLite, where nothing is ever waited for
    /// inside a transaction, they are counted all the same.
    late = "rowlock_late_total" for Event::Late,
    /// Late places that were waited for, after as many restarts as the kind may have.
    fallbacks = "rowlock_fallbacks_total" for Event::Fallback,
    /// Statements and locks out of order that the guard saw and could not mend.
    violations = "rowlock_violations_total" for Event::Violation,
    /// Statements that the guard refused.
    refusals = "rowlock_refusals_total" for Event::Refusal,
    /// Locking calls that ended busy.
    busy = "rowlock_busy_total" for Event::Busy,
    /// Edits that met another version than the one that was read ([`Saved::Conflict`](crate::Saved)).
    conflicts = "rowlock_conflicts_total" for Event::Conflict,
    /// Transactions that waited at a gate ([`Gate`](crate::Gate)), before they took a connection.
    queued = "rowlock_queued_total" for Event::Queued,
    /// Transactions that a gate turned away: its queue was full, or did not move within the wait limit.
    turned_away = "rowlock_turned_away_total" for Event::TurnedAway,
    /// Statements that were cancelled at the server for the wait limit.
    cancelled = "rowlock_cancelled_total" for Event::Cancelled,
    /// Statements sent inside transactions, BEGIN and COMMIT included. (Not in `metrics`.)
    statements = "rowlock_statements_total" for Event::Statement,
}
