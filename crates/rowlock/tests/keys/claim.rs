//! Rows that a condition finds, busy ones passed over: so many that are free, and no other row locked for it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rowlock::{Before, Db, Engine, Error, Resource, Start};
use rowlock_testing::{Family, TestDb, engines};

use crate::ground::{ByBytes, ByFour, ByMixed, ByNewtype, ByPair, ByText, ByTextIcu, ByUuid, Number, ROWS, open};

/// Two workers take their shares while the other holds his; what they leave is free for a third.
async fn shared_out<E: Engine, R: Resource>(test: &TestDb, db: &Db<E>, table: &str)
where
    Start: Before<R>,
{
    // A second index, by which a scan would find them.
    test.execute(&format!("create index {table}_n on {table} (n)")).await;
    let done = db
        .transaction(async |tx| {
            let (_held, first) = tx.lock_where::<R>("n = 0").limit(3).skip_locked().keys().await?;
            let rest = db
                .transaction(async |tx| {
                    let (_held, second) = tx.lock_where::<R>("n = 0").limit(4).skip_locked().keys().await?;
                    let third = db
                        .transaction(async |tx| {
                            let (tx, third) = tx.lock_where::<R>("n = 0").skip_locked().keys().await?;
                            assert_eq!(tx.held().len(), third.len(), "what is had is held");
                            Ok::<_, Error>(third.len())
                        })
                        .await?;
                    Ok::<_, Error>((second.len(), third))
                })
                .await?;
            Ok::<_, Error>((first.len(), rest))
        })
        .await
        .unwrap_or_else(|error| panic!("{table}: {error}"));
    assert_eq!(done, (3, (4, ROWS as usize - 7)), "{table}");
    assert_eq!(db.counts().busy, 0);
}

engines! { servers:
    async fn what_is_busy_is_passed_over<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        shared_out::<E, ByNewtype>(&test, &db, "by_newtype").await;
        shared_out::<E, ByUuid>(&test, &db, "by_uuid").await;
        shared_out::<E, ByText>(&test, &db, "by_text").await;
        shared_out::<E, ByTextIcu>(&test, &db, "by_text_icu").await;
        shared_out::<E, ByBytes>(&test, &db, "by_bytes").await;
        shared_out::<E, ByPair>(&test, &db, "by_pair").await;
        shared_out::<E, ByMixed>(&test, &db, "by_mixed").await;
        shared_out::<E, ByFour>(&test, &db, "by_four").await;
    }

    /// Six hundred busy ones lie before it. The naive way, keys first and then those of them that are free, has nothing.
    async fn the_limit_counts_free_rows<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let mut holder = test.session("holder").await;
        if test.family() == Family::InnoDb {
            // Else the gap behind them, and with it 600, is locked too.
            holder.run("set session transaction isolation level read committed").await;
        }
        holder.run("begin").await;
        holder.run("select * from by_newtype where id < 600 for update").await;
        let before = db.counts().statements;
        let keys = db.transaction(async |tx| {
            let (tx, keys) = tx.lock_where::<ByNewtype>("n = 0").limit(2).skip_locked().keys().await?;
            assert_eq!(tx.held().len(), 2);
            Ok::<_, Error>(keys.iter().map(|key| key.0).collect::<Vec<_>>())
        }).await.unwrap();
        assert_eq!(keys, [600, 601]);
        // BEGIN, COMMIT, and between them one; or two for each 500 that are looked at.
        assert_eq!(db.counts().statements - before, if test.family() == Family::InnoDb { 6 } else { 3 });
        let naive = db.transaction(async |tx| {
            let first = (0..2).map(Number);
            Ok::<_, Error>(tx.lock::<ByNewtype>(first).skip_locked().keys().await?.1.len())
        }).await.unwrap();
        assert_eq!(naive, 0);
    }
}

engines! {
    async fn each_job_is_taken_once<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let work = async |taken: &AtomicU64| {
            loop {
                let had = db.transaction(async |tx| {
                    let (mut tx, jobs) = tx.lock_where::<ByNewtype>("n = 0").limit(50).skip_locked().keys().await?;
                    for job in &jobs {
                        let sql = format!("update by_newtype set n = n + 1 where id = {}", job.0);
                        sqlx::query(sqlx::AssertSqlSafe(sql)).execute(&mut tx).await?;
                    }
                    Ok::<_, Error>(jobs.len() as u64)
                }).await.unwrap_or_else(|error| panic!("{error}"));
                if had == 0 && test.value("select count(*) from by_newtype where n = 0").await == "0" {
                    break;
                }
                taken.fetch_add(had, Relaxed);
            }
        };
        let taken = AtomicU64::new(0);
        tokio::join!(work(&taken), work(&taken), work(&taken));
        assert_eq!(taken.load(Relaxed), ROWS as u64);
        assert_eq!(test.value("select max(n) from by_newtype").await, "1");
        assert_eq!((db.counts().deadlocks, db.counts().restarts), (0, 0));
    }
}
