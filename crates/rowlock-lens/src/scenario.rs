//! A scenario: plain SQL, as `psql` or `mysql` would run it, in which comments say what is the schema and what a transaction.

use std::fmt;

use rowlock_footprint::{Schema, define};

use crate::report::Engine;
use crate::sql::split;

/// What a scenario file says.
///
/// ```
/// use rowlock_lens::Scenario;
///
/// let text = "-- rowlock: engine postgres
/// -- rowlock: schema
/// create table stock (id bigint primary key, n int not null);
/// -- rowlock: transaction api
/// begin; update stock set n = n - 1 where id = 20; update stock set n = n - 1 where id = 30; commit;
/// ";
/// let scenario = Scenario::read(text, None, "")?;
/// assert_eq!(scenario.transactions[0].name, "api");
/// assert_eq!(scenario.transactions[0].statements.len(), 2);
/// # Ok::<_, rowlock_lens::ScenarioError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Scenario {
    /// How its statements are read.
    pub engine: Engine,
    /// What its schema defines.
    pub schema: Schema,
    /// Its transactions, in the order of the file.
    pub transactions: Vec<ScenarioTransaction>,
    /// Definitions that could not be read: the line, and why.
    pub unread: Vec<ScenarioError>,
}

/// A transaction of a scenario: what stands between BEGIN and COMMIT, or one statement outside of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioTransaction {
    /// As the directive names it; a second one under the same directive is `name (2)`.
    pub name: String,
    /// What it runs, without BEGIN and COMMIT, each with its line.
    pub statements: Vec<(usize, String)>,
}

/// What is wrong with a scenario, and in which line of which text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// From 1; of the schema that was given beside the scenario, if `in_schema`.
    pub line: usize,
    /// The line is one of the schema's text, not of the scenario's.
    pub in_schema: bool,
    /// What is wrong, and what to write instead.
    pub reason: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.in_schema { " of the schema" } else { "" };
        write!(f, "line {}{of}: {}", self.line, self.reason)
    }
}

impl std::error::Error for ScenarioError {}

/// Where the reader is.
enum Section {
    Before,
    Schema,
    Transaction { name: String, open: bool, count: usize },
}

/// What a directive may say.
const DIRECTIVES: &str = "`-- rowlock: engine postgres` (or mysql, mariadb), `-- rowlock: schema`, and \
                          `-- rowlock: transaction NAME`";

impl Scenario {
    /// Reads a scenario. `engine` is what it is read as when it does not say; `schema` is DDL that comes before its own.
    ///
    /// # Errors
    ///
    /// A directive that is not known, a missing engine, a file without a transaction. A definition that cannot be read is no
    /// error: see [`unread`](Scenario::unread).
    pub fn read(text: &str, engine: Option<Engine>, schema: &str) -> Result<Scenario, ScenarioError> {
        let error = |line, reason: String| ScenarioError { line, in_schema: false, reason };
        let engine = match (declared_engine(text)?, engine) {
            (Some(declared), _) => declared,
            (None, Some(given)) => given,
            (None, None) => {
                return Err(error(1, format!("it does not say which server runs it; directives are {DIRECTIVES}")));
            }
        };
        let mut scenario = Scenario { engine, schema: Schema::default(), transactions: Vec::new(), unread: Vec::new() };
        if engine == Engine::Postgres {
            scenario.schema.search_path = vec!["public".to_owned()];
        }
        for piece in split(schema, engine) {
            scenario.define(piece.line, piece.text, true);
        }
        let mut section = Section::Before;
        for piece in split(text, engine) {
            match directive(piece.text) {
                Some(words) => section = scenario.enter(&words, piece.line)?,
                None => scenario.statement(piece.line, piece.text, &mut section)?,
            }
        }
        match scenario.transactions.is_empty() {
            true => Err(error(1, format!("it has no transaction; directives are {DIRECTIVES}"))),
            false => Ok(scenario),
        }
    }

    fn define(&mut self, line: usize, text: &str, in_schema: bool) {
        if let Err(unreadable) = define(text, self.engine.dialect(), &mut self.schema) {
            self.unread.push(ScenarioError { line, in_schema, reason: unreadable.to_string() });
        }
    }

    fn enter(&mut self, words: &[&str], line: usize) -> Result<Section, ScenarioError> {
        match words {
            ["engine", _] => Ok(Section::Before),
            ["schema"] => Ok(Section::Schema),
            ["transaction", name] => {
                let count = self.transactions.iter().filter(|other| base(&other.name) == *name).count();
                Ok(Section::Transaction { name: (*name).to_owned(), open: false, count })
            }
            other => {
                let reason = format!("no directive is `{}`; there are {DIRECTIVES}", other.join(" "));
                Err(ScenarioError { line, in_schema: false, reason })
            }
        }
    }

    fn statement(&mut self, line: usize, text: &str, section: &mut Section) -> Result<(), ScenarioError> {
        let (name, open, count) = match section {
            Section::Transaction { name, open, count } => (name, open, count),
            Section::Schema => {
                self.define(line, text, false);
                return Ok(());
            }
            Section::Before => {
                let reason = format!("a statement before any directive; there are {DIRECTIVES}");
                return Err(ScenarioError { line, in_schema: false, reason });
            }
        };
        let words: Vec<String> = text.split_whitespace().take(3).map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let new = |count: &mut usize| {
            *count += 1;
            let name = if *count == 1 { name.clone() } else { format!("{name} ({count})") };
            ScenarioTransaction { name, statements: Vec::new() }
        };
        match words.as_slice() {
            ["begin", ..] | ["start", "transaction", ..] => {
                *open = true;
                self.transactions.push(new(count));
            }
            // A savepoint's locks stay on InnoDB, and are counted as if they did elsewhere.
            ["rollback", "to", ..] | ["rollback", "work", "to"] | ["savepoint" | "release" | "set", ..] => {}
            ["commit" | "end" | "rollback" | "abort", ..] => *open = false,
            _ => {
                if !*open {
                    self.transactions.push(new(count));
                }
                if let Some(transaction) = self.transactions.last_mut() {
                    transaction.statements.push((line, text.to_owned()));
                }
            }
        }
        Ok(())
    }
}

fn base(name: &str) -> &str {
    name.split(" (").next().unwrap_or(name)
}

/// The words of `-- rowlock: ..`.
fn directive(text: &str) -> Option<Vec<&str>> {
    let words = text.strip_prefix("--")?.trim_start().strip_prefix("rowlock:")?;
    Some(words.split_whitespace().collect())
}

fn declared_engine(text: &str) -> Result<Option<Engine>, ScenarioError> {
    for (at, line) in text.lines().enumerate() {
        if let Some(["engine", name]) = directive(line.trim()).as_deref() {
            return match Engine::parse(name) {
                Some(engine) => Ok(Some(engine)),
                None => {
                    let reason = format!("no engine is called `{name}`: write postgres, mysql or mariadb");
                    Err(ScenarioError { line: at + 1, in_schema: false, reason })
                }
            };
        }
    }
    Ok(None)
}
