//! What the guard adds to a statement whose text it has seen before: the statement made and held to the order, against
//! the statement made alone. Nothing is sent.

use std::hint::black_box;
use std::time::Instant;

use anyhow::Result;
use rowlock::{Db, Tx, measure};
use sqlx::Execute;

use crate::ground::Item;
use crate::hand::Hand;
use crate::row::{Row, Target};
use crate::work::median;

const ROUNDS: usize = 15;
const CALLS: u32 = 20_000;
const LIMIT: f64 = 1.0;

/// Two rows of the table: the keys hidden by sqlx, and shown by `rowlock::query`, which encodes them twice for it.
pub(crate) async fn run<E: Hand>(place: &str, db: &Db<E>) -> Result<Vec<Row>> {
    let nanoseconds = db
        .transaction(async |tx| {
            let mut tx = tx.lock::<Item>(1..=10).await?;
            let (mut alone, mut hidden, mut shown) = (Vec::new(), Vec::new(), Vec::new());
            for _ in 0..ROUNDS {
                alone.push(time(|id| drop(black_box(read::<E>(id)))));
                hidden.push(time(|id| held(measure::guard(&mut tx, sqlx::query::<E>(E::UPDATE).bind(id)))));
                shown.push(time(|id| bound(&mut tx, id)));
            }
            Ok::<_, rowlock::Error>([median(alone), median(hidden), median(shown)])
        })
        .await?;
    let [alone, hidden, shown] = nanoseconds;
    let row = |what: &str, guarded: f64| {
        let added = (guarded - alone) / 1000.0;
        Row {
            place: place.to_owned(),
            what: what.to_owned(),
            ours: format!("{added:.2} µs"),
            theirs: format!("{:.2} µs to make it", alone / 1000.0),
            ratio: None,
            target: Some(Target { text: format!("< {LIMIT} µs"), met: added < LIMIT }),
        }
    };
    Ok(vec![row("`sqlx::query`, key bound", hidden), row("`rowlock::query`, key bound", shown)])
}

/// What sqlx does with a statement before it is sent.
fn read<E: Hand>(id: i64) -> Option<E::Arguments> {
    let mut query = sqlx::query::<E>(E::UPDATE).bind(id);
    query.take_arguments().ok().flatten()
}

fn bound<E: Hand, L>(tx: &mut Tx<E, L>, id: i64) {
    held(measure::guard_bound(tx, rowlock::query(E::UPDATE).bind(id)));
}

fn held(admitted: rowlock::Result<bool>) {
    // What is held is let pass; anything else would be another measurement.
    assert!(matches!(black_box(admitted), Ok(true)));
}

/// Nanoseconds a call.
fn time(mut call: impl FnMut(i64)) -> f64 {
    let began = Instant::now();
    for n in 0..CALLS {
        call(i64::from(n % 10) + 1);
    }
    began.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS)
}
