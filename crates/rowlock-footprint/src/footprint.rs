//! What the model says of a statement: which rows it locks, how strongly, why, and what it cannot see.

use std::fmt;

use crate::{Strength, TableName};

/// The locks that one statement takes, in the order in which it takes them where that is known.
///
/// ```
/// use rowlock_footprint::{Dialect, Schema, Verb, analyze};
///
/// let sql = "UPDATE orders SET total = app.price(id) WHERE id = $1";
/// let footprint = analyze(sql, Dialect::Postgres, &Schema::default())?;
/// assert_eq!(footprint.verb, Verb::Write);
/// assert_eq!(footprint.locks.len(), 1);
/// assert_eq!(footprint.parameters, 1);
/// assert_eq!(footprint.opaque, ["app.price"]);
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
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
    /// Tables whose rows it locks through a view, by conditions that nobody sees.
    pub through: Vec<Through>,
    /// Temporary tables that it makes: from then on such a name means the session's own.
    pub temporary: Vec<TableName>,
    /// What it sets for longer than the transaction, or in what names mean.
    pub settings: Vec<Setting>,
}

/// A table beneath a view that a statement writes to, or locks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Through {
    /// The view, by its full name.
    pub view: TableName,
    /// The table, by its full name.
    pub table: TableName,
}

/// A setting that reaches beyond the statement's own rows.
///
/// ```
/// use rowlock_footprint::{Dialect, Effect, Schema, analyze};
///
/// let set = |sql| analyze(sql, Dialect::Postgres, &Schema::default()).map(|f| f.settings);
/// assert_eq!(set("SET LOCAL search_path = b")?[0].effect, Effect::Names);
/// assert_eq!(set("SET statement_timeout = 5000")?[0].effect, Effect::Lasts);
/// assert!(set("SET LOCAL statement_timeout = 5000")?.is_empty());
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Its name, or the statement's first word where it has none: `search_path`, `USE`.
    pub name: String,
    /// What it does.
    pub effect: Effect,
}

/// How far a [`Setting`] reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// From here on a name means another table, or shows other rows: the search path, the database, the role.
    Names,
    /// It outlives the transaction: whoever has the connection next has it too.
    Lasts,
}

/// What a statement does.
///
/// ```
/// use rowlock_footprint::{Dialect, Schema, Verb, analyze};
///
/// let verb = |sql| analyze(sql, Dialect::Postgres, &Schema::default()).map(|f| f.verb);
/// assert_eq!(verb("SELECT 1")?, Verb::Read);
/// assert_eq!(verb("WITH gone AS (DELETE FROM orders RETURNING id) SELECT * FROM gone")?, Verb::Write);
/// assert_eq!(verb("TRUNCATE orders")?, Verb::TableLock);
/// // Of several, the one that a policy must look at most closely.
/// assert_eq!(verb("UPDATE orders SET note = ''; COMMIT")?, Verb::TransactionControl);
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
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
///
/// ```
/// use rowlock_footprint::{Cause, Dialect, Schema, Strength, Wait, analyze};
///
/// let sql = "SELECT * FROM jobs ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED";
/// let lock = analyze(sql, Dialect::Postgres, &Schema::default())?.locks.remove(0);
/// assert_eq!((lock.table.name.as_str(), lock.strength), ("jobs", Strength::Update));
/// assert_eq!((&lock.cause, lock.wait), (&Cause::LockingClause, Wait::SkipLocked));
/// assert_eq!(lock.to_string(), "jobs: update, some rows, locking clause, skip locked");
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
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
///
/// ```
/// use rowlock_footprint::{Dialect, Literal, Rows, Schema, Value, analyze};
///
/// let rows = |sql| analyze(sql, Dialect::Postgres, &Schema::default()).map(|f| f.locks[0].rows.clone());
/// let number = |n| vec![Value::Literal(Literal::Integer(n))];
/// assert_eq!(
///     rows("DELETE FROM orders WHERE id IN (105, 42)")?,
///     Rows::Keys { columns: vec!["id".into()], keys: vec![number(105), number(42)] }
/// );
/// assert_eq!(rows("DELETE FROM orders WHERE status = 'old' OR id = 7")?, Rows::Unknown);
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
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
///
/// ```
/// use rowlock_footprint::{Dialect, Rows, Schema, Value, analyze};
///
/// let value = |sql| match analyze(sql, Dialect::Postgres, &Schema::default())?.locks.remove(0).rows {
///     Rows::Keys { mut keys, .. } => Ok(keys.remove(0).remove(0)),
///     _ => Ok(Value::Unknown),
/// };
/// assert_eq!(value("DELETE FROM orders WHERE id = $1::bigint")?, Value::Parameter(0));
/// assert_eq!(value("DELETE FROM orders WHERE id = ANY($1)")?, Value::ParameterArray(0));
/// assert_eq!(value("DELETE FROM orders WHERE id = $1 + 1")?, Value::Unknown);
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
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
///
/// ```
/// use rowlock_footprint::Literal;
///
/// assert_eq!(Literal::Text("it's".into()).to_string(), "'it''s'");
/// assert_eq!(Literal::Bytes(vec![0x0a, 0xff]).to_string(), "x'0aff'");
/// ```
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
///
/// ```
/// use rowlock_footprint::{Cause, Dialect, Schema, analyze};
///
/// let sql = "INSERT INTO stock (id, n) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET n = excluded.n";
/// let footprint = analyze(sql, Dialect::Postgres, &Schema::default())?;
/// let causes: Vec<_> = footprint.locks.into_iter().map(|l| l.cause).collect();
/// assert_eq!(causes, [Cause::Insert, Cause::Upsert]);
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
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
///
/// ```
/// use rowlock_footprint::{Dialect, Schema, Wait, analyze};
///
/// let sql = "SELECT * FROM orders WHERE id = ? FOR UPDATE NOWAIT";
/// assert_eq!(analyze(sql, Dialect::MySql, &Schema::default())?.locks[0].wait, Wait::NoWait);
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
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
///
/// ```
/// use rowlock_footprint::{Dialect, Schema, analyze};
///
/// let error = analyze("SELECT * FORM orders WHERE", Dialect::Postgres, &Schema::default()).unwrap_err();
/// assert_eq!(error.to_string(), "cannot read the statement: the statement should end before `orders` at Line: 1, Column: 15");
/// ```
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
