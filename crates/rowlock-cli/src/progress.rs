//! A bar for long inputs, on standard error, when a person is there to see it.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

/// Shorter inputs are done before a bar is drawn.
const LONG: u64 = 256 << 20;

pub(crate) fn bar(name: &str, bytes: u64) -> ProgressBar {
    if bytes < LONG || !stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{msg} {bar:30} {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left");
    let bar = ProgressBar::new(bytes).with_message(name.to_owned());
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}
