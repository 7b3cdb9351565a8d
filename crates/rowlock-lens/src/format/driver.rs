//! A driver's or ORM's error that names a deadlock and nothing more: `Deadlock found when trying to get lock`, 1213,
//! `deadlock detected`, 40P01. The server's log has the rest.

use super::{Block, Content};
use crate::postgres::Record;
use crate::window::Lines;

/// Of which one stands in every driver's error.
const WORDS: [&str; 6] = ["ERROR", "Error", "error", "40P01", "Exception", "FATAL"];

pub(super) fn read(lines: &Lines<'_>) -> Option<Block> {
    let hit = lines.hit_text();
    let error = |words: &[&str]| words.iter().any(|word| hit.contains(word));
    let statement = (0..6).filter_map(|n| lines.text(lines.hit + n)).find_map(statement);
    let text = match lines.marker {
        "Deadlock found when trying to get lock" | "ER_LOCK_DEADLOCK" => Content::InnoDbError { statement },
        "deadlock detected" | "40P01"
            if error(&WORDS) && error(&["eadlock detected", "deadlock_detected", "DeadlockDetected"]) =>
        {
            Content::Postgres(Record { message: "deadlock detected".to_owned(), statement, ..Record::default() })
        }
        _ => return None,
    };
    Some(Block { text, lines: lines.hit..lines.hit + 1, cut: false })
}

/// The statement, as drivers put it beside their error: `[SQL: ..]`, `[for Statement ".."]`, `sql: '..'`.
fn statement(line: &str) -> Option<String> {
    let ends = [
        ("[SQL: ", "]"),
        ("[for Statement \"", "\""),
        ("sql: '", "',"),
        ("sql: \"", "\","),
        ("Query: ", "\n"),
        ("SQL: ", ")"),
    ];
    ends.iter().find_map(|(start, end)| {
        let (_, rest) = line.split_once(start)?;
        let sql = rest.rsplit_once(end).map_or(rest, |(sql, _)| sql);
        Some(sql.trim().to_owned()).filter(|sql| !sql.is_empty())
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn statements_beside_errors() {
        let read = |line| super::statement(line).unwrap_or_default();
        assert_eq!(read("[SQL: UPDATE t SET a = %s]"), "UPDATE t SET a = %s");
        assert_eq!(read("DBD::Pg::st execute failed [for Statement \"UPDATE t\" with ParamValues: 1=2]"), "UPDATE t");
        assert_eq!(read("nothing"), "");
    }
}
