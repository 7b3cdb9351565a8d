//! One cell of the survey: so many callers who ask again as soon as they are answered, for a time.

use std::{
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Result, bail};
use rand::{SeedableRng, rngs::StdRng};
use rowlock::Db;
use tokio::task::JoinSet;

use super::{
    draw::Spread,
    way::{Call, Calls, Ended, Way},
};
use crate::hand::Hand;

/// What came of it.
#[derive(Clone, Debug)]
pub(crate) struct Cell {
    pub(crate) way: Way,
    pub(crate) spread: Spread,
    pub(crate) callers: usize,
    /// Calls that were done, a second.
    pub(crate) rate: f64,
    /// Of calls that were done, and of those that were still under way at the end, so far. In milliseconds.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// The median time that a row was locked, in milliseconds.
    pub(crate) held: Option<f64>,
    /// Attempts that a deadlock or a conflict ended, for each call that was done.
    pub(crate) again: f64,
    /// Calls that were turned away or given up, of all.
    pub(crate) refused: f64,
    /// The share of the time in which the pool had no connection to give.
    pub(crate) empty: f64,
}

/// How long callers may take to come back at the end.
const GRACE: Duration = Duration::from_millis(500);
/// How long all connections may take to come back to the pool after a cell.
const SETTLED: Duration = Duration::from_secs(60);

pub(crate) async fn measure<E: Hand>(
    db: &Db<E>,
    way: Way,
    spread: Spread,
    callers: usize,
    time: Duration,
) -> Result<Cell> {
    let calls = way.calls(db).await?;
    let began = Instant::now();
    let counted = began + time / 5;
    let until = counted + time;
    let callers_of: Vec<Arc<Mutex<Caller>>> = (0..callers).map(|_| Arc::default()).collect();
    let mut tasks = JoinSet::new();
    for (seed, caller) in (0..).zip(&callers_of) {
        tasks.spawn(client(calls.clone(), way, spread, seed, counted..until, caller.clone()));
    }
    let (mut looks, mut empty) = (0u32, 0u32);
    let mut clock = tokio::time::interval(Duration::from_millis(5));
    let end = tokio::time::sleep_until((until + GRACE).into());
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            _ = clock.tick() => if Instant::now() < until {
                looks += 1;
                let pool = db.pool();
                empty += u32::from(pool.num_idle() == 0 && pool.size() >= pool.options().get_max_connections());
            },
            task = tasks.join_next() => match task {
                Some(ended) => ended??,
                None => break,
            },
        }
    }
    tasks.shutdown().await;
    let (mut done, mut times) = (Vec::new(), Vec::new());
    for caller in callers_of {
        let caller = caller.lock().unwrap_or_else(PoisonError::into_inner);
        done.extend_from_slice(&caller.ended);
        times.extend(caller.under_way.map(|began| began.elapsed().as_secs_f64() * 1e3));
    }
    let before = times.len();
    let milliseconds = |(took, _): &(Duration, Call)| took.as_secs_f64() * 1e3;
    times.extend(done.iter().filter(|(_, call)| call.ended == Ended::Done).map(milliseconds));
    let finished = times.len() - before;
    let mut held: Vec<f64> =
        done.iter().filter_map(|(_, call)| call.held.map(|held| held.as_secs_f64() * 1e3)).collect();
    let again: u32 = done.iter().map(|(_, call)| call.again).sum();
    let refused = done.len() - finished;
    settle(db).await?;
    Ok(Cell {
        way,
        spread,
        callers,
        rate: finished as f64 / time.as_secs_f64(),
        p50: at(&mut times, 0.5).unwrap_or(f64::NAN),
        p99: at(&mut times, 0.99).unwrap_or(f64::NAN),
        held: at(&mut held, 0.5),
        again: f64::from(again) / finished.max(1) as f64,
        refused: refused as f64 / done.len().max(1) as f64,
        empty: f64::from(empty) / f64::from(looks.max(1)),
    })
}

/// What one caller has seen. Outside its task, which is ended with what is under way.
#[derive(Default)]
struct Caller {
    /// When the call that is under way began: those that never end count too.
    under_way: Option<Instant>,
    /// The calls that ended within the time, and how long each took.
    ended: Vec<(Duration, Call)>,
}

async fn client(
    calls: Calls,
    way: Way,
    spread: Spread,
    seed: u64,
    time: Range<Instant>,
    caller: Arc<Mutex<Caller>>,
) -> Result<()> {
    let mut random = StdRng::seed_from_u64(seed);
    loop {
        let start = Instant::now();
        if start >= time.end {
            return Ok(());
        }
        caller.lock().unwrap_or_else(PoisonError::into_inner).under_way = Some(start);
        let call = calls(spread.draw(way.rows(), &mut random)).await?;
        let mut caller = caller.lock().unwrap_or_else(PoisonError::into_inner);
        caller.under_way = None;
        let end = Instant::now();
        if time.contains(&end) {
            caller.ended.push((end - start, call));
        }
    }
}

/// Waits until nobody is left: callers that were given up may still wait at the server.
async fn settle<E: Hand>(db: &Db<E>) -> Result<()> {
    let pool = db.pool();
    let all = async {
        let mut connections = Vec::new();
        for _ in 0..pool.options().get_max_connections() {
            connections.push(pool.acquire().await?);
        }
        anyhow::Ok(())
    };
    match tokio::time::timeout(SETTLED, all).await {
        Ok(settled) => settled,
        Err(_) => bail!("connections of the last cell did not come back in {SETTLED:?}"),
    }
}

fn at(values: &mut [f64], share: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(((values.len().saturating_sub(1)) as f64 * share).round() as usize).copied()
}
