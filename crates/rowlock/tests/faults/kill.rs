//! The session killed at every statement of a transaction: it runs again, and its effects are there once. (SQLite has no
//! session that someone else could end.)

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rowlock::{Db, Engine, Error};
use rowlock_testing::{TestDb, engines};

use crate::support::{Inventory, Order};
use crate::{
    add, n, open_single,
    server::{kill, session, until_quiet},
};

/// The points between its statements at which the session is killed; the last is before COMMIT.
const POINTS: u32 = 6;

engines! { servers:
    async fn at_every_statement_it_is_done_once<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let family = test.family();
        for point in 0..POINTS {
            let runs = AtomicU32::new(0);
            let before = (n(&test, "orders", 10).await, n(&test, "inventories", 20).await);
            let here = async |at: u32, session: i64| {
                if at == point && runs.load(Relaxed) == 1 {
                    kill(&test, session).await;
                }
            };
            db.kind("killed").commit_token(true).transaction(async |mut tx| {
                runs.fetch_add(1, Relaxed);
                let session = session(&mut tx, family).await?;
                here(0, session).await;
                let mut tx = tx.lock::<Order>([10]).await?;
                here(1, session).await;
                add(&mut tx, "orders", 10, 1).await?;
                here(2, session).await;
                let savepoint = tx.savepoint().await?;
                here(3, session).await;
                let mut tx = tx.lock::<Inventory>([20, 30]).await?;
                here(4, session).await;
                add(&mut tx, "inventories", 20, -1).await?;
                let _ = savepoint;
                here(5, session).await;
                Ok::<_, Error>(())
            }).await.unwrap_or_else(|error| panic!("killed at {point}: {error:?}"));
            assert_eq!(runs.load(Relaxed), 2, "killed at {point}");
            assert_eq!(n(&test, "orders", 10).await, before.0 + 1, "killed at {point}");
            assert_eq!(n(&test, "inventories", 20).await, before.1 - 1, "killed at {point}");
            until_quiet(&test).await;
        }
    }

    async fn before_commit_without_a_token_it_is_unknown<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let family = test.family();
        let error = db.transaction(async |mut tx| {
            let session = session(&mut tx, family).await?;
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            kill(&test, session).await;
            Ok::<_, Error>(())
        }).await.unwrap_err();
        assert!(matches!(error, Error::CommitUnknown { .. }), "{error:?}");
        assert!(error.to_string().contains(".commit_token(true)"), "{error}");
        assert_eq!(n(&test, "orders", 10).await, 1000);
    }

    async fn while_it_waits_for_a_lock<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let family = test.family();
        for way in ["lock", "raw", "guard"] {
            let mut blocker = test.session("blocker").await;
            blocker.run("begin").await;
            blocker.run("select n from orders where id = 10 for update").await;
            let before = n(&test, "orders", 10).await;
            let (tell, told) = tokio::sync::mpsc::unbounded_channel();
            let mut told = told;
            let work = {
                let db = db.clone();
                tokio::spawn(async move {
                    db.kind("killed").commit_token(true).transaction(async |mut tx| {
                        tell.send(session(&mut tx, family).await?).unwrap();
                        let mut tx = match way {
                            "lock" => tx.lock::<Order>([10]).await?,
                            _ => tx.pass::<Order>(),
                        };
                        add(&mut tx, "orders", 10, 1).await
                    })
                    .await
                })
            };
            let first = told.recv().await.unwrap();
            test.until_blocked(1).await;
            kill(&test, first).await;
            let second = told.recv().await.unwrap();
            assert_ne!(first, second);
            blocker.run("rollback").await;
            blocker.close().await;
            work.await.unwrap().unwrap_or_else(|error| panic!("{way}: {error:?}"));
            assert_eq!(n(&test, "orders", 10).await, before + 1, "{way}");
        }
    }

    async fn an_ended_pool_connection_is_replaced<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let family = test.family();
        let of = db.transaction(async |mut tx| Ok::<_, Error>(session(&mut tx, family).await?)).await.unwrap();
        kill(&test, of).await;
        db.transaction(async |mut tx| add(&mut tx, "orders", 10, 1).await).await.unwrap();
        assert_eq!(n(&test, "orders", 10).await, 1001);
    }
}
