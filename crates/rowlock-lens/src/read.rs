//! Reading what stands at a marker.

use std::ops::Range;

use crate::format::{self, Content, FORMATS, WRAPPERS};
use crate::innodb;
use crate::postgres::{self, statements};
use crate::report::{Certainty, Engine, Party, Report, Victim};
use crate::window::{Line, Window};

/// What stands at a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reading {
    /// No report: a sentence, a statement or a setting that has the words.
    Nothing,
    /// The window ends before what begins here does: ask again with a larger one, or with `ends` set to have what there is.
    Cut,
    /// A report, and which bytes of the window are its.
    Report {
        /// What it says.
        report: Box<Report>,
        /// Its lines; markers in them are its own.
        bytes: Range<usize>,
    },
    /// It looks like a report and could not be read.
    Unreadable {
        /// Why, in words.
        reason: String,
        /// Its lines.
        bytes: Range<usize>,
    },
}

/// Reads the report that a marker belongs to.
///
/// `window` should begin a few lines before the marker, and go on for some 32 KiB; a report that is longer gives
/// [`Reading::Cut`].
pub fn read(window: &Window<'_>, marker: &'static str) -> Reading {
    let lines = format::unwrapped(&window.lines(marker));
    let Some((format, block)) = format::read(&lines) else { return Reading::Nothing };
    if block.cut && !window.ends {
        return Reading::Cut;
    }
    // Lines of the window, which a wrapper may have made several of.
    let number = |at: usize| lines.all.get(at).map(|line| line.number);
    let first = number(block.lines.start).unwrap_or_default();
    let last = number(block.lines.end.saturating_sub(1)).unwrap_or(first);
    let bytes = window.line_start(first)..window.line_start(last + 1);
    let report = match block.text {
        Content::Postgres(record) => postgres::read(&record, format.name),
        Content::InnoDb { text, time } => innodb::read(&text, time, format.name),
        Content::InnoDbError { statement } => Ok(bare(Engine::MySql, format.name, statement)),
    };
    match report {
        Ok(report) => Reading::Report { report: Box::new(report), bytes },
        Err(reason) => Reading::Unreadable { reason, bytes },
    }
}

/// A driver's error: a victim, and perhaps its statement.
fn bare(engine: Engine, format: &'static str, statement: Option<String>) -> Report {
    let parties: Vec<Party> =
        statement.map(|statement| Party { statement: Some(statement), ..Party::default() }).into_iter().collect();
    let victim = (!parties.is_empty()).then_some(Victim { party: 0, certainty: Certainty::Known });
    Report { engine, format, time: None, parties, victim, notes: Vec::new() }
}

/// Adds what the log has before a report: earlier statements of its transactions, and the rows that its waiters were at.
///
/// `before` are the bytes that stand before it, as many as the caller cares to hold; returns whether they reach back to
/// the beginning of each transaction. Only PostgreSQL's logs have such lines; of others nothing is added.
pub fn look_back(report: &mut Report, before: &[u8]) -> bool {
    let Some(records) = FORMATS.iter().find(|format| format.name == report.format).and_then(|format| format.records)
    else {
        return true;
    };
    let window = Window { bytes: before, hit: before.len(), ends: true };
    let mut lines = window.lines("");
    for line in &mut lines.all {
        let inner = WRAPPERS.iter().find_map(|wrapper| (wrapper.unwrap)(&line.text));
        if let Some(inner) = inner {
            *line = Line { number: line.number, text: inner.into() };
        }
    }
    statements(report, records(&lines).into_iter());
    postgres::rows_from_context(report);
    report.parties.iter().all(|party| party.whole)
}
