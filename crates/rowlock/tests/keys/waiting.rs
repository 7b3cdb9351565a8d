//! What must not wait, or not for ever, and rows that are found by a condition while others come in.

use std::time::{Duration, Instant};

use rowlock::{Db, Engine, Error, Guard, Late};
use rowlock_testing::{TestDb, engines};

use crate::ground::{self, Number, no_fault_was_traced};

rowlock::lock_order! { order Jobs { Job => "by_newtype" (id: Number) } }

async fn open<E: Engine>(test: &TestDb) -> Db<E> {
    ground::table(test, "by_newtype", &(1..=9).map(Number).collect::<Vec<_>>()).await;
    // Two connections: one that is lost would be missed.
    Db::builder(Jobs).open(test.pool_of::<E>(2).await).await.unwrap_or_else(|error| panic!("{error}"))
}

fn numbers(keys: &[Number]) -> Vec<i64> {
    keys.iter().map(|key| key.0).collect()
}

engines! { postgres:
    /// FOR KEY SHARE goes with the change of the row, and then waits for FOR UPDATE on its new version, whatever it says.
    async fn a_key_share_that_must_not_wait_does_not_behind_a_changed_row(test: TestDb) {
        let db: Db<sqlx::Postgres> = open(&test).await;
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("update by_newtype set n = n + 1 where id = 5").await;
        holder.run("select * from by_newtype where id = 5 for update").await;
        for naive in ["skip locked", "nowait"] {
            let mut naively = test.session("naively").await;
            let sql = format!("select * from by_newtype where id = 5 for key share {naive}");
            assert!(naively.step(&sql).await.is_blocked(), "{naive}: the server has learned it");
        }
        let free = db.transaction(async |tx| {
            let (tx, keys) = tx.lock::<Job>([4, 5, 6].map(Number)).key_share().skip_locked().keys().await?;
            let place = rowlock::Place::row(0, rowlock::KeyValue::Integer(4));
            assert_eq!(tx.held().strength(&place), Some(rowlock::Strength::Share), "what was sent counts as held");
            Ok::<_, Error>(keys)
        }).await.unwrap();
        assert_eq!(numbers(&free), [4, 6]);
        let busy = db.transaction(async |tx| tx.lock::<Job>([5].map(Number)).key_share().nowait().await.map(drop)).await;
        assert!(matches!(busy, Err(Error::Busy { waited: None, .. })), "{busy:?}");
        holder.run("rollback").await;
    }

    /// The row is made, and taken, while the statement waits for another: it is not in the result, and is busy.
    async fn a_row_that_came_in_busy_is_late<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let run = async |late: Late, restarts: u32, guard: Guard| {
            let [mut first, mut second] = test.sessions(["first", "second"]).await;
            first.run("begin").await;
            first.run("select * from by_newtype where id = 5 for update").await;
            let kind = db.kind("both").late(late).restarts(restarts).guard(guard);
            let work = kind.transaction(async |tx| Ok::<_, Error>(tx.lock::<Job>([5, 20].map(Number)).keys().await?.1));
            let meanwhile = async {
                test.until_blocked(1).await;
                second.run("insert into by_newtype (id) values (20)").await;
                second.run("begin").await;
                second.run("select * from by_newtype where id = 20 for update").await;
                first.run("commit").await;
                // Refused, it does not wait; restarted or waited for, it does.
                if late == Late::Restart || guard < Guard::Enforce {
                    test.until_blocked(1).await;
                    second.run("commit").await;
                }
            };
            let before = db.counts().restarts;
            let (done, ()) = tokio::join!(work, meanwhile);
            drop(second);
            test.execute("delete from by_newtype where id = 20").await;
            (done.map(|keys| numbers(&keys)), db.counts().restarts - before)
        };
        let (done, restarts) = run(Late::Restart, 10, Guard::Enforce).await;
        assert_eq!((done.unwrap(), restarts), (vec![5, 20], 1));
        // The stated fallback: waited for, as a late place is.
        let (done, restarts) = run(Late::Restart, 0, Guard::Enforce).await;
        assert_eq!((done.unwrap(), restarts), (vec![5, 20], 0));
        let (done, restarts) = run(Late::Restart, 10, Guard::Observe).await;
        assert_eq!((done.unwrap(), restarts), (vec![5, 20], 0));
        let (refused, restarts) = run(Late::Refuse, 10, Guard::Enforce).await;
        assert!(matches!(refused, Err(Error::OutOfOrder(_))) && restarts == 0, "{refused:?} {restarts}");
    }
}

engines! { servers:
    async fn nowait_is_busy_at_once<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("select * from by_newtype where id = 5 for update").await;
        for _ in 0..5 {
            let error = db
                .transaction(async |tx| tx.lock::<Job>([6, 5, 4].map(Number)).nowait().await.map(drop))
                .await
                .unwrap_err();
            assert!(matches!(&error, Error::Busy { waited: None, .. }), "{error:?}");
            assert!(error.is_busy());
        }
        // Nothing stays locked behind it, and the connections are good.
        assert_eq!(test.held("by_newtype", "id = 4").await, None);
        db.transaction(async |tx| tx.lock::<Job>([6, 4].map(Number)).nowait().await.map(drop)).await.unwrap();
        assert_eq!(db.counts().busy, 5);
    }

    async fn locked_rows_are_left_out<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("select * from by_newtype where id = 5 for update").await;
        let (keys, held) = db
            .transaction(async |tx| {
                let (tx, keys) = tx.lock::<Job>([7, 6, 5, 4, 20].map(Number)).skip_locked().keys().await?;
                Ok::<_, Error>((keys, tx.held().len()))
            })
            .await
            .unwrap();
        assert_eq!((numbers(&keys), held), (vec![4, 6, 7], 3));
        no_fault_was_traced();
    }

    async fn a_wait_ends_at_its_limit<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("select * from by_newtype where id = 5 for update").await;
        let limit = Duration::from_millis(300);
        for _ in 0..3 {
            let began = Instant::now();
            let error = db
                .transaction(async |tx| tx.lock::<Job>([4, 5].map(Number)).wait(limit).await.map(drop))
                .await
                .unwrap_err();
            let Error::Busy { waited: Some(waited), .. } = &error else { panic!("{error:?}") };
            assert!(*waited >= limit - Duration::from_millis(50), "{waited:?}");
            // The client's limit, not the server's, which is whole seconds on InnoDB and for each row on PostgreSQL.
            assert!(began.elapsed() < limit + Duration::from_secs(3), "{:?}", began.elapsed());
            assert!(test.waits().await.is_empty(), "the statement was cancelled at the server");
            assert_eq!(test.held("by_newtype", "id = 4").await, None);
        }
        holder.run("rollback").await;
        // More transactions than connections, on the same two.
        for _ in 0..4 {
            db.transaction(async |tx| tx.lock::<Job>([4, 5].map(Number)).await.map(drop)).await.unwrap();
        }
        assert_eq!((db.counts().busy, db.counts().deadlocks), (3, 0));
    }

    async fn rows_that_come_in_while_it_waits_are_locked_too<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        test.execute("update by_newtype set n = 1 where id in (3, 5, 7)").await;
        let [mut holder, mut other] = test.sessions(["holder", "other"]).await;
        holder.run("begin").await;
        holder.run("select * from by_newtype where id = 5 for update").await;
        let locks = db.transaction(async |tx| {
            let (tx, keys) = tx.lock_where::<Job>("n = 1").keys().await?;
            Ok::<_, Error>((keys, tx.held().len()))
        });
        let change = async {
            test.until_blocked(1).await;
            // Below, between and above what is locked already; and one that no longer meets the condition.
            other.run("insert into by_newtype (id, n) values (-1, 1), (40, 1)").await;
            other.run("update by_newtype set n = 1 where id = 4").await;
            other.run("update by_newtype set n = 0 where id = 7").await;
            holder.run("rollback").await;
        };
        let (keys, held) = tokio::join!(locks, change).0.unwrap();
        assert_eq!(numbers(&keys), [-1, 3, 4, 5, 40]);
        assert_eq!(held, 6, "and the one that went out stays locked");
        assert_eq!(db.counts().deadlocks, 0);
    }
}
