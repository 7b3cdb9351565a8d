//! What a report leaves out: why the victim was chosen, and what it cannot tell at all.

use crate::explain::letter;
use crate::finding::{Transaction, Unknown, VictimTold};
use crate::report::{Engine, LockRef, Object, Party, Report};

/// Who was rolled back, and by which rule of the engine.
pub(crate) fn victim(report: &Report) -> Option<VictimTold> {
    let victim = report.victim.as_ref()?;
    let why = match report.engine {
        Engine::Postgres => {
            "PostgreSQL ends whoever runs the check: the one that waited for deadlock_timeout first, whatever it has done".to_owned()
        }
        _ => {
            let undo = |party: usize| report.parties.get(party).and_then(|party| party.weight).map_or(0, |weight| weight.undo);
            let own = undo(victim.party);
            let least = (0..report.parties.len()).filter(|party| *party != victim.party).all(|party| own <= undo(party));
            let rows = if own == 1 { "row" } else { "rows" };
            match least {
                true => format!("InnoDB ends the cheaper one: it had changed {own} {rows}, and no other fewer"),
                false => format!("it had changed {own} {rows}, others fewer: InnoDB weighs locks as well, and spares what changed tables without rollback"),
            }
        }
    };
    Some(VictimTold { transaction: letter(victim.party), certainty: victim.certainty.clone(), why })
}

/// Whether what a party holds is a row, which a statement would name.
fn by_row(report: &Report, party: &Party) -> bool {
    let rows = |lock: &LockRef| matches!(lock.object, Object::Row(_) | Object::Transaction(_));
    report.engine == Engine::Postgres && party.holds.iter().any(rows)
}

/// What nobody wrote, with what to switch on.
pub(crate) fn unknown(report: &Report, transactions: &[Transaction]) -> Vec<Unknown> {
    let mut unknown = Vec::new();
    let mut push = |what: String, how: &str| unknown.push(Unknown { what, how: how.to_owned() });
    if transactions.len() < 2 {
        let how = match report.engine {
            Engine::Postgres => "the server's log has them, in the record with the same time: give that file",
            _ => {
                "SHOW ENGINE INNODB STATUS has the last deadlock; innodb_print_all_deadlocks = ON puts each into the error log"
            }
        };
        push("the other transactions, and what each held".to_owned(), how);
        return unknown;
    }
    for (transaction, party) in transactions.iter().zip(&report.parties) {
        if let (None, Some(flaw)) = (&transaction.statement, &transaction.statement_flaw) {
            push(format!("what {} was running", transaction.name), flaw);
        }
        let taken = transaction.holds.is_empty() || transaction.holds.iter().any(|lock| lock.statement.is_some());
        if !taken || (transaction.holds.is_empty() && !party.whole) {
            let how = match report.engine {
                Engine::Postgres if party.whole && by_row(report, party) => {
                    "the log has its transaction from BEGIN on, and no statement that names the row: a function, trigger, cascade or join took it"
                }
                Engine::Postgres => {
                    "log_statement = 'all' (or 'mod') with %p in log_line_prefix puts each statement into the log; log_lock_waits = on tells each waiter's row"
                }
                _ => {
                    "the general log, or performance_schema.events_statements_history_long, has the earlier statements of its thread"
                }
            };
            push(format!("which statement of {} took what it holds", transaction.name), how);
        }
    }
    if report.victim.is_none() {
        push(
            "who was rolled back".to_owned(),
            "the client that got error 1213; MySQL writes it with log_error_verbosity = 3",
        );
    }
    unknown
}
