//! 256 callers, of whom some go away, on a server whose sessions are killed: what was granted is what is gone, exactly.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use futures_util::{FutureExt, future::join_all};
use rand::{Rng, SeedableRng, rngs::StdRng};
use rowlock::{Db, Engine, Merger, Outcome};
use rowlock_testing::{Family, TestDb, engines};
use tokio::sync::Notify;

use crate::{
    STOCK, start_with_ledger,
    support::{Inventory, open},
};

const CALLERS: u64 = 256;
const CALLS: u64 = 20;
/// A session is killed each time so many calls were answered.
const EACH: u64 = 200;
/// Sold out before the end.
const STOCKED: i64 = 12_000;

/// How far the callers are, and who waits to hear of it.
#[derive(Default)]
struct Progress {
    answered: AtomicU64,
    told: Notify,
    over: AtomicBool,
}

impl Progress {
    fn count(&self) {
        if self.answered.fetch_add(1, Relaxed) % EACH == EACH - 1 {
            self.told.notify_one();
        }
    }
}

/// Kills a session of the database now and then, until all is over.
async fn kill_sessions(test: TestDb, progress: Arc<Progress>) {
    loop {
        progress.told.notified().await;
        if progress.over.load(Relaxed) {
            return;
        }
        match test.family() {
            Family::Postgres => {
                test.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() \
                     and backend_type = 'client backend' and pid <> pg_backend_pid() order by random() limit 1",
                )
                .await;
            }
            Family::InnoDb => {
                let ids = test
                    .execute(
                        "select id from information_schema.processlist where db = database() and id <> connection_id() \
                         order by rand() limit 1",
                    )
                    .await;
                if let Some(Some(id)) = ids.rows.first().and_then(|row| row.first()) {
                    // It may have gone by itself.
                    test.connect().await.run(&format!("kill {id}")).await.ok();
                }
            }
            Family::Sqlite => {}
        }
    }
}

/// Some calls are dropped at some point, the others awaited: how much these were granted, and how many there were.
async fn caller<E: Engine>(n: u64, merger: Merger<E, Inventory>, progress: Arc<Progress>, drops: bool) -> (i64, u64) {
    let mut random = StdRng::seed_from_u64(n);
    let (mut granted, mut awaited) = (0, 0);
    for _ in 0..CALLS {
        let quantity = random.random_range(0..=9);
        let mut call = merger.subtract(random.random_range(1..=2), quantity);
        if random.random_bool(0.2) {
            assert!((&mut call).now_or_never().is_none());
            tokio::task::yield_now().await;
            if drops {
                continue;
            }
            if call.withdraw() {
                continue;
            }
        }
        match call.await.unwrap_or_else(|error| panic!("caller {n}: {error:?}")) {
            Outcome::Applied { value } => {
                assert!(value >= 0);
                granted += quantity;
            }
            Outcome::Insufficient { found } => assert!((0..quantity).contains(&found)),
            outcome => panic!("{outcome:?}"),
        }
        awaited += 1;
        progress.count();
    }
    (granted, awaited)
}

async fn storm<E: Engine>(test: &TestDb, merger: &Merger<E, Inventory>, drops: bool) -> (i64, u64) {
    test.execute(&format!("update inventories set n = {} where id <= 2", STOCKED / 2)).await;
    let progress = Arc::new(Progress::default());
    let killer = tokio::spawn(kill_sessions(test.clone(), progress.clone()));
    let callers = (0..CALLERS).map(|n| tokio::spawn(caller(n, merger.clone(), progress.clone(), drops)));
    let mut total = (0, 0);
    for told in join_all(callers).await {
        let (granted, awaited) = told.unwrap();
        total = (total.0 + granted, total.1 + awaited);
    }
    // Nobody is in line any more; some that were dropped may be under way.
    merger.close().await;
    // To its end: a kill that is under way at the server would meet whoever asks next.
    progress.over.store(true, Relaxed);
    progress.told.notify_one();
    killer.await.unwrap();
    total
}

async fn left(test: &TestDb) -> i64 {
    assert_eq!(test.value("select count(*) from inventories where n < 0").await, "0");
    test.value("select sum(n) from inventories where id <= 2").await.parse().unwrap()
}

engines! {
    async fn with_a_commit_token<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let merger = db.kind("storm").commit_token(true).attempts(100).merger(STOCK).queue(100).start().await.unwrap();
        let (granted, awaited) = storm(&test, &merger, false).await;
        assert_eq!(left(&test).await, STOCKED - granted);
        assert!(awaited > CALLERS * CALLS / 2, "{awaited}");
    }

    async fn with_a_ledger<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let merger = start_with_ledger(&test, &db).await;
        let (granted, awaited) = storm(&test, &merger, true).await;
        let entered: i64 =
            test.value("select sum(quantity) from stock_ledger where outcome = 0").await.parse().unwrap();
        assert_eq!(left(&test).await, STOCKED - entered);
        // Those who went away while they were under way are in the ledger too.
        assert!(entered >= granted, "{entered} and {granted}");
        let entries: u64 = test.value("select count(*) from stock_ledger").await.parse().unwrap();
        assert!((awaited..=CALLERS * CALLS).contains(&entries), "{awaited} and {entries}");
    }
}
