//! Limits of time and of attempts, and what is run again.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use rowlock::{Db, Engine, Error, Failure, Guard, Isolation};
use rowlock_testing::{Family, TestDb, engines};
use tokio::sync::{Mutex, oneshot};
use tracing::Level;

use crate::support::{Inventory, Order};
use crate::{
    add,
    log::Log,
    n, open_single,
    server::{kill, session, until, until_free, until_quiet},
};

const LIMIT: Duration = Duration::from_millis(300);

engines! {
    async fn a_hold_beyond_its_budget_is_told<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let log = Log::start(Level::WARN);
        for (budget, told) in [(Duration::from_secs(60), false), (Duration::ZERO, true)] {
            db.kind("slow").hold_budget(budget).transaction(async |tx| {
                tx.lock::<Order>([10]).await.map(drop)
            }).await.unwrap();
            let lines = log.lines();
            assert_eq!(lines.iter().any(|line| line.contains("held longer than the budget")), told, "{lines:?}");
            assert!(lines.iter().all(|line| line.contains("slow")), "{lines:?}");
        }
        // Nothing was locked: nothing was held.
        db.kind("idle").hold_budget(Duration::ZERO).transaction(async |_| Ok::<_, Error>(())).await.unwrap();
        assert_eq!(log.lines(), [""; 0]);
    }

    async fn an_outside_call_ends_at_the_hold_limit<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let since = Instant::now();
        let error = db.kind("calls").hold_limit(LIMIT).transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            std::future::pending::<Result<(), Error>>().await
        }).await.unwrap_err();
        assert!(matches!(error, Error::HoldLimit { limit: LIMIT, .. }), "{error:?}");
        assert!(since.elapsed() >= LIMIT);
        until_free(&test, "orders", 10).await;
        until_quiet(&test).await;
        assert_eq!(n(&test, "orders", 10).await, 1000);
        db.transaction(async |tx| tx.lock::<Order>([10]).await.map(drop)).await.unwrap();
    }

    /// Without a lock nobody is kept waiting: time before the first one is not held time. PostgreSQL's own setting
    /// cannot tell, and so must not end it as if something had failed that another run would mend.
    async fn an_outside_call_before_the_first_lock_is_no_hold<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let runs = AtomicU32::new(0);
        let result = db.kind("calls").hold_limit(LIMIT).transaction(async |tx| {
            runs.fetch_add(1, Relaxed);
            // The outside call itself.
            tokio::time::sleep(LIMIT * 2).await;
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await
        }).await;
        assert!(result.is_ok(), "{result:?}");
        assert_eq!((runs.into_inner(), n(&test, "orders", 10).await), (1, 1001));
    }
}

engines! { servers:
    async fn a_statement_ends_at_the_hold_limit<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let mut blocker = test.session("blocker").await;
        blocker.run("begin").await;
        blocker.run("select n from inventories where id = 20 for update").await;
        let since = Instant::now();
        let error = db.kind("waits").hold_limit(LIMIT).transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            tx.lock::<Inventory>([20]).await.map(drop)
        }).await.unwrap_err();
        assert!(matches!(error, Error::HoldLimit { .. }), "{error:?}");
        let ended = since.elapsed();
        let freed = until_free(&test, "orders", 10).await;
        println!("{}: hold limit of {LIMIT:?} told after {ended:?}, locks gone {freed:?} later", test.engine());
        until("nobody waits", async || test.waits().await.is_empty()).await;
        blocker.run("rollback").await;
        until_quiet(&test).await;
        assert_eq!(n(&test, "orders", 10).await, 1000);
    }

    async fn a_wait_limit_ends_the_wait_and_not_the_session<E: Engine>(test: TestDb) {
        const WAIT: Duration = Duration::from_millis(200);
        let db: Db<E> = open_single(&test).await;
        let mut blocker = test.session("blocker").await;
        blocker.run("begin").await;
        blocker.run("select n from inventories where id = 20 for update").await;
        let family = test.family();
        // Of one lock, and of the kind.
        for per_lock in [true, false] {
            let kind = if per_lock { db.kind("waits") } else { db.kind("waits").wait(WAIT) };
            let since = Instant::now();
            let error = kind.transaction(async |tx| {
                let mut tx = tx.lock::<Order>([10]).await?;
                add(&mut tx, "orders", 10, 1).await?;
                let lock = tx.lock::<Inventory>([20]);
                if per_lock { lock.wait(WAIT).await.map(drop) } else { lock.await.map(drop) }
            }).await.unwrap_err();
            let Error::Busy { waited: Some(waited), resource: "Inventory", .. } = error else { panic!("{error:?}") };
            // Its clock starts a little before the statement's.
            assert!(waited >= WAIT * 3 / 4 && waited < WAIT * 20, "{waited:?}");
            assert!(since.elapsed() < WAIT * 25);
            assert!(test.waits().await.is_empty(), "it still waits at the server");
            assert_eq!(n(&test, "orders", 10).await, 1000);
        }
        assert_eq!((db.counts().cancelled, db.counts().busy), (2, 2));
        let error = db.transaction(async |tx| tx.lock::<Inventory>([20]).nowait().await.map(drop)).await.unwrap_err();
        assert!(matches!(error, Error::Busy { waited: None, .. }) && error.is_busy(), "{error:?}");
        // The session survived each: no connection was given up.
        let of = async || db.transaction(async |mut tx| Ok::<_, Error>(session(&mut tx, family).await?)).await.unwrap();
        let before = of().await;
        let _ = db.transaction(async |tx| tx.lock::<Inventory>([20]).wait(WAIT).await.map(drop)).await;
        assert_eq!(of().await, before);
        blocker.run("rollback").await;
    }

    /// NOWAIT is of rows. For a table that another has locked it waits (on MariaDB it does not), and closes a cycle when that one comes to wait for
    /// what is held here: it is given up before the server's deadlock detector looks.
    async fn a_late_place_does_not_wait_for_its_table<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let (lock, unlock) = match test.family() {
            Family::Postgres => ("begin; lock table orders", "commit"),
            _ => ("lock tables orders write", "unlock tables"),
        };
        let blocker = Mutex::new(test.session("blocker").await);
        let runs = AtomicU32::new(0);
        let late = db.transaction(async |tx| {
            let mut tx = tx.lock::<Inventory>([20]).await?;
            if runs.fetch_add(1, Relaxed) == 0 {
                blocker.lock().await.run(lock).await;
            }
            // (A key in the text: one that is bound, sqlx hides.)
            sqlx::query("update orders set n = n + 1 where id = 10").execute(&mut tx).await?;
            Ok::<_, Error>(())
        });
        let other = async {
            until("the late place is given up", async || db.counts().restarts == 1).await;
            let mut blocker = blocker.lock().await;
            if test.family() == Family::Postgres {
                blocker.start("update inventories set n = n + 1 where id = 20");
                let outcome = blocker.outcome().await;
                assert!(outcome.is_done(), "{outcome}");
            }
            blocker.run(unlock).await;
        };
        let (late, ()) = tokio::join!(late, other);
        late.unwrap();
        let counts = db.counts();
        assert_eq!((counts.late, counts.restarts, counts.deadlocks), (1, 1, 0), "{counts:?}");
        // MariaDB's NOWAIT is of tables too.
        let waited = test.engine() != rowlock_testing::Engine::MariaDb;
        assert_eq!(counts.cancelled, u64::from(waited), "{counts:?}");
        assert_eq!(n(&test, "orders", 10).await, 1001);
    }

    async fn attempts_and_the_deadline_are_kept<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let family = test.family();
        for (kind, expected) in [
            (db.kind("three").attempts(3), 3),
            (db.kind("one").attempts(1), 1),
            (db.kind("none").attempts(50).deadline(Duration::ZERO), 1),
        ] {
            let runs = AtomicU32::new(0);
            let error = kind.transaction(async |mut tx| {
                runs.fetch_add(1, Relaxed);
                let session = session(&mut tx, family).await?;
                kill(&test, session).await;
                tx.lock::<Order>([10]).await.map(drop)
            }).await.unwrap_err();
            let text = error.to_string();
            let Error::Exhausted { attempts, .. } = error else { panic!("{error:?}") };
            assert_eq!((attempts.len(), runs.into_inner()), (expected, expected as u32));
            assert!(attempts.iter().all(|a| a.failure == Failure::ConnectionLost && !a.message.is_empty()), "{text}");
            assert!(attempts.windows(2).all(|pair| pair[0].after <= pair[1].after), "{text}");
            assert!(text.contains(&format!("gave up after {expected} attempts: connection lost after")), "{text}");
        }
    }

    /// A deadlock that a session outside makes; rowlock's is the victim: the other has written more (InnoDB), or rowlock's
    /// wait closes the circle (PostgreSQL, where who waits longest has looked before there was one).
    async fn a_deadlock_made_by_others_is_run_again_whole<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let mut naive = test.session("naive").await;
        if test.family() == Family::Postgres {
            naive.run("set deadlock_timeout = '60s'").await;
        }
        naive.run("begin").await;
        naive.run("update accounts set n = n + 1").await;
        naive.run("update inventories set n = n + 1 where id = 20").await;
        let (locked, is_locked) = oneshot::channel::<()>();
        let (waits, does_wait) = oneshot::channel::<()>();
        let signals = std::sync::Mutex::new(Some((locked, does_wait)));
        let runs = std::sync::Arc::new(AtomicU32::new(0));
        let work = {
            let (db, runs) = (db.clone(), runs.clone());
            tokio::spawn(async move {
                db.transaction(async |tx| {
                    runs.fetch_add(1, Relaxed);
                    let mut tx = tx.lock::<Order>([10]).await?;
                    add(&mut tx, "orders", 10, 1).await?;
                    let first = signals.lock().unwrap().take();
                    if let Some((locked, does_wait)) = first {
                        locked.send(()).unwrap();
                        does_wait.await.unwrap();
                    }
                    let mut tx = tx.lock::<Inventory>([20]).await?;
                    add(&mut tx, "inventories", 20, 1).await
                })
                .await
            })
        };
        is_locked.await.unwrap();
        assert!(naive.step("update orders set n = n + 100 where id = 10").await.is_blocked());
        waits.send(()).unwrap();
        let outcome = naive.outcome().await;
        assert!(outcome.is_done(), "{outcome}");
        naive.run("commit").await;
        work.await.unwrap().unwrap();
        assert_eq!((runs.load(Relaxed), db.counts().deadlocks), (2, 1));
        assert_eq!((n(&test, "orders", 10).await, n(&test, "inventories", 20).await), (1101, 1002));
    }

    /// The server's own limit, on a statement that plain sqlx sent. On InnoDB it leaves the transaction open: without a
    /// rollback first, the half that was done would be done twice.
    async fn the_servers_lock_timeout_is_run_again_whole<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let mut blocker = test.session("blocker").await;
        blocker.run("begin").await;
        blocker.run("select n from inventories where id = 20 for update").await;
        let blocker = Mutex::new(blocker);
        let runs = AtomicU32::new(0);
        db.kind("waits").wait(Duration::from_millis(1)).transaction(async |tx| {
            if runs.fetch_add(1, Relaxed) == 1 {
                blocker.lock().await.run("rollback").await;
            }
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            add(&mut tx, "inventories", 20, 1).await
        }).await.unwrap();
        assert_eq!((runs.into_inner(), db.counts().other_retries), (2, 1));
        assert_eq!((n(&test, "orders", 10).await, n(&test, "inventories", 20).await), (1001, 1001));
    }

    async fn a_statement_that_failed_unseen<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let result = db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10, 11]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            let failed = sqlx::query("insert into orders (id, n) values (12, 1)").execute(&mut tx).await;
            assert!(failed.is_err());
            Ok::<_, Error>(())
        }).await;
        let after = n(&test, "orders", 10).await;
        if test.family() == Family::Postgres {
            let error = result.unwrap_err();
            assert!(matches!(error, Error::RolledBack { .. }), "{error:?}");
            assert!(error.to_string().contains("orders_pkey"), "the cause is not told: {error}");
            assert_eq!(after, 1000);
        } else {
            result.unwrap();
            assert_eq!(after, 1001);
        }
    }
}

/// A row that changed under the transaction's snapshot.
async fn changed_under_the_snapshot<E: Engine>(test: &TestDb, isolation: Isolation, set: Option<&'static str>) {
    let db: Db<E> = open_single(test).await;
    if let Some(set) = set {
        // The one connection keeps it.
        let sets = db.kind("sets").guard(Guard::Observe);
        sets.transaction(async |mut tx| sqlx::query(set).execute(&mut tx).await.map(drop).map_err(Error::from))
            .await
            .unwrap();
    }
    let runs = AtomicU32::new(0);
    db.kind("snapshot")
        .isolation(isolation)
        .transaction(async |mut tx| {
            sqlx::query("select n from orders where id = 10").execute(&mut tx).await?;
            if runs.fetch_add(1, Relaxed) == 0 {
                test.execute("update orders set n = n + 100 where id = 10").await;
            }
            add(&mut tx, "orders", 10, 1).await
        })
        .await
        .unwrap();
    assert_eq!((runs.into_inner(), db.counts().serialization_failures), (2, 1));
    assert_eq!(n(test, "orders", 10).await, 1101);
}

engines! { postgres:
    async fn a_serialization_failure_is_run_again(test: TestDb) {
        for isolation in [Isolation::RepeatableRead, Isolation::Serializable] {
            changed_under_the_snapshot::<sqlx::Postgres>(&test, isolation, None).await;
            test.execute("drop table orders; drop table inventories; drop table accounts").await;
        }
    }
}

engines! { mariadb:
    async fn a_changed_snapshot_is_run_again(test: TestDb) {
        let set = "set session innodb_snapshot_isolation = on";
        changed_under_the_snapshot::<sqlx::MySql>(&test, Isolation::RepeatableRead, Some(set)).await;
    }
}

engines! {
    /// All connections are in use: that is known soon, and is no defect of anybody's.
    async fn a_pool_that_is_exhausted_is_busy<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let held = db.pool().acquire().await.unwrap();
        let update = || rowlock::query("update orders set n = n + 1 where id = 10");
        let quick = db.kind("quick").nowait();
        let bounded = db.kind("deadline").deadline(Duration::from_millis(600));
        for kind in [quick, bounded] {
            let inside = kind.transaction(async |tx| tx.lock::<Order>([10]).await.map(drop)).await.unwrap_err();
            let alone = kind.execute(update()).await.unwrap_err();
            for error in [inside, alone] {
                assert!(matches!(error, Error::NoConnection { .. }), "{error:?}");
                assert!(error.is_busy() && error.is_transient() && !error.is_turned_away(), "{error:?}");
            }
        }
        drop(held);
        assert_eq!(db.kind("now").nowait().execute(update()).await.unwrap(), 1);
    }
}
