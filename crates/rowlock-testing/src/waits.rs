//! Who waits for whom, by the server's own views. A test waits on these, never on time.
//!
//! | engine | source |
//! |---|---|
//! | PostgreSQL | `pg_stat_activity`, `pg_blocking_pids` (holders, and whoever stands before in the queue) |
//! | MySQL | `performance_schema.data_lock_waits` |
//! | MariaDB | `SHOW ENGINE INNODB STATUS` for who waits, `information_schema.innodb_lock_waits` for whom |
//! | SQLite | nothing waits: a statement is refused with `SQLITE_BUSY` |
//!
//! MariaDB fills its `innodb_` tables again only when nobody has read them for 100 ms, so that a tight poll would see the
//! first answer for ever, and so would two tests that poll in turns. Readers therefore queue for a lock of the server
//! and leave the tables alone for that long; and they ask only when the status shows a wait.
//!
//! MySQL gives a waiting lock the thread of whoever moved it: an UPDATE that changes a row's length moves the locks of those
//! who wait for it, and `data_lock_waits` then names the holder twice (9.7). The transaction it names is right, and so is the
//! thread of that transaction's lock on the table, which nobody moves: sessions are found by these.

use std::time::{Duration, Instant};

use sqlx::Error;

use crate::connection::{Answer, Connection};
use crate::{Engine, TestDb};

/// How long a wait that a test expects may take to come about.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at a server's views.
pub(crate) const POLL: Duration = Duration::from_millis(2);

/// One session waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wait {
    /// The id of the session that waits (PostgreSQL's pid, MySQL's connection id).
    pub waiting: i64,
    /// The id of the session that it waits for.
    pub blocking: i64,
}

/// Watches one database over a connection of its own.
#[derive(Debug)]
pub struct Watch {
    engine: Engine,
    name: String,
    connection: Connection,
}

const POSTGRES: &str = "select waiting.pid, blocking.pid \
     from pg_stat_activity waiting, unnest(pg_blocking_pids(waiting.pid)) blocking(pid) \
     where waiting.datname = current_database() and waiting.wait_event_type = 'Lock'";

const MYSQL: &str = "select waiting.processlist_id, blocking.processlist_id \
     from performance_schema.data_lock_waits w \
     join performance_schema.data_locks waiter \
     on waiter.engine_transaction_id = w.requesting_engine_transaction_id and waiter.lock_type = 'TABLE' \
     join performance_schema.data_locks holder \
     on holder.engine_transaction_id = w.blocking_engine_transaction_id and holder.lock_type = 'TABLE' \
     join performance_schema.threads waiting on waiting.thread_id = waiter.thread_id \
     join performance_schema.threads blocking on blocking.thread_id = holder.thread_id \
     where waiting.processlist_db = database()";

const MARIADB: &str = "select waiting.trx_mysql_thread_id, blocking.trx_mysql_thread_id \
     from information_schema.innodb_lock_waits w \
     join information_schema.innodb_trx waiting on waiting.trx_id = w.requesting_trx_id \
     join information_schema.innodb_trx blocking on blocking.trx_id = w.blocking_trx_id \
     join information_schema.processlist p on p.id = waiting.trx_mysql_thread_id \
     where p.db = database()";

/// Who waits, without for whom. What PostgreSQL's says is true of the moment when the holder lets go, too, before the waiter wakes.
const POSTGRES_WAITING: &str = "select distinct pid from pg_locks where not granted";

const MYSQL_WAITING: &str = "select distinct t.processlist_id \
     from performance_schema.data_locks w \
     join performance_schema.data_locks own \
     on own.engine_transaction_id = w.engine_transaction_id and own.lock_type = 'TABLE' \
     join performance_schema.threads t on t.thread_id = own.thread_id \
     where w.lock_status = 'WAITING'";

impl Watch {
    /// Watches `db`.
    pub async fn on(db: &TestDb) -> Watch {
        Watch { engine: db.engine(), name: db.name().to_owned(), connection: db.connect().await }
    }

    /// Watches the database of `url` on a server that is no test's shared one.
    ///
    /// # Errors
    /// Where the server cannot be connected to.
    pub async fn at(engine: Engine, url: &str) -> anyhow::Result<Watch> {
        Ok(Watch { engine, name: url.to_owned(), connection: Connection::open(engine, url).await? })
    }

    /// All waits in the database at this moment.
    pub async fn waits(&mut self) -> Vec<Wait> {
        match self.look().await {
            Ok(waits) => waits,
            Err(error) => panic!("{} does not tell who waits: {error}", self.engine),
        }
    }

    /// The sessions of the server that wait, of whatever database: cheaper than `waits`, by far on MariaDB.
    pub(crate) async fn waiting(&mut self) -> Vec<i64> {
        let waiting = match self.engine {
            Engine::Pg15 | Engine::Pg18 | Engine::PgBouncer => self.ids(POSTGRES_WAITING).await,
            Engine::MySql => self.ids(MYSQL_WAITING).await,
            Engine::MariaDb => self.status().await,
            Engine::Sqlite => Ok(Vec::new()),
        };
        waiting.unwrap_or_else(|error| panic!("{} does not tell who waits: {error}", self.engine))
    }

    /// The sessions that session `id` waits for.
    pub async fn blockers(&mut self, id: i64) -> Vec<i64> {
        let waits = self.waits().await;
        waits.into_iter().filter(|wait| wait.waiting == id).map(|wait| wait.blocking).collect()
    }

    /// Polls until at least `sessions` sessions of the database wait for a lock, and returns the waits.
    pub async fn until_blocked(&mut self, sessions: usize) -> Vec<Wait> {
        let since = Instant::now();
        loop {
            let waits = self.waits().await;
            let mut waiting: Vec<i64> = waits.iter().map(|wait| wait.waiting).collect();
            waiting.dedup();
            if waiting.len() >= sessions {
                return waits;
            }
            if since.elapsed() > PATIENCE {
                panic!("{sessions} sessions were to wait in {}; after {PATIENCE:?} it is {waits:?}", self.name);
            }
            tokio::time::sleep(POLL).await;
        }
    }

    /// Polls until session `id` waits for a lock, of whomever.
    pub async fn until_waiting(&mut self, id: i64) {
        let since = Instant::now();
        while !self.waiting().await.contains(&id) {
            assert!(since.elapsed() <= PATIENCE, "session {id} of {} was to wait, and does not", self.name);
            tokio::time::sleep(POLL).await;
        }
    }

    /// Runs a statement for the session that this one watches.
    pub(crate) async fn must(&mut self, sql: &str) -> Answer {
        match self.connection.run(sql).await {
            Ok(answer) => answer,
            Err(error) => panic!("{}: `{sql}`: {error}", self.engine),
        }
    }

    async fn look(&mut self) -> Result<Vec<Wait>, Error> {
        let engine = self.engine;
        let mut waits = match engine {
            Engine::Pg15 | Engine::Pg18 | Engine::PgBouncer => self.pairs(POSTGRES).await?,
            Engine::MySql => self.pairs(MYSQL).await?,
            Engine::MariaDb if self.somebody_waits().await? => self.mariadb().await?,
            Engine::MariaDb | Engine::Sqlite => Vec::new(),
        };
        waits.sort_unstable();
        waits.dedup();
        Ok(waits)
    }

    async fn pairs(&mut self, query: &str) -> Result<Vec<Wait>, Error> {
        let rows = self.connection.run(query).await?.rows;
        let id = |value: &Option<String>| value.as_deref().and_then(|text| text.parse().ok());
        let pair = |row: &Vec<Option<String>>| Some(Wait { waiting: id(row.first()?)?, blocking: id(row.get(1)?)? });
        Ok(rows.iter().filter_map(pair).collect())
    }

    async fn ids(&mut self, query: &str) -> Result<Vec<i64>, Error> {
        let rows = self.connection.run(query).await?.rows;
        Ok(rows.iter().filter_map(|row| row.first()?.as_deref()?.parse().ok()).collect())
    }

    /// Who waits by InnoDB's status, which is never a stale copy.
    async fn status(&mut self) -> Result<Vec<i64>, Error> {
        let status = self.connection.run("show engine innodb status").await?;
        let text = status.rows.first().and_then(|row| row.get(2)?.as_deref()).unwrap_or_default();
        Ok(text.split("---TRANSACTION").skip(1).filter_map(waiting_thread).filter_map(|id| id.parse().ok()).collect())
    }

    /// Whether a session of this database waits.
    async fn somebody_waits(&mut self) -> Result<bool, Error> {
        let waiting: Vec<String> = self.status().await?.iter().map(i64::to_string).collect();
        if waiting.is_empty() {
            return Ok(false);
        }
        let query = "select 1 from information_schema.processlist where db = database() and id in";
        let ours = self.connection.run(&format!("{query} ({})", waiting.join(", "))).await?;
        Ok(!ours.rows.is_empty())
    }

    async fn mariadb(&mut self) -> Result<Vec<Wait>, Error> {
        self.connection.run("select get_lock('rowlock-testing innodb_lock_waits', 60)").await?;
        tokio::time::sleep(Duration::from_millis(101)).await;
        let waits = self.pairs(MARIADB).await;
        self.connection.run("select release_lock('rowlock-testing innodb_lock_waits')").await?;
        waits
    }
}

/// The thread of a transaction in InnoDB's status, if it waits for a lock.
fn waiting_thread(transaction: &str) -> Option<&str> {
    transaction.contains("\nLOCK WAIT").then_some(())?;
    let (_, rest) = transaction.split_once("thread id ")?;
    rest.split(',').next()
}

impl TestDb {
    /// All waits in this database at this moment.
    pub async fn waits(&self) -> Vec<Wait> {
        Watch::on(self).await.waits().await
    }

    /// Polls until at least `sessions` sessions of this database wait for a lock, and returns the waits.
    pub async fn until_blocked(&self, sessions: usize) -> Vec<Wait> {
        Watch::on(self).await.until_blocked(sessions).await
    }
}

#[cfg(test)]
mod tests {
    use super::waiting_thread;

    #[test]
    fn a_waiting_transaction_is_read_from_the_status() {
        let waiting = " 52, ACTIVE 1 sec starting index read\nmysql tables in use 1, locked 1\nLOCK WAIT 2 lock struct(s), \
                       heap size 1128, 1 row lock(s)\nMariaDB thread id 17, OS thread handle 140, query id 93 updating\n";
        assert_eq!(waiting_thread(waiting), Some("17"));
        assert_eq!(waiting_thread(&waiting.replace("LOCK WAIT ", "")), None);
    }
}
