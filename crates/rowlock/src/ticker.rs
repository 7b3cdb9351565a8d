//! A coarse clock for limits that nearly never end: one timer for all that wait, where tokio's own is one for each.
//!
//! A timer of tokio's is entered into its wheel and taken out again, and one that is due before all others wakes the
//! runtime's driver by a system call. A locking statement has a limit of seconds, is answered within a millisecond, and
//! costs as much again in timers. So what has a long limit looks at the time whenever the ticker ticks, and is late by at
//! most [`TICK`].

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use tokio::{runtime::Handle, sync::Notify};

/// How late a limit may end.
const TICK: Duration = Duration::from_millis(50);

/// Limits below this are kept by timers of their own: of these, [`TICK`] would be more than a twentieth.
const COARSE: Duration = Duration::from_secs(1);

/// So many ticks in a row without anyone who waits, and the ticker rests.
const RESTS_AFTER: u32 = if cfg!(test) { 2 } else { 100 };

#[derive(Default)]
pub(crate) struct Ticker {
    ticks: Notify,
    waiting: AtomicUsize,
    /// Ends a rest.
    wake: Arc<Notify>,
    resting: AtomicBool,
}

impl Ticker {
    /// Runs until it is dropped.
    pub(crate) fn start(runtime: &Handle) -> Arc<Ticker> {
        let ticker = Arc::new(Ticker::default());
        runtime.spawn(run(Arc::downgrade(&ticker)));
        ticker
    }

    /// The answer of `work`, or `None` when there is none at `until`, or a little later.
    pub(crate) async fn timeout_at<T>(&self, until: Instant, mut work: impl Future<Output = T> + Unpin) -> Option<T> {
        if until.saturating_duration_since(Instant::now()) < COARSE {
            return tokio::time::timeout_at(until.into(), work).await.ok();
        }
        let _waits = Waits::new(self);
        loop {
            tokio::select! {
                biased;
                answer = &mut work => return Some(answer),
                () = self.ticks.notified() => {
                    if Instant::now() >= until {
                        return None;
                    }
                }
            }
        }
    }
}

/// Ticks while anyone waits.
async fn run(ticker: Weak<Ticker>) {
    let mut idle = 0;
    loop {
        let Some(this) = ticker.upgrade() else { return };
        if this.waiting.load(SeqCst) > 0 {
            idle = 0;
            this.ticks.notify_waiters();
        } else {
            idle += 1;
        }
        if idle < RESTS_AFTER {
            drop(this);
            tokio::time::sleep(TICK).await;
            continue;
        }
        this.resting.store(true, SeqCst);
        // Who came before it was stored has not seen it.
        if this.waiting.load(SeqCst) == 0 {
            let wake = this.wake.clone();
            drop(this);
            wake.notified().await;
        }
        idle = 0;
        if let Some(this) = ticker.upgrade() {
            this.resting.store(false, SeqCst);
        }
    }
}

/// One who waits, counted.
struct Waits<'t>(&'t Ticker);

impl<'t> Waits<'t> {
    fn new(ticker: &'t Ticker) -> Self {
        ticker.waiting.fetch_add(1, SeqCst);
        if ticker.resting.load(SeqCst) {
            ticker.wake.notify_one();
        }
        Waits(ticker)
    }
}

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, SeqCst);
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    fn ticker() -> Arc<Ticker> {
        Ticker::start(&Handle::current())
    }

    /// Looks once a tick. The limit is no verdict on speed: without it a fault would hang.
    async fn until(what: &str, is_so: impl Fn() -> bool) {
        let since = Instant::now();
        while !is_so() {
            assert!(since.elapsed() < Duration::from_secs(120), "{what}: not after two minutes");
            tokio::time::sleep(TICK).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_answered_is_given() {
        let ticker = ticker();
        assert_eq!(ticker.timeout_at(Instant::now() + Duration::from_secs(10), ready(7)).await, Some(7));
        assert_eq!(ticker.waiting.load(SeqCst), 0);
    }

    #[tokio::test]
    async fn a_long_limit_ends_a_tick_late_at_most() {
        let ticker = ticker();
        let until = Instant::now() + COARSE + TICK;
        assert_eq!(ticker.timeout_at(until, pending::<()>()).await, None);
        assert!(Instant::now() >= until, "never early");
    }

    #[tokio::test]
    async fn a_short_limit_has_a_timer_of_its_own() {
        let ticker = ticker();
        let until = Instant::now() + TICK / 10;
        assert_eq!(ticker.timeout_at(until, pending::<()>()).await, None);
        assert!(Instant::now() >= until);
    }

    #[tokio::test]
    async fn one_that_rests_is_woken() {
        let ticker = ticker();
        until("it rests", || ticker.resting.load(SeqCst)).await;
        let until = Instant::now() + COARSE + TICK;
        assert_eq!(ticker.timeout_at(until, pending::<()>()).await, None);
    }

    #[tokio::test]
    async fn it_ends_with_its_owner() {
        let ticker = ticker();
        let wake = ticker.wake.clone();
        until("it rests", || ticker.resting.load(SeqCst)).await;
        drop(ticker);
        // The task had the other clone.
        until("its task ends", || Arc::strong_count(&wake) == 1).await;
    }
}
