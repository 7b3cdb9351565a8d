//! The pages of docs/hazards: their SQL runs on the servers, in all interleavings, and `rowlock check` says what came of it.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::process::Command;

use rowlock_lens::{Engine as Lens, Redactor, Source, Workload, check, scenario};
use rowlock_testing::{Engine, TestDb, interleavings};

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

/// How many interleavings of a scenario's two transactions deadlock, of how many.
async fn run(db: &TestDb, workload: &Workload) -> (usize, usize) {
    let statements: Vec<Vec<String>> = workload
        .kinds
        .iter()
        .map(|kind| kind.statements.iter().map(|statement| statement.text.clone()).collect())
        .collect();
    let [first, second] = &statements[..] else { panic!("a page has two transactions") };
    let mut stage = db.stage(2).await;
    for (at, kind) in workload.kinds.iter().enumerate() {
        stage.isolation(at, &workload.isolation_of(kind).to_string()).await;
    }
    let orders = interleavings(&[first.len(), second.len()], |_, _| true);
    let mut count = 0;
    for order in &orders {
        count += usize::from(stage.run(&[first, second], order, None).await.deadlock.is_some());
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
