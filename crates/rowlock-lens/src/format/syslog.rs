//! syslog: `Nov 30 22:00:01 host postgres[123]: [5-1] ..`, in RFC 5424 too. A record is cut into `[5-1]`, `[5-2]`, ..;
//! a tab is `#011`.

use std::sync::LazyLock;

use regex::Regex;

static HEAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(?:<\d+>)?(?:\d )?(?P<time>[A-Z][a-z]{2} +\d{1,2} [\d:]{8}|\d{4}-\d\d-\d\dT\S+) (?:\S+ )?(?:[\w./-]+)(?:\[\d+\]:| \d+ \S+ \S+) (?:\[\d+-\d+\] ?)?").ok()
});

pub(super) fn unwrap(line: &str) -> Option<String> {
    let found = HEAD.as_ref()?.captures(line)?;
    let (head, time) = (found.get(0)?, found.name("time")?.as_str());
    let rest = line.get(head.end()..)?.replace("#011", "\t");
    // The time stays with what begins a record: it may be the only one.
    let begins = rest.contains(":  ") && !rest.starts_with('\t');
    let timed = rest.starts_with(|c: char| c.is_ascii_digit());
    Some(if begins && !timed { format!("{time} {rest}") } else { rest })
}

#[cfg(test)]
mod tests {
    use super::unwrap;

    #[test]
    fn records_and_their_continuations() {
        let line = "Nov 30 22:00:01 db1 postgres[123]: [5-1] ERROR:  deadlock detected";
        assert_eq!(unwrap(line).as_deref(), Some("Nov 30 22:00:01 ERROR:  deadlock detected"));
        let line = "Nov 30 22:00:01 db1 postgres[123]: [6-2] #011Process 1: x";
        assert_eq!(unwrap(line).as_deref(), Some("\tProcess 1: x"));
        let line = "2026-11-30T22:00:01.1+00:00 db1 postgres[123]: [6-1] 2026-11-30 22:00:01 UTC ERROR:  x";
        assert_eq!(unwrap(line).as_deref(), Some("2026-11-30 22:00:01 UTC ERROR:  x"));
        assert_eq!(unwrap("2026-11-30 22:00:01.257 UTC [123] ERROR:  x"), None);
    }
}
