//! What is measured: pieces of work, run by a number of clients in alternating slices of time, so that whatever else the
//! machine does hits all of them alike.

use std::ops::AddAssign;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use futures_util::future::{BoxFuture, try_join_all};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// One side of a comparison: runs one transaction on the keys that it is given.
pub(crate) type Work = Arc<dyn Fn(Vec<i64>) -> BoxFuture<'static, Result<Tally>> + Send + Sync>;

/// Which keys a transaction gets: `count` different ones out of 1 to `of`, in random order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Keys {
    pub(crate) count: usize,
    pub(crate) of: i64,
}

/// How long and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    pub(crate) clients: usize,
    pub(crate) slice: Duration,
    pub(crate) rounds: usize,
}

/// What transactions came to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) done: u64,
    /// Transactions that were given up.
    pub(crate) failed: u64,
    /// Attempts that had to be run again.
    pub(crate) again: u64,
    /// Where only a part is timed: how long it took.
    pub(crate) timed: Option<Duration>,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.done += other.done;
        self.failed += other.failed;
        self.again += other.again;
        if let Some(time) = other.timed {
            *self.timed.get_or_insert_default() += time;
        }
    }
}

/// One side's slices.
#[derive(Clone, Debug, Default)]
pub(crate) struct Side {
    /// Transactions a second, a slice each.
    pub(crate) rates: Vec<f64>,
    pub(crate) total: Tally,
}

impl Side {
    pub(crate) fn rate(&self) -> f64 {
        median(self.rates.clone())
    }

    /// The medians of the ratios of neighbouring slices: what drifts over the run drops out.
    pub(crate) fn against(&self, other: &Side) -> Ratio {
        let mut ratios: Vec<f64> =
            self.rates.iter().zip(&other.rates).map(|(a, b)| a / b.max(f64::MIN_POSITIVE)).collect();
        ratios.sort_by(f64::total_cmp);
        let at =
            |share: f64| ratios.get(((ratios.len() as f64 - 1.0) * share).round() as usize).copied().unwrap_or(0.0);
        Ratio { low: at(0.25), median: median(ratios.clone()), high: at(0.75) }
    }
}

/// A ratio, and between what bounds the middle half of the slices lay.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

impl Keys {
    fn draw(self, random: &mut StdRng) -> Vec<i64> {
        distinct(self.count, || random.random_range(1..=self.of))
    }
}

/// So many different keys, in the order in which they are drawn.
pub(crate) fn distinct(count: usize, mut draw: impl FnMut() -> i64) -> Vec<i64> {
    let mut keys = Vec::with_capacity(count);
    while keys.len() < count {
        let key = draw();
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    keys
}

/// Runs the sides in turn: A B, B A, A B, .. after a slice of each that does not count. In one round all get the same keys.
pub(crate) async fn alternate<const N: usize>(works: [&Work; N], keys: Keys, pace: Pace) -> Result<[Side; N]> {
    for work in works {
        slice(work, keys, pace, u64::MAX).await?;
    }
    let mut sides =
        [const { Side { rates: Vec::new(), total: Tally { done: 0, failed: 0, again: 0, timed: None } } }; N];
    for round in 0..pace.rounds {
        for n in 0..N {
            let n = if round % 2 == 0 { n } else { N - 1 - n };
            let (rate, tally) = slice(works[n], keys, pace, round as u64).await?;
            sides[n].rates.push(rate);
            sides[n].total += tally;
        }
    }
    Ok(sides)
}

async fn slice(work: &Work, keys: Keys, pace: Pace, round: u64) -> Result<(f64, Tally)> {
    let began = Instant::now();
    let clients = (0..pace.clients).map(|client| {
        let work = Arc::clone(work);
        let mut random = StdRng::seed_from_u64(round.wrapping_mul(1000).wrapping_add(client as u64));
        tokio::spawn(async move {
            let mut tally = Tally::default();
            while began.elapsed() < pace.slice {
                tally += work(keys.draw(&mut random)).await?;
            }
            anyhow::Ok(tally)
        })
    });
    let mut total = Tally::default();
    for tally in try_join_all(clients).await? {
        total += tally?;
    }
    let time = match total.timed {
        Some(timed) => timed.as_secs_f64() / pace.clients as f64,
        None => began.elapsed().as_secs_f64(),
    };
    Ok((total.done as f64 / time, total))
}
