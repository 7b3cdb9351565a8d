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

/// Without headings (MySQL with `log_error_verbosity` below 3): transactions, until their cycle closes.
fn headless(lines: &Lines<'_>) -> Option<Block> {
    let start = lines.hit;
    let mut end = start + 1;
    let mut parties = 1;
    while let Some(line) = lines.text(end).filter(|_| end - start < MOST_LINES) {
        let head = innodb::is_head(line);
        if (head && parties >= 2 && innodb::closes(&join(lines, start, end)))
            || (head && parties >= MOST_PARTIES)
            || time(line).is_some()
            || line.starts_with("---")
        {
            let text = join(lines, start, end);
            return (parties > 1).then_some(Block {
                text: Content::InnoDb { text, time: None },
                lines: start..end,
                cut: false,
            });
        }
        parties += usize::from(head);
        end += 1;
    }
    let text = join(lines, start, end);
    let cut = !lines.ends;
    (parties > 1 || cut).then_some(Block { text: Content::InnoDb { text, time: None }, lines: start..end, cut })
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
