use std::fmt;

use crate::{Strength, TableName};

/// The locks that one statement takes, in the order in which it takes them where that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// What the statement does, for messages and for the guard's policy.
    pub verb: Verb,
    /// The row locks, those of foreign keys and cascades included. Empty for a plain read.
    pub locks: Vec<Lock>,
    /// The highest `$n`, or the number of `?`: how many values the statement wants.
    pub parameters: usize,
    /// Names that run code the text does not show (triggers, rules, functions that may write): they may lock more.
    pub opaque: Vec<String>,
}

/// What a statement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// SELECT, with or without a locking clause; also VALUES, TABLE, SHOW, EXPLAIN without ANALYZE.
    Read,
    /// INSERT, upsert, REPLACE, UPDATE, DELETE, MERGE, or a CTE that has one.
    Write,
    /// BEGIN, COMMIT, ROLLBACK, SAVEPOINT, SET TRANSACTION: rowlock's own to send.
    TransactionControl,
    /// DDL, TRUNCATE, LOCK TABLE, VACUUM: locks whole tables.
    TableLock,
    /// SET, RESET, DISCARD and the like: changes the session.
    Session,
    /// CALL, DO, EXECUTE and all else that hides what it does.
    Opaque,
}

/// Locks of one strength on some rows of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lock {
    /// The table's full name when the schema has it, else as written (folded).
    pub table: TableName,
    /// As the dialect takes it ([`Strength::on`]).
    pub strength: Strength,
    /// Which rows.
    pub rows: Rows,
    /// Why.
    pub cause: Cause,
    /// What happens when another transaction has the row.
    pub wait: Wait,
}

/// Which rows a lock is on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rows {
    /// The rows in which `columns` equal one of `keys`. For a table of the schema: the columns of a whole primary or
    /// unique key, in the key's order, so that each entry is at most one row.
    Keys {
        /// Names as stored.
        columns: Vec<String>,
        /// One entry a row, each as long as `columns`, in the statement's order.
        keys: Vec<Vec<Value>>,
    },
    /// Some rows of the table; which, the text does not say.
    Unknown,
    /// A row that the statement makes, with a key that the server makes and that no other transaction can ask for, in a
    /// table with no other unique key: nobody is waited for.
    Fresh,
}

/// One value of a key, as the statement gives it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// Written in the text.
    Literal(Literal),
    /// The n-th bound value, from 0.
    Parameter(usize),
    /// Any element of the n-th bound value, from 0, which is an array: `= ANY($1)`, `unnest($1)`. Two of them in one
    /// key stand for every pairing, of which the statement may mean only some.
    ParameterArray(usize),
    /// Anything else: an expression, a subquery, another table's column. One value, but which?
    Unknown,
}

/// A literal of the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Literal {
    /// An integer that fits.
    Integer(i128),
    /// A string, unescaped. (Also a UUID in quotes: the column's type decides.)
    Text(String),
    /// A hexadecimal or bytea literal, decoded.
    Bytes(Vec<u8>),
    /// NULL: equal to no row.
    Null,
}

/// Why a statement takes a lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cause {
    /// `FOR UPDATE` and its kin.
    LockingClause,
    /// The row is updated.
    Update,
    /// The row is deleted.
    Delete,
    /// The row is made.
    Insert,
    /// The row stands in the way of an upsert or REPLACE and is changed or replaced.
    Upsert,
    /// The row is the parent that a foreign key of this name checks, or a child for whose sake the parent may not go.
    ForeignKey(String),
    /// The row is a child that a foreign key of this name changes or deletes with its parent.
    Cascade(String),
    /// InnoDB only: the row is read inside a writing statement (INSERT .. SELECT, a subquery of UPDATE) and locked shared.
    Read,
}

/// What a statement does when it meets a lock of another transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Wait {
    /// It waits. (MariaDB's `WAIT n` waits, too, if not for ever.)
    Wait,
    /// `NOWAIT`: it fails.
    NoWait,
    /// `SKIP LOCKED`: it leaves the row out.
    SkipLocked,
}

/// A text that the model cannot read: a syntax error, a statement it does not know, or one that is too deep or too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    /// What was wrong, with line and column where the parser knows them.
    pub reason: String,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read the statement: {}", self.reason)
    }
}

impl std::error::Error for Unreadable {}
