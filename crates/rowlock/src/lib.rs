//! rowlock

mod catalog;
mod check;
mod held;
mod key;
mod limits;
mod order;
mod place;
mod plan;
mod pooler;

pub use catalog::Catalog;
pub use check::{Checked, Finding, Policy, Report, Severity, Target, TargetColumn, check};
pub use held::{Held, Standing};
pub use key::{AsKey, Key, KeyColumn, KeyType, KeyValue};
pub use order::{Before, LockOrder, Resource, ResourceInfo, Start};
pub use place::{Part, Place, Reach};
pub use plan::{Plan, Step};
pub use rowlock_footprint::{Dialect, Strength};
pub use rowlock_macros::lock_order;
