//! MySQL 8 and later, and MariaDB 10.6 and later, with InnoDB.
//!
//! InnoDB locks in the order of its scan, whatever ORDER BY says. Integers are locked through the key's own index, forced,
//! in lists of at most 500 (MariaDB makes a join of 1,000 literals, MySQL a table scan of 20,000); other keys, whose
//! order in the index is a collation's, by a join that STRAIGHT_JOIN holds to the order of its list (docs/adr/0004).

use std::{borrow::Cow, fmt::Write, time::Duration};

use futures_core::future::BoxFuture;
use futures_util::TryStreamExt;
use rand::Rng;
use rowlock_footprint::{Dialect, Strength, Wait};
use sqlx::{
    Arguments, Column, MySql, MySqlConnection, MySqlPool, Row, TypeInfo,
    error::DatabaseError,
    mysql::{MySqlArguments, MySqlDatabaseError, MySqlRow, MySqlTypeInfo},
};

use super::{Driver, Engine, Road, Shape, forward, made, placeholders, where_text};
use crate::{
    KeyType, KeyValue, ResourceInfo,
    catalog::{self, Catalog},
    check::{Finding, Severity, Target, TargetColumn},
    failure::Failure,
    install, limits,
    options::{Isolation, Options},
    session::Session,
};

impl Engine for MySql {}

/// The name of a session's own lock begins so; its number follows.
const LOCK: &str = "rowlock:";
/// ER_NO_SUCH_THREAD.
const NO_SUCH_THREAD: u16 = 1094;

const LIST_CHUNK: usize = 500;
const JOIN_CHUNK: usize = 200;

impl Driver for MySql {
    forward!();

    fn catalog<'e>(
        connection: &'e mut MySqlConnection,
        order: &'static [ResourceInfo],
    ) -> BoxFuture<'e, Result<Catalog, sqlx::Error>> {
        Box::pin(catalog::mysql::read(connection, order))
    }
    fn fingerprint<'e>(
        connection: &'e mut MySqlConnection,
        order: &'static [ResourceInfo],
    ) -> BoxFuture<'e, Result<u64, sqlx::Error>> {
        Box::pin(catalog::mysql::fingerprint(connection, order))
    }

    fn road<'e>(pool: &'e MySqlPool, processes: u32) -> BoxFuture<'e, Result<Road, sqlx::Error>> {
        Box::pin(async move {
            let room = limits::of_mysql(pool).await?;
            let room = room.finding(pool.options().get_max_connections(), processes, pool.size());
            let commits = sqlx::raw_sql("SELECT CAST(@@autocommit AS SIGNED)").fetch_one(pool).await?;
            let open = (integer(&commits, 0) == Some(0)).then(|| {
                Finding::of_server(
                    Severity::Error,
                    "autocommit is off: a statement outside a transaction would begin one that nobody commits, and its locks \
                     would stay"
                        .into(),
                    "`set autocommit = 1` on the pool's connections, or let `Builder::connect_with` make the pool".into(),
                )
            });
            let findings = room.into_iter().chain(open).collect();
            Ok(Road { keeps_prepared: true, straight: true, own_wait: Duration::ZERO, findings })
        })
    }

    fn begin(
        _: Dialect,
        options: &Options,
        isolation: Option<Isolation>,
        session: Option<&Session>,
    ) -> Cow<'static, str> {
        let mut sql =
            Cow::Borrowed(if options.read_only { "START TRANSACTION READ ONLY" } else { "START TRANSACTION" });
        if session.is_none_or(|session| session.wait != Self::backstop(options)) {
            sql = format!("SET innodb_lock_wait_timeout = {}; {sql}", Self::backstop(options).as_secs()).into();
        }
        let level = isolation.unwrap_or(Isolation::ReadCommitted);
        if level != Isolation::ReadCommitted || session.is_none_or(|session| !session.read_committed) {
            sql = format!("SET TRANSACTION ISOLATION LEVEL {}; {sql}", level.sql()).into();
        }
        sql
    }

    /// A number of rowlock's own, in the name of a lock that the session keeps until its end: connection ids start again
    /// with the server, and are another's on another server (docs/adr/0025).
    fn number_text(_: bool) -> String {
        let number = rand::rng().random_range(1..=i64::MAX);
        format!(
            "SET @rowlock_session = IFNULL(@rowlock_session, {number}); \
             SELECT IF(GET_LOCK(CONCAT('{LOCK}', @rowlock_session), 0) = 1, CAST(@rowlock_session AS SIGNED), NULL)"
        )
    }

    const KEEPS_BACKSTOP: bool = true;

    fn backstop(options: &Options) -> Duration {
        // It counts in whole seconds.
        Duration::from_secs((options.wait + Duration::from_millis(1999)).as_secs())
    }

    fn session<'e>(connection: &'e mut MySqlConnection) -> BoxFuture<'e, Result<Session, sqlx::Error>> {
        Box::pin(async move {
            // The variable has another name on each: MySQL's is the only one that all versions show under it.
            let sql = format!(
                "SELECT CAST(@@innodb_lock_wait_timeout AS SIGNED); \
                 SHOW SESSION VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation'); {}",
                Self::number_text(true)
            );
            let (mut wait, mut read_committed, mut number, mut refused) = (Duration::ZERO, false, None, None);
            let mut steps = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_many(connection);
            let mut results = 0;
            while refused.is_none() {
                match steps.try_next().await {
                    Ok(Some(sqlx::Either::Left(_))) => results += 1,
                    Ok(Some(sqlx::Either::Right(row))) => match results {
                        0 => wait = Duration::from_secs(u64::try_from(row.try_get::<i64, _>(0)?).unwrap_or(0)),
                        1 => read_committed |= row.try_get::<String, _>(1)? == "READ-COMMITTED",
                        _ => number = integer(&row, 0),
                    },
                    Ok(None) => break,
                    // The lock is asked for last, and some clusters have none.
                    Err(error @ sqlx::Error::Database(_)) if results > 1 => refused = Some(error),
                    Err(error) => return Err(error),
                }
            }
            if let Some(error) = refused {
                tracing::debug!(%error, "rowlock: a session could not take a lock of its own");
            }
            Ok(Session { number, wait, read_committed })
        })
    }

    fn own_settings(options: &Options) -> String {
        format!(
            "SET autocommit = 1; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
             SET SESSION innodb_lock_wait_timeout = {}",
            Self::backstop(options).as_secs()
        )
    }

    fn end_session<'e>(
        control: &'e mut MySqlConnection,
        session: i64,
        hard: bool,
    ) -> BoxFuture<'e, Result<(), sqlx::Error>> {
        // In one statement: the server that looks is the server that kills, whatever stands before it.
        let what = if hard { "CONNECTION" } else { "QUERY" };
        let sql = format!("KILL {what} IS_USED_LOCK('{LOCK}{session}')");
        Box::pin(async move {
            match sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(control).await {
                // No session has the lock: it has ended, or is another server's.
                Err(sqlx::Error::Database(error)) if number(&*error) == Some(NO_SUCH_THREAD) => Ok(()),
                answer => answer.map(drop),
            }
        })
    }

    /// By error number, which is finer than SQLSTATE. 1205 is a timeout and, on MariaDB, NOWAIT too; after it the
    /// transaction is still open, after 1213 it is not. 1020 is MariaDB's with `innodb_snapshot_isolation`.
    fn failure(_: Dialect, error: &dyn DatabaseError) -> Failure {
        match number(error) {
            Some(1213) => Failure::Deadlock,
            Some(1020) => Failure::Serialization,
            Some(1205 | 3572) => Failure::Busy,
            Some(1317) => Failure::Cancelled,
            Some(1062 | 1586) => Failure::Duplicate,
            Some(1053 | 1077 | 1079 | 1152 | 1158..=1161 | 1184 | 1927 | 3169 | 4031) => Failure::ConnectionLost,
            Some(1054 | 1146) => Failure::SchemaChanged,
            Some(1412 | 1615) => Failure::StalePlan,
            _ => Failure::Other,
        }
    }

    /// Shutdown, KILL and idle limits. The server says so only where the statement has no answer yet: an OK that is set
    /// before stays (`send_kill_message`, and `is_set` of the diagnostics area, in both servers' sql_class and sql_parse).
    fn ends_session(error: &dyn DatabaseError) -> bool {
        matches!(number(error), Some(1053 | 1077 | 1079 | 1927 | 3169 | 4031))
    }

    fn chunk(_: Dialect, target: &Target) -> usize {
        if by_list(target) { LIST_CHUNK } else { JOIN_CHUNK }
    }

    fn room(_: Dialect, keys: usize) -> usize {
        // Texts for 1, 2, 4, 8 .. keys, so that the server keeps few statements prepared.
        keys.next_power_of_two().min(LIST_CHUNK.max(keys))
    }

    fn in_key_order(target: &Target) -> bool {
        by_list(target)
    }

    fn lock_text(dialect: Dialect, target: &Target, shape: Shape) -> String {
        let mut sql = format!("SELECT {} FROM ", target.row);
        // One row is looked up, whatever its key: a list of one would be planned as a range, and sorted.
        if by_list(target) && shape.room > 1 {
            let _ = write!(sql, "{} t FORCE INDEX ({}) WHERE ", target.table, target.index);
            list_condition(&mut sql, target, shape.room);
            sql.push_str(" ORDER BY ");
            sql.push_str(&target.key_list());
        } else if shape.room == 1 {
            let _ = write!(sql, "{} t FORCE INDEX ({}) WHERE ", target.table, target.index);
            for (n, column) in target.columns.iter().enumerate() {
                let _ = write!(sql, "{}t.{} = ", if n == 0 { "" } else { " AND " }, column.quoted);
                value(&mut sql, column);
            }
        } else {
            sql.push('(');
            for row in 0..shape.room {
                let _ = write!(
                    sql,
                    "{}{row}{}",
                    if row == 0 { "SELECT " } else { " UNION ALL SELECT " },
                    if row == 0 { " ord" } else { "" }
                );
                for (n, column) in target.columns.iter().enumerate() {
                    sql.push_str(", ");
                    value(&mut sql, column);
                    if row == 0 {
                        let _ = write!(sql, " k{n}");
                    }
                }
            }
            let _ = write!(sql, ") k STRAIGHT_JOIN {} t FORCE INDEX ({}) ON ", target.table, target.index);
            for (n, column) in target.columns.iter().enumerate() {
                let _ = write!(sql, "{}t.{} = k.k{n}", if n == 0 { "" } else { " AND " }, column.quoted);
            }
        }
        sql.push_str(for_text(dialect, shape.strength));
        sql.push_str(match shape.wait {
            Wait::Wait => "",
            Wait::NoWait => " NOWAIT",
            Wait::SkipLocked => " SKIP LOCKED",
        });
        sql
    }

    const CLAIMS_AMONG_KEYS: bool = true;

    fn claim_text(
        dialect: Dialect,
        target: &Target,
        condition: &str,
        strength: Strength,
        among: usize,
        limit: Option<u32>,
    ) -> String {
        let hint = format!(" FORCE INDEX ({})", target.index);
        let mut keys = String::from(" AND ");
        tuple(&mut keys, target, |sql, column| {
            let _ = write!(sql, "t.{}", column.quoted);
        });
        keys.push_str(" IN (");
        for n in 0..among {
            keys.push_str(if n == 0 { "" } else { ", " });
            tuple(&mut keys, target, value);
        }
        keys.push(')');
        where_text(target, &target.row, &hint, condition, &keys, limit) + for_text(dialect, strength) + " SKIP LOCKED"
    }

    fn beyond_text(target: &Target) -> String {
        let mut sql = String::from(" AND ");
        tuple(&mut sql, target, |sql, column| {
            let _ = write!(sql, "t.{}", column.quoted);
        });
        sql.push_str(" > ");
        tuple(&mut sql, target, value);
        sql
    }

    fn add_key(arguments: &mut MySqlArguments, target: &Target, key: &KeyValue) -> Result<(), sqlx::Error> {
        bind(arguments, key.columns(), target)
    }

    fn lock_arguments(
        _: Dialect,
        target: &Target,
        keys: &[KeyValue],
        room: usize,
    ) -> Result<Self::Arguments, sqlx::Error> {
        let mut arguments = MySqlArguments::default();
        for key in keys {
            bind(&mut arguments, key.columns(), target)?;
        }
        // What is left is filled: in a list by the last key again, which is locked once; in a join by NULL, which joins
        // nothing.
        for _ in keys.len()..room {
            match keys.last() {
                Some(last) if by_list(target) => bind(&mut arguments, last.columns(), target)?,
                _ => target.columns.iter().try_for_each(|_| arguments.add(None::<i64>).map_err(sqlx::Error::Encode))?,
            }
        }
        Ok(arguments)
    }

    fn key_value(column: &TargetColumn, _: usize) -> String {
        // A bare number or text takes the column's type and collation; a join of tables needs them said.
        match column.key {
            KeyType::Integer | KeyType::Unsigned | KeyType::Text => "?".into(),
            KeyType::Uuid | KeyType::Bytes => "CAST(? AS BINARY)".into(),
        }
    }

    fn at_once(dialect: Dialect) -> Option<&'static str> {
        // MySQL's shortest is a second, and it looks for deadlocks at once.
        (dialect == Dialect::MariaDb)
            .then_some("SELECT CAST(@@innodb_lock_wait_timeout AS SIGNED); SET innodb_lock_wait_timeout = 0")
    }

    fn at_once_ends(before: i64) -> String {
        format!("SET innodb_lock_wait_timeout = {before}")
    }

    fn joined_key_value(column: &TargetColumn, _: usize) -> String {
        let mut sql = String::new();
        value(&mut sql, column);
        sql
    }

    fn key(row: &MySqlRow, target: &Target) -> Result<KeyValue, sqlx::Error> {
        super::key_of(target, |column| {
            let name = &*column.name;
            Ok(match column.key {
                KeyType::Integer | KeyType::Unsigned
                    if row.try_column(name)?.type_info().name().ends_with("UNSIGNED") =>
                {
                    KeyValue::Integer(row.try_get_unchecked::<u64, _>(name)?.into())
                }
                KeyType::Integer | KeyType::Unsigned => {
                    KeyValue::Integer(row.try_get_unchecked::<i64, _>(name)?.into())
                }
                KeyType::Uuid => KeyValue::Uuid(row.try_get(name)?),
                KeyType::Text => KeyValue::Text(row.try_get_unchecked::<&str, _>(name)?.into()),
                KeyType::Bytes => KeyValue::Bytes(row.try_get_unchecked::<&[u8], _>(name)?.into()),
            })
        })
    }

    /// Guard rows in rowlock's own table, beside the resource's, not GET_LOCK: that belongs to the session, and a cycle of it and a row is not
    /// seen by the server.
    fn creation_text(target: &Target, class: i64, slots: &[i64], wait: Wait) -> String {
        let table = install::guards(target.name.schema.as_deref());
        let mut sql = format!("SELECT 0 FROM {table} FORCE INDEX (PRIMARY) WHERE class = {class} AND slot IN (");
        for (n, slot) in slots.iter().enumerate() {
            let _ = write!(sql, "{}{slot}", if n == 0 { "" } else { ", " });
        }
        sql.push_str(") ORDER BY class, slot FOR UPDATE");
        if wait != Wait::Wait {
            sql.push_str(" NOWAIT");
        }
        sql
    }

    fn bound(encoded: &Vec<u8>, kind: &MySqlTypeInfo) -> Option<KeyValue> {
        let bytes = encoded.as_slice();
        let wide = |negative: bool| -> Option<i128> {
            let mut full = if negative { [0xff; 8] } else { [0; 8] };
            full.get_mut(..bytes.len())?.copy_from_slice(bytes);
            Some(if negative { i64::from_le_bytes(full).into() } else { u64::from_le_bytes(full).into() })
        };
        match kind.name() {
            "TINYINT" | "SMALLINT" | "MEDIUMINT" | "INT" | "BIGINT" => {
                wide(bytes.last()? & 0x80 != 0).map(KeyValue::Integer)
            }
            name if name.ends_with("UNSIGNED") => wide(false).map(KeyValue::Integer),
            "VARCHAR" | "CHAR" | "TEXT" | "TINYTEXT" | "MEDIUMTEXT" | "LONGTEXT" => {
                Some(KeyValue::Text(std::str::from_utf8(without_length(bytes)?).ok()?.into()))
            }
            "BINARY" | "VARBINARY" | "BLOB" | "TINYBLOB" | "MEDIUMBLOB" | "LONGBLOB" => {
                Some(KeyValue::Bytes(without_length(bytes)?.into()))
            }
            _ => None,
        }
    }

    fn explain<'e>(
        connection: &'e mut MySqlConnection,
        dialect: Dialect,
        target: &'e Target,
        text: String,
        arguments: Self::Arguments,
    ) -> BoxFuture<'e, Result<Option<String>, sqlx::Error>> {
        Box::pin(async move {
            // Without a format MySQL 9 gives a tree; MariaDB knows the table alone.
            let format = if dialect == Dialect::MySql { "FORMAT=TRADITIONAL " } else { "" };
            let explain = format!("EXPLAIN {format}{text}");
            let plan = Self::fetch_all(connection, made(explain, arguments)).await?;
            for row in &plan {
                let table: Option<String> = row.try_get_unchecked("table")?;
                if table.as_deref() != Some("t") {
                    continue;
                }
                let index: Option<String> = row.try_get_unchecked("key")?;
                let extra: Option<String> = row.try_get_unchecked("Extra")?;
                let wanted = target.index.trim_matches('`');
                if index.as_deref() != Some(wanted) {
                    return Ok(Some(format!("scans {index:?}, not the key's index {wanted}")));
                }
                let access: Option<String> = row.try_get_unchecked("type")?;
                if matches!(access.as_deref(), Some("index" | "ALL")) {
                    return Ok(Some("reads the whole index, and locks what it passes".into()));
                }
                if by_list(target) && extra.as_deref().is_some_and(|e| e.contains("filesort")) {
                    return Ok(Some("sorts after it has locked (filesort)".into()));
                }
            }
            Ok(None)
        })
    }
}

/// Whether the key's index stands in the order of [`KeyValue`], so that a forced scan of it locks in lock order. (Not
/// where the index has all there is: MySQL 9.7 then read the whole of it for 6 of 7 keys, and for 400 of 500.)
fn by_list(target: &Target) -> bool {
    target.in_index_order && !target.covered && target.columns.iter().all(|c| c.key == KeyType::Integer)
}

fn number(error: &dyn DatabaseError) -> Option<u16> {
    error.try_downcast_ref::<MySqlDatabaseError>().map(MySqlDatabaseError::number)
}

fn for_text(dialect: Dialect, strength: Strength) -> &'static str {
    match (dialect, strength) {
        (_, Strength::NoKeyUpdate | Strength::Update) => " FOR UPDATE",
        (Dialect::MariaDb, _) => " LOCK IN SHARE MODE",
        _ => " FOR SHARE",
    }
}

/// A row value of what is written for each column of the key; of one column, the value alone.
fn tuple(sql: &mut String, target: &Target, mut write: impl FnMut(&mut String, &crate::check::TargetColumn)) {
    sql.push_str(if target.columns.len() == 1 { "" } else { "(" });
    for (n, column) in target.columns.iter().enumerate() {
        sql.push_str(if n == 0 { "" } else { ", " });
        write(sql, column);
    }
    sql.push_str(if target.columns.len() == 1 { "" } else { ")" });
}

fn list_condition(sql: &mut String, target: &Target, room: usize) {
    match &target.columns[..] {
        [one] => {
            let _ = write!(sql, "t.{} IN (", one.quoted);
            placeholders(sql, room);
        }
        many => {
            sql.push('(');
            for (n, column) in many.iter().enumerate() {
                let _ = write!(sql, "{}t.{}", if n == 0 { "" } else { ", " }, column.quoted);
            }
            sql.push_str(") IN (");
            for n in 0..room {
                sql.push_str(if n == 0 { "(" } else { ", (" });
                placeholders(sql, many.len());
                sql.push(')');
            }
        }
    }
    sql.push(')');
}

/// A placeholder of the column's own type and collation: one of another would not find its way through the index, or
/// would be compared by other rules.
pub(super) fn value(sql: &mut String, column: &crate::check::TargetColumn) {
    match (column.key, &column.charset, &column.collation) {
        (KeyType::Integer | KeyType::Unsigned, ..) if column.type_name.contains("unsigned") => {
            sql.push_str("CAST(? AS UNSIGNED)")
        }
        (KeyType::Integer | KeyType::Unsigned, ..) => sql.push_str("CAST(? AS SIGNED)"),
        (KeyType::Text, Some(charset), Some(collation)) => {
            let _ = write!(sql, "CONVERT(? USING {charset}) COLLATE {collation}");
        }
        (KeyType::Text, ..) => sql.push('?'),
        (KeyType::Uuid | KeyType::Bytes, ..) => sql.push_str("CAST(? AS BINARY)"),
    }
}

/// Numbers of one sign for one column: MySQL reads the whole index for a list that has signed and unsigned ones in it.
pub(super) fn bind(arguments: &mut MySqlArguments, columns: &[KeyValue], target: &Target) -> Result<(), sqlx::Error> {
    for (value, column) in columns.iter().zip(&target.columns) {
        let added = match value {
            KeyValue::Integer(n) if column.type_name.contains("unsigned") => arguments.add(u64::try_from(*n).ok()),
            KeyValue::Integer(n) => arguments.add(i64::try_from(*n).ok()),
            KeyValue::Uuid(u) => arguments.add(u),
            KeyValue::Text(t) => arguments.add(&**t),
            KeyValue::Bytes(b) => arguments.add(&**b),
            KeyValue::Tuple(_) => arguments.add(None::<i64>),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(())
}

/// Strips the length that the protocol puts before text and bytes ("length-encoded integer", MySQL internals manual).
fn without_length(bytes: &[u8]) -> Option<&[u8]> {
    let prefix = match *bytes.first()? {
        0..=250 => 1,
        0xfc => 3,
        0xfd => 4,
        0xfe => 9,
        _ => return None,
    };
    bytes.get(prefix..)
}

fn integer(row: &MySqlRow, index: usize) -> Option<i64> {
    row.try_get::<i64, _>(index).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sqlx::{Encode, Type};
    use uuid::Uuid;

    fn read<'q, T: Encode<'q, MySql> + Type<MySql>>(value: T) -> Option<KeyValue> {
        let mut buffer = Vec::new();
        let _ = value.encode_by_ref(&mut buffer).unwrap();
        MySql::bound(&buffer, &T::type_info())
    }

    proptest! {
        #[test]
        fn bound_values_are_read_back(n: i64, i: i16, u: u64, small: u8, text: String, blob: Vec<u8>, id: u128) {
            prop_assert_eq!(read(n), Some(KeyValue::Integer(n.into())));
            prop_assert_eq!(read(i), Some(KeyValue::Integer(i.into())));
            prop_assert_eq!(read(u), Some(KeyValue::Integer(u.into())));
            prop_assert_eq!(read(small), Some(KeyValue::Integer(small.into())));
            prop_assert_eq!(read(text.as_str()), Some(KeyValue::Text(text.as_str().into())));
            prop_assert_eq!(read(blob.as_slice()), Some(KeyValue::Bytes(blob.into())));
            let id = Uuid::from_u128(id);
            prop_assert_eq!(read(id), Some(KeyValue::Bytes(id.as_bytes().as_slice().into())));
        }
    }

    #[test]
    fn long_text_is_read_behind_its_length() {
        let long = "x".repeat(70_000);
        assert_eq!(read(long.as_str()), Some(KeyValue::Text(long.as_str().into())));
    }
}
