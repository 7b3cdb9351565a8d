//! Who cannot have a row at once, or not for long, is told so by one type; and who waits for a hot row does not wait on the
//! pool's connections.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[allow(dead_code, reason = "these tests open databases with pools of their own")]
mod support;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use rowlock::{Db, Engine, Error, Gate};
use rowlock_testing::{Family, TestDb, engines};
use sqlx::{Pool, pool::PoolOptions};
use support::{Inventory, Order, Row, Shop, tables};
use tokio::sync::Notify;

const LIMIT: Duration = Duration::from_millis(200);
/// The pool of the starved service.
const CONNECTIONS: u32 = 4;
/// Requests for one row.
const CALLERS: usize = 12;

/// A pool that turns a request away after a while, as a service's does.
async fn pool<E: Engine>(test: &TestDb) -> Pool<E> {
    let options = PoolOptions::<E>::new().max_connections(CONNECTIONS).acquire_timeout(Duration::from_millis(500));
    options.connect(test.url()).await.unwrap()
}

/// Another service holds inventory 20 (on SQLite, the file).
async fn holder(test: &TestDb) -> rowlock_testing::Session {
    let mut holder = test.session("holder").await;
    match test.family() {
        Family::Sqlite => holder.run("begin immediate").await,
        _ => holder.run("begin").await,
    };
    holder.run("update inventories set n = n - 1 where id = 20").await;
    holder
}

/// So many requests that lock inventory 20.
fn callers<E: Engine>(db: &Db<E>) -> Vec<tokio::task::JoinHandle<Result<(), Error>>> {
    let caller = |db: Db<E>| async move {
        let buy = db.kind("buy").enters::<Inventory>([20]);
        buy.transaction(async |tx| tx.lock::<Inventory>([20]).await.map(drop)).await
    };
    (0..CALLERS).map(|_| tokio::spawn(caller(db.clone()))).collect()
}

async fn until(what: &str, mut done: impl AsyncFnMut() -> bool) {
    let began = Instant::now();
    while !done().await {
        assert!(began.elapsed() < Duration::from_secs(30), "{what} did not come about");
        tokio::task::yield_now().await;
    }
}

/// An unrelated page.
async fn read<E: Engine>(db: &Db<E>) -> Result<(), Error> {
    let page = db.kind("page").read_only();
    page.transaction(async |mut tx| {
        sqlx::query("select n from accounts where id = 1").fetch_optional(&mut tx).await?;
        Ok(())
    })
    .await
}

engines! {
    /// The naive version, and the cure.
    async fn a_hot_row_starves_the_pool_without_a_gate<E: Engine>(test: TestDb) {
        tables(&test).await;
        let wait = Duration::from_secs(20);
        let naive: Db<E> = Db::builder(Shop).wait(wait).open(pool(&test).await).await.unwrap();
        let mut holder = holder(&test).await;
        let waiting = callers(&naive);
        until("an empty pool", async || naive.pool().size() == CONNECTIONS && naive.pool().num_idle() == 0).await;
        // Every connection waits for the one row: a page that needs none of it fails.
        let page = read(&naive).await;
        assert!(matches!(page, Err(Error::NoConnection { .. })), "{page:?}");
        holder.run("rollback").await;
        for caller in waiting {
            // Those that came first get through; the rest found no connection in time, or did.
            let result = caller.await.unwrap();
            assert!(matches!(&result, Ok(()) | Err(Error::NoConnection { .. })), "{result:?}");
        }

        // Two at the row, three wait, and the others are told so at once.
        let gate = Gate::new(3, 100).each_row(2, 3);
        let db: Db<E> = Db::builder(Shop).wait(wait).gate::<Inventory>(gate).open(pool(&test).await).await.unwrap();
        let mut holder = self::holder(&test).await;
        let waiting = callers(&db);
        let turned_away = (CALLERS - 5) as u64;
        until("a full queue", async || {
            let counts = db.counts();
            (counts.queued, counts.turned_away) == (3, turned_away)
        }).await;
        until("two at the row", async || db.pool().size() as usize - db.pool().num_idle() == 2).await;
        read(&db).await.unwrap();
        if test.family() != Family::Sqlite {
            // Another row of the same resource, and another resource.
            let other = db.kind("buy").enters::<Inventory>([30]).enters::<Order>([1]);
            other.transaction(async |tx| {
                let tx = tx.lock::<Order>([1]).await?;
                tx.lock::<Inventory>([30]).await.map(drop)
            }).await.unwrap();
        }
        holder.run("rollback").await;
        let mut through = 0;
        for caller in waiting {
            match caller.await.unwrap() {
                Ok(()) => through += 1,
                Err(error) => {
                    assert!(error.is_turned_away() && error.is_busy() && error.is_transient(), "{error:?}");
                    assert_eq!(error.to_string(), "buy: `Inventory` 20 has too many waiting");
                }
            }
        }
        assert_eq!(through, 5);
    }

    async fn nothing_is_sent_for_who_is_turned_away<E: Engine>(test: TestDb) {
        tables(&test).await;
        let gate = Gate::new(1, 1).each_row(1, 0);
        let db: Db<E> = Db::builder(Shop).gate::<Inventory>(gate).open(pool(&test).await).await.unwrap();
        let buy = db.kind("buy").wait(LIMIT).enters::<Inventory>([20]);
        let sell = "update inventories set n = n - 1 where id = 20";
        let again = buy.clone();
        buy.transaction(async |_| {
            let before = db.counts().statements;
            let error = again.execute(rowlock::query(sell)).await.unwrap_err();
            assert!(matches!(error, Error::Busy { turned_away: true, waited: None, resource: "Inventory", .. }), "{error:?}");
            // Another row has a queue of its own, but the resource is full: it waits, until its limit.
            let other = db.kind("other").wait(LIMIT).enters::<Inventory>([30]);
            let error = other.execute(rowlock::query(sell)).await.unwrap_err();
            assert!(matches!(&error, Error::Busy { turned_away: true, waited: Some(w), .. } if *w >= LIMIT), "{error:?}");
            assert_eq!(db.counts().statements, before);
            Ok::<_, Error>(())
        }).await.unwrap();
        // Both are free again, whoever waits is let in, and who gives up leaves.
        assert_eq!(again.execute(rowlock::query(sell)).await.unwrap(), 1);
        let (entered, leave) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let inside = tokio::spawn({
            let (buy, entered, leave) = (buy.clone(), entered.clone(), leave.clone());
            async move {
                buy.transaction(async |_| {
                    entered.notify_one();
                    leave.notified().await;
                    Ok::<_, Error>(())
                })
                .await
            }
        });
        entered.notified().await;
        let (other, queued) = (db.kind("other").enters::<Inventory>([30]), db.counts().queued);
        let waiting = tokio::spawn(async move { other.execute(rowlock::query(sell)).await });
        until("a wait", async || db.counts().queued > queued).await;
        waiting.abort();
        assert!(waiting.await.unwrap_err().is_cancelled());
        leave.notify_one();
        inside.await.unwrap().unwrap();
        assert_eq!(again.execute(rowlock::query(sell)).await.unwrap(), 1);
    }

    async fn a_gate_is_of_the_order<E: Engine>(test: TestDb) {
        mod other {
            rowlock::lock_order! { pub(crate) order Other { Thing => "orders" (id: i64) } }
        }
        tables(&test).await;
        let db = Db::<E>::builder(Shop).gate::<other::Thing>(Gate::new(1, 1)).open(pool(&test).await).await;
        assert!(matches!(db, Err(Error::OtherOrder { order: "Shop", .. })));
        let db: Db<E> = Db::builder(Shop).open(pool(&test).await).await.unwrap();
        let result = db.kind("k").enters::<other::Thing>([1]).transaction(async |_| Ok::<_, Error>(())).await;
        assert!(matches!(result, Err(Error::OtherOrder { resource: "Thing", order: "Shop" })), "{result:?}");
    }

    /// Every way to lock, without waiting: one type of error, at once.
    async fn nowait_is_busy_on_every_call<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = Db::builder(Shop).open(test.pool_of(2).await).await.unwrap();
        db.install().await.unwrap();
        let mut holder = holder(&test).await;
        let began = Instant::now();
        let kind = db.kind("now").nowait();
        let sell = "update inventories set n = n - 1 where id = 20";
        let results = [
            kind.transaction(async |tx| tx.lock::<Inventory>([20]).await.map(drop)).await,
            kind.transaction(async |tx| tx.lock_where::<Inventory>("id = 20").await.map(drop)).await,
            kind.transaction(async |mut tx| rowlock::query(sell).execute(&mut tx).await.map(drop)).await,
            kind.transaction(async |mut tx| Ok(sqlx::query(sell).execute(&mut tx).await.map(drop)?)).await,
            kind.execute(rowlock::query(sell)).await.map(drop),
        ];
        for (n, result) in results.into_iter().enumerate() {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::Busy { waited: None, turned_away: false, .. }), "{n}: {error:?}");
        }
        assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
        assert_eq!(db.counts().busy, 5);
        holder.run("rollback").await;
        kind.execute(rowlock::query(sell)).await.unwrap();
        assert_eq!(test.value("select n from inventories where id = 20").await, "999");
    }

    /// One statement by itself, and SQLite's BEGIN, keep the wait limit too.
    async fn a_wait_limit_holds_for_single_statements<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = Db::builder(Shop).wait(LIMIT).open(test.pool_of(2).await).await.unwrap();
        let mut holder = holder(&test).await;
        let sell = "update inventories set n = n - 1 where id = 20";
        for round in 0..2 {
            let began = Instant::now();
            let error = match round {
                0 => db.kind("sell").execute(rowlock::query(sell)).await.unwrap_err(),
                _ => db.transaction(async |tx| tx.lock::<Inventory>([20]).await.map(drop)).await.unwrap_err(),
            };
            let Error::Busy { waited: Some(waited), resource, turned_away: false, .. } = &error else { panic!("{error:?}") };
            assert_eq!(*resource, if test.family() == Family::Sqlite { "SQLite's one writer" } else { "Inventory" });
            assert!(*waited >= LIMIT - Duration::from_millis(20) && began.elapsed() < LIMIT * 8, "{waited:?}");
            if test.family() != Family::Sqlite {
                assert!(test.waits().await.is_empty(), "it still waits at the server");
            }
        }
        holder.run("rollback").await;
        assert_eq!(db.kind("sell").execute(rowlock::query(sell)).await.unwrap(), 1);
        assert_eq!(test.value("select n from inventories where id = 20").await, "999");
    }
}

engines! { sqlite:
    async fn a_shorter_limit_is_the_kinds_and_not_the_connections(test: TestDb) {
        tables(&test).await;
        let db: Db<sqlx::Sqlite> = Db::builder(Shop).wait(LIMIT).open(test.pool_of(1).await).await.unwrap();
        let timeout = async || {
            let (own,): (i64,) = sqlx::query_as("pragma busy_timeout").fetch_one(db.pool()).await.unwrap();
            own
        };
        db.transaction(async |tx| {
            let (_tx, rows) = tx.lock::<Order>([1]).fetch_all::<Row>().await?;
            assert_eq!(rows.len(), 1);
            Ok::<_, Error>(())
        }).await.unwrap();
        assert_eq!(timeout().await, 5000);
        db.kind("one").execute(rowlock::query("update orders set n = 1 where id = 1")).await.unwrap();
        assert_eq!(timeout().await, 5000);
    }
}

engines! { servers:
    /// A statement of one's own that says NOWAIT is not run again.
    async fn nowait_in_plain_sql_is_typed<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = Db::builder(Shop).open(test.pool_of(2).await).await.unwrap();
        let mut holder = holder(&test).await;
        let runs = std::sync::atomic::AtomicU32::new(0);
        for _ in 0..2 {
            let error = db.transaction(async |mut tx| {
                runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                sqlx::query("select n from inventories where id = 20 for update nowait").fetch_optional(&mut tx).await?;
                Ok::<_, Error>(())
            }).await.unwrap_err();
            assert!(matches!(error, Error::Busy { waited: None, resource: "Inventory", .. }), "{error:?}");
        }
        assert_eq!((runs.into_inner(), db.counts().busy, db.counts().other_retries), (2, 2, 0));
        holder.run("rollback").await;
    }

    async fn a_creation_guard_need_not_wait<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = Db::builder(Shop).open(test.pool_of(3).await).await.unwrap();
        db.install().await.unwrap();
        db.transaction(async |tx| {
            let _mine = tx.guard_creation::<Order>([500]).await?;
            let [at_once, of_kind, soon] = [db.kind("at once"), db.kind("kind").nowait(), db.kind("soon")];
            let at_once = at_once.transaction(async |tx| tx.guard_creation::<Order>([500]).nowait().await.map(drop)).await;
            assert!(matches!(at_once, Err(Error::Busy { waited: None, resource: "Order", .. })), "{at_once:?}");
            let of_kind = of_kind.transaction(async |tx| tx.guard_creation::<Order>([500]).await.map(drop)).await;
            assert!(matches!(of_kind, Err(Error::Busy { waited: None, .. })), "{of_kind:?}");
            let soon = soon.transaction(async |tx| tx.guard_creation::<Order>([500]).wait(LIMIT).await.map(drop)).await;
            assert!(matches!(soon, Err(Error::Busy { waited: Some(_), .. })), "{soon:?}");
            assert!(test.waits().await.is_empty(), "it still waits at the server");
            db.transaction(async |tx| tx.guard_creation::<Order>([501]).nowait().await.map(drop)).await
        }).await.unwrap();
        assert_eq!(db.counts().busy, 3);
    }
}

engines! {
    /// A closure that panics inside a gate gives its place, its connection and its locks back.
    async fn a_panic_leaves_the_gate<E: Engine>(test: TestDb) {
        tables(&test).await;
        let pool = PoolOptions::<E>::new().max_connections(1).connect(test.url()).await.unwrap();
        let db: Db<E> = Db::builder(Shop).gate::<Inventory>(Gate::new(1, 1).each_row(1, 1)).open(pool).await.unwrap();
        for _ in 0..3 {
            let buy = db.kind("buy").enters::<Inventory>([20]);
            let panics = tokio::spawn(async move {
                buy.transaction(async |tx| {
                    let _tx = tx.lock::<Inventory>([20]).await?;
                    if true {
                        panic!("in the middle");
                    }
                    Ok::<_, Error>(())
                })
                .await
            });
            assert!(panics.await.unwrap_err().is_panic());
        }
        let buy = db.kind("buy").enters::<Inventory>([20]);
        buy.transaction(async |tx| tx.lock::<Inventory>([20]).await.map(drop)).await.unwrap();
    }
}
