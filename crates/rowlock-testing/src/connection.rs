//! A plain connection to any of the engines, and what a statement answered, as text.

use anyhow::{Context, Result};
use futures_util::StreamExt;
use sqlx::mysql::MySqlDatabaseError;
use sqlx::{AssertSqlSafe, Connection as _, Either, MySqlConnection, PgConnection, Row, SqliteConnection};

use crate::{Engine, Family};

/// A connection without pool, transaction or retry of its own: what it is told is what the server hears.
#[derive(Debug)]
pub enum Connection {
    /// To PostgreSQL.
    Postgres(PgConnection),
    /// To MySQL or MariaDB.
    MySql(MySqlConnection),
    /// To SQLite.
    Sqlite(SqliteConnection),
}

/// What a statement gave.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The rows, every value as the server writes it; NULL is `None`.
    pub rows: Vec<Vec<Option<String>>>,
    /// How many rows it changed (or, on PostgreSQL, returned).
    pub affected: u64,
}

impl Answer {
    /// The first value of the first row.
    pub fn value(&self) -> Option<&str> {
        self.rows.first()?.first()?.as_deref()
    }
}

/// Runs a query in the simple protocol, where every value comes as text whatever its type.
macro_rules! answer {
    ($connection:expr, $sql:expr) => {{
        let mut answer = Answer::default();
        let mut stream = sqlx::raw_sql(AssertSqlSafe($sql.to_owned())).fetch_many($connection);
        while let Some(item) = stream.next().await {
            match item? {
                Either::Left(done) => answer.affected += done.rows_affected(),
                Either::Right(row) => {
                    let values = (0..row.len()).map(|column| row.try_get_unchecked::<Option<String>, _>(column));
                    answer.rows.push(values.collect::<Result<_, _>>()?);
                }
            }
        }
        Ok(answer)
    }};
}

impl Connection {
    /// Connects to the database at `url`.
    pub async fn open(engine: Engine, url: &str) -> Result<Connection> {
        let connection = match engine.family() {
            Family::Postgres => PgConnection::connect(url).await.map(Connection::Postgres),
            Family::InnoDb => MySqlConnection::connect(url).await.map(Connection::MySql),
            Family::Sqlite => SqliteConnection::connect(url).await.map(Connection::Sqlite),
        };
        connection.with_context(|| format!("connect to {engine} at {url}"))
    }

    /// Sends the text as it is (several statements may stand in it) and returns what it gave.
    pub async fn run(&mut self, sql: &str) -> Result<Answer, sqlx::Error> {
        match self {
            Connection::Postgres(connection) => answer!(connection, sql),
            Connection::MySql(connection) => answer!(connection, sql),
            Connection::Sqlite(connection) => answer!(connection, sql),
        }
    }

    /// Says goodbye to the server.
    pub async fn close(self) -> Result<(), sqlx::Error> {
        match self {
            Connection::Postgres(connection) => connection.close().await,
            Connection::MySql(connection) => connection.close().await,
            Connection::Sqlite(connection) => connection.close().await,
        }
    }
}

/// The engine's own code of an error: SQLSTATE on PostgreSQL, the number on MySQL, MariaDB and SQLite.
pub fn code(error: &sqlx::Error) -> Option<String> {
    let error = error.as_database_error()?;
    match error.try_downcast_ref::<MySqlDatabaseError>() {
        Some(error) => Some(error.number().to_string()),
        None => error.code().map(|code| code.into_owned()),
    }
}

/// What the server at `url` calls itself.
pub async fn version(engine: Engine, url: &str) -> Result<String> {
    if engine == Engine::PgBouncer
        && let Some((server, _)) = url.rsplit_once('/')
        && let Ok(version) = ask(engine, &format!("{server}/pgbouncer"), "show version").await
    {
        // Its console, a database of that name, is open to administrators only; what is behind it answers to everybody.
        return Ok(version);
    }
    let query = match engine.family() {
        Family::Postgres => "show server_version",
        Family::InnoDb => "select version()",
        Family::Sqlite => "select sqlite_version()",
    };
    ask(engine, url, query).await
}

async fn ask(engine: Engine, url: &str, query: &str) -> Result<String> {
    let mut connection = Connection::open(engine, url).await?;
    let answer = connection.run(query).await?;
    connection.close().await?;
    answer.value().map(str::to_owned).with_context(|| format!("{url} does not answer `{query}`"))
}
