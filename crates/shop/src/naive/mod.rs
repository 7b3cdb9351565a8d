//! The shop's work in the ways in which it is usually written. Everything here is wrong on purpose.
//!
//! | where | what is wrong | seen as |
//! |---|---|---|
//! | [`api`] cancels order, then stock; [`event`] and [`batch`] take stock, then order | each follows its own business order | deadlock |
//! | every list of lines | rows are locked one by one as the request lists them | deadlock |
//! | stock | read under `FOR UPDATE`, computed here, written back as a number | locks held over round trips |
//! | [`transfer`] | balances read without a lock, computed here, written back | money made or lost |
//! | [`batch`] | item after item in one transaction | deadlock with everything else |
//! | an order's lines | the foreign key's shared lock on the item, then an update of it | upgrade deadlock on InnoDB |
//! | on SQLite | a transaction that begins by reading, then writes | `database is locked`, at once |
//!
//! No function looks strange alone; that is the point. Nothing is retried: what the server says reaches the client.

pub mod api;
pub mod batch;
pub mod event;
pub mod stock;
pub mod transfer;
