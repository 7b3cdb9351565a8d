//! The lock model: the text of a statement and the schema it runs on go in, the row locks that it takes come out.
//!
//! Pure: no I/O, no async, and no panic on any input. What a statement locks is its [`Footprint`]; the words are those
//! of the project (docs/design): *resource*, *strength*, *footprint*.

mod dialect;
mod footprint;
mod schema;
mod strength;

pub use dialect::Dialect;
pub use footprint::{Cause, Footprint, Literal, Lock, Rows, Unreadable, Value, Verb, Wait, analyze};
pub use schema::{Action, Column, ForeignKey, Schema, Table, TableName, UniqueKey};
pub use strength::Strength;
