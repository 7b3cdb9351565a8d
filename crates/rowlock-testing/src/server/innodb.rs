//! MariaDB and MySQL: an own data folder for each start, `root` from 127.0.0.1 without a password, no binary log.
//!
//! MySQL 9 exists for Debian 12 only in sid's packages, which are built against sid's libc: its folder brings that libc,
//! and the server is started through the folder's own loader. So its `/proc/PID/exe` is the loader.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use super::{Servers, run};
use crate::Engine;

const MARIADBD: &str = "/usr/sbin/mariadbd";
const MARIADB_INSTALL: &str = "/usr/bin/mariadb-install-db";
/// The rights of `root` over TCP: both servers create it for the socket only when names are not resolved.
const ROOT: &str = "create user if not exists root@'127.0.0.1' identified by '';\n\
                    grant all privileges on *.* to root@'127.0.0.1' with grant option;\n";

pub(super) fn installed(servers: &Servers, engine: Engine) -> Result<()> {
    match engine {
        Engine::MariaDb => {
            for program in [MARIADBD, MARIADB_INSTALL] {
                if !Path::new(program).exists() {
                    bail!("{program} is missing: install the packages mariadb-server-core and mariadb-client-core");
                }
            }
        }
        _ => {
            let ok = servers.programs().join("mysql/ok");
            if !ok.exists() {
                bail!("{} is missing: `cargo xtask servers install` unpacks MySQL there", ok.display());
            }
        }
    }
    Ok(())
}

/// The server, on the data that [`prepare`] made.
pub(super) fn command(servers: &Servers, engine: Engine, home: &Path, port: u16) -> Result<Command> {
    installed(servers, engine)?;
    let mut server = program(servers, engine);
    server.arg(option("datadir", &home.join("data"))).arg(option("socket", &home.join("s.sock")));
    server.arg(option("pid-file", &home.join("mysqld.pid"))).arg(option("tmpdir", home));
    server.arg(option("init-file", &home.join("init.sql")));
    server.args(["--bind-address=127.0.0.1", "--skip-name-resolve", "--skip-log-bin", "--max-connections=400"]);
    server.arg(format!("--port={port}")).arg("--innodb-buffer-pool-size=256M");
    if engine == Engine::MySql {
        // Debian's default for the file folder does not exist here, and mysqld would refuse to start.
        server.args(["--mysqlx=OFF", "--secure-file-priv=NULL"]);
    }
    if servers.durable {
        server.arg("--innodb-flush-log-at-trx-commit=1");
    } else {
        // Reports of all deadlocks, not only of the last one, go to the log.
        server.args(["--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=OFF"]);
        server.arg("--innodb-print-all-deadlocks=ON");
    }
    Ok(server)
}

/// Makes the data folder.
pub(super) async fn prepare(servers: &Servers, engine: Engine, home: &Path) -> Result<()> {
    installed(servers, engine)?;
    fs::write(home.join("init.sql"), ROOT)?;
    run(initialise(servers, engine, home), &home.join("init.log")).await
}

/// The program that makes the data folder.
fn initialise(servers: &Servers, engine: Engine, home: &Path) -> Command {
    let data = option("datadir", &home.join("data"));
    let mut command = if engine == Engine::MySql {
        let mut command = program(servers, engine);
        command.args(["--initialize-insecure", "--secure-file-priv=NULL"]).arg(data);
        command
    } else {
        let mut command = servers.account.command(Path::new(MARIADB_INSTALL));
        command.arg("--no-defaults").arg(data).arg("--auth-root-authentication-method=normal");
        command.args(["--skip-test-db", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0"]);
        command
    };
    // Never the machine's: each of these programs removes, when it starts, all `#sql*` files of its temporary folder, and with
    // them the temporary tables of whoever else is being initialised ("Unknown table 'mysql.tmp_user_sys'", about one in 50
    // where three start at once).
    command.arg(option("tmpdir", home));
    command
}

/// The server's program with its first options.
fn program(servers: &Servers, engine: Engine) -> Command {
    if engine == Engine::MariaDb {
        let mut command = servers.account.command(Path::new(MARIADBD));
        command.arg("--no-defaults");
        return command;
    }
    let root = servers.programs().join("mysql/root");
    let lib = libraries(&root);
    let loader = if cfg!(target_arch = "aarch64") { "ld-linux-aarch64.so.1" } else { "ld-linux-x86-64.so.2" };
    let mut command = servers.account.command(&lib.join(loader));
    command.arg("--library-path").arg(&lib).arg(root.join("usr/sbin/mysqld")).arg("--no-defaults");
    command.arg(option("basedir", &root.join("usr")));
    command
}

fn libraries(root: &Path) -> PathBuf {
    root.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH))
}

fn option(name: &str, path: &Path) -> String {
    format!("--{name}={}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn none_shares_its_temporary_folder() {
        let servers = Servers::standing().expect("the servers' folder");
        for engine in [Engine::MariaDb, Engine::MySql] {
            let home = Path::new("/servers/one");
            let command = initialise(&servers, engine, home);
            assert!(command.get_args().any(|argument| argument == "--tmpdir=/servers/one"), "{engine}: {command:?}");
        }
    }
}
