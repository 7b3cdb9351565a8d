//! The order system that the tests lock in: its order, its tables, and a database opened on them.

use rowlock::{Builder, Db, Engine};
use rowlock_testing::TestDb;

rowlock::lock_order! {
    pub(crate) order Shop {
        Order     => "orders"      (id: i64),
        Inventory => "inventories" (id: i64),
        Account   => "accounts"    (id: i64),
    }
}

/// A row of any of the three.
#[allow(dead_code, reason = "each test file uses a part of this")]
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) n: i64,
}

/// Makes the tables, with rows 1 to 100 in each, `n` = 1000.
pub(crate) async fn tables(test: &TestDb) {
    for table in ["orders", "inventories", "accounts"] {
        test.execute(&format!(
            "create table {table} (id bigint not null primary key, n bigint not null, code bigint unique)"
        ))
        .await;
        let rows: Vec<String> = (1..=100).map(|id| format!("({id}, 1000, null)")).collect();
        test.execute(&format!("insert into {table} (id, n, code) values {}", rows.join(", "))).await;
    }
}

/// A database on fresh tables, with `set` applied to its builder.
pub(crate) async fn open_with<E: Engine>(test: &TestDb, set: impl FnOnce(Builder<E>) -> Builder<E>) -> Db<E> {
    tables(test).await;
    let pool = test.pool_of::<E>(20).await;
    let db = set(Db::builder(Shop)).open(pool).await.unwrap_or_else(|error| panic!("{error}"));
    db.install().await.unwrap_or_else(|error| panic!("{error}"));
    db
}

/// A database on fresh tables.
pub(crate) async fn open<E: Engine>(test: &TestDb) -> Db<E> {
    open_with(test, |builder| builder).await
}
