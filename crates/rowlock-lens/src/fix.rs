//! Statements, rewritten: made of the lock model's values, and held to it again before they are shown.

use rowlock_footprint::{Dialect, Literal, Schema, Value, analyze};

use crate::report::Engine;
use crate::statement::{Statement, Verb};

/// A statement that locks rows by their key, in its order, before anything else does.
pub(crate) fn lock_first(engine: Engine, table: &str, columns: &[String], keys: &[Vec<Value>]) -> String {
    let list = columns.join(", ");
    let mut keys: Vec<Vec<String>> = keys.iter().map(|key| key.iter().map(value).collect()).collect();
    keys.sort_by(|a, b| natural(a).cmp(&natural(b)).then_with(|| a.cmp(b)));
    keys.dedup();
    let tuple = |key: &Vec<String>| if key.len() == 1 { key.join("") } else { format!("({})", key.join(", ")) };
    let left = if columns.len() == 1 { list.clone() } else { format!("({list})") };
    let condition = match &keys[..] {
        [one] if columns.len() == 1 => match one.first().filter(|value| value.starts_with("ANY")) {
            Some(array) => format!("{left} = {array}"),
            None => format!("{left} = {}", tuple(one)),
        },
        [one] => columns
            .iter()
            .zip(one)
            .map(|(column, value)| format!("{column} = {value}"))
            .collect::<Vec<_>>()
            .join(" AND "),
        _ => format!("{left} IN ({})", keys.iter().map(tuple).collect::<Vec<_>>().join(", ")),
    };
    let single = keys.len() == 1 && !condition.contains("ANY(");
    let order = if single { String::new() } else { format!(" ORDER BY {list}") };
    match engine {
        Engine::Postgres => format!("SELECT {list} FROM {table} WHERE {condition}{order} FOR NO KEY UPDATE"),
        _ => {
            // ORDER BY alone does not order InnoDB's locks: the scan does.
            let index = if single { "" } else { " FORCE INDEX (PRIMARY)" };
            format!("SELECT {list} FROM {table}{index} WHERE {condition}{order} FOR UPDATE")
        }
    }
}

/// Integers as numbers, the rest after them as text.
fn natural(key: &[String]) -> Vec<(bool, i128)> {
    key.iter().map(|value| value.parse().map_or((true, 0), |number| (false, number))).collect()
}

fn value(value: &Value) -> String {
    match value {
        Value::Literal(Literal::Bytes(_)) | Value::Unknown => "?".to_owned(),
        Value::Literal(literal) => literal.to_string(),
        Value::Parameter(n) => format!("${}", n.saturating_add(1)),
        Value::ParameterArray(n) => format!("ANY(${})", n.saturating_add(1)),
    }
}

/// The statement that locks a multi-row statement's rows first, in order; with its own condition, where the keys are not
/// literals. Followed by the statement itself.
pub(crate) fn sorted(statement: &Statement, table: &str, engine: Engine) -> Option<String> {
    if let Some((columns, keys)) = statement.keys(table)
        && keys
            .iter()
            .flatten()
            .all(|value| matches!(value, Value::Literal(_) | Value::Parameter(_) | Value::ParameterArray(_)))
    {
        let lock = lock_first(engine, table, columns, keys);
        return Some(if statement.verb == Verb::LockingSelect { lock } else { format!("{lock}; {}", statement.text) });
    }
    if statement.verb == Verb::LockingSelect {
        return None;
    }
    // UPDATE t SET .. WHERE condition: what stands behind the last WHERE of one without subqueries and joins.
    let lower = statement.text.to_ascii_lowercase();
    if lower.matches("where").count() != 1
        || lower.contains("select")
        || lower.contains(" join ")
        || lower.contains(" using ")
        || lower.contains(" from ") && statement.verb == Verb::Update
    {
        return None;
    }
    let at = lower.find("where")?;
    let condition =
        statement.text.get(at + "where".len()..)?.split(" RETURNING ").next()?.split(" returning ").next()?.trim();
    if condition.to_ascii_lowercase().contains(" limit ") {
        return None;
    }
    let lock = match engine {
        Engine::Postgres => format!("SELECT 1 FROM {table} WHERE {condition} ORDER BY id FOR NO KEY UPDATE"),
        _ => format!("SELECT 1 FROM {table} FORCE INDEX (PRIMARY) WHERE {condition} ORDER BY id FOR UPDATE"),
    };
    readable(&lock, engine).then(|| format!("{lock}; {}", statement.text))
}

/// A read that shares, made to lock at full strength.
pub(crate) fn strengthen(sql: &str, engine: Engine) -> Option<String> {
    let lower = sql.to_ascii_lowercase();
    let strong = if engine == Engine::Postgres { "FOR NO KEY UPDATE" } else { "FOR UPDATE" };
    let clause =
        ["for key share", "for share", "lock in share mode"].into_iter().find(|clause| lower.contains(clause))?;
    let at = lower.rfind(clause)?;
    let sql = format!("{}{strong}{}", sql.get(..at)?, sql.get(at + clause.len()..)?);
    readable(&sql, engine).then_some(sql)
}

/// Look the keys up, then lock by them.
pub(crate) fn by_primary_key(statement: &Statement, table: &str) -> Option<String> {
    let lower = statement.text.to_ascii_lowercase();
    let at = lower.find("where")?;
    if !matches!(statement.verb, Verb::Update | Verb::Delete | Verb::LockingSelect)
        || lower.matches("select").count() > 1
    {
        return None;
    }
    let condition = statement.text.get(at + "where".len()..)?;
    let lower = condition.to_ascii_lowercase();
    let end = ["for update", "order by", "limit", "lock in"]
        .iter()
        .filter_map(|word| lower.find(word))
        .min()
        .unwrap_or(condition.len());
    let condition = condition.get(..end)?.trim();
    Some(format!(
        "SELECT id FROM {table} WHERE {condition}; SELECT id FROM {table} FORCE INDEX (PRIMARY) WHERE id IN (?) ORDER BY id FOR UPDATE"
    ))
}

/// An INSERT of several rows of literals, with the rows in the order of their first column.
pub(crate) fn sorted_insert(sql: &str) -> Option<String> {
    let lower = sql.to_ascii_lowercase();
    let at = lower.find("values")? + "values".len();
    let (head, rest) = (sql.get(..at)?, sql.get(at..)?);
    let rest = rest.trim();
    let inner = rest.strip_prefix('(')?.strip_suffix(')')?;
    // Rows of plain literals alone: what has quotes or calls in it is not cut apart here.
    if inner.contains(['\'', '"']) || inner.matches('(').count() != inner.matches("),").count() {
        return None;
    }
    let mut rows: Vec<String> =
        inner.split("),").map(|row| row.trim().trim_start_matches('(').trim().to_owned()).collect();
    let before = rows.clone();
    rows.sort_by_key(|row| natural(&[row.split(',').next().unwrap_or_default().trim().to_owned()]));
    (rows != before).then(|| format!("{head} ({})", rows.join("), (")))
}

fn readable(sql: &str, engine: Engine) -> bool {
    let dialect: Dialect = engine.dialect();
    analyze(sql, dialect, &Schema::default()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(n: i128) -> Vec<Value> {
        vec![Value::Literal(Literal::Integer(n))]
    }

    #[test]
    fn what_is_rewritten_can_be_read_and_locks_the_same_rows() {
        for engine in [Engine::Postgres, Engine::MySql, Engine::MariaDb] {
            for keys in [vec![number(7)], vec![number(30), number(4), number(30)]] {
                let sql = lock_first(engine, "orders", &["id".to_owned()], &keys);
                let lock = Statement::read(&sql, engine).lock("orders").cloned().unwrap();
                let mut sorted = keys.clone();
                sorted.sort_by_key(|key| format!("{:>9}", value(&key[0])));
                sorted.dedup();
                assert_eq!(
                    lock.rows,
                    rowlock_footprint::Rows::Keys { columns: vec!["id".into()], keys: sorted },
                    "{sql}"
                );
            }
        }
    }

    #[test]
    fn a_list_is_locked_in_order_first() {
        let statement = Statement::read("update t set n = 0 where id in (105, 42)", Engine::Postgres);
        assert_eq!(
            sorted(&statement, "t", Engine::Postgres).unwrap(),
            "SELECT id FROM t WHERE id IN (42, 105) ORDER BY id FOR NO KEY UPDATE; update t set n = 0 where id in (105, 42)"
        );
    }

    #[test]
    fn shared_reads_are_strengthened() {
        let sql = "select * from t where id = 1 lock in share mode";
        assert_eq!(strengthen(sql, Engine::MariaDb).unwrap(), "select * from t where id = 1 FOR UPDATE");
        assert_eq!(strengthen("select 1", Engine::MySql), None);
    }

    #[test]
    fn rows_of_an_insert_are_sorted() {
        assert_eq!(
            sorted_insert("insert into t values (9, 1), (2, 3)").unwrap(),
            "insert into t values (2, 3), (9, 1)"
        );
        assert_eq!(sorted_insert("insert into t values (1, 1)"), None);
        assert_eq!(sorted_insert("insert into t values ('a),(', 1), (2, 3)"), None);
    }
}
