//! What stands between the pool and PostgreSQL, and whether there is room for the pool: found out at start, since under
//! load both look like something else.
//!
//! A pooler in transaction mode gives each transaction whichever server connection is free. Two clients that meet on one
//! server connection prove it: `select pg_backend_pid()` of a first, finished, and of a second inside a transaction.
//! When others use the pooler at that moment, the first asks again while the second holds on, and its answer changes.
//!
//! Behind it, a prepared statement made by one transaction is not there in the next, and its name is taken in another
//! client's. A pooler that knows of them (PgBouncer from 1.21) gives them names of its own; so inside one transaction
//! the server is asked under which name it knows a statement that has just been prepared. Nothing is left behind: the
//! statement is closed in the same transaction, and both connections are closed.

use std::time::Duration;

use sqlx::{Connection, PgConnection, PgPool, Row, error::DatabaseError, postgres::PgConnectOptions};

use crate::check::{Finding, Severity};

/// A pooler that is out of server connections lets a client wait for minutes; one answer is not worth that.
const PATIENCE: Duration = Duration::from_secs(2);
/// While others use the pooler, chance may give both connections what they had before.
const ROUNDS: usize = 8;
/// The whole of it, connecting included.
const ALL_PATIENCE: Duration = Duration::from_secs(10);

/// What is known of the way to the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// One server connection for each of the pool's.
    Straight,
    /// A pooler in transaction mode, which carries prepared statements from one transaction to the next.
    Pooled,
    /// A pooler in transaction mode, which does not.
    PooledUnprepared,
    /// A pooler that has no transactions (statement mode).
    NoTransactions,
    /// Two connections more could not be had, or gave no answer in time.
    Unknown(String),
}

/// Finds out what stands between `pool` and the server, by two connections of its own.
pub(crate) async fn find_way(pool: &PgPool) -> Way {
    // What is cut off here hangs up, and what it had open the server rolls back.
    match tokio::time::timeout(ALL_PATIENCE, probe(&pool.connect_options())).await {
        Ok(Ok(way)) => way,
        Ok(Err(error)) => Way::Unknown(error.to_string()),
        Err(_) => Way::Unknown(format!("no answer within {ALL_PATIENCE:?}")),
    }
}

async fn probe(options: &PgConnectOptions) -> Result<Way, sqlx::Error> {
    let mut first = PgConnection::connect_with(options).await?;
    let mut second = PgConnection::connect_with(options).await?;
    let way = match is_transaction_mode(&mut first, &mut second).await {
        Ok(false) => Way::Straight,
        Ok(true) if keeps_prepared(&mut second).await? => Way::Pooled,
        Ok(true) => Way::PooledUnprepared,
        // PgBouncer: "transaction blocks not allowed in statement pooling mode"
        Err(sqlx::Error::Database(e)) if e.message().contains("statement pooling") => Way::NoTransactions,
        Err(e) => return Err(e),
    };
    // The first may still wait for a server: hang up rather than say goodbye.
    drop(first.close_hard().await);
    drop(second.close().await);
    Ok(way)
}

async fn is_transaction_mode(first: &mut PgConnection, second: &mut PgConnection) -> Result<bool, sqlx::Error> {
    const PID: &str = "select pg_backend_pid()";
    let before = pid(first, PID).await?;
    for _ in 0..ROUNDS {
        let held = pid(second, "begin; select pg_backend_pid()").await?;
        let moved = held == before
            || match tokio::time::timeout(PATIENCE, pid(first, PID)).await {
                Ok(now) => now? != before,
                // Straight to the server, nothing waits.
                Err(_) => return Ok(true),
            };
        sqlx::raw_sql("rollback").execute(&mut *second).await?;
        // What was let go last is given out first: without this, each could get its own back for ever.
        if moved || pid(first, PID).await? != before {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn pid(connection: &mut PgConnection, sql: &'static str) -> Result<i32, sqlx::Error> {
    sqlx::raw_sql(sql).fetch_one(connection).await?.try_get(0)
}

/// Whether a statement prepared in one transaction can be run in the next.
async fn keeps_prepared(connection: &mut PgConnection) -> Result<bool, sqlx::Error> {
    const PROBE: &str = "select 'rowlock: are prepared statements kept?'";
    const KNOWN_AS: &str = "select count(*) filter (where name like 'sqlx\\_s\\_%') from pg_prepared_statements \
                            where statement = 'select ''rowlock: are prepared statements kept?'''";
    sqlx::raw_sql("begin").execute(&mut *connection).await?;
    let kept = match sqlx::query(PROBE).persistent(true).execute(&mut *connection).await {
        Ok(_) => sqlx::raw_sql(KNOWN_AS).fetch_one(&mut *connection).await?.try_get::<i64, _>(0)? == 0,
        // The name is taken by another client's statement ("prepared statement .. already exists").
        Err(sqlx::Error::Database(e)) if is_prepared_statement_error(&*e) => false,
        Err(e) => return Err(e),
    };
    if kept || connection.cached_statements_size() > 0 {
        connection.clear_cached_statements().await?;
    }
    sqlx::raw_sql("rollback").execute(&mut *connection).await?;
    Ok(kept)
}

/// 42P05: the name is taken. 26000: no statement has it.
pub(crate) fn is_prepared_statement_error(error: &dyn DatabaseError) -> bool {
    matches!(error.code().as_deref(), Some("42P05" | "26000"))
}

impl Way {
    /// Whether each connection of the pool is one of the server's.
    pub(crate) fn is_straight(&self) -> bool {
        *self == Way::Straight
    }

    /// Whether a statement that was prepared in one transaction can be run in another.
    pub(crate) fn keeps_prepared(&self) -> bool {
        matches!(self, Way::Straight | Way::Pooled)
    }

    /// What does not work this way, and what to do.
    pub(crate) fn finding(&self) -> Option<Finding> {
        match self {
            Way::Straight | Way::Pooled => None,
            Way::PooledUnprepared => Some(Finding::of_server(
                Severity::Warning,
                "the pool goes through a pooler in transaction mode that does not carry prepared statements: rowlock's \
                 transactions send theirs unprepared, and statements that go to the pool itself may fail with \
                 \"prepared statement .. already exists\" or \".. does not exist\""
                    .into(),
                "PgBouncer 1.21 or later with max_prepared_statements = 100; or send everything through rowlock's \
                 transactions. (sqlx's statement_cache_capacity(0) does not help: sqlx 0.9 still names each statement.)"
                    .into(),
            )),
            Way::Unknown(why) => Some(Finding::of_server(
                Severity::Warning,
                format!(
                    "it is not known whether a pooler stands before the server ({why}), so rowlock's transactions send \
                     their statements unprepared"
                ),
                "room for two connections more when the pool is opened, at the pooler or at the server".into(),
            )),
            Way::NoTransactions => Some(Finding::of_server(
                Severity::Error,
                "the pool goes through a pooler in statement mode, which has no transactions, and so no row locks".into(),
                "pool_mode = transaction (or session) for this database in the pooler's configuration".into(),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rowlock_testing::TestDb;
    use std::collections::HashSet;

    rowlock_testing::engines! { postgres:
        async fn straight_to_the_server_is_told(db: TestDb) {
            assert_eq!(find_way(&db.postgres().await).await, Way::Straight);
        }
    }

    rowlock_testing::engines! { pgbouncer:
        async fn transaction_mode_without_prepared_statements_is_told(db: TestDb) -> Result<(), sqlx::Error> {
            let pool = db.postgres().await;
            for _ in 0..5 {
                let way = find_way(&pool).await;
                assert_eq!(way, Way::PooledUnprepared);
                let finding = way.finding().unwrap();
                assert!(finding.what.contains("pooler in transaction mode"), "{finding}");
            }
            // Nothing was left behind on any server connection: each has room for the name.
            let mut names = HashSet::new();
            let mut transactions = Vec::new();
            for _ in 0..8 {
                let mut transaction = PgConnection::connect(db.url()).await?;
                sqlx::raw_sql("begin").execute(&mut transaction).await?;
                for row in sqlx::raw_sql("select name from pg_prepared_statements").fetch_all(&mut transaction).await? {
                    names.insert(row.try_get::<String, _>(0)?);
                }
                transactions.push(transaction);
            }
            assert_eq!(names, HashSet::new());
            Ok(())
        }

        async fn it_is_told_while_others_use_the_pooler(db: TestDb) {
            let pool = db.postgres().await;
            let others: Vec<_> = (0..6)
                .map(|_| {
                    let pool = pool.clone();
                    tokio::spawn(async move {
                        while sqlx::raw_sql("select pg_sleep(0.001)").execute(&pool).await.is_ok() {}
                    })
                })
                .collect();
            for _ in 0..20 {
                assert_eq!(find_way(&pool).await, Way::PooledUnprepared);
            }
            others.iter().for_each(|other| other.abort());
        }

        async fn a_cache_of_no_statements_does_not_keep_sqlx_from_naming_them(db: TestDb) -> Result<(), sqlx::Error> {
            use sqlx::ConnectOptions;
            let options: sqlx::postgres::PgConnectOptions = db.url().parse()?;
            let options = options.statement_cache_capacity(0).disable_statement_logging();
            let (mut a, mut b) = (options.connect().await?, options.connect().await?);
            sqlx::query("select 1").execute(&mut a).await?;
            let error = sqlx::query("select 2").execute(&mut b).await.unwrap_err();
            assert!(matches!(error, sqlx::Error::Database(e) if is_prepared_statement_error(&*e)));
            // Unprepared, inside a transaction, works.
            sqlx::raw_sql("begin").execute(&mut b).await?;
            sqlx::query("select 2").persistent(false).execute(&mut b).await?;
            Ok(())
        }
    }
}
