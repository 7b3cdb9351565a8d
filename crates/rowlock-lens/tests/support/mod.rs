//! Reading a text as the command does.

use rowlock_lens::{Finding, Reading, Redactor, Window, explain, markers, read};

/// All that is found in a text: findings, and why something could not be read.
pub(crate) fn all(text: &str) -> Vec<Result<Finding, String>> {
    let (bytes, mut at, mut found) = (text.as_bytes(), 0, Vec::new());
    while let Some(hit) = bytes.get(at..).and_then(|rest| markers(rest).next()) {
        let hit_at = at + hit.at;
        let range = match read(&Window { bytes, hit: hit_at, ends: true }, hit.marker) {
            Reading::Nothing | Reading::Cut => hit_at..hit_at,
            Reading::Report { report, bytes } => {
                found.push(Ok(explain(&report, &mut Redactor::new(true))));
                bytes
            }
            Reading::Unreadable { reason, bytes } => {
                found.push(Err(reason));
                bytes
            }
        };
        at = range.end.saturating_sub(1).max(hit_at + hit.marker.len());
    }
    found
}

/// The one finding in a text.
#[allow(dead_code, reason = "each test program uses what it needs")]
pub(crate) fn one(text: &str) -> Finding {
    let mut found = all(text);
    assert_eq!(found.len(), 1, "{text}\n{found:#?}");
    found.remove(0).unwrap_or_else(|reason| panic!("{reason}: {text}"))
}
