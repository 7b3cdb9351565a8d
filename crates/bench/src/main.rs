//! Measures what README and docs quote, on servers of its own, and writes it down. `cargo xtask bench` builds and runs it.
//!
//! Every figure is a ratio of two sides that ran in turn in slices of time, within one run: what else the machine does
//! hits both. Absolute figures are of that machine, on that day.

mod ground;
mod hand;
mod machine;
mod measure;
mod row;
mod stage;
mod strategies;
mod table;
mod work;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Parser;
use rowlock_testing::Engine;

use crate::stage::Plan;
use crate::table::{Section, Table};

#[derive(Parser)]
#[command(about = "Measures rowlock against plain sqlx by hand", args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    task: Option<Task>,
    /// A tenth of the time, to see that it runs
    #[arg(long)]
    quick: bool,
    /// Only these (pg15, pg18, mariadb, mysql, sqlite)
    #[arg(long = "engine", value_parser = engine)]
    engines: Vec<Engine>,
    /// Only these (cost, batch, order, late, merge, guard, counter, memory)
    #[arg(long = "only", value_parser = section)]
    sections: Vec<Section>,
    /// Only with commits flushed
    #[arg(long, conflicts_with = "not_durable")]
    durable: bool,
    /// Only with commits not flushed
    #[arg(long)]
    not_durable: bool,
    /// Where to write the document
    #[arg(long)]
    out: Option<PathBuf>,
}

#[derive(clap::Subcommand)]
enum Task {
    /// The ways to change a row that many want, side by side
    Strategies(strategies::Survey),
}

fn engine(name: &str) -> Result<Engine, String> {
    let engine = Engine::named(name).filter(|engine| *engine != Engine::PgBouncer);
    engine.ok_or_else(|| "expected pg15, pg18, mariadb, mysql or sqlite".to_owned())
}

fn section(name: &str) -> Result<Section, String> {
    let named = Section::ALL.into_iter().find(|section| format!("{section:?}").eq_ignore_ascii_case(name));
    named.ok_or_else(|| "expected cost, batch, order, late, merge, guard, counter or memory".to_owned())
}

#[tokio::main]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    if cfg!(debug_assertions) {
        bail!("a debug build measures nothing: `cargo xtask bench` builds with --release");
    }
    if let Some(Task::Strategies(survey)) = cli.task {
        return survey.run().await;
    }
    let began = Instant::now();
    let engines = [Engine::Pg15, Engine::Pg18, Engine::MariaDb, Engine::MySql, Engine::Sqlite];
    let (mut table, mut versions, mut loads) = (Table::default(), Vec::new(), vec![machine::load()]);
    for engine in engines.into_iter().filter(|engine| cli.engines.is_empty() || cli.engines.contains(engine)) {
        let mut version = None;
        for durable in [false, true] {
            if (durable && cli.not_durable) || (!durable && cli.durable) {
                continue;
            }
            let plan = Plan { engine, durable, quick: cli.quick, sections: &cli.sections };
            let measured = stage::run(plan, &mut table).await;
            match measured.with_context(|| format!("measure on {engine}")) {
                Ok(found) => version = Some(found),
                // Its packages change under us: a run without it is one, and says so.
                Err(error) if engine == Engine::MySql => {
                    versions.push(format!("MySQL not measured ({error:#})"));
                    break;
                }
                Err(error) => return Err(error),
            }
            loads.push(machine::load());
        }
        versions.extend(version.map(|version| format!("{engine} ({version})")));
    }
    if cli.sections.is_empty() || cli.sections.contains(&Section::Memory) {
        for row in measure::memory::run().await? {
            table.push(Section::Memory, row);
        }
    }
    let document = document(&cli, &table, &versions, &loads, began)?;
    eprintln!("\n{document}");
    if let Some(out) = &cli.out {
        std::fs::write(out, document).with_context(|| format!("write {}", out.display()))?;
    }
    Ok(())
}

fn document(cli: &Cli, table: &Table, versions: &[String], loads: &[String], began: Instant) -> Result<String> {
    let mut text = String::from("# Benchmarks\n\n");
    let (met, goals) = table.goals();
    writeln!(text, "Written by `cargo xtask bench`; {met} of {goals} goals met.")?;
    if cli.quick {
        writeln!(text, "A quick run: good for seeing that it runs, and for nothing else.")?;
    }
    writeln!(text)?;
    writeln!(text, "- date: {}; {} s in all", machine::date(), began.elapsed().as_secs())?;
    writeln!(text, "- machine: {}; clients and server on the same machine, over loopback TCP", machine::describe())?;
    writeln!(text, "- load average at the start and after each stage: {}", loads.join(", "))?;
    writeln!(text, "- servers: {}", versions.join(", "))?;
    writeln!(text, "- {SETTINGS}")?;
    writeln!(text, "- {METHOD}")?;
    write!(text, "{table}")?;
    Ok(text)
}

const SETTINGS: &str = "settings: 256 MB of buffers; not durable is `fsync = off` and `synchronous_commit = off`, \
    `innodb_flush_log_at_trx_commit = 0` without doublewrite, `synchronous = OFF`; durable is the engine's default, \
    without a binary log on MySQL and MariaDB, and WAL with `synchronous = FULL` on SQLite";

const METHOD: &str = "method: both sides run in turn (A B, B A, ..) in slices of 0.2 to 3 s, on the same pool (`Builder::connect`'s) and \
    the same drawn keys; the rates are medians of the slices, the ratio is the median of the ratios of neighbouring \
    slices, and half of these lie in the *middle half*";
