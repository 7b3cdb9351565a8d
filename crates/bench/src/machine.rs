//! What the figures were measured on.

use std::fs;
use std::process::Command;

/// The processor, the memory and the system, in one line.
pub(crate) fn describe() -> String {
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let model = field("/proc/cpuinfo", "model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let memory = field("/proc/meminfo", "MemTotal")
        .and_then(|total| total.split(' ').next()?.parse::<u64>().ok())
        .map_or_else(|| "unknown memory".to_owned(), |kib| format!("{:.0} GiB", kib as f64 / (1 << 20) as f64));
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{model}, {cores} cores, {memory}, Linux {}", kernel.trim())
}

/// How many processes wanted to run in the last minute: more than the bench's own say that it did not run alone.
pub(crate) fn load() -> String {
    fs::read_to_string("/proc/loadavg").ok().and_then(|l| l.split(' ').next().map(str::to_owned)).unwrap_or_default()
}

/// Today, in UTC.
pub(crate) fn date() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).trim().to_owned()).unwrap_or_default()
}

fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}
