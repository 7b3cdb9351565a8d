//! The command `rowlock`: explains the deadlocks that servers wrote about, and finds those that can be, in any language's project.
//!
//! All input and output of the project's detecting side stands here; what is thought stands in `rowlock-lens`. One file a
//! subcommand, one a form of output.
//!
//! Exit codes: 0 nothing found, 1 deadlocks found, 2 something could not be read.

mod check;
mod explain;
mod input;
mod json;
mod outcome;
mod progress;
mod scan;
mod sources;
mod style;
mod table;
mod tape;
mod text;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "rowlock", version, about = "Finds out why transactions deadlock, and what to change")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Explain the deadlocks in logs, status outputs and error messages
    Explain(explain::Arguments),
    /// Find the deadlocks that transactions can come to, from SQL files
    Check(check::Arguments),
}

fn main() -> ExitCode {
    let code = match Cli::parse().command {
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Check(arguments) => check::run(&arguments),
    };
    match code {
        Ok(outcome) => ExitCode::from(outcome),
        // Who reads has seen enough.
        Err(error) if error.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe) => {
            ExitCode::from(1)
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "rowlock: {error:#}");
            ExitCode::from(2)
        }
    }
}
