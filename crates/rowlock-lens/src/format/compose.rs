//! Container prefixes in plain text: `db-1  | ..` of docker compose, `[pod/db-0/postgres] ..` of kubectl --prefix.

pub(super) fn unwrap(line: &str) -> Option<String> {
    if let Some(rest) = line.strip_prefix("[pod/") {
        return Some(rest.split_once("] ")?.1.to_owned());
    }
    let (name, rest) = line.split_once('|')?;
    let name = name.strip_suffix(' ')?.trim_end();
    let plain = !name.is_empty() && name.len() < 80 && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c));
    plain.then(|| rest.strip_prefix(' ').unwrap_or(rest).to_owned())
}

#[cfg(test)]
mod tests {
    use super::unwrap;

    #[test]
    fn prefixes_go_and_other_bars_stay() {
        assert_eq!(unwrap("db-1  | ERROR:  x").as_deref(), Some("ERROR:  x"));
        assert_eq!(unwrap("postgres_1 | \tProcess 1 | 2").as_deref(), Some("\tProcess 1 | 2"));
        assert_eq!(unwrap("[pod/db-0/postgres] LOG:  y").as_deref(), Some("LOG:  y"));
        assert_eq!(unwrap("ERROR:  a || b"), None);
    }
}
