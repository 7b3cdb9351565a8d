//! The command as a program: exit codes, places, redaction, compressed input, memory, and what it prints, whole.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

const REPORT: &str = include_str!("report.txt");

fn run(arguments: &[&str], stdin: &[u8]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowlock"));
    command.args(arguments).env("COLUMNS", "110").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(stdin).unwrap();
    child.wait_with_output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_whole_text() {
    let output = run(&["explain"], REPORT.as_bytes());
    assert_eq!(text(&output), include_str!("report.out"));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn values_are_shown_on_demand_alone() {
    let hidden = text(&run(&["explain"], REPORT.as_bytes()));
    let shown = text(&run(&["explain", "--show-values"], REPORT.as_bytes()));
    assert!(!hidden.contains("'paid'") && shown.contains("'paid'"));
    assert!(!hidden.contains("id = 10") && shown.contains("orders, id = 10"));
}

#[test]
fn exit_codes() {
    assert_eq!(run(&["explain"], b"LOG:  nothing\n").status.code(), Some(0));
    assert_eq!(run(&["explain"], b"").status.code(), Some(0));
    assert_eq!(run(&["explain", "/no/such/file"], b"").status.code(), Some(2));
    assert_eq!(run(&["explain", "gap-lock"], b"").status.code(), Some(0));
    let broken = format!("x\ny\nERROR:  deadlock detected\nDETAIL:  Process 1 wai\n\n\n{REPORT}");
    let output = run(&["explain"], broken.as_bytes());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("unreadable -:3:"), "{}", text(&output));
    assert!(text(&output).contains("1 deadlock of 1 kind; 1 could not be read"), "{}", text(&output));
}

#[test]
fn places_and_counts_over_many_chunks() {
    let filler = "2026-11-30 22:00:00.000 UTC [70] LOG:  statement: select 1\n".repeat(20_000);
    let log = format!("{filler}{REPORT}{filler}{REPORT}{filler}{REPORT}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pg.log");
    std::fs::write(&file, &log).unwrap();
    let name = file.to_str().unwrap();
    let (by_file, by_pipe) = (text(&run(&["explain", name], b"")), text(&run(&["explain"], log.as_bytes())));
    assert!(by_file.contains(&format!("{name}:20002,")), "{by_file}");
    assert!(by_file.contains("3 times"), "{by_file}");
    assert_eq!(by_file.replace(name, "-"), by_pipe);
}

#[test]
fn a_report_on_the_cut_of_two_chunks() {
    // Chunks are of 256 KiB: the marker is moved over the cut, byte by byte.
    for shift in 0..40 {
        let size = (256 << 10) - 70 + shift;
        let log = format!("{}\n{REPORT}", "x".repeat(size));
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pg.log");
        std::fs::write(&file, &log).unwrap();
        let output = run(&["explain", file.to_str().unwrap()], b"");
        assert!(text(&output).contains("1 deadlock of 1 kind"), "{shift}: {}", text(&output));
    }
}

/// What MySQL's log has of a deadlock without its notes, from its first byte on.
#[test]
fn a_paste_without_headings() {
    let transaction = |id: u32, held: u32, wanted: u32| {
        let lock = |heap: u32, waiting: &str| {
            format!(
                "RECORD LOCKS space id 6 page no 4 n bits 72 index PRIMARY of table `shop`.`t` trx id {id} lock_mode X locks rec but not gap{waiting}\n\
                 Record lock, heap no {heap} PHYSICAL RECORD: n_fields 4; compact format; info bits 0\n 0: len 4; hex 8000000{heap}; asc     ;;\n\n"
            )
        };
        format!("TRANSACTION {id}, ACTIVE 0 sec starting index read\n{}{}", lock(held, ""), lock(wanted, " waiting"))
    };
    let output = run(&["explain"], (transaction(7, 2, 3) + &transaction(8, 3, 2)).as_bytes());
    assert!(text(&output).contains("--> -:1 (MySQL, innodb)"), "{}", text(&output));
    assert!(text(&output).contains("A transaction 7"), "{}", text(&output));
}

#[test]
fn json_has_what_it_promises() {
    let output = run(&["explain", "--format", "json"], REPORT.as_bytes());
    let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &value["findings"][0];
    for field in
        ["hazard", "level", "status", "transactions", "steps", "fix", "where", "count", "victim", "unknown", "cause"]
    {
        assert!(!finding[field].is_null(), "{field} in {finding:#}");
    }
    assert_eq!(finding["where"]["line"], 2);
    assert_eq!(value["summary"]["deadlocks"], 1);
}

#[test]
fn no_color_without_a_terminal_and_none_with_no_color() {
    assert!(!text(&run(&["explain"], REPORT.as_bytes())).contains('\u{1b}'));
}

/// Memory must not follow the input: 200 MB through a pipe, with a deadlock every 2 MB.
#[test]
fn memory_is_flat() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rowlock"));
    let mut child = command.arg("explain").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let filler = "2026-11-30 22:00:00.000 UTC [70] LOG:  statement: select 1\n".repeat(35_000);
    let mut stdin = child.stdin.take().unwrap();
    for _ in 0..100 {
        stdin.write_all(filler.as_bytes()).unwrap();
        stdin.write_all(REPORT.as_bytes()).unwrap();
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap().to_owned();
    let kilobytes: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(text(&output).contains("100 deadlocks of 1 kind"));
    assert!(kilobytes < 64 << 10, "{peak}");
}

/// gzip and zstd, made here: two members and two frames, one after the other, as log rotation and pzstd leave them.
#[test]
fn compressed_input_is_read_as_it_is() {
    let mut gzip = Vec::new();
    let mut zstd = Vec::new();
    for _ in 0..2 {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(REPORT.as_bytes()).unwrap();
        gzip.extend(encoder.finish().unwrap());
        zstd.extend(ruzstd::encoding::compress_to_vec(REPORT.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest));
        // A frame to be skipped: magic 0x184D2A50, length 4.
        zstd.extend([0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4]);
    }
    for packed in [gzip, zstd] {
        let output = run(&["explain"], &packed);
        assert!(text(&output).contains("2 deadlocks of 1 kind"), "{output:?}");
    }
    // Cut off: what was read is told, and that there should be more.
    let mut cut = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    cut.write_all(REPORT.repeat(300).as_bytes()).unwrap();
    let cut = cut.finish().unwrap();
    assert_eq!(run(&["explain"], &cut[..cut.len() - 20]).status.code(), Some(2));
}

const INVERSION: &str = include_str!("check.sql");

#[test]
fn the_whole_text_of_a_check() {
    let output = run(&["check", "-"], INVERSION.as_bytes());
    assert_eq!(text(&output), include_str!("check.out"));
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_check_as_json() {
    let output = run(&["check", "--format", "json", "--show-values", "-"], INVERSION.as_bytes());
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let finding = &document["findings"][0];
    assert_eq!((&finding["hazard"], &finding["status"]), (&"order-inversion".into(), &"possible".into()));
    assert_eq!(finding["transactions"][0]["wants"]["what"], "stock, id = 20");
    assert_eq!(document["summary"]["transactions"], 2);
}

#[test]
fn what_a_check_cannot_judge() {
    let code = |text: &str| run(&["check", "-"], text.as_bytes()).status.code();
    let good = "-- rowlock: engine postgres\n-- rowlock: transaction a\nupdate t set n = 1 where id = 1;\n";
    assert_eq!(code(good), Some(0));
    for (bad, words) in [
        ("update t set n = 1;\n", "does not say which server"),
        ("-- rowlock: engine oracle\n", "-:1: no engine is called `oracle`"),
        ("-- rowlock: engine postgres\nselect 1;\n", "-:2: a statement before any directive"),
        ("-- rowlock: engine postgres\n-- rowlock: transactoin a\n", "-:2: no directive is `transactoin a`"),
        ("-- rowlock: engine postgres\n-- rowlock: schema\ncreate table t (id int);\n", "it has no transaction"),
    ] {
        let output = run(&["check", "-"], bad.as_bytes());
        assert_eq!(output.status.code(), Some(2), "{bad}");
        assert!(text(&output).contains(words), "{bad}: {}", text(&output));
    }
    let output = run(&["check", "-"], format!("{good}begin;\nupdate t sat n;\ntruncate t;\ncommit;\n").as_bytes());
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("-:5: a statement of a (2): cannot read"), "{}", text(&output));
    assert!(text(&output).contains("-:6: a statement of a (2): it locks whole tables"), "{}", text(&output));
    assert_eq!(run(&["check", "/no/such/file"], b"").status.code(), Some(2));
    assert_eq!(run(&["check", "--schema", "/no/such/file", "-"], good.as_bytes()).status.code(), Some(2));
}
