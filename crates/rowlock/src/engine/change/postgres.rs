//! PostgreSQL: `l` locks in the order of `ord` and reads under the locks, `u` changes what `l` let through.
//!
//! A plain `UPDATE .. FROM unnest(..)` locks in the order of its join. A subquery that reads what an UPDATE beside it
//! waits for reads it as it was when the statement began; `l` reads what it has locked.

use std::fmt::Write;

use futures_core::future::BoxFuture;
use rowlock_footprint::{Dialect, Wait};
use sqlx::{PgConnection, Postgres, Row, postgres::PgRow};

use super::{ChangeShape, Changed, Told, UpdateDriver, add, end};
use crate::{
    KeyValue,
    check::{CounterColumn, Target},
    engine::{Driver, postgres::array_type},
    statement::Statement,
    tally::Tally,
};

impl UpdateDriver for Postgres {
    fn told(_: Dialect, _: usize, _: Wait) -> Told {
        Told::All
    }

    fn change_text(target: &Target, column: &CounterColumn, shape: ChangeShape) -> String {
        match shape {
            ChangeShape::Change { sets: false, wait: Wait::Wait, alone: true, room: 1, .. } => alone(target, column),
            ChangeShape::Change { sets, wait, room: 1, .. } => one(target, column, sets, wait),
            ChangeShape::Change { sets, together, wait, .. } => many(target, column, sets, together, wait),
            ChangeShape::Write { .. } => write(target, column),
        }
    }

    fn change_arguments(
        dialect: Dialect,
        target: &Target,
        (keys, tallies): (&[KeyValue], &[Tally]),
        shape: ChangeShape,
    ) -> Result<Self::Arguments, sqlx::Error> {
        let (together, room) = match shape {
            ChangeShape::Change { together, room, .. } => (together, room),
            ChangeShape::Write { room } => (false, room),
        };
        let mut arguments = Self::lock_arguments(dialect, target, keys, room)?;
        let (by, low, high) = (
            tallies.iter().map(|t| t.by),
            tallies.iter().map(|t| end(t.from.low)),
            tallies.iter().map(|t| end(t.from.high)),
        );
        if room == 1 {
            for value in by.take(1).chain(low.take(1)).chain(high.take(1)) {
                add::<Postgres, _>(&mut arguments, value)?;
            }
            return Ok(arguments);
        }
        add::<Postgres, _>(&mut arguments, by.collect::<Vec<_>>())?;
        add::<Postgres, _>(&mut arguments, low.collect::<Vec<_>>())?;
        add::<Postgres, _>(&mut arguments, high.collect::<Vec<_>>())?;
        if together {
            add::<Postgres, _>(&mut arguments, i64::try_from(keys.len()).unwrap_or(i64::MAX))?;
        }
        Ok(arguments)
    }

    fn write_arguments(
        dialect: Dialect,
        target: &Target,
        (keys, values): (&[KeyValue], &[i64]),
        _: usize,
    ) -> Result<Self::Arguments, sqlx::Error> {
        let mut arguments = Self::lock_arguments(dialect, target, keys, 0)?;
        add::<Postgres, _>(&mut arguments, values)?;
        Ok(arguments)
    }

    fn fetch_changed<'e>(
        connection: &'e mut PgConnection,
        statement: Statement<Self>,
    ) -> BoxFuture<'e, Result<Vec<Changed>, sqlx::Error>> {
        Box::pin(async move {
            let rows = Self::fetch_all(connection, statement).await?;
            rows.iter()
                .map(|row| {
                    let at: i64 = row.try_get(0)?;
                    let (found, done) = (row.try_get(1)?, row.try_get(2)?);
                    Ok(Changed { at: usize::try_from(at - 1).unwrap_or(usize::MAX), found, done: Some(done) })
                })
                .collect()
        })
    }

    fn number(row: &PgRow, column: &CounterColumn) -> Result<i128, sqlx::Error> {
        let name = &*column.name;
        let narrow =
            || row.try_get::<i32, _>(name).map(i64::from).or_else(|_| row.try_get::<i16, _>(name).map(i64::from));
        row.try_get::<i64, _>(name).or_else(|_| narrow()).map(i128::from)
    }
}

/// The condition that finds one key, as a plain look-up.
fn by_key(target: &Target) -> String {
    let mut key = String::new();
    for (n, column) in target.columns.iter().enumerate() {
        let and = if n == 0 { "" } else { " AND " };
        let _ = write!(key, "{and}t.{} = ${}::{}", column.quoted, n + 1, array_type(column.key));
    }
    key
}

/// One key, when nothing else is in the transaction: on a hot row half as much again as with a lock before (by `pgbench`). A
/// row that is not changed is told as it was when the statement began, and is then neither locked nor waited for. What was
/// changed by others meanwhile may have met the condition before and not after: it goes untold, as if it were missing.
fn alone(target: &Target, column: &CounterColumn) -> String {
    let (table, c, key, n) = (&target.table, &column.quoted, by_key(target), target.columns.len());
    let (by, low, high) = (format!("${}::bigint", n + 1), format!("${}::bigint", n + 2), format!("${}::bigint", n + 3));
    // What a trigger made of the value does not make a change one that was not.
    format!(
        "WITH u AS (UPDATE {table} t SET {c} = t.{c} + {by} WHERE {key} AND t.{c} BETWEEN {low} AND {high} RETURNING t.{c}::bigint v) \
         SELECT 1::bigint, least(greatest(v - {by}, {low}), {high}), true FROM u \
         UNION ALL SELECT 1::bigint, t.{c}::bigint, false FROM {table} t \
         WHERE {key} AND t.{c} NOT BETWEEN {low} AND {high} AND NOT EXISTS (SELECT FROM u)"
    )
}

/// One key, locked first: it is known as it is.
fn one(target: &Target, column: &CounterColumn, sets: bool, wait: Wait) -> String {
    let (table, c, key) = (&target.table, &column.quoted, by_key(target));
    let n = target.columns.len();
    let (by, low, high) = (n + 1, n + 2, n + 3);
    let value = if sets { "" } else { "l.v + " };
    let nowait = if wait == Wait::NoWait { " NOWAIT" } else { "" };
    format!(
        "WITH l AS MATERIALIZED (SELECT t.{c}::bigint v FROM {table} t WHERE {key} FOR NO KEY UPDATE OF t{nowait}), \
         u AS (UPDATE {table} t SET {c} = {value}${by}::bigint FROM l WHERE {key} AND l.v BETWEEN ${low}::bigint AND ${high}::bigint \
         RETURNING 1) \
         SELECT 1::bigint, l.v, EXISTS (SELECT FROM u) FROM l"
    )
}

fn many(target: &Target, column: &CounterColumn, sets: bool, together: bool, wait: Wait) -> String {
    let (table, c) = (&target.table, &column.quoted);
    let n = target.columns.len();
    let (mut arrays, mut names, mut keys) = (String::new(), String::new(), String::new());
    let (mut join, mut again) = (String::new(), String::new());
    for (n, column) in target.columns.iter().enumerate() {
        let and = if n == 0 { "" } else { " AND " };
        let _ = write!(arrays, "${}::{}[], ", n + 1, array_type(column.key));
        let _ = write!(names, "k{n}, ");
        let _ = write!(keys, "t.{} k{n}, ", column.quoted);
        let _ = write!(join, "{and}t.{} = k.k{n}", column.quoted);
        if let Some(collation) = &column.collation {
            let _ = write!(join, " COLLATE {collation}");
        }
        let _ = write!(again, "t.{} = l.k{n} AND ", column.quoted);
    }
    let (by, low, high, all) = (n + 1, n + 2, n + 3, n + 4);
    let value = if sets { "" } else { "l.v + " };
    let nowait = if wait == Wait::NoWait { " NOWAIT" } else { "" };
    let gate = match together {
        true => format!(" AND (SELECT count(*) FILTER (WHERE ok) FROM l) = ${all}::bigint"),
        false => String::new(),
    };
    format!(
        "WITH l AS MATERIALIZED (SELECT k.ord, {keys}t.{c}::bigint v, k.b, t.{c} BETWEEN k.low AND k.high ok \
         FROM unnest({arrays}${by}::bigint[], ${low}::bigint[], ${high}::bigint[]) WITH ORDINALITY k({names}b, low, high, ord) \
         JOIN {table} t ON {join} ORDER BY k.ord FOR NO KEY UPDATE OF t{nowait}), \
         u AS (UPDATE {table} t SET {c} = {value}l.b FROM l WHERE {again}l.ok{gate} RETURNING l.ord) \
         SELECT l.ord, l.v, u.ord IS NOT NULL FROM l LEFT JOIN u ON u.ord = l.ord"
    )
}

fn write(target: &Target, column: &CounterColumn) -> String {
    let (mut arrays, mut names, mut join) = (String::new(), String::new(), String::new());
    for (n, column) in target.columns.iter().enumerate() {
        let _ = write!(arrays, "${}::{}[], ", n + 1, array_type(column.key));
        let _ = write!(names, "k{n}, ");
        let _ = write!(join, "{}t.{} = k.k{n}", if n == 0 { "" } else { " AND " }, column.quoted);
        if let Some(collation) = &column.collation {
            let _ = write!(join, " COLLATE {collation}");
        }
    }
    format!(
        "UPDATE {} t SET {} = k.v FROM unnest({arrays}${}::bigint[]) k({names}v) WHERE {join}",
        target.table,
        column.quoted,
        target.columns.len() + 1
    )
}
