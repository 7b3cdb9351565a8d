//! Bad input is refused, not met with a panic; and what comes out is well formed.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod support;

use std::{fs, path::PathBuf, sync::LazyLock, thread};

use proptest::{collection::vec, prelude::*, sample};
use rowlock_footprint::{Dialect, Rows, Schema, Value, analyze, define};

static SCHEMA: LazyLock<Schema> = LazyLock::new(support::schema);

/// Every statement of the fixtures, as words.
static STATEMENTS: LazyLock<Vec<Vec<String>>> = LazyLock::new(statements);

fn statements() -> Vec<Vec<String>> {
    let directory = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let mut statements = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let text = fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in text.lines().filter(|l| !l.starts_with("--") && !l.is_empty()) {
            statements.push(words(line));
        }
    }
    statements
}

const DEFINITIONS: &[&str] = &[
    "create table a (id serial primary key, b int references orders (id) on delete cascade, unique (b, id))",
    "create table `a` (`id` int auto_increment, `b` varchar(4) collate binary, primary key (`id`), key (`b`(2))) engine=InnoDB",
    "create table e1 partition of orders for values from (1) to (2); create table e2 (like orders including all)",
    "alter table only orders add constraint c foreign key (id) references orders (id) deferrable initially deferred",
    "alter table orders drop column id, rename to x; drop table if exists orders, public.x",
    "create unique index u on orders (lower(note)) where id > 1; create trigger t after update of id on orders execute f()",
    "create rule r as on insert to orders do nothing; create or replace view v as select 1",
];

/// Cut before and after everything that is not a letter or a digit.
fn words(sql: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut in_word = false;
    for c in sql.chars() {
        let part = c.is_alphanumeric() || c == '_';
        match words.last_mut() {
            Some(last) if in_word && part => last.push(c),
            _ => words.push(c.to_string()),
        }
        in_word = part;
    }
    words
}

/// Checks what must hold of every footprint.
fn check(sql: &str, schema: &Schema) {
    for dialect in support::DIALECTS {
        let Ok(footprint) = analyze(sql, dialect, schema) else { continue };
        for lock in &footprint.locks {
            assert_eq!(lock.strength, lock.strength.on(dialect), "{sql}");
            let Rows::Keys { columns, keys } = &lock.rows else { continue };
            assert!(!columns.is_empty() && !keys.is_empty(), "{sql}");
            for key in keys {
                assert_eq!(key.len(), columns.len(), "{sql}");
                for value in key {
                    if let Value::Parameter(n) | Value::ParameterArray(n) = value {
                        assert!(*n < footprint.parameters, "{sql}");
                    }
                }
            }
        }
        assert_eq!(analyze(sql, dialect, schema), Ok(footprint), "the same again: {sql}");
    }
}

#[derive(Clone, Debug)]
enum Change {
    Delete(sample::Index),
    Double(sample::Index),
    Swap(sample::Index, sample::Index),
    Insert(sample::Index, &'static str),
    Cut(sample::Index),
}

fn change() -> impl Strategy<Value = Change> {
    let at = any::<sample::Index>;
    prop_oneof![
        at().prop_map(Change::Delete),
        at().prop_map(Change::Double),
        (at(), at()).prop_map(|(a, b)| Change::Swap(a, b)),
        (at(), sample::select(&EXTRA[..])).prop_map(|(a, w)| Change::Insert(a, w)),
        at().prop_map(Change::Cut),
    ]
}

const EXTRA: [&str; 28] = [
    "(",
    ")",
    ",",
    ";",
    "'",
    "\"",
    "`",
    "$1",
    "?",
    "?9",
    ":n",
    "$$",
    "/*",
    "--",
    " for update of ",
    " in ",
    " any(",
    " null ",
    " default ",
    " set ",
    " row(",
    " \u{0} ",
    "é",
    " with ",
    " union ",
    " 99999999999999999999999999999999999999999 ",
    "-",
    "$99999999999999999999999",
];

fn apply(words: &mut Vec<String>, change: &Change) {
    if words.is_empty() {
        return;
    }
    let len = words.len();
    match change {
        Change::Delete(at) => drop(words.remove(at.index(len))),
        Change::Double(at) => words.insert(at.index(len), words[at.index(len)].clone()),
        Change::Swap(a, b) => words.swap(a.index(len), b.index(len)),
        Change::Insert(at, word) => words.insert(at.index(len), (*word).to_owned()),
        Change::Cut(at) => words.truncate(at.index(len)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_statements(which in any::<sample::Index>(), changes in vec(change(), 1..6)) {
        let mut words = which.get(STATEMENTS.as_slice()).clone();
        changes.iter().for_each(|c| apply(&mut words, c));
        check(&words.concat(), &SCHEMA);
    }

    #[test]
    fn words_in_any_order(picks in vec((any::<sample::Index>(), any::<sample::Index>()), 0..40)) {
        let word = |(s, w): &(sample::Index, sample::Index)| w.get(s.get(STATEMENTS.as_slice()).as_slice()).clone();
        let sql: Vec<String> = picks.iter().map(word).collect();
        check(&sql.join(" "), &SCHEMA);
    }

    #[test]
    fn changed_definitions(which in any::<sample::Index>(), changes in vec(change(), 1..6)) {
        let mut words = words(which.get::<&str>(DEFINITIONS));
        changes.iter().for_each(|c| apply(&mut words, c));
        for dialect in support::DIALECTS {
            let _ = define(&words.concat(), dialect, &mut SCHEMA.clone());
        }
    }

    #[test]
    fn any_bytes(bytes in vec(any::<u8>(), 0..200)) {
        check(&String::from_utf8_lossy(&bytes), &SCHEMA);
    }
}

/// What nests is refused before it can overflow the stack: here that of a small thread.
#[test]
fn deep_statements() {
    let deep =
        |open: &str, middle: &str, close: &str, n: usize| format!("{}{middle}{}", open.repeat(n), close.repeat(n));
    let texts: Vec<String> = [30, 490, 5_000]
        .into_iter()
        .flat_map(|n| {
            [
                format!("select * from orders where id = 1{} for update", " and a = 1".repeat(n)),
                format!("select * from orders where id = 1{} for update", " or id = 2".repeat(n)),
                format!("select {}1", "- ".repeat(n)),
                format!("select {}1", "not ".repeat(n)),
                format!("select 1{}", " + 1".repeat(n)),
                format!("select 1{}", "::int".repeat(n)),
                format!("select cast(1 as int{})", "[]".repeat(n)),
                format!("select a{}", "[1]".repeat(n)),
                format!("select a{}", ".b".repeat(n)),
                format!("select 1{}", " union select 1".repeat(n)),
                format!("select * from a{}", " join a".repeat(n)),
                format!("select * from a{}", " is null".repeat(n)),
                deep("(", "select 1", ")", n),
                deep("select * from (", "select 1", ") x", n),
                deep("select * from orders where id in (", "1", ")", n),
                deep("case when ", "1", " then 1 end", n),
                deep("select case when ", "1", " then 1 end", n),
                deep("with a as (", "select 1", ") select 1", n),
                deep("select f(", "1", ")", n),
                deep("select (", "1", ")", n),
                deep("select [", "1", "]", n),
                deep("select {", "1", "}", n),
                deep("insert into a values (", "1", ")", n),
                deep("explain analyze ", "select 1", "", n),
                deep("declare c cursor for ", "select 1", "", n),
                deep("copy (", "select 1", ")", n),
                deep("/*", "", "*/", n),
                "select 1;".repeat(n),
                ";".repeat(n),
                "(".repeat(n),
                ")".repeat(n),
                "?,".repeat(n),
            ]
        })
        .collect();
    let small = thread::Builder::new().stack_size(1 << 20);
    let work = move || {
        for sql in &texts {
            for dialect in support::DIALECTS {
                let _ = analyze(sql, dialect, &Schema::default());
            }
        }
    };
    small.spawn(work).unwrap().join().unwrap();
}

#[test]
fn long_lists_are_read() {
    let keys: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    let sql = format!("select * from orders where id in ({}) for update", keys.join(", "));
    let footprint = analyze(&sql, Dialect::Postgres, &support::schema()).unwrap();
    let Rows::Keys { keys, .. } = &footprint.locks[0].rows else { panic!("{footprint:?}") };
    assert_eq!(keys.len(), 20_000);
}

/// What repeats is read, or refused, in time that grows with its length.
#[test]
fn wide_statements() {
    let texts = [
        format!("select * from a{} for update", ", a".repeat(25_000)),
        format!("update a{} set x = 1", ", a".repeat(20_000)),
        format!("delete a.*{} from a", ", a.*".repeat(20_000)),
        format!("update a set x[1] = 1{}", ", x[1] = 1".repeat(10_000)),
        format!("update a set x = :a{}", (0..10_000).map(|n| format!(", x = :a{n}")).collect::<String>()),
        format!("select f(){}", (0..10_000).map(|n| format!(", f{n}()")).collect::<String>()),
        (0..5_000).map(|n| format!("delete from t where id = {n};")).collect(),
        format!(
            "with a as (select 1){} select 1",
            (0..5_000).map(|n| format!(", a{n} as (select 1)")).collect::<String>()
        ),
        format!("select 1{}", ", (select 1 from t for update)".repeat(20_000)),
        format!("insert into inventories values (1, 1){}", ", (1, 1)".repeat(10_000)),
        format!("select * from order_lines where (order_id, line) in ((1, 1){}) for update", ", (1, 2)".repeat(10_000)),
    ];
    for sql in &texts {
        for dialect in [Dialect::Postgres, Dialect::MySql] {
            let start = std::time::Instant::now();
            let _ = analyze(sql, dialect, &SCHEMA);
            // A debug build on a busy machine: what is quadratic takes minutes.
            assert!(start.elapsed().as_secs() < 60, "{dialect}: {}", &sql[..60]);
        }
    }
}

#[test]
fn bounds_are_told() {
    let reason = |sql: &str| analyze(sql, Dialect::Postgres, &Schema::default()).unwrap_err().reason;
    assert!(reason(&format!("select * from a{}", ", a".repeat(300))).contains("more tables than"));
    assert!(
        reason(&format!("select f(){}", (0..5_000).map(|n| format!(", f{n}()")).collect::<String>()))
            .contains("functions")
    );
    assert!(reason(&" ".repeat((1 << 20) + 1)).contains("bytes long"));
    assert!(
        reason(&format!("select 1{}", " + 1".repeat(1_001)))
            .contains("operators in one expression at Line: 1, Column: ")
    );
}

#[test]
fn nothing_is_read_from_nothing() {
    for sql in ["", "  ", ";", "-- select", "/* ; */ ;"] {
        for dialect in support::DIALECTS {
            let footprint = analyze(sql, dialect, &Schema::default()).unwrap();
            assert!(footprint.locks.is_empty() && footprint.parameters == 0, "{sql}");
        }
    }
}
