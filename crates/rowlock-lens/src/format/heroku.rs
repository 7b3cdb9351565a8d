//! Heroku's logplex: `2026-11-30T22:00:01+00:00 app[postgres.123]: [DATABASE] [15-4]  sql_error_code = 40P01 ERROR: ..`.

pub(super) fn unwrap(line: &str) -> Option<String> {
    let head = line.get(..line.len().min(160)).unwrap_or(line);
    if !head.contains("postgres.") {
        return None;
    }
    let code = line.find("sql_error_code = ")?;
    Some(line.get(code + "sql_error_code = ".len()..)?.split_once(' ')?.1.to_owned())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_record_is_what_follows_the_code() {
        let line = "2026-11-30T22:00:01+00:00 app[postgres.76]: [RED] [15-4]  sql_error_code = 40P01 ERROR:  deadlock detected";
        assert_eq!(super::unwrap(line).as_deref(), Some("ERROR:  deadlock detected"));
        assert_eq!(super::unwrap("ERROR:  deadlock detected"), None);
    }
}
