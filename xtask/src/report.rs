//! What ran: read from libtest's output line by line, told at the end by engine.
//!
//! ```text
//!      Running tests/faults.rs (target/debug/deps/faults-0123)      a test program begins
//! test a_lost_answer_is_done::pg18 ... ok                           the last word of the name is the engine, if it is one
//! left out: transfers::mysql on mysql: no mirror                    it "passed" without running: rowlock-testing says so
//! test result: ok. 13 passed; 0 failed; 0 ignored; ...              it ends
//! ```

use std::collections::BTreeMap;
use std::fmt;

use rowlock_testing::Engine;

/// The lines kept for a program that ends without a result: enough to see a compiler's error.
const KEPT: usize = 80;

/// Counts of tests, by engine.
#[derive(Debug, Default)]
pub(crate) struct Report {
    passed: usize,
    pub(crate) failed: usize,
    skipped: usize,
    versions: BTreeMap<Engine, String>,
    absent: BTreeMap<Engine, String>,
    counts: BTreeMap<Engine, Count>,
    remarks: Vec<String>,
    /// The tests that failed, each with its program.
    failures: Vec<String>,
    program: String,
    /// Inside a program's list of failures, which is passed on as it is.
    in_failures: bool,
    recent: Vec<String>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    passed: usize,
    failed: usize,
    left_out: usize,
}

impl Report {
    pub(crate) fn version(&mut self, engine: Engine, version: String) {
        self.versions.insert(engine, version);
    }

    pub(crate) fn left_out(&mut self, engine: Engine, reason: &str) {
        self.absent.insert(engine, reason.to_owned());
    }

    pub(crate) fn remark(&mut self, text: &str) {
        self.remarks.push(text.to_owned());
    }

    /// Adds another report's counts.
    pub(crate) fn merge(&mut self, other: Report) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.counts.extend(other.counts);
        self.failures.extend(other.failures);
    }

    /// The failed tests, as they are to be told at the very end, where whoever reads a long log looks first.
    pub(crate) fn failures(&self) -> &[String] {
        &self.failures
    }

    /// Takes a line of `cargo test`'s output; returns what a reader should see of it.
    pub(crate) fn line(&mut self, line: &str) -> Option<String> {
        self.recent.push(line.to_owned());
        if self.recent.len() > KEPT {
            self.recent.remove(0);
        }
        let trimmed = line.trim();
        if let Some(rest) = trimmed.strip_prefix("Running ").or_else(|| trimmed.strip_prefix("Doc-tests ")) {
            self.program = program(rest, trimmed.starts_with("Doc"));
        } else if let Some(result) = trimmed.strip_prefix("test result: ") {
            self.in_failures = false;
            return self.result(result);
        } else if let Some(rest) = line.strip_prefix("left out: ") {
            if let Some(engine) = rest.split(" on ").nth(1).and_then(|rest| Engine::named(rest.split(':').next()?)) {
                self.counts.entry(engine).or_default().left_out += 1;
            }
        } else if let Some((name, outcome)) = line.strip_prefix("test ").and_then(|rest| rest.rsplit_once(" ... ")) {
            self.test(name, outcome);
        } else if line.starts_with("test ") && line.ends_with(" seconds") {
            // `test NAME has been running for over 60 seconds`: of a run that is ended from outside, the last that is known.
            return Some(format!("    {}: {line}", self.program));
        } else if trimmed == "failures:" || self.in_failures || trimmed.starts_with("warning: unused") {
            self.in_failures |= trimmed == "failures:";
            return Some(line.to_owned());
        }
        None
    }

    fn test(&mut self, name: &str, outcome: &str) {
        if outcome.starts_with("FAILED") {
            self.failures.push(format!("{}: {name}", self.program));
        }
        let Some(engine) = name.rsplit("::").next().and_then(Engine::named) else { return };
        let count = self.counts.entry(engine).or_default();
        match outcome.split(' ').next() {
            Some("ok") => count.passed += 1,
            Some("FAILED") => count.failed += 1,
            _ => {}
        }
    }

    fn result(&mut self, result: &str) -> Option<String> {
        let number = |what: &str| {
            let words: Vec<&str> = result.split([' ', ';']).filter(|word| !word.is_empty()).collect();
            words.windows(2).find(|pair| pair[1] == what).and_then(|pair| pair[0].parse::<usize>().ok()).unwrap_or(0)
        };
        let (passed, failed, ignored) = (number("passed"), number("failed"), number("ignored"));
        self.passed += passed;
        self.failed += failed;
        self.skipped += ignored;
        self.recent.clear();
        let program = std::mem::take(&mut self.program);
        if passed + failed + ignored == 0 {
            return None;
        }
        let time = result.rsplit("finished in ").next().unwrap_or_default();
        let failed = if failed > 0 { format!(", {failed} FAILED") } else { String::new() };
        Some(format!("    {program:<44} {passed:>4} passed{failed}, {time}"))
    }

    /// What was said since the last result: why a program ended without one.
    pub(crate) fn unfinished(&self) -> String {
        self.recent.join("\n")
    }

    /// The closing line that people and CI read.
    pub(crate) fn totals(&self) -> String {
        let left_out: usize = self.counts.values().map(|count| count.left_out).sum();
        let skipped = self.skipped + left_out;
        let skipped = if skipped > 0 { format!(", {skipped} skipped") } else { String::new() };
        format!("{} passed, {} failed{skipped}", self.passed.saturating_sub(left_out), self.failed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut on_engines = 0;
        for engine in Engine::ALL {
            let count = self.counts.get(&engine).copied().unwrap_or_default();
            on_engines += count.passed;
            let title = engine.title();
            match (self.absent.get(&engine), self.versions.get(&engine)) {
                (Some(reason), _) => writeln!(f, "{title:<14} left out: {reason}")?,
                (None, Some(version)) => {
                    let ran = count.passed.saturating_sub(count.left_out);
                    let failed = if count.failed > 0 { format!(", {} FAILED", count.failed) } else { String::new() };
                    writeln!(f, "{title:<14} {ran:>4} passed{failed}  ({version})")?;
                }
                (None, None) => writeln!(f, "{title:<14} did not start")?,
            }
        }
        writeln!(f, "{:<14} {:>4} passed", "on no engine", self.passed.saturating_sub(on_engines))?;
        self.remarks.iter().try_for_each(|remark| writeln!(f, "{remark}"))
    }
}

/// `unittests src/lib.rs (target/debug/deps/rowlock-0123)` is `rowlock unit tests`.
fn program(rest: &str, doc: bool) -> String {
    if doc {
        return format!("{rest} doc tests");
    }
    let Some((what, path)) = rest.split_once(" (") else { return rest.to_owned() };
    let file = path.trim_end_matches(')').rsplit('/').next().unwrap_or_default();
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    if what.starts_with("unittests") { format!("{name} unit tests") } else { what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(output: &str) -> (Report, Vec<String>) {
        let mut report = Report::default();
        let shown = output.lines().filter_map(|line| report.line(line)).collect();
        (report, shown)
    }

    #[test]
    fn tests_are_counted_by_engine() {
        let (report, shown) = read(
            "     Running tests/faults.rs (target/debug/deps/faults-0123)\n\
             \n\
             running 4 tests\n\
             test lost::pg18 ... ok\n\
             left out: lost::mysql on mysql: no mirror: none\n\
             test lost::mysql ... ok\n\
             test plain ... ok\n\
             test lost::pg15 ... FAILED\n\
             \n\
             failures:\n\
             \n\
             ---- lost::pg15 stdout ----\n\
             boom\n\
             \n\
             test result: FAILED. 3 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s\n",
        );
        assert_eq!(report.totals(), "2 passed, 1 failed, 1 skipped");
        assert_eq!(report.failures(), ["tests/faults.rs: lost::pg15"]);
        assert_eq!(report.counts[&Engine::Pg15].failed, 1);
        assert_eq!(report.counts[&Engine::MySql].left_out, 1);
        assert!(shown.contains(&"boom".to_owned()), "{shown:?}");
        assert!(shown.last().is_some_and(|line| line.contains("tests/faults.rs") && line.contains("1 FAILED")));
    }

    #[test]
    fn a_slow_test_is_told() {
        let (report, shown) = read(
            "     Running tests/faults.rs (target/debug/deps/faults-0123)\n\
             test lost::pg18 has been running for over 60 seconds\n\
             test lost::pg18 ... ok\n",
        );
        assert_eq!(shown, ["    tests/faults.rs: test lost::pg18 has been running for over 60 seconds"]);
        assert!(report.failures().is_empty());
    }

    #[test]
    fn a_compile_error_is_told() {
        let (report, shown) = read("   Compiling rowlock\nerror[E0308]: mismatched types\n");
        assert!(shown.is_empty());
        assert!(report.unfinished().contains("E0308"));
    }

    #[test]
    fn programs_have_names() {
        assert_eq!(program("unittests src/lib.rs (target/debug/deps/shop-01ab)", false), "shop unit tests");
        assert_eq!(program("tests/guard.rs (target/debug/deps/guard-01ab)", false), "tests/guard.rs");
        assert_eq!(program("rowlock", true), "rowlock doc tests");
    }
}
