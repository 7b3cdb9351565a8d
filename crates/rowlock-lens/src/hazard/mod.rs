//! The hazards: by what name a deadlock's cause goes, how it is told from the others, and what to change.
//!
//! A hazard is one file here and one row of [`HAZARDS`]. Of a deadlock, the first that knows the case has it, so the particular
//! ones stand before the general ones. What one kind of transaction shows by itself, each hazard tells for itself.

mod advisory_mixed;
mod cascade_locks;
mod ddl_after_rows;
mod duplicate_insert;
mod gap_lock;
mod hidden_foreign_key_lock;
mod index_order;
mod lock_upgrade;
mod missing_row_lock;
mod order_inversion;
mod queue_without_skip_locked;
mod read_modify_write;
mod trigger_locks;
mod unbounded_wait;
mod unsorted_keys;

use crate::course::Course;
use crate::finding::{Fix, Level, Step};
use crate::report::Certainty;
use crate::statement::Case;

/// A way in which transactions can hurt each other.
#[derive(Clone, Copy)]
pub struct Hazard {
    /// `order-inversion`.
    pub name: &'static str,
    /// In a line.
    pub title: &'static str,
    /// What it is, in a paragraph: what `rowlock explain HAZARD` says.
    pub about: &'static str,
    /// How bad it is at its worst.
    pub level: Level,
    /// It shows nearly everywhere, and is told only to whom asks for it.
    pub on_request: bool,
    /// It is told once of a workload, however many kinds of transactions show it.
    pub once: bool,
    /// Whether a deadlock came of it.
    pub(crate) judge: Option<fn(&Case<'_>) -> Option<Verdict>>,
    /// Where one kind of transaction shows it, without another that it meets.
    pub(crate) judge_kind: Option<fn(&Course<'_>) -> Vec<Sighting>>,
}

impl Hazard {
    /// What most are: an error, told wherever it shows.
    const PLAIN: Hazard = Hazard {
        name: "",
        title: "",
        about: "",
        level: Level::Error,
        on_request: false,
        once: false,
        judge: None,
        judge_kind: None,
    };

    /// The level at which it is told to whom has not asked for another.
    pub const fn default_level(&self) -> Level {
        if self.on_request { Level::Off } else { self.level }
    }
}

/// What a hazard says of a case.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// Why it is a cycle, in sentences. Names tables and columns, no values.
    pub(crate) cause: String,
    pub(crate) certainty: Certainty,
    pub(crate) fix: Vec<Fix>,
}

/// Where one kind of transaction shows a hazard.
#[derive(Clone, Debug)]
pub(crate) struct Sighting {
    pub(crate) level: Level,
    /// The statements that make it, with what each does; the first is the one to change. Not redacted yet.
    pub(crate) steps: Vec<Step>,
    pub(crate) verdict: Verdict,
}

/// All hazards that can be told.
pub const HAZARDS: &[Hazard] = &[
    advisory_mixed::HAZARD,
    ddl_after_rows::HAZARD,
    hidden_foreign_key_lock::HAZARD,
    cascade_locks::HAZARD,
    duplicate_insert::HAZARD,
    gap_lock::HAZARD,
    lock_upgrade::HAZARD,
    trigger_locks::HAZARD,
    queue_without_skip_locked::HAZARD,
    index_order::HAZARD,
    unsorted_keys::HAZARD,
    order_inversion::HAZARD,
    // Shown by one kind of transaction alone.
    read_modify_write::HAZARD,
    missing_row_lock::HAZARD,
    unbounded_wait::HAZARD,
];

/// The hazard that a case shows, with its verdict.
pub(crate) fn judge(case: &Case<'_>) -> Option<(&'static Hazard, Verdict)> {
    HAZARDS.iter().find_map(|hazard| Some((hazard, (hazard.judge?)(case)?)))
}

fn fix(text: impl Into<String>) -> Fix {
    Fix { text: text.into(), sql: None }
}

fn inferred(from: impl Into<String>) -> Certainty {
    Certainty::Inferred(from.into())
}
