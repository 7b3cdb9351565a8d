//! The ways to change a row that many want, side by side: what each gives at how many callers, on each engine.
//!
//! `bench strategies` (`cargo xtask bench strategies`). Where the other measurements are ratios of two sides, this one is a
//! survey: one cell for each way, kind of keys, number of callers, engine, kind of commit and delay of the network.

mod cell;
mod chart;
mod draw;
mod survey;
mod way;

pub(crate) use survey::Survey;
