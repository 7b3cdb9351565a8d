//! SQLite: `RETURNING` tells of what was changed and of nothing else, so one statement is enough where it changes its row.
//! Otherwise the transaction has the whole file, and looks.

use std::fmt::Write;

use futures_core::future::BoxFuture;
use rowlock_footprint::{Dialect, Wait};
use sqlx::{
    Row, Sqlite, SqliteConnection,
    sqlite::{SqliteArguments, SqliteRow},
};

use super::{ChangeShape, Changed, Told, UpdateDriver, add, end};
use crate::{
    KeyValue,
    check::{CounterColumn, Target},
    engine::{Driver, sqlite::bind},
    statement::Statement,
    tally::Tally,
};

impl UpdateDriver for Sqlite {
    fn told(_: Dialect, keys: usize, _: Wait) -> Told {
        if keys == 1 { Told::Hits } else { Told::Nothing }
    }

    fn change_text(target: &Target, column: &CounterColumn, shape: ChangeShape) -> String {
        let (table, c) = (&target.table, &column.quoted);
        match shape {
            ChangeShape::Change { sets, .. } => {
                // Where it is set, any value that it was set from will do: what it was changes nothing.
                let (set, found) = match sets {
                    true => ("?1".to_owned(), "?2".to_owned()),
                    false => (format!("{c} + ?1"), format!("{c} - ?1")),
                };
                // Of the table by name: a quoted column alone that is not there (any more) would be read as text.
                let mut sql = format!("UPDATE {table} AS t SET {c} = {set} WHERE ");
                for (n, column) in target.columns.iter().enumerate() {
                    let _ = write!(sql, "t.{} = ?{} AND ", column.quoted, n + 4);
                }
                let _ = write!(sql, "typeof({c}) = 'integer' AND {c} BETWEEN ?2 AND ?3 RETURNING {found}");
                sql
            }
            ChangeShape::Write { room } => {
                let columns = target.columns.len();
                let mut sql = String::from("WITH k(");
                for n in 0..columns {
                    let _ = write!(sql, "k{n}, ");
                }
                sql.push_str("v) AS (VALUES ");
                for row in 0..room {
                    let _ = write!(sql, "{}(?{})", if row == 0 { "" } else { ", " }, ", ?".repeat(columns));
                }
                let _ = write!(sql, ") UPDATE {table} AS t SET {c} = k.v FROM k WHERE ");
                for (n, column) in target.columns.iter().enumerate() {
                    let _ = write!(sql, "{}t.{} = k.k{n}", if n == 0 { "" } else { " AND " }, column.quoted);
                }
                sql
            }
        }
    }

    fn change_arguments(
        _: Dialect,
        _: &Target,
        (keys, tallies): (&[KeyValue], &[Tally]),
        _: ChangeShape,
    ) -> Result<Self::Arguments, sqlx::Error> {
        let mut arguments = SqliteArguments::default();
        for tally in tallies {
            for value in [tally.by, end(tally.from.low), end(tally.from.high)] {
                add::<Sqlite, _>(&mut arguments, value)?;
            }
        }
        for key in keys {
            bind(&mut arguments, key)?;
        }
        Ok(arguments)
    }

    fn write_arguments(
        _: Dialect,
        target: &Target,
        (keys, values): (&[KeyValue], &[i64]),
        room: usize,
    ) -> Result<Self::Arguments, sqlx::Error> {
        let mut arguments = SqliteArguments::default();
        for (key, value) in keys.iter().zip(values) {
            bind(&mut arguments, key)?;
            add::<Sqlite, _>(&mut arguments, *value)?;
        }
        for _ in 0..room.saturating_sub(keys.len()) * (target.columns.len() + 1) {
            add::<Sqlite, _>(&mut arguments, None::<i64>)?;
        }
        Ok(arguments)
    }

    fn fetch_changed<'e>(
        connection: &'e mut SqliteConnection,
        statement: Statement<Self>,
    ) -> BoxFuture<'e, Result<Vec<Changed>, sqlx::Error>> {
        Box::pin(async move {
            let rows = Self::fetch_all(connection, statement).await?;
            rows.iter().map(|row| Ok(Changed { at: 0, found: row.try_get(0)?, done: Some(true) })).collect()
        })
    }

    fn number(row: &SqliteRow, column: &CounterColumn) -> Result<i128, sqlx::Error> {
        row.try_get::<i64, _>(&*column.name).map(i128::from)
    }
}
