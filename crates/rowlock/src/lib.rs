//! rowlock

mod held;
mod key;
mod order;
mod place;
mod plan;

pub use held::{Held, Standing};
pub use key::{AsKey, Key, KeyColumn, KeyType, KeyValue};
pub use order::{Before, LockOrder, Resource, ResourceInfo, Start};
pub use place::{Part, Place, Reach};
pub use plan::{Plan, Step};
pub use rowlock_footprint::{Dialect, Strength};
pub use rowlock_macros::lock_order;
