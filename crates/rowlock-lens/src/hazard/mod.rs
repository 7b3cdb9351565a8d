//! The hazards: by what name a deadlock's cause goes, how it is told from the others, and what to change.
//!
//! A hazard is one file here and one row of [`HAZARDS`]. The first that knows a case has it, so the particular ones stand
//! before the general ones.

mod advisory_mixed;
mod cascade_locks;
mod ddl_after_rows;
mod duplicate_insert;
mod gap_lock;
mod hidden_foreign_key_lock;
mod index_order;
mod lock_upgrade;
mod order_inversion;
mod queue_without_skip_locked;
mod trigger_locks;
mod unsorted_keys;

use crate::finding::Fix;
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
    pub(crate) judge: fn(&Case<'_>) -> Option<Verdict>,
}

/// What a hazard says of a case.
#[derive(Clone, Debug)]
pub(crate) struct Verdict {
    /// Why it is a cycle, in sentences. Names tables and columns, no values.
    pub(crate) cause: String,
    pub(crate) certainty: Certainty,
    pub(crate) fix: Vec<Fix>,
}

/// All hazards that a report can show.
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
];

/// The hazard that a case shows, with its verdict.
pub(crate) fn judge(case: &Case<'_>) -> Option<(&'static Hazard, Verdict)> {
    HAZARDS.iter().find_map(|hazard| Some((hazard, (hazard.judge)(case)?)))
}

fn fix(text: impl Into<String>) -> Fix {
    Fix { text: text.into(), sql: None }
}

fn inferred(from: impl Into<String>) -> Certainty {
    Certainty::Inferred(from.into())
}
