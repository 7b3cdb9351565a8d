//! The outcome as JSON: `findings[]`, `unreadable[]`, `failures[]`, and counts. New fields may come; `version` changes when
//! one goes or changes its meaning.

use std::io::Write;

use anyhow::Result;
use rowlock_lens::{Finding, Level, Unjudged};
use serde::Serialize;

use crate::check::CheckedFile;
use crate::outcome::{Outcome, Place, Unreadable};

#[derive(Serialize)]
struct Document {
    version: u32,
    findings: Vec<Counted>,
    unreadable: Vec<Unreadable>,
    failures: Vec<String>,
    summary: Summary,
}

#[derive(Serialize)]
struct Counted {
    #[serde(flatten)]
    finding: Finding,
    #[serde(rename = "where")]
    place: Place,
    count: u64,
    first: Option<String>,
    last: Option<String>,
}

#[derive(Serialize)]
struct CheckDocument {
    version: u32,
    findings: Vec<InFile<Finding>>,
    unreadable: Vec<Unjudged>,
    assumed: Vec<InFile<Assumed>>,
    failures: Vec<String>,
    summary: CheckSummary,
}

#[derive(Serialize)]
struct InFile<T: Serialize> {
    file: String,
    #[serde(flatten)]
    what: T,
}

#[derive(Serialize)]
struct Assumed {
    assumed: String,
}

#[derive(Default, Serialize)]
struct CheckSummary {
    deadlocks: usize,
    errors: usize,
    warnings: usize,
    notes: usize,
    unreadable: usize,
    transactions: usize,
}

#[derive(Serialize)]
struct Summary {
    deadlocks: u64,
    unreadable: u64,
    bytes: u64,
}

pub(crate) fn outcome(out: &mut impl Write, outcome: Outcome) -> Result<()> {
    let findings = outcome.groups.into_sorted().into_iter().map(|group| Counted {
        finding: group.finding,
        place: group.place,
        count: group.count,
        first: group.first,
        last: group.last,
    });
    let document = Document {
        version: 1,
        findings: findings.collect(),
        unreadable: outcome.unreadable,
        failures: outcome.failures,
        summary: Summary { deadlocks: outcome.deadlocks, unreadable: outcome.unreadable_count, bytes: outcome.bytes },
    };
    serde_json::to_writer_pretty(&mut *out, &document).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}

/// What `rowlock check` found.
pub(crate) fn checked(out: &mut impl Write, files: Vec<CheckedFile>, failures: Vec<String>) -> Result<()> {
    let mut document = CheckDocument {
        version: 1,
        findings: Vec::new(),
        unreadable: Vec::new(),
        assumed: Vec::new(),
        failures,
        summary: CheckSummary::default(),
    };
    for CheckedFile { file, checked } in files {
        document.summary.transactions += checked.transactions;
        document.findings.extend(checked.findings.into_iter().map(|what| InFile { file: file.clone(), what }));
        document.unreadable.extend(checked.unread);
        let assumed = checked.assumed.into_iter().map(|assumed| Assumed { assumed });
        document.assumed.extend(assumed.map(|what| InFile { file: file.clone(), what }));
    }
    let count = |level| document.findings.iter().filter(|found| found.what.level == level).count();
    document.summary.deadlocks = document.findings.iter().filter(|found| found.what.is_deadlock()).count();
    document.summary.errors = count(Level::Error);
    document.summary.warnings = count(Level::Warning);
    document.summary.notes = count(Level::Note);
    document.summary.unreadable = document.unreadable.len();
    serde_json::to_writer_pretty(&mut *out, &document).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(())
}
