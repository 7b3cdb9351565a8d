//! The folders that servers stand in: opened to the servers' user, stopped and removed as a whole, swept when a run died.

use std::fs::{self, File, TryLockError};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use super::process::Process;

/// Stops what runs below `dir`, and removes it.
pub(super) fn stop_all(dir: &Path) -> Result<()> {
    let homes: Vec<PathBuf> = match fs::read_dir(dir) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect(),
        Err(_) => return Ok(()),
    };
    std::thread::scope(|scope| {
        let stops: Vec<_> = homes.iter().map(|home| scope.spawn(move || stop_one(home))).collect();
        stops.into_iter().try_for_each(|stop| stop.join().unwrap_or_else(|_| bail!("a stop panicked")))
    })?;
    remove(dir)
}

pub(super) fn stop_one(home: &Path) -> Result<()> {
    if let Some(process) = Process::load(&home.join("pid")) {
        let signal = fs::read_to_string(home.join("signal")).unwrap_or_else(|_| "TERM".to_owned());
        process.stop(signal.trim()).with_context(|| format!("stop the server in {}", home.display()))?;
    }
    Ok(())
}

/// Stops and removes what test runs left that are dead: their lock is free.
pub(super) fn sweep(base: &Path) -> Result<()> {
    for entry in fs::read_dir(base)?.flatten() {
        if !entry.file_name().to_string_lossy().starts_with("test-") {
            continue;
        }
        let Ok(lock) = File::open(entry.path().join("lock")) else { continue };
        match lock.try_lock() {
            Ok(()) => stop_all(&entry.path())?,
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error).context("lock an earlier run's folder"),
        }
    }
    Ok(())
}

/// A folder that every user may enter.
pub(super) fn open_folder(dir: &Path) -> Result<()> {
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    // Another user's folder is left as it is; if the servers cannot enter it, they say so.
    let _ = fs::set_permissions(dir, fs::Permissions::from_mode(0o755));
    Ok(())
}

pub(super) fn remove(dir: &Path) -> Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// What a log says of a failure: its lines that tell of errors, wherever they stand (a program's farewell can be longer than
/// any tail), and its last lines.
pub(super) fn complaint(log: &Path) -> String {
    const ERRORS: usize = 20;
    const LAST: usize = 12;
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let (before, last) = lines.split_at(lines.len().saturating_sub(LAST));
    let tells =
        |line: &&&str| ["[ERROR]", "ERROR:", "FATAL:", "PANIC:", "rror: "].iter().any(|word| line.contains(word));
    let errors: Vec<&str> = before.iter().filter(tells).copied().collect();
    let errors = &errors[errors.len().saturating_sub(ERRORS)..];
    let gap: &[&str] = if before.is_empty() { &[] } else { &[".."] };
    [errors, gap, last].concat().join("\n")
}

/// Copies the logs of a server that did not come up to `kept`, since its folder is removed.
pub(super) fn keep_logs(home: &Path, kept: &Path) -> Result<()> {
    remove(kept)?;
    fs::create_dir_all(kept)?;
    for entry in fs::read_dir(home)?.flatten() {
        if entry.file_name().to_string_lossy().ends_with("log") && entry.path().is_file() {
            fs::copy(entry.path(), kept.join(entry.file_name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_is_told_before_a_long_farewell() {
        let dir = tempfile::tempdir().expect("a folder");
        let log = dir.path().join("init.log");
        let farewell: String = (0..30).map(|n| format!("for help, see page {n}\n")).collect();
        fs::write(&log, format!("starting\n12:00:01 0 [ERROR] InnoDB: no space\n{farewell}")).expect("a log");
        let told = complaint(&log);
        assert!(told.starts_with("12:00:01 0 [ERROR] InnoDB: no space\n..\n"), "{told}");
        assert!(told.ends_with("page 29") && !told.contains("starting"), "{told}");
        fs::write(&log, "one line").expect("a log");
        assert_eq!(complaint(&log), "one line");
        assert_eq!(complaint(&dir.path().join("none")), "");
        let kept = dir.path().join("failed/mariadb");
        keep_logs(dir.path(), &kept).expect("logs are kept");
        assert_eq!(fs::read_to_string(kept.join("init.log")).expect("it is there"), "one line");
    }
}
