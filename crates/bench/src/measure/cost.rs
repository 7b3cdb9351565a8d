//! What rowlock costs: one row locked and changed, by rowlock and by hand.
//!
//! The rows are many and drawn at random, so that nobody waits for a lock: what is left is work, and that is where a
//! library would show.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use rowlock::Db;
use sqlx::Pool;

use crate::ground::{Item, ROWS, Row as Record};
use crate::hand::Hand;
use crate::row::Row;
use crate::work::{Keys, Pace, Tally, Work, alternate};

const KEYS: Keys = Keys { count: 1, of: ROWS };

/// Against the same on rowlock's own pool, and against the same on a pool that is sqlx's own.
pub(crate) async fn run<E: Hand>(
    place: &str,
    db: &Db<E>,
    [same, plain]: [&Pool<E>; 2],
    pace: Pace,
) -> Result<[Row; 2]> {
    let [ours, on_same, on_plain] = alternate([&by_rowlock(db), &by_hand(same), &by_hand(plain)], KEYS, pace).await?;
    let what = match pace.clients {
        1 => "1 client".to_owned(),
        clients => format!("{clients} clients"),
    };
    Ok([
        Row::rates(place, &what, &ours, &on_same).at_least(0.97),
        Row::rates(place, &format!("{what}, sqlx's own pool"), &ours, &on_plain).at_least(0.97),
    ])
}

fn by_rowlock<E: Hand>(db: &Db<E>) -> Work {
    let db = db.clone();
    Arc::new(move |ids| {
        let db = db.clone();
        Box::pin(async move {
            change(&db, ids[0]).await?;
            Ok(Tally { done: 1, ..Tally::default() })
        })
    })
}

async fn change<E: Hand>(db: &Db<E>, id: i64) -> rowlock::Result<()> {
    db.transaction(async |tx| {
        let (mut tx, _) = tx.lock::<Item>([id]).fetch_one::<Record>().await?;
        sqlx::query(E::UPDATE).bind(id).execute(&mut tx).await?;
        Ok(())
    })
    .await
}

fn by_hand<E: Hand>(pool: &Pool<E>) -> Work {
    let pool = pool.clone();
    Arc::new(move |ids| {
        let pool = pool.clone();
        Box::pin(async move {
            E::change_rows(&pool, &ids, Duration::ZERO).await?;
            Ok(Tally { done: 1, ..Tally::default() })
        })
    })
}
