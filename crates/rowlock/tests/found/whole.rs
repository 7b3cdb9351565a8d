//! `UnknownKeys::WholeResource`: a statement that may lock any row of a resource.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering::Relaxed},
};

use rowlock::{Db, Engine, Error, UnknownKeys};
use rowlock_testing::{Family, TestDb, engines};
use sqlx::AssertSqlSafe;

use crate::support::{Account, Inventory, Shop};

const ROWS: i64 = 40;
const TASKS: i64 = 8;
const ROUNDS: i64 = 30;

/// InnoDB scans by the primary key, PostgreSQL as the rows lie: here both begin at the last.
fn all(family: Family) -> &'static str {
    match family {
        Family::InnoDb => "update inventories set n = n + 1 where n >= 0 order by id desc limit 1000",
        _ => "update inventories set n = n + 1 where n >= 0",
    }
}

async fn tables(test: &TestDb) {
    for table in ["orders", "inventories", "accounts"] {
        test.execute(&format!("create table {table} (id bigint not null primary key, n bigint not null)")).await;
        for id in (1..=ROWS).rev() {
            test.execute(&format!("insert into {table} (id, n) values ({id}, 0)")).await;
        }
    }
}

async fn open<E: Engine>(test: &TestDb) -> Db<E> {
    tables(test).await;
    Db::builder(Shop).open(test.pool_of::<E>(20).await).await.unwrap()
}

async fn number(test: &TestDb, sql: &str) -> i64 {
    test.value(&format!("select cast(({sql}) as char(20))")).await.trim().parse().unwrap()
}

engines! { servers:
    async fn by_itself_it_deadlocks_and_by_rowlock_it_does_not<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let [mut ordered, mut naive] = test.sessions(["ordered", "naive"]).await;
        ordered.run("begin").await;
        ordered.run("select n from inventories where id = 1 for update").await;
        naive.start(all(test.family()));
        naive.assert_blocked_by(&ordered).await;
        // In the order, and yet: one of the two is the victim.
        ordered.start("select n from inventories where id = 2 for update");
        let outcome = ordered.outcome().await;
        ordered.step("rollback").await;
        assert!(naive.outcome().await.is_deadlock() || outcome.is_deadlock(), "naively: {outcome}");

        let mut ordered = test.session("ordered").await;
        ordered.run("begin").await;
        ordered.run("select n from inventories where id = 1 for update").await;
        let task = tokio::spawn({
            let (db, sql) = (db.clone(), all(test.family()));
            async move {
                let kind = db.kind("all").unknown_keys(UnknownKeys::WholeResource);
                kind.transaction(async |mut tx| {
                    let done = sqlx::query(sql).execute(&mut tx).await.map_err(Error::from)?;
                    Ok::<_, Error>(E::rows_affected(&done))
                }).await
            }
        });
        test.until_blocked(1).await;
        ordered.run("select n from inventories where id = 2 for update").await;
        ordered.run("commit").await;
        assert_eq!(task.await.unwrap().unwrap(), ROWS.unsigned_abs());
        assert_eq!(db.counts().deadlocks, 0);
    }

    /// Where some of it is held already, or is below what is held, it is mended, too.
    async fn held_rows_and_late_ones_are_no_reason_to_refuse<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let mut other = test.session("other").await;
        other.run("begin").await;
        other.run("update inventories set n = 100 where id = 3").await;
        let runs = Arc::new(AtomicI64::new(0));
        let task = tokio::spawn({
            let (db, runs, sql) = (db.clone(), runs.clone(), all(test.family()));
            async move {
                let kind = db.kind("all").unknown_keys(UnknownKeys::WholeResource);
                kind.transaction(async |tx| {
                    runs.fetch_add(1, Relaxed);
                    let tx = tx.lock::<Inventory>([20]).await?;
                    let mut tx = tx.lock::<Account>([1]).await?;
                    sqlx::query(sql).execute(&mut tx).await.map_err(Error::from)?;
                    Ok::<_, Error>(())
                }).await
            }
        });
        // The second attempt, which has all of it up front, waits for it.
        test.until_blocked(1).await;
        other.run("commit").await;
        task.await.unwrap().unwrap();
        assert_eq!((runs.load(Relaxed), number(&test, "select sum(n) from inventories").await), (2, ROWS + 100));
    }
}

engines! {
    /// Against transactions that lock in order, and rows that come and go.
    async fn under_load_nothing_deadlocks_and_nothing_is_lost<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let (bulk, single) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            let (db, bulk, single, sql) = (db.clone(), bulk.clone(), single.clone(), all(test.family()));
            tasks.spawn(async move {
                for round in 0..ROUNDS {
                    let done = match task {
                        0..4 => {
                            let kind = db.kind("all").unknown_keys(UnknownKeys::WholeResource);
                            let done = kind.transaction(async |mut tx| {
                                sqlx::query(sql).execute(&mut tx).await.map_err(Error::from)?;
                                tx.lock::<Account>([1 + round]).await.map(drop)
                            }).await;
                            bulk.fetch_add(1, Relaxed);
                            done
                        }
                        4..6 => {
                            let done = db.kind("ordered").transaction(async |tx| {
                                let mut tx = tx.lock::<Inventory>((1..=ROWS).step_by(3)).await?;
                                for id in (1..=ROWS).step_by(3) {
                                    let one = format!("update inventories set n = n + 1 where id = {id}");
                                    sqlx::query::<E>(AssertSqlSafe(one)).execute(&mut tx).await?;
                                }
                                Ok::<_, Error>(())
                            }).await;
                            single.fetch_add((1..=ROWS).step_by(3).count().try_into().unwrap(), Relaxed);
                            done
                        }
                        _ => come_and_go(&db, 100 * task + round).await,
                    };
                    done.unwrap_or_else(|error| panic!("{error}"));
                }
            });
        }
        while let Some(done) = tasks.join_next().await {
            done.unwrap();
        }
        let counts = db.counts();
        let expected = bulk.load(Relaxed) * ROWS + single.load(Relaxed);
        assert_eq!(number(&test, "select sum(n) from inventories where id <= 40").await, expected);
        assert_eq!(number(&test, "select count(*) from inventories").await, ROWS);
        // MySQL has no limit on waits below a second: what came after the last look it may have to wait for.
        let allowed = if test.engine() == rowlock_testing::Engine::MySql { 2 } else { 0 };
        assert!(counts.deadlocks <= allowed, "{counts:?}");
    }
}

/// A row is made, locked beside others, and deleted.
async fn come_and_go<E: Engine>(db: &Db<E>, id: i64) -> Result<(), Error> {
    let make = format!("insert into inventories (id, n) values ({id}, 0)");
    db.transaction(async |mut tx| {
        sqlx::query::<E>(AssertSqlSafe(&*make)).execute(&mut tx).await.map(drop).map_err(Error::from)
    })
    .await?;
    db.transaction(async |tx| {
        let mut tx = tx.lock::<Inventory>([5, 6, id]).await?;
        let gone = format!("delete from inventories where id = {id}");
        sqlx::query::<E>(AssertSqlSafe(gone)).execute(&mut tx).await?;
        Ok(())
    })
    .await
}
