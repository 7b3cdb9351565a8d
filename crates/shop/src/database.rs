//! The database behind a URL: which engine it is, how its connections are set up, and the shop on it.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use axum::Router;
use rowlock::{Db, Gate};
use sqlx::mysql::MySqlConnectOptions;
use sqlx::pool::PoolOptions;
use sqlx::postgres::PgConnectOptions;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{Connection, MySql, Pool, Postgres, Sqlite};

use crate::api;
use crate::flash::NewFlashOrder;
use crate::invariant::Report;
use crate::load::Strategy;
use crate::locks::{Inventory, ShopOrder};
use crate::order::Order;
use crate::settings::Settings;
use crate::shop::Shop;
use crate::stats::Stats;
use crate::store::Store;
use crate::webhook::Signer;

/// How long a request waits for a connection before it is turned away.
const ACQUIRE: Duration = Duration::from_secs(5);

/// How many requests wait for items, whichever they are, before others are turned away.
const AT_ITEMS: usize = 1000;
/// How many requests wait for one item: what 64 wait for is sold out, or takes seconds.
const AT_ONE_ITEM: usize = 64;

/// Where the data is.
#[derive(Clone, Debug)]
pub enum Database {
    /// A PostgreSQL server.
    Postgres(String),
    /// A MySQL or MariaDB server.
    MySql(String),
    /// An SQLite file.
    Sqlite(Box<SqliteConnectOptions>),
}

impl Database {
    /// From what the settings say; without a URL, an SQLite file in the data directory.
    pub fn of(settings: &Settings) -> Result<Self> {
        let Some(url) = &settings.database else {
            let file = settings.data.join("shop.sqlite");
            return Ok(Self::Sqlite(Box::new(SqliteConnectOptions::new().filename(file))));
        };
        let (scheme, _) = url.split_once(':').with_context(|| format!("--database: `{url}` is not a URL"))?;
        Ok(match scheme {
            "postgres" | "postgresql" => Self::Postgres(url.clone()),
            "mysql" | "mariadb" => Self::MySql(url.clone()),
            "sqlite" => Self::Sqlite(Box::new(url.parse().context("--database")?)),
            other => bail!("--database: `{other}` is no engine that the shop knows: postgres, mysql, mariadb, sqlite"),
        })
    }

    /// Where it is, for people: no password.
    pub fn place(&self) -> String {
        match self {
            Self::Postgres(url) | Self::MySql(url) => match (url.find("://"), url.rfind('@')) {
                (Some(scheme), Some(at)) => format!("{}://{}", &url[..scheme], &url[at + 1..]),
                _ => url.clone(),
            },
            Self::Sqlite(options) => {
                let file = options.get_filename();
                std::path::absolute(file).unwrap_or_else(|_| file.to_owned()).display().to_string()
            }
        }
    }
}

/// The shop on whichever engine the URL names.
pub enum AnyShop {
    /// On PostgreSQL.
    Postgres(Shop<Postgres>),
    /// On MySQL or MariaDB.
    MySql(Shop<MySql>),
    /// On SQLite.
    Sqlite(Shop<Sqlite>),
}

/// The same for the shop of each engine.
macro_rules! each {
    ($any:expr, $shop:ident => $do:expr) => {
        match $any {
            AnyShop::Postgres($shop) => $do,
            AnyShop::MySql($shop) => $do,
            AnyShop::Sqlite($shop) => $do,
        }
    };
}

impl AnyShop {
    /// Connects, brings the tables up to date, and opens the shop.
    pub async fn open(settings: &Settings) -> Result<Self> {
        Ok(match Database::of(settings)? {
            Database::Postgres(url) => {
                let options: PgConnectOptions = url.parse().context("--database")?;
                Self::Postgres(open(settings, options).await?)
            }
            Database::MySql(url) => {
                let options: MySqlConnectOptions = url.parse().context("--database")?;
                Self::MySql(open(settings, options).await?)
            }
            Database::Sqlite(options) => Self::Sqlite(open(settings, sqlite(*options, settings)?).await?),
        })
    }

    /// The API on it.
    pub fn router(&self, signer: Arc<Signer>) -> Router {
        each!(self, shop => api::router(shop.clone(), signer))
    }

    /// See [`Shop::expire`].
    pub async fn expire(&self, before: i64, limit: i64) -> crate::Result<Vec<i64>> {
        each!(self, shop => shop.expire(before, limit).await)
    }

    /// See [`Shop::settle`].
    pub async fn settle(&self) -> crate::Result<usize> {
        each!(self, shop => shop.settle().await)
    }

    /// See [`Shop::buy`].
    pub async fn buy(&self, item: i64, key: &str, new: NewFlashOrder) -> crate::Result<Order> {
        each!(self, shop => shop.buy(item, key, new).await)
    }

    /// See [`Shop::buy_by`].
    pub async fn buy_by(&self, strategy: Strategy, item: i64, new: NewFlashOrder) -> crate::Result<Order> {
        each!(self, shop => shop.buy_by(strategy, item, new).await)
    }

    /// See [`Shop::check`].
    pub async fn check(&self) -> crate::Result<Report> {
        each!(self, shop => shop.check().await)
    }

    /// See [`Shop::stats`].
    pub fn stats(&self) -> Stats {
        each!(self, shop => shop.stats())
    }

    /// See [`Shop::close`].
    pub async fn close(&self) {
        each!(self, shop => shop.close().await);
    }
}

async fn open<E: Store>(settings: &Settings, options: <E::Connection as Connection>::Options) -> Result<Shop<E>> {
    let pool = connect::<E>(options.clone(), if settings.naive { settings.connections } else { 1 }).await?;
    E::migrate(&pool).await.context("cannot bring the tables up to date")?;
    if settings.naive {
        return Ok(Shop::naive(pool));
    }
    pool.close().await;
    let wait = Duration::from_millis(settings.lock_wait_ms);
    let mut builder = Db::builder(ShopOrder).wait(wait);
    if !E::ONE_WRITER {
        // A hot item's buyers leave connections to everything else. (The one writer's queue is its connection's.)
        let all = settings.connections as usize;
        let gate = Gate::new((all - all / 4).max(1), AT_ITEMS).each_row((all / 2).max(1), AT_ONE_ITEM);
        builder = builder.gate::<Inventory>(gate);
    }
    // Where the database has one writer, transactions queue for its connection, first come first served. With a
    // connection each they would poll the file for it, at long intervals and in no order.
    let writers = if E::ONE_WRITER { 1 } else { settings.connections };
    let db = builder.connect_with(pool_of(writers), options.clone()).await?;
    // For the commit tokens of what must not be done twice.
    db.install().await.context("cannot make rowlock's own tables")?;
    let pool = if E::ONE_WRITER { connect::<E>(options, settings.connections).await? } else { db.pool().clone() };
    Shop::ordered(db, pool).await.context("cannot open the flash sales")
}

fn pool_of<E: Store>(connections: u32) -> PoolOptions<E> {
    PoolOptions::new().max_connections(connections).acquire_timeout(ACQUIRE)
}

async fn connect<E: Store>(options: <E::Connection as Connection>::Options, connections: u32) -> Result<Pool<E>> {
    let pool = pool_of(connections).connect_with(options).await;
    pool.with_context(|| format!("cannot connect to the {} database", E::NAME))
}

fn sqlite(options: SqliteConnectOptions, settings: &Settings) -> Result<SqliteConnectOptions> {
    if let Some(directory) = options.get_filename().parent().filter(|path| !path.as_os_str().is_empty()) {
        std::fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    }
    Ok(options
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // What was answered survives a power cut too, as on the servers.
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_millis(settings.lock_wait_ms))
        .foreign_keys(true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_not_shown() {
        let database = Database::Postgres("postgres://me:s@cret@host:5432/shop".to_owned());
        assert_eq!(database.place(), "postgres://host:5432/shop");
    }
}
