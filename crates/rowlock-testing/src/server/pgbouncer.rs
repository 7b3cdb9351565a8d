//! PgBouncer in transaction mode, in front of the PostgreSQL 15 of the same folder: any database, no password.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::Servers;
use crate::Engine;

const SETTINGS: &str = "pgbouncer.ini";

pub(super) fn program() -> Result<PathBuf> {
    let program = PathBuf::from("/usr/sbin/pgbouncer");
    if program.exists() { Ok(program) } else { bail!("/usr/sbin/pgbouncer is missing: install the package pgbouncer") }
}

/// Writes its settings.
pub(super) fn prepare(servers: &Servers, home: &Path, port: u16) -> Result<()> {
    let postgres =
        servers.running(Engine::Pg15).context("PgBouncer stands in front of PostgreSQL 15: start that first")?;
    let (_, target) = postgres.url.rsplit_once(':').context("PostgreSQL's URL has no port")?;
    let target = target.split('/').next().unwrap_or(target);
    // extra_float_digits is set by drivers at connect and means nothing to a pooled server.
    let text = format!(
        "[databases]\n\
         * = host=127.0.0.1 port={target} user=postgres\n\
         [pgbouncer]\n\
         listen_addr = 127.0.0.1\n\
         listen_port = {port}\n\
         unix_socket_dir =\n\
         auth_type = any\n\
         admin_users = postgres\n\
         pool_mode = transaction\n\
         max_client_conn = 400\n\
         default_pool_size = 20\n\
         ignore_startup_parameters = extra_float_digits,options\n"
    );
    fs::write(home.join(SETTINGS), text)?;
    Ok(())
}

/// The server, with the settings that [`prepare`] wrote.
pub(super) fn command(servers: &Servers, home: &Path) -> Result<Command> {
    let mut command = servers.account.command(&program()?);
    command.arg(home.join(SETTINGS));
    Ok(command)
}
