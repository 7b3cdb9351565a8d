//! Test support for rowlock: throw-away database servers, a database for each test, a schedule driver, and faults.
//!
//! No mocks: whatever is said of an engine is tried on the engine. A test body runs on each of them, in a database of its
//! own that is dropped when the test passes and kept when it fails:
//!
//! ```
//! rowlock_testing::engines! { servers:
//!     async fn the_second_waits(db: rowlock_testing::TestDb) {
//!         db.execute("create table t (id int primary key, n int); insert into t values (1, 0)").await;
//!         let [mut a, mut b] = db.sessions(["a", "b"]).await;
//!         a.run("begin").await;
//!         a.run("update t set n = 1 where id = 1").await;
//!         b.start("update t set n = 2 where id = 1");
//!         b.assert_blocked_by(&a).await;
//!         a.run("commit").await;
//!         assert!(b.outcome().await.is_done());
//!     }
//! }
//! ```
//!
//! The servers' URLs come from the environment (`ROWLOCK_TEST_PG15` and so on); `cargo xtask test` starts the servers and
//! sets them. A test whose engine is not there fails and says what to do, unless `ROWLOCK_TEST_ABSENT` gives a reason.
//!
//! | to | use |
//! |---|---|
//! | run a body on several engines | [`engines!`] |
//! | step sessions by hand | [`Session`], from [`TestDb::session`] |
//! | run a written schedule | [`TestDb::schedule`] |
//! | run all interleavings of transactions | [`interleavings`], [`Stage`], from [`TestDb::stage`] |
//! | see who waits | [`TestDb::waits`], [`TestDb::until_blocked`], [`Watch`] |
//! | see what is locked | [`TestDb::held`], [`TestDb::would_wait`] |
//! | lose a request or an answer, delay the network | [`Proxy`] |
//! | cancel at every await | [`cancel_at`] |
//! | start, crash and restart a server | [`server::Servers`] |

mod cancel;
mod connection;
mod database;
mod engine;
mod engines;
pub mod guide;
mod interleaving;
mod probe;
mod proxy;
mod schedule;
pub mod server;
mod session;
mod stage;
mod waits;

pub use cancel::{CancelAt, cancel_at};
pub use connection::{Answer, Connection, code, version};
pub use database::{TestDb, absent, database, server_url};
pub use engine::{Engine, Family};
pub use engines::{TestOutput, present, run};
pub use interleaving::{Turn, interleavings};
pub use proxy::{Lost, Proxy};
pub use schedule::{Step, Transcript};
pub use session::{Outcome, Session};
/// For the macros here, which name sqlx's drivers.
pub use sqlx;
pub use stage::{Ended, Stage};
pub use waits::{Wait, Watch};
