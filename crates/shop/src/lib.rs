//! The shop: an order system that an API, a batch and a payment webhook use at once.
//!
//! They never call each other; they meet in the database, on the same orders, stock and accounts. All of them lock in
//! one declared order, so none of them can deadlock with another. The module [`naive`] does the same work in the ways in
//! which it is usually written, to compare.

pub mod account;
pub mod api;
pub mod batch;
pub mod database;
pub mod edit;
pub mod error;
pub mod flash;
pub mod invariant;
pub mod inventory;
pub mod load;
pub mod locks;
pub mod naive;
pub mod order;
pub mod payment;
pub mod placement;
pub mod problem;
mod say;
pub mod serve;
pub mod settings;
pub mod shop;
pub mod sql;
pub mod stats;
pub mod store;
pub mod webhook;

pub use error::{Error, Result};
pub use shop::Shop;
