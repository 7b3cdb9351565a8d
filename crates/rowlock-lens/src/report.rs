//! What a server wrote about one deadlock, as plain values: who waited for what, and what each is known to hold.
//!
//! A report says little and must not be made to say more: what was not written in it carries what it was inferred from
//! ([`Certainty::Inferred`]), and what nobody wrote stays empty.

use std::fmt;

use rowlock_footprint::Dialect;
use serde::Serialize;

use crate::record::Record;
use crate::workload::Place;

/// Whose report it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// PostgreSQL, of any version, and what speaks like it.
    Postgres,
    /// MySQL, or InnoDB of a version that does not tell the two apart.
    MySql,
    /// MariaDB.
    MariaDb,
}

impl Engine {
    /// How its statements are read.
    pub const fn dialect(self) -> Dialect {
        match self {
            Engine::Postgres => Dialect::Postgres,
            Engine::MySql => Dialect::MySql,
            Engine::MariaDb => Dialect::MariaDb,
        }
    }
}

impl Engine {
    /// By the name that users write: `postgres`, `mysql`, `mariadb`.
    pub fn parse(name: &str) -> Option<Engine> {
        match name.to_ascii_lowercase().as_str() {
            "postgres" | "postgresql" => Some(Engine::Postgres),
            "mysql" => Some(Engine::MySql),
            "mariadb" => Some(Engine::MariaDb),
            _ => None,
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.dialect().fmt(f)
    }
}

/// How sure a statement about a deadlock is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "how", content = "from")]
pub enum Certainty {
    /// The server wrote it.
    Known,
    /// It follows from what the server wrote: from what, in words.
    Inferred(String),
}

/// One deadlock, as reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// Whose it is.
    pub engine: Engine,
    /// The name of the input format: a row of [`FORMATS`](crate::FORMATS).
    pub format: &'static str,
    /// As written, if it was.
    pub time: Option<String>,
    /// The transactions of the cycle, in its order where the report has one: each waits for the next.
    pub parties: Vec<Party>,
    /// Which of `parties` was rolled back.
    pub victim: Option<Victim>,
    /// What is odd about the report, in sentences.
    pub notes: Vec<String>,
}

/// Who was rolled back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Victim {
    /// Its place among the parties.
    pub party: usize,
    /// Whether the report's own word is good.
    pub certainty: Certainty,
}

/// One transaction of the cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Party {
    /// PostgreSQL's process id, InnoDB's thread id.
    pub session: Option<u64>,
    /// InnoDB's transaction id, as written.
    pub transaction: Option<String>,
    /// What it was running: the statement that waits.
    pub statement: Option<String>,
    /// Why `statement` is missing or not whole, in words.
    pub statement_flaw: Option<String>,
    /// What it waits for.
    pub waits: Option<LockRef>,
    /// What it holds.
    pub holds: Vec<LockRef>,
    /// Its place among the parties of whom it waits for.
    pub blocked_by: Option<usize>,
    /// Where in the server the wait came about: PostgreSQL's CONTEXT, line by line.
    pub context: Vec<String>,
    /// Statements of the same transaction that the surrounding log has, oldest first.
    pub earlier: Vec<String>,
    /// Whether `earlier` goes back to the transaction's beginning.
    pub whole: bool,
    /// InnoDB: how much it had changed and locked, by which the victim is chosen.
    pub weight: Option<Weight>,
    /// User, application, address: as far as the log's prefix tells.
    pub origin: Option<String>,
    /// Where the statement stands in what was checked.
    pub place: Option<Place>,
}

/// By what InnoDB chooses the victim.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Weight {
    /// `undo log entries`: rows changed.
    pub undo: u64,
    /// `row lock(s)`.
    pub row_locks: u64,
    /// `lock struct(s)`.
    pub lock_structs: u64,
}

/// A lock that is held or wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockRef {
    /// On what.
    pub object: Object,
    /// The server's own word for its mode: `ShareLock`, `X locks rec but not gap`.
    pub mode: String,
    /// Whether the server wrote it.
    pub certainty: Certainty,
}

/// What is locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// A row, or an entry of an index, or (InnoDB) the gap before it.
    Row(Row),
    /// The end of another transaction, by its id: a row that it has changed, which one is not written.
    Transaction(u64),
    /// A whole table, by name, or by PostgreSQL's number for it.
    Table(String),
    /// A lock of the application's own making: its numbers or name.
    Advisory(String),
    /// Anything else, in the server's words.
    Other(String),
}

/// A row, as far as it is told.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    /// The table.
    pub table: Option<String>,
    /// The index whose entry it is. (PostgreSQL names one only where a key is inserted.)
    pub index: Option<String>,
    /// Where it lies: `(0,10)` on PostgreSQL, `space 5 page 3 heap 2` on InnoDB.
    pub place: Option<String>,
    /// What stands in it.
    pub record: Option<Record>,
    /// Columns of a key with their values as a statement writes them: how `check`, which sees no record, names a row.
    pub key: Option<Vec<(String, String)>>,
}

impl Report {
    /// The transaction that `party` waits for.
    pub fn blocker(&self, party: usize) -> Option<&Party> {
        self.parties.get(self.parties.get(party)?.blocked_by?)
    }

    /// The place among the parties of one that waits for `party`.
    pub fn waiter(&self, party: usize) -> Option<usize> {
        self.parties.iter().position(|other| other.blocked_by == Some(party))
    }
}

impl Party {
    /// `process 23782`, `transaction 36 (thread 8)`.
    pub fn name(&self, engine: Engine) -> String {
        match (engine, self.session, &self.transaction) {
            (Engine::Postgres, Some(pid), _) => format!("process {pid}"),
            (_, Some(thread), Some(transaction)) => format!("transaction {transaction} (thread {thread})"),
            (_, None, Some(transaction)) => format!("transaction {transaction}"),
            (_, Some(thread), None) => format!("thread {thread}"),
            (_, None, None) => "a transaction without a number".to_owned(),
        }
    }
}

impl LockRef {
    /// The row, if it is one.
    pub fn row(&self) -> Option<&Row> {
        match &self.object {
            Object::Row(row) => Some(row),
            _ => None,
        }
    }

    /// The table, if it is told.
    pub fn table(&self) -> Option<&str> {
        match &self.object {
            Object::Row(row) => row.table.as_deref(),
            Object::Table(table) => Some(table),
            _ => None,
        }
    }
}
