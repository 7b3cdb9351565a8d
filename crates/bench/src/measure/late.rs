//! Late places: rows locked one by one in random order, as a loop over a payload does, so that about half of them lie
//! below what is held. rowlock asks for those without waiting and restarts with the union where one is busy.
//!
//! Beside it the bound that nothing late can reach: all rows in one call. (Unordered and by hand is `order`'s row; with eight
//! rows of twenty it made no end within a slice.)

use std::sync::Arc;

use anyhow::Result;
use rowlock::Db;

use super::order;
use crate::ground::{Item, Row as Record};
use crate::hand::Hand;
use crate::row::{Row, rate};
use crate::work::{Keys, Pace, Tally, Work, alternate};

pub(crate) async fn run<E: Hand>(place: &str, db: &Db<E>, keys: Keys, pace: Pace) -> Result<Row> {
    let before = db.counts();
    let [late, up_front] = alternate([&one_by_one(db), &order::in_order(db)], keys, pace).await?;
    let after = db.counts();
    let restarts = (after.restarts - before.restarts) as f64 / late.total.done.max(1) as f64;
    let deadlocks = after.deadlocks - before.deadlocks;
    let fallbacks = after.fallbacks - before.fallbacks;
    let what = format!("{} of {} rows", keys.count, rate(keys.of as f64));
    let mut row = Row::rates(place, &what, &late, &up_front);
    row.ours = format!(
        "{}, {restarts:.2} restarts a transaction, {fallbacks} fallbacks, {deadlocks} deadlocks",
        rate(late.rate())
    );
    Ok(row)
}

fn one_by_one<E: Hand>(db: &Db<E>) -> Work {
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
        let mut tx = tx.pass::<Item>();
        for id in ids {
            (tx, _) = tx.lock::<Item>([*id]).fetch_one::<Record>().await?;
            sqlx::query(E::UPDATE).bind(*id).execute(&mut tx).await?;
        }
        Ok(())
    })
    .await
}
