//! Deadlocks made on real servers, in every log format that each of them has, and what `rowlock explain` says of them.
//!
//! Each test starts a server of its own: its log must hold these deadlocks alone, and its settings change.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "helpers of tests fail as tests do")]

#[path = "live/ground.rs"]
mod ground;
#[path = "live/innodb.rs"]
mod innodb;
#[path = "live/postgres.rs"]
mod postgres;
#[path = "live/three.rs"]
mod three;
