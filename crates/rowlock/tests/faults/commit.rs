//! COMMIT, and its answer, lost on the way. With a commit token the outcome is exact and nothing is done twice; without
//! one it is told as unknown. (SQLite commits inside the process: there is no way on which an answer could be lost.)

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Instant,
};

use rowlock::{Db, Engine, Error};
use rowlock_testing::{Family, Lost, Proxy, TestDb, engines};

use crate::support::{Inventory, Order, tables};
use crate::{
    add, marked, n, open_at,
    server::{BOUND, until_quiet},
};

/// The COMMIT that stands alone, as it goes over the wire: READ COMMITTED is none.
fn commit(test: &TestDb) -> &'static str {
    if test.family() == Family::Postgres { "commit\0" } else { "\x03commit" }
}

/// The COMMIT that has a token before it.
const WITH_TOKEN: &str = "); commit";

/// MySQL and MariaDB answer each statement of a text. What is cut is the first answer, the token's: the session, ended as
/// one whose line was lost, may not have come to COMMIT. Then it was not done, and is done again.
fn answers_twice(test: &TestDb) -> bool {
    test.family() == Family::InnoDb
}

async fn begin<E: Engine>(test: &TestDb, connections: u32) -> (Arc<Proxy>, Db<E>) {
    tables(test).await;
    let proxy = Proxy::to(test.url()).await.unwrap();
    let db = open_at(proxy.url(), connections, |builder| builder).await;
    (Arc::new(proxy), db)
}

/// Adds 1 to order 10 with a commit token; how often the closure ran.
async fn add_one<E: Engine>(db: &Db<E>) -> Result<u32, Error> {
    let runs = AtomicU32::new(0);
    let result = db
        .kind("paid")
        .commit_token(true)
        .transaction(async |tx| {
            runs.fetch_add(1, Relaxed);
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await
        })
        .await;
    result.map(|()| runs.into_inner())
}

engines! { servers:
    async fn lost_before_the_server_with_a_token_it_is_done_again<E: Engine>(test: TestDb) {
        for connections in [1, 5] {
            let (proxy, db) = begin::<E>(&test, connections).await;
            proxy.cut_at(WITH_TOKEN, Lost::Request);
            assert_eq!(add_one(&db).await.unwrap(), 2);
            assert_eq!((proxy.cuts(), n(&test, "orders", 10).await), (1, 1001));
            test.execute("drop table orders; drop table inventories; drop table accounts; drop table rowlock_token").await;
            db.pool().close().await;
        }
    }

    async fn lost_after_the_server_with_a_token_it_is_not_done_again<E: Engine>(test: TestDb) {
        let (proxy, db) = begin::<E>(&test, 1).await;
        proxy.cut_at(WITH_TOKEN, Lost::Answer);
        let runs = add_one(&db).await.unwrap();
        assert!(runs == 1 || runs == 2 && answers_twice(&test), "{runs}");
        assert_eq!((proxy.cuts(), n(&test, "orders", 10).await), (1, 1001));
        assert_eq!(db.counts().committed, 1);
        until_quiet(&test).await;
        // The one connection works.
        assert_eq!(add_one(&db).await.unwrap(), 1);
        assert_eq!(n(&test, "orders", 10).await, 1002);
    }

    /// The question about the outcome is lost as well, at each of its own steps.
    async fn the_question_is_lost_too<E: Engine>(test: TestDb) {
        let (proxy, db) = begin::<E>(&test, 2).await;
        let mut expected = 1000;
        for commit_lost in [Lost::Request, Lost::Answer] {
            for (second, second_lost) in [
                ("insert into rowlock_token", Lost::Request),
                ("insert into rowlock_token", Lost::Answer),
                (commit(&test), Lost::Request),
                (commit(&test), Lost::Answer),
            ] {
                // A committed transaction is asked after with an insert alone, which is refused: no COMMIT follows.
                if commit_lost == Lost::Answer && second != "insert into rowlock_token" {
                    continue;
                }
                let cuts = proxy.cuts();
                proxy.cut_at(WITH_TOKEN, commit_lost);
                let arm = {
                    let proxy = proxy.clone();
                    tokio::spawn(async move {
                        proxy.until_cut(cuts + 1).await;
                        proxy.cut_at(second, second_lost);
                    })
                };
                let runs = add_one(&db).await.unwrap();
                arm.await.unwrap();
                let what = format!("{commit_lost:?}, then {second_lost:?} of {second:?}");
                assert_eq!(proxy.cuts(), cuts + 2, "{what}");
                match commit_lost {
                    Lost::Request => assert_eq!(runs, 2, "{what}"),
                    Lost::Answer => assert!(runs == 1 || runs == 2 && answers_twice(&test), "{what}: {runs}"),
                }
                expected += 1;
                assert_eq!(n(&test, "orders", 10).await, expected, "{what}");
            }
        }
    }

    async fn lost_without_a_token_it_is_unknown<E: Engine>(test: TestDb) {
        let (proxy, db) = begin::<E>(&test, 1).await;
        for (lost, expected) in [(Lost::Request, 1000), (Lost::Answer, 1001)] {
            let runs = AtomicU32::new(0);
            proxy.cut_at(commit(&test), lost);
            let error = db.transaction(async |tx| {
                runs.fetch_add(1, Relaxed);
                let mut tx = tx.lock::<Order>([10]).await?;
                add(&mut tx, "orders", 10, 1).await
            }).await.unwrap_err();
            assert!(matches!(error, Error::CommitUnknown { .. }), "{error:?}");
            assert!(error.to_string().contains(".commit_token(true)"), "{error}");
            assert_eq!(runs.into_inner(), 1);
            until_quiet(&test).await;
            assert_eq!(n(&test, "orders", 10).await, expected, "{lost:?}");
        }
    }

    /// A statement that waits for a lock does not notice that its client has gone: its session is ended from another
    /// connection, or the next attempt would wait for its own ghost.
    async fn lost_while_it_waits_for_a_lock<E: Engine>(test: TestDb) {
        let (proxy, db) = begin::<E>(&test, 2).await;
        let mut blocker = test.session("blocker").await;
        blocker.run("begin").await;
        blocker.run("select n from inventories where id = 20 for update").await;
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let work = {
            let db = db.clone();
            tokio::spawn(async move {
                db.transaction(async |tx| {
                    let mut tx = tx.lock::<Order>([10]).await?;
                    add(&mut tx, "orders", 10, 1).await?;
                    tell.send(()).unwrap();
                    tx.lock::<Inventory>([20]).await.map(drop)
                })
                .await
            })
        };
        told.recv().await.unwrap();
        test.until_blocked(1).await;
        proxy.cut_all();
        let since = Instant::now();
        tokio::time::timeout(BOUND, told.recv()).await.expect("the ghost's locks are gone").unwrap();
        println!("{}: the next attempt had its lock {:?} after the line was lost", test.engine(), since.elapsed());
        blocker.run("rollback").await;
        work.await.unwrap().unwrap();
        assert_eq!(n(&test, "orders", 10).await, 1001);
        until_quiet(&test).await;
    }

    /// What the docs of `Kind::execute` claim.
    async fn an_autocommit_write_is_unknown_or_resolved<E: Engine>(test: TestDb) {
        let (proxy, db) = begin::<E>(&test, 1).await;
        let sql = marked(&test, "update orders set n = n + 1 where id = ?");
        for (lost, expected) in [(Lost::Request, 1000), (Lost::Answer, 1001)] {
            // Prepared first, so that what is lost is the run.
            proxy.cut_at(if test.family() == Family::Postgres { "update orders set n = n + 1" } else { "update orders" }, lost);
            let error = db.kind("one").execute(rowlock::query(sql).bind(10i64)).await.unwrap_err();
            assert!(matches!(error, Error::CommitUnknown { .. }), "{error:?}");
            until_quiet(&test).await;
            let n = n(&test, "orders", 10).await;
            assert!(n == expected || n == 1000, "{lost:?}: {n}");
        }
        let before = n(&test, "orders", 10).await;
        for lost in [Lost::Request, Lost::Answer] {
            proxy.cut_at(WITH_TOKEN, lost);
            db.kind("one").commit_token(true).execute(rowlock::query(sql).bind(10i64)).await.unwrap();
        }
        assert_eq!(n(&test, "orders", 10).await, before + 2);
    }
}
