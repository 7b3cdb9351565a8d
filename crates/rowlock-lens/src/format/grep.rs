//! What `grep -C` puts before each line: `pg.log-` or `pg.log:`, and with `-n` a number.

pub(super) fn unwrap(line: &str) -> Option<String> {
    let name_end = line.find(['-', ':'])?;
    let file_end = [".log", ".csv", ".txt", ".err", ".out", ".json"].iter().find_map(|suffix| {
        let at = line.get(..200.min(line.len()))?.find(suffix)? + suffix.len();
        line.get(at..)?.starts_with(['-', ':']).then_some(at)
    });
    let rest = match file_end {
        Some(end) => line.get(end + 1..)?,
        // `123:` and `123-` of grep -n. A time or a year has two digits or a second part that is a number.
        None if line.get(..name_end)?.len() > 4 => line,
        None => return None,
    };
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let numbered = digits > 0 && rest.get(digits..)?.starts_with(['-', ':']) && file_end.is_some();
    let numbered = numbered && !is_date(rest);
    match (file_end, numbered) {
        (_, true) => Some(rest.get(digits + 1..)?.to_owned()),
        (Some(_), false) => Some(rest.to_owned()),
        (None, false) => None,
    }
}

fn is_date(text: &str) -> bool {
    let bytes = text.as_bytes();
    matches!(bytes, [_, _, _, _, b'-', a, b, b'-', ..] if a.is_ascii_digit() && b.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::unwrap;

    #[test]
    fn file_and_number_go() {
        assert_eq!(unwrap("pg.log:2026-11-30 22:00 ERROR:  x").as_deref(), Some("2026-11-30 22:00 ERROR:  x"));
        assert_eq!(unwrap("logs/pg.log-17-\tProcess 1: y").as_deref(), Some("\tProcess 1: y"));
        assert_eq!(unwrap("2026-11-30 22:00:01 ERROR:  x"), None);
    }
}
