//! The tables that both ways work on.

use rowlock::{Db, Engine};
use rowlock_testing::TestDb;

rowlock::lock_order! {
    pub(crate) order Shop {
        Order     => "orders"      (id: i64),
        Inventory => "inventories" (id: i64),
        Line      => "order_lines" (id: i64),
    }
}

#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub(crate) struct Row {
    pub(crate) id: i64,
    pub(crate) n: i64,
}

/// Makes the tables. The rows of `inventories` lie in the table from 105 down, against the order of their keys.
pub(crate) async fn tables(test: &TestDb) {
    for table in ["orders", "inventories"] {
        test.execute(&format!("create table {table} (id bigint not null primary key, n bigint not null)")).await;
    }
    test.execute(
        "create table order_lines (id bigint not null primary key, item bigint not null, n bigint not null,
         foreign key (item) references inventories (id))",
    )
    .await;
    test.execute("insert into orders (id, n) values (10, 0), (11, 0)").await;
    test.execute("insert into inventories (id, n) values (105, 100), (70, 100), (42, 100), (30, 100), (20, 100)").await;
}

/// The tables, opened with the order.
pub(crate) async fn open<E: Engine>(test: &TestDb) -> Db<E> {
    open_of(test, 5).await
}

/// The same, with so many connections.
pub(crate) async fn open_of<E: Engine>(test: &TestDb, connections: u32) -> Db<E> {
    tables(test).await;
    let pool = test.pool_of::<E>(connections).await;
    let db = Db::builder(Shop).open(pool).await.unwrap_or_else(|error| panic!("{error}"));
    db.install().await.unwrap_or_else(|error| panic!("{error}"));
    db
}
