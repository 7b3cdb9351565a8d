//! Running other programs: quiet while they succeed, with all that they said when they fail.

use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// A command, from words.
pub(crate) fn command(program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// Runs to the end and returns what it printed; a failure shows the last lines of both outputs.
pub(crate) fn quietly(command: &mut Command) -> Result<String> {
    let words = words(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("run `{words}`"))?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if !output.status.success() {
        let all = format!("{out}{}", String::from_utf8_lossy(&output.stderr));
        let lines: Vec<&str> = all.lines().collect();
        bail!("`{words}`: {}\n{}", output.status, lines[lines.len().saturating_sub(20)..].join("\n"));
    }
    Ok(out)
}

/// The command as one would type it; a long one is cut short.
pub(crate) fn words(command: &Command) -> String {
    const SHOWN: usize = 8;
    let mut words = std::iter::once(command.get_program()).chain(command.get_args()).map(|word| word.to_string_lossy());
    let shown = words.by_ref().take(SHOWN).collect::<Vec<_>>().join(" ");
    if words.next().is_some() { format!("{shown} ...") } else { shown }
}
