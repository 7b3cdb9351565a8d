//! Faults: futures dropped, sessions killed, answers lost, limits reached, rules broken, schemas changed. After each,
//! nothing is left locked, nothing is half done and nothing is done twice.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests say what they expect by failing, and what they measured"
)]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "these tests open databases of their own")]
mod support;

mod cancel;
mod change;
mod columns;
mod commit;
mod copy;
mod creation;
mod guard;
mod idle;
mod isolation;
mod kill;
mod limits;
mod log;
mod mistakes;
mod pooler;
mod schema_change;
mod server;
mod shutdown;
mod singles;
mod strangers;
mod writer;

use rowlock::{Builder, Db, Engine, Result, Tx};
use rowlock_testing::{Family, TestDb};
use sqlx::pool::PoolOptions;

use support::{Shop, tables};

/// A database on the tables that are there, by a pool of `connections` to `url`.
pub(crate) async fn open_at<E: Engine>(
    url: &str,
    connections: u32,
    set: impl FnOnce(Builder<E>) -> Builder<E>,
) -> Db<E> {
    let pool = PoolOptions::<E>::new().max_connections(connections).connect(url).await;
    let pool = pool.unwrap_or_else(|error| panic!("{error}"));
    let db = set(Db::builder(Shop)).open(pool).await.unwrap_or_else(|error| panic!("{error}"));
    db.install().await.unwrap_or_else(|error| panic!("{error}"));
    db
}

/// A database on fresh tables with one connection: what a transaction leaves behind, the next one meets.
pub(crate) async fn open_single<E: Engine>(test: &TestDb) -> Db<E> {
    tables(test).await;
    open_at(test.url(), 1, |builder| builder).await
}

/// `n = n + by` in one row.
pub(crate) async fn add<E: Engine, L>(tx: &mut Tx<E, L>, table: &str, id: i64, by: i64) -> Result<()> {
    let mut update = sqlx::QueryBuilder::<E>::new(format!("update {table} set n = n + "));
    update.push_bind(by).push(" where id = ").push_bind(id);
    update.build().execute(tx).await?;
    Ok(())
}

/// The value of one row, as others see it.
pub(crate) async fn n(test: &TestDb, table: &str, id: i64) -> i64 {
    let value = test.value(&format!("select n from {table} where id = {id}")).await;
    value.parse().unwrap_or_else(|error| panic!("{value}: {error}"))
}

/// The text with the engine's placeholders for `?`.
pub(crate) fn marked(test: &TestDb, sql: &'static str) -> &'static str {
    if test.family() != Family::Postgres {
        return sql;
    }
    let mut count = 0;
    let mut text = String::with_capacity(sql.len() + 8);
    for c in sql.chars() {
        if c == '?' {
            count += 1;
            text.push_str(&format!("${count}"));
        } else {
            text.push(c);
        }
    }
    text.leak()
}
