//! A database for each test: made fresh, dropped when the test passed, kept and named when it failed.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::{Context, Result, bail};
use sqlx::pool::{Pool, PoolOptions};
use sqlx::{MySqlPool, PgPool, SqlitePool};

use crate::connection::{Answer, Connection};
use crate::{Engine, Family};

/// A test's own database. Clones share it; when the last one goes, so does the database.
#[derive(Clone, Debug)]
pub struct TestDb(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    engine: Engine,
    /// The server's URL, or for SQLite the folder that holds the file.
    home: Home,
    name: String,
    url: String,
    keep: AtomicBool,
}

#[derive(Debug)]
enum Home {
    Server(String),
    Folder(PathBuf),
}

/// Creates a database on `engine`, named after the running test. Panics, with the way out, when the engine is not there:
/// a test must not pass because it did not run.
pub async fn database(engine: Engine) -> TestDb {
    match TestDb::create(engine).await {
        Ok(db) => db,
        Err(error) => panic!("no database for this test: {error:#}"),
    }
}

/// Why `ROWLOCK_TEST_ABSENT` leaves the engine out, if it does: `name: reason`, several separated by `;`.
pub fn absent(engine: Engine) -> Option<String> {
    let list = std::env::var("ROWLOCK_TEST_ABSENT").ok()?;
    list.split(';').find_map(|entry| {
        let (name, reason) = entry.split_once(':').unwrap_or((entry, "no reason given"));
        (name.trim() == engine.name()).then(|| reason.trim().to_owned())
    })
}

/// The URL of the engine's server, from its environment variable.
pub fn server_url(engine: Engine) -> Result<String> {
    let Some(variable) = engine.variable() else { bail!("{engine} has no server") };
    if let Some(reason) = absent(engine) {
        bail!("{engine} is left out by ROWLOCK_TEST_ABSENT: {reason}");
    }
    std::env::var(variable).ok().filter(|url| !url.is_empty()).with_context(|| {
        format!(
            "{variable} is not set: run `cargo xtask test`, or `eval \"$(cargo xtask servers start)\"` before `cargo test`; \
             to leave {engine} out, set ROWLOCK_TEST_ABSENT='{}: why'",
            engine.name()
        )
    })
}

impl TestDb {
    async fn create(engine: Engine) -> Result<TestDb> {
        let name = fresh_name();
        if engine == Engine::Sqlite {
            let folder = std::env::temp_dir().join(format!("rowlock-{name}"));
            std::fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
            let url = format!("sqlite://{}?mode=rwc", folder.join("test.db").display());
            return Ok(TestDb::new(engine, Home::Folder(folder), name, url));
        }
        let server = server_url(engine)?;
        let (prefix, _) = server.rsplit_once('/').with_context(|| format!("{server} names no database"))?;
        let url = format!("{prefix}/{name}");
        let mut admin = Connection::open(engine, &server).await?;
        admin.run(&format!("create database {name}")).await.with_context(|| format!("create database {name}"))?;
        admin.close().await?;
        Ok(TestDb::new(engine, Home::Server(server), name, url))
    }

    fn new(engine: Engine, home: Home, name: String, url: String) -> TestDb {
        TestDb(Arc::new(Inner { engine, home, name, url, keep: AtomicBool::new(false) }))
    }

    /// The engine it is on.
    pub fn engine(&self) -> Engine {
        self.0.engine
    }

    /// The engine's family.
    pub fn family(&self) -> Family {
        self.0.engine.family()
    }

    /// Its URL, as sqlx takes it.
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// A connection of its own.
    pub async fn connect(&self) -> Connection {
        match Connection::open(self.engine(), self.url()).await {
            Ok(connection) => connection,
            Err(error) => panic!("{error:#}"),
        }
    }

    /// Runs statements (several may stand in the text) in a connection of their own; panics when one fails.
    pub async fn execute(&self, sql: &str) -> Answer {
        let mut connection = self.connect().await;
        let answer = connection.run(sql).await;
        let _ = connection.close().await;
        match answer {
            Ok(answer) => answer,
            Err(error) => panic!("{} said {error} to: {sql}", self.engine()),
        }
    }

    /// The first value that a query gives, as text; panics when there is none.
    pub async fn value(&self, sql: &str) -> String {
        match self.execute(sql).await.value() {
            Some(value) => value.to_owned(),
            None => panic!("{} gave no value for: {sql}", self.engine()),
        }
    }

    /// A pool of sqlx's for a test body that is generic over its driver; at most ten connections.
    pub async fn pool<E: sqlx::Database>(&self) -> Pool<E> {
        self.pool_of(10).await
    }

    /// A pool of at most `connections`.
    pub async fn pool_of<E: sqlx::Database>(&self, connections: u32) -> Pool<E> {
        match PoolOptions::<E>::new().max_connections(connections).connect(self.url()).await {
            Ok(pool) => pool,
            Err(error) => panic!("cannot connect to {}: {error}", self.url()),
        }
    }

    /// A pool for PostgreSQL.
    pub async fn postgres(&self) -> PgPool {
        self.pool().await
    }

    /// A pool for MySQL and MariaDB.
    pub async fn mysql(&self) -> MySqlPool {
        self.pool().await
    }

    /// A pool for SQLite.
    pub async fn sqlite(&self) -> SqlitePool {
        self.pool().await
    }

    /// Keeps the database when the test ends, and says where it is.
    pub fn keep(&self) {
        self.0.keep.store(true, Ordering::Relaxed);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if std::thread::panicking() || *self.keep.get_mut() {
            eprintln!("the database of this test is kept: {}", self.url);
            return;
        }
        let removed = match &self.home {
            Home::Folder(folder) => std::fs::remove_dir_all(folder).context("remove the folder"),
            Home::Server(server) => drop_blocking(self.engine, server, &self.name),
        };
        if let Err(error) = removed {
            eprintln!("the database {} could not be dropped: {error:#}", self.url);
        }
    }
}

/// `Drop` cannot await, and may run inside any runtime: a thread with a runtime of its own can.
fn drop_blocking(engine: Engine, server: &str, name: &str) -> Result<()> {
    let work = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(drop_database(engine, server, name))
    };
    std::thread::scope(|scope| scope.spawn(work).join().unwrap_or_else(|_| bail!("it panicked")))
}

async fn drop_database(engine: Engine, server: &str, name: &str) -> Result<()> {
    let mut admin = Connection::open(engine, server).await?;
    if engine.family() == Family::Postgres {
        admin.run(&format!("drop database {name} with (force)")).await?;
    } else {
        // A transaction that is still open there would hold up the DROP: end its session first.
        let open = format!("select id from information_schema.processlist where db = '{name}'");
        for row in admin.run(&open).await?.rows {
            if let [Some(id)] = &row[..] {
                // It may have ended by itself in between.
                let _ = admin.run(&format!("kill {id}")).await;
            }
        }
        admin.run(&format!("drop database {name}")).await?;
    }
    admin.close().await?;
    Ok(())
}

/// A name that tells the test (libtest names the thread after it), and that no other run has.
fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let thread = std::thread::current().name().unwrap_or("test").to_lowercase();
    let plain: String = thread.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    // PostgreSQL cuts names at 63 bytes, MySQL refuses more than 64. The end tells more than the beginning.
    let tail = &plain[plain.len().saturating_sub(40)..];
    format!("t_{tail}_{}_{count}", std::process::id())
}
