//! MySQL and MariaDB, which have no `UPDATE .. RETURNING`. One row is changed and told of in one trip all the same: the
//! answer to an UPDATE carries how many rows it met, and the value that `LAST_INSERT_ID(value)` was given while it met them.
//! Several are locked first, decided on here, and written by a join on the rows' keys.

use std::fmt::Write;

use futures_core::future::BoxFuture;
use futures_util::TryStreamExt;
use rowlock_footprint::{Dialect, Wait};
use sqlx::{
    Either, Executor, MySql, MySqlConnection, Row,
    mysql::{MySqlArguments, MySqlRow},
};

use super::{ChangeShape, Changed, Told, UpdateDriver, add, end};
use crate::{
    KeyValue,
    check::{CounterColumn, Target},
    checkout::behind,
    engine::{
        Driver,
        mysql::{bind, value},
    },
    statement::Statement,
    tally::Tally,
};

impl UpdateDriver for MySql {
    fn told(_: Dialect, keys: usize, wait: Wait) -> Told {
        // There is no `UPDATE .. NOWAIT`.
        if keys == 1 && wait == Wait::Wait { Told::All } else { Told::Nothing }
    }

    fn change_text(target: &Target, column: &CounterColumn, shape: ChangeShape) -> String {
        match shape {
            ChangeShape::Change { sets, .. } => change(target, column, sets),
            ChangeShape::Write { room } => write(target, column, room),
        }
    }

    fn change_arguments(
        _: Dialect,
        target: &Target,
        (keys, tallies): (&[KeyValue], &[Tally]),
        _: ChangeShape,
    ) -> Result<Self::Arguments, sqlx::Error> {
        let mut arguments = MySqlArguments::default();
        for (key, tally) in keys.iter().zip(tallies) {
            for value in [end(tally.from.low), end(tally.from.high), tally.by] {
                add::<MySql, _>(&mut arguments, value)?;
            }
            bind(&mut arguments, key.columns(), target)?;
        }
        Ok(arguments)
    }

    fn write_arguments(
        _: Dialect,
        target: &Target,
        (keys, values): (&[KeyValue], &[i64]),
        room: usize,
    ) -> Result<Self::Arguments, sqlx::Error> {
        let mut arguments = MySqlArguments::default();
        for (key, value) in keys.iter().zip(values) {
            bind(&mut arguments, key.columns(), target)?;
            add::<MySql, _>(&mut arguments, *value)?;
        }
        // What is left is filled by NULL, which joins nothing.
        for _ in 0..room.saturating_sub(keys.len()) * (target.columns.len() + 1) {
            add::<MySql, _>(&mut arguments, None::<i64>)?;
        }
        Ok(arguments)
    }

    fn fetch_changed<'e>(
        connection: &'e mut MySqlConnection,
        statement: Statement<Self>,
    ) -> BoxFuture<'e, Result<Vec<Changed>, sqlx::Error>> {
        Box::pin(async move {
            let mut steps = Self::fetch_many(connection, statement);
            let mut told = None;
            while let Some(step) = steps.try_next().await? {
                // sqlx asks for the rows that were met (CLIENT_FOUND_ROWS), changed or not.
                if let Either::Left(result) = step
                    && result.rows_affected() > 0
                {
                    told = Some(result.last_insert_id());
                }
            }
            drop(steps);
            if told == Some(0) {
                // A trigger that runs a statement takes it out of the answer; the session keeps it.
                let asked = connection.fetch_one("SELECT LAST_INSERT_ID()").await.map_err(behind::<MySql>)?;
                told = Some(asked.try_get_unchecked(0)?);
            }
            Ok(told.map(|told| Changed { at: 0, found: (told ^ TOLD).cast_signed(), done: None }).into_iter().collect())
        })
    }

    fn number(row: &MySqlRow, column: &CounterColumn) -> Result<i128, sqlx::Error> {
        match column.unsigned {
            true => row.try_get_unchecked::<u64, _>(&*column.name).map(i128::from),
            false => row.try_get_unchecked::<i64, _>(&*column.name).map(i128::from),
        }
    }
}

/// What a value is told by: 0 says that nothing was told, so the bit that turns 0 into another is turned.
const TOLD: u64 = 1 << 63;

fn change(target: &Target, column: &CounterColumn, sets: bool) -> String {
    let c = &column.quoted;
    let sign = sign(column);
    // True whatever the value, and no optimizer knows it: the value is handed over, and takes no part in what is computed,
    // where its sign would be lost.
    let told = format!(
        "(LAST_INSERT_ID(t.{c} ^ {TOLD}) = 0) IN (0, 1) AND t.{c} BETWEEN CAST(? AS {sign}) AND CAST(? AS {sign})"
    );
    let set = match sets {
        true => format!("IF({told}, CAST(? AS {sign}), t.{c})"),
        false => format!("t.{c} + IF({told}, CAST(? AS SIGNED), 0)"),
    };
    let mut sql = format!("UPDATE {} t FORCE INDEX ({}) SET t.{c} = {set} WHERE ", target.table, target.index);
    for (n, column) in target.columns.iter().enumerate() {
        let _ = write!(sql, "{}t.{} = ", if n == 0 { "" } else { " AND " }, column.quoted);
        value(&mut sql, column);
    }
    sql
}

fn write(target: &Target, column: &CounterColumn, room: usize) -> String {
    let mut sql = String::from("UPDATE (");
    let sign = sign(column);
    for row in 0..room {
        sql.push_str(if row == 0 { "SELECT " } else { " UNION ALL SELECT " });
        for (n, column) in target.columns.iter().enumerate() {
            value(&mut sql, column);
            sql.push_str(&if row == 0 { format!(" k{n}, ") } else { ", ".to_owned() });
        }
        let _ = write!(sql, "CAST(? AS {sign}){}", if row == 0 { " v" } else { "" });
    }
    let _ = write!(sql, ") k STRAIGHT_JOIN {} t FORCE INDEX ({}) ON ", target.table, target.index);
    for (n, column) in target.columns.iter().enumerate() {
        let _ = write!(sql, "{}t.{} = k.k{n}", if n == 0 { "" } else { " AND " }, column.quoted);
    }
    let _ = write!(sql, " SET t.{} = k.v", column.quoted);
    sql
}

fn sign(column: &CounterColumn) -> &'static str {
    if column.unsigned { "UNSIGNED" } else { "SIGNED" }
}
