//! What counts as held, and what may therefore be waited for: the corners.

mod support;

use std::time::Duration;

use rowlock::{Db, Engine, Error, Guard, KeyValue, Place, Reach, Result, Strength, Tx};
use rowlock_testing::{Family, TestDb, engines};
use sqlx::SqlSafeStr;
use support::{Account, Inventory, Order, open, open_with};

/// By a key that sqlx hides from the guard.
async fn add<E: Engine, L>(tx: &mut Tx<E, L>, table: &str, id: i64) -> Result<()> {
    let mut update = sqlx::QueryBuilder::<E>::new(format!("update {table} set n = n + 1 where id = "));
    update.push_bind(id);
    update.build().execute(tx).await?;
    Ok(())
}

async fn insert<E: Engine, L>(tx: &mut Tx<E, L>, ids: &[i64], then: &str) -> Result<()> {
    let mut insert = sqlx::QueryBuilder::<E>::new("insert into orders (id, n) ");
    insert.push_values(ids, |mut row, id| {
        row.push_bind(*id).push_bind(1i64);
    });
    insert.push(then);
    insert.build().execute(tx).await?;
    Ok(())
}

fn order(id: i64) -> Place {
    Place::row(0, KeyValue::Integer(id.into()))
}

/// The end of an upsert.
fn or_update(test: &TestDb) -> &'static str {
    match test.family() {
        Family::InnoDb => " on duplicate key update n = 5",
        _ => " on conflict (id) do update set n = 5",
    }
}

engines! {
    async fn a_savepoint_that_was_undone_stays_undone<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let result = db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([1]).await?;
            let first = tx.savepoint().await?;
            let undone = tx.savepoint().await?;
            let tx = tx.rollback_to(first).await?;
            let mut tx = tx.lock::<Inventory>([1]).await?;
            let _later = tx.savepoint().await?;
            tx.rollback_to(undone).await.map(drop)
        }).await;
        assert!(matches!(result, Err(Error::Savepoint { .. })), "{result:?}");
    }

    async fn a_released_savepoint_takes_those_after_it_along<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let result = db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([1]).await?;
            let outer = tx.savepoint().await?;
            let inner = tx.savepoint().await?;
            tx.release(outer).await?;
            tx.rollback_to(inner).await.map(drop)
        }).await;
        assert!(matches!(result, Err(Error::Savepoint { .. })), "{result:?}");
    }

    async fn a_creation_guard_is_no_row<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        db.transaction(async |tx| {
            let mut tx = tx.guard_creation::<Order>([500]).await?;
            add(&mut tx, "orders", 50).await?;
            assert_eq!(tx.held().reach(), Some(Reach::Resource(0)), "some order is held");
            Ok::<_, Error>(())
        }).await.unwrap();
    }

    async fn a_row_whose_creation_is_guarded_can_be_made_late<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let make = async |guarded: bool| db.transaction(async |tx| {
            let tx = if guarded { tx.guard_creation::<Order>([-5]).await? } else { tx.pass::<Order>() };
            let mut tx = tx.lock::<Order>([10]).await?;
            sqlx::query("insert into orders (id, n) values (-5, 1)").execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await;
        let error = make(false).await.unwrap_err();
        assert!(error.to_string().contains("guard_creation::<Order>"), "{error}");
        make(true).await.unwrap();
    }

    async fn rows_of_one_statement_are_made_in_key_order<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let make = async |ids: [i64; 2], guarded: bool, then: &str| db.transaction(async |tx| {
            let mut tx = if guarded { tx.guard_creation::<Order>(ids).await? } else { tx.pass::<Order>() };
            let values = ids.map(|id| format!("({id}, 1)")).join(", ");
            let sql = sqlx::AssertSqlSafe(format!("insert into orders (id, n) values {values}{then}"));
            sqlx::query(sql).execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await;
        for (ids, then) in [([700, 600], ""), ([900, 800], or_update(&test))] {
            let error = make(ids, false, then).await.unwrap_err();
            assert!(matches!(error, Error::OutOfOrder(_)), "{error:?}");
            assert!(error.to_string().contains("guard_creation::<Order>"), "no way out: {error}");
            make(ids, true, then).await.unwrap();
        }
        make([601, 701], false, "").await.unwrap();
        let bound = async |sql: &'static str, ids: [i64; 2]| db.transaction(async |mut tx| {
            rowlock::query(sql).bind(ids[0]).bind(ids[1]).execute(&mut tx).await
        }).await;
        let sql = match test.family() {
            Family::Postgres => "insert into orders (id, n) values ($1, 1), ($2, 1)",
            _ => "insert into orders (id, n) values (?, 1), (?, 1)",
        };
        assert!(matches!(bound(sql, [720, 620]).await, Err(Error::OutOfOrder(_))));
        bound(sql, [620, 720]).await.unwrap();
    }

    async fn guarded_rows_are_made_in_any_order_hidden_or_not<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let make = async |guarded: bool| db.transaction(async |tx| {
            let mut tx = if guarded { tx.guard_creation::<Order>([700, 600, 650]).await? } else { tx.pass::<Order>() };
            add(&mut tx, "inventories", 10).await?;
            insert(&mut tx, &[700], "").await?;
            sqlx::query("insert into orders (id, n) values (600, 1)").execute(&mut tx).await?;
            insert(&mut tx, &[650], "").await
        }).await;
        let error = make(false).await.unwrap_err();
        assert!(matches!(error, Error::OutOfOrder(_)), "{error:?}");
        make(true).await.unwrap();
    }

    async fn an_upsert_whose_keys_are_seen_passes<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        for id in [1, 600] {
            let sql = format!("insert into orders (id, n) values ({id}, 5){}", or_update(&test));
            let done = db.transaction(async |tx| {
                let mut tx = tx.pass::<Order>();
                sqlx::query(sqlx::AssertSqlSafe(sql.clone())).execute(&mut tx).await?;
                Ok::<_, Error>(())
            }).await;
            assert!(done.is_ok(), "{id}: {done:?}");
            assert_eq!(test.value(&format!("select n from orders where id = {id}")).await, "5");
        }
    }

    async fn an_upsert_whose_keys_are_hidden_passes_for_one_row<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        db.transaction(async |mut tx| insert(&mut tx, &[1], or_update(&test)).await).await.unwrap();
        db.transaction(async |mut tx| insert(&mut tx, &[700, 600], "").await).await.unwrap();
        let several = db.transaction(async |mut tx| insert(&mut tx, &[30, 20], or_update(&test)).await).await;
        assert!(several.as_ref().is_err_and(|e| e.to_string().contains("in no order")), "{several:?}");
    }

    async fn a_row_that_was_made_unseen_counts<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            insert(&mut tx, &[500], "").await?;
            assert_eq!(tx.held().reach(), Some(Reach::Resource(0)), "it may lie above order 10");
            add(&mut tx, "orders", 500).await
        }).await.unwrap();
    }

    async fn a_parent_below_the_row_that_a_statement_locks_is_refused<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        test.execute(match test.family() {
            Family::Sqlite => "alter table accounts add column order_id bigint references orders (id)",
            _ => "alter table accounts add column order_id bigint, add foreign key (order_id) references orders (id)",
        }).await;
        db.refresh().await.unwrap();
        let refer = async |first: bool| db.transaction(async |tx| {
            let mut tx = if first { tx.lock::<Order>([10]).key_share().await? } else { tx.pass::<Order>() };
            let mut update = sqlx::QueryBuilder::<E>::new("update accounts set order_id = ");
            update.push_bind(10i64).push(" where id = 5");
            update.build().execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await;
        let error = refer(false).await.unwrap_err();
        assert!(matches!(error, Error::OutOfOrder(_)), "{error:?}");
        refer(true).await.unwrap();
    }

    async fn a_bound_null_has_no_parent<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        test.execute(match test.family() {
            Family::Sqlite => "alter table accounts add column order_id bigint references orders (id)",
            _ => "alter table accounts add column order_id bigint, add foreign key (order_id) references orders (id)",
        }).await;
        db.refresh().await.unwrap();
        let sql = match test.family() {
            Family::Postgres => "insert into accounts (id, n, order_id) values ($1, 1, $2)",
            _ => "insert into accounts (id, n, order_id) values (?, 1, ?)",
        };
        let orders = db.transaction(async |tx| {
            let mut tx = tx.lock::<Inventory>([10]).await?;
            rowlock::query(sql).bind(500i64).bind(None::<i64>).execute(&mut tx).await?;
            Ok::<_, Error>(tx.held().places().filter(|(place, _)| place.rank == 0).count())
        }).await.unwrap();
        assert_eq!((orders, db.counts().late), (0, 0));
        // A parent is locked, and this one late.
        db.transaction(async |tx| {
            let mut tx = tx.lock::<Inventory>([10]).await?;
            rowlock::query(sql).bind(501i64).bind(Some(10i64)).execute(&mut tx).await?;
            assert!(tx.held().strength(&order(10)).is_some());
            Ok::<_, Error>(())
        }).await.unwrap();
        assert_eq!(db.counts().late, 1);
        let none = rowlock::query(match test.family() {
            Family::Postgres => "update orders set n = 0 where id = $1",
            _ => "update orders set n = 0 where id = ?",
        });
        assert_eq!(db.kind("none").execute(none.bind(None::<i64>)).await.unwrap(), 0);
    }

    async fn a_row_that_the_transaction_deleted_stays_held<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).update().await?;
            sqlx::query("delete from orders where id = 10").execute(&mut tx).await?;
            let tx = tx.lock::<Order>([10]).existing().await?;
            assert!(tx.held().strength(&order(10)).is_some(), "whoever wants that key waits for this transaction");
            Ok::<_, Error>(())
        }).await.unwrap();
    }

    async fn a_late_place_that_is_free_costs_one_statement<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let ids = db.transaction(async |tx| {
            let tx = tx.lock::<Account>([7]).await?;
            Ok::<_, Error>(tx.lock::<Account>([9, 2, 7]).keys().await?.1)
        }).await.unwrap();
        assert_eq!(ids, [2, 7, 9]);
        db.transaction(async |tx| tx.lock::<Account>([7]).await?.lock::<Account>([2]).await.map(drop)).await.unwrap();
        // BEGIN, a lock, the late place, what lies ahead, COMMIT; then the same with nothing ahead.
        let sqlite = test.family() == Family::Sqlite;
        assert_eq!(db.counts().statements, if sqlite { 4 + 4 } else { 5 + 4 });
    }

    async fn the_ends_of_a_transaction_are_refused_at_every_level<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        for guard in [Guard::Observe, Guard::Warn, Guard::Enforce] {
            let error = db.kind("own").guard(guard).transaction(async |mut tx| {
                sqlx::query("commit").execute(&mut tx).await?;
                Ok::<_, Error>(())
            }).await.unwrap_err();
            assert!(matches!(error, Error::Refused(_)), "{guard:?}: {error:?}");
        }
        // Alone, it would leave the pool's connection in a transaction.
        let begun = db.kind("alone").guard(Guard::Observe).execute(rowlock::query("begin")).await;
        assert!(matches!(begun, Err(Error::Refused(_))), "{begun:?}");
    }

    async fn no_limit_is_too_long<E: Engine>(test: TestDb) {
        let db: Db<E> = open_with(&test, |b| {
            b.wait(Duration::MAX).hold_limit(Duration::MAX).deadline(Duration::MAX).backoff(Duration::MAX).hold_budget(Duration::MAX)
        }).await;
        db.transaction(async |tx| tx.lock::<Order>([1]).wait(Duration::MAX).await.map(drop)).await.unwrap();
    }
}

engines! { postgres:
    /// COMMIT would wait for it, with all in hand that came after.
    async fn a_parent_that_is_checked_at_commit_is_locked_by_the_statement(test: TestDb) {
        let db: Db<sqlx::Postgres> = open(&test).await;
        test.execute(
            "create table links (id bigint primary key, order_id bigint references orders (id) deferrable initially deferred)",
        ).await;
        db.refresh().await.unwrap();
        let naive = test.schedule(
            "shop: begin
             other: begin
             shop: insert into links (id, order_id) values (500, 10)
             shop: update inventories set n = n - 1 where id = 20
             other: select * from orders where id = 10 for update
             other: update inventories set n = n - 1 where id = 20
             shop: commit",
        ).await;
        assert_eq!(naive.deadlocks().count(), 1, "{naive}");
        db.transaction(async |mut tx| {
            sqlx::query("insert into links (id, order_id) values (501, 10)").execute(&mut tx).await?;
            assert_eq!(test.held("orders", "id = 10").await, Some(Strength::KeyShare));
            Ok::<_, Error>(())
        }).await.unwrap();
        // BEGIN, the lock, the statement, COMMIT; and nothing more for a parent that is held.
        assert_eq!(db.counts().statements, 4);
        db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            sqlx::query("insert into links (id, order_id) values (502, 10)").execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await.unwrap();
        assert_eq!(db.counts().statements, 8);
    }

    async fn a_statement_that_could_not_be_prepared_commits_nothing(test: TestDb) {
        let db: Db<sqlx::Postgres> = open(&test).await;
        let result = db.transaction(async |mut tx| {
            add(&mut tx, "orders", 10).await?;
            // The server has given the transaction up, and answers COMMIT with ROLLBACK, which is no error to sqlx.
            let prepared = sqlx::Executor::prepare(&mut tx, "select * from nowhere".into_sql_str()).await;
            assert!(prepared.is_err());
            Ok::<_, Error>(())
        }).await;
        assert!(matches!(result, Err(Error::RolledBack { .. })), "{result:?}");
    }
}

engines! { innodb:
    async fn a_row_that_was_not_had_is_not_held<E: Engine>(test: TestDb) {
        let db: Db<E> = open_with(&test, |b| b.wait(Duration::from_millis(200))).await;
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("update orders set n = 0 where id = 5").await;
        db.transaction(async |mut tx| {
            let busy = sqlx::query("update orders set n = 1 where id in (4, 5)").execute(&mut tx).await;
            assert!(matches!(busy.map_err(Error::from), Err(Error::Busy { .. })));
            // 4 may be locked and 5 is not: neither is to be waited for once something above is held.
            assert_eq!((tx.held().strength(&order(5)), tx.held().reach()), (None, Some(Reach::Resource(0))));
            Ok::<_, Error>(())
        }).await.unwrap();
        holder.run("rollback").await;
    }

    /// It would commit what came before it.
    async fn a_change_of_the_schema_is_refused<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let error = db.transaction(async |mut tx| {
            add(&mut tx, "orders", 10).await?;
            sqlx::query("create table more (id int primary key)").execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await.unwrap_err();
        assert!(matches!(error, Error::Refused(_)), "{error:?}");
        assert_eq!(test.value("select n from orders where id = 10").await, "1000");
    }
}

engines! { servers:
    async fn a_rollback_to_a_savepoint_does_not_bring_back_an_abandoned_statement<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("update orders set n = 0 where id = 20").await;
        let result = db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10).await?;
            let blocked = async { test.until_blocked(1).await };
            tokio::select! { _ = add(&mut tx, "orders", 20) => panic!("the row is held"), _ = blocked => {} }
            let after = tx.savepoint().await?;
            tx.rollback_to(after).await.map(drop)
        }).await;
        assert!(matches!(result, Err(Error::RolledBack { .. })), "{result:?}");
        holder.run("rollback").await;
        assert_eq!(test.value("select n from orders where id = 10").await, "1000");
    }
}
