//! What is measured, a file each.

pub(crate) mod batch;
pub(crate) mod cost;
pub(crate) mod counter;
pub(crate) mod guard;
pub(crate) mod late;
pub(crate) mod memory;
pub(crate) mod merge;
pub(crate) mod order;
