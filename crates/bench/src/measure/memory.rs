//! Whether memory grows with the number of transactions: what the program `allocations`, built beside this one, says.

use anyhow::{Context, Result, bail};
use tokio::process::Command;

use crate::row::{Row, Target};

pub(crate) async fn run() -> Result<Vec<Row>> {
    let program = std::env::current_exe()?.with_file_name("allocations");
    let output = Command::new(&program)
        .output()
        .await
        .with_context(|| format!("run {}: `cargo build --release --package bench` builds it", program.display()))?;
    if !output.status.success() {
        bail!("{}: {}\n{}", program.display(), output.status, String::from_utf8_lossy(&output.stderr));
    }
    let text = String::from_utf8(output.stdout)?;
    let readings: Vec<Vec<f64>> =
        text.lines().map(|line| line.split(' ').map(str::parse).collect()).collect::<Result<_, _>>()?;
    let [early, late] = &readings[..] else { bail!("{} said: {text}", program.display()) };
    let ([_, count, bytes, live], [_, late_count, late_bytes, late_live]) = (&early[..], &late[..]) else {
        bail!("{} said: {text}", program.display())
    };
    let row = |what: &str, early: f64, late: f64, grace: f64| Row {
        place: "SQLite, in memory".to_owned(),
        what: what.to_owned(),
        ours: format!("{late}"),
        theirs: format!("{early}"),
        ratio: None,
        target: Some(Target { text: "no more than early".to_owned(), met: late <= early + grace }),
    };
    Ok(vec![
        // The runtime's own queues make a fraction of an allocation's difference.
        row("allocations a transaction", *count, *late_count, 0.5),
        row("bytes allocated a transaction", *bytes, *late_bytes, 64.0),
        row("bytes in use", *live, *late_live, 4096.0),
    ])
}
