//! A way to take one off a row: by a careful hand on plain sqlx, or by rowlock.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use futures_util::future::BoxFuture;
use rowlock::{Counter, Db, Edit, Error, Versioned};
use sqlx::Pool;

use crate::{
    ground::Item,
    hand::{ATTEMPTS, Hand, back_off},
};

const STOCK: Counter<Item> = Counter::new("n");

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Done,
    /// Turned away at once: the row was another's.
    Busy,
    /// Given up after all attempts.
    Failed,
}

/// One call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) ended: Ended,
    /// How long the row was locked, where the client can tell: from the answer of the lock to that of COMMIT; for one
    /// statement, its round trip, which is more.
    pub(crate) held: Option<Duration>,
    /// Attempts that a deadlock or a conflict of versions ended.
    pub(crate) again: u32,
}

/// Makes one call for the rows that it is given.
pub(crate) type Calls = Arc<dyn Fn(Vec<i64>) -> BoxFuture<'static, Result<Call>> + Send + Sync>;

/// The ways, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    ForUpdate,
    Outside(u64),
    TwoInAnyOrder,
    TwoOrdered,
    Ordered,
    Nowait,
    SkipLocked,
    Versions,
    Conditional,
    Merged,
}

impl Way {
    pub(crate) const ALL: [Way; 12] = [
        Way::ForUpdate,
        Way::Outside(5),
        Way::Outside(50),
        Way::Outside(200),
        Way::TwoInAnyOrder,
        Way::TwoOrdered,
        Way::Ordered,
        Way::Nowait,
        Way::SkipLocked,
        Way::Versions,
        Way::Conditional,
        Way::Merged,
    ];

    pub(crate) fn name(self) -> String {
        match self {
            Way::ForUpdate => "FOR UPDATE by hand".into(),
            Way::Outside(ms) => format!("FOR UPDATE by hand, {ms} ms outside call inside"),
            Way::TwoInAnyOrder => "two rows, FOR UPDATE by hand as they come".into(),
            Way::TwoOrdered => "two rows, ordered lock".into(),
            Way::Ordered => "ordered lock".into(),
            Way::Nowait => "NOWAIT".into(),
            Way::SkipLocked => "SKIP LOCKED, any of 64 rows".into(),
            Way::Versions => "versions".into(),
            Way::Conditional => "conditional update".into(),
            Way::Merged => "merged".into(),
        }
    }

    /// How many rows a call takes.
    pub(crate) fn rows(self) -> usize {
        if matches!(self, Way::TwoInAnyOrder | Way::TwoOrdered) { 2 } else { 1 }
    }

    pub(crate) async fn calls<E: Hand>(self, db: &Db<E>) -> Result<Calls> {
        let (db, pool) = (db.clone(), db.pool().clone());
        Ok(match self {
            Way::ForUpdate | Way::TwoInAnyOrder => by_hand(pool, Duration::ZERO),
            Way::Outside(ms) => by_hand(pool, Duration::from_millis(ms)),
            Way::Ordered | Way::TwoOrdered => calls(db, |db, ids| Box::pin(locked(db, ids, false))),
            Way::Nowait => calls(db, |db, ids| Box::pin(locked(db, ids, true))),
            Way::SkipLocked => calls(db, |db, _| Box::pin(claimed(db))),
            Way::Versions => calls(db, |db, ids| Box::pin(saved(db, ids))),
            Way::Conditional => calls(db, |db, ids| Box::pin(updated(db, ids))),
            Way::Merged => {
                let merger = db.kind("merged").merger(STOCK).start().await?;
                Arc::new(move |ids| {
                    let call = merger.subtract(ids[0], 1);
                    Box::pin(async move { finished(call.await.map(|_| None), 0) })
                })
            }
        })
    }
}

fn calls<E: Hand>(
    db: Db<E>,
    call: impl Fn(Db<E>, Vec<i64>) -> BoxFuture<'static, Result<Call>> + Send + Sync + 'static,
) -> Calls {
    Arc::new(move |ids| call(db.clone(), ids))
}

/// How a call of rowlock's ended.
fn finished(result: rowlock::Result<Option<Duration>>, again: u32) -> Result<Call> {
    match result {
        Ok(held) => Ok(Call { ended: Ended::Done, held, again }),
        Err(error) if error.is_busy() => Ok(Call { ended: Ended::Busy, held: None, again }),
        Err(Error::Exhausted { attempts, .. }) => {
            Ok(Call { ended: Ended::Failed, held: None, again: again + attempts.len() as u32 })
        }
        Err(error) => Err(error.into()),
    }
}

fn by_hand<E: Hand>(pool: Pool<E>, outside: Duration) -> Calls {
    Arc::new(move |ids| {
        let pool = pool.clone();
        Box::pin(async move {
            let mut again = 0;
            loop {
                let error = match E::change_rows(&pool, &ids, outside).await {
                    Ok(held) => return Ok(Call { ended: Ended::Done, held: Some(held), again }),
                    Err(error) => error,
                };
                // Nobody was let into the pool for half a minute: a caller of a service has gone by then.
                let starved = matches!(error, sqlx::Error::PoolTimedOut);
                if !starved && !E::is_conflict(&error) {
                    return Err(error.into());
                }
                again += u32::from(!starved);
                if starved || again == ATTEMPTS {
                    return Ok(Call { ended: Ended::Failed, held: None, again });
                }
                back_off(again).await;
            }
        })
    })
}

async fn locked<E: Hand>(db: Db<E>, ids: Vec<i64>, nowait: bool) -> Result<Call> {
    let locked = db.transaction(async |tx| {
        let lock = tx.lock::<Item>(&ids);
        let mut tx = if nowait { lock.nowait().await? } else { lock.await? };
        let began = Instant::now();
        for id in &ids {
            sqlx::query(E::UPDATE).bind(*id).execute(&mut tx).await?;
        }
        Ok::<_, Error>(began)
    });
    finished(locked.await.map(|began| Some(began.elapsed())), 0)
}

async fn claimed<E: Hand>(db: Db<E>) -> Result<Call> {
    let claimed = db.transaction(async |tx| {
        let (mut tx, ids) = tx.lock_where::<Item>("n > 0 and id <= 64").limit(1).skip_locked().keys().await?;
        let began = Instant::now();
        for id in &ids {
            sqlx::query(E::UPDATE).bind(*id).execute(&mut tx).await?;
        }
        Ok::<_, Error>((began, ids.is_empty()))
    });
    match claimed.await {
        Ok((_, true)) => Ok(Call { ended: Ended::Busy, held: None, again: 0 }),
        other => finished(other.map(|(began, _)| Some(began.elapsed())), 0),
    }
}

/// A row as it is edited.
#[derive(sqlx::FromRow)]
struct Page {
    id: i64,
    n: i64,
    version: i64,
}

impl Versioned for Page {
    type Resource = Item;
    fn key(&self) -> i64 {
        self.id
    }
    fn version(&self) -> i64 {
        self.version
    }
}

async fn saved<E: Hand>(db: Db<E>, ids: Vec<i64>) -> Result<Call> {
    let reads = AtomicU32::new(0);
    let edit = db.kind("edit");
    let revised = edit.revise(ids[0], async |page: Page| {
        reads.fetch_add(1, Relaxed);
        Ok::<_, Error>(Some(Edit::of(&page).set("n", page.n - 1)))
    });
    match revised.await {
        Ok(_) => Ok(Call { ended: Ended::Done, held: None, again: reads.into_inner() - 1 }),
        Err(error) => finished(Err(error), 0),
    }
}

async fn updated<E: Hand>(db: Db<E>, ids: Vec<i64>) -> Result<Call> {
    let began = Instant::now();
    let updated = db.kind("sell").update(STOCK.subtract([(ids[0], 1)])).await;
    finished(updated.map(|_| Some(began.elapsed())), 0)
}
