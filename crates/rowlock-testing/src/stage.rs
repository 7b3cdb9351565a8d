//! Transactions on a real server, run in one interleaving after the other until the server breaks a deadlock.
//!
//! Sessions are kept between runs and every run ends in ROLLBACK, so that the data stay what they were. A transaction whose
//! turn it is while it waits keeps its turn's statement for later; one that has done all while others wait is ended, so that
//! they go on.
//!
//! What a statement does in its middle cannot be stepped. There a *keeper* helps: a session that locks a row beforehand and
//! lets it go when nothing else moves. Statements that reach the row stop there with what they have locked on the way.

use std::time::{Duration, Instant};

use crate::interleaving::Turn;
use crate::session::{Outcome, Session};
use crate::waits::{PATIENCE, Watch};
use crate::{Family, TestDb};

/// Before the first look at who waits: most statements have ended by then.
const FIRST_LOOK: Duration = Duration::from_micros(700);

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The transaction that the server rolled back to break a deadlock, and those that waited then.
    pub deadlock: Option<(usize, Vec<usize>)>,
    /// What other statements failed with: the transaction's number, the statement, the server's words.
    pub failures: Vec<(usize, String, String)>,
}

/// Sessions on a database, for running interleavings.
#[derive(Debug)]
pub struct Stage {
    family: Family,
    players: Vec<Player>,
    keeper: Session,
    /// The keeper has its row.
    keeps: bool,
    watch: Watch,
}

#[derive(Debug)]
struct Player {
    session: Session,
    left: Vec<String>,
    blocked: bool,
    /// BEGIN was sent, and no end since.
    open: bool,
}

impl TestDb {
    /// A stage for up to `transactions` at once.
    pub async fn stage(&self, transactions: usize) -> Stage {
        let mut players = Vec::new();
        for at in 0..transactions {
            let mut session = self.session(&format!("transaction {at}")).await;
            if self.family() == Family::Postgres {
                // A deadlock is looked for when somebody has waited that long.
                session.run("set deadlock_timeout = '2ms'").await;
            }
            players.push(Player { session, left: Vec::new(), blocked: false, open: false });
        }
        let keeper = self.session("keeper").await;
        Stage { players, keeper, keeps: false, family: self.family(), watch: Watch::on(self).await }
    }
}

impl Stage {
    /// From now on the transaction at that place runs at this isolation, as SQL has it: `read committed`.
    pub async fn isolation(&mut self, at: usize, level: &str) {
        let sql = match self.family {
            Family::Postgres => format!("set session characteristics as transaction isolation level {level}"),
            _ => format!("set session transaction isolation level {level}"),
        };
        self.players[at].session.run(&sql).await;
    }

    /// Runs transactions in one order of their statements, as far as waits allow it, up to the first deadlock. `kept`: what
    /// the keeper locks beforehand.
    pub async fn run(&mut self, transactions: &[&[String]], order: &[Turn], kept: Option<&str>) -> Ended {
        let mut ended = Ended { deadlock: None, failures: Vec::new() };
        if let Some(sql) = kept {
            self.keeper.run("begin").await;
            self.keeper.run(sql).await;
            self.keeps = true;
        }
        for (player, statements) in self.players.iter_mut().zip(transactions) {
            player.left = statements.to_vec();
            player.session.run("begin").await;
            player.open = true;
        }
        let count = transactions.len().min(self.players.len());
        let mut turns = order.iter();
        while ended.deadlock.is_none() {
            let ready = |player: &Player| !player.blocked && !player.left.is_empty();
            let turn = turns.next().map(|turn| turn.of);
            if turn.is_some_and(|at| !ready(&self.players[at])) {
                continue;
            }
            if let Some(at) = turn.or_else(|| (0..count).find(|at| ready(&self.players[*at]))) {
                let player = &mut self.players[at];
                let sql = player.left.remove(0);
                player.session.start(&sql);
                player.blocked = true;
                self.settle(at, &sql, &mut ended).await;
            } else if self.players.iter().all(|player| !player.blocked) {
                break;
            } else if self.keeps {
                self.let_go().await;
            } else if let Some(player) = self.players.iter_mut().find(|player| player.open && !player.blocked) {
                // It has nothing left to do: its end lets the others go on.
                player.session.run("rollback").await;
                player.open = false;
            }
            // What one did can have let others go on.
            for at in 0..count {
                if self.players[at].blocked && ended.deadlock.is_none() {
                    self.settle(at, "", &mut ended).await;
                }
            }
        }
        self.let_go().await;
        self.clear().await;
        ended
    }

    async fn let_go(&mut self) {
        if std::mem::take(&mut self.keeps) {
            self.keeper.run("rollback").await;
        }
    }

    /// Awaits that the statement of `at` ends, or that the server says that it waits.
    async fn settle(&mut self, at: usize, sql: &str, ended: &mut Ended) {
        let since = Instant::now();
        loop {
            let player = &mut self.players[at];
            if let Some(outcome) = player.session.ended_within(FIRST_LOOK).await {
                player.blocked = false;
                if let Outcome::Failed { message, .. } = &outcome {
                    player.left.clear();
                    if outcome.is_deadlock() {
                        let waiting = (0..self.players.len()).filter(|other| self.players[*other].blocked).collect();
                        ended.deadlock = Some((at, waiting));
                    } else {
                        ended.failures.push((at, sql.to_owned(), message.clone()));
                    }
                }
                return;
            }
            let id = player.session.id();
            let waiting = self.watch.waiting().await;
            let all = !self.keeps && self.players.iter().all(|player| !player.open || player.blocked);
            // When all wait, the server is about to end one.
            if waiting.contains(&id) && (!all || self.other_ended(at, ended).await) {
                return;
            }
            assert!(since.elapsed() < PATIENCE, "a statement neither ends nor waits in {PATIENCE:?}: {sql}");
        }
    }

    /// Whether another one that waits was ended meanwhile.
    async fn other_ended(&mut self, than: usize, ended: &mut Ended) -> bool {
        for at in (0..self.players.len()).filter(|at| *at != than) {
            let player = &mut self.players[at];
            if !player.blocked {
                continue;
            }
            let Some(outcome) = player.session.ended_within(FIRST_LOOK).await else { continue };
            player.blocked = false;
            if outcome.is_deadlock() {
                player.left.clear();
                let waiting = (0..self.players.len()).filter(|other| self.players[*other].blocked).collect();
                ended.deadlock = Some((at, waiting));
            } else if let Outcome::Failed { message, .. } = outcome {
                player.left.clear();
                ended.failures.push((at, String::new(), message));
            }
            return true;
        }
        false
    }

    /// Rolls everything back.
    async fn clear(&mut self) {
        // Those that wait go on when the others have ended.
        while self.players.iter().any(|player| player.open) {
            for player in &mut self.players {
                player.left.clear();
                if player.blocked && player.session.ended_within(FIRST_LOOK).await.is_some() {
                    player.blocked = false;
                }
                if player.open && !player.blocked {
                    player.session.run("rollback").await;
                    player.open = false;
                }
            }
        }
    }
}
