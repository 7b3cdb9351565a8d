//! The lock model: the text of a statement and the schema it runs on go in, the row locks that it takes come out.
//!
//! ```
//! use rowlock_footprint::{Dialect, Schema, analyze};
//!
//! let footprint = analyze("UPDATE inventories SET stock = stock - $1 WHERE id = $2", Dialect::Postgres, &Schema::default())?;
//! assert_eq!(footprint.locks[0].to_string(), "inventories: no key update, id = $2, UPDATE");
//! # Ok::<_, rowlock_footprint::Unreadable>(())
//! ```
//!
//! Pure: no I/O, no async, and no panic on any input. What a statement locks is its [`Footprint`]; the words are those
//! of the project (docs/design): *resource*, *strength*, *footprint*.
//!
//! # What it knows
//!
//! - Locking clauses of all four servers, and what they reach: joins, subqueries, `UNION`, not CTEs and not views.
//! - The locks that are not asked for: of `UPDATE`, `DELETE`, `INSERT`, upserts, `REPLACE`, `MERGE` and data-modifying CTEs;
//!   of foreign keys, on parents and on children, through cascades; of what InnoDB's writing statements read.
//! - Which rows, when the text pins a primary or unique key: by `=`, `IN`, `= ANY`, `OR`, tuples, equal columns of a join,
//!   `unnest`, `VALUES`, and subqueries that pin theirs.
//! - What it cannot see, by name: triggers, rules, views, and functions that are not the server's own ([`Footprint::opaque`]).
//!
//! # On which side it errs
//!
//! It may name more rows than the statement locks, or say [`Rows::Unknown`], and not fewer. Where that could not be held:
//!
//! - A nullable column that an `INSERT` does not give is taken to become NULL: its foreign key then locks nothing. A default
//!   that is not NULL is not seen.
//! - An upsert's row is counted as inserted and as updated, for the text does not say which it will be.
//! - A value is compared as it is written: of a key whose equality is not bytewise ([`Column::bytewise`]), two spellings are
//!   two keys here and one row there.
//! - On InnoDB only rows are counted, not gaps (which REPEATABLE READ locks, and under READ COMMITTED the checks of unique and
//!   foreign keys), and not the entries of secondary indexes. A scan can wait for rows that it then lets go,
//!   because they do not meet the condition: which those are, the optimizer decides (`FORCE INDEX` tells it).
//!
//! # How
//!
//! `text` cuts the text into tokens and statements, `statement` tells by the first words which can lock rows, `simplify` and
//! `locking` take out what the parser (sqlparser) does not know, `query`, `from`, `insert`, `update`, `delete` and `merge` go
//! through the tree, `condition` turns a `WHERE` into the values that it allows, `rows` chooses the key, and `foreign_key`
//! follows parents and children.

mod analyze;
mod condition;
mod define;
mod delete;
mod dialect;
mod display;
mod footprint;
mod foreign_key;
mod from;
mod function;
mod insert;
mod isolation;
mod locking;
mod merge;
mod name;
mod outline;
mod query;
mod relations;
mod rows;
mod schema;
mod scope;
mod setting;
mod simplify;
mod statement;
mod strength;
mod text;
mod update;
mod value;

pub use analyze::{analyze, analyze_under};
pub use define::define;
pub use dialect::Dialect;
pub use footprint::{Cause, Effect, Footprint, Literal, Lock, Rows, Setting, Through, Unreadable, Value, Verb, Wait};
pub use isolation::Isolation;
pub use outline::{Finds, Given, Outline, Returns};
pub use relations::relations;
pub use schema::{Action, Column, ForeignKey, Schema, Table, TableName, UniqueKey};
pub use strength::Strength;
