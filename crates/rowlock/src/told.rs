//! What has been told: each thing that the guard lets pass is a warning once for a text and a kind of transaction. Counters
//! go on.

use std::{
    collections::HashSet,
    hash::{BuildHasher, Hash, RandomState},
    sync::{Mutex, PoisonError},
};

use crate::{error::KindName, violation::Violation};

/// So many are known at most; then all are forgotten, and told once more.
const KEPT: usize = 4096;

#[derive(Default)]
pub(crate) struct Told {
    hashes: RandomState,
    seen: Mutex<HashSet<u64>>,
}

impl Told {
    /// Whether this is told for the first time.
    pub(crate) fn is_new(&self, kind: &KindName, statement: &str, what: impl Hash) -> bool {
        let hash = self.hashes.hash_one((kind, statement, what));
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= KEPT && !seen.contains(&hash) {
            seen.clear();
        }
        seen.insert(hash)
    }

    /// The same for a violation, whatever the keys.
    pub(crate) fn is_new_violation(&self, violation: &Violation) -> bool {
        let resource = |place: &str| place.rfind('`').map_or(0, |end| end + 1);
        let (asked, held) = (&violation.asked, &violation.held);
        let (asked, held) = (&asked[..resource(asked)], &held[..resource(held)]);
        let statement = violation.statement.as_deref().unwrap_or_default();
        self.is_new(&violation.kind, statement, (asked, held, violation.rise.is_some(), violation.made))
    }
}
