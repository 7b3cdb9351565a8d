//! Every type of key on every engine: rows come in key order, are locked in key order whatever the database's collation,
//! and what is missing or busy is told by type.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod claim;
mod ground;
mod names;
mod order;
mod waiting;
