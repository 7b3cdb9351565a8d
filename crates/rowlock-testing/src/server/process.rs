//! A server's process: started as a user who is not root, known by pid and start time, and ended only when both still fit.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Who runs the servers. PostgreSQL refuses root, and mysqld run by root leaves files that break its next start.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Account {
    /// We are root: run the servers as `nobody`.
    Nobody { uid: u32, gid: u32 },
    /// We are an ordinary user: run them as ourselves.
    Ourselves,
}

impl Account {
    pub(crate) fn of_this_process() -> Result<Account> {
        if our_uid()? != 0 {
            return Ok(Account::Ourselves);
        }
        let passwd = fs::read_to_string("/etc/passwd").context("read /etc/passwd for the user nobody")?;
        let fields = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
        for field in fields {
            if let ["nobody", _, uid, gid, ..] = field[..] {
                return Ok(Account::Nobody { uid: uid.parse()?, gid: gid.parse()? });
            }
        }
        bail!("there is no user nobody in /etc/passwd; run as an ordinary user instead of root")
    }

    /// A command that will run under this account, with a clean environment.
    pub(crate) fn command(self, program: &Path) -> Command {
        let mut command = match self {
            Account::Ourselves => Command::new(program),
            Account::Nobody { uid, gid } => {
                let mut command = Command::new("setpriv");
                command.arg(format!("--reuid={uid}")).arg(format!("--regid={gid}"));
                // setpriv replaces itself with the program, so the child's pid is the server's own.
                command.args(["--clear-groups", "--no-new-privs", "--"]).arg(program);
                command
            }
        };
        let path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/sbin:/usr/bin:/sbin:/bin".into());
        command.env_clear().env("PATH", path).env("HOME", "/nonexistent").env("LC_ALL", "C.UTF-8");
        command.current_dir("/").stdin(Stdio::null());
        command
    }

    /// Hands a folder or file over to this account.
    pub(crate) fn own(self, path: &Path) -> Result<()> {
        if let Account::Nobody { uid, gid } = self {
            chown(path, Some(uid), Some(gid)).with_context(|| format!("give {} to nobody", path.display()))?;
        }
        Ok(())
    }
}

/// The user id of this process.
pub(crate) fn our_uid() -> Result<u32> {
    Ok(fs::metadata("/proc/self").context("read /proc/self (the test servers need Linux)")?.uid())
}

/// A process, told from a later one that was given the same pid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Process {
    pid: u32,
    /// In clock ticks since boot (proc(5), stat, field 22).
    started: u64,
}

impl Process {
    /// Starts a server that outlives us and is spared the terminal's Ctrl-C; its output goes to `log`.
    pub(crate) fn spawn(mut command: Command, log: &Path) -> Result<Process> {
        let out = File::create(log).with_context(|| format!("create {}", log.display()))?;
        command.stdout(out.try_clone()?).stderr(out).process_group(0);
        let program = command.get_program().to_owned();
        let mut child = command.spawn().with_context(|| format!("start {}", program.display()))?;
        let started = running_since(child.id()).with_context(|| format!("{} ended at once", program.display()))?;
        let process = Process { pid: child.id(), started };
        // Somebody must take note of its end: until then it is a zombie, and mysqld takes a zombie's files for locked.
        std::thread::Builder::new().name("server-reaper".to_owned()).spawn(move || child.wait())?;
        Ok(process)
    }

    pub(crate) fn pid(self) -> u32 {
        self.pid
    }

    pub(crate) fn load(file: &Path) -> Option<Process> {
        let text = fs::read_to_string(file).ok()?;
        let (pid, started) = text.trim().split_once(' ')?;
        Some(Process { pid: pid.parse().ok()?, started: started.parse().ok()? })
    }

    pub(crate) fn save(self, file: &Path) -> Result<()> {
        fs::write(file, format!("{} {}\n", self.pid, self.started)).with_context(|| format!("write {}", file.display()))
    }

    pub(crate) fn alive(self) -> bool {
        running_since(self.pid) == Some(self.started)
    }

    /// Ends it: politely, and by force after twenty seconds.
    pub(crate) fn stop(self, signal: &str) -> Result<()> {
        for (signal, patience) in [(signal, Duration::from_secs(20)), ("KILL", Duration::from_secs(10))] {
            if !self.alive() {
                return Ok(());
            }
            self.signal(signal)?;
            let since = Instant::now();
            while self.alive() && since.elapsed() < patience {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        if self.alive() { bail!("process {} does not end, even by SIGKILL", self.pid) } else { Ok(()) }
    }

    /// The shell's own `kill`: a signal without unsafe code, and without the procps package.
    fn signal(self, signal: &str) -> Result<()> {
        let script = r#"kill -s "$1" "$2" 2>/dev/null || :"#;
        Command::new("sh").args(["-c", script, "sh", signal, &self.pid.to_string()]).status().context("run sh")?;
        Ok(())
    }
}

/// When the process started, unless it is gone or only a zombie.
fn running_since(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command's name, in parentheses, may contain anything: what follows the last one is regular.
    let rest = stat.get(stat.rfind(')')? + 1..)?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") { None } else { fields.nth(18)?.parse().ok() }
}
