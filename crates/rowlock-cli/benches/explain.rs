//! How fast `rowlock explain` goes through a long log, against `grep -c` on the same file, and what memory it takes.
//!
//! ```console
//! $ cargo bench -p rowlock-cli --bench explain -- --megabytes 2048
//! ```
//!
//! The log is made here, in the temporary folder, and removed at the end: PostgreSQL's stderr format with statements and
//! durations, and a deadlock every 3,000 lines. Both programs run in turn, five times; the file is in the page cache. Without
//! an argument 256 MB are made. `--gzip` and `--zstd` go through the same log compressed, if the programs are there.

#![allow(clippy::print_stdout, missing_docs, reason = "what a measurement prints is what it is for")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Lines from one deadlock to the next.
const LINES: u64 = 3_000;
const RUNS: usize = 5;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().collect();
    let megabytes = arguments.iter().position(|word| word == "--megabytes");
    let megabytes: u64 = megabytes.and_then(|at| arguments.get(at + 1)?.parse().ok()).unwrap_or(256);
    let folder = tempfile::tempdir()?;
    let log = folder.path().join("pg.log");
    let deadlocks = write_log(&log, megabytes << 20)?;
    let bytes = std::fs::metadata(&log)?.len();
    println!("{bytes} bytes, {deadlocks} deadlocks");
    let (mut grep, mut explain) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        grep.push(time(Command::new("grep").args(["-c", "deadlock detected"]).arg(&log), Some(deadlocks))?);
        explain.push(time(Command::new(env!("CARGO_BIN_EXE_rowlock")).arg("explain").arg(&log), None)?);
    }
    let rate = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e6;
    let (grep, explain) = (median(grep), median(explain));
    println!("grep -c:         {:>8.0} MB/s", rate(grep));
    println!(
        "rowlock explain: {:>8.0} MB/s, {:.2} of grep -c",
        rate(explain),
        grep.as_secs_f64() / explain.as_secs_f64()
    );
    println!("rowlock explain: {} KB of memory at most", peak_memory(&log)?);
    for program in ["gzip", "zstd"] {
        if arguments.iter().any(|word| word.strip_prefix("--") == Some(program)) {
            let packed = folder.path().join(format!("pg.log.{program}"));
            Command::new(program).arg("-c").arg(&log).stdout(File::create(&packed)?).status().context(program)?;
            let time = time(Command::new(env!("CARGO_BIN_EXE_rowlock")).arg("explain").arg(&packed), None)?;
            println!("{program}:            {:>8.0} MB/s of the uncompressed log", rate(time));
        }
    }
    Ok(())
}

/// Writes a log of at least that many bytes; returns the number of its deadlocks.
fn write_log(path: &Path, bytes: u64) -> Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut written, mut n, mut deadlocks) = (0, 0_u64, 0);
    while written < bytes {
        n += 1;
        let (minute, second, milli, pid) = (n / 60_000 % 60, n / 1_000 % 60, n % 1_000, 1_000 + n * 7 % 97);
        let time = format!("2026-11-30 22:{minute:02}:{second:02}.{milli:03} UTC");
        let head = format!("{time} [{pid}] shop@shop");
        let text = if n.is_multiple_of(LINES) {
            deadlocks += 1;
            let (a, b) = (pid, pid + 1);
            let (order, item) = (n % 5_000, n % 300);
            format!(
                "{head} ERROR:  deadlock detected\n\
                 {head} DETAIL:  Process {a} waits for ShareLock on transaction {n}; blocked by process {b}.\n\
                 \tProcess {b} waits for ShareLock on transaction {n}1; blocked by process {a}.\n\
                 \tProcess {a}: UPDATE orders SET status = 'paid' WHERE id = {order}\n\
                 \tProcess {b}: UPDATE inventories SET stock = stock - 1 WHERE id = {item}\n\
                 {head} HINT:  See server log for query details.\n\
                 {head} CONTEXT:  while updating tuple (0,{item}) in relation \"orders\"\n\
                 {head} STATEMENT:  UPDATE orders SET status = 'paid' WHERE id = {order}\n"
            )
        } else {
            match n % 3 {
                0 => format!(
                    "{head} LOG:  duration: 0.{milli:03} ms  statement: SELECT id, status, total FROM orders WHERE customer_id = {n} ORDER BY created_at DESC LIMIT 20\n"
                ),
                1 => format!(
                    "{head} LOG:  duration: 1.{milli:03} ms  execute S_1: UPDATE inventories SET stock = stock - $1, updated_at = now() WHERE id = $2\n{head} DETAIL:  parameters: $1 = '1', $2 = '{n}'\n"
                ),
                _ => format!("{head} LOG:  statement: COMMIT\n"),
            }
        };
        out.write_all(text.as_bytes())?;
        written += text.len() as u64;
    }
    out.flush()?;
    Ok(deadlocks)
}

fn time(command: &mut Command, count: Option<u64>) -> Result<Duration> {
    let since = Instant::now();
    let output = command.output()?;
    let took = since.elapsed();
    // 1 is what both say when there is something to say; grep says it when there is nothing.
    match (output.status.code(), count) {
        (Some(0), Some(count)) if output.stdout.trim_ascii() == count.to_string().as_bytes() => Ok(took),
        (Some(1), None) => Ok(took),
        (code, _) => bail!("{command:?}: {code:?}, {}", String::from_utf8_lossy(&output.stdout)),
    }
}

/// `VmHWM` of the process, as long as it can be read: the last look before its end.
fn peak_memory(log: &Path) -> Result<u64> {
    let mut child =
        Command::new(env!("CARGO_BIN_EXE_rowlock")).arg("explain").arg(log).stdout(Stdio::null()).spawn()?;
    let mut peak = 0;
    while child.try_wait()?.is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let line = status.lines().find(|line| line.starts_with("VmHWM"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        peak = kilobytes.unwrap_or(peak).max(peak);
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(peak)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default()
}
