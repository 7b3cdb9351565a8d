//! Input formats: how a report is wrapped in what people have.
//!
//! A format is one file here and one row of a table:
//!
//! - [`WRAPPERS`] for what stands around each line (a container's prefix, a JSON string): the file has one function from a
//!   line to what is in it, or `None` when the line is not of that kind.
//! - [`FORMATS`] for what a whole record is (csvlog, jsonlog, an InnoDB status): the file has one function from the lines
//!   to a [`Block`], and for PostgreSQL's logs one from lines to the records in them.
//!
//! Wrappers are taken off first, as often as one fits; then the first format that knows the marker's line reads it.

mod cloud_json;
mod compose;
mod cri;
mod csvlog;
mod driver;
mod escaped;
mod grep;
mod heroku;
mod innodb;
mod jsonlog;
mod label;
mod mysql_log;
mod quoted;
mod stderr;
mod syslog;

use crate::postgres::Record;
use crate::window::Lines;

/// What a format made of the lines around a marker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) text: Content,
    /// The line of the window with which it begins, and the one behind its last.
    pub(crate) lines: std::ops::Range<usize>,
    /// The window ended before the report did.
    pub(crate) cut: bool,
}

/// A report's text, in its engine's terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    Postgres(Record),
    InnoDb {
        text: String,
        time: Option<String>,
    },
    /// A driver's error, which names the deadlock and nothing else.
    InnoDbError {
        statement: Option<String>,
    },
}

/// A kind of record.
#[derive(Clone, Copy)]
pub struct Format {
    /// As it is shown: `csvlog`.
    pub name: &'static str,
    pub(crate) read: fn(&Lines<'_>) -> Option<Block>,
    /// For PostgreSQL's logs: the records in some lines.
    pub(crate) records: Option<fn(&Lines<'_>) -> Vec<Record>>,
}

/// Something around each line.
#[derive(Clone, Copy)]
pub(crate) struct Wrapper {
    pub(crate) unwrap: fn(&str) -> Option<String>,
}

/// All kinds of records, the more particular ones first.
pub const FORMATS: &[Format] = &[
    Format { name: "csvlog", read: csvlog::read, records: Some(csvlog::records) },
    Format { name: "jsonlog", read: jsonlog::read, records: Some(jsonlog::records) },
    Format { name: "innodb", read: innodb::read, records: None },
    Format { name: "stderr", read: stderr::read, records: Some(stderr::records) },
    Format { name: "driver", read: driver::read, records: None },
];

/// All that can stand around a line.
pub(crate) const WRAPPERS: &[Wrapper] = &[
    Wrapper { unwrap: cloud_json::unwrap },
    Wrapper { unwrap: escaped::unwrap },
    Wrapper { unwrap: cri::unwrap },
    Wrapper { unwrap: compose::unwrap },
    Wrapper { unwrap: grep::unwrap },
    Wrapper { unwrap: quoted::unwrap },
    Wrapper { unwrap: heroku::unwrap },
    Wrapper { unwrap: syslog::unwrap },
    Wrapper { unwrap: mysql_log::unwrap },
];

/// Wrappers in wrappers that are taken off: a container's JSON around a syslog line in a mail.
const DEEPEST: usize = 4;

/// Takes off the wrappers of the marker's line, from all lines that have them.
pub(crate) fn unwrapped<'a>(lines: &Lines<'a>) -> Lines<'a> {
    let mut lines = lines.clone();
    for _ in 0..DEEPEST {
        let Some(inner) = WRAPPERS.iter().find_map(|wrapper| lines.map(wrapper.unwrap)) else { break };
        lines = inner;
    }
    lines
}

/// Reads the block at the marker.
pub(crate) fn read(lines: &Lines<'_>) -> Option<(&'static Format, Block)> {
    FORMATS.iter().find_map(|format| Some((format, (format.read)(lines)?)))
}
