//! Reports in the shapes in which they are met: one report, wrapped in every way that is known, must tell the same.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/mod.rs"]
mod support;

use rowlock_lens::{Party, Reading, Window, look_back, markers, read};
use support::{all, one};

/// One deadlock, as the server's log has it.
const PLAIN: [&str; 8] = [
    "2026-11-30 22:00:01.257 UTC [82] ERROR:  deadlock detected",
    "2026-11-30 22:00:01.257 UTC [82] DETAIL:  Process 82 waits for ShareLock on transaction 729; blocked by process 81.",
    "\tProcess 81 waits for ShareLock on transaction 730; blocked by process 82.",
    "\tProcess 82: update orders set status = 'paid' where id = 10",
    "\tProcess 81: update inventories set stock = 4 where id = 20",
    "2026-11-30 22:00:01.257 UTC [82] HINT:  See server log for query details.",
    "2026-11-30 22:00:01.257 UTC [82] CONTEXT:  while updating tuple (0,10) in relation \"orders\"",
    "2026-11-30 22:00:01.257 UTC [82] STATEMENT:  update orders set status = 'paid' where id = 10",
];

/// With a line before and behind, and something around each line.
fn wrapped(around: impl Fn(&str) -> String) -> String {
    let before = "2026-11-30 22:00:00.000 UTC [70] LOG:  checkpoint complete";
    let behind = "2026-11-30 22:00:02.000 UTC [71] LOG:  disconnection";
    let lines = std::iter::once(before).chain(PLAIN).chain([behind]);
    lines.map(|line| around(line) + "\n").collect()
}

fn assert_told(text: &str) {
    let finding = one(text);
    let statement = |n: usize| finding.transactions[n].statement.as_deref().unwrap_or_default();
    assert_eq!(finding.hazard, "order-inversion", "{text}\n{finding:#?}");
    assert_eq!(statement(0), "update orders set status = 'paid' where id = 10", "{text}");
    assert_eq!(statement(1), "update inventories set stock = 4 where id = 20", "{text}");
    assert_eq!(finding.transactions[0].wants.as_ref().unwrap().what, "orders, id = 10, at (0,10)", "{text}");
    assert_eq!(finding.victim.unwrap().transaction, "A");
}

#[test]
fn containers_and_clouds() {
    let escape = |line: &str| serde_json::to_string(line).unwrap();
    assert_told(&wrapped(str::to_owned));
    assert_told(&wrapped(|line| format!("{line}\r")));
    assert_told(&wrapped(|line| format!("postgres-1  | {line}")));
    assert_told(&wrapped(|line| format!("[pod/db-0/postgres] {line}")));
    assert_told(&wrapped(|line| format!("2026-11-30T22:00:01.257000001Z stderr F {line}")));
    assert_told(&wrapped(|line| format!("{{\"log\":{},\"stream\":\"stderr\"}}", escape(&format!("{line}\n")))));
    assert_told(&wrapped(|line| format!("{{\"textPayload\":{},\"severity\":\"ERROR\"}}", escape(line))));
    let whole = PLAIN.join("\n");
    assert_told(&format!("{{\"insertId\":\"x\",\"textPayload\":{}}}\n", escape(&whole)));
    assert_told(&format!("{{\"properties\":{{\"timestamp\":\"x\",\"message\":{}}}}}\n", escape(&whole)));
}

#[test]
fn mails_greps_and_syslog() {
    assert_told(&wrapped(|line| format!("> {line}")));
    assert_told(&wrapped(|line| format!("> > {line}")));
    let grep = |line: &str| if line.contains("ERROR") { format!("pg.log:{line}") } else { format!("pg.log-{line}") };
    assert_told(&wrapped(grep));
    let number = std::cell::Cell::new(0);
    let syslog = |line: &str| {
        number.set(number.get() + 1);
        format!("Nov 30 22:00:01 db1 postgres[82]: [5-{}] {}", number.get(), line.replace('\t', "#011"))
    };
    assert_told(&wrapped(syslog));
}

#[test]
fn damaged_copies() {
    // Tabs lost, blanks instead, and blank lines between.
    assert_told(&wrapped(|line| line.replace('\t', "        ")));
    assert_told(&wrapped(|line| line.replace('\t', "")));
    assert_told(&wrapped(|line| format!("{line}\n")));
    // No prefix at all.
    assert_told(&wrapped(|line| line.replace("2026-11-30 22:00:01.257 UTC [82] ", "")));
    // On one line, with and without escapes.
    assert_told(&format!(
        "error: {}\n",
        PLAIN.join("\\n").replace('\t', "\\t").replace("2026-11-30 22:00:01.257 UTC [82] ", "")
    ));
    assert_told(&PLAIN.join(" ").replace('\t', "").replace("2026-11-30 22:00:01.257 UTC [82] ", ""));
}

#[test]
fn a_fragment_without_its_first_lines() {
    let finding = one(&PLAIN[1..5].join("\n"));
    assert_eq!((finding.hazard, finding.transactions.len()), ("order-inversion", 2));
}

#[test]
fn other_languages() {
    for text in [
        include_str!("reports/postgres-de.txt"),
        include_str!("reports/postgres-zh.txt"),
        include_str!("reports/postgres-ja.txt"),
    ] {
        assert_told(text);
    }
}

/// Written by PostgreSQL 15 itself, with each of its catalogs as `lc_messages`.
#[test]
fn other_languages_of_a_real_server() {
    let found = all(include_str!("reports/postgres-15-eleven-languages.txt"));
    assert_eq!(found.len(), 11);
    for finding in found {
        let finding = finding.unwrap();
        let wants: Vec<_> =
            finding.transactions.iter().map(|t| t.wants.as_ref().unwrap().table.clone().unwrap()).collect();
        assert_eq!((finding.hazard, wants.len()), ("order-inversion", 2), "{finding:#?}");
        assert!(wants.contains(&"orders".to_owned()) && wants.contains(&"inventories".to_owned()), "{finding:#?}");
        let read =
            |sql: &Option<String>| sql.as_ref().is_some_and(|sql| sql.starts_with("update") && sql.ends_with(';'));
        assert!(finding.transactions.iter().all(|transaction| read(&transaction.statement)), "{finding:#?}");
    }
}

#[test]
fn earlier_statements_in_every_wrapper() {
    let log = include_str!("reports/postgres-15-eleven-languages.txt");
    let plain = |line: &str| line.to_owned();
    let compose = |line: &str| format!("db-1  | {line}");
    let docker = |line: &str| format!("{{\"log\":{}}}", serde_json::to_string(&format!("{line}\n")).unwrap());
    let syslog = |line: &str| format!("Nov 30 22:00:01 db1 postgres[1]: [7-1] {}", line.replace('\t', "#011"));
    let wrappers: [&dyn Fn(&str) -> String; 4] = [&plain, &compose, &docker, &syslog];
    for wrapper in wrappers {
        let text: String = log.lines().map(|line| wrapper(line) + "\n").collect();
        let hits = markers(text.as_bytes()).filter(|hit| !hit.marker.starts_with("blocked"));
        let mut told = 0;
        for hit in hits {
            let window = Window { bytes: text.as_bytes(), hit: hit.at, ends: true };
            let Reading::Report { mut report, bytes } = read(&window, hit.marker) else { continue };
            assert!(look_back(&mut report, &text.as_bytes()[..bytes.start]), "{report:#?}");
            let earlier = |party: &Party| party.earlier.iter().any(|sql| sql.starts_with("update"));
            assert!(report.parties.iter().all(earlier), "{report:#?}");
            told += 1;
        }
        assert_eq!(told, 11);
    }
}

#[test]
fn columns_of_every_csvlog() {
    let detail = "Process 82 waits for ShareLock on transaction 729; blocked by process 81.\nProcess 81 waits for ShareLock on \
                  transaction 730; blocked by process 82.\nProcess 82: update orders set status = 'paid' where id = 10\n\
                  Process 81: update inventories set stock = 4 where id = 20";
    let head = "2026-11-30 22:00:01.257 UTC,\"u\",\"d\",82,\"[local]\",6b0df1e0.5ce6,6,\"UPDATE\",2026-11-30 22:00:00 UTC,4/2,730,ERROR,40P01,\"deadlock detected\"";
    let tail = "\"See server log for query details.\",,,\"while updating tuple (0,10) in relation \"\"orders\"\"\",\"update orders set status = 'paid' where id = 10\",,,\"psql\"";
    for more in ["", ",\"client backend\"", ",\"client backend\",,0"] {
        assert_told(&format!("{head},\"{detail}\",{tail}{more}\n"));
        // A web page's copy.
        assert_told(&format!("{head},\"{}\",{tail}{more}\n", detail.replace('\n', " ")));
    }
}

#[test]
fn drivers() {
    let jdbc = "org.postgresql.util.PSQLException: ERROR: deadlock detected\n  Detail: Process 82 waits for ShareLock on transaction 729; blocked by process 81.\n\
                Process 81 waits for ShareLock on transaction 730; blocked by process 82.\n  Hint: See server log for query details.\n  \
                Where: while updating tuple (0,10) in relation \"orders\"\n\tat org.postgresql.core.v3.QueryExecutorImpl.receiveErrorResponse(QueryExecutorImpl.java:2440)\n";
    let finding = one(jdbc);
    assert_eq!(finding.transactions[0].wants.as_ref().unwrap().what, "orders, at (0,10)");
    assert!(finding.unknown.iter().any(|unknown| unknown.how.contains("client's copy")), "{finding:#?}");

    let sqlalchemy = "sqlalchemy.exc.OperationalError: (psycopg2.errors.DeadlockDetected) deadlock detected\nDETAIL:  Process 82 waits for ShareLock on transaction 729; blocked by process 81.\n\
                      Process 81 waits for ShareLock on transaction 730; blocked by process 82.\nHINT:  See server log for query details.\n\
                      CONTEXT:  while updating tuple (0,10) in relation \"orders\"\n\n[SQL: UPDATE orders SET status=%(status)s WHERE orders.id = %(id)s]\n";
    let finding = one(sqlalchemy);
    assert_eq!(finding.transactions.len(), 2, "{finding:#?}");

    let rust = r#"Database(PgDatabaseError { severity: Error, code: "40P01", message: "deadlock detected", detail: Some("Process 82 waits for ShareLock on transaction 729; blocked by process 81.\nProcess 81 waits for ShareLock on transaction 730; blocked by process 82."), hint: Some("See server log for query details.") })"#;
    assert_eq!(one(rust).transactions.len(), 2);

    let mysql = "SQLSTATE[40001]: Serialization failure: 1213 Deadlock found when trying to get lock; try restarting transaction (SQL: update `t` set `a` = 1 where `id` = 2)\n";
    let finding = one(mysql);
    assert_eq!((finding.hazard, finding.transactions.len()), ("unclear", 1));
    assert!(finding.unknown[0].how.contains("innodb_print_all_deadlocks"));
}

#[test]
fn innodb_of_old_versions() {
    let finding = one(include_str!("reports/mysql-5.1.txt"));
    assert_eq!(finding.hazard, "unsorted-keys");
    assert_eq!(finding.time.as_deref(), Some("130701 20:47:57"));
    let wants: Vec<_> = finding.transactions.iter().map(|t| t.wants.as_ref().unwrap().what.as_str()).collect();
    assert_eq!(wants, ["test.parent, id = 2", "test.parent, id = 1"]);
    // What (1) holds is not in the report; the row says who wrote it last.
    let held = &finding.transactions[0].holds[0];
    assert_eq!(held.what, "test.parent, id = 1");
    assert!(format!("{:?}", held.certainty).contains("DB_TRX_ID"), "{held:?}");
    assert_eq!(finding.victim.unwrap().transaction, "A");
}

#[test]
fn innodb_shows_two_of_three() {
    let finding = one(include_str!("reports/mysql-5.6-three.txt"));
    assert!(finding.notes[0].contains("more transactions"), "{finding:#?}");
}

#[test]
fn innodb_error_log_of_8() {
    let finding = one(include_str!("reports/mysql-8-error-log.txt"));
    assert_eq!((finding.hazard, finding.transactions.len()), ("gap-lock", 2));
    assert_eq!(finding.time.as_deref(), Some("2021-01-14T06:44:17.979605Z"));
    assert_eq!(finding.victim.unwrap().transaction, "B");
}

/// What MySQL writes without its notes: transactions alone. A stray one, of a report that closed early, spoils no other.
#[test]
fn innodb_without_headings() {
    let transaction = |id: u32, held: u32, wanted: u32| {
        let lock = |heap: u32, waiting: &str| {
            format!(
                "RECORD LOCKS space id 6 page no 4 n bits 72 index PRIMARY of table `shop`.`t` trx id {id} lock_mode X locks rec but not gap{waiting}\n\
                 Record lock, heap no {heap} PHYSICAL RECORD: n_fields 4; compact format; info bits 0\n 0: len 4; hex 8000000{heap}; asc     ;;\n\n"
            )
        };
        format!(
            "TRANSACTION {id}, ACTIVE 0 sec starting index read\nmysql tables in use 1, locked 1\n\
             LOCK WAIT 3 lock struct(s), heap size 1128, 2 row lock(s), undo log entries 1\n\
             MySQL thread id {id}, OS thread handle 1, query id 2 localhost root updating\nupdate t set n = 1 where id = {wanted}\n{}{}",
            lock(held, ""),
            lock(wanted, " waiting")
        )
    };
    let pair = |id: u32| transaction(id, 2, 3) + &transaction(id + 1, 3, 2);
    let text = format!(
        "2026-11-30T22:00:01.0Z 0 [System] ready\n{}{}{}{}",
        pair(10),
        pair(20),
        transaction(30, 7, 8),
        pair(40)
    );
    let found = all(&text);
    let parties: Vec<_> = found.iter().map(|finding| finding.as_ref().unwrap().transactions.len()).collect();
    assert_eq!(parties, [2, 2, 2], "{found:#?}");
    assert_eq!(found[2].as_ref().unwrap().transactions[0].session, "transaction 40 (thread 40)");
    // A ring that is cut off is told as what could not be read.
    let text = ["\n".to_owned(), transaction(1, 2, 3), transaction(2, 4, 5), transaction(3, 6, 7)].concat();
    let found = all(&text);
    assert!(matches!(&found[..], [Err(reason)] if reason.contains("close no cycle")), "{found:#?}");
}

#[test]
fn a_deferred_constraint_at_commit() {
    let text = PLAIN[..4].join("\n") + "\n\tProcess 81: commit\n" + &PLAIN[5..].join("\n");
    let finding = one(&text);
    assert_eq!(finding.hazard, "hidden-foreign-key-lock");
    assert!(finding.cause.contains("COMMIT"), "{finding:#?}");
}

#[test]
fn innodb_gave_up() {
    let finding = one(include_str!("reports/mysql-too-deep.txt"));
    assert!(finding.victim.is_none());
    assert!(finding.notes[0].contains("gave up"), "{finding:#?}");
}

#[test]
fn innodb_in_copies() {
    let text = include_str!("reports/mysql-8-error-log.txt");
    for copy in [
        text.replace("***", "**"),
        text.lines().map(|line| format!("> {line}\n")).collect(),
        text.lines().map(|line| format!("{}\n\n", line.trim_start())).collect(),
        text.lines().map(|line| format!("    {line}\n")).collect(),
        text.replace('\n', "\\n"),
    ] {
        let finding = one(&copy);
        assert_eq!((finding.hazard, finding.transactions.len()), ("gap-lock", 2), "{copy}");
    }
}

#[test]
fn what_only_speaks_of_deadlocks_is_no_report() {
    for text in [
        "2026-11-30 22:00:01 UTC [1] LOG:  statement: insert into notes values ('deadlock detected')\n",
        "I think a deadlock detected by the server is retried.\n",
        "2026-11-30 22:00:01 UTC [82] LOG:  process 82 detected deadlock while waiting for ShareLock on transaction 1 after 50 ms\n",
        "begin\nTRANSACTION isolation level serializable\n",
        "error code 40P01 is a deadlock\n",
    ] {
        assert!(all(text).is_empty(), "{text}");
    }
}

#[test]
fn what_looks_like_a_report_and_is_not_readable_is_told() {
    let text =
        "2026-11-30 22:00:01 UTC [1] ERROR:  deadlock detected\n2026-11-30 22:00:01 UTC [1] DETAIL:  Process 1 wai\n";
    let readings = all(text);
    assert!(matches!(&readings[..], [Err(reason)] if reason.contains("DETAIL")), "{readings:?}");
    let readings = all("*** (1) TRANSACTION:\n*** (2) TRANSACTION:\n");
    assert!(matches!(&readings[..], [Err(_)]), "{readings:?}");
}
