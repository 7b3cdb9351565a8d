//! The command `shop`: serves the API, runs the batch, or puts all of it under load.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use shop::database::AnyShop;
use shop::load::{self, Load};
use shop::settings::Settings;
use shop::{order, serve};
use tracing_subscriber::EnvFilter;

const EXAMPLES: &str = "\
Examples:
  shop                                        serve on an SQLite file in ./shop-data
  shop --database postgres://me@host/shop     serve on a server
  shop load --seconds 5                       start a shop on a fresh database, load it, check it
  shop load --seconds 5 --naive               the same, locking as it is usually written
  shop load --strategy naive,locked,merged    one hot item, bought in each of these ways
  shop load --database mysql://root@host/     the same on a server, in a database of its own
  shop batch expire --older-than-ms 900000    expire orders unpaid for 15 minutes

With a shop running:
  curl localhost:8080/accounts -H 'content-type: application/json' -d '{\"balance\": 100000}'
  curl localhost:8080/items -H 'content-type: application/json' \\
       -d '{\"name\": \"tea\", \"seller\": ACCOUNT, \"price\": 450, \"stock\": 100}'
  curl localhost:8080/orders -H 'content-type: application/json' \\
       -d '{\"account\": ACCOUNT, \"lines\": [{\"item\": ITEM, \"quantity\": 2}]}'
  curl localhost:8080/flash-sales/ITEM/orders -H 'content-type: application/json' -H 'idempotency-key: KEY' \\
       -d '{\"account\": ACCOUNT, \"quantity\": 1}'
  curl localhost:8080/invariants";

/// An order system that an API, a batch and a payment webhook use at once, all in one lock order.
#[derive(Parser)]
#[command(version, after_help = EXAMPLES, max_term_width = 120)]
struct Cli {
    #[command(flatten)]
    settings: Settings,

    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the HTTP API (what `shop` alone does)
    Serve,
    /// Work through many orders in one transaction
    #[command(subcommand)]
    Batch(Batch),
    /// Bring the database's tables up to date and end
    Migrate,
    /// Put API, batch and webhook under load at once, then check that everything adds up
    Load(Load),
}

#[derive(Subcommand)]
enum Batch {
    /// Expire orders that were not paid in time, and put their stock back
    Expire(Expire),
    /// Make the orders of flash-sale grants that a crash left without one (each start of the shop does it too)
    Settle,
}

#[derive(Args)]
struct Expire {
    /// How long an order may stay unpaid, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 900_000)]
    older_than_ms: u64,
    /// The most orders to take: one transaction holds them all
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(i64).range(1..=10_000))]
    limit: i64,
}

#[tokio::main]
async fn main() -> ExitCode {
    let cli = Cli::parse();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| {
        EnvFilter::new(match cli.command {
            // Under load on purpose, refusals are counted and reported at the end; the log would drown them.
            Some(Command::Load(_)) => "off",
            _ => "warn",
        })
    });
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match run(cli).await {
        Ok(code) => code,
        Err(error) => {
            tracing::debug!(?error);
            let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("shop: {error:#}\n"));
            ExitCode::FAILURE
        }
    }
}

async fn run(cli: Cli) -> Result<ExitCode> {
    let settings = cli.settings;
    match cli.command.unwrap_or(Command::Serve) {
        Command::Serve => serve::run(&settings).await?,
        Command::Batch(Batch::Expire(asked)) => {
            let shop = AnyShop::open(&settings).await?;
            let age = Duration::from_millis(asked.older_than_ms);
            let before = order::now().saturating_sub(i64::try_from(age.as_millis()).unwrap_or(i64::MAX));
            let expired = shop.expire(before, asked.limit).await?;
            shop.close().await;
            shop::say!("{} orders expired", expired.len());
        }
        Command::Batch(Batch::Settle) => {
            let shop = AnyShop::open(&settings).await?;
            let settled = shop.settle().await?;
            shop.close().await;
            shop::say!("{settled} orders made");
        }
        Command::Migrate => {
            AnyShop::open(&settings).await?.close().await;
            shop::say!("the tables are up to date");
        }
        Command::Load(load) => {
            if !load::run(&settings, &load).await? {
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}
