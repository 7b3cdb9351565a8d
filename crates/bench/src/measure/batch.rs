//! A hundred rows locked in one call, against one statement a row in the same transaction by hand.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use rowlock::Db;
use sqlx::Pool;

use crate::ground::{Item, ROWS, Row as Record};
use crate::hand::Hand;
use crate::row::Row;
use crate::work::{Keys, Pace, Tally, Work, alternate};

const KEYS: Keys = Keys { count: 100, of: ROWS };

/// What is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// From the first locking statement to the last one's answer.
    Locking,
    /// From taking a connection to the answer of COMMIT.
    Whole,
}

pub(crate) async fn run<E: Hand>(
    place: &str,
    way: &str,
    part: Part,
    (db, pool): (&Db<E>, &Pool<E>),
    pace: Pace,
) -> Result<Row> {
    let [ours, theirs] = alternate([&by_rowlock(db, part), &by_hand(pool, part)], KEYS, pace).await?;
    let what = match part {
        Part::Locking => format!("100 rows, {way}"),
        Part::Whole => format!("the same with BEGIN and COMMIT, {way}"),
    };
    Ok(Row::rates(place, &what, &ours, &theirs))
}

fn by_rowlock<E: Hand>(db: &Db<E>, part: Part) -> Work {
    let db = db.clone();
    Arc::new(move |ids| {
        let db = db.clone();
        Box::pin(async move {
            let took = lock(&db, &ids).await?;
            Ok(Tally { done: 1, timed: (part == Part::Locking).then_some(took), ..Tally::default() })
        })
    })
}

async fn lock<E: Hand>(db: &Db<E>, ids: &[i64]) -> rowlock::Result<Duration> {
    db.transaction(async |tx| {
        let began = Instant::now();
        let (_tx, rows) = tx.lock::<Item>(ids).fetch_all::<Record>().await?;
        debug_assert_eq!(rows.len(), ids.len());
        Ok(began.elapsed())
    })
    .await
}

fn by_hand<E: Hand>(pool: &Pool<E>, part: Part) -> Work {
    let pool = pool.clone();
    Arc::new(move |mut ids| {
        let pool = pool.clone();
        Box::pin(async move {
            // A careful hand sorts.
            ids.sort_unstable();
            let took = E::lock(&pool, &ids).await?;
            Ok(Tally { done: 1, timed: (part == Part::Locking).then_some(took), ..Tally::default() })
        })
    })
}
