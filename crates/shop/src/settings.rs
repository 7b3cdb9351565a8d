//! What a shop is started with: the same flags for all commands, each with an environment variable.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

/// Where the shop listens, where its data is, and how it locks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The shop")]
pub struct Settings {
    /// The address that the API listens on
    #[arg(long, env = "SHOP_ADDR", default_value = "127.0.0.1:8080", global = true)]
    pub addr: SocketAddr,

    /// The database: postgres://.., mysql://.., mariadb://.. or sqlite://path [default: an SQLite file in the data directory]
    #[arg(long, env = "SHOP_DATABASE", value_name = "URL", hide_env_values = true, global = true)]
    pub database: Option<String>,

    /// The directory of the shop's own files; made when it is not there
    #[arg(long, env = "SHOP_DATA", value_name = "DIR", default_value = "shop-data", global = true)]
    pub data: PathBuf,

    /// The secret that payment webhooks are signed with, base64 [default: made at first start, kept in the data directory]
    #[arg(long, env = "SHOP_WEBHOOK_SECRET", value_name = "SECRET", hide_env_values = true, global = true)]
    pub webhook_secret: Option<String>,

    /// The most connections to the database
    #[arg(long, env = "SHOP_CONNECTIONS", value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000), global = true)]
    pub connections: u32,

    /// How long a request may wait for rows that others hold before it is answered with 409, in milliseconds
    #[arg(long, env = "SHOP_LOCK_WAIT_MS", value_name = "MS", default_value_t = 3000, value_parser = clap::value_parser!(u64).range(1..=60_000), global = true)]
    pub lock_wait_ms: u64,

    /// Lock as it is usually written (business order, ids as they come), to see what happens
    #[arg(long, env = "SHOP_NAIVE", global = true)]
    pub naive: bool,
}
