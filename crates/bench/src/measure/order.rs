//! In order against in any order: two of twenty hot rows, many clients.
//!
//! The other side is what one finds in services: rows locked one by one as the request names them, and the whole
//! transaction run again after a deadlock or a timeout, ten times at most.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rowlock::Db;
use sqlx::Pool;

use crate::ground::{Item, Row as Record};
use crate::hand::{ATTEMPTS, Hand, back_off};
use crate::row::{Row, rate};
use crate::work::{Keys, Pace, Side, Tally, Work, alternate};

const KEYS: Keys = Keys { count: 2, of: 20 };

pub(crate) async fn run<E: Hand>(place: &str, db: &Db<E>, pool: &Pool<E>, pace: Pace) -> Result<Row> {
    let before = db.counts();
    let [ours, theirs] = alternate([&in_order(db), &in_any_order(pool)], KEYS, pace).await?;
    let deadlocks = db.counts().deadlocks - before.deadlocks;
    let mut row = Row::rates(place, "2 of 20 rows", &ours, &theirs);
    row.ours = format!("{}, {deadlocks} deadlocks", rate(ours.rate()));
    row.theirs = unordered(&theirs);
    Ok(row)
}

/// What became of the transactions of the unordered side.
fn unordered(side: &Side) -> String {
    let Tally { done, failed, again, .. } = side.total;
    let all = (done + failed).max(1) as f64;
    let failed = 100.0 * failed as f64 / all;
    format!("{}, {:.2} deadlocks a transaction, {failed:.1} % given up", rate(side.rate()), again as f64 / all)
}

/// All rows by one call.
pub(crate) fn in_order<E: Hand>(db: &Db<E>) -> Work {
    let db = db.clone();
    Arc::new(move |ids| {
        let db = db.clone();
        Box::pin(async move {
            change(&db, &ids).await?;
            Ok(Tally { done: 1, ..Tally::default() })
        })
    })
}

async fn change<E: Hand>(db: &Db<E>, ids: &[i64]) -> rowlock::Result<()> {
    db.transaction(async |tx| {
        let (mut tx, _) = tx.lock::<Item>(ids).fetch_all::<Record>().await?;
        for id in ids {
            sqlx::query(E::UPDATE).bind(*id).execute(&mut tx).await?;
        }
        Ok(())
    })
    .await
}

fn in_any_order<E: Hand>(pool: &Pool<E>) -> Work {
    let pool = pool.clone();
    Arc::new(move |ids| {
        let pool = pool.clone();
        Box::pin(async move {
            let (mut tally, mut again) = (Tally::default(), 0);
            loop {
                match E::change_rows(&pool, &ids, Duration::ZERO).await {
                    Ok(_) => tally.done += 1,
                    Err(error) if !E::is_conflict(&error) => return Err(error.into()),
                    Err(_) => {
                        again += 1;
                        if again < ATTEMPTS {
                            back_off(again).await;
                            continue;
                        }
                        tally.failed += 1;
                    }
                }
                tally.again = again.into();
                return Ok(tally);
            }
        })
    })
}
