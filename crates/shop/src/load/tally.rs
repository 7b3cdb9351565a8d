//! What became of the requests, by kind.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::load::histogram::Histogram;

/// The kinds of requests that the load sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Place,
    Flash,
    Cancel,
    Restock,
    Transfer,
    Read,
    Event,
    Expire,
}

impl Kind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Place => "place order",
            Self::Flash => "flash sale",
            Self::Cancel => "cancel order",
            Self::Restock => "restock",
            Self::Transfer => "transfer",
            Self::Read => "read back",
            Self::Event => "payment event",
            Self::Expire => "expire batch",
        }
    }
}

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum End {
    /// Done.
    Done,
    /// The shop's rules said no: out of stock, not open any more, too little money.
    Declined,
    /// The row or the shop was busy; nothing was done.
    Busy,
    /// The database refused, with its code.
    Refused(String),
    /// Anything else, which nothing should be.
    Strange(String),
}

/// Counts of one client, or of all.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) kinds: BTreeMap<Kind, Row>,
    pub(crate) refused: BTreeMap<String, u64>,
    pub(crate) strange: BTreeMap<String, u64>,
    /// Events and flash-sale requests that were answered differently when they came again.
    pub(crate) inconsistent: u64,
}

/// Counts of one kind.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    pub(crate) done: u64,
    pub(crate) declined: u64,
    pub(crate) busy: u64,
    pub(crate) failed: u64,
    pub(crate) latency: Histogram,
}

impl Row {
    pub(crate) fn requests(&self) -> u64 {
        self.done + self.declined + self.busy + self.failed
    }
}

impl Tally {
    pub(crate) fn add(&mut self, kind: Kind, end: &End, took: Duration) {
        self.count(kind, end);
        let latency = &mut self.kinds.entry(kind).or_default().latency;
        latency.add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
    }

    /// Counts what became of a request whose time tells nothing.
    pub(crate) fn count(&mut self, kind: Kind, end: &End) {
        let row = self.kinds.entry(kind).or_default();
        match end {
            End::Done => row.done += 1,
            End::Declined => row.declined += 1,
            End::Busy => row.busy += 1,
            End::Refused(code) => {
                row.failed += 1;
                *self.refused.entry(code.clone()).or_default() += 1;
            }
            End::Strange(what) => {
                row.failed += 1;
                // Each may be worded differently; a few are enough to see what is wrong.
                if self.strange.len() < 20 || self.strange.contains_key(what) {
                    *self.strange.entry(what.clone()).or_default() += 1;
                }
            }
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        for (kind, theirs) in other.kinds {
            let row = self.kinds.entry(kind).or_default();
            row.done += theirs.done;
            row.declined += theirs.declined;
            row.busy += theirs.busy;
            row.failed += theirs.failed;
            row.latency.merge(&theirs.latency);
        }
        for (mine, theirs) in [(&mut self.refused, other.refused), (&mut self.strange, other.strange)] {
            for (what, count) in theirs {
                *mine.entry(what).or_default() += count;
            }
        }
        self.inconsistent += other.inconsistent;
    }
}
