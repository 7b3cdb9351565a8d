//! PostgreSQL's csvlog: 23 columns up to version 12, 24 in 13, 26 from 14 on, of which the first 20 are the same. A field in
//! quotes may have line breaks; copies from web pages have blanks in their place.

use super::{Block, Content};
use crate::postgres::Record;
use crate::window::Lines;

/// Columns, from 0 (manual, 20.8.4 "Using CSV-Format Log Output").
const TIME: usize = 0;
const USER: usize = 1;
const DATABASE: usize = 2;
const PID: usize = 3;
const SEVERITY: usize = 11;
const STATE: usize = 12;
const MESSAGE: usize = 13;
const DETAIL: usize = 14;
const CONTEXT: usize = 18;
const STATEMENT: usize = 19;
const APPLICATION: usize = 22;
const LEAST: usize = 20;
/// A record that spans more lines is none.
const MOST_LINES: usize = 20_000;

pub(super) fn read(lines: &Lines<'_>) -> Option<Block> {
    let (fields, end) = record(lines, lines.hit)?;
    let cut = end > lines.all.len();
    if fields.len() < LEAST && !cut {
        return None;
    }
    if !starts(lines.hit_text()) || fields.get(STATE).is_some_and(|state| state != "40P01") {
        return None;
    }
    Some(Block { text: Content::Postgres(fields_of(&fields)), lines: lines.hit..end.min(lines.all.len()), cut })
}

pub(super) fn records(lines: &Lines<'_>) -> Vec<Record> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < lines.all.len() {
        let found = lines.text(at).is_some_and(starts).then(|| record(lines, at)).flatten();
        match found {
            Some((fields, end)) if fields.len() >= LEAST => {
                if fields.get(SEVERITY).is_some_and(|severity| severity != "ERROR") {
                    records.push(fields_of(&fields));
                }
                at = end.max(at + 1);
            }
            _ => at += 1,
        }
    }
    records
}

/// Whether a line begins a record: with a time, then a user in quotes or nothing.
fn starts(line: &str) -> bool {
    let Some((time, rest)) = line.trim_start().split_once(',') else { return false };
    time.len() < 40
        && time.starts_with(|c: char| c.is_ascii_digit())
        && time.contains(':')
        && rest.starts_with(['"', ','])
}

fn fields_of(fields: &[String]) -> Record {
    let field = |at: usize| fields.get(at).map(String::as_str).unwrap_or_default();
    let some = |at: usize| Some(field(at).to_owned()).filter(|text| !text.is_empty());
    let origin: Vec<&str> =
        [USER, DATABASE, APPLICATION].into_iter().map(field).filter(|text| !text.is_empty()).collect();
    Record {
        time: some(TIME),
        pid: field(PID).parse().ok(),
        message: field(MESSAGE).to_owned(),
        detail: field(DETAIL).to_owned(),
        context: field(CONTEXT).to_owned(),
        statement: some(STATEMENT),
        origin: (!origin.is_empty()).then(|| origin.join(", ")),
    }
}

/// The fields of the record that begins at a line, and the line behind it; one past the last when it has no end here.
fn record(lines: &Lines<'_>, first: usize) -> Option<(Vec<String>, usize)> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    for at in first..lines.all.len().min(first + MOST_LINES) {
        let line = lines.text(at)?;
        let mut chars = line.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '"' if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    push(&mut fields, '"');
                }
                '"' => quoted = !quoted,
                ',' if !quoted => fields.push(String::new()),
                _ => push(&mut fields, c),
            }
        }
        if !quoted {
            return Some((fields, at + 1));
        }
        push(&mut fields, '\n');
    }
    Some((fields, lines.all.len() + 1))
}

fn push(fields: &mut [String], c: char) {
    if let Some(last) = fields.last_mut() {
        last.push(c);
    }
}
