//! The log files of Kubernetes nodes (CRI): `2026-11-30T22:00:01.257Z stderr F ..`.

pub(super) fn unwrap(line: &str) -> Option<String> {
    let (time, rest) = line.split_once(' ')?;
    if !time.contains('T') || !time.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rest = rest.strip_prefix("stderr ").or_else(|| rest.strip_prefix("stdout "))?;
    Some(rest.strip_prefix("F ").or_else(|| rest.strip_prefix("P "))?.to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_line_is_what_follows_the_tag() {
        let line = "2026-11-30T22:00:01.257000001Z stderr F \tProcess 1: x";
        assert_eq!(super::unwrap(line).as_deref(), Some("\tProcess 1: x"));
        assert_eq!(super::unwrap("2026-11-30 22:00:01 stderr"), None);
    }
}
