//! Merged subtractions against the same one by one: a conditional UPDATE by hand, alone or with a ledger row.
//!
//! Each client is a task that asks again as soon as it has its answer. The other side's statements are those of a careful
//! hand: what can fail comes before the hot row, whose lock is then held from the last statement to COMMIT.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures_util::future::{BoxFuture, try_join_all};
use rand::{Rng, SeedableRng, rngs::StdRng};
use rowlock::{Counter, Merger, Outcome};
use rowlock_testing::Connection;
use sqlx::Pool;

use crate::{
    ground::{Item, ROWS},
    hand::Hand,
    row::Row,
    stage::Plan,
    table::{Section, Table},
    work::{Side, Tally, median},
};

const STOCK: Counter<Item> = Counter::new("n");
const LEDGER: &str = "item_ledger";

/// Which rows the callers want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rows {
    OneHot,
    Cold,
}

/// Runs one client until the time is over; how long each of its calls took.
type Client = Arc<dyn Fn(u64, Rows, Instant) -> BoxFuture<'static, Result<Vec<Duration>>> + Send + Sync>;

pub(crate) async fn run<E: Hand>(plan: Plan<'_>, url: &str, pragmas: &'static str, table: &mut Table) -> Result<()> {
    let db = crate::ground::open::<E>(url, pragmas).await?;
    let mut connection = Connection::open(plan.engine, url).await?;
    connection.run("update items set n = 1000000000000000").await?;
    connection.run(&format!("drop table if exists {LEDGER}")).await?;
    connection.run(&rowlock::ledger_sql(db.dialect(), LEDGER)).await?;
    connection.close().await?;
    let kind = db.kind("merged");
    let merger = kind.merger(STOCK).start().await?;
    let with_ledger = kind.merger(STOCK).ledger(LEDGER).start().await?;
    let goals = Goals::of(plan);
    let place = plan.place();
    let pool = db.pool();
    for (clients, goal) in [(256, goals.many), (16, goals.some), (1, None)] {
        let sides = [merged(&merger), by_hand(pool)];
        let [ours, theirs] = alternate(&sides, clients, Rows::OneHot, plan).await?;
        let row = Row::rates(&place, &format!("one hot row, {clients} callers"), &ours.side, &theirs.side);
        table.push(
            Section::Merge,
            match goal {
                Some(goal) => row.at_least(goal),
                None => row,
            },
        );
        if clients == 256 {
            table.push(
                Section::Merge,
                Row::times(&place, "the same: p99 of a call", &ours.late, &theirs.late).at_least(1.0),
            );
        }
    }
    let sides = [merged_with_ledger(&with_ledger), by_hand_with_ledger(pool)];
    let [ours, theirs] = alternate(&sides, 256, Rows::OneHot, plan).await?;
    let row = Row::rates(&place, "one hot row and a ledger, 256 callers", &ours.side, &theirs.side);
    table.push(
        Section::Merge,
        match goals.ledger {
            Some(goal) => row.at_least(goal),
            None => row,
        },
    );
    for clients in [1, 16] {
        let sides = [merged(&merger), by_hand(pool)];
        let [ours, theirs] = alternate(&sides, clients, Rows::Cold, plan).await?;
        let what = format!("{ROWS} cold rows, {clients} callers");
        table.push(Section::Merge, Row::rates(&place, &what, &ours.side, &theirs.side).at_least(0.95));
    }
    merger.close().await;
    pool.close().await;
    Ok(())
}

/// What the ratios should be at least, where commits are durable.
struct Goals {
    many: Option<f64>,
    some: Option<f64>,
    ledger: Option<f64>,
}

impl Goals {
    fn of(plan: Plan<'_>) -> Goals {
        let (many, some, ledger) = match plan.engine {
            rowlock_testing::Engine::Pg15 | rowlock_testing::Engine::Pg18 => (100.0, 6.0, 30.0),
            rowlock_testing::Engine::MariaDb => (25.0, 2.0, 10.0),
            rowlock_testing::Engine::MySql => (30.0, 2.0, 10.0),
            _ => return Goals { many: None, some: None, ledger: None },
        };
        let goal = |ratio| plan.durable.then_some(ratio);
        Goals { many: goal(many), some: goal(some), ledger: goal(ledger) }
    }
}

/// Rates and late calls of one side.
#[derive(Default)]
struct Measured {
    side: Side,
    /// The 99th percentile of each slice, in seconds.
    late: Vec<f64>,
}

async fn alternate(sides: &[Client; 2], clients: u64, rows: Rows, plan: Plan<'_>) -> Result<[Measured; 2]> {
    let (time, rounds) = if plan.quick { (300, 4) } else { (1000, 8) };
    let time = Duration::from_millis(time);
    let mut measured = [Measured::default(), Measured::default()];
    for side in sides {
        slice(side, clients, rows, time / 2).await?;
    }
    for round in 0..rounds {
        for n in 0..2 {
            let n = if round % 2 == 0 { n } else { 1 - n };
            let (rate, late, done) = slice(&sides[n], clients, rows, time).await?;
            measured[n].side.rates.push(rate);
            measured[n].side.total += Tally { done, ..Tally::default() };
            measured[n].late.push(late);
        }
    }
    Ok(measured)
}

/// Calls a second, their 99th percentile in seconds, and how many there were.
async fn slice(client: &Client, clients: u64, rows: Rows, time: Duration) -> Result<(f64, f64, u64)> {
    let began = Instant::now();
    let tasks: Vec<_> = (0..clients).map(|n| tokio::spawn(client(n, rows, began + time))).collect();
    let mut calls = Vec::new();
    for took in try_join_all(tasks).await? {
        calls.extend(took?);
    }
    let rate = calls.len() as f64 / began.elapsed().as_secs_f64();
    calls.sort_unstable();
    let late = calls.get(calls.len() * 99 / 100).copied().unwrap_or_default();
    Ok((rate, late.as_secs_f64(), calls.len() as u64))
}

/// Calls until the time is over.
async fn repeat<Fut: Future<Output = Result<()>>>(
    n: u64,
    rows: Rows,
    until: Instant,
    mut call: impl FnMut(i64) -> Fut,
) -> Result<Vec<Duration>> {
    let mut random = StdRng::seed_from_u64(n);
    let mut took = Vec::with_capacity(4096);
    let mut now = Instant::now();
    while now < until {
        let key = if rows == Rows::OneHot { 1 } else { random.random_range(1..=ROWS) };
        call(key).await?;
        let then = Instant::now();
        took.push(then - now);
        now = then;
    }
    Ok(took)
}

fn merged<E: Hand>(merger: &Merger<E, Item>) -> Client {
    let merger = merger.clone();
    Arc::new(move |n, rows, until| {
        let merger = merger.clone();
        Box::pin(repeat(n, rows, until, move |key| {
            let call = merger.subtract(key, 1);
            async move { applied(call.await?) }
        }))
    })
}

/// Each request has a key of its own, over all clients and slices.
static REQUEST: AtomicU64 = AtomicU64::new(0);

fn request() -> String {
    format!("order-{}", REQUEST.fetch_add(1, Relaxed).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn merged_with_ledger<E: Hand>(merger: &Merger<E, Item>) -> Client {
    let merger = merger.clone();
    Arc::new(move |n, rows, until| {
        let merger = merger.clone();
        Box::pin(repeat(n, rows, until, move |key| {
            let call = merger.subtract(key, 1).request(&request());
            async move { applied(call.await?) }
        }))
    })
}

fn applied(outcome: Outcome) -> Result<()> {
    ensure!(matches!(outcome, Outcome::Applied { .. }), "{outcome:?}");
    Ok(())
}

fn by_hand<E: Hand>(pool: &Pool<E>) -> Client {
    let pool = pool.clone();
    Arc::new(move |n, rows, until| {
        let pool = pool.clone();
        Box::pin(repeat(n, rows, until, move |key| {
            let pool = pool.clone();
            async move {
                ensure!(E::subtract(&pool, key).await? == 1);
                Ok(())
            }
        }))
    })
}

fn by_hand_with_ledger<E: Hand>(pool: &Pool<E>) -> Client {
    let pool = pool.clone();
    Arc::new(move |n, rows, until| {
        let pool = pool.clone();
        Box::pin(repeat(n, rows, until, move |key| {
            let pool = pool.clone();
            async move {
                ensure!(E::subtract_once(&pool, request(), key).await? == 1);
                Ok(())
            }
        }))
    })
}

impl Row {
    /// Times of two sides, in seconds: how many times as long the other side's are.
    fn times(place: &str, what: &str, ours: &[f64], theirs: &[f64]) -> Row {
        let side =
            |times: &[f64]| Side { rates: times.iter().map(|time| 1.0 / time.max(1e-9)).collect(), ..Side::default() };
        let (fast, slow) = (side(ours), side(theirs));
        let shown = |times: &[f64]| format!("{:.2} ms", median(times.to_vec()) * 1000.0);
        Row { ours: shown(ours), theirs: shown(theirs), ..Row::rates(place, what, &fast, &slow) }
    }
}
