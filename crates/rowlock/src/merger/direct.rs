//! One statement by itself, without BEGIN and COMMIT: each row's sum is subtracted where it is there, and each row tells
//! what was found.
//!
//! A lane keeps its connection from batch to batch for as long as there are any: the pool would ask the server each time
//! whether it still answers. It gives it back before it takes another for a transaction, before it waits for anything else,
//! and now and then, since others may wait for it.

use std::time::Instant;

use rowlock_footprint::Wait;

use super::{Shared, queue::Group, rows};
use crate::{
    connection::Connection,
    count::Event,
    engine::{Engine, Told},
    error::Error,
    progress::Progress,
    update::Work,
};

/// For how many batches a connection is kept at most.
const KEPT: usize = 100;

pub(super) struct Direct<E: Engine> {
    connection: Option<Connection<E>>,
    batches: usize,
}

impl<E: Engine> Direct<E> {
    pub(super) fn new() -> Self {
        Direct { connection: None, batches: 0 }
    }

    /// Gives the connection back.
    pub(super) fn release(&mut self) {
        self.connection = None;
        self.batches = 0;
    }

    /// Whether one statement can do it, and may.
    pub(super) fn serves(&self, shared: &Shared<E>, groups: &[Group]) -> bool {
        let kind = &shared.kind;
        kind.goes_alone() && E::told(kind.shared.dialect, groups.len(), Wait::Wait) != Told::Nothing
    }

    /// What was found in each row; where that is its sum or more, it was subtracted. `None`: there is no row, or the engine does
    /// not tell; nothing was changed.
    pub(super) async fn subtract(&mut self, shared: &Shared<E>, groups: &[Group]) -> Result<Vec<Option<i64>>, Error> {
        let kind = &shared.kind;
        let sums = rows::sums(shared, groups.iter());
        if kind.is_gated() {
            // Who waits at a gate holds no connection: the one inside may be waiting for it.
            self.release();
        }
        let _inside = kind.enter().await?;
        let began = Instant::now();
        let mut progress = Progress::default();
        loop {
            if self.batches >= KEPT {
                self.release();
            }
            let connection = match self.connection.take() {
                Some(connection) => connection,
                None => match kind.take_alone(&mut progress, began).await? {
                    Some(connection) => connection,
                    None => continue,
                },
            };
            let mut inner = kind.attempt(connection, &progress);
            let work = Work::new(&inner, shared.rank, &sums)?;
            // It is what it is busy at, if it is.
            inner.hold_step(&work.step);
            let sent = Instant::now();
            let statement = inner.change_statement(&work, 0..groups.len(), true)?;
            let limit = inner.options.wait;
            let answer = inner.alone(limit, |connection| E::fetch_changed(connection, statement)).await;
            if let Ok((Some(Ok(changed)), _)) = &answer {
                self.connection = Some(inner.connection);
                self.batches += 1;
                kind.shared.counters.count(Event::Committed, &kind.name);
                return work.found(changed);
            }
            // Not answered as it should be: it is told, or sent again.
            kind.answered(inner, answer, &mut progress, (began, sent)).await?;
        }
    }
}
