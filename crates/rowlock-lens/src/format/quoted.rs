//! A quoted mail or forum post: `> ` before each line, any number of times; comment signs that an author put there.

pub(super) fn unwrap(line: &str) -> Option<String> {
    let rest = line.trim_start_matches([' ', '\t']);
    let inner = rest.strip_prefix('>')?;
    Some(inner.strip_prefix(' ').unwrap_or(inner).to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_level_goes_at_a_time() {
        assert_eq!(super::unwrap("> > ERROR:  x").as_deref(), Some("> ERROR:  x"));
        assert_eq!(super::unwrap(">\tProcess").as_deref(), Some("\tProcess"));
        assert_eq!(super::unwrap("ERROR: a > b"), None);
    }
}
