//! `rowlock check`: the deadlocks that can be, out of scenario files.

use std::io::{self, Write};

use anyhow::Result;
use clap::{Args, ValueEnum};
use rowlock_lens::{Checked, Level, Levels, Redactor};

use crate::sources::{Inputs, Sources};
use crate::style::Styles;
use crate::{json, text};

const EXAMPLES: &str = "\
Examples:
  rowlock check orders.sql                         a scenario file
  rowlock check --schema dump.sql scenarios/*.sql  with the schema of a dump
  pg_dump --schema-only shop > dump.sql            (or mysqldump --no-data)
  rowlock check --format json orders.sql | jq '.findings[].hazard'
  rowlock check --hazard unbounded-wait orders.sql one hazard alone, also one that is else not told
  rowlock explain order-inversion                  what a hazard is

A scenario is plain SQL with directives in comments:
  -- rowlock: engine postgres
  -- rowlock: schema
  create table stock (id bigint primary key, n int not null);
  -- rowlock: transaction api
  begin;
  update stock set n = n - 1 where id = $1;
  update stock set n = n - 1 where id = $2;
  commit;

A literal is that value; $1 is one value in one transaction and any in another;
each ? can be any. Each transaction can run several times at once.

Exit codes: 0 nothing found but notes, 1 errors or warnings, 2 something could not be judged.";

/// What `rowlock check` takes.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    sources: Sources,
    /// Look for this hazard alone (repeatable)
    #[arg(long = "hazard", value_name = "NAME")]
    hazards: Vec<String>,
    /// The form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Show literals; without it, each value is a number in angle brackets, the same for equal values
    #[arg(long)]
    show_values: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// For programs
    Json,
}

/// A scenario that was checked.
pub(crate) struct CheckedFile {
    /// As it was named; `-` is standard input.
    pub(crate) file: String,
    pub(crate) checked: Checked,
}

/// Runs it; returns the exit code.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let mut levels = Levels::default();
    levels.limit(arguments.hazards.iter().map(String::as_str)).map_err(anyhow::Error::msg)?;
    let Inputs { workloads, failures } = arguments.sources.read()?;
    let files: Vec<CheckedFile> = workloads
        .into_iter()
        .map(|(file, workload)| {
            let checked = rowlock_lens::check_at(&workload, &levels, &mut Redactor::new(arguments.show_values));
            CheckedFile { file, checked }
        })
        .collect();
    let unread = !failures.is_empty() || files.iter().any(|file| !file.checked.unread.is_empty());
    let found = files.iter().flat_map(|file| &file.checked.findings).any(|finding| finding.level > Level::Note);
    let mut out = io::BufWriter::new(io::stdout().lock());
    match arguments.format {
        Format::Text => text::checked(&mut out, &files, &failures, Styles::of_stdout())?,
        Format::Json => json::checked(&mut out, files, failures)?,
    }
    out.flush()?;
    Ok(if unread { 2 } else { u8::from(found) })
}
