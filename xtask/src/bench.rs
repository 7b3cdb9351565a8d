//! `cargo xtask bench`: builds the measurements, gets the servers' programs, and runs them; a complete run writes
//! `docs/benchmarks.md`.

use std::path::Path;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use rowlock_testing::Engine;
use rowlock_testing::server::Servers;
use tokio::process::Command;

use crate::install::install;
use crate::servers;
use crate::step::quiet;

/// What `cargo xtask bench` takes.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Task {
    #[command(subcommand)]
    what: Option<What>,
    /// A few slices of each, to see that it runs; writes no document
    #[arg(long)]
    quick: bool,
    /// Only these (pg15, pg18, mariadb, mysql, sqlite); writes no document
    #[arg(long = "engine", value_parser = servers::engine)]
    engines: Vec<Engine>,
    /// Only with commits flushed; writes no document
    #[arg(long, conflicts_with_all = ["not_durable", "both"])]
    durable: bool,
    /// Only with commits not flushed; writes no document
    #[arg(long, conflicts_with = "both")]
    not_durable: bool,
    /// With commits flushed and not: the default
    #[arg(long)]
    both: bool,
    /// Only these (cost, batch, order, late, merge, guard, counter, memory); writes no document
    #[arg(long = "only")]
    sections: Vec<String>,
}

#[derive(Subcommand)]
enum What {
    /// The ways to change a row that many want, side by side; without arguments writes docs/strategies.md and its chart
    Strategies {
        /// --engine, --keys, --callers 1,16,256, --delay 0,1, --durable, --not-durable, --time (ms a cell), --out (a folder)
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
}

const DOCUMENT: &str = "docs/benchmarks.md";

pub(crate) async fn run(task: Task) -> Result<()> {
    let servers = Servers::standing()?;
    let engines = [Engine::Pg15, Engine::Pg18, Engine::MariaDb, Engine::MySql];
    for engine in engines.into_iter().filter(|engine| task.engines.is_empty() || task.engines.contains(engine)) {
        match install(&servers, engine) {
            // It says itself that it was not measured.
            Err(error) if engine == Engine::MySql => println!("{error:#}"),
            installed => installed?,
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
    let cargo = |words: &[&str]| {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(root).args(words);
        command
    };
    quiet("release build", &mut cargo(&["build", "--quiet", "--release", "--package", "bench"])).await?;
    let mut bench = cargo(&["run", "--quiet", "--release", "--package", "bench", "--bin", "bench", "--"]);
    if let Some(What::Strategies { arguments }) = task.what {
        bench.arg("strategies").args(&arguments);
        if arguments.is_empty() {
            bench.args(["--out", "docs"]);
        }
        let status = bench.status().await?;
        return if status.success() { Ok(()) } else { bail!("the survey ended with {status}") };
    }
    let complete =
        !(task.quick || task.durable || task.not_durable) && task.engines.is_empty() && task.sections.is_empty();
    if complete {
        std::fs::create_dir_all(root.join("docs"))?;
        bench.args(["--out", DOCUMENT]);
    }
    for (flag, on) in [("--quick", task.quick), ("--durable", task.durable), ("--not-durable", task.not_durable)] {
        if on {
            bench.arg(flag);
        }
    }
    for engine in task.engines {
        bench.args(["--engine", engine.name()]);
    }
    for section in task.sections {
        bench.args(["--only", &section]);
    }
    let status = bench.status().await?;
    if !status.success() {
        bail!("the bench ended with {status}");
    }
    if complete {
        println!("written to {DOCUMENT}");
    }
    Ok(())
}
