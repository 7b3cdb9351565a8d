//! PostgreSQL's reports: one record of the log, whatever the format that it was written in, read into a [`Report`].

mod context;
mod edge;
mod language;
mod log;

pub(crate) use language::{ENGLISH, LANGUAGES};
pub(crate) use log::statements;

use crate::report::{Certainty, Engine, LockRef, Object, Party, Report, Victim};
use context::Place;
use edge::{Edge, edges};

/// What one record of a log says, its fields told apart by the format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) time: Option<String>,
    pub(crate) pid: Option<u64>,
    pub(crate) message: String,
    pub(crate) detail: String,
    pub(crate) context: String,
    /// The victim's statement.
    pub(crate) statement: Option<String>,
    /// User, database, application, as far as the format has them.
    pub(crate) origin: Option<String>,
}

/// Reads a record whose message or detail tells of a deadlock. The error says what is wrong with it.
pub(crate) fn read(record: &Record, format: &'static str) -> Result<Report, String> {
    let edges = edges(&record.detail);
    let mut report = Report {
        engine: Engine::Postgres,
        format,
        time: record.time.clone(),
        parties: Vec::new(),
        victim: None,
        notes: Vec::new(),
    };
    if edges.is_empty() {
        if record.detail.trim().is_empty() {
            report.parties.extend(lone_victim(record));
            report.victim = (!report.parties.is_empty()).then(|| known(0));
            return Ok(report);
        }
        return Err("its DETAIL has no line `Process .. waits for .. on ..; blocked by process ..`".to_owned());
    }
    let cycle = Cycle::of(&edges);
    if !cycle.closed {
        report.notes.push("The last process is not blocked by the first: lines of the report are missing.".to_owned());
    }
    let pids: Vec<u64> = cycle.edges.iter().map(|edge| edge.waiter).chain(cycle.outside).collect();
    for pid in &pids {
        let edge = cycle.edges.iter().find(|edge| edge.waiter == *pid);
        let (statement, flaw) = query(&record.detail, *pid, &pids);
        let blocked_by = edge.and_then(|edge| pids.iter().position(|other| *other == edge.blocker));
        report.parties.push(Party {
            session: Some(*pid),
            statement,
            statement_flaw: flaw,
            waits: edge.map(|edge| edge.lock.clone()),
            blocked_by,
            ..Party::default()
        });
    }
    // The first line is of the process that ran the check, and fails.
    report.victim = Some(known(0));
    if let Some(victim) = report.parties.first_mut() {
        if victim.statement.is_none() && record.statement.is_some() {
            (victim.statement, victim.statement_flaw) = (record.statement.clone(), None);
        } else if let (Some(cut), Some(whole)) = (&victim.statement, &record.statement)
            && whole.len() > cut.len()
            && whole.starts_with(cut.as_str())
        {
            // STATEMENT is not cut at track_activity_query_size.
            (victim.statement, victim.statement_flaw) = (Some(whole.clone()), None);
        }
        victim.context =
            record.context.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect();
        victim.origin = record.origin.clone();
    }
    rows_from_context(&mut report);
    Ok(report)
}

/// Whether a text has no edge of a cycle.
pub(crate) fn is_edgeless(text: &str) -> bool {
    // A mode's name is in each edge; looking for it first spares the rest of a log the patterns.
    !text.contains("Lock") || edges(text).is_empty()
}

fn known(party: usize) -> Victim {
    Victim { party, certainty: Certainty::Known }
}

/// A client's copy of the error without its DETAIL: the victim is all that is known.
fn lone_victim(record: &Record) -> Option<Party> {
    let context: Vec<String> =
        record.context.lines().map(|line| line.trim().to_owned()).filter(|l| !l.is_empty()).collect();
    if record.statement.is_none() && context.is_empty() {
        return None;
    }
    let mut party = Party { session: record.pid, statement: record.statement.clone(), context, ..Party::default() };
    party.origin = record.origin.clone();
    Some(party)
}

/// "ShareLock on transaction" is a wait for whoever changed a row: CONTEXT says which row.
pub(crate) fn rows_from_context(report: &mut Report) {
    for party in &mut report.parties {
        // All of them follow from the waits, which may be told better now than before.
        party.holds.clear();
        let Some(place) = party.context.iter().find_map(|line| Place::read(line)) else { continue };
        if let Some(LockRef { object: object @ (Object::Transaction(_) | Object::Row(_)), .. }) = &mut party.waits {
            *object = Object::Row(place.row());
        }
    }
    for waiter in 0..report.parties.len() {
        let Some(party) = report.parties.get(waiter) else { continue };
        let (Some(wait), Some(holder)) = (party.waits.clone(), party.blocked_by) else { continue };
        let mode = match wait.object {
            // A table's lock conflicts with what the holder has, which the report does not name.
            Object::Table(_) => "a mode that conflicts",
            _ => "a lock that conflicts",
        };
        let from = format!("{} waits for it", party.name(report.engine));
        let holds = LockRef { mode: mode.to_owned(), certainty: Certainty::Inferred(from), ..wait };
        if let Some(holder) = report.parties.get_mut(holder)
            && !holder.holds.iter().any(|lock| lock.object == holds.object)
        {
            holder.holds.push(holds);
        }
    }
}

/// The edges in the cycle's order, without what a second report in the same text may have added.
struct Cycle {
    edges: Vec<Edge>,
    /// A blocker that waits for nobody in this text.
    outside: Option<u64>,
    closed: bool,
}

impl Cycle {
    fn of(edges: &[Edge]) -> Cycle {
        let mut cycle = Cycle { edges: Vec::new(), outside: None, closed: false };
        let mut next = edges.first();
        while let Some(edge) = next {
            cycle.edges.push(edge.clone());
            cycle.closed = cycle.edges.first().is_some_and(|first| first.waiter == edge.blocker);
            if cycle.closed {
                break;
            }
            next = edges.iter().find(|next| next.waiter == edge.blocker && !cycle.edges.contains(next));
            if next.is_none() {
                cycle.outside = Some(edge.blocker);
            }
        }
        cycle
    }
}

/// What follows `Process <pid>: ` up to the next process's; what stands there instead of a statement is its flaw.
fn query(detail: &str, pid: u64, pids: &[u64]) -> (Option<String>, Option<String>) {
    let Some(start) = query_start(detail, pid, 0).map(|(_, end)| end) else {
        let flaw = "the report has no statements: it is a client's copy of the error, the server's log has them";
        return (None, Some(flaw.to_owned()));
    };
    let ends = pids.iter().filter_map(|other| query_start(detail, *other, start)).map(|(begin, _)| begin);
    let end = ends.min().unwrap_or(detail.len());
    let text = detail.get(start..end).unwrap_or_default().trim();
    match text {
        "" => (None, Some("the report's line for its statement is empty".to_owned())),
        "<insufficient privilege>" | "<command string not enabled>" | "<backend information not available>" => {
            (None, Some(format!("the server shows {text} in its place")))
        }
        _ => {
            // One byte of the buffer is its end; the cut may fall before a character that did not fit.
            let cut =
                [1023, 2047, 4095, 8191, 16383, 32767].iter().any(|size| (size - 3..=*size).contains(&text.len()));
            let cut = cut || text.ends_with("...");
            let flaw = cut.then(|| "it was cut off: raise track_activity_query_size on the server".to_owned());
            (Some(text.to_owned()), flaw)
        }
    }
}

/// Where the line `<word> <pid>: ` begins and ends, from `from` on: at the start of a line, or of a sentence in a copy on
/// one line.
fn query_start(detail: &str, pid: u64, from: usize) -> Option<(usize, usize)> {
    let number = pid.to_string();
    let mut at = from;
    while let Some(found) = detail.get(at..)?.find(&number) {
        let (begin, end) = (at + found, at + found + number.len());
        at = end;
        let rest = detail.get(end..).unwrap_or_default();
        let colon = rest.len() - rest.trim_start_matches(' ').len();
        let Some(after) = rest.get(colon..).and_then(|rest| rest.strip_prefix(':')) else { continue };
        let before = detail.get(..begin).unwrap_or_default().trim_end_matches(' ');
        let word_at =
            before.char_indices().rev().find(|(_, c)| c.is_whitespace()).map_or(0, |(at, c)| at + c.len_utf8());
        let word = before.get(word_at..).unwrap_or_default();
        // "Process", "Prozess", "プロセス": a word, alone on its line or after the end of a sentence.
        let lead = before.get(..word_at).unwrap_or_default().trim_end_matches([' ', '\t']);
        let alone = lead.is_empty() || lead.ends_with(['\n', '.', ';', ':']) || word == "Process";
        if alone && !word.is_empty() && word.chars().all(char::is_alphabetic) {
            return Some((word_at, detail.len() - after.len()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_detail(detail: &str) -> Report {
        let record = Record { detail: detail.to_owned(), ..Record::default() };
        read(&record, "test").unwrap()
    }

    #[test]
    fn statements_of_several_lines_that_look_like_a_log_stay_whole() {
        let report = read_detail(
            "Process 1 waits for ShareLock on transaction 9; blocked by process 2.\n\
             Process 2 waits for ShareLock on transaction 8; blocked by process 1.\n\
             Process 1: update t\nERROR:  set x = 'Process 7: no'\nProcess 2: \nselect 1;",
        );
        let statements: Vec<_> = report.parties.iter().map(|party| party.statement.clone().unwrap()).collect();
        assert_eq!(statements, ["update t\nERROR:  set x = 'Process 7: no'", "select 1;"]);
    }

    #[test]
    fn an_open_cycle_is_said() {
        let report = read_detail(
            "Process 1 waits for ShareLock on transaction 9; blocked by process 2.\n\
             Process 2 waits for ShareLock on transaction 8; blocked by process 3.",
        );
        assert_eq!(report.parties.len(), 3);
        assert_eq!(report.notes.len(), 1);
    }

    #[test]
    fn three_parties_are_put_in_the_order_of_their_waits() {
        let report = read_detail(
            "Process 1 waits for ShareLock on transaction 9; blocked by process 3.\n\
             Process 2 waits for ShareLock on transaction 8; blocked by process 1.\n\
             Process 3 waits for ShareLock on transaction 7; blocked by process 2.\n\
             Process 3: <insufficient privilege>",
        );
        let pids: Vec<_> = report.parties.iter().map(|party| (party.session, party.blocked_by)).collect();
        assert_eq!(pids, [(Some(1), Some(1)), (Some(3), Some(2)), (Some(2), Some(0))]);
        assert!(report.parties[1].statement_flaw.as_ref().unwrap().contains("insufficient privilege"));
    }
}
