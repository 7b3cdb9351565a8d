//! What `check` finds, what it leaves out, and that no input makes it panic.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use proptest::prelude::*;
use rowlock_lens::{Checked, Engine, Redactor, Source, check, scenario};

const SCHEMA: &str = "create table a (id int primary key, n int);
create table b (id int primary key, a_id int references a (id) on delete cascade, n int);";

fn source(text: &str) -> Source<'_> {
    Source { file: "test.sql", text }
}

fn checked(transactions: &[&str]) -> Checked {
    let mut text = format!("-- rowlock: engine postgres\n-- rowlock: schema\n{SCHEMA}\n");
    for (at, transaction) in transactions.iter().enumerate() {
        text.push_str(&format!("-- rowlock: transaction t{at}\nbegin;\n{transaction};\ncommit;\n"));
    }
    check(&scenario(source(&text), None, None).unwrap(), &mut Redactor::new(true))
}

fn hazards(transactions: &[&str]) -> Vec<&'static str> {
    let mut hazards: Vec<_> = checked(transactions).findings.iter().map(|finding| finding.hazard).collect();
    hazards.dedup();
    hazards
}

#[test]
fn no_alarm_where_nothing_can_close() {
    for transactions in [
        // One order, and a gate.
        &["update a set n = 1 where id = 1; update b set n = 1 where id = 1"][..],
        &["update a set n = 1 where id = $1; update a set n = 2 where id = $1"],
        &[
            "select 1 from a where id = 1 for update; update b set n = 1 where id = 1; update b set n = 1 where id = 2",
            "update a set n = 1 where id = 1; update b set n = 1 where id = 2; update b set n = 1 where id = 1",
        ],
        // Other rows.
        &[
            "update a set n = 1 where id = 1; update b set n = 1 where id = 1",
            "update b set n = 1 where id = 2; update a set n = 1 where id = 1",
        ],
        // Rows of one statement come in the order of their key.
        &["update a set n = 1 where id in (2, 1)", "update a set n = 2 where id in (1, 2)"],
        // A child's check does not meet an update that leaves the key alone.
        &[
            "update a set n = 1 where id = 1; update b set n = 1 where id = 7",
            "update b set n = 2 where id = 7; insert into b values (8, 1, 0)",
        ],
        // Reads lock nothing, and who does not wait closes no cycle.
        &["select 1 from a; update b set n = 1 where id = 1", "update b set n = 1 where id = 1; select 1 from a"],
        &[
            "update a set n = 1 where id = 1; update b set n = 1 where id = 1",
            "update b set n = 1 where id = 1; select 1 from a where id = 1 for update nowait",
        ],
        // A parameter has one value: it cannot be both rows.
        &[
            "update a set n = 1 where id = 1; update a set n = 1 where id = 2",
            "update a set n = 1 where id = $1; update a set n = 2 where id = $1",
        ],
    ] {
        assert_eq!(hazards(transactions), [""; 0], "{transactions:?}");
    }
}

#[test]
fn what_can_close_is_found() {
    let two = ["update a set n = 1 where id = $1; update a set n = 1 where id = $2"];
    assert_eq!(hazards(&two), ["unsorted-keys"], "it meets its like");
    let ring = [
        "update a set n = 1 where id = 1; update a set n = 1 where id = 2",
        "update a set n = 1 where id = 2; update a set n = 1 where id = 3",
        "update a set n = 1 where id = 3; update a set n = 1 where id = 1",
    ];
    assert_eq!(checked(&ring).findings[0].transactions.len(), 3);
    let scan = ["update a set n = 1 where n = 5", "update a set n = 1 where id = 2; update a set n = 1 where id = 1"];
    assert_eq!(hazards(&scan), ["unsorted-keys"], "a scan holds what is behind it");
    let cascade =
        ["delete from a where id = 1", "update b set n = 1 where id = 7; select 1 from a where id = 1 for update"];
    assert_eq!(hazards(&cascade), ["cascade-locks"]);
}

#[test]
fn a_routine_has_semicolons_of_its_own() {
    let text = "-- rowlock: engine mysql\n-- rowlock: schema\ncreate table a (id int primary key);
create trigger t before update on a for each row begin if 1 then set @x = 1; end if; end;
-- rowlock: transaction x\nupdate a set id = 2 where id = 1;\n";
    let workload = scenario(source(text), None, None).unwrap();
    assert_eq!(workload.unread, []);
    assert!(check(&workload, &mut Redactor::new(true)).assumed.iter().any(|text| text.starts_with("t locks nothing")));
}

#[test]
fn isolation_is_the_file_s_or_the_transaction_s_or_the_engine_s() {
    let text = "-- rowlock: engine mysql\n-- rowlock: transaction x\nbegin; update a set n = 1; commit;
set transaction isolation level read committed; start transaction; update a set n = 1; commit;
begin; update a set n = 1; rollback;
set session transaction isolation level serializable;\nbegin; update a set n = 1; commit;\nupdate a set n = 2;
-- rowlock: transaction y\nbegin; update a set n = 1; commit;\n";
    let levels = |text: &str| -> Vec<String> {
        let workload = scenario(source(text), None, None).unwrap();
        workload.kinds.iter().map(|kind| workload.isolation_of(kind).to_string()).collect()
    };
    let (repeatable, committed, serializable) = ("repeatable read", "read committed", "serializable");
    assert_eq!(levels(text), [repeatable, committed, repeatable, serializable, serializable, repeatable]);
    let postgres = "-- rowlock: engine postgres\n-- rowlock: isolation serializable\n-- rowlock: transaction x
begin isolation level repeatable read; commit;\nbegin; commit;
begin; set transaction isolation level read committed, read only; commit;";
    assert_eq!(levels(postgres), [repeatable, serializable, committed]);
    let error = scenario(source("-- rowlock: isolation dirty\n"), Some(Engine::MySql), None).unwrap_err();
    assert!(error.to_string().starts_with("test.sql:1: no isolation is called `dirty`"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_panic(parts in prop::collection::vec(prop::sample::select(PARTS), 0..24), bytes in ".{0,40}") {
        for engine in [Engine::Postgres, Engine::MySql, Engine::MariaDb] {
            let text = format!("-- rowlock: transaction x\n{}\n{bytes}", parts.concat());
            if let Ok(workload) = scenario(source(&text), Some(engine), Some(source(SCHEMA))) {
                let _ = check(&workload, &mut Redactor::new(false));
            }
        }
    }
}

const PARTS: &[&str] = &[
    "begin;",
    "commit;\n",
    "-- rowlock: transaction y\n",
    "-- rowlock: schema\n",
    "update a set n = 1 where id = ",
    "$1",
    "2",
    ";\n",
    "'",
    "insert into b values (1, 2, 3);",
    "delete from a",
    " where id in (1, 2, $3)",
    " for update",
    "select 1 from b",
    "rollback to s;",
    "end if;",
    "create trigger t",
    "\"",
    "$$",
    "/*",
];
