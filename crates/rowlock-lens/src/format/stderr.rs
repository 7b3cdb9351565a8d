//! PostgreSQL's plain log, with any `log_line_prefix`, and all that is written like it: psql, JDBC, psycopg, a paste.
//!
//! A record is `<prefix>ERROR:  ..`, then `<prefix>DETAIL:  ..` and so on; a line that continues one has a tab, or in pastes
//! blanks or nothing. The prefix is whatever stands before the first label; a line begins a record when it begins like that
//! prefix, digits aside, or has a label where a record would have it.

use std::sync::LazyLock;

use regex::{Match, Regex};

use super::label::{LABELS, Label, label};
use super::{Block, Content};
use crate::postgres::Record;
use crate::window::Lines;

/// Most lines of a record.
const MOST_LINES: usize = 20_000;

static TIME: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d+)?(?: ?(?:[A-Z]{2,5}\b|Z|[+-]\d\d(?::?\d\d)?\b))?|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d").ok()
});
static ORIGIN: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"[\w.-]+@[\w.-]+").ok());

/// A prefix, reduced to what is the same in each line: digits are one, and of names only the beginning counts.
struct Prefix(String);

impl Prefix {
    fn of(text: &str) -> Prefix {
        // A prefix's beginning is its most regular part: user and database come later, and differ.
        let text: String = text.chars().take(24).collect();
        Prefix(digits(&text))
    }

    fn begins(&self, line: &str) -> bool {
        let head: String = line.chars().take(28).collect();
        !self.0.is_empty() && digits(&head).starts_with(self.0.get(..self.0.len().min(12)).unwrap_or(&self.0))
    }
}

/// Each run of digits as one `0`.
fn digits(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c.is_ascii_digit() {
            true if out.ends_with('0') => {}
            true => out.push('0'),
            false => out.push(c),
        }
    }
    out
}

pub(super) fn read(lines: &Lines<'_>) -> Option<Block> {
    let hit = lines.hit_text();
    let first = label(hit);
    let continuation = first.is_none() && lines.marker.starts_with("blocked");
    let report = || hit.contains(lines.marker) && is_report(hit, first.as_ref(), lines);
    if !continuation && !report() {
        return None;
    }
    let prefix_text = first.as_ref().map_or("", |(_, found)| hit.get(..found.start()).unwrap_or_default());
    let mut record = Record { time: time(prefix_text), ..Record::default() };
    record.origin = ORIGIN.as_ref().and_then(|regex| regex.find(prefix_text)).map(|found| found.as_str().to_owned());
    let (end, cut) = fields(lines, lines.hit, prefix_text, first, &mut record);
    if record.time.is_none() {
        record.time = time(hit);
    }
    Some(Block { text: Content::Postgres(record), lines: lines.hit..end, cut })
}

/// A message, or its copy in a driver's words; not a statement or a sentence that speaks of deadlocks.
fn is_report(hit: &str, first: Option<&(Label, Match<'_>)>, lines: &Lines<'_>) -> bool {
    let inline = !crate::postgres::is_edgeless(hit);
    let next = (1..4).filter_map(|n| lines.text(lines.hit + n)).any(|line| !crate::postgres::is_edgeless(line));
    match first {
        Some((Label::Message, found)) => {
            let after = hit.get(found.end()..).unwrap_or_default().trim_start();
            let after = after.strip_prefix("40P01:").map_or(after, str::trim_start);
            inline
                || next
                || after.starts_with(lines.marker)
                || (after.contains("40P01") && after.contains("deadlock detected"))
        }
        Some((Label::Detail, _)) => inline,
        Some(_) => false,
        None => inline || next,
    }
}

fn time(prefix: &str) -> Option<String> {
    Some(TIME.as_ref()?.find(prefix)?.as_str().to_owned())
}

/// Reads the fields of the record that begins at a line; returns the line behind it, and whether the lines ended first.
fn fields(
    lines: &Lines<'_>,
    first: usize,
    prefix: &str,
    label_of_first: Option<(Label, Match<'_>)>,
    record: &mut Record,
) -> (usize, bool) {
    let begins = Prefix::of(prefix);
    let mut fields: Vec<(Label, String)> = Vec::new();
    let mut blanks = 0;
    let last = lines.all.len().min(first + MOST_LINES);
    let mut at = first;
    while at < last {
        let Some(line) = lines.text(at) else { break };
        let found = if at == first { label_of_first } else { label(line) };
        let continues = line.starts_with(['\t']) || (line.starts_with("  ") && prefix.is_empty() && found.is_none());
        let starts =
            at == first || (!continues && (begins.begins(line) || found.as_ref().is_some_and(|(_, m)| m.start() <= 2)));
        if starts {
            match found {
                Some((label @ (Label::Message | Label::Other), _)) if at > first => {
                    let _ = label;
                    break;
                }
                Some((label, found)) => {
                    fields.push((label, line.get(found.end()..).unwrap_or_default().trim_start().to_owned()))
                }
                None if at == first => fields.push((Label::Detail, line.to_owned())),
                None => break,
            }
            blanks = 0;
        } else if line.trim().is_empty() {
            blanks += 1;
            // A paste may have a blank line behind each; two of them, or one behind statements, end it.
            let follows = lines.text(at + 1).is_some_and(|next| {
                label(next).is_some_and(|(l, _)| !matches!(l, Label::Other | Label::Message)) || mentions_process(next)
            });
            if blanks > 1 || !follows {
                break;
            }
        } else if prefix.is_empty() && TIME.as_ref().and_then(|regex| regex.find(line)).is_some_and(|m| m.start() == 0)
        {
            // Something else's line: this report has no times.
            break;
        } else if line.trim_start().starts_with("at ") && line.contains('(') && prefix.is_empty() {
            // A Java stack trace.
            break;
        } else if let Some(sql) = sqlalchemy(line) {
            record.statement = Some(sql.to_owned());
        } else if let Some((_, text)) = fields.last_mut() {
            text.push('\n');
            text.push_str(line.strip_prefix('\t').unwrap_or_else(|| line.trim_start()));
            blanks = 0;
        }
        at += 1;
    }
    for (label, text) in fields {
        let field = match label {
            Label::Message => &mut record.message,
            Label::Detail => &mut record.detail,
            Label::Context => &mut record.context,
            Label::Statement => record.statement.get_or_insert_default(),
            Label::Hint | Label::Aside | Label::Other => continue,
        };
        if !field.is_empty() {
            field.push('\n');
        }
        field.push_str(&text);
    }
    inline(record);
    (at, at >= lines.all.len() && !lines.ends)
}

fn mentions_process(line: &str) -> bool {
    line.trim_start().starts_with("Process ") || !crate::postgres::is_edgeless(line)
}

/// `[SQL: UPDATE ..]`, behind SQLAlchemy's copy of the error.
fn sqlalchemy(line: &str) -> Option<&str> {
    let sql = line.trim().strip_prefix("[SQL: ")?;
    Some(sql.strip_suffix(']').unwrap_or(sql))
}

/// A copy on one line has all fields in its message.
fn inline(record: &mut Record) {
    let from_message = record.detail.is_empty();
    let text = if from_message { std::mem::take(&mut record.message) } else { std::mem::take(&mut record.detail) };
    let mut parts: Vec<(Label, usize, usize)> = Vec::new();
    let has_edges = !crate::postgres::is_edgeless(&text);
    if let (Some(labels), true) = (LABELS.as_ref(), has_edges) {
        for found in labels.any.find_iter(&text) {
            let word = found.as_str().trim_end_matches([':', '：', ' ']);
            let label = labels.words.iter().find(|(text, _)| text == word).map(|(_, label)| *label);
            let before = text.get(..found.start()).unwrap_or_default();
            // In the middle of a line, between two blanks; a label at the start of a line was seen before.
            let apart = before.ends_with([' ', '"', '(']) && !before.ends_with('\n');
            if let (Some(label), true) =
                (label.filter(|l| !matches!(l, Label::Message | Label::Other)), apart || before.is_empty())
            {
                parts.push((label, found.start(), found.end()));
            }
        }
    }
    let head_end = parts.first().map_or(text.len(), |(_, start, _)| *start);
    let head = text.get(..head_end).unwrap_or_default().to_owned();
    let ends: Vec<usize> = parts.iter().skip(1).map(|(_, start, _)| *start).chain([text.len()]).collect();
    for ((label, _, start), end) in parts.iter().zip(ends) {
        let part = text.get(*start..end).unwrap_or_default().trim();
        match label {
            Label::Detail => record.detail = part.to_owned(),
            Label::Context if record.context.is_empty() => record.context = part.to_owned(),
            Label::Statement if record.statement.is_none() => record.statement = Some(part.to_owned()),
            _ => {}
        }
    }
    if record.detail.is_empty() {
        if has_edges || !from_message { record.detail = head } else { record.message = head }
    }
}

pub(super) fn records(lines: &Lines<'_>) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let mut last = None;
    for line in &lines.all {
        let line = &*line.text;
        let found = if line.starts_with('\t') { None } else { label(line) };
        let Some((label, found)) = found else {
            // Only statements are of interest over several lines.
            if let (Some(Label::Other), Some(record)) = (last, records.last_mut()) {
                record.message.push('\n');
                record.message.push_str(line.strip_prefix('\t').unwrap_or(line));
            }
            continue;
        };
        let text = line.get(found.end()..).unwrap_or_default().trim_start();
        let pid = pid(line.get(..found.start()).unwrap_or_default());
        last = Some(label);
        match label {
            Label::Other => records.push(Record { pid, message: text.to_owned(), ..Record::default() }),
            Label::Message => records.push(Record { pid: None, ..Record::default() }),
            Label::Detail | Label::Context => {
                if let Some(record) = records.last_mut().filter(|record| record.pid == pid) {
                    let field = if label == Label::Detail { &mut record.detail } else { &mut record.context };
                    text.clone_into(field);
                }
            }
            Label::Hint | Label::Statement | Label::Aside => {}
        }
    }
    records
}

/// Where prefixes have it, the surest place first: a session id (`%c`, hex behind the dot), brackets (`[%p]`, `[%p-%l]`),
/// after `pid=`, and in parentheses, where RDS has the client's port.
static PIDS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let patterns = [
        r"\b[0-9a-f]{6,10}\.([0-9a-f]{1,6})\b",
        r"\[(\d+)\]",
        r"\[(\d+)-\d+\]",
        r"\b(?:pid|process|p)[=: ]+(\d+)",
        r"\((\d+)\)",
    ];
    patterns.iter().filter_map(|pattern| Regex::new(pattern).ok()).collect()
});

/// The process id in a prefix.
fn pid(prefix: &str) -> Option<u64> {
    let (at, digits) =
        PIDS.iter().enumerate().find_map(|(at, regex)| Some((at, regex.captures(prefix)?.get(1)?.as_str())))?;
    u64::from_str_radix(digits, if at == 0 { 16 } else { 10 }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_found_in_common_prefixes() {
        assert_eq!(pid("2026-11-30 22:00:01.257 UTC [23782] postgres@postgres "), Some(23782));
        assert_eq!(pid("2026-11-30 22:00:01 UTC:10.0.0.1(55):app@db:[77]:"), Some(77));
        assert_eq!(pid("6b0df1e0.5ce6: [5-1] "), Some(23782));
        assert_eq!(pid("pid=12,db=x "), Some(12));
        assert_eq!(pid("app "), None);
    }
}
