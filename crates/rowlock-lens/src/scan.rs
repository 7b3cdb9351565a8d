//! Finding the places in an input where a report may be: a search for a few fixed texts, at the speed of memory.
//!
//! A marker is only a reason to look: most logs have none, and most of what is not a report is told by its neighbourhood.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use aho_corasick::packed::{Config, MatchKind, Searcher};

use crate::postgres::LANGUAGES;

/// Texts of which every report has at least one, whatever its language and format.
const MARKERS: [&str; 9] = [
    // PostgreSQL's message, and the one with which InnoDB begins in an error log.
    "deadlock detected",
    // A fragment of PostgreSQL's DETAIL.
    "blocked by process ",
    // SQLSTATE: in csvlog, jsonlog, `%e` prefixes and drivers' errors, in every language.
    "40P01",
    // SHOW ENGINE INNODB STATUS.
    "DETECTED DEADLOCK",
    // A fragment of it: `*** (1) TRANSACTION:`.
    "(1) TRANSACTION:",
    "TOO DEEP OR LONG SEARCH IN THE LOCK TABLE",
    // What remains in MySQL's error log when notes are not logged: the transactions without their headings.
    "\nTRANSACTION ",
    // Drivers' errors.
    "Deadlock found when trying to get lock",
    "ER_LOCK_DEADLOCK",
];

/// A place where a report may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Where the marker begins.
    pub at: usize,
    /// The marker.
    pub marker: &'static str,
}

/// Longest marker, in bytes: neighbouring pieces of an input must overlap by one less, or a marker on the cut is missed.
///
/// ```
/// assert!(rowlock_lens::longest_marker() > "deadlock detected".len());
/// ```
pub fn longest_marker() -> usize {
    all().map(str::len).max().unwrap_or_default()
}

/// The markers in `bytes`, in order, without overlaps.
///
/// ```
/// let log = b"LOG:  checkpoint starting\nERROR:  deadlock detected\n";
/// let hit = rowlock_lens::markers(log).next();
/// assert_eq!(hit.map(|hit| (hit.at, hit.marker)), Some((34, "deadlock detected")));
/// ```
pub fn markers(bytes: &[u8]) -> impl Iterator<Item = Hit> + '_ {
    let mut from = 0;
    std::iter::from_fn(move || {
        let hit = SEARCH.next(bytes, from)?;
        from = hit.at + hit.marker.len();
        Some(hit)
    })
}

/// A marker that stands behind a line break anywhere else: at the very beginning of an input there is none.
///
/// ```
/// let log = b"TRANSACTION 77651, ACTIVE 0 sec starting index read\n";
/// assert!(rowlock_lens::begins(log).is_some() && rowlock_lens::markers(log).next().is_none());
/// ```
pub fn begins(bytes: &[u8]) -> Option<Hit> {
    let marker = MARKERS
        .into_iter()
        .find(|marker| marker.strip_prefix('\n').is_some_and(|text| bytes.starts_with(text.as_bytes())));
    marker.map(|marker| Hit { at: 0, marker })
}

fn all() -> impl Iterator<Item = &'static str> {
    MARKERS.into_iter().chain(LANGUAGES.iter().map(|language| language.deadlock))
}

static SEARCH: LazyLock<Search> = LazyLock::new(|| {
    let markers: Vec<&'static str> = all().collect();
    let packed = Config::new().match_kind(MatchKind::LeftmostFirst).builder().extend(&markers).build();
    Search { general: AhoCorasick::new(&markers).ok(), packed, markers }
});

struct Search {
    markers: Vec<&'static str>,
    /// By vector instructions, where the machine has them.
    packed: Option<Searcher>,
    general: Option<AhoCorasick>,
}

impl Search {
    fn next(&self, bytes: &[u8], from: usize) -> Option<Hit> {
        let span = aho_corasick::Span::from(from..bytes.len());
        let (pattern, at) = match (&self.packed, &self.general) {
            (Some(packed), _) => packed.find_in(bytes, span).map(|found| (found.pattern(), found.start()))?,
            (None, Some(general)) => general
                .find(aho_corasick::Input::new(bytes).span(span))
                .map(|found| (found.pattern(), found.start()))?,
            (None, None) => return None,
        };
        Some(Hit { at, marker: self.markers.get(pattern.as_usize())? })
    }
}
