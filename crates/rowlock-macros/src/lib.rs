//! rowlock-macros
