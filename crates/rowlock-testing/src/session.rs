//! A plain session that a test steps statement by statement, and that tells whether a statement waits.
//!
//! `start` sends a statement and returns at once. `outcome_or_blocked` returns when the statement has ended or when the
//! server says that it waits for a lock, whichever is first; a blocked statement goes on, and `outcome` awaits its end.

use std::fmt;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::connection::{Answer, Connection, code};
use crate::waits::{PATIENCE, POLL, Watch};
use crate::{Engine, Family, TestDb};

/// How a statement stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It ended well.
    Done(Answer),
    /// The server refused it.
    Failed {
        /// SQLSTATE on PostgreSQL, the number on MySQL, MariaDB and SQLite; empty when the connection was lost.
        code: String,
        /// The server's words.
        message: String,
    },
    /// It waits for locks of these sessions.
    Blocked {
        /// Their ids.
        by: Vec<i64>,
    },
}

impl Outcome {
    /// Whether it waits.
    pub fn is_blocked(&self) -> bool {
        matches!(self, Outcome::Blocked { .. })
    }

    /// Whether it ended well.
    pub fn is_done(&self) -> bool {
        matches!(self, Outcome::Done(_))
    }

    /// The code of the error, if it failed.
    pub fn code(&self) -> Option<&str> {
        match self {
            Outcome::Failed { code, .. } => Some(code),
            _ => None,
        }
    }

    /// Whether the server ended it to break a deadlock.
    pub fn is_deadlock(&self) -> bool {
        matches!(self.code(), Some("40P01" | "1213"))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done(answer) if answer.rows.is_empty() => write!(f, "ok, {} affected", answer.affected),
            Outcome::Done(answer) => write!(f, "ok, {} rows", answer.rows.len()),
            Outcome::Failed { code, message } => write!(f, "error {code}: {message}"),
            Outcome::Blocked { by } => write!(f, "waits for {by:?}"),
        }
    }
}

/// A session on a test's database.
#[derive(Debug)]
pub struct Session {
    name: String,
    engine: Engine,
    id: i64,
    state: State,
    watch: Watch,
}

#[derive(Debug)]
enum State {
    Idle(Connection),
    Running { sql: String, task: JoinHandle<(Connection, Result<Answer, sqlx::Error>)> },
    Closed,
}

impl TestDb {
    /// A session of that name.
    pub async fn session(&self, name: &str) -> Session {
        let mut connection = self.connect().await;
        let query = match self.family() {
            Family::Postgres => "select pg_backend_pid()",
            Family::InnoDb => "select connection_id()",
            // No waiting in the driver: a busy database is an answer.
            Family::Sqlite => "pragma busy_timeout = 0",
        };
        let id = match connection.run(query).await {
            Ok(answer) => answer.value().and_then(|id| id.parse().ok()).unwrap_or_default(),
            Err(error) => panic!("session {name} cannot start: {error}"),
        };
        let watch = Watch::on(self).await;
        Session { name: name.to_owned(), engine: self.engine(), id, state: State::Idle(connection), watch }
    }

    /// Several sessions: `let [mut a, mut b] = db.sessions(["a", "b"]).await;`
    pub async fn sessions<const N: usize>(&self, names: [&str; N]) -> [Session; N] {
        let mut sessions = Vec::with_capacity(N);
        for name in names {
            sessions.push(self.session(name).await);
        }
        sessions.try_into().unwrap_or_else(|_| unreachable!("one session for each name"))
    }
}

impl Session {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its id at the server: PostgreSQL's pid, MySQL's connection id; 0 on SQLite.
    pub fn id(&self) -> i64 {
        self.id
    }

    /// Whether a statement was started whose outcome nobody has taken yet.
    pub fn is_running(&self) -> bool {
        matches!(self.state, State::Running { .. })
    }

    /// Sends a statement. Panics when an earlier one has not ended.
    pub fn start(&mut self, sql: &str) {
        self.state = match std::mem::replace(&mut self.state, State::Closed) {
            State::Idle(mut connection) => {
                let text = sql.to_owned();
                let task = tokio::spawn(async move {
                    let result = connection.run(&text).await;
                    (connection, result)
                });
                State::Running { sql: sql.to_owned(), task }
            }
            State::Running { sql: earlier, .. } => {
                panic!("session {} still runs `{earlier}`; it cannot start `{sql}`", self.name)
            }
            State::Closed => panic!("session {} is closed; it cannot start `{sql}`", self.name),
        };
    }

    /// Awaits the end of the statement that was started.
    pub async fn outcome(&mut self) -> Outcome {
        let State::Running { sql, task } = &mut self.state else { panic!("session {} runs no statement", self.name) };
        match tokio::time::timeout(PATIENCE, &mut *task).await {
            Ok(Ok((connection, result))) => self.ended(connection, result),
            Ok(Err(error)) => panic!("session {}: {error}", self.name),
            Err(_) => panic!("session {}: no end of `{sql}` in {PATIENCE:?}", self.name),
        }
    }

    /// The outcome of the statement that was started, if it ends within `limit`.
    pub(crate) async fn ended_within(&mut self, limit: Duration) -> Option<Outcome> {
        let State::Running { task, .. } = &mut self.state else { panic!("session {} runs no statement", self.name) };
        match tokio::time::timeout(limit, &mut *task).await {
            Ok(Ok((connection, result))) => Some(self.ended(connection, result)),
            Ok(Err(error)) => panic!("session {}: {error}", self.name),
            Err(_) => None,
        }
    }

    /// Awaits the end of the statement, or the moment when the server says that it waits for a lock.
    pub async fn outcome_or_blocked(&mut self) -> Outcome {
        let since = Instant::now();
        loop {
            // Most statements end before the first look.
            if let Some(outcome) = self.ended_within(POLL).await {
                return outcome;
            }
            let State::Running { sql, .. } = &self.state else { panic!("session {} runs no statement", self.name) };
            if since.elapsed() > PATIENCE {
                panic!("session {}: `{sql}` neither ends nor waits for a lock in {PATIENCE:?}", self.name);
            }
            let by = self.watch.blockers(self.id).await;
            if !by.is_empty() {
                return Outcome::Blocked { by };
            }
        }
    }

    fn ended(&mut self, connection: Connection, result: Result<Answer, sqlx::Error>) -> Outcome {
        self.state = State::Idle(connection);
        match result {
            Ok(answer) => Outcome::Done(answer),
            Err(error) => Outcome::Failed {
                code: code(&error).unwrap_or_default(),
                message: error.as_database_error().map_or_else(|| error.to_string(), |e| e.message().to_owned()),
            },
        }
    }

    /// `start`, then `outcome_or_blocked`.
    pub async fn step(&mut self, sql: &str) -> Outcome {
        self.start(sql);
        self.outcome_or_blocked().await
    }

    /// Runs a statement that must end well without waiting; panics otherwise.
    pub async fn run(&mut self, sql: &str) -> Answer {
        match self.step(sql).await {
            Outcome::Done(answer) => answer,
            other => panic!("session {}: `{sql}`: {other}", self.name),
        }
    }

    /// Asserts that the started statement waits for `other` (and maybe for more).
    pub async fn assert_blocked_by(&mut self, other: &Session) {
        match self.outcome_or_blocked().await {
            Outcome::Blocked { by } if by.contains(&other.id) => {}
            outcome => panic!("session {} was to wait for {} ({}); {outcome}", self.name, other.name, other.id),
        }
    }

    /// Ends the running statement from outside, as an operator would: the statement fails, the session lives.
    pub async fn cancel(&mut self) {
        self.order("select pg_cancel_backend", "kill query").await;
    }

    /// Ends the session from outside: its transaction is rolled back, its connection is lost.
    pub async fn kill(&mut self) {
        self.order("select pg_terminate_backend", "kill").await;
    }

    async fn order(&mut self, postgres: &str, mysql: &str) {
        let order = match self.engine.family() {
            Family::Postgres => format!("{postgres}({})", self.id),
            Family::InnoDb => format!("{mysql} {}", self.id),
            Family::Sqlite => panic!("SQLite has no sessions to end from outside"),
        };
        self.watch.must(&order).await;
    }

    /// Says goodbye: an open transaction is rolled back. Panics while a statement runs.
    pub async fn close(mut self) {
        match std::mem::replace(&mut self.state, State::Closed) {
            State::Idle(connection) => drop(connection.close().await),
            State::Running { sql, .. } => panic!("session {} still runs `{sql}`", self.name),
            State::Closed => {}
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The task owns the connection; hanging up is all that is left to do.
        if let State::Running { task, .. } = &self.state {
            task.abort();
        }
    }
}
