//! From a report to a finding: names for the transactions, words for the locks, the hazard, the victim, what is unknown.

use rowlock_footprint::Value;

use crate::finding::{Finding, Fix, Level, Lock, Status, Step, Transaction};
use crate::hazard::judge;
use crate::report::{Certainty, Engine, LockRef, Object, Report, Row};
use crate::sql::{Redactor, shape};
use crate::statement::Case;
use crate::untold::{unknown, victim};

/// Explains a report. What it shows of values, `redactor` decides.
pub fn explain(report: &Report, redactor: &mut Redactor) -> Finding {
    let finding = finding(report, Status::Happened, redactor);
    Finding { victim: victim(report), unknown: unknown(report, &finding.transactions), ..finding }
}

/// Explains a deadlock that can be: nobody is its victim yet, and what is not known of it, `check` has said.
pub(crate) fn explain_possible(report: &Report, redactor: &mut Redactor) -> Finding {
    finding(report, Status::Possible, redactor)
}

fn finding(report: &Report, status: Status, redactor: &mut Redactor) -> Finding {
    let case = Case::read(report);
    let verdict = judge(&case);
    let transactions: Vec<Transaction> =
        (0..report.parties.len()).map(|party| transaction(&case, party, redactor)).collect();
    let steps = steps(report, &transactions);
    let unclear = || {
        let cause = match report.parties.len() {
            0 | 1 => "This is a driver's copy of the error: it names the deadlock, and not who was in it.".to_owned(),
            _ => "The report does not tell enough to name the cause.".to_owned(),
        };
        (cause, Certainty::Known, Vec::new())
    };
    let hazard = verdict.as_ref().map_or("unclear", |(hazard, _)| hazard.name);
    let (cause, certainty, mut fix) = verdict.map_or_else(unclear, |(_, v)| (v.cause, v.certainty, v.fix));
    for Fix { sql, .. } in &mut fix {
        if let Some(sql) = sql {
            *sql = redactor.statement(sql, report.engine);
        }
    }
    Finding {
        hazard,
        level: Level::Error,
        status,
        engine: report.engine,
        format: report.format,
        time: report.time.clone(),
        steps,
        cause,
        certainty,
        fix,
        victim: None,
        unknown: Vec::new(),
        notes: report.notes.clone(),
        shape: report_shape(report),
        transactions,
    }
}

/// What reports of one kind have in common, whatever their values: statements, tables, modes. It does not look at what
/// surrounds a report, so that only the first of a kind costs a look back.
pub fn report_shape(report: &Report) -> String {
    let mut parts: Vec<String> = report
        .parties
        .iter()
        .map(|party| {
            let statement = party.statement.as_ref().map(|sql| shape(sql, report.engine)).unwrap_or_default();
            // A cut statement's tail differs with the lengths of its values.
            let statement: String =
                statement.chars().take(if party.statement_flaw.is_some() { 80 } else { 4_000 }).collect();
            let wait = party.waits.as_ref().map(|wait| (wait.mode.as_str(), kind(&wait.object)));
            let (mode, object) = wait.unwrap_or_default();
            format!("{statement} | {mode} {object}")
        })
        .collect();
    parts.sort_unstable();
    format!("{} | {}", report.engine, parts.join(" || "))
}

fn kind(object: &Object) -> String {
    match object {
        // Of two victims of one kind, CONTEXT tells the table of one and not of the other.
        Object::Transaction(_) => "row".to_owned(),
        // Without the schema: tenants have one each, and the same deadlocks.
        Object::Row(Row { index: Some(index), table, .. }) => {
            format!("{} {index}", table.as_deref().and_then(|table| table.rsplit('.').next()).unwrap_or_default())
        }
        Object::Row(_) => "row".to_owned(),
        Object::Table(table) => table.clone(),
        Object::Advisory(_) => "advisory".to_owned(),
        Object::Other(text) => text.chars().filter(|c| !c.is_ascii_digit()).collect(),
    }
}

/// `A`, `B`, .. `Z`, `A1`, ..
pub(crate) fn letter(party: usize) -> String {
    let letter = char::from(b'A' + (party % 26) as u8);
    if party < 26 { letter.to_string() } else { format!("{letter}{}", party / 26) }
}

fn transaction(case: &Case<'_>, at: usize, redactor: &mut Redactor) -> Transaction {
    let report = case.report;
    let party = report.parties.get(at).cloned().unwrap_or_default();
    let engine = report.engine;
    let waiter = report.waiter(at);
    let holds = party.holds.iter().map(|lock| {
        let wanted_by = waiter.filter(|waiter| {
            report.parties.get(*waiter).is_some_and(|w| w.waits.as_ref().is_some_and(|wait| same(wait, lock)))
        });
        let mut told = told(case, lock, wanted_by, redactor);
        told.statement = wanted_by.and_then(|_| case.taker(at)).map(|taker| redactor.statement(&taker.text, engine));
        told
    });
    let mut holds: Vec<Lock> = holds.collect();
    // A transaction with many locks: the ones that matter are the first and those that somebody waits for.
    holds.sort_by_key(|lock| lock.statement.is_none());
    let mut shown: Vec<Lock> = Vec::new();
    for lock in holds {
        if !shown.contains(&lock) && shown.len() < 8 {
            shown.push(lock);
        }
    }
    Transaction {
        name: letter(at),
        session: party.name(engine),
        origin: party.origin.clone(),
        place: party.place.clone(),
        statement: party.statement.as_ref().map(|sql| redactor.statement(sql, engine)),
        statement_flaw: party.statement_flaw.clone(),
        earlier: party.earlier.iter().map(|sql| redactor.statement(sql, engine)).collect(),
        wants: party.waits.as_ref().map(|lock| told(case, lock, Some(at), redactor)),
        holds: shown,
        blocked_by: party.blocked_by.map(letter),
    }
}

fn same(a: &LockRef, b: &LockRef) -> bool {
    match (a.row(), b.row()) {
        (Some(a), Some(b)) => a.place == b.place && a.table == b.table && a.key == b.key,
        _ => a.object == b.object,
    }
}

/// A lock in words. `waiter`: who waits for it, whose statement can name the row.
fn told(case: &Case<'_>, lock: &LockRef, waiter: Option<usize>, redactor: &mut Redactor) -> Lock {
    let by_statement = waiter.and_then(|waiter| key_text(case, waiter, redactor));
    let table = lock.table().map(str::to_owned).or_else(|| waiter.and_then(|waiter| case.wanted_table(waiter)));
    let mut certainty = lock.certainty.clone();
    let what = match &lock.object {
        Object::Row(row) => row_text(row, table.as_deref(), by_statement, case, waiter, redactor),
        Object::Transaction(id) => match (&table, by_statement) {
            (Some(table), key) => {
                if certainty == Certainty::Known {
                    let from =
                        format!("the statement; the server says only that it waits for the end of transaction {id}");
                    certainty = Certainty::Inferred(from);
                }
                key.map_or_else(|| format!("a row of {table}"), |key| format!("{table}, {key}"))
            }
            (None, _) => format!("a row that transaction {id} changed"),
        },
        Object::Table(table) => format!("table {table}"),
        Object::Advisory(numbers) => {
            format!("advisory lock {}", numbers.split(", ").map(|n| redactor.value(n)).collect::<Vec<_>>().join(", "))
        }
        Object::Other(text) => text.clone(),
    };
    let mode = match (&lock.object, lock.mode.as_str()) {
        // Never a table's SHARE lock: it is how the server waits for a transaction's end.
        (Object::Row(_) | Object::Transaction(_), "ShareLock") => {
            strength(case, waiter).unwrap_or_else(|| "ShareLock".to_owned())
        }
        (_, mode) => mode.to_owned(),
    };
    Lock { what, mode, table, statement: None, certainty }
}

/// How strongly the waiting statement asks for the row.
fn strength(case: &Case<'_>, waiter: Option<usize>) -> Option<String> {
    let waiter = waiter?;
    let lock = case.current(waiter)?.lock(&case.wanted_table(waiter)?)?;
    Some(lock.strength.to_string())
}

/// `id = <1>`, by the waiting statement.
fn key_text(case: &Case<'_>, waiter: usize, redactor: &mut Redactor) -> Option<String> {
    let (columns, key) = case.wanted_key(waiter)?;
    let parts = columns.iter().zip(key).map(|(column, value)| {
        let value = match value {
            Value::Literal(literal) => redactor.value(&literal.to_string()),
            other => other.to_string(),
        };
        format!("{column} = {value}")
    });
    Some(parts.collect::<Vec<_>>().join(", "))
}

fn row_text(
    row: &Row,
    table: Option<&str>,
    by_statement: Option<String>,
    case: &Case<'_>,
    waiter: Option<usize>,
    redactor: &mut Redactor,
) -> String {
    let mut text = match (table, &row.index) {
        (Some(table), Some(index)) if index != "PRIMARY" => format!("{table} by index {index}"),
        (Some(table), _) => table.to_owned(),
        (None, Some(index)) => format!("index {index}"),
        (None, None) => "a row".to_owned(),
    };
    match &row.record {
        Some(record) if record.supremum => text.push_str(", the gap behind the last key"),
        Some(record) if !record.key().is_empty() => {
            let fields: Vec<String> = record.key().iter().map(|field| field.text()).collect();
            // The statement's column, when its value is the record's.
            let named = waiter.and_then(|waiter| case.wanted_key(waiter)).filter(|(_, key)| {
                key.len() == fields.len()
                    && key.iter().zip(&fields).all(|(value, field)| match value {
                        Value::Literal(literal) => literal.to_string().trim_matches('\'') == field,
                        _ => false,
                    })
            });
            match named {
                Some((columns, _)) => {
                    let parts = columns
                        .iter()
                        .zip(&fields)
                        .map(|(column, field)| format!("{column} = {}", redactor.value(field)));
                    text.push_str(&format!(", {}", parts.collect::<Vec<_>>().join(", ")));
                }
                None => {
                    let parts: Vec<String> = fields.iter().map(|field| redactor.value(field)).collect();
                    text.push_str(&format!(", key {}", parts.join(", ")));
                }
            }
            if record.deleted {
                text.push_str(" (deleted)");
            }
        }
        _ => {
            if let Some(key) = &row.key {
                let value = |text: &str, redactor: &mut Redactor| match text.starts_with('$') {
                    true => text.to_owned(),
                    false => redactor.value(text),
                };
                for (column, text_of) in key {
                    text.push_str(&format!(", {column} = {}", value(text_of, redactor)));
                }
            } else if let Some(key) = by_statement {
                text.push_str(&format!(", {key}"));
            }
            if let Some(place) = &row.place {
                text.push_str(&format!(", at {place}"));
            }
        }
    }
    text
}

/// First what each came to hold, then how each came to wait; the victim last, for its wait closed the cycle.
fn steps(report: &Report, transactions: &[Transaction]) -> Vec<Step> {
    let mut steps = Vec::new();
    for transaction in transactions {
        for lock in transaction.holds.iter().take(3) {
            let effect = format!("takes {}", lock.what);
            let (name, statement) = (transaction.name.clone(), lock.statement.clone());
            steps.push(Step { transaction: name, statement, place: None, effect });
        }
    }
    let victim = report.victim.as_ref().map(|victim| victim.party);
    let waits = transactions.iter().enumerate().filter(|(_, transaction)| transaction.wants.is_some());
    let (closing, others): (Vec<_>, Vec<_>) =
        waits.partition(|(at, _)| report.engine == Engine::Postgres && Some(*at) == victim);
    for (_, transaction) in others.into_iter().chain(closing) {
        let by = transaction.blocked_by.as_deref().unwrap_or("another");
        let what = transaction.wants.as_ref().map(|lock| lock.what.as_str()).unwrap_or_default();
        let effect = format!("waits for {by}: {what}");
        steps.push(Step {
            transaction: transaction.name.clone(),
            statement: transaction.statement.clone(),
            place: transaction.place.clone(),
            effect,
        });
    }
    steps
}
