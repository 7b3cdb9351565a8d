//! How long locks are held, and how much of it nothing was done.

use std::{
    sync::{Arc, OnceLock},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

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

/// Time between statements while locks are held: what an outside call inside a transaction shows as.
#[derive(Default)]
pub(crate) struct Idle {
    total: Duration,
    since: Option<Instant>,
}

impl Idle {
    /// A statement was answered; from here on the transaction is idle.
    pub(crate) fn answered(&mut self) {
        self.since = Some(Instant::now());
    }

    /// A statement is sent.
    pub(crate) fn sent(&mut self) {
        if let Some(since) = self.since.take() {
            self.total += since.elapsed();
        }
    }

    pub(crate) fn total(&self) -> Duration {
        self.total + self.since.map_or(Duration::ZERO, |s| s.elapsed())
    }
}
