//! PostgreSQL 12 and later, also behind PgBouncer in transaction mode: nothing here belongs to the session.
//!
//! Rows are locked in the order given by `unnest(..) WITH ORDINALITY .. ORDER BY ord FOR ..`: the LockRows node stands
//! above the join and the sort in every plan, and locking statements are never parallel (docs/adr/0004).

use std::{borrow::Cow, fmt::Write, time::Duration};

use futures_core::future::BoxFuture;
use rowlock_footprint::{Dialect, Strength, Wait};
use sqlx::{
    Arguments, Column, PgConnection, PgPool, Postgres, Row, TypeInfo,
    error::DatabaseError,
    postgres::{PgDatabaseError, PgRow, PgSeverity},
};
use uuid::Uuid;

use super::{Driver, Engine, Road, Shape, forward, made, where_text};
use crate::{
    KeyType, KeyValue, ResourceInfo,
    catalog::{self, Catalog},
    check::{Target, TargetColumn},
    creation,
    failure::Failure,
    limits,
    options::{Isolation, Options},
    pooler,
    session::Session,
};

impl Engine for Postgres {}

/// Arrays of this many keys are one statement; beyond it the message, not the locking, is what grows.
const CHUNK: usize = 10_000;

impl Driver for Postgres {
    forward!();

    fn catalog<'e>(
        connection: &'e mut PgConnection,
        _: &'static [ResourceInfo],
    ) -> BoxFuture<'e, Result<Catalog, sqlx::Error>> {
        Box::pin(catalog::postgres::read(connection))
    }
    fn fingerprint<'e>(
        connection: &'e mut PgConnection,
        _: &'static [ResourceInfo],
    ) -> BoxFuture<'e, Result<u64, sqlx::Error>> {
        Box::pin(catalog::postgres::fingerprint(connection))
    }

    fn road<'e>(pool: &'e PgPool, processes: u32) -> BoxFuture<'e, Result<Road, sqlx::Error>> {
        Box::pin(async move {
            let way = pooler::find_way(pool).await;
            // Behind a pooler the server's limit is the pooler's to share out.
            let room = match way.is_straight() {
                true => limits::of_postgres(pool).await?.finding(
                    pool.options().get_max_connections(),
                    processes,
                    pool.size(),
                ),
                false => None,
            };
            Ok(Road {
                keeps_prepared: way.keeps_prepared(),
                straight: way.is_straight(),
                own_wait: Duration::ZERO,
                findings: way.finding().into_iter().chain(room).collect(),
            })
        })
    }

    fn begin(
        _: Dialect,
        options: &Options,
        isolation: Option<Isolation>,
        session: Option<&Session>,
    ) -> Cow<'static, str> {
        let mut sql = Cow::Borrowed("BEGIN");
        if let Some(level) = isolation {
            let _ = write!(sql.to_mut(), " ISOLATION LEVEL {}", level.sql());
        }
        if options.read_only {
            sql.to_mut().push_str(" READ ONLY");
        }
        if options.deferrable {
            sql.to_mut().push_str(" DEFERRABLE");
        }
        // The client keeps the limit; the server's is the backstop for a client that is gone.
        if session.is_none_or(|session| session.wait != Self::backstop(options)) {
            let _ = write!(sql.to_mut(), "; SET LOCAL lock_timeout = {}", Self::backstop(options).as_millis());
        }
        if let Some(limit) = options.hold_limit {
            let backstop = (limit + Duration::from_secs(1)).as_millis();
            let _ = write!(sql.to_mut(), "; SET LOCAL idle_in_transaction_session_timeout = {backstop}");
        }
        sql
    }

    fn number_text(straight: bool) -> String {
        match straight {
            true => format!("SELECT {} FROM pg_stat_activity WHERE pid = pg_backend_pid()", number("backend_start")),
            // The transaction's: the backend serves another client after it. Where activities are not tracked, nobody sees
            // which transaction a backend is in.
            false => {
                format!("SELECT CASE WHEN current_setting('track_activities')::bool THEN {} END", number("now()"))
            }
        }
    }

    const KEEPS_BACKSTOP: bool = false;

    fn backstop(options: &Options) -> Duration {
        // Whole milliseconds, as it is kept there.
        Duration::from_millis(u64::try_from(options.wait.as_millis()).unwrap_or(u64::MAX).saturating_add(1000))
    }

    fn session<'e>(connection: &'e mut PgConnection) -> BoxFuture<'e, Result<Session, sqlx::Error>> {
        Box::pin(async move {
            // Not behind a pooler: the backend is this connection's for as long as it lives.
            let sql = format!(
                "SELECT {}, setting::bigint FROM pg_stat_activity, pg_settings \
                 WHERE pid = pg_backend_pid() AND name = 'lock_timeout'",
                number("backend_start")
            );
            let row = sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).fetch_one(connection).await?;
            let milliseconds = integer(&row, 1).and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
            Ok(Session { number: integer(&row, 0), wait: Duration::from_millis(milliseconds), read_committed: false })
        })
    }

    fn own_settings(options: &Options) -> String {
        format!("SET lock_timeout = {}", Self::backstop(options).as_millis())
    }

    fn end_session<'e>(
        control: &'e mut PgConnection,
        session: i64,
        hard: bool,
    ) -> BoxFuture<'e, Result<(), sqlx::Error>> {
        // Only while the session is in the very transaction that it was asked for in, or is the very backend: behind a
        // pooler the backend may be another client's by now, and a pid is given out again. When a backend began is seen
        // whether it tracks its activities or not.
        let (pid, began) = (session & PID_MASK, session >> PID_BITS);
        let end = if hard { "terminate" } else { "cancel" };
        // By the simple protocol: a pooler may give another server to each trip of a prepared statement.
        let sql = format!(
            "SELECT pg_{end}_backend(pid) FROM pg_stat_activity WHERE pid & {PID_MASK} = {pid} \
             AND ({} = {began} OR {} = {began})",
            stamp("backend_start"),
            stamp("xact_start")
        );
        Box::pin(async move { sqlx::raw_sql(sqlx::AssertSqlSafe(sql)).execute(control).await.map(drop) })
    }

    /// Appendix A of the manual, and what was seen: 55P03 for NOWAIT and for `lock_timeout`, 40001 for a row that
    /// changed since the snapshot, 57P01 for a backend that was terminated.
    fn failure(_: Dialect, error: &dyn DatabaseError) -> Failure {
        let code = error.code();
        match code.as_deref().unwrap_or_default() {
            "40P01" => Failure::Deadlock,
            "40001" => Failure::Serialization,
            "55P03" => Failure::Busy,
            "57014" => Failure::Cancelled,
            "23505" => Failure::Duplicate,
            // 25P03: idle_in_transaction_session_timeout; 25P04: transaction_timeout.
            "57P01" | "57P02" | "57P03" | "57P05" | "25P04" => Failure::ConnectionLost,
            "25P03" => Failure::Idle,
            "42P01" | "42703" => Failure::SchemaChanged,
            "0A000" if error.message().contains("cached plan") => Failure::StalePlan,
            // A statement with a value too few; of a pooler, whatever ends the connection.
            "08P01" if !is_fatal(error) => Failure::Other,
            code if code.starts_with("08") => Failure::ConnectionLost,
            _ => Failure::Other,
        }
    }

    /// Before CommandComplete nothing is committed: in the extended protocol Sync commits.
    fn ends_session(error: &dyn DatabaseError) -> bool {
        matches!(error.code().as_deref(), Some("57P01" | "57P02" | "57P03" | "57P05" | "25P03" | "25P04"))
    }

    fn chunk(_: Dialect, _: &Target) -> usize {
        CHUNK
    }

    fn room(_: Dialect, keys: usize) -> usize {
        // Arrays have room for any number; one key has a text of its own, which plans as a plain index look-up.
        if keys == 1 { 1 } else { 0 }
    }

    fn in_key_order(_: &Target) -> bool {
        true
    }

    fn lock_text(_: Dialect, target: &Target, shape: Shape) -> String {
        let mut sql = format!("SELECT {} FROM ", target.row);
        if shape.room == 1 {
            let _ = write!(sql, "{} t WHERE ", target.table);
            for (n, column) in target.columns.iter().enumerate() {
                let and = if n == 0 { "" } else { " AND " };
                let _ = write!(sql, "{and}t.{} = ${}::{}", column.quoted, n + 1, array_type(column.key));
            }
        } else {
            sql.push_str("unnest(");
            for (n, column) in target.columns.iter().enumerate() {
                let comma = if n == 0 { "" } else { ", " };
                let _ = write!(sql, "{comma}${}::{}[]", n + 1, array_type(column.key));
            }
            sql.push_str(") WITH ORDINALITY k(");
            for n in 0..target.columns.len() {
                let _ = write!(sql, "k{n}, ");
            }
            let _ = write!(sql, "ord) JOIN {} t ON ", target.table);
            for (n, column) in target.columns.iter().enumerate() {
                let and = if n == 0 { "" } else { " AND " };
                let _ = write!(sql, "{and}t.{} = k.k{n}", column.quoted);
                if let Some(collation) = &column.collation {
                    let _ = write!(sql, " COLLATE {collation}");
                }
            }
            sql.push_str(" ORDER BY k.ord");
        }
        sql.push_str(for_text(shape.strength));
        sql.push_str(match shape.wait {
            Wait::Wait => "",
            Wait::NoWait => " NOWAIT",
            Wait::SkipLocked => " SKIP LOCKED",
        });
        sql
    }

    fn lock_arguments(
        _: Dialect,
        target: &Target,
        keys: &[KeyValue],
        room: usize,
    ) -> Result<Self::Arguments, sqlx::Error> {
        let mut arguments = sqlx::postgres::PgArguments::default();
        for (n, column) in target.columns.iter().enumerate() {
            let values = keys.iter().map(|key| &key.columns()[n]);
            let added = match (column.key, room) {
                (KeyType::Integer | KeyType::Unsigned, 1) => arguments.add(values.map(big).next().flatten()),
                (KeyType::Uuid, 1) => arguments.add(values.map(uuid).next().flatten()),
                (KeyType::Text, 1) => arguments.add(values.map(text).next().flatten()),
                (KeyType::Bytes, 1) => arguments.add(values.map(bytes).next().flatten()),
                (KeyType::Integer | KeyType::Unsigned, _) => arguments.add(values.map(big).collect::<Vec<_>>()),
                (KeyType::Uuid, _) => arguments.add(values.map(uuid).collect::<Vec<_>>()),
                (KeyType::Text, _) => arguments.add(values.map(text).collect::<Vec<_>>()),
                (KeyType::Bytes, _) => arguments.add(values.map(bytes).collect::<Vec<_>>()),
            };
            added.map_err(sqlx::Error::Encode)?;
        }
        Ok(arguments)
    }

    fn key_value(column: &TargetColumn, number: usize) -> String {
        format!("${number}::{}", array_type(column.key))
    }

    fn at_once(_: Dialect) -> Option<&'static str> {
        // Shorter than what lets the server look for a deadlock, and long enough for locks that are none of rows (of the
        // file's end).
        Some(
            "WITH old AS MATERIALIZED (SELECT setting::bigint AS wait FROM pg_settings WHERE name = 'lock_timeout') \
             SELECT old.wait, set_config('lock_timeout', (SELECT greatest(1, least(100, setting::bigint / 2))::text \
                 FROM pg_settings WHERE name = 'deadlock_timeout'), true) FROM old",
        )
    }

    fn at_once_ends(before: i64) -> String {
        format!("SET LOCAL lock_timeout = {before}")
    }

    fn joined_key_value(column: &TargetColumn, number: usize) -> String {
        Self::key_value(column, number)
    }

    fn add_key(arguments: &mut Self::Arguments, target: &Target, key: &KeyValue) -> Result<(), sqlx::Error> {
        for (value, column) in key.columns().iter().zip(&target.columns) {
            let added = match column.key {
                KeyType::Integer | KeyType::Unsigned => arguments.add(big(value)),
                KeyType::Uuid => arguments.add(uuid(value)),
                KeyType::Text => arguments.add(text(value)),
                KeyType::Bytes => arguments.add(bytes(value)),
            };
            added.map_err(sqlx::Error::Encode)?;
        }
        Ok(())
    }

    fn key(row: &PgRow, target: &Target) -> Result<KeyValue, sqlx::Error> {
        super::key_of(target, |column| {
            let name = &*column.name;
            Ok(match column.key {
                KeyType::Integer | KeyType::Unsigned => {
                    let kind = row.try_column(name)?.type_info().name().to_owned();
                    KeyValue::Integer(match kind.as_str() {
                        "INT2" => row.try_get::<i16, _>(name)?.into(),
                        "INT4" => row.try_get::<i32, _>(name)?.into(),
                        _ => row.try_get::<i64, _>(name)?.into(),
                    })
                }
                KeyType::Uuid => KeyValue::Uuid(row.try_get(name)?),
                KeyType::Text => KeyValue::Text(row.try_get::<&str, _>(name)?.into()),
                KeyType::Bytes => KeyValue::Bytes(row.try_get::<&[u8], _>(name)?.into()),
            })
        })
    }

    fn claim_text(
        _: Dialect,
        target: &Target,
        condition: &str,
        strength: Strength,
        _: usize,
        limit: Option<u32>,
    ) -> String {
        where_text(target, &target.row, "", condition, "", limit) + for_text(strength) + " SKIP LOCKED"
    }

    /// Advisory locks of the transaction, taken in the order of the list (VALUES is scanned as written). Without waiting:
    /// how many were not had.
    fn creation_text(_: &Target, class: i64, slots: &[i64], wait: Wait) -> String {
        let mut sql = String::from(match wait {
            Wait::Wait => "SELECT pg_advisory_xact_lock",
            Wait::NoWait | Wait::SkipLocked => "SELECT count(*) FILTER (WHERE NOT pg_try_advisory_xact_lock",
        });
        sql.push_str("(k.lock)");
        sql.push_str(if wait == Wait::Wait { " FROM (VALUES " } else { ") FROM (VALUES " });
        for (n, slot) in slots.iter().enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            let _ = write!(sql, "{comma}('{}'::bigint)", creation::advisory(class, *slot));
        }
        sql.push_str(") k(lock)");
        sql
    }

    fn bound(encoded: &sqlx::postgres::PgArgumentBuffer, kind: &sqlx::postgres::PgTypeInfo) -> Option<KeyValue> {
        let name = kind.name();
        match name.strip_suffix("[]") {
            Some(element) => elements(encoded, element),
            None => scalar(encoded, name),
        }
    }

    fn explain<'e>(
        connection: &'e mut PgConnection,
        _: Dialect,
        _: &'e Target,
        text: String,
        arguments: Self::Arguments,
    ) -> BoxFuture<'e, Result<Option<String>, sqlx::Error>> {
        Box::pin(async move {
            let explain = format!("EXPLAIN {text}");
            let plan = Self::fetch_all(connection, made(explain, arguments)).await?;
            let top: String = match plan.first() {
                Some(row) => row.try_get(0)?,
                None => String::new(),
            };
            Ok((!top.starts_with("LockRows")).then(|| format!("LockRows is not the plan's top node: {top}")))
        })
    }
}

fn for_text(strength: Strength) -> &'static str {
    match strength {
        Strength::KeyShare => " FOR KEY SHARE OF t",
        Strength::Share => " FOR SHARE OF t",
        Strength::NoKeyUpdate => " FOR NO KEY UPDATE OF t",
        Strength::Update => " FOR UPDATE OF t",
    }
}

/// Whether the server, or the pooler, ends the connection with it.
fn is_fatal(error: &dyn DatabaseError) -> bool {
    let severity = error.try_downcast_ref::<PgDatabaseError>().map(PgDatabaseError::severity);
    matches!(severity, Some(PgSeverity::Fatal | PgSeverity::Panic))
}

/// A value in the binary format of its type.
fn scalar(encoded: &[u8], kind: &str) -> Option<KeyValue> {
    match kind {
        "INT2" => Some(KeyValue::Integer(i16::from_be_bytes(encoded.try_into().ok()?).into())),
        "INT4" => Some(KeyValue::Integer(i32::from_be_bytes(encoded.try_into().ok()?).into())),
        "INT8" => Some(KeyValue::Integer(i64::from_be_bytes(encoded.try_into().ok()?).into())),
        "UUID" => Some(KeyValue::Uuid(Uuid::from_slice(encoded).ok()?)),
        "TEXT" | "VARCHAR" | "NAME" => Some(KeyValue::Text(std::str::from_utf8(encoded).ok()?.into())),
        "BYTEA" => Some(KeyValue::Bytes(encoded.into())),
        _ => None,
    }
}

/// An array of one dimension, as the tuple of its elements (array_send in the server's arrayfuncs.c: dimensions, flags,
/// type, then length and lower bound of each dimension, then each element behind its length).
fn elements(encoded: &[u8], kind: &str) -> Option<KeyValue> {
    let word = |at: usize| encoded.get(at..at + 4).and_then(|w| w.try_into().ok()).map(i32::from_be_bytes);
    let count = match word(0)? {
        0 => 0,
        1 => usize::try_from(word(12)?).ok()?,
        _ => return None,
    };
    let mut at = 20;
    let mut elements = Vec::new();
    for _ in 0..count {
        let length = usize::try_from(word(at)?).ok()?;
        elements.push(scalar(encoded.get(at + 4..at + 4 + length)?, kind)?);
        at += 4 + length;
    }
    Some(KeyValue::Tuple(elements.into()))
}

/// The type that a key column's values are sent as.
pub(super) fn array_type(key: KeyType) -> &'static str {
    match key {
        KeyType::Integer | KeyType::Unsigned => "bigint",
        KeyType::Uuid => "uuid",
        KeyType::Text => "text",
        KeyType::Bytes => "bytea",
    }
}

// A value that the type cannot hold is sent as NULL, which is equal to no row: there can be no row of that key.

fn big(value: &KeyValue) -> Option<i64> {
    match value {
        KeyValue::Integer(n) => (*n).try_into().ok(),
        _ => None,
    }
}

fn uuid(value: &KeyValue) -> Option<Uuid> {
    match value {
        KeyValue::Uuid(u) => Some(*u),
        _ => None,
    }
}

fn text(value: &KeyValue) -> Option<&str> {
    match value {
        // PostgreSQL cannot store a NUL in text, and refuses to be sent one.
        KeyValue::Text(t) if !t.contains('\0') => Some(t),
        _ => None,
    }
}

fn bytes(value: &KeyValue) -> Option<&[u8]> {
    match value {
        KeyValue::Bytes(b) => Some(b),
        _ => None,
    }
}

/// The number of a session, within one i64: its pid in the lower bits, and above them when its transaction began.
const PID_BITS: u32 = 22;
const PID_MASK: i64 = (1 << PID_BITS) - 1;

/// The number of this session, told from others with its pid by a time.
fn number(time: &str) -> String {
    format!("(({}) << {PID_BITS}) | (pg_backend_pid() & {PID_MASK})", stamp(time))
}

/// A timestamp in microseconds, in as many bits as are left beside the pid: it comes again after 25 days.
fn stamp(time: &str) -> String {
    format!("(extract(epoch FROM {time}) * 1000000)::int8 & {}", i64::MAX >> PID_BITS)
}

fn integer(row: &PgRow, index: usize) -> Option<i64> {
    row.try_get::<i64, _>(index).ok().or_else(|| row.try_get::<i32, _>(index).ok().map(i64::from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sqlx::{Encode, Type};

    fn read<'q, T: Encode<'q, Postgres> + Type<Postgres>>(value: T) -> Option<KeyValue> {
        let mut buffer = sqlx::postgres::PgArgumentBuffer::default();
        let _ = value.encode_by_ref(&mut buffer).unwrap();
        Postgres::bound(&buffer, &T::type_info())
    }

    proptest! {
        #[test]
        fn bound_values_are_read_back(n: i64, i: i32, text: String, blob: Vec<u8>, u: u128, list: Vec<i64>) {
            prop_assert_eq!(read(n), Some(KeyValue::Integer(n.into())));
            prop_assert_eq!(read(i), Some(KeyValue::Integer(i.into())));
            prop_assert_eq!(read(text.as_str()), Some(KeyValue::Text(text.as_str().into())));
            prop_assert_eq!(read(blob.as_slice()), Some(KeyValue::Bytes(blob.into())));
            prop_assert_eq!(read(Uuid::from_u128(u)), Some(KeyValue::Uuid(Uuid::from_u128(u))));
            let elements: Vec<KeyValue> = list.iter().map(|n| KeyValue::Integer((*n).into())).collect();
            prop_assert_eq!(read(list), Some(KeyValue::Tuple(elements.into())));
        }

        #[test]
        fn broken_arrays_are_no_keys(bytes: Vec<u8>) {
            let _ = elements(&bytes, "INT8");
        }
    }

    #[test]
    fn what_is_no_key_is_not_read() {
        assert_eq!(read(1.5f64), None);
        assert_eq!(read(None::<i64>), None);
    }
}
