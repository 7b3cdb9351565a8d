//! Test support for rowlock: throw-away database servers, a database for each test, a schedule driver, and faults.

mod engine;
pub mod server;

pub use engine::{Engine, Family};

use anyhow::Result;
use sqlx::Connection;

/// What the server at `url` calls itself.
pub async fn version(engine: Engine, url: &str) -> Result<String> {
    Ok(match engine.family() {
        Family::Postgres => {
            let mut connection = sqlx::PgConnection::connect(url).await?;
            sqlx::query_scalar("show server_version").persistent(false).fetch_one(&mut connection).await?
        }
        Family::InnoDb => {
            let mut connection = sqlx::MySqlConnection::connect(url).await?;
            sqlx::query_scalar("select version()").fetch_one(&mut connection).await?
        }
        Family::Sqlite => {
            let mut connection = sqlx::SqliteConnection::connect(url).await?;
            sqlx::query_scalar("select sqlite_version()").fetch_one(&mut connection).await?
        }
    })
}
