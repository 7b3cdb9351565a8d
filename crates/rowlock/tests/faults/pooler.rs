//! Behind PgBouncer in transaction mode: what is told at start, and what a cancelled transaction does there. And whether the
//! server has room for the pools.

use rowlock::{Db, Engine, Error};
use rowlock_testing::{TestDb, engines};
use sqlx::{Postgres, postgres::PgPoolOptions};
use tracing::Level;

use crate::support::{Inventory, Order, Shop, tables};
use crate::{
    add,
    log::Log,
    n, open_at,
    server::{transactions, until, until_free, until_quiet},
};

async fn open(test: &TestDb) -> Db<Postgres> {
    tables(test).await;
    open_at(test.url(), 4, |builder| builder).await
}

engines! { pgbouncer:
    async fn what_the_pooler_does_not_carry_is_told_at_start(test: TestDb) {
        tables(&test).await;
        let log = Log::start(Level::WARN);
        let _db: Db<Postgres> = open_at(test.url(), 2, |builder| builder).await;
        let told = log.text();
        assert!(told.contains("pooler in transaction mode that does not carry prepared statements"), "{told}");
        assert!(told.contains("max_prepared_statements"), "no way out: {told}");
    }

    async fn a_dropped_waiting_transaction_is_ended_at_the_server(test: TestDb) {
        let db = open(&test).await;
        let mut blocker = test.session("blocker").await;
        blocker.run("begin").await;
        blocker.run("select n from inventories where id = 20 for update").await;
        let work = {
            let db = db.clone();
            tokio::spawn(async move {
                db.transaction(async |tx| {
                    let mut tx = tx.lock::<Order>([10]).await?;
                    add(&mut tx, "orders", 10, 1).await?;
                    tx.lock::<Inventory>([20]).await.map(drop)
                }).await
            })
        };
        test.until_blocked(1).await;
        work.abort();
        assert!(work.await.unwrap_err().is_cancelled());
        until_free(&test, "orders", 10).await;
        until("nobody waits", async || test.waits().await.is_empty()).await;
        blocker.run("rollback").await;
        until_quiet(&test).await;
        assert_eq!(n(&test, "orders", 10).await, 1000);
    }

    /// A transaction dropped while its COMMIT is under way: by the time its session would be ended, the pooler may have
    /// given the server connection to somebody else.
    async fn a_drop_at_commit_ends_nobody_elses_transaction(test: TestDb) {
        let db = open(&test).await;
        let others: Vec<_> = (0..3i64).map(|task| {
            let db = db.clone();
            tokio::spawn(async move {
                for _ in 0..100 {
                    db.transaction(async |tx| {
                        let mut tx = tx.lock::<Inventory>([task]).existing().await?;
                        sqlx::query("select pg_sleep(0.002)").execute(&mut tx).await?;
                        Ok::<_, Error>(())
                    }).await?;
                }
                Ok::<_, Error>(())
            })
        }).collect();
        let dropping: Db<Postgres> = open_at(test.url(), 1, |builder| builder).await;
        for _ in 0..100 {
            // To the COMMIT: everything before it is awaited, and its answer is not.
            let mut awaits = 0;
            let past = std::sync::atomic::AtomicBool::new(false);
            let work = dropping.transaction(async |tx| {
                let mut tx = tx.lock::<Order>([10]).await?;
                add(&mut tx, "orders", 10, 1).await?;
                past.store(true, std::sync::atomic::Ordering::Relaxed);
                Ok::<_, Error>(())
            });
            let mut work = std::pin::pin!(work);
            std::future::poll_fn(|context| {
                let poll = work.as_mut().poll(context);
                awaits += 1;
                if poll.is_ready() || past.load(std::sync::atomic::Ordering::Relaxed) {
                    return std::task::Poll::Ready(());
                }
                std::task::Poll::Pending
            }).await;
        }
        for other in others {
            other.await.unwrap().unwrap();
        }
        assert_eq!(db.counts().other_retries, 0, "another's session was ended");
        until_quiet(&test).await;
    }

    async fn creation_is_guarded(test: TestDb) {
        let db = open(&test).await;
        let work: Vec<_> = (0..4).map(|_| {
            let db = db.clone();
            tokio::spawn(async move {
                db.transaction(async |tx| {
                    let tx = tx.guard_creation::<Order>([500]).await?;
                    let (mut tx, there) = tx.lock::<Order>([500]).existing().keys().await?;
                    if there.is_empty() {
                        sqlx::query("insert into orders (id, n) values (500, 1)").execute(&mut tx).await?;
                    }
                    Ok::<_, Error>(there.is_empty())
                }).await
            })
        }).collect();
        let mut made = 0;
        for task in work {
            made += usize::from(task.await.unwrap().unwrap());
        }
        assert_eq!(made, 1);
        assert_eq!(transactions(&test).await, 0);
    }
}

engines! { servers:
    async fn more_pools_than_the_server_has_room_for_are_told<E: Engine>(test: TestDb) {
        tables(&test).await;
        let log = Log::start(Level::WARN);
        let db: Db<E> = open_at(test.url(), 100, |builder| builder.processes(1000)).await;
        let told = log.text();
        assert!(told.contains("1000 pools of 100 connections can ask for 100000"), "{told}");
        drop(db);
        let _db: Db<E> = open_at(test.url(), 2, |builder| builder).await;
        assert_eq!(log.lines(), [""; 0], "a small pool has room");
    }
}

engines! { pg15:
    async fn a_pool_that_was_made_lazily_is_checked_too(test: TestDb) {
        tables(&test).await;
        let pool = PgPoolOptions::new().max_connections(2).connect_lazy(test.url()).unwrap();
        let db = Db::builder(Shop).open(pool).await.unwrap();
        db.transaction(async |tx| tx.lock::<Order>([10]).await.map(drop)).await.unwrap();
    }
}
