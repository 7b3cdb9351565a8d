//! rowlock
#![doc = ""]

mod acquire;
mod builder;
mod catalog;
mod check;
mod connection;
mod control;
mod count;
mod creation;
mod db;
mod engine;
mod error;
mod failure;
mod footing;
mod for_each;
mod guard;
mod held;
mod hold;
mod inner;
mod install;
mod key;
mod kind;
mod limits;
mod lock;
mod model;
mod options;
mod order;
mod place;
mod plan;
mod pooler;
mod query;
mod savepoint;
mod single;
mod statement;
mod token;
mod transaction;

pub use builder::Builder;
pub use catalog::Catalog;
pub use check::{Checked, Finding, Policy, Report, Severity, Target, TargetColumn, check};
pub use count::Counts;
pub use db::Db;
pub use engine::Engine;
pub use error::{Attempt, Error, KindName, Refusal, Violation};
pub use failure::Failure;
pub use for_each::ForEach;
pub use held::{Held, Standing};
pub use install::install_sql;
pub use key::{AsKey, Key, KeyColumn, KeyType, KeyValue};
pub use kind::Kind;
pub use lock::{Lock, LockWhere};
pub use options::{Guard, Isolation, Late, UnknownKeys};
pub use order::{Before, LockOrder, Resource, ResourceInfo, Start};
pub use place::{Part, Place, Reach};
pub use plan::{Plan, Step};
pub use query::{Query, query};
pub use rowlock_footprint::{Dialect, Strength};
pub use rowlock_macros::lock_order;
pub use savepoint::Savepoint;
pub use transaction::Tx;

/// A result whose error is rowlock's, unless said otherwise.
pub type Result<T, E = Error> = std::result::Result<T, E>;
