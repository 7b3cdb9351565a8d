//! Functions that take sqlx's own connection, in a transaction of rowlock's: what they do is part of it, and what they spoil
//! is seen.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/mod.rs"]
#[allow(dead_code, reason = "these tests need a part of it")]
mod support;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use futures_core::future::BoxFuture;
use rowlock::{Db, Engine, Error};
use rowlock_testing::{Family, TestDb, engines};
use sqlx::{Connection, Executor};
use support::{Inventory, Order, open_with};

/// Functions of the driver's own types, as services have them.
trait Plain: Engine {
    fn send<'c>(connection: &'c mut Self::Connection, sql: &'static str) -> BoxFuture<'c, sqlx::Result<()>>;
    fn nested<'c>(
        connection: &'c mut Self::Connection,
        sql: &'static str,
        commit: bool,
    ) -> BoxFuture<'c, sqlx::Result<()>>;
}

macro_rules! plain {
    ($($engine:ty),*) => {$(
        impl Plain for $engine {
            fn send<'c>(connection: &'c mut Self::Connection, sql: &'static str) -> BoxFuture<'c, sqlx::Result<()>> {
                Box::pin(async move { connection.execute(sqlx::raw_sql(sql)).await.map(drop) })
            }

            fn nested<'c>(
                connection: &'c mut Self::Connection,
                sql: &'static str,
                commit: bool,
            ) -> BoxFuture<'c, sqlx::Result<()>> {
                Box::pin(async move {
                    let mut nested = connection.begin().await?;
                    nested.execute(sqlx::raw_sql(sql)).await?;
                    if commit { nested.commit().await } else { nested.rollback().await }
                })
            }
        }
    )*};
}
plain!(sqlx::Postgres, sqlx::MySql, sqlx::Sqlite);

const ADD: &str = "update orders set n = n + 1 where id = 10";
const ADD_100: &str = "update orders set n = n + 100 where id = 10";
const ADD_OTHER: &str = "update inventories set n = n + 1 where id = 20";

async fn n(test: &TestDb, table: &str, id: i64) -> String {
    test.value(&format!("select n from {table} where id = {id}")).await
}

/// The two ways in which a transaction begins: by sqlx's own means, and by a text of rowlock's.
async fn open<E: Engine>(test: &TestDb) -> [Db<E>; 2] {
    let plain = open_with(test, |builder| builder).await;
    let tokens = Db::builder(support::Shop).commit_token(true).open(plain.pool().clone()).await.unwrap();
    [plain, tokens]
}

engines! {
    async fn what_they_do_is_part_of_it<E: Plain>(test: TestDb) {
        let [plain, tokens] = open::<E>(&test).await;
        for (round, db) in [&plain, &tokens, &plain].into_iter().enumerate() {
            db.transaction(async |tx| {
                let mut tx = tx.lock::<Order>([10]).await?;
                let mut connection = tx.unguarded().await?;
                E::send(&mut connection, ADD).await?;
                E::nested(&mut connection, ADD, true).await?;
                E::nested(&mut connection, ADD_100, false).await?;
                connection.end().await?;
                let mut tx = tx.lock::<Inventory>([20]).await?;
                sqlx::raw_sql(ADD_OTHER).execute(&mut tx).await?;
                Ok::<_, Error>(())
            }).await.unwrap();
            assert_eq!(n(&test, "orders", 10).await, (1002 + 2 * round).to_string());
            // What is rolled back, is with them.
            let error = db.transaction(async |tx| {
                let mut tx = tx.lock::<Order>([10]).await?;
                let mut connection = tx.unguarded().await?;
                E::nested(&mut connection, ADD, true).await?;
                connection.end().await?;
                Err::<(), _>(anyhow::anyhow!("changed my mind"))
            }).await.unwrap_err();
            assert_eq!(error.to_string(), "changed my mind");
            assert_eq!(n(&test, "orders", 10).await, (1002 + 2 * round).to_string());
        }
        assert_eq!(n(&test, "inventories", 20).await, "1003");
    }

    async fn without_an_end_nothing_is_committed<E: Plain>(test: TestDb) {
        let [plain, tokens] = open::<E>(&test).await;
        for db in [plain, tokens] {
            let result = db.transaction(async |tx| {
                let mut tx = tx.lock::<Order>([10]).await?;
                let mut connection = tx.unguarded().await?;
                E::send(&mut connection, ADD).await?;
                drop(connection);
                Ok::<_, Error>(())
            }).await;
            assert!(matches!(&result, Err(Error::RolledBack { cause, .. }) if cause.contains("before `end`")), "{result:?}");
            db.transaction(async |tx| tx.lock::<Order>([10]).await.map(drop)).await.unwrap();
            assert_eq!(n(&test, "orders", 10).await, "1000");
        }
    }

    async fn what_failed_leaves_a_connection_as_it_was<E: Plain>(test: TestDb) {
        for db in open::<E>(&test).await {
            let error = db.transaction(async |tx| {
                let mut tx = tx.lock::<Order>([10]).await?;
                let mut connection = tx.unguarded().await?;
                E::nested(&mut connection, ADD, true).await?;
                let error = anyhow::anyhow!("not enough");
                connection.failed(error.as_ref());
                Err::<(), _>(error)
            }).await.unwrap_err();
            assert_eq!(error.to_string(), "not enough");
            assert_eq!(n(&test, "orders", 10).await, "1000");
            let connection = db.pool().acquire().await.unwrap();
            assert!(!connection.is_in_transaction());
        }
    }

    async fn a_transaction_left_open_or_ended_is_seen<E: Plain>(test: TestDb) {
        let [plain, tokens] = open::<E>(&test).await;
        for db in [plain, tokens] {
            for spoil in ["begin", "rollback"] {
                let result = db.transaction(async |tx| {
                    let mut tx = tx.lock::<Order>([10]).await?;
                    let mut connection = tx.unguarded().await?;
                    E::send(&mut connection, ADD).await?;
                    match spoil {
                        "begin" => std::mem::forget(connection.begin().await?),
                        other => E::send(&mut connection, other).await?,
                    }
                    connection.end().await
                }).await;
                assert!(matches!(result, Err(Error::RolledBack { .. })), "{spoil}: {result:?}");
                // The rollback is the server's when it has noticed; then the row is free, and as it was.
                db.transaction(async |tx| tx.lock::<Order>([10]).await.map(drop)).await.unwrap();
                assert_eq!(n(&test, "orders", 10).await, "1000", "{spoil}");
            }
        }
    }
}

engines! { servers:
    async fn a_swallowed_error_commits_nothing_where_it_took_the_transaction<E: Plain>(test: TestDb) {
        let [plain, tokens] = open::<E>(&test).await;
        for (db, before) in [(plain, 1000), (tokens, 1001)] {
            let result = db.transaction(async |tx| {
                let mut tx = tx.lock::<Order>([10]).await?;
                let mut connection = tx.unguarded().await?;
                E::send(&mut connection, ADD).await?;
                assert!(E::send(&mut connection, "insert into orders (id, n) values (10, 1)").await.is_err());
                connection.end().await
            }).await;
            match test.family() {
                Family::Postgres => {
                    assert!(matches!(result, Err(Error::RolledBack { .. })), "{result:?}");
                    assert_eq!(n(&test, "orders", 10).await, "1000");
                }
                // The statement alone failed.
                _ => {
                    result.unwrap();
                    assert_eq!(n(&test, "orders", 10).await, (before + 1).to_string());
                }
            }
        }
    }

    /// The server's own deadlock, between a transaction of another program and one whose function takes the rows backwards.
    async fn a_deadlock_is_run_again<E: Plain>(test: TestDb) {
        let [plain, tokens] = open::<E>(&test).await;
        for (db, done) in [(plain, "1001"), (tokens, "1002")] {
            let runs = AtomicU32::new(0);
            let mut other = test.session("other").await;
            let session = tokio::sync::Mutex::new(&mut other);
            db.transaction(async |tx| {
                let mut tx = tx.lock::<Order>([1]).await?;
                let mut connection = tx.unguarded().await?;
                let first = runs.fetch_add(1, Relaxed) == 0;
                if !first {
                    let mut other = session.lock().await;
                    assert!(other.outcome().await.is_done());
                    other.run("rollback").await;
                }
                let result = async {
                    E::send(&mut connection, ADD).await?;
                    if first {
                        // Ours is to be the victim: InnoDB takes who has changed less, PostgreSQL whose detector looks.
                        let mut other = session.lock().await;
                        other.run("begin").await;
                        if test.family() == Family::Postgres {
                            other.run("set local deadlock_timeout = '1h'").await;
                        }
                        other.run("update accounts set n = n + 1").await;
                        other.run("update inventories set n = n + 1 where id = 20").await;
                        other.start("update orders set n = n + 0 where id = 10");
                        test.until_blocked(1).await;
                    }
                    E::send(&mut connection, ADD_OTHER).await
                }.await;
                match result {
                    Ok(()) => connection.end().await,
                    Err(error) => {
                        connection.failed(&error);
                        Err(error.into())
                    }
                }
            }).await.unwrap();
            assert_eq!(runs.load(Relaxed), 2);
            assert_eq!(db.counts().deadlocks, 1, "{:?}", db.counts());
            assert_eq!((n(&test, "orders", 10).await.as_str(), n(&test, "inventories", 20).await.as_str()), (done, done));
        }
    }
}
