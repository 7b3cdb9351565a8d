//! Whatever stands in an input, reading it ends, and soon, and does not panic.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use proptest::prelude::*;
use rowlock_lens::{Engine, Reading, Redactor, Window, explain, look_back, markers, read, shape};
use support::all;

const REPORTS: [&str; 7] = [
    include_str!("reports/mysql-5.1.txt"),
    include_str!("reports/mysql-5.6-three.txt"),
    include_str!("reports/mysql-8-error-log.txt"),
    include_str!("reports/mysql-too-deep.txt"),
    include_str!("reports/postgres-de.txt"),
    include_str!("reports/postgres-zh.txt"),
    include_str!("reports/postgres-ja.txt"),
];

/// What a mutation puts in: what parsers stumble over.
const PIECES: [&str; 20] = [
    "\n",
    "\t",
    "\"",
    "'",
    "\\",
    ";",
    ",",
    "(",
    ")",
    "Process 18446744073709551616: ",
    "deadlock detected",
    "40P01",
    "TRANSACTION ",
    "*** (99999999999999999999) TRANSACTION:",
    "RECORD LOCKS space id",
    "len 99999999999; hex 8",
    "ERROR:  ",
    "\u{0}",
    "日本",
    "{\"log\":\"",
];

fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let cut = (any::<prop::sample::Index>(), 0..40_usize, prop::sample::select(&PIECES[..]));
    (prop::sample::select(&REPORTS[..]), prop::collection::vec(cut, 0..12)).prop_map(|(report, cuts)| {
        let mut bytes = report.as_bytes().to_vec();
        for (at, length, piece) in cuts {
            let at = at.index(bytes.len() + 1);
            let end = (at + length).min(bytes.len());
            bytes.splice(at..end, piece.bytes());
        }
        bytes
    })
}

/// 1,500, or as many as `PROPTEST_CASES` says: a long run is `PROPTEST_CASES=1000000 cargo test --release --test robust`.
fn cases() -> u32 {
    std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1_500)
}

fn read_all(bytes: &[u8]) {
    let hits: Vec<_> = markers(bytes).collect();
    for hit in hits {
        for ends in [false, true] {
            if let Reading::Report { mut report, bytes: range } = read(&Window { bytes, hit: hit.at, ends }, hit.marker)
            {
                assert!(range.start <= range.end && range.end <= bytes.len());
                look_back(&mut report, &bytes[..range.start]);
                let _ = explain(&report, &mut Redactor::new(false));
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn damaged_reports(bytes in mutated()) {
        read_all(&bytes);
    }

    #[test]
    fn noise_around_markers(parts in prop::collection::vec((".{0,60}", prop::sample::select(&PIECES[..])), 0..20)) {
        let text: String = parts.into_iter().flat_map(|(noise, piece)| [noise, piece.to_owned()]).collect();
        read_all(text.as_bytes());
    }

    #[test]
    fn any_window(bytes in prop::collection::vec(any::<u8>(), 0..300), hit in 0..400_usize) {
        let _ = read(&Window { bytes: &bytes, hit, ends: true }, "deadlock detected");
        let _ = read(&Window { bytes: &bytes, hit, ends: false }, "\nTRANSACTION ");
    }

    /// No literal of a statement is shown, however it is cut.
    #[test]
    fn redacted_whole_and_cut(secret in "[a-z]{8}", cut in 0..90_usize) {
        for engine in [Engine::Postgres, Engine::MySql, Engine::MariaDb] {
            let sql = format!("UPDATE t SET a = '{secret}', b = 'it''s {secret}' /* {secret} */ WHERE c = '{secret}' -- {secret}");
            let sql = sql.get(..cut.min(sql.len())).unwrap_or(&sql);
            let shown = Redactor::new(false).statement(sql, engine);
            prop_assert!(!shown.contains(&secret), "{}", shown);
            prop_assert!(!shape(sql, engine).contains(&secret));
        }
    }
}

/// Time for an input in which something grows, held to a bound that a debug build keeps tenfold.
fn soon(name: &str, text: &str) {
    let since = Instant::now();
    let found = all(text).len();
    eprintln!("{name}: {found} in {:?}", since.elapsed());
    assert!(since.elapsed() < Duration::from_secs(20), "{name}: {:?}", since.elapsed());
}

#[test]
fn huge_lines_and_deep_nesting() {
    let edge = "Process 1 waits for ShareLock on transaction 9; blocked by process 2.\nProcess 2 waits for ShareLock on transaction 8; blocked by process 1.\n";
    let report = |statement: &str| {
        format!("ERROR:  deadlock detected\nDETAIL:  {edge}Process 1: {statement}\nProcess 2: {statement}\n")
    };
    soon("a long line", &format!("ERROR:  deadlock detected {}", "x".repeat(3 << 20)));
    soon("parentheses", &report(&format!("select {}1{}", "(".repeat(50_000), ")".repeat(50_000))));
    soon(
        "a long list",
        &report(&format!(
            "delete from t where id in ({})",
            (0..50_000).map(|n| n.to_string()).collect::<Vec<_>>().join(",")
        )),
    );
    soon("quotes", &report(&"'".repeat(100_001)));
    soon("comments", &report(&"/*".repeat(50_000)));
    soon(
        "many edges",
        &format!(
            "ERROR:  deadlock detected\nDETAIL:  {}",
            (0..400)
                .map(|n| format!("Process {n} waits for ShareLock on transaction 1; blocked by process {}.\n", n + 1))
                .collect::<String>()
        ),
    );
    soon("JSON in JSON", &format!("{}deadlock detected", "{\"log\":\"".repeat(10_000)));
    soon("markers alone", &"deadlock detected 40P01 ".repeat(300));
    soon("many records", &format!("*** (1) TRANSACTION:\nTRANSACTION 7, ACTIVE 1 sec\n*** (1) HOLDS THE LOCK(S):\nRECORD LOCKS space id 1 page no 1 n bits 1 index PRIMARY of table `a`.`b` trx id 7 lock_mode X\n{}*** WE ROLL BACK TRANSACTION (1)\n", "Record lock, heap no 2 PHYSICAL RECORD: n_fields 1; compact format; info bits 0\n 0: len 4; hex 80000001; asc ;;\n".repeat(20_000)));
}
