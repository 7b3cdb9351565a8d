//! Rows that no key names: all of a resource, the children that a cascade reaches, what lies beneath a view, what is a
//! transaction's own. They are found and locked in order
//! before the statement is sent, and nothing deadlocks where the statement by itself does.

#![allow(clippy::unwrap_used, reason = "tests say what they expect by failing")]

#[path = "../support/mod.rs"]
#[allow(dead_code, reason = "a part of it is used here")]
mod support;

mod cascade;
mod own;
mod view;
mod whole;
