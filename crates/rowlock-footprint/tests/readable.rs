//! Statements of all kinds, one a line in `readable/*.sql`: the model reads every one of them. What each locks is in the
//! fixtures; here it is only that the parser, with what `simplify` and `locking` take out for it, knows the language.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod support;

use std::{fs, path::PathBuf};

use rowlock_footprint::{Dialect, Schema, analyze};

#[test]
fn every_statement_is_read() {
    let mut unread = Vec::new();
    for (name, dialects) in [
        ("postgresql", &[Dialect::Postgres][..]),
        ("mysql", &[Dialect::MySql, Dialect::MariaDb][..]),
        ("sqlite", &[Dialect::Sqlite][..]),
    ] {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/readable/{name}.sql"));
        let text = fs::read_to_string(path).unwrap();
        assert!(text.lines().count() > 25, "{name} has statements");
        for sql in text.lines() {
            for &dialect in dialects {
                for schema in [support::schema(), Schema::default()] {
                    if let Err(error) = analyze(sql, dialect, &schema) {
                        unread.push(format!("{dialect}: {sql}: {error}"));
                    }
                }
            }
        }
    }
    assert!(unread.is_empty(), "{unread:#?}");
}
