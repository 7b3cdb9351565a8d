//! InnoDB's own text, from `SHOW ENGINE INNODB STATUS` and from error logs (whose prefixes `mysql_log` has taken off).

use std::sync::LazyLock;

use regex::Regex;

use super::{Block, Content};
use crate::innodb;
use crate::window::Lines;

/// Most lines of a report: of transactions with many locks, MySQL 8 prints them all.
const MOST_LINES: usize = 200_000;

static TIME: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\s*(\d{6}\s+\d{1,2}:\d\d:\d\d|\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+Z?)?)").ok());
static FOREIGN: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d\S* .*\[\w+\]").ok());

pub(super) fn read(lines: &Lines<'_>) -> Option<Block> {
    let hit = lines.hit_text();
    let start = lines.hit;
    match lines.marker {
        "DETECTED DEADLOCK" if hit.contains("LATEST") => {}
        "TOO DEEP OR LONG SEARCH IN THE LOCK TABLE" | "(1) TRANSACTION:" => {}
        "deadlock detected" if hit.contains("Transactions deadlock detected") => {}
        "TRANSACTION " if innodb::is_head(hit) => return headless(lines),
        _ => return None,
    }
    let (mut end, mut cut) = (start + 1, true);
    while let Some(line) = lines.text(end).filter(|_| end - start < MOST_LINES) {
        if line.contains("WE ROLL BACK TRANSACTION") && !line.contains("TRANSACTION:") {
            (end, cut) = (end + 1, false);
            break;
        }
        let next = || lines.text(end + 1).unwrap_or_default();
        let over = (line.starts_with("----") && next().starts_with("TRANSACTIONS"))
            || line.starts_with("---TRANSACTION")
            || line.contains("END OF INNODB MONITOR OUTPUT")
            || (end > start + 3 && (line.contains("LATEST DETECTED DEADLOCK") || line.contains("deadlock detected")))
            || (end > start + 3 && FOREIGN.as_ref().is_some_and(|regex| regex.is_match(line)));
        if over {
            cut = false;
            break;
        }
        end += 1;
    }
    let cut = cut && !hit.contains("WE ROLL BACK");
    let text = join(lines, start, end);
    let time = (start..end.min(start + 4)).filter_map(|at| lines.text(at)).find_map(time);
    // The heading's own line, or what an earlier line said of the time.
    let time = time.or_else(|| lines.text(start.checked_sub(1)?).and_then(self::time));
    Some(Block { text: Content::InnoDb { text, time }, lines: start..end, cut: cut && !lines.ends })
}

/// Most transactions of a cycle without headings: when it has not closed by then, something was lost.
const MOST_PARTIES: usize = 12;

/// Without headings (MySQL with `log_error_verbosity` below 3): transactions, until their cycle closes. What stood before those
/// that close it is of a report whose cycle closed too early: when three share one row, two of them are a cycle already.
fn headless(lines: &Lines<'_>) -> Option<Block> {
    let start = lines.hit;
    let mut end = start + 1;
    let mut heads = vec![start];
    loop {
        let line = lines.text(end).filter(|_| end - start < MOST_LINES);
        let head = line.is_some_and(innodb::is_head);
        let over =
            line.is_none_or(|line| time(line).is_some() || line.starts_with("---")) || heads.len() >= MOST_PARTIES;
        if line.is_none() && !lines.ends {
            return Some(Block {
                text: Content::InnoDb { text: String::new(), time: None },
                lines: start..end,
                cut: true,
            });
        }
        if head || over {
            let closed = heads.iter().map(|head| join(lines, *head, end)).find(|text| innodb::closes(text));
            // The last ones lack what they wait for: it is told as what it is.
            let rest = || join(lines, start, end);
            if let Some(text) = closed.or_else(|| (over && heads.len() > 1).then(rest)) {
                return Some(Block { text: Content::InnoDb { text, time: None }, lines: start..end, cut: false });
            }
            if over {
                return None;
            }
            heads.push(end);
        }
        end += 1;
    }
}

fn join(lines: &Lines<'_>, start: usize, end: usize) -> String {
    let mut text = String::new();
    for line in lines.all.get(start..end.min(lines.all.len())).unwrap_or_default() {
        text.push_str(&line.text);
        text.push('\n');
    }
    text
}

fn time(line: &str) -> Option<String> {
    let found = TIME.as_ref()?.captures(line)?.get(1)?.as_str();
    Some(found.split_whitespace().collect::<Vec<_>>().join(" "))
}
