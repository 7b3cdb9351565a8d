//! `rowlock check`: the deadlocks that can be, out of scenario files.

use std::fs::File;
use std::io::{self, Read, Write};

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use rowlock_lens::{Checked, Engine, Isolation, Redactor, Source};

use crate::style::Styles;
use crate::{json, text};

/// Longest file that is read, in bytes: what people write by hand, and dumps without data.
const LONGEST: u64 = 64 << 20;

const EXAMPLES: &str = "\
Examples:
  rowlock check orders.sql                         a scenario file
  rowlock check --schema dump.sql scenarios/*.sql  with the schema of a dump
  pg_dump --schema-only shop > dump.sql            (or mysqldump --no-data)
  rowlock check --format json orders.sql | jq '.findings[].hazard'
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

Exit codes: 0 no deadlock can be, 1 some can, 2 something could not be judged.";

/// What `rowlock check` takes.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Scenario files; `-` is standard input
    #[arg(value_name = "FILE", required = true)]
    inputs: Vec<String>,
    /// The server that runs them, where a file does not say
    #[arg(long, value_enum, env = "ROWLOCK_ENGINE")]
    engine: Option<EngineName>,
    /// How isolated its transactions run, where a file does not say; else as the server does that nobody has told
    #[arg(long, value_enum, env = "ROWLOCK_ISOLATION")]
    isolation: Option<IsolationName>,
    /// A file with the DDL of the tables, as pg_dump --schema-only or mysqldump --no-data write it
    #[arg(long, value_name = "FILE", env = "ROWLOCK_SCHEMA")]
    schema: Option<String>,
    /// The form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Show literals; without it, each value is a number in angle brackets, the same for equal values
    #[arg(long)]
    show_values: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum EngineName {
    Postgres,
    #[value(name = "mysql")]
    MySql,
    #[value(name = "mariadb")]
    MariaDb,
}

#[derive(Clone, Copy, ValueEnum)]
enum IsolationName {
    ReadCommitted,
    RepeatableRead,
    Serializable,
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
    let schema = arguments.schema.as_deref().map(|file| Ok::<_, anyhow::Error>((file, read(file)?))).transpose()?;
    let schema = schema.as_ref().map(|(file, text)| Source { file, text });
    let engine = arguments.engine.map(|name| match name {
        EngineName::Postgres => Engine::Postgres,
        EngineName::MySql => Engine::MySql,
        EngineName::MariaDb => Engine::MariaDb,
    });
    let isolation = arguments.isolation.map(|name| match name {
        IsolationName::ReadCommitted => Isolation::ReadCommitted,
        IsolationName::RepeatableRead => Isolation::RepeatableRead,
        IsolationName::Serializable => Isolation::Serializable,
    });
    let mut files = Vec::new();
    let mut failures = Vec::new();
    for file in &arguments.inputs {
        let workload = read(file).and_then(|text| {
            rowlock_lens::scenario(Source { file, text: &text }, engine, schema).context("read a scenario")
        });
        match workload {
            Ok(mut workload) => {
                workload.isolation = workload.isolation.or(isolation);
                let checked = rowlock_lens::check(&workload, &mut Redactor::new(arguments.show_values));
                files.push(CheckedFile { file: file.clone(), checked });
            }
            Err(error) => failures.push(format!("{error:#}")),
        }
    }
    let unread = !failures.is_empty() || files.iter().any(|file| !file.checked.unread.is_empty());
    let found = files.iter().any(|file| !file.checked.findings.is_empty());
    let mut out = io::BufWriter::new(io::stdout().lock());
    match arguments.format {
        Format::Text => text::checked(&mut out, &files, &failures, Styles::of_stdout())?,
        Format::Json => json::checked(&mut out, files, failures)?,
    }
    out.flush()?;
    Ok(if unread { 2 } else { u8::from(found) })
}

fn read(name: &str) -> Result<String> {
    let mut text = Vec::new();
    let source: Box<dyn Read> = match name {
        "-" => Box::new(io::stdin().lock()),
        file => Box::new(File::open(file).with_context(|| format!("open {file}"))?),
    };
    source.take(LONGEST + 1).read_to_end(&mut text).with_context(|| format!("read {name}"))?;
    if text.len() as u64 > LONGEST {
        bail!(
            "{name} is longer than {LONGEST} bytes: give a dump without data (pg_dump --schema-only, mysqldump --no-data)"
        );
    }
    String::from_utf8(text).with_context(|| format!("read {name}: it is not UTF-8 text"))
}
