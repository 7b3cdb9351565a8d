//! The ground on which the code of `docs/guide` runs: a shop of a few tables in a fresh SQLite database, so that a block
//! of the guide shows what it is about and still runs.

use crate::{Engine, TestDb};

/// The tables of the guide, with some rows.
const TABLES: &str = "
    create table orders (id integer primary key not null, status text not null default 'open', account integer not null);
    create table inventories (id integer primary key not null, stock integer not null);
    create table accounts (id integer primary key not null, balance integer not null);
    create table order_lines (
        order_id integer not null references orders (id),
        line integer not null,
        item integer not null references inventories (id),
        quantity integer not null,
        primary key (order_id, line)
    );
    create table users (email text primary key not null, name text not null);
    insert into orders (id, account) values (10, 7), (11, 8), (12, 9);
    insert into inventories values (20, 100), (30, 100);
    insert into accounts values (7, 1000), (8, 1000), (9, 1000);";

/// A fresh database with the guide's tables.
pub async fn tables() -> TestDb {
    let db = crate::database(Engine::Sqlite).await;
    db.execute(TABLES).await;
    db
}

/// Runs a block of the guide: `guide! { db => block }`. The order `Shop`, its row types, and the aliases that the guide's
/// first page makes are there, and `db` is opened on a fresh database.
#[macro_export]
macro_rules! guide {
    ($db:ident => $($block:tt)*) => {
        #[allow(unused_imports, reason = "a page uses a part of this")]
        use ::rowlock::{Before, Result, Start};
        ::rowlock::lock_order! {
            pub order Shop {
                Order     => "orders"      (id: i64),
                Inventory => "inventories" (id: i64),
                Account   => "accounts"    (id: i64),
                Line      => "order_lines" (order_id: i64, line: i32),
                User      => "users"       (email: String),
            }
        }
        #[allow(dead_code, reason = "a page uses a part of this")]
        #[derive(Debug, ::sqlx::FromRow)]
        struct OrderRow { id: i64, status: String, account: i64 }
        #[allow(dead_code, reason = "a page uses a part of this")]
        #[derive(Debug, ::sqlx::FromRow)]
        struct Stock { id: i64, stock: i64 }
        #[allow(dead_code, reason = "a page uses a part of this")]
        #[derive(Debug, ::sqlx::FromRow)]
        struct AccountRow { id: i64, balance: i64 }
        #[allow(dead_code, reason = "a page uses a part of this")]
        type Db = ::rowlock::Db<::sqlx::Sqlite>;
        #[allow(dead_code, reason = "a page uses a part of this")]
        type Tx<L> = ::rowlock::Tx<::sqlx::Sqlite, L>;

        let run = async {
            let test = $crate::guide::tables().await;
            let $db: Db = ::rowlock::Db::builder(Shop).open(test.pool().await).await?;
            $db.install().await?;
            $($block)*
            Ok::<(), Box<dyn ::std::error::Error>>(())
        };
        let runtime = ::tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        runtime.block_on(run).unwrap();
    };
}
