//! The project's own commands: `cargo xtask test`, `cargo xtask servers`, `cargo xtask bench`.

#![allow(clippy::print_stdout, reason = "what these commands print is what they are for")]

mod bench;
mod command;
mod install;
mod purity;
mod report;
mod servers;
mod step;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's own commands")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check formatting, lints, tests on every engine, and documentation, on servers of its own
    Test(test::Task),
    /// Start, stop and list the database servers that tests run on
    #[command(subcommand)]
    Servers(servers::Task),
    /// Measure rowlock against plain sqlx on servers of its own, and write docs/benchmarks.md
    Bench(bench::Task),
}

#[tokio::main]
async fn main() -> ExitCode {
    let done = match Cli::parse().task {
        Task::Test(task) => test::run(task).await,
        Task::Servers(task) => servers::run(task).await,
        Task::Bench(task) => bench::run(task).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Its causes, and no backtrace: what failed is a program or a server, and not this one.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
