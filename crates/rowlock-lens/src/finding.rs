//! What is told of a deadlock, ready to be shown in any form: text, JSON, and what comes later. All values are redacted
//! already. A finding of `check`, which tells what can happen, has the same fields.

use std::fmt;

use serde::Serialize;

use crate::report::{Certainty, Engine};
use crate::workload::Place;

/// How bad it is.
///
/// ```
/// use rowlock_lens::Level;
///
/// assert!(Level::Error > Level::Warning && Level::Warning > Level::Note);
/// assert_eq!(Level::parse("warning"), Some(Level::Warning));
/// assert_eq!(Level::Note.to_string(), "note");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// It is not told: no finding has this level.
    Off,
    /// It is told, and changes no exit code.
    Note,
    /// They wait longer than they must, or fail without need.
    Warning,
    /// Transactions fail, or write what is wrong.
    Error,
}

impl Level {
    /// By the name that users write: `off`, `note`, `warning`, `error`.
    pub fn parse(name: &str) -> Option<Level> {
        [Level::Off, Level::Note, Level::Warning, Level::Error].into_iter().find(|level| level.name() == name)
    }

    const fn name(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How it is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// A server reported it.
    Happened,
    /// The lock model says that it can be.
    Possible,
}

/// One way in which transactions hurt each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The hazard's name: a row of [`HAZARDS`](crate::HAZARDS), or `unclear`.
    pub hazard: &'static str,
    /// How bad it is.
    pub level: Level,
    /// How it is known.
    pub status: Status,
    /// Whose report it is.
    pub engine: Engine,
    /// The input format.
    pub format: &'static str,
    /// When, as written.
    pub time: Option<String>,
    /// The transactions of the cycle, of which each waits for the one in its `blocked_by`; or the one that shows the hazard by
    /// itself.
    pub transactions: Vec<Transaction>,
    /// What happened, in an order in which it can have happened.
    pub steps: Vec<Step>,
    /// Why it is a cycle, in sentences.
    pub cause: String,
    /// How surely that is the cause.
    pub certainty: Certainty,
    /// What to change, the best first.
    pub fix: Vec<Fix>,
    /// Who was rolled back.
    pub victim: Option<VictimTold>,
    /// What the report cannot tell.
    pub unknown: Vec<Unknown>,
    /// What is odd about the report.
    pub notes: Vec<String>,
    /// What deadlocks of the same kind have in common: by it they are grouped.
    pub shape: String,
}

impl Finding {
    /// Whether it tells of transactions that wait for each other, and not of one that hurts by itself.
    pub fn is_deadlock(&self) -> bool {
        self.status == Status::Happened || self.transactions.len() > 1
    }
}

/// A transaction of the cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Transaction {
    /// `A`, `B`, ..
    pub name: String,
    /// `process 23782`, `transaction 36 (thread 8)`.
    pub session: String,
    /// User, application, as far as told.
    pub origin: Option<String>,
    /// `check` only: where the statement that waits is written.
    #[serde(rename = "where")]
    pub place: Option<Place>,
    /// The statement that waits.
    pub statement: Option<String>,
    /// Why it is missing or not whole.
    pub statement_flaw: Option<String>,
    /// Earlier statements, from the surrounding log.
    pub earlier: Vec<String>,
    /// What it holds.
    pub holds: Vec<Lock>,
    /// What it waits for.
    pub wants: Option<Lock>,
    /// The name of whom it waits for.
    pub blocked_by: Option<String>,
}

/// A lock, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lock {
    /// `orders, id = <1>`.
    pub what: String,
    /// The server's word for the mode.
    pub mode: String,
    /// The table, where it is known.
    pub table: Option<String>,
    /// The statement that took it, where it is known.
    pub statement: Option<String>,
    /// Whether the server wrote it.
    pub certainty: Certainty,
}

/// A step of what happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Whose it is: a transaction's name.
    pub transaction: String,
    /// What was run, if it is known.
    pub statement: Option<String>,
    /// `check` only: where it is written.
    #[serde(rename = "where")]
    pub place: Option<Place>,
    /// What it led to: `takes orders, id = <1>`, `waits for B`.
    pub effect: String,
}

/// Something to change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fix {
    /// What to do, in a sentence.
    pub text: String,
    /// The statement or statements, rewritten.
    pub sql: Option<String>,
}

/// Who was rolled back, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VictimTold {
    /// The transaction's name.
    pub transaction: String,
    /// Whether the report's word is good.
    pub certainty: Certainty,
    /// Why this one.
    pub why: String,
}

/// Something that the report cannot tell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unknown {
    /// What.
    pub what: String,
    /// What to switch on, or where to look, to know it.
    pub how: String,
}
