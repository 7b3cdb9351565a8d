//! A schedule: statements of several sessions in a written order, run on a real server, with what each step gave.
//!
//! ```text
//! api: begin
//! webhook: begin
//! api: update inventories set stock = 4 where id = 20
//! webhook: update inventories set stock = 4 where id = 30
//! api: update inventories set stock = 4 where id = 30
//! webhook: update inventories set stock = 4 where id = 20
//! ```
//!
//! A step begins when the one before has ended or waits for a lock. A session's own next step first awaits the end of its
//! step before. After the last step the sessions that are idle are rolled back, and the ones that wait are awaited.

use std::collections::BTreeMap;
use std::fmt;

use crate::TestDb;
use crate::session::{Outcome, Session};

/// One step of a schedule that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Whose it is.
    pub session: String,
    /// What was sent.
    pub sql: String,
    /// The sessions that it waited for, by name; empty when it did not wait.
    pub waited_for: Vec<String>,
    /// How it ended.
    pub outcome: Outcome,
}

/// A schedule that was run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transcript(pub Vec<Step>);

impl Transcript {
    /// The steps that the server ended to break a deadlock.
    pub fn deadlocks(&self) -> impl Iterator<Item = &Step> {
        self.0.iter().filter(|step| step.outcome.is_deadlock())
    }

    /// The steps that waited.
    pub fn waits(&self) -> impl Iterator<Item = &Step> {
        self.0.iter().filter(|step| !step.waited_for.is_empty())
    }
}

impl fmt::Display for Transcript {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Step { session, sql, waited_for, outcome } in &self.0 {
            let waited = if waited_for.is_empty() {
                String::new()
            } else {
                format!("waits for {}, then ", waited_for.join(", "))
            };
            writeln!(f, "{session}: {sql}\n    {waited}{outcome}")?;
        }
        Ok(())
    }
}

impl TestDb {
    /// Runs a schedule, written as lines of `session: statement`; blank lines and `--` lines are left out.
    pub async fn schedule(&self, text: &str) -> Transcript {
        let mut run = Run { db: self, sessions: BTreeMap::new(), waiting: BTreeMap::new(), steps: Vec::new() };
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("--")) {
            match line.split_once(':') {
                Some((session, sql)) => run.step(session.trim(), sql.trim()).await,
                None => panic!("a step of a schedule is written `session: statement`, not `{line}`"),
            }
        }
        run.end().await
    }
}

struct Run<'a> {
    db: &'a TestDb,
    sessions: BTreeMap<String, Session>,
    /// The steps that still wait, by session.
    waiting: BTreeMap<String, usize>,
    steps: Vec<Step>,
}

impl Run<'_> {
    async fn step(&mut self, name: &str, sql: &str) {
        if !self.sessions.contains_key(name) {
            self.sessions.insert(name.to_owned(), self.db.session(name).await);
        }
        self.await_end(name).await;
        let Some(session) = self.sessions.get_mut(name) else { return };
        let outcome = session.step(sql).await;
        let mut waited_for = Vec::new();
        if let Outcome::Blocked { by } = &outcome {
            waited_for = by.iter().map(|&id| self.name_of(id)).collect();
            self.waiting.insert(name.to_owned(), self.steps.len());
        }
        self.steps.push(Step { session: name.to_owned(), sql: sql.to_owned(), waited_for, outcome });
    }

    async fn await_end(&mut self, name: &str) {
        let (Some(step), Some(session)) = (self.waiting.remove(name), self.sessions.get_mut(name)) else { return };
        self.steps[step].outcome = session.outcome().await;
    }

    async fn end(mut self) -> Transcript {
        for (name, session) in &mut self.sessions {
            if !self.waiting.contains_key(name) {
                session.step("rollback").await;
            }
        }
        // The order in which they get on is the server's; each that ends lets others on, so take whoever has ended.
        while !self.waiting.is_empty() {
            let names: Vec<String> = self.waiting.keys().cloned().collect();
            for name in names {
                let Some(session) = self.sessions.get_mut(&name) else { continue };
                let outcome = session.outcome_or_blocked().await;
                if outcome.is_blocked() {
                    continue;
                }
                session.step("rollback").await;
                if let Some(step) = self.waiting.remove(&name) {
                    self.steps[step].outcome = outcome;
                }
            }
        }
        for session in self.sessions.into_values() {
            session.close().await;
        }
        Transcript(self.steps)
    }

    fn name_of(&self, id: i64) -> String {
        let found = self.sessions.iter().find(|(_, session)| session.id() == id);
        found.map_or_else(|| format!("session {id}"), |(name, _)| name.clone())
    }
}
