//! One test body, run on several engines: `engines!`.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use crate::{Engine, TestDb, absent, database};

/// A test that hangs is ended, so that it can say which one it was and keep its database.
const PATIENCE: Duration = Duration::from_secs(180);

/// Makes each test body into one `#[test]` for every engine, named `body::engine` (`transfers::pg15`).
///
/// The bodies are `async fn name(db: TestDb)`, with a `Result` or nothing as output, run on a multi-threaded runtime. One
/// generic parameter with one bound, `async fn name<E: Bound>(db: TestDb)`, becomes the engine's sqlx driver. The engines
/// are PostgreSQL 15 and 18, MariaDB, MySQL and SQLite; a word in front chooses others: `servers:` (all but SQLite),
/// `postgres:`, `innodb:`, or engines by name, `pg15, sqlite:`.
///
/// ```
/// rowlock_testing::engines! {
///     async fn counts(db: rowlock_testing::TestDb) {
///         db.execute("create table t (id int primary key)").await;
///         assert_eq!(db.value("select count(*) from t").await, "0");
///     }
///
///     async fn connects<E: sqlx::Database>(db: rowlock_testing::TestDb) -> Result<(), sqlx::Error> {
///         let _pool = db.pool::<E>().await;
///         Ok(())
///     }
/// }
/// ```
#[macro_export]
macro_rules! engines {
    (servers: $($bodies:tt)*) => { $crate::engines_of! { [pg15 pg18 mariadb mysql] $($bodies)* } };
    (postgres: $($bodies:tt)*) => { $crate::engines_of! { [pg15 pg18] $($bodies)* } };
    (innodb: $($bodies:tt)*) => { $crate::engines_of! { [mariadb mysql] $($bodies)* } };
    ($($engine:ident),+ : $($bodies:tt)*) => { $crate::engines_of! { [$($engine)+] $($bodies)* } };
    ($($bodies:tt)*) => { $crate::engines_of! { [pg15 pg18 mariadb mysql sqlite] $($bodies)* } };
}

/// The work of `engines!`: a list of engines, then bodies.
#[doc(hidden)]
#[macro_export]
macro_rules! engines_of {
    ([$($engine:ident)+]) => {};
    ([$($engine:ident)+] $(#[$meta:meta])* async fn $name:ident($db:ident: $ty:ty) $(-> $output:ty)? $body:block $($rest:tt)*) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports, reason = "a test body may use nothing of its file")]
            use super::*;
            $(#[$meta])*
            async fn body($db: $ty) $(-> $output)? $body
            $(
                #[test]
                fn $engine() {
                    $crate::run($crate::engine_named!($engine), body);
                }
            )+
        }
        $crate::engines_of! { [$($engine)+] $($rest)* }
    };
    ([$($engine:ident)+] $(#[$meta:meta])* async fn $name:ident<$driver:ident: $bound:path>($db:ident: $ty:ty) $(-> $output:ty)? $body:block $($rest:tt)*) => {
        #[cfg(test)]
        mod $name {
            #[allow(unused_imports, reason = "a test body may use nothing of its file")]
            use super::*;
            $(#[$meta])*
            async fn body<$driver: $bound>($db: $ty) $(-> $output)? $body
            $(
                #[test]
                fn $engine() {
                    $crate::run($crate::engine_named!($engine), body::<$crate::driver_named!($engine)>);
                }
            )+
        }
        $crate::engines_of! { [$($engine)+] $($rest)* }
    };
}

/// From an engine's name to its value.
#[doc(hidden)]
#[macro_export]
macro_rules! engine_named {
    (pg15) => {
        $crate::Engine::Pg15
    };
    (pg18) => {
        $crate::Engine::Pg18
    };
    (mariadb) => {
        $crate::Engine::MariaDb
    };
    (mysql) => {
        $crate::Engine::MySql
    };
    (sqlite) => {
        $crate::Engine::Sqlite
    };
    (pgbouncer) => {
        $crate::Engine::PgBouncer
    };
}

/// From an engine's name to sqlx's driver.
#[doc(hidden)]
#[macro_export]
macro_rules! driver_named {
    (pg15) => {
        $crate::sqlx::Postgres
    };
    (pg18) => {
        $crate::sqlx::Postgres
    };
    (mariadb) => {
        $crate::sqlx::MySql
    };
    (mysql) => {
        $crate::sqlx::MySql
    };
    (sqlite) => {
        $crate::sqlx::Sqlite
    };
    (pgbouncer) => {
        $crate::sqlx::Postgres
    };
}

/// Runs a test body on a fresh database of `engine`, which is kept when the body panics, fails or hangs.
pub fn run<F, Fut>(engine: Engine, body: F)
where
    F: FnOnce(TestDb) -> Fut,
    Fut: Future<Output: TestOutput>,
{
    if !present(engine) {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let runtime = runtime.unwrap_or_else(|error| panic!("no tokio runtime: {error}"));
    let db = runtime.block_on(database(engine));
    let theirs = db.clone();
    let result = catch_unwind(AssertUnwindSafe(|| {
        let run = runtime.block_on(async { tokio::time::timeout(PATIENCE, body(theirs)).await });
        match run.map(|outcome| outcome.failure()) {
            Ok(None) => {}
            Ok(Some(failure)) => panic!("{failure}"),
            Err(_) => panic!("the test did not end within {PATIENCE:?}"),
        }
    }));
    // Tasks that the body left behind end here, before their database goes.
    runtime.shutdown_timeout(Duration::from_secs(5));
    if let Err(panic) = result {
        db.keep();
        drop(db);
        resume_unwind(panic);
    }
}

/// Whether tests on `engine` are to run; when `ROWLOCK_TEST_ABSENT` leaves it out, says so and returns false.
pub fn present(engine: Engine) -> bool {
    let Some(reason) = absent(engine) else { return true };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("a test");
    // Straight to the stream: libtest would swallow a print of a test that passes, and xtask counts these lines.
    // In one write, so that no other test's line comes between.
    let line = format!("left out: {test} on {}: {reason}\n", engine.name());
    let _ = std::io::stderr().write_all(line.as_bytes());
    false
}

/// What a test body may return.
pub trait TestOutput {
    /// What went wrong, if something did.
    fn failure(self) -> Option<String>;
}

impl TestOutput for () {
    fn failure(self) -> Option<String> {
        None
    }
}

impl<E: std::fmt::Debug> TestOutput for Result<(), E> {
    fn failure(self) -> Option<String> {
        self.err().map(|error| format!("{error:?}"))
    }
}
