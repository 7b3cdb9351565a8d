//! The pages of docs/hazards: their SQL runs on the servers, in all interleavings, and `rowlock check` says what came of it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::process::Command;

use rowlock_lens::{Engine as Lens, Redactor, Source, Workload, check, scenario};
use rowlock_testing::{Engine, Family, Outcome, Session, TestDb};

/// A page's two scenarios: what deadlocks, and what does not.
fn page(name: &str) -> (String, String) {
    let file = format!("{}/../../docs/hazards/{name}.md", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(file).unwrap();
    let mut blocks = text.split("```sql\n").skip(1).map(|rest| rest.split("```").next().unwrap().to_owned());
    (blocks.next().unwrap(), blocks.next().unwrap())
}

fn lens(db: &TestDb) -> Lens {
    match db.engine() {
        Engine::MariaDb => Lens::MariaDb,
        Engine::MySql => Lens::MySql,
        _ => Lens::Postgres,
    }
}

/// Makes the tables of a scenario. The text is a page's own, without a semicolon in a literal.
async fn make(db: &TestDb, text: &str) {
    let schema = text.split("-- rowlock: transaction").next().unwrap();
    for sql in schema.replace("-- rowlock: schema", "").split(';').map(str::trim).filter(|sql| !sql.is_empty()) {
        db.execute(sql).await;
    }
}

/// All ways to merge `a` steps of one with `b` of another; `true` is a step of the first.
fn merges(a: usize, b: usize) -> Vec<Vec<bool>> {
    if a == 0 || b == 0 {
        return vec![vec![b == 0; a + b]];
    }
    let with = |first: bool, rest: Vec<Vec<bool>>| rest.into_iter().map(move |rest| [vec![first], rest].concat());
    with(true, merges(a - 1, b)).chain(with(false, merges(a, b - 1))).collect()
}

/// One of two transactions while it runs.
struct Run {
    session: Session,
    left: Vec<String>,
    blocked: bool,
}

impl Run {
    /// Looks at how the statement that runs stands; `true`: the server ended it to break a deadlock.
    fn settle(&mut self, outcome: &Outcome) -> bool {
        self.blocked = outcome.is_blocked();
        if let Outcome::Failed { .. } = outcome {
            self.left.clear();
        }
        outcome.is_deadlock()
    }

    async fn end(&mut self) {
        let outcome = self.session.step("rollback").await;
        assert!(outcome.is_done(), "{outcome}");
    }
}

/// Runs two transactions in one order of their statements, as far as waits allow it; whether they deadlocked. Nothing stays:
/// both end in ROLLBACK.
async fn deadlocks(runs: &mut [Run; 2], order: &[bool]) -> bool {
    let mut deadlocked = false;
    for run in runs.iter_mut() {
        let outcome = run.session.step("begin").await;
        assert!(outcome.is_done(), "{outcome}");
    }
    let mut order = order.iter();
    loop {
        // A step of the one whose turn it is, or of the other while that one waits.
        let turn = order.next().map(|first| usize::from(!first));
        let ready = |run: &Run| !run.blocked && !run.left.is_empty();
        let next = turn.filter(|at| ready(&runs[*at])).or_else(|| (0..2).find(|at| ready(&runs[*at])));
        if let Some(at) = next {
            let run = &mut runs[at];
            let sql = run.left.remove(0);
            let outcome = run.session.step(&sql).await;
            deadlocked |= run.settle(&outcome);
        } else if let Some(at) = (0..2).find(|at| !runs[*at].blocked && runs[1 - at].blocked) {
            // It has nothing left to do: its end lets the other go on.
            runs[at].end().await;
            let outcome = runs[1 - at].session.outcome().await;
            deadlocked |= runs[1 - at].settle(&outcome);
            let outcome = runs[at].session.step("begin").await;
            assert!(outcome.is_done(), "{outcome}");
        } else if runs.iter().all(|run| run.blocked) {
            // Both wait for each other, until the server ends one.
            for run in runs.iter_mut() {
                let outcome = run.session.outcome_or_blocked().await;
                deadlocked |= run.settle(&outcome);
            }
        } else {
            break;
        }
        // What one did can have let the other go on.
        for run in runs.iter_mut().filter(|run| run.blocked) {
            let outcome = run.session.outcome_or_blocked().await;
            deadlocked |= run.settle(&outcome);
        }
    }
    for run in runs.iter_mut() {
        run.end().await;
    }
    deadlocked
}

/// How many interleavings of a scenario's two transactions deadlock, of how many.
async fn run(db: &TestDb, workload: &Workload) -> (usize, usize) {
    let sessions = db.sessions(["first", "second"]).await;
    let statements: Vec<Vec<String>> = workload
        .kinds
        .iter()
        .map(|kind| kind.statements.iter().map(|statement| statement.text.clone()).collect())
        .collect();
    let [first, second] = &statements[..] else { panic!("a page has two transactions") };
    let mut runs = sessions.map(|session| Run { session, left: Vec::new(), blocked: false });
    for (run, kind) in runs.iter_mut().zip(&workload.kinds) {
        let level = workload.isolation_of(kind);
        let sql = match db.family() {
            Family::InnoDb => format!("set session transaction isolation level {level}"),
            _ => format!("set session characteristics as transaction isolation level {level}"),
        };
        let outcome = run.session.step(&sql).await;
        assert!(outcome.is_done(), "{outcome}");
    }
    let orders = merges(first.len(), second.len());
    let mut count = 0;
    for order in &orders {
        runs[0].left.clone_from(first);
        runs[1].left.clone_from(second);
        count += usize::from(deadlocks(&mut runs, order).await);
    }
    (count, orders.len())
}

async fn hold(db: &TestDb, name: &str) {
    let (bad, good) = page(name);
    let read = |text: &str| scenario(Source { file: name, text }, Some(lens(db)), None).unwrap();
    make(db, &bad).await;
    let (bad, good) = (read(&bad), read(&good));
    let found = check(&bad, &mut Redactor::new(true));
    let mut hazards: Vec<&str> = found.findings.iter().map(|finding| finding.hazard).collect();
    hazards.dedup();
    assert_eq!(hazards, [name], "{found:#?}");
    assert!(found.unread.is_empty(), "{found:#?}");
    let (count, of) = run(db, &bad).await;
    assert!(count > 0, "none of {of} interleavings deadlocked");
    let found = check(&good, &mut Redactor::new(true));
    assert!(found.findings.is_empty() && found.unread.is_empty(), "{found:#?}");
    let (count, of) = run(db, &good).await;
    assert_eq!(count, 0, "of {of} interleavings");
}

rowlock_testing::engines! { servers:
    async fn order_inversion(db: TestDb) {
        hold(&db, "order-inversion").await;
    }

    async fn unsorted_keys(db: TestDb) {
        hold(&db, "unsorted-keys").await;
    }

    async fn hidden_foreign_key_lock(db: TestDb) {
        hold(&db, "hidden-foreign-key-lock").await;
    }

    async fn duplicate_insert(db: TestDb) {
        hold(&db, "duplicate-insert").await;
    }
}

// MariaDB has no FOR SHARE.
rowlock_testing::engines! { pg15, pg18, mysql:
    async fn lock_upgrade(db: TestDb) {
        hold(&db, "lock-upgrade").await;
    }
}

/// What the command says of a page is what the library does.
#[test]
fn the_command_reads_them() {
    let (bad, good) = page("order-inversion");
    let folder = tempfile::tempdir().unwrap();
    for (text, code) in [(bad, 1), (good, 0)] {
        let file = folder.path().join("scenario.sql");
        std::fs::write(&file, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_rowlock"))
            .args(["check", "--engine", "postgres"])
            .arg(&file)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
    }
}
