//! Statements with what they lock beside them, in `fixtures/*.sql`.
//!
//! A file begins with `-- on` and its dialects. Then blocks, apart by a blank line: lines of SQL, and below them, as
//! comments, what the model must say of it: a line for each lock in order, or `nothing`; `verb:` when it is not the usual
//! one (read with a plain SELECT or a locking one, else write); `opaque:`, `parameters:`, when there are any; or
//! `unreadable:` and what the reason must contain. `UPDATE_EXPECT=1` writes what the model says now; read the difference.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod support;

use std::{fmt::Write, fs, path::PathBuf};

use rowlock_footprint::{Dialect, Verb, analyze};

#[test]
fn statements_lock_what_stands_beside_them() {
    let schema = support::schema();
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut wrong = String::new();
    let mut blocks = 0;
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let (head, body) = text.split_once("\n\n").unwrap();
        let dialects = dialects(head.lines().next().unwrap());
        let mut out = String::from(head);
        for block in body.trim_end().split("\n\n") {
            blocks += 1;
            let sql: String = block.lines().filter(|l| !l.starts_with("--")).fold(String::new(), |s, l| s + l + "\n");
            let expected: Vec<&str> = block.lines().filter_map(|l| l.strip_prefix("-- ")).collect();
            for (at, &dialect) in dialects.iter().enumerate() {
                let found = describe(&sql, dialect, &schema);
                if at == 0 {
                    write!(out, "\n\n{}", sql.trim_end()).unwrap();
                    found.iter().for_each(|line| write!(out, "\n-- {line}").unwrap());
                }
                if found != expected {
                    writeln!(wrong, "{} on {dialect}\n{sql}expected {expected:#?}\nfound {found:#?}\n", path.display())
                        .unwrap();
                }
            }
        }
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            fs::write(&path, out + "\n").unwrap();
        }
    }
    assert!(blocks > 100, "the fixtures were found");
    assert!(wrong.is_empty(), "{wrong}");
}

fn describe(sql: &str, dialect: Dialect, schema: &rowlock_footprint::Schema) -> Vec<String> {
    let footprint = match analyze(sql, dialect, schema) {
        Ok(footprint) => footprint,
        Err(unreadable) => return vec![format!("unreadable: {}", unreadable.reason)],
    };
    let mut lines: Vec<String> = footprint.locks.iter().map(ToString::to_string).collect();
    if lines.is_empty() {
        lines.push("nothing".into());
    }
    let begins = |word: &str| sql.trim_start().get(..word.len()).is_some_and(|s| s.eq_ignore_ascii_case(word));
    let usual = if begins("select") { Verb::Read } else { Verb::Write };
    if footprint.verb != usual {
        lines.push(format!("verb: {}", footprint.verb));
    }
    if !footprint.opaque.is_empty() {
        lines.push(format!("opaque: {}", footprint.opaque.join(", ")));
    }
    if footprint.parameters > 0 {
        lines.push(format!("parameters: {}", footprint.parameters));
    }
    lines
}

fn dialects(head: &str) -> Vec<Dialect> {
    let names = head.strip_prefix("-- on ").unwrap();
    names
        .split(", ")
        .map(|name| support::DIALECTS.into_iter().find(|d| d.to_string().eq_ignore_ascii_case(name)).unwrap())
        .collect()
}
