//! An engine: what rowlock must know of a database beyond what sqlx knows. One file an engine, one trait.

mod change;
mod mysql;
mod postgres;
mod sqlite;

pub(crate) use change::{ChangeShape, Changed, Told, UpdateDriver};

use std::{borrow::Cow, time::Duration};

use futures_core::{future::BoxFuture, stream::BoxStream};
use futures_util::{StreamExt, stream};
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

/// What the statements of one text give: rows, and after those of each statement what it did.
pub(crate) type Steps<'e, E> =
    BoxStream<'e, Result<Either<<E as Database>::QueryResult, <E as Database>::Row>, sqlx::Error>>;

/// What rowlock asks of an engine. Not for users: reach the engine through [`Db`](crate::Db) and [`Tx`](crate::Tx).
#[allow(clippy::type_complexity, reason = "the types are sqlx's own")]
pub trait Driver: Database {
    // --- what sqlx's Executor does on a connection, made nameable for generic code ---

    /// A driver's stream may just end where it should give an error ([`whole`]).
    const ENDS_SILENTLY: bool = false;

    fn fetch_many<'e>(connection: &'e mut Self::Connection, statement: Statement<Self>) -> Steps<'e, Self>;
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

    /// One text that begins a transaction as `options` want it. With a `session` that is known already, only what it has not
    /// set itself is sent.
    fn begin(
        dialect: Dialect,
        options: &Options,
        isolation: Option<Isolation>,
        session: Option<&Session>,
    ) -> Cow<'static, str>;
    /// What a BEGIN asks for where the session is not known: one integer, by which [`Driver::end_session`] finds it from
    /// outside, or NULL. `straight`: it is the connection's own for as long as that lives.
    fn number_text(straight: bool) -> String;
    /// The server's limit on a wait for a row: some time after the client's.
    fn backstop(options: &Options) -> Duration;
    /// Whether the backstop that [`Driver::begin`] sets stays set after the transaction.
    const KEEPS_BACKSTOP: bool;
    /// Asks a connection which session it is, and for its settings.
    fn session<'e>(connection: &'e mut Self::Connection) -> BoxFuture<'e, Result<Session, sqlx::Error>>;
    /// What each connection of a pool of rowlock's own is set to, so that transactions need not; empty for nothing.
    fn own_settings(options: &Options) -> String;
    /// Ends the statement under way in `session` (`hard`: the session itself), from another connection. Where there is no such
    /// session any more, or on this server, nobody's is ended, and that is no error.
    fn end_session<'e>(
        control: &'e mut Self::Connection,
        session: i64,
        hard: bool,
    ) -> BoxFuture<'e, Result<(), sqlx::Error>>;
    /// What an error that the server reported means for the transaction.
    fn failure(dialect: Dialect, error: &dyn DatabaseError) -> Failure;
    /// Whether the server says by this error that it ends the session: what is under way in it is not done.
    fn ends_session(error: &dyn DatabaseError) -> bool;

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
    /// The text that takes creation guards of `target` in the order of `slots`; `class` is the resource's.
    fn creation_text(target: &Target, class: i64, slots: &[i64], wait: Wait) -> String;
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
        ) -> $crate::engine::Steps<'e, Self> {
            let sql = statement.sql.clone();
            $crate::engine::whole::<Self>(sql, sqlx::Executor::fetch_many(connection, statement))
        }
        fn fetch_optional<'e>(
            connection: &'e mut Self::Connection,
            statement: $crate::statement::Statement<Self>,
        ) -> BoxFuture<'e, Result<Option<Self::Row>, sqlx::Error>> {
            if !Self::ENDS_SILENTLY {
                return sqlx::Executor::fetch_optional(connection, statement);
            }
            Box::pin(async move {
                let mut steps = Self::fetch_many(connection, statement);
                while let Some(step) = futures_util::TryStreamExt::try_next(&mut steps).await? {
                    if let sqlx::Either::Right(row) = step {
                        return Ok(Some(row));
                    }
                }
                Ok(None)
            })
        }
        fn fetch_all<'e>(
            connection: &'e mut Self::Connection,
            statement: $crate::statement::Statement<Self>,
        ) -> BoxFuture<'e, Result<Vec<Self::Row>, sqlx::Error>> {
            Box::pin(async move {
                // As sqlx's own does, with two boxes fewer.
                let mut steps = Self::fetch_many(connection, statement);
                let (mut rows, mut done) = (Vec::new(), false);
                loop {
                    match futures_util::TryStreamExt::try_next(&mut steps).await {
                        Ok(Some(sqlx::Either::Right(row))) => rows.push(row),
                        Ok(Some(sqlx::Either::Left(_))) => done = true,
                        Ok(None) => return Ok(rows),
                        Err(error) if done => return Err($crate::checkout::behind::<Self>(error)),
                        Err(error) => return Err(error),
                    }
                }
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
                let steps = sqlx::Executor::fetch_many(connection, sqlx::raw_sql(sql.clone()));
                let mut steps = $crate::engine::whole::<Self>(sql, steps);
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

/// The answer to a text, or an error where the driver died of it. A statement ends with what it did, or with an error. sqlx's
/// SQLite driver gives neither when its thread panics, as it does over the first row of a statement that SQLite itself has
/// prepared anew with another number of columns: the rows just end, which would read as "no row". (Of several statements in
/// one text, those after the first may go so unseen; then the connection answers nothing more, and nothing is committed.)
fn whole<E: Driver>(sql: SqlStr, steps: Steps<'_, E>) -> Steps<'_, E> {
    if !E::ENDS_SILENTLY {
        return steps;
    }
    let mut ended = false;
    let steps = steps.map(Some).chain(stream::once(std::future::ready(None)));
    let checked = steps.filter_map(move |step| {
        let given = match step {
            Some(step) => {
                ended = !matches!(step, Ok(Either::Right(_)));
                Some(step)
            }
            None if ended || is_empty(sql.as_str()) => None,
            None => Some(Err(sqlx::Error::WorkerCrashed)),
        };
        std::future::ready(given)
    });
    checked.boxed()
}

/// Whether there is no statement in a text: blanks, semicolons and comments alone.
fn is_empty(mut sql: &str) -> bool {
    loop {
        sql = sql.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
        sql = if let Some(line) = sql.strip_prefix("--") {
            line.split_once('\n').map_or("", |(_, rest)| rest)
        } else if let Some(block) = sql.strip_prefix("/*") {
            block.split_once("*/").map_or("", |(_, rest)| rest)
        } else {
            return sql.is_empty();
        };
    }
}

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

#[cfg(test)]
mod tests {
    use super::is_empty;

    #[test]
    fn a_text_without_a_statement_is_empty() {
        for sql in ["", " ; ;\n", "-- select 1", "-- a\n/* b; */ ;", "/* open"] {
            assert!(is_empty(sql), "{sql}");
        }
        for sql in ["select 1", "-- a\nselect 1", "/* a */ begin", ";;commit"] {
            assert!(!is_empty(sql), "{sql}");
        }
    }
}
