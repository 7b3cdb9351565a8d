//! Where two transactions meet, so that each holds its first lock before either asks for the next.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use rowlock_testing::{Family, TestDb, Watch};
use tokio::sync::Notify;

/// Open once both have come, or one has come and the other is seen to wait for a lock: then it will not come, which is
/// what an order is for. Whoever comes again finds it open.
pub(crate) struct Gate {
    test: TestDb,
    here: AtomicUsize,
    came: Notify,
}

impl Gate {
    pub(crate) fn new(test: &TestDb) -> Gate {
        Gate { test: test.clone(), here: AtomicUsize::new(0), came: Notify::new() }
    }

    pub(crate) async fn pass(&self) {
        let before = self.here.fetch_add(1, SeqCst);
        self.came.notify_waiters();
        // SQLite lets one writing transaction begin at a time: there is nobody to meet.
        if before > 0 || self.test.family() == Family::Sqlite {
            return;
        }
        let mut watch = Watch::on(&self.test).await;
        while self.here.load(SeqCst) < 2 && watch.waits().await.is_empty() {
            tokio::task::yield_now().await;
        }
    }

    /// Waits until somebody has come: for the one that is to be second.
    pub(crate) async fn second(&self) {
        let came = self.came.notified();
        if self.here.load(SeqCst) == 0 {
            came.await;
        }
    }
}
