//! The matrix of engine and case: what the naive way of writing a transaction does on each server, and that rowlock's way
//! of the same work never deadlocks.
//!
//! A case is a row of [`case::CASES`]: the naive schedule, run step by step on the real server, with what comes of it on
//! each engine. [`ordered`] has the same work through rowlock, two transactions at a time, each held where the naive one
//! would have been caught: with its first lock in hand, until the other has its own or is seen to wait.

mod case;
mod gate;
mod ground;
mod naive;
mod ordered;
mod random;
