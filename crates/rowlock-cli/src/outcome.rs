//! What a run found: groups of deadlocks, and places that could not be read.

use rowlock_lens::Groups;

/// Most places that are kept, of those that could not be read.
const MOST_PLACES: usize = 100;

/// Where something stands.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Place {
    /// The file as it was named; `-` is standard input.
    pub(crate) file: String,
    /// From 1.
    pub(crate) line: u64,
    /// From 0, in what was decompressed.
    pub(crate) byte: u64,
}

/// A block that looks like a report and could not be read.
#[derive(Clone, Debug, serde::Serialize)]
pub(crate) struct Unreadable {
    #[serde(rename = "where")]
    pub(crate) place: Place,
    pub(crate) reason: String,
}

/// What was found so far.
#[derive(Default)]
pub(crate) struct Outcome {
    pub(crate) groups: Groups<Place>,
    /// Deadlocks, of all groups.
    pub(crate) deadlocks: u64,
    /// The first of them; there may be more: see `unreadable_count`.
    pub(crate) unreadable: Vec<Unreadable>,
    pub(crate) unreadable_count: u64,
    /// Files that could not be opened or read to their end.
    pub(crate) failures: Vec<String>,
    /// Bytes that were looked through.
    pub(crate) bytes: u64,
}

impl Outcome {
    pub(crate) fn unreadable(&mut self, place: Place, reason: String) {
        self.unreadable_count += 1;
        if self.unreadable.len() < MOST_PLACES {
            self.unreadable.push(Unreadable { place, reason });
        }
    }

    /// 2 when something could not be read, else 1 when there are deadlocks, else 0.
    pub(crate) fn exit_code(&self) -> u8 {
        match (self.unreadable_count > 0 || !self.failures.is_empty(), self.deadlocks > 0) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        }
    }
}
