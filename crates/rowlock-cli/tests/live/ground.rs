//! A server for one test, deadlocks on it, and the command.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use rowlock_testing::server::{Server, Servers};
use rowlock_testing::{Connection, Engine, Family, Watch, code, present};

/// What a test may take, with the start of its server.
const PATIENCE: Duration = Duration::from_secs(180);

/// A server that ends with the test.
pub(crate) struct Ground {
    pub(crate) servers: Servers,
    pub(crate) server: Server,
}

/// Two transactions, two statements each, of which the second ones close a cycle.
pub(crate) struct Deadlock {
    pub(crate) a: [&'static str; 2],
    pub(crate) b: [&'static str; 2],
    pub(crate) hazard: &'static str,
}

/// Who failed, and who the two were: PostgreSQL's process, InnoDB's thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fate {
    pub(crate) failed: i64,
    pub(crate) survived: i64,
}

impl Ground {
    pub(crate) async fn start(engine: Engine) -> Ground {
        let servers = Servers::private().unwrap();
        let server = servers.start(engine).await.unwrap();
        Ground { servers, server }
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection::open(self.server.engine, &self.server.url).await.unwrap()
    }

    pub(crate) async fn run(&self, sql: &str) -> Option<String> {
        let mut connection = self.connect().await;
        let answer = connection.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let _ = connection.close().await;
        answer.value().map(str::to_owned)
    }

    /// Runs it, until one of the two has failed and the other gone on.
    pub(crate) async fn deadlock(&self, deadlock: &Deadlock) -> Fate {
        let (mut a, mut b) = (self.connect().await, self.connect().await);
        let (first, second) = (id(&mut a).await, id(&mut b).await);
        for (connection, sql) in [(&mut a, deadlock.a[0]), (&mut b, deadlock.b[0])] {
            connection.run("begin").await.unwrap();
            connection.run(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
        let last = deadlock.a[1];
        let waiting = tokio::spawn(async move {
            let result = a.run(last).await.map(drop);
            let _ = a.run("rollback").await;
            result
        });
        Watch::at(self.server.engine, &self.server.url).await.unwrap().until_waiting(first).await;
        let own = b.run(deadlock.b[1]).await.map(drop);
        let _ = b.run("rollback").await;
        let other = waiting.await.unwrap();
        let is_deadlock = |result: &Result<(), rowlock_testing::sqlx::Error>| {
            matches!(result.as_ref().err().and_then(code).as_deref(), Some("40P01" | "1213"))
        };
        match (is_deadlock(&other), is_deadlock(&own)) {
            (true, false) => Fate { failed: first, survived: second },
            (false, true) => Fate { failed: second, survived: first },
            both => panic!("{}: {both:?}: {other:?} {own:?}", deadlock.hazard),
        }
    }

    /// A cycle of three on `table`: each holds one row, and wants the next one's. Returns their ids, in the order of waits,
    /// and the one that failed.
    pub(crate) async fn three(&self, table: &str) -> ([i64; 3], i64) {
        let update = |row: usize| format!("update {table} set n = n + 1 where id = {}", row + 1);
        let mut ids = [0; 3];
        let mut connections = Vec::new();
        for (row, own) in ids.iter_mut().enumerate() {
            let mut connection = self.connect().await;
            *own = id(&mut connection).await;
            connection.run("begin").await.unwrap();
            connection.run(&update(row)).await.unwrap();
            connections.push(connection);
        }
        let mut watch = Watch::at(self.server.engine, &self.server.url).await.unwrap();
        let mut running = Vec::new();
        for (row, mut connection) in connections.into_iter().enumerate() {
            let sql = update((row + 1) % 3);
            running.push(tokio::spawn(async move {
                let result = connection.run(&sql).await.map(drop);
                let _ = connection.run("rollback").await;
                result
            }));
            if row < 2 {
                watch.until_waiting(ids[row]).await;
            }
        }
        let mut failed = Vec::new();
        for (row, task) in running.into_iter().enumerate() {
            if let Err(error) = task.await.unwrap() {
                assert!(matches!(code(&error).as_deref(), Some("40P01" | "1213")), "{error}");
                failed.push(ids[row]);
            }
        }
        let [failed] = failed[..] else { panic!("of three, one must fail: {failed:?} of {ids:?}") };
        (ids, failed)
    }

    /// Runs what findings propose: a server must take it. Without a transaction around on InnoDB, where one cannot set its
    /// isolation from within.
    pub(crate) async fn assert_fixes_run(&self, findings: &serde_json::Value) -> usize {
        let mut run = 0;
        let fixes =
            findings["findings"].as_array().unwrap().iter().flat_map(|finding| finding["fix"].as_array().unwrap());
        for sql in fixes.filter_map(|fix| fix["sql"].as_str()) {
            let mut connection = self.connect().await;
            let sql = sql.trim_start_matches("BEGIN; ");
            let all = match self.server.engine.family() {
                Family::Postgres => vec!["begin".to_owned(), sql.to_owned(), "rollback".to_owned()],
                _ => sql.split("; ").map(str::to_owned).collect(),
            };
            for part in all {
                connection.run(&part).await.unwrap_or_else(|error| panic!("{part}: {error}"));
            }
            run += 1;
        }
        run
    }
}

async fn id(connection: &mut Connection) -> i64 {
    let query = match connection {
        Connection::Postgres(_) => "select pg_backend_pid()::text",
        _ => "select cast(connection_id() as char)",
    };
    connection.run(query).await.unwrap().value().unwrap().parse().unwrap()
}

/// What `rowlock explain` printed, and its exit code.
pub(crate) fn explain(arguments: &[&str], stdin: &[u8]) -> (String, i32) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowlock"));
    command.arg("explain").args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    let output = child.wait_with_output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), output.status.code().unwrap())
}

/// The same as JSON, with values.
pub(crate) fn findings(arguments: &[&str], stdin: &[u8]) -> serde_json::Value {
    let (text, code) = explain(&[&["--format", "json", "--show-values"], arguments].concat(), stdin);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(code, 1, "{text}");
    assert_eq!(value["unreadable"], serde_json::json!([]), "{text}");
    value
}

/// Runs a test's body, unless its engine is left out; a body that waits for ever is ended.
pub(crate) fn on(engine: Engine, body: impl Future<Output = ()>) {
    if !present(engine) {
        return;
    }
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime
        .block_on(async { tokio::time::timeout(PATIENCE, body).await })
        .expect("the server never did what was waited for");
}
