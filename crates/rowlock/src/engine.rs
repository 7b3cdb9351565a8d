//! An engine: what rowlock must know of a database beyond what sqlx knows. One file an engine, one trait.

mod change;
mod mysql;
mod postgres;
mod sqlite;

pub(crate) use change::{ChangeShape, Changed, Told, UpdateDriver};

use std::{borrow::Cow, time::Duration};

use futures_core::{future::BoxFuture, stream::BoxStream};
use rowlock_footprint::{Dialect, Strength, Wait};
use sqlx::{ColumnIndex, Database, Decode, Either, Encode, IntoArguments, SqlStr, Type, error::DatabaseError};

use crate::{
    KeyValue, ResourceInfo,
    catalog::Catalog,
    check::{Finding, Target, TargetColumn},
    failure::Failure,
    options::{Isolation, Options},
    session::Session,
    statement::Statement,
};

/// A database that rowlock runs on: [`sqlx::Postgres`], [`sqlx::MySql`] (MySQL and MariaDB, told apart when connecting)
/// and [`sqlx::Sqlite`].
///
/// A service that chooses its engine by URL is generic over it; `E: Engine` is all that it needs to write, since the
/// bounds on integers, text and column names come with it:
///
/// ```
/// use rowlock::{Db, Engine, Result};
///
/// async fn restock<E: Engine>(db: &Db<E>, id: i64, by: i64) -> Result<i64> {
///     db.transaction(async |mut tx| {
///         let mut update = sqlx::QueryBuilder::<E>::new("update inventories set stock = stock + ");
///         update.push_bind(by).push(" where id = ").push_bind(id);
///         update.build().execute(&mut tx).await?;
///         let stock: (i64,) = sqlx::query_as("select max(stock) from inventories").fetch_one(&mut tx).await?;
///         Ok(stock.0)
///     })
///     .await
/// }
/// ```
///
/// Sealed: an engine of your own is a file beside the three.
pub trait Engine:
    Driver
    + UpdateDriver
    + Database<Arguments: IntoArguments<Self> + Clone + Sync, ArgumentBuffer: Default + Send, TypeInfo: Send + Sync>
    + Imply<i16, Is: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>>
    + Imply<i32, Is: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>>
    + Imply<i64, Is: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>>
    + Imply<f64, Is: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>>
    + Imply<bool, Is: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>>
    + Imply<String, Is: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>>
    + Imply<Vec<u8>, Is: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>>
    + Imply<uuid::Uuid, Is: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>>
    + Imply<Option<i64>, Is: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>>
    + Imply<Option<String>, Is: for<'q> Encode<'q, Self> + for<'r> Decode<'r, Self> + Type<Self>>
    + Imply<usize, Is: ColumnIndex<Self::Row>>
    + for<'n> Imply<&'n str, Is: ColumnIndex<Self::Row> + for<'q> Encode<'q, Self> + Type<Self>>
{
}

/// Makes a bound on another type an implied one: `E: Imply<T, Is: Bound>` as a supertrait lets users of `E` rely on
/// `T: Bound` without writing it.
pub trait Imply<T: ?Sized>: ImplyInner<T, Is = T> {}
/// The half of [`Imply`] that has the associated type.
pub trait ImplyInner<T: ?Sized> {
    /// `T` itself.
    type Is: ?Sized;
}
impl<S: ?Sized, T: ?Sized> ImplyInner<T> for S {
    type Is = T;
}
impl<S: ?Sized, T: ?Sized> Imply<T> for S {}

/// One locking statement: its text depends on these and on the resource alone, so that it is made once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// As asked for; the engine rounds it.
    pub strength: Strength,
    /// What happens when a row is another's.
    pub wait: Wait,
    /// How many keys the text has room for ([`Driver::room`]).
    pub room: usize,
}

/// The way to the server, as seen at start.
#[derive(Debug)]
pub struct Road {
    /// A statement that was prepared in one transaction can be run in the next.
    pub keeps_prepared: bool,
    /// Each connection of the pool is one session of the server's.
    pub straight: bool,
    /// How long a connection of the pool waits by its own settings, where that is not the session's (SQLite).
    pub own_wait: Duration,
    /// What stands against it.
    pub findings: Vec<Finding>,
}

/// What rowlock asks of an engine. Not for users: reach the engine through [`Db`](crate::Db) and [`Tx`](crate::Tx).
#[allow(clippy::type_complexity)] // The types are sqlx's own.
pub trait Driver: Database {
    // --- what sqlx's Executor does on a connection, made nameable for generic code ---

    fn fetch_many<'e>(
        connection: &'e mut Self::Connection,
        statement: Statement<Self>,
    ) -> BoxStream<'e, Result<Either<Self::QueryResult, Self::Row>, sqlx::Error>>;
    fn fetch_optional<'e>(
        connection: &'e mut Self::Connection,
        statement: Statement<Self>,
    ) -> BoxFuture<'e, Result<Option<Self::Row>, sqlx::Error>>;
    fn fetch_all<'e>(
        connection: &'e mut Self::Connection,
        statement: Statement<Self>,
    ) -> BoxFuture<'e, Result<Vec<Self::Row>, sqlx::Error>>;
    fn prepare_with<'e>(
        connection: &'e mut Self::Connection,
        sql: SqlStr,
        parameters: &'e [Self::TypeInfo],
    ) -> BoxFuture<'e, Result<Self::Statement, sqlx::Error>>;
    fn describe<'e>(
        connection: &'e mut Self::Connection,
        sql: SqlStr,
    ) -> BoxFuture<'e, Result<sqlx::Describe<Self>, sqlx::Error>>;
    /// Sends one text, which may be several statements, without arguments: one round trip. The last row's first column,
    /// when it is an integer.
    fn batch<'e>(connection: &'e mut Self::Connection, sql: SqlStr) -> BoxFuture<'e, Result<Option<i64>, sqlx::Error>>;

    // --- the schema ---

    fn catalog<'e>(
        connection: &'e mut Self::Connection,
        order: &'static [ResourceInfo],
    ) -> BoxFuture<'e, Result<Catalog, sqlx::Error>>;
    fn fingerprint<'e>(
        connection: &'e mut Self::Connection,
        order: &'static [ResourceInfo],
    ) -> BoxFuture<'e, Result<u64, sqlx::Error>>;

    /// What stands between this process and the server, and whether the server has room for `processes` such pools.
    fn road<'e>(pool: &'e sqlx::Pool<Self>, processes: u32) -> BoxFuture<'e, Result<Road, sqlx::Error>>;

    // --- transactions ---

    /// One text that begins a transaction as `options` want it and answers with the session's number, by which
    /// [`Driver::end_session`] finds it from outside.
    /// With a `session` that is known already, only what it has not set itself is sent, and nothing is asked.
    fn begin(
        dialect: Dialect,
        options: &Options,
        isolation: Option<Isolation>,
        session: Option<&Session>,
    ) -> Cow<'static, str>;
    /// The server's limit on a wait for a row: some time after the client's.
    fn backstop(options: &Options) -> Duration;
    /// Whether the backstop that [`Driver::begin`] sets stays set after the transaction.
    const KEEPS_BACKSTOP: bool;
    /// Asks a connection which session it is, and for its settings.
    fn session<'e>(connection: &'e mut Self::Connection) -> BoxFuture<'e, Result<Session, sqlx::Error>>;
    /// What each connection of a pool of rowlock's own is set to, so that transactions need not; empty for nothing.
    fn own_settings(options: &Options) -> String;
    /// Ends the statement under way in `session` (`hard`: the session itself), from another connection.
    fn end_session<'e>(
        control: &'e mut Self::Connection,
        session: i64,
        hard: bool,
    ) -> BoxFuture<'e, Result<(), sqlx::Error>>;
    /// What an error that the server reported means for the transaction.
    fn failure(dialect: Dialect, error: &dyn DatabaseError) -> Failure;

    // --- locking ---

    /// The most keys of one statement that still locks in order on this engine.
    fn chunk(dialect: Dialect, target: &Target) -> usize;
    /// For how many keys a text is made when `keys` are to be locked: rounded up, so that few texts serve all numbers.
    fn room(dialect: Dialect, keys: usize) -> usize;
    /// Whether [`Driver::lock_text`] gives its rows in key order. (It always *locks* in it.)
    fn in_key_order(target: &Target) -> bool;
    /// The text that locks rows of `target` in the order of its arguments.
    fn lock_text(dialect: Dialect, target: &Target, shape: Shape) -> String;
    /// The arguments of [`Driver::lock_text`]: `keys` in lock order, filled up to `room`.
    fn lock_arguments(
        dialect: Dialect,
        target: &Target,
        keys: &[KeyValue],
        room: usize,
    ) -> Result<Self::Arguments, sqlx::Error>;
    /// The placeholder, the `number`-th of its text, for a value of a key column that the column is compared with.
    fn key_value(column: &TargetColumn, number: usize) -> String;
    /// The same in a table of values that is joined with the resource's.
    fn joined_key_value(column: &TargetColumn, number: usize) -> String;
    /// Adds a key's values, one a column. One that its column cannot hold is added as NULL: no row is equal to it.
    fn add_key(arguments: &mut Self::Arguments, target: &Target, key: &KeyValue) -> Result<(), sqlx::Error>;
    /// The key of a row that [`Driver::lock_text`] gave.
    fn key(row: &Self::Row, target: &Target) -> Result<KeyValue, sqlx::Error>;
    /// Whether [`Driver::claim_text`] claims among keys that were looked for before.
    const CLAIMS_AMONG_KEYS: bool = false;
    /// The text that locks at most `limit` rows which meet a condition, busy ones passed over; among so many keys, whose
    /// placeholders stand behind the condition's, where the engine wants them.
    fn claim_text(
        dialect: Dialect,
        target: &Target,
        condition: &str,
        strength: Strength,
        among: usize,
        limit: Option<u32>,
    ) -> String;
    /// What is added to a condition for rows beyond a key, as the database sorts them: where claims are among keys.
    fn beyond_text(_: &Target) -> String {
        String::new()
    }
    /// The text that takes creation guards in the order of `slots`; `class` is the resource's.
    fn creation_text(dialect: Dialect, class: i32, slots: &[i64], wait: Wait) -> String;
    /// The value of one bound argument, read from what was encoded for it: `None` for NULL and for what cannot be a key.
    fn bound(encoded: &Self::ArgumentBuffer, kind: &Self::TypeInfo) -> Option<KeyValue>;
    /// What makes the next statements of the transaction wait for no row, where the server can; the one number that it
    /// answers is for [`at_once_ends`](Self::at_once_ends).
    fn at_once(dialect: Dialect) -> Option<&'static str>;
    /// What ends that.
    fn at_once_ends(before: i64) -> String;
    /// Whether the server would lock in the order of the keys when it runs this text: the plan's fault, when it has one.
    fn explain<'e>(
        connection: &'e mut Self::Connection,
        dialect: Dialect,
        target: &'e Target,
        text: String,
        arguments: Self::Arguments,
    ) -> BoxFuture<'e, Result<Option<String>, sqlx::Error>>;
    /// How many rows a statement changed.
    fn rows_affected(result: &Self::QueryResult) -> u64;
}

/// The four forwarding methods, alike for all engines but for the types that sqlx gives no common name.
macro_rules! forward {
    () => {
        fn fetch_many<'e>(
            connection: &'e mut Self::Connection,
            statement: $crate::statement::Statement<Self>,
        ) -> futures_core::stream::BoxStream<'e, Result<sqlx::Either<Self::QueryResult, Self::Row>, sqlx::Error>> {
            sqlx::Executor::fetch_many(connection, statement)
        }
        fn fetch_optional<'e>(
            connection: &'e mut Self::Connection,
            statement: $crate::statement::Statement<Self>,
        ) -> BoxFuture<'e, Result<Option<Self::Row>, sqlx::Error>> {
            sqlx::Executor::fetch_optional(connection, statement)
        }
        fn fetch_all<'e>(
            connection: &'e mut Self::Connection,
            statement: $crate::statement::Statement<Self>,
        ) -> BoxFuture<'e, Result<Vec<Self::Row>, sqlx::Error>> {
            Box::pin(async move {
                // As sqlx's own does, with two boxes fewer.
                let mut steps = sqlx::Executor::fetch_many(connection, statement);
                let mut rows = Vec::new();
                while let Some(step) = futures_util::TryStreamExt::try_next(&mut steps).await? {
                    rows.extend(step.right());
                }
                Ok(rows)
            })
        }
        fn prepare_with<'e>(
            connection: &'e mut Self::Connection,
            sql: sqlx::SqlStr,
            parameters: &'e [Self::TypeInfo],
        ) -> BoxFuture<'e, Result<Self::Statement, sqlx::Error>> {
            sqlx::Executor::prepare_with(connection, sql, parameters)
        }
        fn describe<'e>(
            connection: &'e mut Self::Connection,
            sql: sqlx::SqlStr,
        ) -> BoxFuture<'e, Result<sqlx::Describe<Self>, sqlx::Error>> {
            sqlx::Executor::describe(connection, sql)
        }
        fn batch<'e>(
            connection: &'e mut Self::Connection,
            sql: sqlx::SqlStr,
        ) -> BoxFuture<'e, Result<Option<i64>, sqlx::Error>> {
            Box::pin(async move {
                let mut steps = sqlx::Executor::fetch_many(connection, sqlx::raw_sql(sql));
                let mut answer = None;
                while let Some(step) = futures_util::TryStreamExt::try_next(&mut steps).await? {
                    if let sqlx::Either::Right(row) = step {
                        answer = integer(&row, 0);
                    }
                }
                Ok(answer)
            })
        }
        fn rows_affected(result: &Self::QueryResult) -> u64 {
            result.rows_affected()
        }
    };
}
use forward;

/// A text made here for one use, with its arguments.
fn made<E: Database>(text: String, arguments: E::Arguments) -> Statement<E> {
    Statement::new(sqlx::SqlSafeStr::into_sql_str(sqlx::AssertSqlSafe(text)), arguments).kept(false)
}

/// The rows of a table, as `t`, that meet a condition and whatever is added to it, in the order of their keys.
pub(crate) fn where_text(
    target: &Target,
    what: &str,
    hint: &str,
    condition: &str,
    and: &str,
    limit: Option<u32>,
) -> String {
    let Target { table, .. } = target;
    let limit = limit.map(|rows| format!(" LIMIT {rows}")).unwrap_or_default();
    format!("SELECT {what} FROM {table} t{hint} WHERE ({condition}){and} ORDER BY {}{limit}", target.key_list())
}

/// Writes `count` placeholders with commas between.
fn placeholders(out: &mut String, count: usize) {
    for n in 0..count {
        out.push_str(if n == 0 { "?" } else { ", ?" });
    }
}

/// Puts a row's key together, column by column.
fn key_of(
    target: &Target,
    mut column: impl FnMut(&crate::check::TargetColumn) -> Result<KeyValue, sqlx::Error>,
) -> Result<KeyValue, sqlx::Error> {
    let columns: Vec<KeyValue> = target.columns.iter().map(&mut column).collect::<Result<_, _>>()?;
    KeyValue::from_columns(columns).ok_or_else(|| sqlx::Error::ColumnNotFound(target.table.clone()))
}
