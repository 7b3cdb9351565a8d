//! Conditional updates: what each engine is sent, and what it answers. A file an engine, beside that of its locks.
//!
//! Two statements. *Change* locks rows in the order given, decides on the values found under the locks, changes those that
//! meet their conditions, and tells of each what it found: one trip. *Write* assigns values that were decided here to rows
//! that are locked already.

mod mysql;
mod postgres;
mod sqlite;

use futures_core::future::BoxFuture;
use rowlock_footprint::{Dialect, Wait};

use super::Driver;
use crate::{
    KeyValue,
    check::{CounterColumn, Target},
    statement::Statement,
    tally::Tally,
};

/// One statement of a conditional update: its text depends on these, the resource and the column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChangeShape {
    /// Lock, decide and change.
    Change {
        /// Values are assigned; else quantities are added.
        sets: bool,
        /// All rows or none.
        together: bool,
        /// What happens when a row is another's.
        wait: Wait,
        /// It is the whole transaction: a row that it does not change need not be locked, and may go untold.
        alone: bool,
        /// How many keys there is room for ([`Driver::room`]).
        room: usize,
    },
    /// Assign values to locked rows.
    Write {
        /// How many keys there is room for.
        room: usize,
    },
}

/// What the change statement can tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// There is none for so many keys, or for this way to wait.
    Nothing,
    /// Rows that were changed; of others not whether they are there.
    Hits,
    /// Every row that is there.
    All,
}

/// What a change statement did to one row.
#[derive(Clone, Copy, Debug)]
pub struct Changed {
    /// The key's position in the statement, from 0.
    pub at: usize,
    /// The value under the lock, before the change; of a column without a sign, its bits.
    pub found: i64,
    /// Whether it was changed; where the server does not say, the value tells.
    pub done: Option<bool>,
}

/// What rowlock asks of an engine for conditional updates. Not for users.
pub trait UpdateDriver: Driver {
    /// What one change statement for so many keys tells.
    fn told(dialect: Dialect, keys: usize, wait: Wait) -> Told;
    /// The text of one statement.
    fn change_text(target: &Target, column: &CounterColumn, shape: ChangeShape) -> String;
    /// The arguments of a change: `keys` in lock order, and what is done to each.
    fn change_arguments(
        dialect: Dialect,
        target: &Target,
        work: (&[KeyValue], &[Tally]),
        shape: ChangeShape,
    ) -> Result<Self::Arguments, sqlx::Error>;
    /// The arguments of a write: the values of `keys`.
    fn write_arguments(
        dialect: Dialect,
        target: &Target,
        work: (&[KeyValue], &[i64]),
        room: usize,
    ) -> Result<Self::Arguments, sqlx::Error>;
    /// Sends a change.
    fn fetch_changed<'e>(
        connection: &'e mut Self::Connection,
        statement: Statement<Self>,
    ) -> BoxFuture<'e, Result<Vec<Changed>, sqlx::Error>>;
    /// The value of the column in a row that [`Driver::lock_text`] gave.
    fn number(row: &Self::Row, column: &CounterColumn) -> Result<i128, sqlx::Error>;
}

/// Adds one argument.
fn add<'q, E: sqlx::Database, T: sqlx::Encode<'q, E> + sqlx::Type<E>>(
    arguments: &mut E::Arguments,
    value: T,
) -> Result<(), sqlx::Error> {
    sqlx::Arguments::add(arguments, value).map_err(sqlx::Error::Encode)
}

/// An end of an interval that was cut to what the column can hold.
fn end(value: i128) -> i64 {
    i64::try_from(value).unwrap_or(if value < 0 { i64::MIN } else { i64::MAX })
}
