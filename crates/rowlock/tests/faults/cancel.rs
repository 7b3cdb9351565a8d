//! A transaction's future, dropped at every await: as a timeout does it, or a client that hangs up.

use std::time::Instant;

use rowlock::{Db, Engine, Error, Result};
use rowlock_testing::{Family, TestDb, cancel_at, engines};

use crate::support::{Account, Inventory, Order, Row, tables};
use crate::{
    add, marked, n, open_at, open_single,
    server::{transactions, until, until_free, until_quiet},
};

/// Cancels the work at every await until it finishes, and after each sees that nothing is left: no open transaction at
/// the server, no row locked, the pool's one connection outside a transaction, and all of the writes or none.
async fn at_every_await<E, F>(test: &TestDb, db: &Db<E>, work: impl Fn() -> F)
where
    E: Engine,
    F: Future<Output = Result<()>>,
{
    // An answer that is there already is not awaited: which awaits there are differs from run to run.
    let mut awaits = 0;
    for round in 0.. {
        awaits += sweep(test, db, &work).await;
        if round > 0 && awaits >= 5 {
            break;
        }
        assert!(round < 50, "nothing is ever awaited");
    }
}

async fn sweep<E, F>(test: &TestDb, db: &Db<E>, work: impl Fn() -> F) -> usize
where
    E: Engine,
    F: Future<Output = Result<()>>,
{
    let (mut awaits, mut longest) = (0, std::time::Duration::ZERO);
    let (orders, stock) = (n(test, "orders", 10).await, n(test, "inventories", 20).await);
    loop {
        let result = cancel_at(awaits, work()).await;
        let dropped = Instant::now();
        until_free(test, "orders", 10).await;
        until_free(test, "inventories", 20).await;
        until_quiet(test).await;
        longest = longest.max(dropped.elapsed());
        // The one connection serves the next transaction, and what that one does is there for everyone: it did not run
        // inside what the dropped one left open.
        let before = n(test, "accounts", 1).await;
        let next = db.transaction(async |mut tx| add(&mut tx, "accounts", 1, 1).await).await;
        next.unwrap_or_else(|error| panic!("after a drop at await {awaits}: {error}"));
        assert_eq!(n(test, "accounts", 1).await, before + 1, "after a drop at await {awaits}");
        assert_eq!(transactions(test).await, 0);
        // All or nothing.
        let (o, s) = (n(test, "orders", 10).await - orders, n(test, "inventories", 20).await - stock);
        assert_eq!(o, -s, "half done after a drop at await {awaits}");
        if let Some(result) = result {
            result.unwrap();
            assert!(o >= 1, "finished, and nothing was done");
            break;
        }
        awaits += 1;
    }
    println!("{}: cancelled at {awaits} awaits; clean within {longest:?}, probes included", test.engine());
    awaits
}

engines! {
    async fn a_transaction_at_every_await<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        at_every_await(&test, &db, || db.transaction(async |tx| {
            let (mut tx, _) = tx.lock::<Order>([10]).fetch_one::<Row>().await?;
            add(&mut tx, "orders", 10, 1).await?;
            let mut tx = tx.lock::<Inventory>([30, 20]).await?;
            add(&mut tx, "inventories", 20, -1).await
        })).await;
    }

    async fn a_token_at_every_await<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let kind = db.kind("token").commit_token(true);
        at_every_await(&test, &db, || kind.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            let mut tx = tx.lock::<Inventory>([20]).await?;
            add(&mut tx, "inventories", 20, -1).await
        })).await;
    }

    async fn a_condition_and_a_savepoint_at_every_await<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let condition = marked(&test, "id = ? and n > 0");
        at_every_await(&test, &db, || db.transaction(async |tx| {
            let mut tx = tx.lock_where::<Order>(condition).bind(10i64).await?;
            add(&mut tx, "orders", 10, 1).await?;
            let before = tx.savepoint().await?;
            let mut tx = tx.lock::<Inventory>([20]).await?;
            add(&mut tx, "inventories", 20, 7).await?;
            let tx = tx.rollback_to(before).await?;
            let mut tx = tx.lock::<Inventory>([20]).await?;
            let kept = tx.savepoint().await?;
            add(&mut tx, "inventories", 20, -1).await?;
            tx.release(kept).await
        })).await;
    }

    async fn a_creation_guard_at_every_await<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        at_every_await(&test, &db, || db.transaction(async |tx| {
            let tx = tx.guard_creation::<Order>([500, 400]).await?;
            let mut tx = tx.lock::<Order>([10, 500]).existing().await?;
            add(&mut tx, "orders", 10, 1).await?;
            let mut tx = tx.lock::<Inventory>([20]).await?;
            add(&mut tx, "inventories", 20, -1).await
        })).await;
    }

    async fn a_rollback_at_every_await<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let failing = async || match db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            Err::<(), _>(Error::Database(sqlx::Error::RowNotFound))
        }).await {
            Err(Error::Database(sqlx::Error::RowNotFound)) => db.transaction(async |tx| {
                let mut tx = tx.lock::<Order>([10]).await?;
                add(&mut tx, "orders", 10, 1).await?;
                add(&mut tx, "inventories", 20, -1).await
            }).await,
            other => panic!("{other:?}"),
        };
        at_every_await(&test, &db, failing).await;
    }

    /// One statement without a transaction: dropped, it was applied or not, and the connection is clean.
    async fn a_single_statement_at_every_await<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let sql = marked(&test, "update orders set n = n + 1 where id = ?");
        let kind = db.kind("one");
        for awaits in 0..50 {
            let before = n(&test, "orders", 10).await;
            let result = cancel_at(awaits, kind.execute(rowlock::query(sql).bind(10i64))).await;
            until_free(&test, "orders", 10).await;
            until_quiet(&test).await;
            let after = n(&test, "orders", 10).await;
            assert!(after == before || after == before + 1, "{before} became {after}");
            db.transaction(async |mut tx| add(&mut tx, "accounts", 1, 1).await).await.unwrap();
            if let Some(result) = result {
                assert_eq!((result.unwrap(), after), (1, before + 1));
                return;
            }
        }
        panic!("it never finished");
    }

    async fn the_items_before_a_drop_stay_done<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let (mut awaits, mut rounds) = (0, 0);
        let mut before = 1000;
        // Until one was dropped whose first item was done, which answers that are there at once can keep from happening.
        let mut dropped_between = false;
        loop {
            let report = cancel_at(awaits, db.kind("expire").for_each([1i64, 2, 3], |_| {}, async |tx, id| {
                let mut tx = tx.lock::<Order>([id]).await?;
                add(&mut tx, "orders", id, 1).await?;
                // One await that is there in any case.
                tokio::task::yield_now().await;
                Ok::<_, Error>(())
            })).await;
            until_quiet(&test).await;
            let done = [n(&test, "orders", 1).await, n(&test, "orders", 2).await, n(&test, "orders", 3).await];
            assert!(done[0] >= done[1] && done[1] >= done[2], "a later item was done before an earlier one: {done:?}");
            dropped_between |= report.is_none() && done[0] > before;
            before = done[0];
            awaits += 1;
            if let Some(report) = report {
                assert_eq!((report.done.len(), report.failed.len()), (3, 0), "{report}");
                if dropped_between {
                    break;
                }
                (awaits, rounds) = (0, rounds + 1);
                assert!(rounds < 50, "no item was ever done before a drop");
            }
        }
    }

    async fn a_transaction_that_escapes_is_told_and_let_go<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = open_at(test.url(), 2, |builder| builder).await;
        // Moved out, and kept.
        let kept = std::sync::Mutex::new(None);
        let error = db.kind("kept").transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            *kept.lock().unwrap() = Some(tx);
            Ok::<_, Error>(())
        }).await.unwrap_err();
        assert!(matches!(error, Error::Escaped { .. }), "{error:?}");
        if test.family() != Family::Sqlite {
            // Its session was ended: the locks are gone although it still lives.
            until_free(&test, "orders", 10).await;
            let mut escaped = kept.lock().unwrap().take().unwrap();
            assert!(add(&mut escaped, "orders", 10, 1).await.is_err());
        }
        drop(kept);
        until_free(&test, "orders", 10).await;
        assert_eq!(n(&test, "orders", 10).await, 1000);
        if test.family() == Family::Sqlite {
            // A leaked connection in this process keeps the file locked; nobody outside can end it.
            return;
        }
        // Leaked: nothing will ever drop it.
        let error = db.kind("leaked").transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            std::mem::forget(tx);
            Ok::<_, Error>(())
        }).await.unwrap_err();
        assert!(matches!(error, Error::Escaped { .. }), "{error:?}");
        until_free(&test, "orders", 10).await;
        assert_eq!(n(&test, "orders", 10).await, 1000);
        db.transaction(async |tx| tx.lock::<Order>([10]).await.map(drop)).await.unwrap();
    }
}

engines! { servers:
    /// The bound that is stated: a waiting statement is ended at the server, and the transaction's other locks go,
    /// although whom it waits for goes on.
    async fn a_waiting_statement_is_ended_at_the_server<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let lock = if test.family() == Family::Postgres { "for no key update" } else { "for update" };
        let mut longest = std::time::Duration::ZERO;
        for way in ["lock", "where", "raw", "late"] {
            let mut blocker = test.session("blocker").await;
            blocker.run("begin").await;
            blocker.run(&format!("select n from inventories where id = 20 {lock}")).await;
            let work = {
                let db = db.clone();
                let condition = marked(&test, "id = ? and n > 0");
                tokio::spawn(async move {
                    db.transaction(async |tx| {
                        let mut tx = tx.lock::<Order>([10]).await?;
                        add(&mut tx, "orders", 10, 1).await?;
                        match way {
                            "lock" => tx.lock::<Inventory>([20]).await.map(drop),
                            "where" => tx.lock_where::<Inventory>(condition).bind(20i64).await.map(drop),
                            "raw" => add(&mut tx, "inventories", 20, 1).await,
                            // Busy without waiting: the transaction restarts, and waits for all of it up front.
                            _ => {
                                let tx = tx.lock::<Inventory>([30]).await?;
                                tx.lock::<Inventory>([20]).await.map(drop)
                            }
                        }
                    })
                    .await
                })
            };
            test.until_blocked(1).await;
            assert!(test.held("orders", "id = 10").await.is_some(), "{way}");
            work.abort();
            let dropped = Instant::now();
            assert!(work.await.unwrap_err().is_cancelled());
            until_free(&test, "orders", 10).await;
            longest = longest.max(dropped.elapsed());
            until("nobody waits", async || test.waits().await.is_empty()).await;
            assert!(test.held("inventories", "id = 20").await.is_some(), "the blocker goes on");
            blocker.run("rollback").await;
            blocker.close().await;
            until_quiet(&test).await;
            assert_eq!(n(&test, "orders", 10).await, 1000);
            db.transaction(async |tx| tx.lock::<Order>([10]).await.map(drop)).await.unwrap();
        }
        println!("{}: other locks of a cancelled waiter are free within {longest:?}", test.engine());
    }

    async fn a_waiting_creation_guard_is_ended_at_the_server<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = open_at(test.url(), 2, |builder| builder).await;
        let (has, had) = tokio::sync::oneshot::channel::<()>();
        let (end, ended) = tokio::sync::oneshot::channel::<()>();
        let signals = std::sync::Mutex::new(Some((has, ended)));
        let first = {
            let db = db.clone();
            tokio::spawn(async move {
                db.transaction(async |tx| {
                    let tx = tx.guard_creation::<Inventory>([500]).await?;
                    let signals = signals.lock().unwrap().take();
                    if let Some((has, ended)) = signals {
                        has.send(()).unwrap();
                        ended.await.unwrap();
                    }
                    drop(tx);
                    Ok::<_, Error>(())
                })
                .await
            })
        };
        had.await.unwrap();
        let second = {
            let db = db.clone();
            tokio::spawn(async move {
                db.transaction(async |tx| {
                    let mut tx = tx.lock::<Order>([10]).await?;
                    add(&mut tx, "orders", 10, 1).await?;
                    tx.guard_creation::<Inventory>([500]).await.map(drop)
                })
                .await
            })
        };
        test.until_blocked(1).await;
        second.abort();
        assert!(second.await.unwrap_err().is_cancelled());
        until_free(&test, "orders", 10).await;
        until("nobody waits", async || test.waits().await.is_empty()).await;
        end.send(()).unwrap();
        first.await.unwrap().unwrap();
        until_quiet(&test).await;
    }

    async fn a_restart_at_every_await<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        // The blocker holds a late place, so that the first attempt restarts; the second then locks up front, waits, and
        // is dropped at every await of all that. It never finishes while the blocker is there.
        let mut blocker = test.session("blocker").await;
        let lock = if test.family() == Family::Postgres { "for no key update" } else { "for update" };
        blocker.run("begin").await;
        blocker.run(&format!("select n from inventories where id = 20 {lock}")).await;
        let mut awaits = 0;
        while db.counts().restarts < 3 {
            let restarts = db.counts().restarts;
            // Once it waits at the server, no further await comes by itself.
            let work = cancel_at(awaits, db.transaction(async |tx| {
                let mut tx = tx.lock::<Order>([10]).await?;
                add(&mut tx, "orders", 10, 1).await?;
                let tx = tx.lock::<Inventory>([30]).await?;
                let tx = tx.lock::<Inventory>([20]).await?;
                tx.lock::<Account>([1]).await.map(drop)
            }));
            let waits = async { test.until_blocked(1).await; };
            tokio::select! {
                result = work => assert!(result.is_none(), "it cannot finish"),
                () = waits => {}
            }
            until_free(&test, "orders", 10).await;
            until_free(&test, "inventories", 30).await;
            until("nobody waits", async || test.waits().await.is_empty()).await;
            assert_eq!(n(&test, "orders", 10).await, 1000);
            assert!(db.counts().restarts <= restarts + 1);
            awaits += 1;
        }
        blocker.run("rollback").await;
        until_quiet(&test).await;
        db.transaction(async |tx| tx.lock::<Inventory>([20]).await.map(drop)).await.unwrap();
    }
}
