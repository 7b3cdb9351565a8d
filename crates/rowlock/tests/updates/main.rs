//! Conditional updates on real servers: outcomes, order, shapes of tables, waits.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod model;
mod order;
mod outcomes;
mod schemas;
#[path = "../support/mod.rs"]
mod support;
mod triggers;
mod waits;

use rowlock::Counter;
use support::{Account, Inventory};

const STOCK: Counter<Inventory> = Counter::new("n");
const BALANCE: Counter<Account> = Counter::new("n");
