//! The outcome as JSON: `findings[]`, `unreadable[]`, `failures[]`, and counts. New fields may come; `version` changes when
//! one goes or changes its meaning.

use std::io::Write;

use anyhow::Result;
use rowlock_lens::Finding;
use serde::Serialize;

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
