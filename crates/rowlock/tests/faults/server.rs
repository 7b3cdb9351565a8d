//! What a server knows of a test's sessions, polled until it is as it must be.

use std::time::{Duration, Instant};

use rowlock::{Engine, Tx};
use rowlock_testing::{Family, TestDb};

/// Within this time a dropped transaction's locks must be gone. As a rule it takes milliseconds; the machine may be busy.
pub(crate) const BOUND: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(2);

/// Polls `look` until it gives true, and says how long that took; panics after [`BOUND`].
pub(crate) async fn until(what: &str, mut look: impl AsyncFnMut() -> bool) -> Duration {
    let since = Instant::now();
    while !look().await {
        assert!(since.elapsed() < BOUND, "not within {BOUND:?}: {what}");
        tokio::time::sleep(POLL).await;
    }
    since.elapsed()
}

/// How many sessions other than the asking one are in a transaction on this database.
pub(crate) async fn transactions(test: &TestDb) -> usize {
    let sql = match test.family() {
        Family::Postgres => {
            "select count(*) from pg_stat_activity where datname = current_database() and xact_start is not null \
             and backend_type = 'client backend' and pid <> pg_backend_pid()"
        }
        Family::InnoDb => return in_status(test).await,
        // The file is locked, or it is not.
        Family::Sqlite => return usize::from(test.held("orders", "id = 1").await.is_some()),
    };
    test.value(sql).await.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// As InnoDB's status has it: `information_schema.innodb_trx` is a cache that does not change while somebody reads it.
async fn in_status(test: &TestDb) -> usize {
    let status = test.execute("show engine innodb status").await;
    let text = status.rows.first().and_then(|row| row.last().cloned().flatten()).unwrap_or_default();
    let open: Vec<&str> = text
        .split("---TRANSACTION ")
        .filter(|part| part.lines().next().is_some_and(|line| line.contains("ACTIVE")))
        .filter_map(|part| part.split_once("thread id ")?.1.split(',').next())
        .collect();
    let ours = test.execute("select id from information_schema.processlist where db = database()").await;
    ours.rows
        .iter()
        .filter(|row| row.first().is_some_and(|id| id.as_deref().is_some_and(|id| open.contains(&id))))
        .count()
}

/// Polls until no session is in a transaction on this database.
pub(crate) async fn until_quiet(test: &TestDb) -> Duration {
    until("no open transaction at the server", async || transactions(test).await == 0).await
}

/// Polls until nobody holds the row.
pub(crate) async fn until_free(test: &TestDb, table: &str, id: i64) -> Duration {
    let condition = format!("id = {id}");
    until(&format!("{table} {id} is free"), async || test.held(table, &condition).await.is_none()).await
}

/// The transaction's own session, by the server's number.
pub(crate) async fn session<E: Engine, L>(tx: &mut Tx<E, L>, family: Family) -> Result<i64, sqlx::Error> {
    let sql = match family {
        Family::Postgres => "select pg_backend_pid()::bigint",
        Family::InnoDb => "select cast(connection_id() as signed)",
        Family::Sqlite => return Ok(0),
    };
    sqlx::query_scalar::<E, i64>(sql).fetch_one(tx).await
}

/// Ends a session, as an operator or a crash would, and waits until it is gone.
pub(crate) async fn kill(test: &TestDb, session: i64) {
    match test.family() {
        Family::Postgres => {
            test.execute(&format!("select pg_terminate_backend({session}, 5000)")).await;
        }
        Family::InnoDb => {
            test.execute(&format!("kill {session}")).await;
            let sql = format!("select count(*) from information_schema.processlist where id = {session}");
            // Not by `until`: an async closure inside a transaction's future is not "general enough" for `Send`.
            let since = Instant::now();
            while test.value(&sql).await != "0" {
                assert!(since.elapsed() < BOUND, "session {session} is not gone within {BOUND:?}");
                tokio::time::sleep(POLL).await;
            }
        }
        Family::Sqlite => panic!("SQLite has no sessions to end from outside"),
    }
}
