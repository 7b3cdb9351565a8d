//! What a transaction does, on every engine: locking, missing rows, late places, retries, and what it sends.

mod support;

use rowlock::{Before, Db, Engine, Error, Result, Tx};
use rowlock_testing::{TestDb, engines};
use support::{Account, Inventory, Order, Row, open};

async fn add<E: Engine, L>(tx: &mut Tx<E, L>, table: &str, id: i64, by: i64) -> Result<()> {
    let mut update = sqlx::QueryBuilder::<E>::new(format!("update {table} set n = n + "));
    update.push_bind(by).push(" where id = ").push_bind(id);
    update.build().execute(tx).await?;
    Ok(())
}

async fn reserve<E: Engine, L: Before<Inventory>>(tx: Tx<E, L>, items: &[i64]) -> Result<Tx<E, Inventory>> {
    let (mut tx, rows) = tx.lock::<Inventory>(items).fetch_all::<Row>().await?;
    for row in rows {
        add(&mut tx, "inventories", row.id, -1).await?;
    }
    Ok(tx)
}

engines! {
    async fn an_order_goes_through_its_helpers<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let rows = db.transaction(async |tx| {
            let (mut tx, order) = tx.lock::<Order>([10]).fetch_one::<Row>().await?;
            assert_eq!(order, Row { id: 10, n: 1000 });
            add(&mut tx, "orders", 10, 1).await?;
            let tx = reserve(tx, &[30, 20, 30]).await?;
            let (tx, accounts) = tx.lock::<Account>(Some(7)).fetch_all::<Row>().await?;
            assert_eq!(tx.held().len(), 4);
            Ok::<_, Error>(accounts)
        }).await.unwrap();
        assert_eq!(rows, [Row { id: 7, n: 1000 }]);
        assert_eq!(test.value("select sum(n) from inventories").await, "99998");
        assert_eq!(test.value("select n from orders where id = 10").await, "1001");
        // BEGIN, three locks, three updates, COMMIT: what a careful hand would send.
        assert_eq!(db.counts().statements, 8);
        assert_eq!(db.counts().committed, 1);
    }

    async fn rows_come_in_key_order<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let keys: Vec<i64> = (1..=100).rev().chain([5, 5]).collect();
        let rows = db.transaction(async |tx| Ok::<_, Error>(tx.lock::<Order>(&keys).fetch_all::<Row>().await?.1)).await.unwrap();
        assert_eq!(rows.iter().map(|r| r.id).collect::<Vec<_>>(), (1..=100).collect::<Vec<i64>>());
        assert_eq!(db.counts().statements, 3);
    }

    async fn missing_rows_are_named<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let error = db.transaction(async |tx| tx.lock::<Order>([10, 999, 11, 998]).await.map(drop)).await.unwrap_err();
        assert!(matches!(error, Error::Missing { .. }));
        assert!(error.to_string().contains("no row of `Order` with key 998, 999"), "{error}");
        let keys = db.transaction(async |tx| Ok::<_, Error>(tx.lock::<Order>([999, 11, 10]).existing().keys().await?.1)).await.unwrap();
        assert_eq!(keys, [10, 11]);
    }

    async fn the_closures_own_error_rolls_back_and_never_retries<E: Engine>(test: TestDb) {
        #[derive(Debug)]
        enum Mine { No, Db }
        impl From<Error> for Mine { fn from(_: Error) -> Self { Mine::Db } }
        let db: Db<E> = open(&test).await;
        let runs = std::sync::atomic::AtomicU32::new(0);
        let result: Result<(), Mine> = db.transaction(async |tx| {
            runs.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            Err(Mine::No)
        }).await;
        assert!(matches!(result, Err(Mine::No)));
        assert_eq!(runs.into_inner(), 1);
        assert_eq!(test.value("select n from orders where id = 10").await, "1000");
    }

    async fn a_late_place_is_taken_when_it_is_free<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        db.transaction(async |tx| {
            let tx = tx.lock::<Account>([7]).await?;
            let mut tx = tx.lock::<Account>([2]).await?;
            add(&mut tx, "accounts", 2, 1).await
        }).await.unwrap();
        assert_eq!((db.counts().late, db.counts().restarts), (1, 0));
    }

    async fn statements_out_of_order_are_seen<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        // Case 4 of practice: a helper in order, called after an UPDATE out of order. The key is literal, so that the
        // late row can be had without waiting.
        db.transaction(async |tx| {
            let mut tx = tx.pass::<Order>();
            sqlx::query("update accounts set n = n - 1 where id = 3").execute(&mut tx).await?;
            reserve(tx, &[20]).await.map(drop)
        }).await.unwrap();
        assert_eq!(db.counts().late, 1);
        // Rows that nobody knows before it runs are refused.
        let error = db.transaction(async |mut tx| {
            sqlx::query("update orders set n = 0 where n > 5").execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await.unwrap_err();
        assert!(error.to_string().contains("lock_where::<Order>"), "{error}");
        // A bound key that plain sqlx hides, of a resource below what is held.
        let error = db.transaction(async |tx| {
            let mut tx = tx.lock::<Account>([3]).await?;
            add(&mut tx, "orders", 10, 1).await
        }).await.unwrap_err();
        assert!(matches!(error, Error::OutOfOrder(_)), "{error:?}");
        assert!(error.to_string().contains("a row of `Order`"), "{error}");
        // Shown by rowlock's own query it can be mended.
        let sql = if test.family() == rowlock_testing::Family::Postgres { "update orders set n = n + 1 where id = $1" } else { "update orders set n = n + 1 where id = ?" };
        let changed = db.transaction(async |tx| {
            let mut tx = tx.lock::<Account>([3]).await?;
            rowlock::query(sql).bind(10i64).execute(&mut tx).await
        }).await.unwrap();
        assert_eq!(changed, 1);
    }

    async fn lock_where_looks_again_under_the_locks<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let condition = if test.family() == rowlock_testing::Family::Postgres { "id <= $1 and n > 0" } else { "id <= ? and n > 0" };
        let (rows, held) = db.transaction(async |tx| {
            let (tx, rows) = tx.lock_where::<Order>(condition).bind(3i64).fetch_all::<Row>().await?;
            Ok::<_, Error>((rows.len(), tx.held().len()))
        }).await.unwrap();
        assert_eq!((rows, held), (3, 3));
    }

    async fn a_savepoint_undoes_a_part<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            let before = tx.savepoint().await?;
            let mut tx = tx.lock::<Inventory>([20]).await?;
            add(&mut tx, "inventories", 20, 5).await?;
            let failed = sqlx::query("insert into orders (id, n) values (10, 1)").execute(&mut tx).await;
            assert!(failed.is_err());
            let mut tx = tx.rollback_to(before).await?;
            add(&mut tx, "orders", 10, 1).await
        }).await.unwrap();
        assert_eq!(test.value("select n from inventories where id = 20").await, "1000");
        assert_eq!(test.value("select n from orders where id = 10").await, "1001");
    }

    async fn rows_are_made_whatever_other_unique_keys_they_have<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).update().await?;
            rowlock::query("insert into orders (id, n, code) values (500, 1, 7)").execute(&mut tx).await?;
            rowlock::query("insert into orders (id, n, code) values (501, 1, 6)").execute(&mut tx).await?;
            rowlock::query("update orders set code = 8 where id = 10").execute(&mut tx).await
        }).await.unwrap();
        assert_eq!(test.value("select sum(code) from orders").await, "21");
        assert_eq!((db.counts().late, db.counts().violations), (0, 0));
    }

    async fn upserts_are_held_to_the_order_whether_the_row_is_there_or_not<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let upsert = |id: i64| {
            let on = if test.family() == rowlock_testing::Family::InnoDb {
                "on duplicate key update n = 7"
            } else {
                "on conflict (id) do update set n = 7"
            };
            rowlock::query(sqlx::AssertSqlSafe(format!("insert into orders (id, n) values ({id}, 7) {on}")))
        };
        // There, below what is held: taken without waiting. Not there, above: made.
        db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([20]).await?;
            upsert(20).execute(&mut tx).await?;
            upsert(10).execute(&mut tx).await?;
            upsert(901).execute(&mut tx).await
        }).await.unwrap();
        assert_eq!(test.value("select count(*) from orders where n = 7").await, "3");
        assert_eq!((db.counts().late, db.counts().violations), (1, 0));
        // Not there, below what is held: another transaction may be making it, and may wait for what is held here.
        let error = db.transaction(async |mut tx| {
            upsert(903).execute(&mut tx).await?;
            upsert(902).execute(&mut tx).await
        }).await.unwrap_err();
        assert!(matches!(error, Error::OutOfOrder(_)), "{error:?}");
    }

    async fn creation_is_guarded<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        db.transaction(async |tx| {
            let tx = tx.guard_creation::<Order>([500, 400]).await?;
            let (mut tx, there) = tx.lock::<Order>([500]).existing().keys().await?;
            assert!(there.is_empty());
            sqlx::query("insert into orders (id, n) values (500, 1)").execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await.unwrap();
        assert_eq!(test.value("select count(*) from orders where id = 500").await, "1");
    }

    async fn each_item_has_a_transaction_of_its_own<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let mut through = 0;
        let report = db.kind("expire").for_each([1i64, 999, 2], |n| through = n, async |tx, id| {
            let mut tx = tx.lock::<Order>([id]).await?;
            add(&mut tx, "orders", id, 1).await
        }).await;
        assert_eq!((report.done.len(), report.failed.len(), through), (2, 1, 3));
        assert!(report.to_string().contains("999: expire: no row of `Order`"), "{report}");
    }

    async fn a_commit_token_is_written_with_the_commit<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        db.kind("paid").commit_token(true).transaction(async |tx| tx.lock::<Order>([1]).await.map(drop)).await.unwrap();
        assert_eq!(test.value("select count(*) from rowlock_token").await, "1");
        assert_eq!(db.counts().statements, 3);
    }

    async fn one_statement_is_one_trip<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let (one, two) = if test.family() == rowlock_testing::Family::Postgres {
            ("update orders set n = n + 1 where id = $1", "update orders set n = n + 1 where id in ($1, $2)")
        } else {
            ("update orders set n = n + 1 where id = ?", "update orders set n = n + 1 where id in (?, ?)")
        };
        assert_eq!(db.kind("one").execute(rowlock::query(one).bind(10i64)).await.unwrap(), 1);
        assert_eq!(db.counts().statements, 1);
        // Two rows have no order in one statement: BEGIN, a lock in order, the statement, COMMIT.
        assert_eq!(db.kind("two").execute(rowlock::query(two).bind(30i64).bind(20i64)).await.unwrap(), 2);
        assert_eq!(db.counts().statements, 5);
        assert_eq!(db.kind("token").commit_token(true).execute(rowlock::query(one).bind(10i64)).await.unwrap(), 1);
        assert_eq!(test.value("select n from orders where id = 10").await, "1002");
    }
}

engines! { postgres:
    async fn a_bound_array_shows_its_keys(test: TestDb) {
        let db: Db<sqlx::Postgres> = open(&test).await;
        let sql = "update orders set n = n + 1 where id = any($1)";
        // Three rows in no order: locked first, in order.
        let changed = db.transaction(async |mut tx| {
            let changed = rowlock::query(sql).bind(vec![30i64, 10, 20]).execute(&mut tx).await?;
            assert_eq!(tx.held().len(), 3);
            Ok::<_, Error>(changed)
        }).await.unwrap();
        assert_eq!((changed, db.counts().statements), (3, 4));
        // The same through plain sqlx: several rows by keys that it hides.
        let error = db.transaction(async |mut tx| {
            sqlx::query(sql).bind(vec![30i64, 10]).execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await.unwrap_err();
        assert!(error.to_string().contains("several rows of `Order` in no order"), "{error}");
        let locked = db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10, 30]).await?;
            sqlx::query(sql).bind(vec![30i64, 10]).execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await;
        assert!(locked.is_ok(), "{locked:?}");
    }
}

engines! { servers:
    async fn a_statement_that_is_given_up_takes_its_transaction_with_it<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("update inventories set n = 0 where id = 20").await;
        let result = db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            // The author's own timeout, instead of `.wait(..)`: the Tx is dropped with the future, and `Ok` is returned.
            let lock = tx.lock::<Inventory>([20]).into_future();
            let blocked = async { test.until_blocked(1).await };
            tokio::select! { _ = lock => panic!("the row is held"), _ = blocked => Ok::<_, Error>(()) }
        }).await;
        assert!(matches!(&result, Err(Error::RolledBack { .. })), "{result:?}");
        // The session is ended at the server, so that its row is free although the holder still holds.
        let free = db.kind("again").transaction(async |tx| tx.lock::<Order>([10]).await.map(drop)).await;
        assert!(free.is_ok(), "{free:?}");
        assert_eq!(test.value("select n from orders where id = 10").await, "1000");
        holder.run("rollback").await;
    }
}
