//! What must not compile, and the message that the user sees: one error for a mistake, in plain words.
//!
//! Each file of `compile/` has its message beside it. After a change of the words, or of the compiler that they were
//! recorded with: `TRYBUILD=overwrite cargo test -p rowlock --test compile`, then read what changed.
//!
//! A message is rowlock's words in the compiler's frame, and the frame changes from version to version. So another
//! compiler than the one that they were recorded with is held to the words alone: the lines that begin with `error`.

#![allow(clippy::unwrap_used, reason = "the helpers of a test fail as the test does")]

use std::{env, fs, path::Path, process::Command};

/// The compiler whose frame the recorded messages have.
const RECORDED: &str = "rustc 1.95.";
/// Set for the run of this test that records messages elsewhere.
const ELSEWHERE: &str = "ROWLOCK_COMPILE_ELSEWHERE";

#[test]
fn mistakes_are_told_in_plain_words() {
    if let Some(folder) = env::var_os(ELSEWHERE) {
        return trybuild::TestCases::new().compile_fail(Path::new(&folder).join("*.rs"));
    }
    let compiler = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into())).arg("--version").output();
    let version = String::from_utf8(compiler.unwrap().stdout).unwrap();
    if version.starts_with(RECORDED) {
        return trybuild::TestCases::new().compile_fail("tests/compile/*.rs");
    }
    println!("{}: the words are compared, recorded with {RECORDED}x", version.trim());
    compare_words(Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile").as_path());
}

/// Records the messages of this compiler in `folder`, and compares their words with what is recorded.
fn compare_words(folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).unwrap();
    let cases = || fs::read_dir("tests/compile").unwrap().map(|entry| entry.unwrap().path());
    let sources = || cases().filter(|path| path.extension().is_some_and(|e| e == "rs"));
    for path in sources() {
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    let mut again = Command::new(env::current_exe().unwrap());
    let recorded = again.env(ELSEWHERE, folder).env("TRYBUILD", "overwrite").output().unwrap();
    assert!(recorded.status.success(), "{}", String::from_utf8_lossy(&recorded.stderr));
    let words = |path: &Path| -> Vec<String> {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        text.lines().filter(|line| line.starts_with("error")).map(str::to_owned).collect()
    };
    for path in sources().map(|path| path.with_extension("stderr")) {
        assert_eq!(words(&folder.join(path.file_name().unwrap())), words(&path), "{}", path.display());
    }
}
