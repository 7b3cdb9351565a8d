//! Test support for rowlock: throw-away database servers, a database for each test, a schedule driver, and faults.

mod cancel;
mod connection;
mod database;
mod engine;
mod engines;
mod probe;
mod proxy;
mod schedule;
pub mod server;
mod session;
mod waits;

pub use cancel::{CancelAt, cancel_at};
pub use connection::{Answer, Connection, code, version};
pub use database::{TestDb, absent, database, server_url};
pub use engine::{Engine, Family};
pub use engines::{TestOutput, present, run};
pub use proxy::{Lost, Proxy};
pub use schedule::{Step, Transcript};
pub use session::{Outcome, Session};
/// For the macros here, which name sqlx's drivers.
pub use sqlx;
pub use waits::{Wait, Watch};
