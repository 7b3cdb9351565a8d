//! What a report's statements lock, by the lock model; and what their words say when the model cannot read them, because
//! they are cut.

use rowlock_footprint::{self as footprint, Footprint, Rows, Schema, Value, analyze};

use crate::report::{Engine, Object, Report};

/// What a statement does, as far as its first words tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Insert,
    Update,
    Delete,
    /// SELECT with a locking clause.
    LockingSelect,
    /// DDL, LOCK TABLE, TRUNCATE.
    Table,
    Commit,
    Other,
}

/// Longest statement that the model is asked about, in bytes; PostgreSQL's reports have 1,024 of it, InnoDB's some 3,000.
const LONGEST: usize = 64 << 10;

/// A statement, read.
#[derive(Clone, Debug)]
pub(crate) struct Statement {
    pub(crate) text: String,
    pub(crate) verb: Verb,
    /// None when the model cannot read it.
    pub(crate) footprint: Option<Footprint>,
}

/// A report with its statements read: what hazards are judged on.
pub(crate) struct Case<'a> {
    pub(crate) report: &'a Report,
    /// The waiting statement of each party.
    pub(crate) current: Vec<Option<Statement>>,
    /// The earlier ones.
    pub(crate) earlier: Vec<Vec<Statement>>,
}

impl Statement {
    pub(crate) fn read(text: &str, engine: Engine) -> Statement {
        let text = text.trim().trim_end_matches(';').trim_end().to_owned();
        let footprint =
            if text.len() > LONGEST { None } else { analyze(&text, engine.dialect(), &Schema::default()).ok() };
        Statement { verb: Verb::of(&text, engine), footprint, text }
    }

    /// The lock that it takes on a table, by the table's last name.
    pub(crate) fn lock(&self, table: &str) -> Option<&footprint::Lock> {
        let mut locks = self.footprint.iter().flat_map(|footprint| &footprint.locks);
        locks.find(|lock| same_table(&lock.table.name, table))
    }

    /// The first table that it locks rows of.
    pub(crate) fn table(&self) -> Option<String> {
        self.footprint.as_ref()?.locks.first().map(|lock| lock.table.to_string())
    }

    /// Columns and values of the one row that it locks in a table.
    pub(crate) fn key(&self, table: &str) -> Option<(&[String], &[Value])> {
        match self.keys(table)? {
            (columns, [key]) => Some((columns, key)),
            _ => None,
        }
    }

    /// Columns and values of the rows that it locks in a table.
    pub(crate) fn keys(&self, table: &str) -> Option<(&[String], &[Vec<Value>])> {
        match &self.lock(table)?.rows {
            Rows::Keys { columns, keys } => Some((columns, keys)),
            Rows::Unknown | Rows::Fresh => None,
        }
    }

    /// Whether it may lock several rows of a table.
    pub(crate) fn several(&self, table: &str) -> bool {
        self.lock(table).is_some_and(|lock| match &lock.rows {
            Rows::Keys { keys, .. } => {
                keys.len() > 1 || keys.iter().flatten().any(|value| matches!(value, Value::ParameterArray(_)))
            }
            Rows::Unknown => true,
            Rows::Fresh => false,
        })
    }
}

impl Verb {
    pub(crate) fn of(text: &str, engine: Engine) -> Verb {
        let shape = crate::sql::shape(text.get(..400).unwrap_or(text), engine);
        let whole = || crate::sql::shape(text, engine);
        let first = shape.split([' ', '(', ';']).find(|word| !word.is_empty()).unwrap_or_default();
        match first {
            "insert" | "replace" | "copy" => Verb::Insert,
            "update" => Verb::Update,
            "delete" => Verb::Delete,
            "select" | "with" if is_locking(&whole()) => Verb::LockingSelect,
            "alter" | "create" | "drop" | "truncate" | "lock" | "reindex" | "vacuum" | "cluster" | "refresh"
            | "analyze" | "rename" => Verb::Table,
            "commit" | "end" => Verb::Commit,
            _ => Verb::Other,
        }
    }
}

/// Whether a shape has a locking clause.
pub(crate) fn is_locking(shape: &str) -> bool {
    ["for update", "for no key update", "for share", "for key share", "lock in share mode"]
        .iter()
        .any(|clause| shape.contains(clause))
}

/// Whether two names, with schema or without, can be of one table.
pub(crate) fn same_table(a: &str, b: &str) -> bool {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().trim_matches(['"', '`']).to_ascii_lowercase();
    !a.is_empty() && last(a) == last(b)
}

impl<'a> Case<'a> {
    pub(crate) fn read(report: &'a Report) -> Case<'a> {
        let read = |text: &String| Statement::read(text, report.engine);
        let current = report.parties.iter().map(|party| party.statement.as_ref().map(read)).collect();
        let earlier = report.parties.iter().map(|party| party.earlier.iter().map(read).collect()).collect();
        Case { report, current, earlier }
    }

    pub(crate) fn count(&self) -> usize {
        self.report.parties.len()
    }

    pub(crate) fn current(&self, party: usize) -> Option<&Statement> {
        self.current.get(party)?.as_ref()
    }

    pub(crate) fn verb(&self, party: usize) -> Verb {
        self.current(party).map_or(Verb::Other, |statement| statement.verb)
    }

    /// The table of what a party waits for: the server's word, or else that of its statement, when this locks one table.
    pub(crate) fn wanted_table(&self, party: usize) -> Option<String> {
        let wait = self.report.parties.get(party)?.waits.as_ref()?;
        if let Some(table) = wait.table() {
            return Some(table.to_owned());
        }
        if matches!(wait.object, Object::Advisory(_) | Object::Other(_)) {
            return None;
        }
        let locks = &self.current(party)?.footprint.as_ref()?.locks;
        let first = locks.first()?;
        locks.iter().all(|lock| lock.table == first.table).then(|| first.table.to_string())
    }

    /// The table of what a party holds: what the one that waits for it wants.
    pub(crate) fn held_table(&self, party: usize) -> Option<String> {
        self.wanted_table(self.report.waiter(party)?)
    }

    /// The key of the row that a party waits for, by its statement.
    pub(crate) fn wanted_key(&self, party: usize) -> Option<(&[String], &[Value])> {
        self.current(party)?.key(&self.wanted_table(party)?)
    }

    /// The statement that took what a party holds, if the log has it: the last one that locks such a row.
    pub(crate) fn taker(&self, party: usize) -> Option<&Statement> {
        let waiter = self.report.waiter(party)?;
        let earlier = || self.earlier.get(party).into_iter().flatten().rev();
        let wait = self.report.parties.get(waiter)?.waits.as_ref()?;
        if matches!(wait.object, Object::Advisory(_)) {
            return earlier().find(|statement| statement.text.to_ascii_lowercase().contains("advisory"));
        }
        let table = self.wanted_table(waiter)?;
        let wanted = self.wanted_key(waiter);
        let takes = |statement: &&Statement| match (statement.keys(&table), wanted) {
            (Some((columns, keys)), Some((wanted_columns, key))) => {
                columns != wanted_columns || keys.iter().any(|held| may_equal(held, key))
            }
            _ => statement.lock(&table).is_some(),
        };
        earlier().find(takes)
    }

    /// Whether all parties run statements of one shape.
    pub(crate) fn one_shape(&self) -> bool {
        let shape =
            |party: usize| self.current(party).map(|statement| crate::sql::shape(&statement.text, self.report.engine));
        self.count() > 1 && shape(0).is_some() && (1..self.count()).all(|party| shape(party) == shape(0))
    }

    /// Whether a line of a party's CONTEXT has one of these texts.
    pub(crate) fn context_has(&self, texts: &[&str]) -> bool {
        let mut lines = self.report.parties.iter().flat_map(|party| &party.context);
        lines.any(|line| texts.iter().any(|text| line.contains(text)))
    }
}

fn may_equal(a: &[Value], b: &[Value]) -> bool {
    a.len() == b.len()
        && a.iter().zip(b).all(|pair| match pair {
            (Value::Literal(a), Value::Literal(b)) => a == b,
            _ => true,
        })
}
