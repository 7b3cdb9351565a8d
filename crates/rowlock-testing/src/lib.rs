//! Test support for rowlock: throw-away database servers, a database for each test, a schedule driver, and faults.

mod connection;
mod database;
mod engine;
mod engines;
pub mod server;

pub use connection::{Answer, Connection, code, version};
pub use database::{TestDb, absent, database, server_url};
pub use engine::{Engine, Family};
pub use engines::{Outcome, present, run};
/// For the macros here, which name sqlx's drivers.
pub use sqlx;
