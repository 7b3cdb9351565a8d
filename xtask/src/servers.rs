//! `cargo xtask servers`: the standing servers, which stay up until they are stopped.

use std::process::Command;

use anyhow::{Context, Result, bail};
use clap::Subcommand;
use rowlock_testing::Engine;
use rowlock_testing::server::{Server, Servers};

use crate::install::install;

#[derive(Subcommand)]
pub(crate) enum Task {
    /// Install the servers' programs (most need root)
    Install {
        /// Only these (pg15, pg18, mariadb, mysql, pgbouncer)
        #[arg(long = "engine", value_parser = engine)]
        engines: Vec<Engine>,
    },
    /// Start them and print their URLs: eval "$(cargo xtask servers start)"
    Start {
        /// Only these (pg15, pg18, mariadb, mysql, pgbouncer)
        #[arg(long = "engine", value_parser = engine)]
        engines: Vec<Engine>,
    },
    /// Print the URLs of those that run
    Urls,
    /// Stop them and remove their data
    Stop,
    /// Start servers, run a command with their URLs in its environment, and stop them
    Run {
        /// Only these (pg15, pg18, mariadb, mysql, pgbouncer)
        #[arg(long = "engine", value_parser = engine)]
        engines: Vec<Engine>,
        /// The command
        #[arg(last = true, required = true)]
        command: Vec<String>,
    },
}

/// An engine's name on the command line.
pub(crate) fn engine(name: &str) -> Result<Engine, String> {
    Engine::named(name).ok_or_else(|| "expected pg15, pg18, mariadb, mysql, sqlite or pgbouncer".to_owned())
}

pub(crate) async fn run(task: Task) -> Result<()> {
    match task {
        Task::Install { engines } => {
            let servers = Servers::standing()?;
            chosen(&engines).into_iter().try_for_each(|engine| install(&servers, engine))
        }
        Task::Start { engines } => {
            let started = start(&Servers::standing()?, &chosen(&engines)).await;
            for (engine, server) in started {
                match server {
                    Ok(server) => println!("{}", export(&server)),
                    Err(error) if engine == Engine::MySql => println!("{}", absent(engine, &error)),
                    Err(error) => return Err(error),
                }
            }
            Ok(())
        }
        Task::Urls => {
            let servers = Servers::standing()?;
            let running: Vec<Server> =
                Engine::SERVERS.into_iter().filter_map(|engine| servers.running(engine)).collect();
            running.iter().for_each(|server| println!("{}", export(server)));
            if running.is_empty() { bail!("no servers run: `cargo xtask servers start` starts them") } else { Ok(()) }
        }
        Task::Stop => Servers::standing()?.stop(),
        Task::Run { engines, command } => {
            let servers = Servers::private()?;
            let result = with_servers(&servers, &chosen(&engines), &command).await;
            servers.stop()?;
            result
        }
    }
}

async fn with_servers(servers: &Servers, engines: &[Engine], words: &[String]) -> Result<()> {
    let [program, arguments @ ..] = words else { bail!("no command given") };
    let mut command = Command::new(program);
    command.args(arguments);
    for (engine, server) in start(servers, engines).await {
        let server = server?;
        if let Some(variable) = engine.variable() {
            command.env(variable, &server.url);
        }
    }
    // Ctrl-C reaches the command by itself; waiting for it here, we live to stop the servers.
    let mut child = tokio::process::Command::from(command).spawn().with_context(|| format!("run `{program}`"))?;
    let status = loop {
        tokio::select! {
            status = child.wait() => break status?,
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    if status.success() { Ok(()) } else { bail!("`{}`: {status}", words.join(" ")) }
}

/// Installs and starts them all at the same time; PgBouncer follows the PostgreSQL that it stands in front of.
pub(crate) async fn start(servers: &Servers, engines: &[Engine]) -> Vec<(Engine, Result<Server>)> {
    // One after the other: apt takes a lock.
    let installed: Vec<(Engine, Result<()>)> =
        engines.iter().map(|&engine| (engine, install(servers, engine))).collect();
    let one = async |engine: Engine| {
        let ready = installed.iter().find(|(other, _)| *other == engine).map(|(_, result)| result);
        match ready {
            None => bail!("{engine} was not asked for"),
            Some(Err(error)) => bail!("{error:#}"),
            Some(Ok(())) => servers.start(engine).await,
        }
    };
    let behind = async { (one(Engine::Pg15).await, one(Engine::PgBouncer).await) };
    let ((pg15, pgbouncer), pg18, mariadb, mysql) =
        tokio::join!(behind, one(Engine::Pg18), one(Engine::MariaDb), one(Engine::MySql));
    let all = [
        (Engine::Pg15, pg15),
        (Engine::Pg18, pg18),
        (Engine::MariaDb, mariadb),
        (Engine::MySql, mysql),
        (Engine::PgBouncer, pgbouncer),
    ];
    all.into_iter().filter(|(engine, _)| engines.contains(engine)).collect()
}

/// The engines asked for, or all; PgBouncer brings its PostgreSQL.
pub(crate) fn chosen(engines: &[Engine]) -> Vec<Engine> {
    let wanted = |engine: &Engine| {
        engines.is_empty()
            || engines.contains(engine)
            || (*engine == Engine::Pg15 && engines.contains(&Engine::PgBouncer))
    };
    Engine::SERVERS.into_iter().filter(wanted).collect()
}

fn export(server: &Server) -> String {
    format!("export {}={}", server.engine.variable().unwrap_or("ROWLOCK_TEST_SQLITE"), server.url)
}

/// MySQL is optional: sid's packages change under us.
fn absent(engine: Engine, error: &anyhow::Error) -> String {
    format!("export ROWLOCK_TEST_ABSENT='{}: {}'", engine.name(), reason(error))
}

/// An error in one line that fits into a variable: its outermost words, and the last that the program said.
pub(crate) fn reason(error: &anyhow::Error) -> String {
    let whole = format!("{error:#}");
    let mut lines = whole.lines();
    let (first, last) = (lines.next().unwrap_or_default(), lines.next_back().unwrap_or_default());
    let reason = if last.is_empty() { first.to_owned() } else { format!("{first}: {last}") };
    reason.replace(['\'', ';'], " ")
}
