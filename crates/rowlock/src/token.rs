//! The commit token: a row that a transaction writes with its COMMIT, by which a lost answer is resolved.
//!
//! ```text
//! INSERT token; COMMIT  -- connection lost --> on a new connection: INSERT the same token, as void
//!                                                duplicate key: it was committed; or the row is void:
//!                                                               an earlier question's, so it never was
//!                                                success:       it was not, and never will be: the token is taken
//!                                                waits:         the server has not decided yet
//! ```
//!
//! The answer to the question can be lost like any other. Were its row not marked, the next question would take it for
//! the transaction's own, and tell as committed what never was.
//!
//! A transaction id asked of the server (`pg_xact_status`) is not enough: one that was never flushed is given out again
//! after a crash. After a failover to a replica that lags, a token can be lost with its transaction; then both are gone.

use std::{sync::Arc, time::Duration};

use rowlock_footprint::Dialect;
use sqlx::{AssertSqlSafe, SqlSafeStr};
use uuid::Uuid;

use crate::{connection::Connection, db::Shared, engine::Engine, failure::Failure, options::Options};

/// How often, and how far apart, a lost answer is asked after. A server that restarts needs some seconds.
const TRIES: u32 = 20;
const APART: Duration = Duration::from_millis(250);

/// What became of a transaction whose answer was lost.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Committed,
    Never,
    Unknown,
}

/// Writes the token's row, as the transaction's own (0) or a question's (1).
pub(crate) fn insert_text(dialect: Dialect, token: Uuid, void: u8) -> String {
    format!("INSERT INTO rowlock_token (token, void) VALUES ({}, {void})", literal(dialect, token))
}

/// Whether the token's row is a question's (1) or the transaction's (0).
fn void_text(dialect: Dialect, token: Uuid) -> String {
    let integer = if dialect.is_innodb() { "SIGNED" } else { "bigint" };
    format!("SELECT CAST(void AS {integer}) FROM rowlock_token WHERE token = {}", literal(dialect, token))
}

fn literal(dialect: Dialect, token: Uuid) -> String {
    match dialect {
        Dialect::Postgres => format!("'{token}'"),
        _ => format!("x'{}'", token.simple()),
    }
}

/// Finds out.
pub(crate) async fn resolve<E: Engine>(shared: &Arc<Shared<E>>, token: Uuid) -> Outcome {
    let plain = Options::default();
    for round in 0..TRIES {
        if round > 0 {
            tokio::time::sleep(APART).await;
        }
        let asked = async {
            let mut connection = Connection::begin(shared, shared.pool.acquire().await?, &plain, None).await?;
            let insert = insert_text(shared.dialect, token, 1);
            match E::batch(connection.get(), AssertSqlSafe(insert).into_sql_str()).await {
                Ok(_) => {
                    // Only once this is committed can the lost transaction never be.
                    connection.commit(None).await?;
                    Ok(Outcome::Never)
                }
                Err(error) if Failure::of::<E>(shared.dialect, &error) == Failure::Duplicate => {
                    connection.rollback().await;
                    let mut connection = shared.pool.acquire().await?;
                    let void = AssertSqlSafe(void_text(shared.dialect, token)).into_sql_str();
                    Ok(match E::batch(&mut connection, void).await? {
                        Some(0) => Outcome::Committed,
                        Some(_) => Outcome::Never,
                        // Pruned in between: nobody asks so late.
                        None => Outcome::Unknown,
                    })
                }
                Err(error) => Err(error),
            }
        };
        match asked.await {
            Ok(outcome) => return outcome,
            Err::<_, sqlx::Error>(error) => {
                tracing::debug!(%error, round, "rowlock: could not ask after a commit yet");
            }
        }
    }
    Outcome::Unknown
}

/// The statement that drops tokens older than `age`: nobody asks after them any more.
pub(crate) fn prune_text(dialect: Dialect, age: Duration) -> String {
    let seconds = age.as_secs();
    match dialect {
        Dialect::Postgres => {
            format!("DELETE FROM rowlock_token WHERE made_at < now() - interval '{seconds} seconds'")
        }
        Dialect::MySql | Dialect::MariaDb => {
            format!("DELETE FROM rowlock_token WHERE made_at < CURRENT_TIMESTAMP - INTERVAL {seconds} SECOND")
        }
        Dialect::Sqlite => {
            format!("DELETE FROM rowlock_token WHERE made_at < datetime('now', '-{seconds} seconds')")
        }
    }
}
