//! The other side: the same transactions as a careful hand would write them on plain sqlx.

use std::future::Future;
use std::time::{Duration, Instant};

use rand::Rng;
use rowlock::Engine;
use sqlx::{MySql, Pool, Postgres, Sqlite};

use crate::ground::Row;

/// How often a hand tries, as rowlock does.
pub(crate) const ATTEMPTS: u32 = 10;

/// The wait that rowlock makes between attempts, after the `again`-th that was ended.
pub(crate) async fn back_off(again: u32) {
    let bound = Duration::from_millis(5).saturating_mul(1 << again).min(Duration::from_secs(1));
    let share = rand::rng().random::<f64>();
    tokio::time::sleep(bound.mul_f64(share)).await;
}

/// An engine, with the texts that a hand would write for it.
pub(crate) trait Hand: Engine {
    /// What a hand sets each new connection to.
    const SETTINGS: &'static str;
    /// Changes one row by its key.
    const UPDATE: &'static str;

    /// Runs a text of settings.
    fn run(
        connection: &mut Self::Connection,
        sql: &'static str,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// BEGIN; for each row in the order given: SELECT .. FOR UPDATE, then UPDATE; an outside call that takes so long; COMMIT.
    /// How long the first row was locked.
    fn change_rows(
        pool: &Pool<Self>,
        ids: &[i64],
        outside: Duration,
    ) -> impl Future<Output = Result<Duration, sqlx::Error>> + Send;

    /// BEGIN; one SELECT .. FOR UPDATE a row, in the order given; COMMIT. How long the locking took.
    fn lock(pool: &Pool<Self>, ids: &[i64]) -> impl Future<Output = Result<Duration, sqlx::Error>> + Send;

    /// Subtracts 1 where so much is left, in one statement; how many rows it changed.
    fn subtract(pool: &Pool<Self>, id: i64) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// The same in a transaction with a ledger row, which comes first; no row is changed when the request is a repeat.
    fn subtract_once(
        pool: &Pool<Self>,
        request: String,
        id: i64,
    ) -> impl Future<Output = Result<u64, sqlx::Error>> + Send;

    /// Whether the server ended the transaction for a deadlock or a lock wait timeout.
    fn is_conflict(error: &sqlx::Error) -> bool {
        let code = rowlock_testing::code(error);
        matches!(code.as_deref(), Some("40P01" | "40001" | "55P03" | "1213" | "1205" | "1020" | "5" | "261" | "517"))
    }
}

macro_rules! by_hand {
    ($engine:ty, $settings:literal, $begin:literal, $lock:literal, $update:literal, $subtract:literal, $enter:literal) => {
        impl Hand for $engine {
            const SETTINGS: &'static str = $settings;
            const UPDATE: &'static str = $update;

            async fn run(connection: &mut Self::Connection, sql: &'static str) -> Result<(), sqlx::Error> {
                sqlx::raw_sql(sql).execute(connection).await.map(drop)
            }

            async fn change_rows(pool: &Pool<Self>, ids: &[i64], outside: Duration) -> Result<Duration, sqlx::Error> {
                let mut tx = pool.begin_with($begin).await?;
                let mut locked = None;
                for id in ids {
                    sqlx::query_as::<_, Row>($lock).bind(id).fetch_one(&mut *tx).await?;
                    locked.get_or_insert_with(Instant::now);
                    sqlx::query($update).bind(id).execute(&mut *tx).await?;
                }
                if outside > Duration::ZERO {
                    tokio::time::sleep(outside).await;
                }
                tx.commit().await?;
                Ok(locked.map_or(Duration::ZERO, |locked| locked.elapsed()))
            }

            async fn lock(pool: &Pool<Self>, ids: &[i64]) -> Result<Duration, sqlx::Error> {
                let mut tx = pool.begin_with($begin).await?;
                let began = Instant::now();
                for id in ids {
                    sqlx::query_as::<_, Row>($lock).bind(id).fetch_one(&mut *tx).await?;
                }
                let took = began.elapsed();
                tx.commit().await?;
                Ok(took)
            }

            async fn subtract(pool: &Pool<Self>, id: i64) -> Result<u64, sqlx::Error> {
                Ok(sqlx::query($subtract).bind(id).execute(pool).await?.rows_affected())
            }

            async fn subtract_once(pool: &Pool<Self>, request: String, id: i64) -> Result<u64, sqlx::Error> {
                let mut tx = pool.begin_with($begin).await?;
                let mut changed = sqlx::query($enter).bind(request).execute(&mut *tx).await?.rows_affected();
                if changed == 1 {
                    changed = sqlx::query($subtract).bind(id).execute(&mut *tx).await?.rows_affected();
                }
                tx.commit().await?;
                Ok(changed)
            }
        }
    };
}

by_hand!(
    Postgres,
    "SET lock_timeout = '30s'",
    "BEGIN",
    "SELECT * FROM items WHERE id = $1 FOR NO KEY UPDATE",
    "UPDATE items SET n = n + 1 WHERE id = $1",
    "UPDATE items SET n = n - 1 WHERE id = $1 AND n >= 1",
    "INSERT INTO item_ledger (request, place, quantity, outcome) VALUES ($1, 'items 1', 1, 0) ON CONFLICT DO NOTHING"
);
by_hand!(
    MySql,
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "BEGIN",
    "SELECT * FROM items WHERE id = ? FOR UPDATE",
    "UPDATE items SET n = n + 1 WHERE id = ?",
    "UPDATE items SET n = n - 1 WHERE id = ? AND n >= 1",
    "INSERT IGNORE INTO item_ledger (request, place, quantity, outcome) VALUES (?, 'items 1', 1, 0)"
);
by_hand!(
    Sqlite,
    "PRAGMA busy_timeout = 30000",
    "BEGIN IMMEDIATE",
    "SELECT * FROM items WHERE id = ?",
    "UPDATE items SET n = n + 1 WHERE id = ?",
    "UPDATE items SET n = n - 1 WHERE id = ? AND n >= 1",
    "INSERT OR IGNORE INTO item_ledger (request, place, quantity, outcome) VALUES (?, 'items 1', 1, 0)"
);
