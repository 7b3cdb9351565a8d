//! From a workload to the deadlocks that its transactions can come to, explained as those that happened are.
//!
//! A cycle of waits becomes a [`Report`] that no server wrote, so that hazards, fixes and words are the same for both.

use std::collections::HashSet;

use rowlock_footprint::{Cause, Schema, Value};
use serde::Serialize;

use crate::alone::alone;
use crate::cycle::{Wait, cycles};
use crate::explain::explain_possible;
use crate::finding::{Finding, Level};
use crate::levels::Levels;
use crate::report::{Certainty, Engine, LockRef, Object, Party, Report, Row};
use crate::request::{Request, Requests, short};
use crate::sql::Redactor;
use crate::workload::{Isolation, Kind, Unjudged, Workload};

/// Most findings that are explained.
const MOST_FINDINGS: usize = 200;

/// What a check came to.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// The deadlocks that can be, each kind once; then what single kinds of transactions show by themselves.
    pub findings: Vec<Finding>,
    /// Statements and definitions that could not be judged.
    pub unread: Vec<Unjudged>,
    /// What was taken to be so, in sentences.
    pub assumed: Vec<String>,
    /// How many transactions were looked at.
    pub transactions: usize,
}

/// Finds the deadlocks that the transactions of a workload can come to, with each other and with themselves, and the hazards
/// that one of them is without any other.
///
/// # What it takes to be so
///
/// Each transaction can run several times at once. A literal is that value; `$1` has one value in one transaction, any in
/// another; each `?` can be any. Rows that are named exist. The rows of one statement are locked in the order of their key.
/// Isolation is what the workload says, else the engine's default.
///
/// ```
/// use rowlock_lens::{Redactor, Source, check, scenario};
///
/// let text = "-- rowlock: engine postgres
/// -- rowlock: transaction api
/// begin; update orders set paid = true where id = 1; update stock set n = n - 1 where id = 20; commit;
/// -- rowlock: transaction batch
/// begin; update stock set n = 0 where id = 20; update orders set late = true where id = 1; commit;
/// ";
/// let workload = scenario(Source { file: "orders.sql", text }, None, None)?;
/// let checked = check(&workload, &mut Redactor::new(true));
/// assert_eq!(checked.findings[0].hazard, "order-inversion");
/// # Ok::<_, rowlock_lens::ScenarioError>(())
/// ```
pub fn check(workload: &Workload, redactor: &mut Redactor) -> Checked {
    check_at(workload, &Levels::default(), redactor)
}

/// [`check`], which tells each hazard at the level that `levels` gives it.
pub fn check_at(workload: &Workload, levels: &Levels, redactor: &mut Redactor) -> Checked {
    let engine = workload.engine;
    let kinds: Vec<Requests> = workload.kinds.iter().map(|kind| Requests::of(kind, workload)).collect();
    let mut checked = Checked {
        findings: Vec::new(),
        unread: unjudged(workload, &kinds),
        assumed: assumed(workload, &kinds),
        transactions: kinds.len(),
    };
    let found = cycles(&kinds, engine);
    if found.cut {
        checked.assumed.push(
            "what was not looked at deadlocks with nothing: there are too many locks to try all cycles of them"
                .to_owned(),
        );
    }
    let mut seen = HashSet::new();
    for cycle in &found.cycles {
        let known = signature(cycle, &kinds, &workload.kinds);
        if checked.findings.len() < MOST_FINDINGS && seen.insert(known) {
            let finding = explain_possible(&report(cycle, &kinds, workload), redactor);
            let level = levels.of(finding.hazard, finding.level);
            if level != Level::Off {
                checked.findings.push(Finding { level, ..finding });
            }
        }
    }
    let (findings, assumed) = alone(workload, levels, redactor);
    // What a kind can deadlock by is told already.
    let told = |alone: &Finding| {
        let by = |finding: &Finding| finding.transactions.first().and_then(|transaction| transaction.origin.clone());
        let shows = |other: &Finding| other.transactions.iter().any(|party| party.origin == by(alone));
        checked.findings.iter().any(|other| other.hazard == alone.hazard && shows(other))
    };
    let findings: Vec<Finding> = findings.into_iter().filter(|finding| !told(finding)).collect();
    checked.findings.extend(findings);
    checked.assumed.extend(assumed);
    checked
}

fn unjudged(workload: &Workload, kinds: &[Requests]) -> Vec<Unjudged> {
    let statements = workload.kinds.iter().zip(kinds).flat_map(|(kind, requests)| {
        requests.unread.iter().filter_map(|(at, reason)| {
            let place = kind.statements.get(*at)?.place.clone();
            Some(Unjudged { place, transaction: Some(kind.name.clone()), reason: reason.clone() })
        })
    });
    workload.unread.iter().cloned().chain(statements).collect()
}

fn assumed(workload: &Workload, kinds: &[Requests]) -> Vec<String> {
    let mut assumed = Vec::new();
    let mut tables = kinds.iter().flat_map(|kind| &kind.assumed);
    if workload.schema.tables().next().is_none() {
        assumed.push(
            "no schema was given: the columns of a WHERE are taken for a key, and foreign keys are not seen".to_owned(),
        );
        // Then it holds of all tables, and what remains is what hides code.
        assumed.extend(kinds.iter().flat_map(|kind| &kind.assumed).filter(|text| !text.starts_with("of ")).cloned());
    } else {
        for text in tables.by_ref() {
            if !assumed.contains(text) {
                assumed.push(text.clone());
            }
        }
    }
    let told = |kind: &Kind| kind.isolation.or(workload.isolation).is_some();
    if workload.engine != Engine::Postgres && !workload.kinds.iter().all(told) {
        let level = Isolation::default_of(workload.engine.dialect()).to_string().to_uppercase();
        assumed.push(format!("isolation is {level}, the server's default (`-- rowlock: isolation ..` says another)"));
    }
    assumed
}

/// What cycles of one kind have in common: who waits in which statement, for which table, with which other held.
fn signature(cycle: &[Wait], kinds: &[Requests], names: &[Kind]) -> Vec<String> {
    let of = |wait: &Wait| {
        let name = names.get(wait.kind).map(|kind| kind.name.as_str()).unwrap_or_default();
        let table =
            |at: usize| kinds.get(wait.kind).and_then(|kind| kind.locks.get(at)).map(|lock| lock.table.to_string());
        format!("{name} {:?} {:?}", table(wait.held), table(wait.wanted))
    };
    let mut parts: Vec<String> = cycle.iter().map(of).collect();
    parts.sort_unstable();
    parts
}

/// The cycle as a server would have reported it, had it come to it.
fn report(cycle: &[Wait], kinds: &[Requests], workload: &Workload) -> Report {
    let count = cycle.len();
    let parties = cycle.iter().enumerate().map(|(at, wait)| {
        let kind = workload.kinds.get(wait.kind);
        let lock = |at: usize| kinds.get(wait.kind).and_then(|kind| kind.locks.get(at));
        let statements = kind.map(|kind| kind.statements.as_slice()).unwrap_or_default();
        let wanted = lock(wait.wanted);
        let waiting = wanted.map_or(0, |wanted| wanted.statement);
        let current = statements.get(waiting);
        Party {
            statement: current.map(|statement| statement.text.clone()),
            waits: wanted.map(|wanted| lock_ref(wanted, workload)),
            holds: lock(wait.held).map(|held| lock_ref(held, workload)).into_iter().collect(),
            blocked_by: Some((at + 1) % count),
            // A scan that waits holds rows by the very same statement.
            earlier: statements.iter().take(waiting).map(|statement| statement.text.clone()).collect(),
            whole: true,
            context: wanted.map(|wanted| context(wanted, workload)).unwrap_or_default(),
            origin: kind.map(|kind| kind.name.clone()),
            place: current.map(|statement| statement.place.clone()),
            ..Party::default()
        }
    });
    Report {
        engine: workload.engine,
        format: "scenario",
        time: None,
        parties: parties.collect(),
        victim: None,
        notes: Vec::new(),
    }
}

/// Where in the server the wait would come about, in PostgreSQL's words: the hazards of foreign keys go by them.
fn context(request: &Request, workload: &Workload) -> Vec<String> {
    let table = short(&request.table, &workload.schema);
    match (workload.engine, &request.cause) {
        (Engine::Postgres, Cause::ForeignKey(_)) => {
            vec![format!("SQL statement \"SELECT 1 FROM ONLY {table} x FOR KEY SHARE OF x\"")]
        }
        (Engine::Postgres, Cause::Cascade(_)) => vec![format!("SQL statement \"DELETE FROM ONLY {table}\"")],
        _ => Vec::new(),
    }
}

fn lock_ref(request: &Request, workload: &Workload) -> LockRef {
    LockRef {
        object: Object::Row(row(request, &workload.schema)),
        mode: mode(request, workload.engine),
        certainty: Certainty::Inferred("by the lock model; no server was asked".to_owned()),
    }
}

fn row(request: &Request, schema: &Schema) -> Row {
    let text = |value: &Value| match value {
        Value::Literal(literal) => Some(literal.to_string()),
        Value::Parameter(n) => Some(format!("${}", n + 1)),
        Value::ParameterArray(_) | Value::Unknown => None,
    };
    let key = request.row.as_ref().and_then(|key| {
        let values: Option<Vec<String>> = key.values.iter().map(text).collect();
        Some(key.columns.iter().cloned().zip(values?).collect())
    });
    let index = matches!(request.cause, Cause::Insert).then(|| {
        let table = schema.table(&request.table)?;
        let columns = &request.row.as_ref()?.columns;
        table.unique_keys.iter().find(|unique| unique.columns == *columns).map(|unique| unique.name.clone())
    });
    Row { table: Some(short(&request.table, schema)), index: index.flatten(), key, ..Row::default() }
}

/// In the words of the server's reports.
fn mode(request: &Request, engine: Engine) -> String {
    match (engine, &request.cause) {
        (Engine::Postgres, _) => request.strength.to_string(),
        // The check for a duplicate.
        (_, Cause::Insert) => "S".to_owned(),
        _ if request.strength == rowlock_footprint::Strength::Share => "S locks rec but not gap".to_owned(),
        _ => "X locks rec but not gap".to_owned(),
    }
}
