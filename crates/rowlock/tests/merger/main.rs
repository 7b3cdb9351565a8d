//! Merged subtractions: the outcomes of one after the other, on every engine, whatever fails meanwhile.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "tests say what they expect by failing, and what they measured"
)]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod support;

mod close;
mod ledger;
mod lost;
mod model;
mod queue;
mod refused;
mod scarce;
mod storm;

use rowlock::{Counter, Db, Engine, Merger};
use rowlock_testing::TestDb;

use support::Inventory;

pub(crate) const STOCK: Counter<Inventory> = Counter::new("n");

pub(crate) async fn start<E: Engine>(db: &Db<E>) -> Merger<E, Inventory> {
    db.kind("merged").merger(STOCK).start().await.unwrap_or_else(|error| panic!("{error}"))
}

/// A merger with a ledger, whose table is made here.
pub(crate) async fn start_with_ledger<E: Engine>(test: &TestDb, db: &Db<E>) -> Merger<E, Inventory> {
    test.execute(&rowlock::ledger_sql(db.dialect(), "stock_ledger")).await;
    let merger = db.kind("merged").merger(STOCK).ledger("stock_ledger").start().await;
    merger.unwrap_or_else(|error| panic!("{error}"))
}
