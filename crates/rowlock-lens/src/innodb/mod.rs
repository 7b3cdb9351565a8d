//! InnoDB's reports, of MySQL 5.0 to 9 and MariaDB 10.1 to 11.8: sections by their headings, wherever these stand, since
//! copies lose line breaks, blank lines and asterisks.

mod head;
mod lock;

use std::sync::LazyLock;

use regex::Regex;

use head::Head;
pub(crate) use head::is_head;
pub(crate) use lock::Mode;
use lock::{Lock, locks};

use crate::report::{Certainty, Engine, LockRef, Party, Report, Victim};

static HEADING: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(concat!(
        r"\*{0,3} ?\((?P<n>\d+)\) TRANSACTION:|\*+ TRANSACTION:",
        r"|\*{0,3} ?(?:\(\d+\) )?(?P<holds>HOLDS THE LOCK\(S\):)",
        r"|\*{0,3} ?(?:\(\d+\) )?(?P<waits>WAITING FOR THIS LOCK TO BE GRANTED:)",
        r"|\*{0,3} ?(?P<conflicts>CONFLICTING WITH:)",
        r"|WE ROLL BACK TRANSACTION \((?P<victim>\d+)\)",
        r"|(?P<deep>TOO DEEP OR LONG SEARCH)",
    ))
    .ok()
});

/// One transaction's sections.
#[derive(Debug, Default)]
struct Section {
    number: Option<usize>,
    head: String,
    holds: Vec<Lock>,
    waits: Vec<Lock>,
    conflicts: Vec<Lock>,
}

/// Reads a report. The error says what is wrong with it.
pub(crate) fn read(text: &str, time: Option<String>, format: &'static str) -> Result<Report, String> {
    let (sections, victim, deep) = sections(text);
    if sections.is_empty() {
        return Err("it has no section `*** (1) TRANSACTION:`".to_owned());
    }
    let engine = if text.contains("MariaDB thread id") || text.contains("CONFLICTING WITH:") {
        Engine::MariaDb
    } else {
        Engine::MySql
    };
    let mut report = Report { engine, format, time, parties: Vec::new(), victim: None, notes: Vec::new() };
    for section in &sections {
        let head = Head::read(&section.head);
        let mut party = Party {
            session: head.thread,
            transaction: head.transaction.clone(),
            statement: head.statement,
            weight: head.weight,
            waits: section.waits.first().map(|lock| lock.reference(Certainty::Known)),
            holds: section.holds.iter().map(|lock| lock.reference(Certainty::Known)).collect(),
            origin: head.origin,
            ..Party::default()
        };
        if party.statement.is_none() {
            party.statement_flaw = Some("the report has no statement of it".to_owned());
        } else if head.cut {
            party.statement_flaw = Some("it is cut off, as InnoDB does with long statements".to_owned());
        }
        report.parties.push(party);
    }
    if sections.len() > 2 && sections.iter().all(|section| section.number.is_none()) && !closes(text) {
        return Err(format!(
            "the waits of its {} transactions, which have no headings, close no cycle",
            sections.len()
        ));
    }
    if report
        .parties
        .iter()
        .all(|party| party.waits.is_none() && party.transaction.is_none() && party.statement.is_none())
    {
        return Err("its transactions have neither numbers nor locks nor statements".to_owned());
    }
    conflicts(&mut report, &sections);
    edges(&mut report, deep);
    last_writers(&mut report);
    report.victim = victim.and_then(|number| find_victim(&report, &sections, number));
    Ok(report)
}

fn sections(text: &str) -> (Vec<Section>, Option<usize>, bool) {
    let mut sections: Vec<Section> = Vec::new();
    let (mut victim, mut deep) = (None, false);
    let Some(heading) = HEADING.as_ref() else { return (sections, victim, deep) };
    let found: Vec<_> = heading.captures_iter(text).collect();
    let begin = |n: usize| found.get(n).and_then(|f| f.get(0)).map_or(text.len(), |whole| whole.start());
    if !found.iter().any(|f| f.get(0).is_some_and(|whole| whole.as_str().ends_with("TRANSACTION:"))) {
        return (headless(text), victim, deep);
    }
    for (n, captures) in found.iter().enumerate() {
        let Some(whole) = captures.get(0) else { continue };
        let body = text.get(whole.end()..begin(n + 1)).unwrap_or_default();
        let number = |name| captures.name(name).and_then(|number| number.as_str().parse().ok());
        if captures.name("deep").is_some() {
            deep = true;
        } else if captures.name("victim").is_some() {
            // What follows TOO DEEP is the number of a section that is not there.
            victim = if deep { Some(usize::MAX) } else { number("victim") };
        } else if let Some(section) = sections.last_mut().filter(|_| !whole.as_str().ends_with(" TRANSACTION:")) {
            let list = if captures.name("holds").is_some() {
                &mut section.holds
            } else if captures.name("waits").is_some() {
                &mut section.waits
            } else {
                &mut section.conflicts
            };
            list.extend(locks(body));
        } else if whole.as_str().ends_with(" TRANSACTION:") {
            sections.push(Section { number: number("n"), head: body.to_owned(), ..Section::default() });
        }
    }
    (sections, victim, deep)
}

/// Transactions without headings: a lock is held unless it says `waiting`.
fn headless(text: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut body = String::new();
    let close = |sections: &mut Vec<Section>, body: &mut String| {
        let locks_at = body.find("RECORD LOCKS").into_iter().chain(body.find("TABLE LOCK")).min().unwrap_or(body.len());
        let (waits, holds) =
            locks(body.get(locks_at..).unwrap_or_default()).into_iter().partition(|lock| lock.mode.waiting);
        if is_head(body) {
            let head = body.get(..locks_at).unwrap_or_default().to_owned();
            sections.push(Section { head, holds, waits, ..Section::default() });
        }
        body.clear();
    };
    for line in text.lines() {
        if is_head(line) {
            close(&mut sections, &mut body);
        }
        body.push_str(line);
        body.push('\n');
    }
    close(&mut sections, &mut body);
    sections
}

/// Whether each transaction of a text without headings waits for what another one in it holds.
pub(crate) fn closes(text: &str) -> bool {
    let sections = headless(text);
    sections.len() > 1
        && sections.iter().enumerate().all(|(at, section)| {
            section.waits.iter().any(|wait| {
                let mut others = sections.iter().enumerate().filter(|(other, _)| *other != at);
                others.any(|(_, other)| other.holds.iter().any(|lock| lock.place() == wait.place()))
            })
        })
}

/// MariaDB's CONFLICTING WITH lists all that is granted on the record: also the waiter's own, and what is compatible.
fn conflicts(report: &mut Report, sections: &[Section]) {
    for (at, section) in sections.iter().enumerate() {
        let Some(wait) = section.waits.first() else { continue };
        for lock in &section.conflicts {
            let owner = report
                .parties
                .iter()
                .position(|party| party.transaction.is_some() && party.transaction == lock.transaction);
            let Some(owner) =
                owner.filter(|owner| *owner != at && !lock.mode.waiting && lock.mode.conflicts(&wait.mode))
            else {
                continue;
            };
            let reference = lock.reference(Certainty::Known);
            if let Some(party) = report.parties.get_mut(owner)
                && !party.holds.contains(&reference)
            {
                party.holds.push(reference);
            }
            if let Some(party) = report.parties.get_mut(at) {
                party.blocked_by.get_or_insert(owner);
            }
        }
    }
}

/// Who waits for whom, from who holds what; and what must be held, from who waits for it.
fn edges(report: &mut Report, deep: bool) {
    let count = report.parties.len();
    for at in 0..count {
        let Some(wait) = report.parties.get(at).and_then(|party| party.waits.clone()) else { continue };
        let mode = Mode::read(&wait.mode);
        let held = |party: &Party| {
            party.holds.iter().any(|lock| same_place(lock, &wait) && Mode::read(&lock.mode).conflicts(&mode))
        };
        let known = report.parties.get(at).and_then(|party| party.blocked_by);
        let known =
            known.or_else(|| (0..count).find(|other| *other != at && report.parties.get(*other).is_some_and(held)));
        let blocker = match (known, count) {
            (Some(known), _) => known,
            (None, 2) => {
                let other = 1 - at.min(1);
                // 5.x shows two of N: (1) waits for what (2) holds, but what (2) waits for, a third may have.
                let shown = report.parties.get(other).is_some_and(|party| !party.holds.is_empty());
                if shown && !deep {
                    report.notes.push(
                        "What one waits for is not what the other is shown to hold: the cycle has more transactions than the \
                         report shows (up to version 5.7 it shows two)."
                            .to_owned(),
                    );
                }
                other
            }
            (None, _) => continue,
        };
        let from = report
            .parties
            .get(at)
            .map(|party| format!("{} waits for it", party.name(report.engine)))
            .unwrap_or_default();
        if let Some(party) = report.parties.get_mut(blocker)
            && !party.holds.iter().any(|lock| same_place(lock, &wait))
        {
            let mode = format!("a lock that conflicts with {}", mode.words());
            party.holds.push(LockRef { mode, certainty: Certainty::Inferred(from), ..wait });
        }
        if let Some(party) = report.parties.get_mut(at) {
            party.blocked_by = Some(blocker);
        }
    }
    if deep {
        report.notes.push(
            "InnoDB gave up its search for a cycle (more than 200 steps, or a chain too long) and took this for a deadlock; \
             the number of the transaction that it names means nothing."
                .to_owned(),
        );
    }
}

fn same_place(a: &LockRef, b: &LockRef) -> bool {
    match (a.row(), b.row()) {
        (Some(a), Some(b)) => a.place == b.place && a.table == b.table,
        _ => a.object == b.object,
    }
}

/// A row names its last writer: while that transaction is open, it holds the row exclusively.
fn last_writers(report: &mut Report) {
    let Report { engine, parties, .. } = report;
    let ids: Vec<Option<u64>> = parties.iter().map(|party| head::number(party.transaction.as_deref()?)).collect();
    for waiter in 0..parties.len() {
        let wait = parties.get(waiter).and_then(|party| party.waits.clone());
        let Some(writer) = wait.as_ref().and_then(|wait| wait.row()?.record.as_ref()?.writer()) else { continue };
        let Some(owner) = ids.iter().position(|id| *id == Some(writer)).filter(|owner| *owner != waiter) else {
            continue;
        };
        let Some(wait) = wait else { continue };
        let name = parties.get(owner).map(|party| party.name(*engine)).unwrap_or_default();
        if let Some(lock) =
            parties.get_mut(owner).and_then(|party| party.holds.iter_mut().find(|lock| same_place(lock, &wait)))
            && lock.certainty != Certainty::Known
        {
            lock.certainty =
                Certainty::Inferred(format!("the row's DB_TRX_ID: {name} wrote it last, and has not ended"));
            lock.mode = "X locks rec but not gap".to_owned();
        }
    }
}

/// The party with the number that the report says was rolled back.
fn find_victim(report: &Report, sections: &[Section], number: usize) -> Option<Victim> {
    let party = sections.iter().position(|section| section.number == Some(number))?;
    let certainty = match report.engine {
        Engine::MariaDb => Certainty::Inferred(
            "the report's number, which several versions of MariaDB get wrong: the client that got error 1213 is the victim".to_owned(),
        ),
        _ => Certainty::Known,
    };
    Some(Victim { party, certainty })
}
