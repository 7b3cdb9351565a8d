//! How long locks are held, and how much of it nothing was done.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use crate::{engine::Engine, inner::Inner, kind::Kind};

/// The clock of one attempt: it runs from the first lock to the end.
#[derive(Default)]
pub(crate) struct Hold {
    since: OnceLock<Instant>,
    started: Notify,
}

impl Hold {
    /// The first lock is about to be taken.
    pub(crate) fn start(&self) {
        if self.since.set(Instant::now()).is_ok() {
            self.started.notify_one();
        }
    }

    /// How long locks have been held.
    pub(crate) fn held(&self) -> Option<Duration> {
        self.since.get().map(Instant::elapsed)
    }

    /// Resolves once locks have been held for `limit`; never without one.
    pub(crate) async fn exceeds(self: Arc<Self>, limit: Option<Duration>) {
        let Some(limit) = limit else { return std::future::pending().await };
        let since = loop {
            match self.since.get() {
                Some(since) => break *since,
                None => self.started.notified().await,
            }
        };
        tokio::time::sleep_until((since + limit).into()).await;
    }
}

/// Whether a statement is under way, and the time in which none was: what an outside call inside a transaction shows as.
#[derive(Default)]
pub(crate) struct Pace {
    idle: Duration,
    idle_since: Option<Instant>,
    under_way: bool,
}

impl Pace {
    /// A statement is sent.
    pub(crate) fn sent(&mut self) {
        if let Some(since) = self.idle_since.take() {
            self.idle += since.elapsed();
        }
        self.under_way = true;
    }

    /// The statement is being answered; from here on the transaction is idle.
    pub(crate) fn answered(&mut self) {
        self.idle_since = Some(Instant::now());
        self.under_way = false;
    }

    /// The statement failed in a way after which the connection cannot be used: as if it were never answered.
    pub(crate) fn broken(&mut self) {
        self.under_way = true;
    }

    /// A statement was sent and not answered: when its future is gone, so is what is known of the connection.
    pub(crate) fn is_under_way(&self) -> bool {
        self.under_way
    }

    /// All the time between statements.
    pub(crate) fn idle(&self) -> Duration {
        self.idle + self.idle_since.map_or(Duration::ZERO, |s| s.elapsed())
    }
}

impl<E: Engine> Kind<E> {
    /// Records how long an attempt held locks, and tells when it was too long.
    pub(crate) fn watch_hold(&self, inner: &Inner<E>) {
        let Some(held) = inner.hold.held() else { return };
        metrics::histogram!("rowlock_hold_seconds", "kind" => self.name.label()).record(held.as_secs_f64());
        if held > self.options.hold_budget {
            let idle = inner.pace.idle();
            tracing::warn!(
                kind = %self.name, ?held, ?idle, places = inner.held.len(), budget = ?self.options.hold_budget,
                "rowlock: locks were held longer than the budget; idle time is time between statements"
            );
        }
    }
}
