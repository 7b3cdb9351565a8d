//! A report in one line, with `\n` for its line breaks: a JSON string, Python's repr, Rust's Debug, Elixir's inspect.

pub(super) fn unwrap(line: &str) -> Option<String> {
    let breaks =
        ["\\nProcess", "\\n\\tProcess", "\\nDETAIL", "\\n*** ", "\\nTRANSACTION", "\\nRECORD LOCKS", "\\n  Detail"];
    if !breaks.iter().any(|text| line.contains(text)) || line.contains("\"error_severity\"") {
        return None;
    }
    Some(
        line.replace("\\r\\n", "\n")
            .replace("\\n", "\n")
            .replace("\\t", "\t")
            .replace("\\\"", "\"")
            .replace("\\'", "'"),
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn breaks_become_lines() {
        let line = r"('deadlock detected\nDETAIL:  Process 1 waits\n\tProcess 2 waits\n',)";
        let text = super::unwrap(line).unwrap();
        assert_eq!(text.lines().count(), 4);
        assert_eq!(super::unwrap(r"select E'a\nb'"), None);
    }
}
