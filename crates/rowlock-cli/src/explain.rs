//! `rowlock explain`: deadlocks out of whatever has them.

use std::io::{self, Write};
use std::path::Path;

use anyhow::Result;
use clap::{Args, ValueEnum};
use rowlock_lens::HAZARDS;

use crate::outcome::Outcome;
use crate::style::Styles;
use crate::{input, json, scan, text};

const EXAMPLES: &str = "\
Examples:
  rowlock explain /var/log/postgresql/*.log      logs of any length, .gz and .zst too
  journalctl -u postgresql | rowlock explain     standard input
  mysql -e 'SHOW ENGINE INNODB STATUS\\G' | rowlock explain
  rowlock explain --show-values error.txt        with the values
  rowlock explain --format json mysqld.err | jq '.findings[].hazard'
  rowlock explain gap-lock                       what a hazard is

Reads:
  PostgreSQL's logs: stderr with any log_line_prefix, csvlog, jsonlog, syslog,
  in the server's languages; InnoDB's status and error logs of MySQL 5.0 to 9
  and MariaDB 10.1 to 11.8; these behind the prefixes of containers and clouds;
  the errors of drivers.

Exit codes: 0 no deadlock, 1 deadlocks, 2 something could not be read.";

/// What `rowlock explain` takes.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Files to look through; `-`, or none, is standard input. Or the name of a hazard
    #[arg(value_name = "FILE")]
    inputs: Vec<String>,
    /// The form of the output
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Show literals, keys and comments; without it, each value is a number in angle brackets, the same for equal values
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

/// Runs it; returns the exit code.
pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    if let [name] = &arguments.inputs[..]
        && let Some(hazard) = HAZARDS.iter().find(|hazard| hazard.name == name)
        && !Path::new(name).exists()
    {
        text::hazard(&mut out, hazard, Styles::of_stdout())?;
        out.flush()?;
        return Ok(0);
    }
    let mut outcome = Outcome::default();
    let stdin = ["-".to_owned()];
    let inputs = if arguments.inputs.is_empty() { &stdin[..] } else { &arguments.inputs };
    for name in inputs {
        let scanned = input::open(name)
            .and_then(|mut tape| Ok(scan::scan(name, &mut tape, arguments.show_values, &mut outcome)?));
        if let Err(error) = scanned {
            outcome.failures.push(if format!("{error:#}").contains(name.as_str()) {
                format!("{error:#}")
            } else {
                format!("read {name}: {error:#}")
            });
        }
    }
    let code = outcome.exit_code();
    match arguments.format {
        Format::Text => text::outcome(&mut out, outcome, Styles::of_stdout())?,
        Format::Json => json::outcome(&mut out, outcome)?,
    }
    out.flush()?;
    Ok(code)
}
