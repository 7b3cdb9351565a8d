//! The head of a transaction: its number, thread, sizes, and the statement that it runs.

use std::sync::LazyLock;

use regex::Regex;

use crate::report::Weight;

static START: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"TRANSACTION\s+(?P<id>[0-9A-Fa-f]+(?:\s\d+)?),\s*(?:ACTIVE|not started|COMMITTED|PREPARED)").ok()
});
static SIZES: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r"(?:(?P<structs>\d+) lock struct\(s\))|(?:(?P<rows>\d+) row lock\(s\))|(?:undo log entries (?P<undo>\d+))",
    )
    .ok()
});
static THREAD: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?:(?:MySQL|MariaDB) thread id|thread id)\s+(?P<thread>\d+),[^\n]*?query id\s+\d+(?P<rest>[^\n]*)")
        .ok()
});
/// Where a statement begins in a copy on one line: after the state that the server puts before it.
static ONE_LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r"(?i)\s(?:updating(?: reference tables)?|update|executing|statistics|sending data|end|preparing|optimizing|init|updating)\s+(?P<sql>\S.*)$").ok()
});

/// Whether a line begins a transaction.
pub(crate) fn is_head(line: &str) -> bool {
    line.trim_start().starts_with("TRANSACTION ") && START.as_ref().is_some_and(|regex| regex.is_match(line))
}

/// What the head says.
#[derive(Debug, Default)]
pub(super) struct Head {
    pub(super) transaction: Option<String>,
    pub(super) thread: Option<u64>,
    pub(super) weight: Option<Weight>,
    pub(super) statement: Option<String>,
    pub(super) cut: bool,
    pub(super) origin: Option<String>,
}

impl Head {
    pub(super) fn read(text: &str) -> Head {
        let mut head = Head::default();
        let start = START.as_ref().and_then(|regex| regex.captures(text));
        head.transaction = start.and_then(|found| found.name("id").map(|id| id.as_str().to_owned()));
        let mut weight = Weight::default();
        for found in SIZES.iter().flat_map(|regex| regex.captures_iter(text)) {
            let number = |name| found.name(name).and_then(|number| number.as_str().parse::<u64>().ok());
            weight.lock_structs = number("structs").unwrap_or(weight.lock_structs);
            weight.row_locks = number("rows").unwrap_or(weight.row_locks);
            weight.undo = number("undo").unwrap_or(weight.undo);
        }
        head.weight = (weight != Weight::default()).then_some(weight);
        let Some(found) = THREAD.as_ref().and_then(|regex| regex.captures(text)) else { return head };
        head.thread = found.name("thread").and_then(|thread| thread.as_str().parse().ok());
        let rest = found.name("rest").map(|rest| rest.as_str()).unwrap_or_default();
        let after = found.get(0).and_then(|whole| text.get(whole.end()..)).unwrap_or_default().trim();
        let statement = if after.is_empty() {
            ONE_LINE
                .as_ref()
                .and_then(|regex| regex.captures(rest))
                .and_then(|found| found.name("sql"))
                .map_or("", |sql| sql.as_str())
        } else {
            head.origin =
                Some(rest.split_whitespace().take(3).collect::<Vec<_>>().join(" ")).filter(|text| !text.is_empty());
            after
        };
        let statement = statement.trim().trim_end_matches('*').trim_end();
        head.statement = Some(statement.to_owned()).filter(|text| !text.is_empty());
        // The thread's line and the statement go through one buffer of some 3,000 bytes.
        head.cut = statement.len() > 2_700 || statement.ends_with("...");
        head
    }
}

/// A transaction's number: hex from 5.5 to 5.6, decimal from 5.7 on, two halves before. Rows have it in hex.
pub(super) fn number(id: &str) -> Option<u64> {
    if let Some((high, low)) = id.split_once(char::is_whitespace) {
        return Some((high.parse::<u64>().ok()? << 32) | low.parse::<u64>().ok()?);
    }
    if id.bytes().all(|byte| byte.is_ascii_digit()) { id.parse().ok() } else { u64::from_str_radix(id, 16).ok() }
}
