//! What the surrounding lines of a log add to a report: the earlier statements of the same transactions, where
//! `log_statement` (or a duration log) wrote them, and the rows that other waiters were at, where `log_lock_waits` did.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::{ENGLISH, LANGUAGES, Record};
use crate::report::{Party, Report};

/// Most statements of one transaction that are kept: the last ones.
const MOST: usize = 200;

/// What the log had of one session, up to the report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Statements {
    /// Since the last BEGIN, oldest first.
    statements: Vec<String>,
    /// A BEGIN was seen.
    begun: bool,
    /// The last CONTEXT.
    context: Option<String>,
}

/// Puts what the log had into the report's parties.
pub(crate) fn statements(report: &mut Report, records: impl Iterator<Item = Record>) {
    let mut sessions: HashMap<u64, Statements> =
        report.parties.iter().filter_map(|party| Some((party.session?, Statements::default()))).collect();
    for record in records {
        if let Some(session) = record.pid.and_then(|pid| sessions.get_mut(&pid)) {
            session.add(&record);
        }
    }
    for party in &mut report.parties {
        if let Some(session) = party.session.and_then(|pid| sessions.remove(&pid)) {
            session.give(party);
        }
    }
}

impl Statements {
    fn add(&mut self, record: &Record) {
        if !record.context.is_empty() {
            self.context = Some(record.context.clone());
        }
        let Some(statement) = statement(record) else { return };
        self.context = None;
        match first_word(&statement).as_str() {
            "begin" | "start" => *self = Statements { begun: true, ..Statements::default() },
            "commit" | "rollback" | "end" | "abort" if !statement.to_ascii_lowercase().contains(" to ") => {
                *self = Statements::default();
            }
            _ => {
                if self.statements.len() >= MOST {
                    self.statements.remove(0);
                    self.begun = false;
                }
                self.statements.push(statement);
            }
        }
    }

    fn give(mut self, party: &mut Party) {
        // The statement that waits is in the log as well, written before it ran.
        let same = |a: &str, b: &str| a.trim_end_matches([';', ' ']) == b.trim_end_matches([';', ' ']);
        if let (Some(last), Some(current)) = (self.statements.last(), &party.statement)
            && (same(last, current) || blank(last) == blank(current))
        {
            let last = self.statements.pop();
            if current.contains("$1") {
                // With its parameters, which the report does not show.
                party.statement = last;
            }
        } else if party.statement.is_none() {
            party.statement = self.statements.pop();
            if party.statement.is_some() {
                party.statement_flaw = None;
            }
        }
        // Without a BEGIN, what stands before may have been committed each by itself.
        if self.begun {
            (party.earlier, party.whole) = (self.statements, true);
        }
        if party.context.is_empty() {
            party.context =
                self.context.iter().flat_map(|context| context.lines()).map(|line| line.trim().to_owned()).collect();
        }
    }
}

/// A statement with its parameters blanked, to know it again when the log shows it with values.
fn blank(sql: &str) -> String {
    crate::sql::shape(sql, crate::report::Engine::Postgres)
}

fn first_word(sql: &str) -> String {
    sql.trim_start().chars().take_while(|c| c.is_ascii_alphabetic()).collect::<String>().to_ascii_lowercase()
}

/// The statement that a record logs: `statement: ..`, `execute name: ..`, `duration: 0.1 ms  statement: ..`.
fn statement(record: &Record) -> Option<String> {
    let message = record.message.trim_start();
    let message = match message.strip_prefix("duration: ") {
        // What is logged with its duration has ended: it stands in its place, unless a line of its own stood there.
        Some(rest) => rest.split_once(" ms").map(|(_, rest)| rest.trim_start())?,
        None => message,
    };
    let words = std::iter::once(&ENGLISH).chain(&LANGUAGES).map(|language| language.statement);
    for word in words {
        if let Some(rest) = message.strip_prefix(word).map(str::trim_start).and_then(|rest| rest.strip_prefix(':')) {
            return Some(rest.trim().to_owned());
        }
    }
    // `execute S_1/C_2: ..`, `execute fetch from S_1: ..`
    let rest = message.strip_prefix("execute ")?;
    let (_, sql) = rest.split_once(": ")?;
    Some(bind(sql.trim(), &record.detail))
}

static PARAMETER: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\$(\d{1,5})").ok());
static VALUE: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"\$(\d{1,5}) = ('(?:[^']|'')*'|NULL)").ok());

/// The statement with the values of `parameters: $1 = '10', ..` in place; numbers without their quotes, as one writes them.
fn bind(sql: &str, detail: &str) -> String {
    let (Some(parameter), Some(value)) = (PARAMETER.as_ref(), VALUE.as_ref()) else { return sql.to_owned() };
    let part = |found: &Captures<'_>, n: usize| found.get(n).map(|part| part.as_str().to_owned()).unwrap_or_default();
    let values: HashMap<String, String> = value
        .captures_iter(detail)
        .map(|found| {
            let text = part(&found, 2);
            let number = text.trim_matches('\'');
            let is_number = number.len() < 19 && number.parse::<i64>().is_ok();
            (part(&found, 1), if is_number { number.to_owned() } else { text })
        })
        .collect();
    let bound = parameter.replace_all(sql, |found: &Captures<'_>| {
        values.get(&part(found, 1)).cloned().unwrap_or_else(|| part(found, 0))
    });
    bound.into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str, detail: &str) -> Record {
        Record { pid: Some(1), message: text.to_owned(), detail: detail.to_owned(), ..Record::default() }
    }

    #[test]
    fn statements_are_read_in_both_protocols() {
        let read = |text, detail| statement(&message(text, detail));
        assert_eq!(read("statement: select 1;", ""), Some("select 1;".into()));
        assert_eq!(read("Anweisung: select 1;", ""), Some("select 1;".into()));
        assert_eq!(read("duration: 0.12 ms  statement: select 2", ""), Some("select 2".into()));
        assert_eq!(
            read("execute <unnamed>: update t set a = $1 where id = $2", "parameters: $1 = 'it''s', $2 = '10'"),
            Some("update t set a = 'it''s' where id = 10".into())
        );
        assert_eq!(read("duration: 0.12 ms", ""), None);
        assert_eq!(read("process 1 still waiting for ShareLock on transaction 2 after 50 ms", ""), None);
    }

    #[test]
    fn only_the_open_transaction_counts() {
        let mut party = Party { session: Some(1), statement: Some("update t set a = $1".into()), ..Party::default() };
        let mut session = Statements::default();
        for sql in ["begin", "select 1", "commit", "BEGIN", "select 2", "rollback to a", "update t set a = 7"] {
            session.add(&message(&format!("statement: {sql}"), ""));
        }
        session.give(&mut party);
        assert_eq!((party.earlier, party.whole), (vec!["select 2".to_owned(), "rollback to a".to_owned()], true));
        assert_eq!(party.statement.as_deref(), Some("update t set a = 7"));
    }
}
