//! rowlock
