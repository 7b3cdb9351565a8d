//! One schema, or database, for each tenant: one `Db` a tenant, of the same order, on a pool that has its names from the
//! start. And what would change names, or stay set, inside a transaction is refused.
#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

#[allow(dead_code, reason = "a part of it is used here")]
mod support;

use std::{str::FromStr, sync::Arc};

use rowlock::{Db, Engine, Error, Guard, Result};
use rowlock_testing::{Family, TestDb, engines};
use sqlx::{AssertSqlSafe, MySql, Postgres, mysql::MySqlConnectOptions, pool::PoolOptions, postgres::PgConnectOptions};
use support::{Account, Inventory, Order, Shop, tables};

/// Rows 1 to 5 of the three tables, with `n` = 1000, where `place` says.
async fn tables_at(test: &TestDb, place: &str) {
    for table in ["orders", "inventories", "accounts"] {
        let sql = format!(
            "create table {place}.{table} (id bigint not null primary key, n bigint not null);
             insert into {place}.{table} (id, n) values (1, 1000), (2, 1000), (3, 1000), (4, 1000), (5, 1000)"
        );
        test.execute(&sql).await;
    }
}

async fn sum(test: &TestDb, table: &str) -> i64 {
    test.value(&format!("select cast(sum(n) as char(20)) from {table}")).await.trim().parse().unwrap()
}

/// One of the tenants' transactions: rows locked by their keys, others late, plain statements, a new row.
async fn work<E: Engine>(db: &Db<E>, task: i64, round: i64, by: i64) -> Result<()> {
    let key = 1 + (task + round) % 5;
    let changed = |table: &str, key: i64| {
        sqlx::query::<E>(AssertSqlSafe(format!("update {table} set n = n + {by} where id = {key}")))
    };
    db.transaction(async |tx| {
        let mut tx = tx.lock::<Inventory>([key]).await?;
        changed("inventories", key).execute(&mut tx).await?;
        // Below what is held: locked without waiting, by rowlock's own statement, and changed by the author's.
        changed("orders", 6 - key).execute(&mut tx).await?;
        let tx = tx.guard_creation::<Account>([100 + key]).await?;
        let (mut tx, there) = tx.lock::<Account>([100 + key]).existing().fetch_all::<(i64, i64)>().await?;
        if there.is_empty() {
            sqlx::query::<E>(AssertSqlSafe(format!("insert into accounts (id, n) values ({}, 0)", 100 + key)))
                .execute(&mut tx)
                .await?;
        }
        Ok::<_, Error>(())
    })
    .await
}

/// Two tenants under load at once: each one's changes are in its own rows alone, and neither waits for the other.
async fn two_tenants<E: Engine>(test: &TestDb, places: [&str; 2], dbs: [Db<E>; 2]) {
    const TASKS: i64 = 4;
    const ROUNDS: i64 = 25;
    // A row that the other tenant does not have.
    test.execute(&format!("insert into {}.orders (id, n) values (77, 0)", places[1])).await;
    let [a, b] = dbs.map(Arc::new);
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        for (db, by) in [(a.clone(), 1), (b.clone(), 1000)] {
            tasks.spawn(async move {
                for round in 0..ROUNDS {
                    work(&db, task, round, by).await.unwrap_or_else(|error| panic!("{error}"));
                }
            });
        }
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    for (place, db, by) in [(places[0], &a, 1), (places[1], &b, 1000)] {
        for table in ["orders", "inventories"] {
            assert_eq!(sum(test, &format!("{place}.{table}")).await, 5000 + TASKS * ROUNDS * by, "{place}.{table}");
        }
        assert_eq!(sum(test, &format!("{place}.accounts")).await, 5000);
        assert_eq!(db.counts().deadlocks, 0, "{place}");
    }
    assert!(matches!(
        a.transaction(async |tx| tx.lock::<Order>([77]).await.map(drop)).await,
        Err(Error::Missing { .. })
    ));
    // One tenant's row, held, is not the other's.
    let waits = a.transaction(async |tx| {
        let _tx = tx.lock::<Order>([1]).await?;
        b.kind("other").nowait().transaction(async |tx| tx.lock::<Order>([1, 77]).await.map(drop)).await
    });
    waits.await.unwrap();
}

/// What changes the meaning of names inside a transaction, on each engine.
fn names(family: Family) -> &'static [&'static str] {
    match family {
        Family::Postgres => &[
            "set local search_path = b",
            "set search_path to b",
            "set schema 'b'",
            "select set_config('search_path', 'b', true)",
            "reset search_path",
            "reset all",
            "discard all",
            "set local role postgres",
            "set session authorization default",
        ],
        Family::InnoDb => &["use information_schema", "select 1; use information_schema"],
        Family::Sqlite => &["attach ':memory:' as b", "detach b"],
    }
}

/// What would stay with the connection.
fn lasting(family: Family) -> &'static [&'static str] {
    match family {
        Family::Postgres => {
            &["set statement_timeout = 5000", "select set_config('app.tenant', 'x', false)", "listen news"]
        }
        Family::InnoDb => {
            &["set sql_mode = ''", "set @a = 1, session sort_buffer_size = 100000", "set global max_connections = 500"]
        }
        Family::Sqlite => &["pragma foreign_keys = off", "pragma cache_size(5)"],
    }
}

/// What ends with the transaction, or hurts nobody.
fn passing(family: Family) -> &'static [&'static str] {
    match family {
        Family::Postgres => &["set local statement_timeout = 5000", "select set_config('app.tenant', 'x', true)"],
        Family::InnoDb => &["set @a = 1, @b = (1 + 2)"],
        Family::Sqlite => &["pragma user_version = 3", "pragma foreign_keys", "pragma defer_foreign_keys = on"],
    }
}

async fn send<E: Engine>(db: &Db<E>, guard: Guard, sql: &'static str) -> Result<()> {
    let kind = db.kind("sets").guard(guard);
    kind.transaction(async |mut tx| sqlx::raw_sql(sql).execute(&mut tx).await.map(drop).map_err(Error::from)).await
}

engines! {
    async fn what_changes_names_is_refused_at_every_level<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = Db::builder(Shop).open(test.pool_of::<E>(1).await).await.unwrap();
        for sql in names(test.family()) {
            for guard in [Guard::Observe, Guard::Warn, Guard::Enforce] {
                let before = db.counts().statements;
                let error = send(&db, guard, sql).await.unwrap_err();
                assert!(matches!(error, Error::Refused(_)) && error.to_string().contains("one `Db`"), "{sql}: {error:?}");
                // BEGIN, and nothing after it.
                assert!(db.counts().statements - before <= 1, "{sql}");
            }
        }
    }

    async fn what_would_stay_set_is_refused_with_the_way_out<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = Db::builder(Shop).open(test.pool_of::<E>(1).await).await.unwrap();
        for sql in lasting(test.family()) {
            let error = send(&db, Guard::Enforce, sql).await.unwrap_err();
            assert!(matches!(error, Error::Refused(_)) && error.to_string().contains("`after_connect`"), "{sql}: {error:?}");
        }
        for sql in passing(test.family()) {
            send(&db, Guard::Enforce, sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
}

engines! { postgres:
    async fn a_schema_for_each_tenant(test: TestDb) {
        let places = ["tenant_a", "tenant_b"];
        for place in places {
            test.execute(&format!("create schema {place}")).await;
            tables_at(&test, place).await;
        }
        // Tables of these names in `public` are nobody's.
        tables_at(&test, "public").await;
        let open = async |place: &str| {
            let options = PgConnectOptions::from_str(test.url()).unwrap().options([("search_path", place)]);
            let pool = PoolOptions::<Postgres>::new().max_connections(6).connect_with(options).await.unwrap();
            Db::builder(Shop).open(pool).await.unwrap()
        };
        let dbs = [open(places[0]).await, open(places[1]).await];
        two_tenants(&test, places, dbs).await;
        assert_eq!(sum(&test, "public.orders").await, 5000);
    }
}

engines! { innodb:
    async fn a_database_for_each_tenant(test: TestDb) {
        let names = [format!("{}_a", test.name()), format!("{}_b", test.name())];
        let places = [names[0].as_str(), names[1].as_str()];
        for place in places {
            test.execute(&format!("create database {place}")).await;
            tables_at(&test, place).await;
        }
        let open = async |place: &str| {
            let options = MySqlConnectOptions::from_str(test.url()).unwrap().database(place);
            let pool = PoolOptions::<MySql>::new().max_connections(6).connect_with(options).await.unwrap();
            let db = Db::builder(Shop).open(pool).await.unwrap();
            db.install().await.unwrap();
            db
        };
        let dbs = [open(places[0]).await, open(places[1]).await];
        two_tenants(&test, places, dbs).await;
        for place in places {
            test.execute(&format!("drop database {place}")).await;
        }
    }
}
