//! The outcome for people, as a compiler tells errors: what, where, a table of who holds and who wants what, why, what to do.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;

use anyhow::Result;
use rowlock_lens::{Certainty, Finding, Group, HAZARDS, Hazard, Level, Lock, Status};

use crate::check::CheckedFile;
use crate::outcome::{Outcome, Place};
use crate::style::Styles;
use crate::table::{draw, width, wrap};

/// All of it.
pub(crate) fn outcome(out: &mut impl Write, outcome: Outcome, styles: Styles) -> Result<()> {
    let Styles { error, .. } = styles;
    for failure in &outcome.failures {
        writeln!(out, "{error}could not{error:#} {failure}\n")?;
    }
    for unreadable in &outcome.unreadable {
        let Place { file, line, .. } = &unreadable.place;
        writeln!(
            out,
            "{error}unreadable{error:#} {file}:{line}: it looks like a report of a deadlock, but {}\n",
            unreadable.reason
        )?;
    }
    let more = outcome.unreadable_count - outcome.unreadable.len() as u64;
    if more > 0 {
        writeln!(out, "and {more} more that could not be read\n")?;
    }
    let groups = outcome.groups.into_sorted();
    for group in &groups {
        self::group(out, group, styles)?;
    }
    let unread = match outcome.unreadable_count {
        0 => String::new(),
        n => format!("; {n} could not be read"),
    };
    let (n, kinds) = (outcome.deadlocks, groups.len());
    writeln!(out, "{n} deadlock{} of {kinds} kind{}{unread}", plural(n), plural(kinds as u64))?;
    Ok(())
}

fn plural(n: u64) -> &'static str {
    if n == 1 { "" } else { "s" }
}

/// What a hazard is.
pub(crate) fn hazard(out: &mut impl Write, hazard: &Hazard, styles: Styles) -> Result<()> {
    let title = styles.title;
    writeln!(out, "{title}{}{title:#}: {}\n", hazard.name, hazard.title)?;
    for line in wrap(hazard.about, width()) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn group(out: &mut impl Write, group: &Group<Place>, styles: Styles) -> Result<()> {
    let Group { finding, place, count, first, last } = group;
    let dim = styles.dim;
    title(out, finding, "deadlock", styles)?;
    let time = finding.time.as_ref().map(|time| format!(", {time}")).unwrap_or_default();
    writeln!(out, "  {dim}-->{dim:#} {}:{}{time} ({}, {})", place.file, place.line, finding.engine, finding.format)?;
    if *count > 1 {
        let span = match (first, last) {
            (Some(first), Some(last)) => format!(": first {first}, last {last}"),
            _ => String::new(),
        };
        writeln!(out, "      {count} times{span}")?;
    }
    body(out, finding, styles)
}

/// What `rowlock check` found.
pub(crate) fn checked(out: &mut impl Write, files: &[CheckedFile], failures: &[String], styles: Styles) -> Result<()> {
    let error = styles.error;
    for failure in failures {
        writeln!(out, "{error}could not{error:#} {failure}\n")?;
    }
    let (mut found, mut unread, mut transactions) = (Counts::default(), 0, 0);
    for CheckedFile { file, checked } in files {
        for unjudged in &checked.unread {
            let of = unjudged.transaction.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
            writeln!(out, "{error}not judged{error:#} {}: a statement{of}: {}\n", unjudged.place, unjudged.reason)?;
        }
        for finding in &checked.findings {
            possible(out, finding, file, styles)?;
        }
        for assumed in &checked.assumed {
            remark(out, "assumed", &format!("{file}: {assumed}"), styles)?;
        }
        checked.findings.iter().for_each(|finding| found.add(finding));
        unread += checked.unread.len() as u64;
        transactions += checked.transactions as u64;
    }
    let unread = match unread {
        0 => String::new(),
        n => format!("; {n} statement{} could not be judged", plural(n)),
    };
    writeln!(out, "{found} of {transactions} transaction{}{unread}", plural(transactions))?;
    Ok(())
}

/// How many findings there are of which sort.
#[derive(Default)]
struct Counts {
    deadlocks: u64,
    /// Of single transactions.
    alone: BTreeMap<Reverse<Level>, u64>,
}

impl Counts {
    fn add(&mut self, finding: &Finding) {
        match finding.is_deadlock() {
            true => self.deadlocks += 1,
            false => *self.alone.entry(Reverse(finding.level)).or_default() += 1,
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} possible deadlock{}", self.deadlocks, plural(self.deadlocks))?;
        for (Reverse(level), count) in &self.alone {
            write!(f, ", {count} {level}{}", plural(*count))?;
        }
        Ok(())
    }
}

/// What can be: a deadlock, or what one transaction shows by itself.
fn possible(out: &mut impl Write, finding: &Finding, file: &str, styles: Styles) -> Result<()> {
    let dim = styles.dim;
    if finding.is_deadlock() {
        let lowered = if finding.level == Level::Error { String::new() } else { format!(" ({})", finding.level) };
        title(out, finding, "possible deadlock", styles)?;
        writeln!(out, "  {dim}-->{dim:#} {file} ({}){lowered}", finding.engine)?;
        return body(out, finding, styles);
    }
    let Some(transaction) = finding.transactions.first() else { return Ok(()) };
    title(out, finding, &finding.level.to_string(), styles.at(finding.level))?;
    let place = transaction.place.as_ref().map_or_else(|| file.to_owned(), ToString::to_string);
    let name = transaction.origin.as_deref().unwrap_or_default();
    writeln!(out, "  {dim}-->{dim:#} {place} ({}), transaction {name}\n", finding.engine)?;
    let rows: Vec<Vec<Vec<String>>> = finding
        .steps
        .iter()
        .map(|step| {
            let line = step.place.as_ref().map(|place| place.line.to_string()).unwrap_or_default();
            vec![vec![line], vec![step.statement.clone().unwrap_or_default()], vec![step.effect.clone()]]
        })
        .collect();
    for line in draw(&["line", "statement", "what it does"], &rows, width() - 2) {
        writeln!(out, "  {line}")?;
    }
    writeln!(out)?;
    remarks(out, finding, &[], styles)?;
    writeln!(out)?;
    Ok(())
}

fn title(out: &mut impl Write, finding: &Finding, kind: &str, styles: Styles) -> Result<()> {
    let Styles { error, title, .. } = styles;
    let what = HAZARDS
        .iter()
        .find(|hazard| hazard.name == finding.hazard)
        .map_or("a deadlock whose cause is not told", |hazard| hazard.title);
    writeln!(out, "{error}{kind}[{}]{error:#}{title}: {what}{title:#}", finding.hazard)?;
    Ok(())
}

fn body(out: &mut impl Write, finding: &Finding, styles: Styles) -> Result<()> {
    writeln!(out)?;
    let mut footnotes = Vec::new();
    if !finding.transactions.is_empty() {
        cycle(out, finding, &mut footnotes)?;
        writeln!(out)?;
    }
    remarks(out, finding, &footnotes, styles)?;
    writeln!(out)?;
    Ok(())
}

/// The table of the cycle.
fn cycle(out: &mut impl Write, finding: &Finding, footnotes: &mut Vec<String>) -> Result<()> {
    let victim = finding.victim.as_ref().map(|victim| victim.transaction.as_str());
    let mut rows = Vec::new();
    for transaction in &finding.transactions {
        let mut who = match (finding.status, &transaction.origin) {
            (Status::Possible, Some(origin)) => {
                let line = transaction.place.as_ref().map(|place| format!(", line {}", place.line)).unwrap_or_default();
                vec![format!("{}  {origin}{line}", transaction.name)]
            }
            (_, origin) => {
                let session = format!("{}  {}", transaction.name, transaction.session);
                std::iter::once(session).chain(origin.iter().map(|origin| format!("   {origin}"))).collect()
            }
        };
        if victim == Some(&transaction.name) {
            who.push("   rolled back".to_owned());
        }
        let mut holds = Vec::new();
        for lock in &transaction.holds {
            holds.push(lock_text(lock, footnotes));
            match &lock.statement {
                Some(sql) => holds.push(format!("  by: {sql}")),
                None if transaction.holds.len() == 1 && finding.status == Status::Happened => {
                    holds.push("  by: (not in the report)".to_owned())
                }
                None => {}
            }
        }
        if holds.is_empty() {
            holds.push("(not told)".to_owned());
        }
        let mut wants = Vec::new();
        if let Some(lock) = &transaction.wants {
            let by = transaction.blocked_by.as_deref().map(|by| format!(", held by {by}")).unwrap_or_default();
            wants.push(format!("{}{by}", lock_text(lock, footnotes)));
        }
        match (&transaction.statement, &transaction.statement_flaw) {
            (Some(sql), flaw) => {
                wants.push(format!("  in: {sql}"));
                wants.extend(flaw.iter().map(|flaw| format!("  ({flaw})")));
            }
            (None, _) => wants.push("  in: (not in the report)".to_owned()),
        }
        rows.push(vec![who, holds, wants]);
    }
    for line in draw(&["transaction", "holds", "waits for"], &rows, width() - 2) {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// `orders, id = <1> (update) [1]`, with a footnote for what is inferred.
fn lock_text(lock: &Lock, footnotes: &mut Vec<String>) -> String {
    let note = note(&lock.certainty, footnotes);
    format!("{} ({}){note}", lock.what, lock.mode)
}

fn note(certainty: &Certainty, footnotes: &mut Vec<String>) -> String {
    let Certainty::Inferred(from) = certainty else { return String::new() };
    let at = footnotes.iter().position(|note| note == from).unwrap_or_else(|| {
        footnotes.push(from.clone());
        footnotes.len() - 1
    });
    format!(" [{}]", at + 1)
}

fn remarks(out: &mut impl Write, finding: &Finding, footnotes: &[String], styles: Styles) -> Result<()> {
    for (at, from) in footnotes.iter().enumerate() {
        remark(out, &format!("[{}]", at + 1), &format!("inferred: {from}"), styles)?;
    }
    let cause = match &finding.certainty {
        Certainty::Known => finding.cause.clone(),
        Certainty::Inferred(from) => format!("{} (Inferred: {from}.)", finding.cause),
    };
    remark(out, "why", &cause, styles)?;
    for fix in &finding.fix {
        remark(out, "fix", &fix.text, styles)?;
        let style = styles.fix;
        for sql in fix.sql.iter().flat_map(|sql| sql.split("; ")) {
            for line in wrap(&format!("{};", sql.trim_end_matches(';')), width() - 11) {
                writeln!(out, "           {style}{line}{style:#}")?;
            }
        }
    }
    if let Some(victim) = &finding.victim
        && finding.transactions.len() > 1
    {
        let surely = match &victim.certainty {
            Certainty::Known => String::new(),
            Certainty::Inferred(from) => format!(" (By {from}.)"),
        };
        remark(out, "victim", &format!("{}: {}.{surely}", victim.transaction, victim.why), styles)?;
    }
    for note in &finding.notes {
        remark(out, "note", note, styles)?;
    }
    for unknown in &finding.unknown {
        remark(out, "unknown", &format!("{}: {}", unknown.what, unknown.how), styles)?;
    }
    Ok(())
}

fn remark(out: &mut impl Write, label: &str, text: &str, styles: Styles) -> Result<()> {
    let style = styles.label;
    for (at, line) in wrap(text, width() - 11).into_iter().enumerate() {
        match at {
            0 => writeln!(out, "  {style}{label:>7}{style:#}: {line}")?,
            _ => writeln!(out, "           {line}")?,
        }
    }
    Ok(())
}
