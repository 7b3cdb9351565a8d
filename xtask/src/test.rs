//! `cargo xtask test`: everything that must hold before a change lands, in one command, on servers of its own.

use std::num::NonZero;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use rowlock_testing::Engine;
use rowlock_testing::server::Servers;
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};

use crate::purity;
use crate::report::Report;
use crate::servers::{self, chosen};
use crate::step::{quiet, tests};

/// What `cargo xtask test` takes.
#[derive(Args)]
pub(crate) struct Task {
    /// Only PostgreSQL 15 and SQLite, and no documentation build
    #[arg(long)]
    quick: bool,
    /// Only tests of these engines, and those that need none (pg15, pg18, mariadb, mysql, sqlite, pgbouncer)
    #[arg(long = "engine", value_parser = servers::engine)]
    engines: Vec<Engine>,
    /// Use the standing servers and leave them up, with the databases of failed tests
    #[arg(long)]
    keep: bool,
    /// Only this package
    #[arg(short, long)]
    package: Option<String>,
    /// Run all of it so many times, and tell at the end what failed in which run
    #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    again: u32,
    /// Keep every core busy meanwhile: no verdict may hang on how fast the machine is
    #[arg(long)]
    busy: bool,
    /// Only run tests, no other checks, and only tests whose names contain this
    filter: Option<String>,
}

/// A busy loop for each core, until it is dropped.
struct Busy(Arc<AtomicBool>);

impl Busy {
    fn start() -> Busy {
        let busy = Busy(Arc::new(AtomicBool::new(true)));
        for _ in 0..std::thread::available_parallelism().map_or(1, NonZero::get) {
            let on = busy.0.clone();
            std::thread::spawn(move || {
                while on.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        busy
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

pub(crate) async fn run(task: Task) -> Result<()> {
    let _busy = task.busy.then(Busy::start);
    let mut failures = Vec::new();
    for turn in 1..=task.again {
        if task.again > 1 {
            println!("\nrun {turn} of {}", task.again);
        }
        let (failed, interrupted) = once(&task).await?;
        failures
            .extend(failed.into_iter().map(|name| if task.again > 1 { format!("run {turn}: {name}") } else { name }));
        if interrupted {
            break;
        }
    }
    if failures.is_empty() {
        return Ok(());
    }
    println!("\nfailed:");
    failures.iter().for_each(|name| println!("  {name}"));
    std::process::exit(1)
}

/// Runs everything once; the names of what failed, and whether it was interrupted.
async fn once(task: &Task) -> Result<(Vec<String>, bool)> {
    let since = Instant::now();
    let servers = if task.keep { Servers::standing()? } else { Servers::private()? };
    let mut report = Report::default();
    let (result, interrupted) = tokio::select! {
        result = everything(task, &servers, &mut report) => (result, false),
        interrupted = interrupted() => (interrupted, true),
    };
    if task.keep {
        println!("the servers stay up: `cargo xtask servers urls` tells where, `cargo xtask servers stop` ends them");
    } else {
        servers.stop()?;
    }
    if report.failed > 0 && !task.keep {
        println!("failed tests keep their databases with `cargo xtask test --keep`");
    }
    let mut failures = report.failures().to_vec();
    if let Err(error) = &result {
        println!("\nfailed: {error:#}");
        // So that the closing line cannot read as a success.
        report.failed = report.failed.max(1);
        failures.push(error.to_string());
    }
    println!("\n{report}");
    println!("in {} s", since.elapsed().as_secs());
    println!("{}", report.totals());
    Ok((failures, interrupted))
}

async fn everything(task: &Task, servers: &Servers, report: &mut Report) -> Result<()> {
    let environment = engines(task, servers, report).await?;
    let whole = task.filter.is_none();
    let scope: Vec<&str> = match &task.package {
        Some(package) => vec!["--package", package],
        None => vec!["--workspace"],
    };
    let mut failures = Vec::new();
    let mut note = |result: Result<()>| {
        if let Err(error) = result {
            println!("{error:#}");
            failures.push(error.to_string().lines().next().unwrap_or_default().to_owned());
        }
    };
    if whole {
        let all: &[&str] = if task.package.is_some() { &scope } else { &["--all"] };
        note(quiet("formatting", &mut cargo(&[&["fmt"], all, &["--check"]].concat())).await);
        let words = [&["clippy", "--quiet"], &scope[..], &["--all-targets", "--", "-D", "warnings"]].concat();
        note(quiet("clippy", &mut cargo(&words)).await);
        note(purity::check());
    }
    let filter: Vec<&str> = task.filter.as_deref().into_iter().collect();
    let mut command = cargo(&[&["test", "--no-fail-fast"], &scope[..], &filter].concat());
    command.envs(environment).env("CARGO_TERM_COLOR", "never").env("RUST_BACKTRACE", "0");
    let ran = tests(&mut command, report).await;
    // Tests that failed are told by their names.
    if report.failures().is_empty() {
        note(ran);
    }
    if whole && !task.quick {
        let words = [&["doc", "--quiet", "--no-deps"], &scope[..]].concat();
        note(quiet("documentation", cargo(&words).env("RUSTDOCFLAGS", "-D warnings")).await);
    }
    if whole {
        note(deny(report).await);
    }
    if failures.is_empty() { Ok(()) } else { bail!("{}", failures.join("; ")) }
}

/// Installs and starts what the tests need, and returns the variables that tell them.
async fn engines(task: &Task, servers: &Servers, report: &mut Report) -> Result<Vec<(String, String)>> {
    let since = Instant::now();
    let mut wanted = task.engines.clone();
    if task.quick && wanted.is_empty() {
        wanted = vec![Engine::Pg15, Engine::Sqlite];
    }
    let asked = |engine: &Engine| wanted.is_empty() || wanted.contains(engine);
    let mut environment = Vec::new();
    let mut absent = Vec::new();
    for engine in Engine::ALL.into_iter().filter(|engine| !asked(engine)) {
        let reason = if task.quick && task.engines.is_empty() { "--quick" } else { "--engine names others" };
        report.left_out(engine, reason);
        absent.push(format!("{}: {reason}", engine.name()));
    }
    if asked(&Engine::Sqlite) {
        report.version(Engine::Sqlite, rowlock_testing::version(Engine::Sqlite, "sqlite::memory:").await?);
    }
    // A server that the caller has is used as it is.
    let own = |engine: &Engine| engine.variable().is_some_and(|name| std::env::var_os(name).is_none());
    for engine in Engine::SERVERS.into_iter().filter(|engine| asked(engine) && !own(engine)) {
        let url = rowlock_testing::server_url(engine)?;
        let version = rowlock_testing::version(engine, &url).await.with_context(|| format!("{engine} at {url}"))?;
        report.version(engine, format!("{version}, given by {}", engine.variable().unwrap_or_default()));
    }
    // An empty choice would mean all of them.
    let start = Engine::SERVERS.into_iter().filter(|engine| asked(engine) && own(engine)).collect::<Vec<_>>();
    let start = if start.is_empty() { Vec::new() } else { chosen(&start) };
    for (engine, server) in servers::start(servers, &start).await {
        match server {
            Ok(server) => {
                report.version(engine, server.version);
                let variable = engine.variable().unwrap_or_default();
                environment.push((variable.to_owned(), server.url));
            }
            // sid's packages change under us, and other architectures lack them.
            Err(error) if engine == Engine::MySql => {
                let reason = servers::reason(&error);
                println!("MySQL is left out: {error:#}");
                report.left_out(engine, &reason);
                absent.push(format!("{}: {reason}", engine.name()));
            }
            Err(error) => {
                return Err(error.context(format!("{engine} (to test without it, name others with --engine)")));
            }
        }
    }
    environment.push(("ROWLOCK_TEST_ABSENT".to_owned(), absent.join("; ")));
    println!("servers: ok, {:.1} s", since.elapsed().as_secs_f64());
    Ok(environment)
}

/// Licences, bans and advisories, where the tool is installed.
async fn deny(report: &mut Report) -> Result<()> {
    if Command::new("cargo-deny").arg("--version").output().await.is_err() {
        report.remark("cargo-deny is not installed: licences and advisories were not checked");
        return Ok(());
    }
    quiet("dependencies", &mut cargo(&["deny", "--log-level", "error", "check"])).await
}

fn cargo(words: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(words).kill_on_drop(true);
    command
}

/// Ctrl-C, or a polite kill: both must leave no server behind.
async fn interrupted() -> Result<()> {
    let mut term = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => bail!("interrupted"),
        _ = term.recv() => bail!("terminated"),
    }
}
