//! What must not compile, and the message that the user sees: one error for a mistake, in plain words.
//!
//! Each file of `compile/` has its message beside it. After a change of the words or of the toolchain:
//! `TRYBUILD=overwrite cargo test -p rowlock --test compile`, then read what changed.

#[test]
fn mistakes_are_told_in_plain_words() {
    trybuild::TestCases::new().compile_fail("tests/compile/*.rs");
}
