//! `shop load --strategy`: everyone buys the same item, one strategy after the other, each on a fresh database.
//!
//! The buyers call the shop itself and not its API, so that what differs is what the database does.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::ValueEnum;
use serde_json::json;
use tokio::task::JoinSet;

use crate::account::Account;
use crate::database::AnyShop;
use crate::error::Error;
use crate::flash::NewFlashOrder;
use crate::inventory::Item;
use crate::load::ground::Ground;
use crate::load::tally::{End, Kind, Row, Tally};
use crate::load::traffic::{Budget, gather};
use crate::load::{Client, Load, bar};
use crate::settings::Settings;

/// Never sold out: strategies are compared in what they sell.
const STOCK: i64 = 1_000_000_000;

/// How long a buyer who was turned away stays away. Without it he would do nothing but ask, and take the time of those
/// who are served.
const AWAY: Duration = Duration::from_millis(20);

/// How the pieces of an order are taken out of stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Strategy {
    /// As it is usually written: read, FOR UPDATE, compute, write back
    Naive,
    /// The item is locked, looked at and changed
    Locked,
    /// One UPDATE that changes the item if enough is left, as the shop does for usual orders
    Conditional,
    /// What waits is applied together, as the shop does for flash sales
    Merged,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_possible_value().map_or(Ok(()), |value| f.pad(value.get_name()))
    }
}

/// Runs each strategy and prints its row; whether everything holds.
pub(crate) async fn run(settings: &Settings, load: &Load) -> Result<bool> {
    if settings.naive {
        bail!("--naive: what is compared is said by --strategy; `--strategy naive,merged` has the usual way in it");
    }
    crate::say!("{} buyers of one item; each strategy on a fresh database", load.clients);
    let interrupted = crate::serve::interrupted()?;
    tokio::pin!(interrupted);
    let mut held = true;
    for (n, strategy) in load.strategy.iter().enumerate() {
        let ground = Ground::prepare(settings, load).await?;
        let result = tokio::select! {
            result = measure(&ground, load, *strategy) => result,
            () = &mut interrupted => Err(anyhow::anyhow!("interrupted")),
        };
        let broken = result.as_ref().is_ok_and(|measured| !measured.broken.is_empty());
        let kept = ground.leave(load.keep || broken).await?;
        let measured = result?;
        held &= measured.broken.is_empty();
        if n == 0 {
            crate::say!("{}\n", measured.engine);
            crate::say!(
                "{:<12} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
                "strategy",
                "orders/s",
                "p50 ms",
                "p99",
                "max",
                "refused",
                "failed",
                "deadlocks"
            );
        }
        measured.print(*strategy);
        if let Some(place) = kept {
            crate::say!("the data is kept: {place}");
        }
    }
    crate::say!(
        "\nrefused: the queue was full, or the row busy for too long; nothing was done, and the buyer came again after 20 ms"
    );
    crate::say!("p50, p99, max: from a buyer's first asking to his order");
    crate::say!("deadlocks: those that the shop saw, whether or not it could try again");
    crate::say!("invariants: {}", if held { "ok" } else { "BROKEN" });
    Ok(held)
}

/// What one strategy came to.
struct Measured {
    engine: String,
    tally: Tally,
    elapsed: Duration,
    deadlocks: u64,
    broken: Vec<String>,
}

async fn measure(ground: &Ground, load: &Load, strategy: Strategy) -> Result<Measured> {
    let Some(shop) = ground.shop() else { bail!("--url: strategies are compared in a shop of the load's own") };
    let client = Client::new(ground.url(), ground.signer())?;
    let Account { id: account, .. } = client.make("/accounts", &json!({"balance": 0})).await?;
    let item = json!({"name": "hot", "seller": account, "price": 1, "stock": STOCK});
    let Item { id: item, .. } = client.make("/items", &item).await?;
    let bar = bar(load);
    let budget = Arc::new(Budget::new(load.requests, Duration::from_secs(load.seconds)));
    let started = Instant::now();
    let mut buyers = JoinSet::new();
    for _ in 0..load.clients {
        buyers.spawn(buy(shop.clone(), strategy, item, account, budget.clone()));
    }
    let tally = gather(&mut buyers, &budget, &bar).await?;
    let elapsed = started.elapsed();
    bar.finish_and_clear();
    let stats = shop.stats();
    let seen = |code: &str| tally.refused.get(code).copied().unwrap_or_default();
    let deadlocks = stats.locks.map_or(0, |locks| locks.deadlocks) + seen("40P01") + seen("1213");
    let mut broken: Vec<String> = shop.check().await?.broken().collect();
    let now: Item = client.get(&format!("/items/{item}")).await?;
    let (taken, sold) = (STOCK - now.stock, tally.kinds.values().map(|row| row.done).sum::<u64>());
    // What ended strangely may have been done.
    if tally.strange.is_empty() && u64::try_from(taken) != Ok(sold) {
        broken.push(format!("{taken} pieces left the stock, and {sold} were sold"));
    }
    Ok(Measured { engine: stats.engine, tally, elapsed, deadlocks, broken })
}

/// Buys a piece after the other. Who is turned away comes again, and his time is that until he has his order.
async fn buy(shop: Arc<AnyShop>, strategy: Strategy, item: i64, account: i64, budget: Arc<Budget>) -> Tally {
    let mut tally = Tally::default();
    let mut began = Instant::now();
    while budget.take() {
        let end = match shop.buy_by(strategy, item, NewFlashOrder { account, quantity: 1 }).await {
            Ok(_) => End::Done,
            Err(Error::Database(error)) if error.is_busy() => End::Busy,
            Err(error) => error.code().map_or_else(|| End::Strange(error.to_string()), End::Refused),
        };
        match end {
            End::Done => tally.add(Kind::Place, &end, began.elapsed()),
            _ => tally.count(Kind::Place, &end),
        }
        match end {
            End::Busy => tokio::time::sleep(AWAY).await,
            _ => began = Instant::now(),
        }
    }
    tally
}

impl Measured {
    fn print(&self, strategy: Strategy) {
        let none = Row::default();
        let row = self.tally.kinds.get(&Kind::Place).unwrap_or(&none);
        let ms = |micros: u64| micros as f64 / 1000.0;
        crate::say!(
            "{strategy:<12} {:>9.0} {:>9.1} {:>9.1} {:>9.1} {:>9} {:>9} {:>9}",
            row.done as f64 / self.elapsed.as_secs_f64(),
            ms(row.latency.quantile(0.5)),
            ms(row.latency.quantile(0.99)),
            ms(row.latency.max()),
            row.busy,
            row.failed,
            self.deadlocks,
        );
        for (what, count) in self.tally.refused.iter().chain(&self.tally.strange) {
            crate::say!("  failed, {count} times: {what}");
        }
        for what in &self.broken {
            crate::say!("  broken: {what}");
        }
    }
}
