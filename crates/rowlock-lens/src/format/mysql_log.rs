//! The prefix of MySQL's and MariaDB's error logs: `2026-11-30T22:00:30.1Z 0 [Note] [MY-012469] [InnoDB] ..`,
//! `2026-11-30 22:00:30 10 [Note] InnoDB: ..`. Only headings have it.

use std::sync::LazyLock;

use regex::Regex;

static HEAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"^(\d{4}-?\d\d-?\d\d[ T]+\d{1,2}:\S+) (?:\S+ )?\[\w+\] (?:\[MY-\d+\] )?(?:\[InnoDB\]|InnoDB:) *").ok()
});

pub(super) fn unwrap(line: &str) -> Option<String> {
    let found = HEAD.as_ref()?.captures(line)?;
    let rest = line.get(found.get(0)?.end()..)?;
    // The first line of a report keeps its time.
    let first = rest.contains("deadlock detected");
    Some(if first { format!("{} {rest}", found.get(1)?.as_str()) } else { rest.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::unwrap;

    #[test]
    fn headings_are_bared() {
        assert_eq!(
            unwrap("2026-11-30 22:00:30 10 [Note] InnoDB: *** (1) TRANSACTION:").as_deref(),
            Some("*** (1) TRANSACTION:")
        );
        let line = "2026-11-30T22:00:30.179605Z 0 [Note] [MY-012469] [InnoDB]  *** (1) TRANSACTION: ";
        assert_eq!(unwrap(line).as_deref(), Some("*** (1) TRANSACTION: "));
        assert_eq!(unwrap("TRANSACTION 36, ACTIVE 0 sec"), None);
    }
}
