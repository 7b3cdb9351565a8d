//! The other side: the same transactions as a careful hand would write them on plain sqlx.

use std::future::Future;
use std::time::{Duration, Instant};

use rowlock::Engine;
use sqlx::{MySql, Pool, Postgres, Sqlite};

use crate::ground::Row;

/// An engine, with the texts that a hand would write for it.
pub(crate) trait Hand: Engine {
    /// Changes one row by its key.
    const UPDATE: &'static str;

    /// Runs a text of settings.
    fn run(
        connection: &mut Self::Connection,
        sql: &'static str,
    ) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// BEGIN; for each row in the order given: SELECT .. FOR UPDATE, then UPDATE; COMMIT.
    fn change(pool: &Pool<Self>, ids: &[i64]) -> impl Future<Output = Result<(), sqlx::Error>> + Send;

    /// BEGIN; one SELECT .. FOR UPDATE a row, in the order given; COMMIT. How long the locking took.
    fn lock(pool: &Pool<Self>, ids: &[i64]) -> impl Future<Output = Result<Duration, sqlx::Error>> + Send;

    /// Whether the server ended the transaction for a deadlock or a lock wait timeout.
    fn is_conflict(error: &sqlx::Error) -> bool {
        let code = rowlock_testing::code(error);
        matches!(code.as_deref(), Some("40P01" | "40001" | "55P03" | "1213" | "1205" | "1020" | "5" | "261" | "517"))
    }
}

macro_rules! by_hand {
    ($engine:ty, $begin:literal, $lock:literal, $update:literal) => {
        impl Hand for $engine {
            const UPDATE: &'static str = $update;

            async fn run(connection: &mut Self::Connection, sql: &'static str) -> Result<(), sqlx::Error> {
                sqlx::raw_sql(sql).execute(connection).await.map(drop)
            }

            async fn change(pool: &Pool<Self>, ids: &[i64]) -> Result<(), sqlx::Error> {
                let mut tx = pool.begin_with($begin).await?;
                for id in ids {
                    sqlx::query_as::<_, Row>($lock).bind(id).fetch_one(&mut *tx).await?;
                    sqlx::query($update).bind(id).execute(&mut *tx).await?;
                }
                tx.commit().await
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
        }
    };
}

by_hand!(
    Postgres,
    "BEGIN",
    "SELECT * FROM items WHERE id = $1 FOR NO KEY UPDATE",
    "UPDATE items SET n = n + 1 WHERE id = $1"
);
by_hand!(MySql, "BEGIN", "SELECT * FROM items WHERE id = ? FOR UPDATE", "UPDATE items SET n = n + 1 WHERE id = ?");
by_hand!(Sqlite, "BEGIN IMMEDIATE", "SELECT * FROM items WHERE id = ?", "UPDATE items SET n = n + 1 WHERE id = ?");
