//! What runs against one database: its kinds of transactions, as a scenario writes them down or as logs show them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use rowlock_footprint::Isolation;
use rowlock_footprint::{Schema, Value, define};
use serde::{Serialize, Serializer};

use crate::report::Engine;
use crate::scenario::Source;
use crate::sql::split;

/// The transactions of a system, and the schema that they run on: what [`check`](crate::check) looks at.
#[derive(Clone, Debug)]
pub struct Workload {
    /// How its statements are read.
    pub engine: Engine,
    /// How isolated its transactions run that do not say themselves; none: as the engine does that nobody has told.
    pub isolation: Option<Isolation>,
    /// What its schema defines.
    pub schema: Schema,
    /// Its kinds of transactions, in the order in which they were met.
    pub kinds: Vec<Kind>,
    /// What could not be read of it.
    pub unread: Vec<Unjudged>,
}

/// Transactions of one shape: the same statements, with other values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kind {
    /// As its author calls it.
    pub name: String,
    /// What it runs, without BEGIN and COMMIT.
    pub statements: Vec<Statement>,
    /// How isolated it runs, where it says so itself.
    pub isolation: Option<Isolation>,
    /// It is one statement outside of BEGIN.
    pub autocommit: bool,
    /// It ends by ROLLBACK.
    pub rolls_back: bool,
    /// What logs showed of it; none for one that was written down.
    pub seen: Option<Seen>,
}

/// What logs showed of a kind, over all transactions of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// How many they were.
    pub count: u64,
    /// When the first of them ended, as written.
    pub first: Option<String>,
    /// When the last one did.
    pub last: Option<String>,
    /// Parameters that rose in each of them.
    pub rises: Vec<Rise>,
    /// How often one of them was rolled back by a deadlock, and its session then went on with the failed statement alone.
    pub retried_in_part: u64,
}

/// Two parameters of a kind of which the second was never below the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rise {
    /// The number of the first one, as in [`Value::Parameter`].
    pub low: usize,
    /// The number of the second one.
    pub high: usize,
    /// They were never equal either.
    pub strictly: bool,
}

/// A statement of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    /// As it was written, without its semicolon. In one of a log, keys that differ from one transaction to the next are
    /// `$n` or `?`; other literals are those of the first transaction.
    pub text: String,
    /// Where.
    pub place: Place,
    /// What the n-th parameter of the text stands for in its kind: a parameter that several statements can share, or a
    /// value that it always had. Empty for one that was written down: there `$n` is the same in all, and each `?` is its own.
    pub bindings: Vec<Value>,
    /// How long its transaction had been idle before it.
    pub idle: Option<Idle>,
}

/// How long transactions of a kind stood open without a statement, before one. Only of logs whose times have fractions of a
/// second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Idle {
    /// The longest.
    pub longest: Duration,
    /// How often it was longer than [`Idle::LONG`].
    pub long: u64,
    /// The log had the end of each statement before. Else their beginnings alone were told, and the time that these ran, or
    /// waited, is in it.
    pub net: bool,
}

impl Idle {
    /// From here on it is counted as long.
    pub const LONG: Duration = Duration::from_millis(100);
}

impl Statement {
    /// One that was written down.
    pub fn written(text: impl Into<String>, place: Place) -> Statement {
        Statement { text: text.into(), place, bindings: Vec::new(), idle: None }
    }
}

/// A line of an input.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Place {
    /// As it was named; `-` is standard input.
    #[serde(serialize_with = "text")]
    pub file: Arc<str>,
    /// From 1.
    pub line: usize,
}

/// What could not be judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unjudged {
    /// Where it stands.
    #[serde(flatten)]
    pub place: Place,
    /// The kind of transaction; none for a definition.
    pub transaction: Option<String>,
    /// Why.
    pub reason: String,
}

impl Workload {
    /// One without transactions.
    pub fn new(engine: Engine) -> Workload {
        let mut schema = Schema::default();
        if engine == Engine::Postgres {
            schema.search_path = vec!["public".to_owned()];
        }
        Workload { engine, isolation: None, schema, kinds: Vec::new(), unread: Vec::new() }
    }

    /// How isolated a kind of its runs.
    pub fn isolation_of(&self, kind: &Kind) -> Isolation {
        kind.isolation.or(self.isolation).unwrap_or(Isolation::default_of(self.engine.dialect()))
    }

    /// Reads DDL into its schema: a dump's, or a migration's.
    pub fn define(&mut self, ddl: Source<'_>) {
        let file: Arc<str> = ddl.file.into();
        for piece in split(ddl.text, self.engine) {
            self.define_one(Place { file: file.clone(), line: piece.line }, piece.text);
        }
    }

    pub(crate) fn define_one(&mut self, place: Place, text: &str) {
        if let Err(unreadable) = define(text, self.engine.dialect(), &mut self.schema) {
            self.unread.push(Unjudged { place, transaction: None, reason: unreadable.to_string() });
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

fn text<S: Serializer>(text: &Arc<str>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}
