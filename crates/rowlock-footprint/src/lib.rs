//! The lock model: the text of a statement and the schema it runs on go in, the row locks that it takes come out.
//!
//! Pure: no I/O, no async, and no panic on any input. What a statement locks is its [`Footprint`]; the words are those
//! of the project (docs/design): *resource*, *strength*, *footprint*.

mod analyze;
mod condition;
mod delete;
mod dialect;
mod display;
mod footprint;
mod foreign_key;
mod from;
mod function;
mod insert;
mod locking;
mod merge;
mod name;
mod query;
mod rows;
mod schema;
mod scope;
mod simplify;
mod statement;
mod strength;
mod text;
mod update;
mod value;

pub use analyze::analyze;
pub use dialect::Dialect;
pub use footprint::{Cause, Footprint, Literal, Lock, Rows, Unreadable, Value, Verb, Wait};
pub use schema::{Action, Column, ForeignKey, Schema, Table, TableName, UniqueKey};
pub use strength::Strength;
