//! rowlock-testing
