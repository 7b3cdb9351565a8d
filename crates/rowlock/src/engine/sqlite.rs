//! SQLite: one writer at a time. A transaction that locks begins IMMEDIATE and then has the whole file; places are kept
//! all the same, so that a project that is developed on SQLite learns of its violations.

use std::{borrow::Cow, fmt::Write, time::Duration};

use futures_core::future::BoxFuture;
use rowlock_footprint::{Dialect, Strength, Wait};
use sqlx::{
    Arguments, Row, Sqlite, SqliteConnection, SqlitePool,
    error::DatabaseError,
    sqlite::{SqliteArguments, SqliteArgumentsBuffer, SqliteRow, SqliteTypeInfo},
};

use super::{Driver, Engine, Road, Shape, forward, placeholders, where_text};
use crate::{
    KeyType, KeyValue, ResourceInfo,
    catalog::{self, Catalog},
    check::{Target, TargetColumn},
    failure::Failure,
    options::{Isolation, Options},
    session::Session,
};

impl Engine for Sqlite {}

const CHUNK: usize = 500;

impl Driver for Sqlite {
    forward!();

    const ENDS_SILENTLY: bool = true;

    fn catalog<'e>(
        connection: &'e mut SqliteConnection,
        _: &'static [ResourceInfo],
    ) -> BoxFuture<'e, Result<Catalog, sqlx::Error>> {
        Box::pin(catalog::sqlite::read(connection))
    }
    fn fingerprint<'e>(
        connection: &'e mut SqliteConnection,
        _: &'static [ResourceInfo],
    ) -> BoxFuture<'e, Result<u64, sqlx::Error>> {
        Box::pin(catalog::sqlite::fingerprint(connection))
    }

    fn road<'e>(pool: &'e SqlitePool, _: u32) -> BoxFuture<'e, Result<Road, sqlx::Error>> {
        Box::pin(async move {
            let (milliseconds,): (i64,) = sqlx::query_as("PRAGMA busy_timeout").fetch_one(pool).await?;
            let own_wait = Duration::from_millis(u64::try_from(milliseconds).unwrap_or(0));
            Ok(Road { keeps_prepared: true, straight: true, own_wait, findings: Vec::new() })
        })
    }

    /// The connection's own limit on waits stands unless the kind's is shorter; where it is longer, BEGIN is sent again.
    fn begin(_: Dialect, options: &Options, _: Option<Isolation>, session: Option<&Session>) -> Cow<'static, str> {
        let begin = if options.read_only { "PRAGMA query_only = 1; BEGIN" } else { "BEGIN IMMEDIATE" };
        match session {
            Some(session) if options.wait < session.wait => {
                format!("PRAGMA busy_timeout = {}; {begin}", options.wait.as_millis()).into()
            }
            _ => begin.into(),
        }
    }

    fn number_text(_: bool) -> String {
        "SELECT NULL".into()
    }

    const KEEPS_BACKSTOP: bool = false;

    fn backstop(options: &Options) -> Duration {
        options.wait
    }

    fn session<'e>(_: &'e mut SqliteConnection) -> BoxFuture<'e, Result<Session, sqlx::Error>> {
        // There is none, and nobody asks.
        let session = Session { number: None, wait: Duration::ZERO, read_committed: false };
        Box::pin(std::future::ready(Ok(session)))
    }

    fn own_settings(_: &Options) -> String {
        String::new()
    }

    fn end_session<'e>(_: &'e mut SqliteConnection, _: i64, _: bool) -> BoxFuture<'e, Result<(), sqlx::Error>> {
        // No session waits inside a transaction here: BEGIN IMMEDIATE is the only wait, and its limit is
        // busy_timeout.
        Box::pin(std::future::ready(Ok(())))
    }

    /// Extended result codes (sqlite.org/rescode.html).
    fn failure(_: Dialect, error: &dyn DatabaseError) -> Failure {
        match error.code().as_deref() {
            Some("5" | "261" | "6" | "262" | "773") => Failure::Busy,
            Some("517") => Failure::Serialization,
            Some("9") => Failure::Cancelled,
            Some("1555" | "2067" | "2579") => Failure::Duplicate,
            Some("17") => Failure::StalePlan,
            // Its general code: only the words tell.
            Some("1") if ["no such column", "no such table"].iter().any(|said| error.message().contains(said)) => {
                Failure::SchemaChanged
            }
            _ => Failure::Other,
        }
    }

    fn ends_session(_: &dyn DatabaseError) -> bool {
        false
    }

    fn chunk(_: Dialect, _: &Target) -> usize {
        CHUNK
    }

    fn room(_: Dialect, keys: usize) -> usize {
        keys.next_power_of_two().min(CHUNK.max(keys))
    }

    fn in_key_order(_: &Target) -> bool {
        true
    }

    fn lock_text(_: Dialect, target: &Target, shape: Shape) -> String {
        let mut sql = format!("SELECT {} FROM {} t WHERE ", target.row, target.table);
        match &target.columns[..] {
            [one] => {
                let _ = write!(sql, "t.{} IN (", one.quoted);
                placeholders(&mut sql, shape.room);
            }
            many => {
                sql.push('(');
                for (n, column) in many.iter().enumerate() {
                    let _ = write!(sql, "{}t.{}", if n == 0 { "" } else { ", " }, column.quoted);
                }
                sql.push_str(") IN (VALUES ");
                for n in 0..shape.room {
                    sql.push_str(if n == 0 { "(" } else { ", (" });
                    placeholders(&mut sql, many.len());
                    sql.push(')');
                }
            }
        }
        sql.push_str(") ORDER BY ");
        sql.push_str(&target.key_list());
        sql
    }

    /// Nobody else has any.
    fn claim_text(_: Dialect, target: &Target, condition: &str, _: Strength, _: usize, limit: Option<u32>) -> String {
        where_text(target, &target.row, "", condition, "", limit)
    }

    fn lock_arguments(_: Dialect, _: &Target, keys: &[KeyValue], room: usize) -> Result<Self::Arguments, sqlx::Error> {
        let mut arguments = SqliteArguments::default();
        let filler = keys.last().into_iter().cycle().take(room.saturating_sub(keys.len()));
        keys.iter().chain(filler).try_for_each(|key| bind(&mut arguments, key))?;
        Ok(arguments)
    }

    fn key_value(_: &TargetColumn, _: usize) -> String {
        "?".into()
    }

    fn add_key(arguments: &mut SqliteArguments, _: &Target, key: &KeyValue) -> Result<(), sqlx::Error> {
        bind(arguments, key)
    }

    fn at_once(_: Dialect) -> Option<&'static str> {
        None
    }

    fn at_once_ends(_: i64) -> String {
        String::new()
    }

    fn joined_key_value(column: &TargetColumn, number: usize) -> String {
        Self::key_value(column, number)
    }

    fn key(row: &SqliteRow, target: &Target) -> Result<KeyValue, sqlx::Error> {
        super::key_of(target, |column| {
            let name = &*column.name;
            Ok(match column.key {
                KeyType::Integer | KeyType::Unsigned => KeyValue::Integer(row.try_get::<i64, _>(name)?.into()),
                KeyType::Uuid => KeyValue::Uuid(row.try_get(name)?),
                KeyType::Text => KeyValue::Text(row.try_get::<&str, _>(name)?.into()),
                KeyType::Bytes => KeyValue::Bytes(row.try_get::<&[u8], _>(name)?.into()),
            })
        })
    }

    fn creation_text(_: &Target, _: i64, _: &[i64], _: Wait) -> String {
        // The transaction has the whole file.
        String::new()
    }

    fn bound(encoded: &SqliteArgumentsBuffer, _: &SqliteTypeInfo) -> Option<KeyValue> {
        // The buffer shows its values through `Debug` alone: `SqliteArgumentsBuffer([Int64(77)])`. A test pins the form.
        let text = format!("{encoded:?}");
        let (kind, value) = text.strip_prefix("SqliteArgumentsBuffer([")?.strip_suffix(")])")?.split_once('(')?;
        match kind {
            "Int" | "Int64" => value.parse().ok().map(KeyValue::Integer),
            "Text" | "TextSlice" => unquote(value).map(|t| KeyValue::Text(t.into())),
            "Blob" => {
                let bytes: Option<Vec<u8>> = value
                    .strip_prefix('[')?
                    .strip_suffix(']')?
                    .split(", ")
                    .filter(|b| !b.is_empty())
                    .map(|b| b.parse().ok())
                    .collect();
                bytes.map(|b| KeyValue::Bytes(b.into()))
            }
            _ => None,
        }
    }

    fn explain<'e>(
        _: &'e mut SqliteConnection,
        _: Dialect,
        _: &'e Target,
        _: String,
        _: SqliteArguments,
    ) -> BoxFuture<'e, Result<Option<String>, sqlx::Error>> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// A key's columns, each by its type.
pub(super) fn bind(arguments: &mut SqliteArguments, key: &KeyValue) -> Result<(), sqlx::Error> {
    for value in key.columns() {
        let added = match value {
            KeyValue::Integer(n) => Arguments::add(arguments, i64::try_from(*n).ok()),
            KeyValue::Uuid(u) => Arguments::add(arguments, *u),
            KeyValue::Text(t) => Arguments::add(arguments, t.to_string()),
            KeyValue::Bytes(b) => Arguments::add(arguments, b.to_vec()),
            KeyValue::Tuple(_) => Arguments::add(arguments, None::<i64>),
        };
        added.map_err(sqlx::Error::Encode)?;
    }
    Ok(())
}

/// Undoes `Debug` of a string.
fn unquote(quoted: &str) -> Option<String> {
    let mut out = String::with_capacity(quoted.len());
    let mut rest = quoted.strip_prefix('"')?.strip_suffix('"')?.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next()? {
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            '0' => out.push('\0'),
            'u' => {
                let code: String = rest.by_ref().skip(1).take_while(|c| *c != '}').collect();
                out.push(char::from_u32(u32::from_str_radix(&code, 16).ok()?)?);
            }
            other => out.push(other),
        }
    }
    Some(out)
}

fn integer(row: &SqliteRow, index: usize) -> Option<i64> {
    row.try_get::<i64, _>(index).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sqlx::Encode;

    fn read<'q, T: Encode<'q, Sqlite> + sqlx::Type<Sqlite>>(value: T) -> Option<KeyValue> {
        let mut buffer = SqliteArgumentsBuffer::default();
        let _ = value.encode_by_ref(&mut buffer).unwrap();
        Sqlite::bound(&buffer, &T::type_info())
    }

    proptest! {
        #[test]
        fn bound_values_are_read_back(n: i64, text: String, blob: Vec<u8>) {
            prop_assert_eq!(read(n), Some(KeyValue::Integer(n.into())));
            prop_assert_eq!(read(text.clone()), Some(KeyValue::Text(text.into())));
            prop_assert_eq!(read(blob.clone()), Some(KeyValue::Bytes(blob.into())));
        }
    }

    #[test]
    fn what_is_no_key_is_not_read() {
        assert_eq!(read(1.5f64), None);
        assert_eq!(read(None::<i64>), None);
    }
}
