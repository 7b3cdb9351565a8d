//! One step of the tests: a line while it goes well, everything that matters when it does not.

use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::command::words;
use crate::report::Report;

/// Runs a check and prints one line; its output comes with the error.
pub(crate) async fn quiet(name: &str, command: &mut Command) -> Result<()> {
    let since = Instant::now();
    print!("{name}: ");
    std::io::stdout().flush()?;
    let words = words(command.as_std());
    let output = command.stdin(Stdio::null()).output().await.with_context(|| format!("run `{words}`"))?;
    let seconds = since.elapsed().as_secs_f64();
    if output.status.success() {
        println!("ok, {seconds:.1} s");
        return Ok(());
    }
    println!("failed, {seconds:.1} s");
    let text = [output.stdout, output.stderr].concat();
    bail!("{name} failed: `{words}`\n{}", String::from_utf8_lossy(&text).trim_end())
}

/// Runs `cargo test`, prints one line for each test program, and counts what ran into the report.
pub(crate) async fn tests(command: &mut Command, report: &mut Report) -> Result<()> {
    println!("tests:");
    let (reader, writer) = std::io::pipe()?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    let words = words(command.as_std());
    let mut child = command.spawn().with_context(|| format!("run `{words}`"))?;
    let group = Group(child.id());
    // The command holds the pipe's writing end too; the reader would wait for it for ever.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let reading = tokio::task::spawn_blocking(move || {
        let mut counted = Report::default();
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            if let Some(news) = counted.line(&String::from_utf8_lossy(&line)) {
                println!("{news}");
            }
        }
        counted
    });
    let status = child.wait().await?;
    group.ended();
    let counted = reading.await.context("read the tests' output")?;
    let (failed, unfinished) = (counted.failed, counted.unfinished());
    report.merge(counted);
    match (status.success(), failed) {
        (true, 0) => Ok(()),
        (_, 0) => bail!("`{words}`: {status}\n{unfinished}"),
        (_, 1) => bail!("1 test failed"),
        (_, failed) => bail!("{failed} tests failed"),
    }
}

/// The process group of `cargo test`. When the run is interrupted the test programs must end with cargo: they would go
/// on, and fail one after the other on servers that are gone.
struct Group(Option<u32>);

impl Group {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(id) = self.0 {
            let script = r#"kill -s TERM -- "-$1" 2>/dev/null || :"#;
            let _ = std::process::Command::new("sh").args(["-c", script, "sh", &id.to_string()]).status();
        }
    }
}
