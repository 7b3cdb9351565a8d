//! The ground that is measured on: one table, one order, one pool that both sides share, and its settings.

use std::time::Duration;

use anyhow::{Context, Result};
use rowlock::Db;
use rowlock_testing::{Connection, Engine, Family};
use sqlx::{Pool, pool::PoolOptions};

use crate::hand::Hand;

rowlock::lock_order! {
    pub(crate) order Ground {
        Item => "items" (id: i64),
    }
}

/// A row of it.
#[derive(Clone, Copy, Debug, sqlx::FromRow)]
pub(crate) struct Row {
    #[allow(dead_code, reason = "decoded because a service would")]
    pub(crate) id: i64,
    #[allow(dead_code, reason = "decoded because a service would")]
    pub(crate) n: i64,
}

/// How many rows the table has.
pub(crate) const ROWS: i64 = 10_000;

/// As many as a service has: for each of 16 clients one, and one on its way back to the pool.
pub(crate) const CONNECTIONS: u32 = 32;

/// An empty table of the right shape, filled, in the database at `url`.
pub(crate) async fn lay(engine: Engine, url: &str) -> Result<()> {
    let mut connection = Connection::open(engine, url).await?;
    let room = match engine.family() {
        // Room for a changed row beside the old one, as a table that is updated all the time wants it.
        Family::Postgres => " with (fillfactor = 50)",
        _ => "",
    };
    connection.run("drop table if exists items").await?;
    connection.run(&format!("create table items (id bigint not null primary key, n bigint not null){room}")).await?;
    for from in (1..=ROWS).step_by(1000) {
        let rows: Vec<String> = (from..from + 1000).map(|id| format!("({id}, 0)")).collect();
        connection.run(&format!("insert into items values {}", rows.join(", "))).await?;
    }
    if engine.family() == Family::Postgres {
        connection.run("vacuum analyze items").await?;
        // The default. The servers of tests have a tenth of it.
        connection.run("alter database postgres set deadlock_timeout = '1s'").await?;
    }
    connection.close().await?;
    Ok(())
}

/// Opens rowlock on a pool of its own, whose connections are set as a careful hand would set them too; the hand's side
/// runs on the same pool.
pub(crate) async fn open<E: Hand>(url: &str, pragmas: &'static str) -> Result<Db<E>> {
    let mut options = PoolOptions::<E>::new().max_connections(CONNECTIONS);
    if !pragmas.is_empty() {
        options = options.after_connect(move |connection, _| Box::pin(E::run(connection, pragmas)));
    }
    let builder = Db::builder(Ground).wait(Duration::from_secs(30));
    let server = url.parse().with_context(|| url.to_owned())?;
    builder.connect_with(options, server).await.with_context(|| format!("open {url}"))
}

/// A pool that is sqlx's own in everything but the settings of its connections, which are those that rowlock makes.
pub(crate) async fn plain_pool<E: Hand>(url: &str, pragmas: &'static str) -> Result<Pool<E>> {
    let options = PoolOptions::<E>::new().max_connections(CONNECTIONS).after_connect(move |connection, _| {
        Box::pin(async move {
            for settings in [pragmas, E::SETTINGS].into_iter().filter(|settings| !settings.is_empty()) {
                E::run(connection, settings).await?;
            }
            Ok(())
        })
    });
    options.connect(url).await.with_context(|| format!("open {url}"))
}
