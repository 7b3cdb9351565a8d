//! What lies between two attempts of a transaction: what the next one is to know, and how long it waits.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use rand::Rng;
use rowlock_footprint::Strength;

use crate::{
    count::Event,
    engine::Engine,
    error::{Attempt, Error},
    failure::Failure,
    inner::Inner,
    kind::Kind,
    model::Model,
    place::Place,
};

/// No wait between attempts is longer.
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

/// What the next attempt needs to know of the ones before.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) restarts: u32,
    /// How many connections had prepared what no longer fits.
    stale: u32,
    /// The schema was looked at for its sake and was the same: once more it may have been in between.
    looked: bool,
    /// How many connections were dead before anything was sent.
    pub(crate) dead: u32,
    /// How long SQLite's one writer was waited for.
    pub(crate) waited: Duration,
    /// What the next attempt locks up front.
    pub(crate) union: BTreeMap<Place, Strength>,
}

impl<E: Engine> Kind<E> {
    /// Takes what the attempt held and wanted into what the next one locks up front; or gives up for the time.
    pub(crate) fn restart(&self, progress: &mut Progress, inner: &mut Inner<E>, began: Instant) -> Result<(), Error> {
        progress.restarts += 1;
        self.shared.counters.count(Event::Restart, &self.name);
        let held = inner.held.places().map(|(place, strength)| (place.clone(), strength));
        for (place, strength) in held.chain(std::mem::take(&mut inner.wanted)) {
            let s = progress.union.entry(place).or_insert(strength);
            *s = (*s).max(strength);
        }
        let after = began.elapsed();
        if after <= self.options.deadline {
            return Ok(());
        }
        let message = format!("a late place was busy, {} times", progress.restarts);
        progress.attempts.push(Attempt { failure: Failure::Busy, message, after });
        Err(Error::Exhausted { kind: self.name.clone(), attempts: std::mem::take(&mut progress.attempts) })
    }

    /// Rolls back after a transient failure, and waits before the next attempt; or gives up.
    pub(crate) async fn again(
        &self,
        inner: Box<Inner<E>>,
        progress: &mut Progress,
        began: Instant,
        failure: Failure,
        message: String,
    ) -> Result<(), Error> {
        match failure {
            Failure::StalePlan => inner.connection.retire().await,
            _ => inner.connection.rollback().await,
        }
        self.fail(progress, began, failure, message).await
    }

    /// After a statement of rowlock's own that did not fit the schema, and was rolled back: whether it is to be run again, on
    /// the schema as it is now. `model` is what it was made from.
    pub(crate) async fn renewed(
        &self,
        model: &Model,
        progress: &mut Progress,
        began: Instant,
        message: String,
    ) -> Result<bool, Error> {
        if !self.shared.renew(model).await && std::mem::replace(&mut progress.looked, true) {
            return Ok(false);
        }
        self.failed(progress, began, Failure::SchemaChanged, message).await.map(|()| true)
    }

    /// A failure that ends the transaction where the kind has a hold limit: only PostgreSQL's own setting tells of it.
    pub(crate) async fn fail(
        &self,
        progress: &mut Progress,
        began: Instant,
        failure: Failure,
        message: String,
    ) -> Result<(), Error> {
        match (failure, self.options.hold_limit) {
            (Failure::Idle, Some(limit)) => Err(Error::HoldLimit { kind: self.name.clone(), limit }),
            _ => self.failed(progress, began, failure, message).await,
        }
    }

    /// Notes a transient failure, and waits before the next attempt; or gives up.
    pub(crate) async fn failed(
        &self,
        progress: &mut Progress,
        began: Instant,
        failure: Failure,
        message: String,
    ) -> Result<(), Error> {
        if failure == Failure::ConnectionLost {
            self.shared.sessions.note_lost();
        }
        let after = began.elapsed();
        self.shared.counters.count(Event::Retry(failure), &self.name);
        if failure == Failure::StalePlan {
            // Each connection of the pool may have one, and each is met once: no attempt that failed.
            progress.stale += 1;
            if progress.stale <= self.shared.pool.options().get_max_connections() {
                return Ok(());
            }
        }
        tracing::debug!(kind = %self.name, %failure, message, "rowlock: attempt failed");
        progress.attempts.push(Attempt { failure, message, after });
        let attempts = progress.attempts.len();
        // "Full jitter": a random time up to an exponentially growing bound (M. Brooker, "Exponential Backoff and Jitter",
        // AWS Architecture Blog, 2015).
        let bound = self.options.backoff.saturating_mul(1 << attempts.min(16)).min(LONGEST_BACKOFF);
        let wait = bound.mul_f64(rand::rng().random::<f64>());
        if attempts >= self.options.attempts as usize || after + wait > self.options.deadline {
            return Err(Error::Exhausted { kind: self.name.clone(), attempts: std::mem::take(&mut progress.attempts) });
        }
        tokio::time::sleep(wait).await;
        Ok(())
    }
}
