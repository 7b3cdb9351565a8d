//! PostgreSQL's jsonlog (15 and later): one object a line.

use serde_json::{Map, Value};

use super::{Block, Content};
use crate::postgres::Record;
use crate::window::Lines;

pub(super) fn read(lines: &Lines<'_>) -> Option<Block> {
    let object = object(lines.hit_text())?;
    let code = object.get("state_code").and_then(Value::as_str);
    if code.is_some_and(|code| code != "40P01") {
        return None;
    }
    Some(Block { text: Content::Postgres(record(&object)), lines: lines.hit..lines.hit + 1, cut: false })
}

pub(super) fn records(lines: &Lines<'_>) -> Vec<Record> {
    let objects = lines.all.iter().filter_map(|line| object(&line.text));
    objects
        .filter(|object| object.get("error_severity").and_then(Value::as_str) != Some("ERROR"))
        .map(|o| record(&o))
        .collect()
}

fn object(line: &str) -> Option<Map<String, Value>> {
    let line = line.trim();
    if !line.starts_with('{') || !line.contains("\"error_severity\"") {
        return None;
    }
    match serde_json::from_str(line).ok()? {
        Value::Object(object) => Some(object),
        _ => None,
    }
}

fn record(object: &Map<String, Value>) -> Record {
    let text = |key: &str| object.get(key).and_then(Value::as_str).map(str::to_owned);
    let origin: Vec<String> = ["user", "dbname", "application_name"].into_iter().filter_map(text).collect();
    Record {
        time: text("timestamp"),
        pid: object.get("pid").and_then(Value::as_u64),
        message: text("message").unwrap_or_default(),
        detail: text("detail").unwrap_or_default(),
        context: text("context").unwrap_or_default(),
        statement: text("statement"),
        origin: (!origin.is_empty()).then(|| origin.join(", ")),
    }
}
