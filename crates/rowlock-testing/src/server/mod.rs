//! Throw-away database servers: found, initialised, started, told by URL, stopped.
//!
//! Each server has a folder of its own below one [`Servers`] folder, with its data, its socket, its log and the files
//! `pid` (with the process's start time, so that a recycled pid is left alone), `signal` and `url`. Servers listen on
//! 127.0.0.1 only. They are processes of their own: they outlive the command that started them, until [`Servers::stop`].
//!
//! ```text
//! <base>/pg18, <base>/mysql     programs that no Debian 12 package brings (xtask puts them there)
//! <base>/run/<name>/            the standing servers of `cargo xtask servers start`
//! <base>/test-<pid>-<n>/<name>/ the servers of one test run; `lock` is held while that run lives
//! <base>/failed/<name>-<pid>/   the logs of a server that did not come up at its first try
//! ```

mod folder;
mod innodb;
mod pgbouncer;
mod postgres;
mod process;

use std::collections::hash_map::RandomState;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::{Engine, Family};
use folder::{complaint, keep_logs, open_folder, remove, stop_all, stop_one, sweep};
use process::{Account, Process};

/// A folder of servers.
#[derive(Debug)]
pub struct Servers {
    base: PathBuf,
    dir: PathBuf,
    account: Account,
    durable: bool,
    /// Of private servers: held while their run lives, so that a later run can tell leftovers from neighbours.
    lock: Option<File>,
}

/// A running server.
#[derive(Clone, Debug)]
pub struct Server {
    /// What it is.
    pub engine: Engine,
    /// Where it listens, as sqlx takes it; the database in it is `postgres` or `mysql`.
    pub url: String,
    /// What it calls itself.
    pub version: String,
    /// Its folder: `log` in it is the server's own log.
    pub dir: PathBuf,
}

/// The folder below which everything stands: `ROWLOCK_SERVERS`, or one in /var/tmp, since root's home and many
/// `TMPDIR`s are closed to `nobody`, and a socket's path must stay below 107 bytes.
pub fn base() -> Result<PathBuf> {
    match std::env::var_os("ROWLOCK_SERVERS") {
        Some(dir) => std::path::absolute(dir).context("ROWLOCK_SERVERS is no path"),
        None => Ok(PathBuf::from(format!("/var/tmp/rowlock-{}", process::our_uid()?))),
    }
}

impl Servers {
    /// The standing servers, which every command of this user shares.
    pub fn standing() -> Result<Servers> {
        let base = base()?;
        Servers::at(base.clone(), base.join("run"), None)
    }

    /// Servers for this run alone: they stop when this value is dropped. What a run that died has left is stopped and
    /// removed first.
    pub fn private() -> Result<Servers> {
        let base = base()?;
        open_folder(&base)?;
        // Held until our own lock is: between its making and its locking, another run's sweep would take it for dead.
        let gate = File::create(base.join("lock"))?;
        gate.lock().with_context(|| format!("lock {}", base.display()))?;
        sweep(&base)?;
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let dir = base.join(format!("test-{}-{count}", std::process::id()));
        open_folder(&dir)?;
        let lock = File::create(dir.join("lock"))?;
        lock.try_lock().with_context(|| format!("lock {}", dir.display()))?;
        Servers::at(base, dir, Some(lock))
    }

    fn at(base: PathBuf, dir: PathBuf, lock: Option<File>) -> Result<Servers> {
        open_folder(&base)?;
        open_folder(&dir)?;
        Ok(Servers { base, dir, account: Account::of_this_process()?, durable: false, lock })
    }

    /// Servers that flush their logs at commit, as in production. For measurements; tests are several times faster without.
    pub fn durable(mut self) -> Servers {
        self.durable = true;
        self
    }

    /// Starts a server, or returns the one that runs here already. One that does not come up is tried once more, while no
    /// other server is being started; the logs of its first try are kept below `<base>/failed`.
    pub async fn start(&self, engine: Engine) -> Result<Server> {
        let home = self.home(engine);
        // Two commands that start the same server at once: the second waits, and finds it running.
        let lock = File::create(home.with_extension("lock"))?;
        lock.lock().with_context(|| format!("lock {}", home.display()))?;
        if let Some(server) = self.running(engine) {
            return Ok(server);
        }
        let starts = File::create(self.base.join("starts.lock"))?;
        until_locked(|| starts.try_lock_shared()).await?;
        let first = match self.start_fresh(engine, &home).await {
            Ok(server) => return Ok(server),
            Err(error) => error.context(format!("start {engine} in {}", home.display())),
        };
        starts.unlock()?;
        let kept = self.base.join("failed").join(format!("{}-{}", engine.name(), std::process::id()));
        keep_logs(&home, &kept)?;
        eprintln!("{first:#}\n{engine} did not come up; once more, alone (its logs are kept in {})", kept.display());
        until_locked(|| starts.try_lock()).await?;
        self.start_fresh(engine, &home).await.with_context(|| format!("start {engine} in {}, again", home.display()))
    }

    async fn start_fresh(&self, engine: Engine, home: &Path) -> Result<Server> {
        stop_one(home)?;
        remove(home)?;
        open_folder(home)?;
        self.account.own(home)?;
        let port = free_port(engine)?;
        match engine {
            Engine::Pg15 | Engine::Pg18 => postgres::prepare(self, engine, home, port).await?,
            Engine::MariaDb | Engine::MySql => innodb::prepare(self, engine, home).await?,
            Engine::PgBouncer => pgbouncer::prepare(self, home, port)?,
            Engine::Sqlite => bail!("SQLite has no server to start"),
        }
        fs::write(home.join("port"), port.to_string())?;
        self.launch(engine, home, port).await
    }

    async fn launch(&self, engine: Engine, home: &Path, port: u16) -> Result<Server> {
        // PostgreSQL's fast shutdown, which does not wait for clients, is SIGINT.
        let (command, url, signal) = match engine {
            Engine::MariaDb | Engine::MySql => {
                (innodb::command(self, engine, home, port)?, format!("mysql://root@127.0.0.1:{port}/mysql"), "TERM")
            }
            Engine::PgBouncer => {
                (pgbouncer::command(self, home)?, format!("postgres://postgres@127.0.0.1:{port}/postgres"), "TERM")
            }
            _ => (
                postgres::command(self, engine, home)?,
                format!("postgres://postgres@127.0.0.1:{port}/postgres"),
                "INT",
            ),
        };
        let process = Process::spawn(command, &home.join("log"))?;
        process.save(&home.join("pid"))?;
        fs::write(home.join("signal"), signal)?;
        let version = ready(engine, &url, process, home).await?;
        fs::write(home.join("version"), &version)?;
        // Written last: a folder with a URL is a server that was up.
        fs::write(home.join("url"), &url)?;
        Ok(Server { engine, url, version, dir: home.to_owned() })
    }

    /// Ends a server in the middle of whatever it does, as a crash does: it must recover when it is started again.
    pub fn crash(&self, engine: Engine) -> Result<()> {
        let home = self.home(engine);
        let process = Process::load(&home.join("pid")).with_context(|| format!("no {engine} in {}", home.display()))?;
        // PostgreSQL's own crash: SIGKILL would leave its other processes holding on to the shared memory.
        process.stop(if engine.family() == Family::Postgres { "QUIT" } else { "KILL" })
    }

    /// Ends a server as its operator does: it ends its sessions itself (PostgreSQL: the fast shutdown), and goes.
    pub fn shut_down(&self, engine: Engine) -> Result<()> {
        let home = self.home(engine);
        let process = Process::load(&home.join("pid")).with_context(|| format!("no {engine} in {}", home.display()))?;
        process.stop(&fs::read_to_string(home.join("signal"))?)
    }

    /// Starts a server again that was shut down or crashed, on its data, at its URL.
    pub async fn restart(&self, engine: Engine) -> Result<Server> {
        let home = self.home(engine);
        let port =
            fs::read_to_string(home.join("port")).with_context(|| format!("no {engine} in {}", home.display()))?;
        self.launch(engine, &home, port.trim().parse()?).await
    }

    /// The server of that engine, if it runs.
    pub fn running(&self, engine: Engine) -> Option<Server> {
        let dir = self.home(engine);
        let url = fs::read_to_string(dir.join("url")).ok()?;
        let version = fs::read_to_string(dir.join("version")).ok()?;
        Process::load(&dir.join("pid"))?.alive().then_some(Server { engine, url, version, dir })
    }

    /// Stops every server of this folder, at the same time, and removes their data.
    pub fn stop(&self) -> Result<()> {
        stop_all(&self.dir)
    }

    /// Whether the programs of that engine are on this machine; the error says what is missing.
    pub fn installed(&self, engine: Engine) -> Result<()> {
        match engine {
            Engine::Pg15 | Engine::Pg18 => postgres::programs(self, engine).map(drop),
            Engine::MariaDb | Engine::MySql => innodb::installed(self, engine),
            Engine::PgBouncer => pgbouncer::program().map(drop),
            Engine::Sqlite => Ok(()),
        }
    }

    /// Where programs go that no package of the system brings.
    pub fn programs(&self) -> &Path {
        &self.base
    }

    fn home(&self, engine: Engine) -> PathBuf {
        let durable = if self.durable { "-durable" } else { "" };
        self.dir.join(format!("{}{durable}", engine.name()))
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        if self.lock.is_some()
            && let Err(error) = self.stop()
        {
            eprintln!("{error:#}");
        }
    }
}

/// Polls until the server answers, and gives up at once when its process has ended.
async fn ready(engine: Engine, url: &str, process: Process, home: &Path) -> Result<String> {
    let since = Instant::now();
    loop {
        let error = match crate::version(engine, url).await {
            Ok(version) => return Ok(version),
            Err(error) => error,
        };
        if !process.alive() {
            bail!("process {} ended; its log says:\n{}", process.pid(), complaint(&home.join("log")));
        }
        if since.elapsed() > Duration::from_secs(60) {
            process.stop("KILL")?;
            bail!("no answer in 60 s ({error:#}); its log says:\n{}", complaint(&home.join("log")));
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Waits for a file's lock without blocking the thread, on which its holder may be running.
async fn until_locked(lock: impl Fn() -> Result<(), TryLockError>) -> Result<()> {
    loop {
        match lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => tokio::time::sleep(Duration::from_millis(20)).await,
            Err(TryLockError::Error(error)) => return Err(error).context("lock the starts of servers"),
        }
    }
}

/// A port that nobody listens on. All lie below 32768, where the kernel takes no port for outgoing connections, so
/// that none can slip in before the server binds; each engine has a range of its own, since they start together.
fn free_port(engine: Engine) -> Result<u16> {
    const SPAN: u64 = 2000;
    let first = 20_000 + SPAN * (engine as u64);
    let random = RandomState::new().build_hasher().finish();
    for step in 0..SPAN {
        let port = (first + (random.wrapping_add(step)) % SPAN) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port from {first} on")
}

/// Runs a program to its end, with its output in `log`.
async fn run(command: std::process::Command, log: &Path) -> Result<()> {
    let out = File::create(log)?;
    let mut command = tokio::process::Command::from(command);
    let status = command.stdout(out.try_clone()?).stderr(out).status().await;
    let program = command.as_std().get_program().to_owned();
    let status = status.with_context(|| format!("run {}", program.display()))?;
    if status.success() { Ok(()) } else { bail!("{status}:\n{}", complaint(log)) }
}
