//! A scenario: plain SQL, as `psql` or `mysql` would run it, in which comments say what is the schema and what a transaction.

use std::fmt;
use std::sync::Arc;

use crate::report::Engine;
use crate::sql::{self, split};
use crate::workload::{Isolation, Kind, Place, Statement, Workload};

/// A text with the name of its file.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// As users name it; `-` is standard input.
    pub file: &'a str,
    /// What it holds.
    pub text: &'a str,
}

/// What is wrong with a scenario, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    /// Where.
    pub place: Place,
    /// What is wrong, and what to write instead.
    pub reason: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.reason)
    }
}

impl std::error::Error for ScenarioError {}

/// Where the reader is.
enum Section {
    Before,
    Schema,
    Transaction(Reading),
}

/// A transaction's section, as far as it was read.
struct Reading {
    name: String,
    /// Within BEGIN and COMMIT.
    open: bool,
    /// How many transactions it has had.
    count: usize,
    /// What SET has said of all that follow, and of the next.
    isolation: Option<Isolation>,
    next: Option<Isolation>,
}

/// What a directive may say.
const DIRECTIVES: &str = "`-- rowlock: engine postgres` (or mysql, mariadb), `-- rowlock: isolation read committed` (or \
                          repeatable read, serializable), `-- rowlock: schema`, and `-- rowlock: transaction NAME`";

/// Reads a scenario. `engine` is what it is read as when it does not say; `schema` is DDL that comes before its own.
///
/// ```
/// use rowlock_lens::{Source, scenario};
///
/// let text = "-- rowlock: engine postgres
/// -- rowlock: schema
/// create table stock (id bigint primary key, n int not null);
/// -- rowlock: transaction api
/// begin; update stock set n = n - 1 where id = 20; update stock set n = n - 1 where id = 30; commit;
/// ";
/// let workload = scenario(Source { file: "api.sql", text }, None, None)?;
/// assert_eq!(workload.kinds[0].name, "api");
/// assert_eq!(workload.kinds[0].statements[1].place.line, 5);
/// # Ok::<_, rowlock_lens::ScenarioError>(())
/// ```
///
/// # Errors
///
/// A directive that is not known, a missing engine, a file without a transaction. A definition that cannot be read is no
/// error: see [`unread`](Workload::unread).
pub fn scenario(
    source: Source<'_>,
    engine: Option<Engine>,
    schema: Option<Source<'_>>,
) -> Result<Workload, ScenarioError> {
    let file: Arc<str> = source.file.into();
    let error = |line, reason| ScenarioError { place: Place { file: file.clone(), line }, reason };
    let declared = declared_engine(source.text).map_err(|(line, reason)| error(line, reason))?;
    let Some(engine) = declared.or(engine) else {
        return Err(error(1, format!("it does not say which server runs it; directives are {DIRECTIVES}")));
    };
    let mut reader = Reader { file: file.clone(), workload: Workload::new(engine) };
    if let Some(schema) = schema {
        reader.workload.define(schema);
    }
    let mut section = Section::Before;
    for piece in split(source.text, engine) {
        match directive(piece.text) {
            Some(words) => section = reader.enter(&words).map_err(|reason| error(piece.line, reason))?,
            None => reader.statement(piece, &mut section).map_err(|reason| error(piece.line, reason))?,
        }
    }
    match reader.workload.kinds.is_empty() {
        true => Err(error(1, format!("it has no transaction; directives are {DIRECTIVES}"))),
        false => Ok(reader.workload),
    }
}

struct Reader {
    file: Arc<str>,
    workload: Workload,
}

impl Reader {
    fn enter(&mut self, words: &[&str]) -> Result<Section, String> {
        match words {
            ["engine", _] => Ok(Section::Before),
            ["isolation", level @ ..] => {
                let level = level.join(" ");
                let isolation = Isolation::parse(&level).ok_or_else(|| {
                    format!("no isolation is called `{level}`: write read committed, repeatable read or serializable")
                })?;
                self.workload.isolation = Some(isolation);
                Ok(Section::Before)
            }
            ["schema"] => Ok(Section::Schema),
            ["transaction", name] => {
                let count = self.workload.kinds.iter().filter(|other| base(&other.name) == *name).count();
                let name = (*name).to_owned();
                Ok(Section::Transaction(Reading { name, open: false, count, isolation: None, next: None }))
            }
            other => Err(format!("no directive is `{}`; there are {DIRECTIVES}", other.join(" "))),
        }
    }

    fn statement(&mut self, piece: sql::Statement<'_>, section: &mut Section) -> Result<(), String> {
        let sql::Statement { line, text } = piece;
        let place = Place { file: self.file.clone(), line };
        let reading = match section {
            Section::Transaction(reading) => reading,
            Section::Schema => {
                self.workload.define_one(place, text);
                return Ok(());
            }
            Section::Before => return Err(format!("a statement before any directive; there are {DIRECTIVES}")),
        };
        let words: Vec<String> = text.split_whitespace().take(3).map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match words.as_slice() {
            ["begin", ..] | ["start", "transaction", ..] => {
                reading.next = level(text).or(reading.next);
                let kind = reading.begin(false);
                self.workload.kinds.push(kind);
                reading.open = true;
            }
            // A savepoint's locks stay on InnoDB, and are counted as if they did elsewhere.
            ["rollback", "to", ..] | ["rollback", "work", "to"] | ["savepoint" | "release", ..] => {}
            ["set", ..] => {
                if let Some(level) = level(text) {
                    reading.set(level, text, self.workload.kinds.last_mut());
                }
            }
            ["commit" | "end" | "rollback" | "abort", ..] => {
                if let Some(kind) = self.workload.kinds.last_mut().filter(|_| reading.open) {
                    kind.rolls_back = matches!(words.first(), Some(&("rollback" | "abort")));
                }
                reading.open = false;
            }
            _ => {
                if !reading.open {
                    let kind = reading.begin(true);
                    self.workload.kinds.push(kind);
                }
                if let Some(kind) = self.workload.kinds.last_mut() {
                    kind.statements.push(Statement::written(text, place));
                }
            }
        }
        Ok(())
    }
}

impl Reading {
    fn begin(&mut self, autocommit: bool) -> Kind {
        self.count += 1;
        let name = if self.count == 1 { self.name.clone() } else { format!("{} ({})", self.name, self.count) };
        Kind { name, isolation: self.next.take().or(self.isolation), autocommit, ..Kind::default() }
    }

    /// SET names an isolation: for the transaction that is open (PostgreSQL), the next one (MySQL), or all that follow.
    fn set(&mut self, level: Isolation, text: &str, last: Option<&mut Kind>) {
        let text = text.to_ascii_lowercase();
        if ["session", "default_transaction_isolation", "global"].iter().any(|word| text.contains(word)) {
            self.isolation = Some(level);
        } else if let Some(kind) = last.filter(|_| self.open) {
            kind.isolation = Some(level);
        } else {
            self.next = Some(level);
        }
    }
}

/// The isolation that BEGIN or SET names: what follows `isolation`, `isolation level` or `isolation =`.
fn level(text: &str) -> Option<Isolation> {
    let text = text.to_ascii_lowercase();
    let (_, rest) = text.split_once("isolation")?;
    let mut words: Vec<&str> = rest.split(|c: char| !c.is_ascii_alphabetic()).filter(|word| !word.is_empty()).collect();
    words.retain(|word| !matches!(*word, "level" | "to"));
    (1..=2).find_map(|count| Isolation::parse(&words.get(..count)?.join(" ")))
}

fn base(name: &str) -> &str {
    name.split(" (").next().unwrap_or(name)
}

/// The words of `-- rowlock: ..`.
fn directive(text: &str) -> Option<Vec<&str>> {
    let words = text.strip_prefix("--")?.trim_start().strip_prefix("rowlock:")?;
    Some(words.split_whitespace().collect())
}

fn declared_engine(text: &str) -> Result<Option<Engine>, (usize, String)> {
    for (at, line) in text.lines().enumerate() {
        if let Some(["engine", name]) = directive(line.trim()).as_deref() {
            return match Engine::parse(name) {
                Some(engine) => Ok(Some(engine)),
                None => {
                    let reason = format!("no engine is called `{name}`: write postgres, mysql or mariadb");
                    Err((at + 1, reason))
                }
            };
        }
    }
    Ok(None)
}
