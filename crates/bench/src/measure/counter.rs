//! A conditional update against the habit: BEGIN, SELECT .. FOR UPDATE, UPDATE, COMMIT on one hot row.
//!
//! Over a network the habit holds the row for three round trips, and whoever is next waits as long; the conditional update
//! holds it for as long as its statement and its commit take at the server.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use rowlock::{Counter, Db};
use sqlx::Pool;

use crate::ground::Item;
use crate::hand::Hand;
use crate::row::Row;
use crate::work::{Keys, Pace, Tally, Work, alternate};

const N: Counter<Item> = Counter::new("n");

pub(crate) async fn run<E: Hand>(
    place: &str,
    network: &str,
    (db, pool): (&Db<E>, &Pool<E>),
    pace: Pace,
) -> Result<Row> {
    let hot = Keys { count: 1, of: 1 };
    let [ours, theirs] = alternate([&conditional(db), &locked(pool)], hot, pace).await?;
    let what = format!("{network}, {} clients on one row", pace.clients);
    Ok(Row::rates(place, &what, &ours, &theirs))
}

fn conditional<E: Hand>(db: &Db<E>) -> Work {
    let kind = db.kind("subtract");
    Arc::new(move |ids| {
        let kind = kind.clone();
        Box::pin(async move {
            let items = ids.into_iter().map(|id| (id, 1));
            let outcomes = kind.update(N.subtract(items).at_least(i64::MIN)).await?;
            ensure!(outcomes.all_applied(), "there is no end to what can be subtracted: {outcomes:?}");
            Ok(Tally { done: 1, ..Tally::default() })
        })
    })
}

fn locked<E: Hand>(pool: &Pool<E>) -> Work {
    let pool = pool.clone();
    Arc::new(move |ids| {
        let pool = pool.clone();
        Box::pin(async move {
            E::change_rows(&pool, &ids, Duration::ZERO).await?;
            Ok(Tally { done: 1, ..Tally::default() })
        })
    })
}
