//! `shop load`: API, batch and webhook clients at once, then the proof that everything adds up.
//!
//! It starts a shop of its own on a fresh database, or takes one that runs; fills it with accounts and items; sends
//! traffic for a time or a count; and asks the shop to check its invariants, which it does exactly, from the tables.

mod client;
mod ground;
mod histogram;
mod report;
mod strategies;
mod tally;
mod traffic;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

use crate::settings::Settings;

pub use client::Client;
pub use report::Outcome;
pub use strategies::Strategy;

const EXAMPLES: &str = "\
Examples:
  shop load --seconds 5                                     all of the API, payments and a batch, on a fresh SQLite file
  shop load --database postgres://me@host/ --clients 64     the same on a server, in a database of its own
  shop load --url http://127.0.0.1:8080                     the same on a shop that runs
  shop load --strategy naive,locked,conditional,merged      one hot item, bought by each strategy in turn
  shop load --strategy conditional,merged --clients 256 --connections 32 --database mysql://root@host/";

/// What to send, where, and for how long.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The load", after_help = EXAMPLES)]
pub struct Load {
    /// A running shop, e.g. http://127.0.0.1:8080, whose webhook secret is in --data or given [default: start one on a
    /// fresh database]
    #[arg(long, value_name = "URL")]
    pub url: Option<String>,

    /// How long to send
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub seconds: u64,

    /// Send so many requests instead, however long it takes
    #[arg(long, value_name = "N", conflicts_with = "seconds", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,

    /// How many clients send at once; a quarter are webhooks, one in sixteen is a batch, the rest use the API
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(3..=1024))]
    pub clients: u32,

    /// How many items are on sale
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub items: u32,

    /// How many accounts there are
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(2..=10_000))]
    pub accounts: u32,

    /// The share of picks that fall on the hottest tenth of items and accounts
    #[arg(long, value_name = "0..1", default_value_t = 0.8, value_parser = share)]
    pub hot: f64,

    /// Instead of all that: everyone buys one hot item, by each of these strategies in turn, to compare them (several
    /// may be given, with commas between)
    #[arg(long, value_name = "WAY", value_delimiter = ',', conflicts_with = "url")]
    pub strategy: Vec<Strategy>,

    /// Keep the fresh database afterwards
    #[arg(long)]
    pub keep: bool,
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a number from 0 to 1 is taken".to_owned()),
    }
}

/// Runs the load, prints what happened, and says whether everything holds.
pub async fn run(settings: &Settings, load: &Load) -> Result<bool> {
    if !load.strategy.is_empty() {
        return strategies::run(settings, load).await;
    }
    let interrupted = crate::serve::interrupted()?;
    let ground = ground::Ground::prepare(settings, load).await?;
    crate::say!("{}", ground.describe());
    let result = tokio::select! {
        result = measure(&ground, load) => result,
        () = interrupted => Err(anyhow::anyhow!("interrupted")),
    };
    let (outcome, held) = match result {
        Ok(outcome) => {
            let held = outcome.holds();
            (Ok(outcome), held)
        }
        Err(error) => (Err(error), false),
    };
    // A database that shows something wrong is worth looking at.
    let kept = ground.leave(load.keep || (!held && outcome.is_ok())).await?;
    let outcome = outcome?;
    if let Some(place) = kept {
        crate::say!("the data is kept: {place}");
    }
    outcome.print();
    Ok(held)
}

/// Sends the traffic to a shop and has it checked.
async fn measure(ground: &ground::Ground, load: &Load) -> Result<Outcome> {
    let client = Client::new(ground.url(), ground.signer())?;
    drive(&client, load).await
}

/// Fills the shop, sends the traffic, and has it checked.
pub async fn drive(client: &Client, load: &Load) -> Result<Outcome> {
    let before = client.stats().await.context("no shop answers")?;
    let town = Arc::new(traffic::Town::build(client, load, before.way != "naive").await?);
    let bar = bar(load);
    let started = Instant::now();
    let budget = Arc::new(traffic::Budget::new(load.requests, Duration::from_secs(load.seconds)));
    let mut clients = tokio::task::JoinSet::new();
    for n in 0..load.clients {
        let (client, town, budget) = (client.clone(), town.clone(), budget.clone());
        clients.spawn(async move { traffic::Role::of(n).work(client, town, budget).await });
    }
    let tally = traffic::gather(&mut clients, &budget, &bar).await?;
    let elapsed = started.elapsed();
    bar.finish_and_clear();
    let after = client.stats().await?;
    let invariants = client.invariants().await?;
    Ok(Outcome { tally, elapsed, clients: load.clients, before, after, invariants })
}

/// Drawn on a terminal only.
fn bar(load: &Load) -> ProgressBar {
    let (length, unit) = match load.requests {
        Some(requests) => (requests, "requests"),
        None => (load.seconds * 1000, "ms"),
    };
    let template = format!("{{wide_bar}} {{pos}}/{{len}} {unit}  {{msg}}");
    let style = ProgressStyle::with_template(&template).unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}
