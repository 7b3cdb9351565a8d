//! A line of a log collector: a JSON object that has the server's line in one of its strings.
//! Docker (`log`), Cloud SQL (`textPayload`), Azure (`properties.message`), journald (`MESSAGE`), CloudWatch and Fluentd
//! (`message`, `@message`).

use serde_json::Value;

/// Where the line stands, by collector.
const PATHS: [&[&str]; 10] = [
    &["log"],
    &["textPayload"],
    &["properties", "message"],
    &["MESSAGE"],
    &["@message"],
    &["message"],
    &["msg"],
    &["jsonPayload", "message"],
    &["line"],
    &["body"],
];

pub(super) fn unwrap(line: &str) -> Option<String> {
    let line = line.trim().trim_end_matches(',');
    // PostgreSQL's own jsonlog is a record, not a wrapper.
    if !line.starts_with('{') || line.contains("\"error_severity\"") {
        return None;
    }
    let value: Value = serde_json::from_str(line).ok()?;
    PATHS.iter().find_map(|path| {
        let text = path.iter().try_fold(&value, |value, key| value.get(key))?.as_str()?;
        let mut text = text.trim_end_matches('\n').to_owned();
        // Azure cuts the record up.
        if let Some(detail) =
            value.pointer("/properties/detail").and_then(Value::as_str).filter(|text| !text.is_empty())
        {
            text = format!("{text}\nDETAIL:  {detail}");
        }
        Some(text)
    })
}

#[cfg(test)]
mod tests {
    use super::unwrap;

    #[test]
    fn the_line_is_found_in_each_collector() {
        for line in [
            r#"{"log":"ERROR:  deadlock detected\n","stream":"stderr","time":"2026-11-30T22:00:01Z"}"#,
            r#"{"textPayload":"ERROR:  deadlock detected","resource":{}}"#,
            r#"  {"properties": {"message": "ERROR:  deadlock detected"}},"#,
        ] {
            assert_eq!(unwrap(line).as_deref(), Some("ERROR:  deadlock detected"));
        }
        assert_eq!(unwrap(r#"{"log": 7}"#), None);
    }
}
