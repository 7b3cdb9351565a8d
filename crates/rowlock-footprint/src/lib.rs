//! rowlock-footprint
