//! What the shop needs of an engine, so that everything above is written once for all of them.
//!
//! `rowlock::Engine` brings what transactions need, and the bounds on integers and text. Added here: the engine's words,
//! and plain statements outside of rowlock, for reads on a pooled connection and for the naive ways.

use futures_util::future::BoxFuture;
use rowlock::Engine;
use sqlx::migrate::Migrator;
use sqlx::{Database, FromRow, MySql, Pool, Postgres, Sqlite};

/// A statement with its values, of one engine.
pub type Query<'q, E> = sqlx::query::Query<'q, E, <E as Database>::Arguments>;

/// An engine that the shop runs on.
pub trait Store: Engine {
    /// Whether placeholders are `$1` (else `?`).
    const NUMBERED: bool;
    /// What `cast(.. as ..)` calls a 64-bit integer.
    const INTEGER: &'static str;
    /// What `cast(.. as ..)` calls text.
    const TEXT: &'static str;
    /// How a plain SELECT locks its rows; nothing where the engine knows no row locks.
    const FOR_UPDATE: &'static str;
    /// Whether the whole database has one writer at a time.
    const ONE_WRITER: bool;
    /// Begins a transaction whose reads all see one moment.
    const SNAPSHOT: &'static str;
    /// The shop's tables.
    const MIGRATIONS: Migrator;

    /// Runs a statement; how many rows it changed (matched, on MySQL).
    fn execute<'e>(conn: &'e mut Self::Connection, query: Query<'e, Self>) -> BoxFuture<'e, sqlx::Result<u64>>;
    /// Runs a statement for its rows.
    fn fetch<'e>(conn: &'e mut Self::Connection, query: Query<'e, Self>)
    -> BoxFuture<'e, sqlx::Result<Vec<Self::Row>>>;
    /// Brings the tables up to date.
    fn migrate(pool: &Pool<Self>) -> BoxFuture<'_, Result<(), sqlx::migrate::MigrateError>>;
}

/// A row as whatever can be read from one.
pub trait Read<E: Store>: for<'r> FromRow<'r, E::Row> + Send {}
impl<E: Store, T: for<'r> FromRow<'r, E::Row> + Send> Read<E> for T {}

/// Runs a statement for its rows, read as `T`.
pub async fn rows<E: Store, T: Read<E>>(conn: &mut E::Connection, query: Query<'_, E>) -> sqlx::Result<Vec<T>> {
    E::fetch(conn, query).await?.iter().map(T::from_row).collect()
}

/// The first row, if there is one.
pub async fn row<E: Store, T: Read<E>>(conn: &mut E::Connection, query: Query<'_, E>) -> sqlx::Result<Option<T>> {
    E::fetch(conn, query).await?.first().map(T::from_row).transpose()
}

macro_rules! forward {
    ($migrations:literal) => {
        const MIGRATIONS: Migrator = sqlx::migrate!($migrations);

        fn execute<'e>(conn: &'e mut Self::Connection, query: Query<'e, Self>) -> BoxFuture<'e, sqlx::Result<u64>> {
            Box::pin(async move { query.execute(conn).await.map(|done| done.rows_affected()) })
        }
        fn fetch<'e>(
            conn: &'e mut Self::Connection,
            query: Query<'e, Self>,
        ) -> BoxFuture<'e, sqlx::Result<Vec<Self::Row>>> {
            Box::pin(query.fetch_all(conn))
        }
        fn migrate(pool: &Pool<Self>) -> BoxFuture<'_, Result<(), sqlx::migrate::MigrateError>> {
            Box::pin(async move { Self::MIGRATIONS.run(pool).await })
        }
    };
}

impl Store for Postgres {
    const NUMBERED: bool = true;
    const INTEGER: &'static str = "bigint";
    const TEXT: &'static str = "text";
    const FOR_UPDATE: &'static str = "for update";
    const ONE_WRITER: bool = false;
    const SNAPSHOT: &'static str = "begin isolation level repeatable read, read only";
    forward!("./migrations/postgres");
}

impl Store for MySql {
    const NUMBERED: bool = false;
    const INTEGER: &'static str = "signed";
    const TEXT: &'static str = "char";
    const FOR_UPDATE: &'static str = "for update";
    const ONE_WRITER: bool = false;
    const SNAPSHOT: &'static str = "set transaction isolation level repeatable read; \
        start transaction with consistent snapshot, read only";
    forward!("./migrations/mysql");
}

impl Store for Sqlite {
    const NUMBERED: bool = false;
    const INTEGER: &'static str = "integer";
    const TEXT: &'static str = "text";
    const FOR_UPDATE: &'static str = "";
    const ONE_WRITER: bool = true;
    const SNAPSHOT: &'static str = "begin";
    forward!("./migrations/sqlite");
}
