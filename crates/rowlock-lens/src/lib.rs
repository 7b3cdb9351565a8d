//! Explains deadlocks: what a server or a driver wrote about one goes in, who held what, why, and what to change come out.
//!
//! ```
//! use rowlock_lens::{Redactor, Reading, Window, explain, markers, read};
//!
//! let log = b"2026-11-30 22:00:01 UTC [82] ERROR:  deadlock detected
//! 2026-11-30 22:00:01 UTC [82] DETAIL:  Process 82 waits for ShareLock on transaction 729; blocked by process 81.
//! \tProcess 81 waits for ShareLock on transaction 730; blocked by process 82.
//! \tProcess 82: update orders set status = 'paid' where id = 10
//! \tProcess 81: update inventories set stock = 4 where id = 20
//! ";
//! let hit = markers(log).next().expect("the words are there");
//! let Reading::Report { report, .. } = read(&Window { bytes: log, hit: hit.at, ends: true }, hit.marker) else { panic!() };
//! let finding = explain(&report, &mut Redactor::new(true));
//! assert_eq!(finding.hazard, "order-inversion");
//! assert_eq!(finding.transactions[0].wants.as_ref().unwrap().what, "orders, id = 10");
//! ```
//!
//! Pure: no I/O, no async, and no panic on any input. The command `rowlock` holds the files.
//!
//! # From bytes to a finding
//!
//! `scan` finds markers, at the speed of memory; `window` makes lines of the neighbourhood; `format` takes off what is
//! wrapped around them and cuts the report out; `postgres` and `innodb` read it into a [`Report`]; `statement` asks the lock
//! model what its statements lock; `hazard` names the cause; `explain` puts all of it into a [`Finding`], redacted.
//! [`Groups`] counts findings of one shape.
//!
//! # What is said, and how surely
//!
//! What the server wrote is known; what follows from it is marked as inferred, with what it follows from; what nobody wrote is
//! listed, with what to switch on to have it the next time. Nothing is guessed without saying so.

mod alone;
mod check;
mod course;
mod cycle;
mod explain;
mod finding;
mod fix;
mod format;
mod group;
mod hazard;
mod innodb;
mod levels;
mod postgres;
mod read;
mod record;
mod report;
mod request;
mod scan;
mod scenario;
mod sql;
mod statement;
mod untold;
mod window;
mod workload;

pub use check::{Checked, check, check_at};
pub use explain::{explain, report_shape};
pub use finding::{Finding, Fix, Level, Lock, Status, Step, Transaction, Unknown, VictimTold};
pub use format::{FORMATS, Format};
pub use group::{Group, Groups};
pub use hazard::{HAZARDS, Hazard};
pub use levels::Levels;
pub use read::{Reading, look_back, read};
pub use record::{Field, Record};
pub use report::{Certainty, Engine, LockRef, Object, Party, Report, Row, Victim, Weight};
pub use scan::{Hit, begins, longest_marker, markers};
pub use scenario::{ScenarioError, Source, scenario};
pub use sql::{Redactor, shape};
pub use window::Window;
pub use workload::{Idle, Isolation, Kind, Place, Rise, Seen, Statement, Unjudged, Workload};
