//! SQL text that is written once and said in each engine's words.
//!
//! The shop's statements are the same everywhere but for a few things: placeholders (`?` here, `$1` on PostgreSQL), what a
//! cast to a 64-bit integer or to text is called (`{int}`, `{text}`), and whether a SELECT can lock (`{for update}`).

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use sqlx::{AssertSqlSafe, SqlSafeStr as _, SqlStr};

use crate::store::{Query, Store};

/// A statement in the engine's words.
///
/// `text` is a literal of the program; values are bound to its `?`, never written into it.
pub fn query<'q, E: Store>(text: &'static str) -> Query<'q, E> {
    sqlx::query(sql::<E>(text))
}

/// A statement for its rows, in the engine's words.
pub fn query_as<'q, E: Store, T: for<'r> sqlx::FromRow<'r, E::Row>>(
    text: &'static str,
) -> sqlx::query::QueryAs<'q, E, T, E::Arguments> {
    sqlx::query_as(sql::<E>(text))
}

/// A statement that writes, in the engine's words. Bound through rowlock, so that its guard sees the keys.
pub fn locked<E: Store>(text: &'static str) -> rowlock::Query<E> {
    rowlock::query(sql::<E>(text))
}

/// A statement for its rows, whose `{list}` is a list of ids.
pub fn query_list<'q, E: Store, T: for<'r> sqlx::FromRow<'r, E::Row>>(
    text: &'static str,
    ids: &[i64],
) -> sqlx::query::QueryAs<'q, E, T, E::Arguments> {
    padded(ids).fold(sqlx::query_as(list::<E>(text, room(ids))), |query, id| query.bind(id))
}

/// A statement for its rows, whose `{list}` is a list of texts.
pub fn query_texts<'q, E: Store, T: for<'r> sqlx::FromRow<'r, E::Row>>(
    text: &'static str,
    values: &[String],
) -> sqlx::query::QueryAs<'q, E, T, E::Arguments> {
    padded(values).fold(sqlx::query_as(list::<E>(text, room(values))), |query, value| query.bind(value))
}

/// A statement that writes, whose `{list}` is a list of ids.
pub fn locked_list<E: Store>(text: &'static str, ids: &[i64]) -> rowlock::Query<E> {
    padded(ids).fold(rowlock::query(list::<E>(text, room(ids))), |query, id| query.bind(id))
}

/// A statement that writes, whose first value is one id and whose `{list}` is a list of others.
pub fn locked_list_of<E: Store>(text: &'static str, of: i64, ids: &[i64]) -> rowlock::Query<E> {
    padded(ids).fold(rowlock::query(list::<E>(text, room(ids))).bind(of), |query, id| query.bind(id))
}

/// A statement that writes several rows, whose `{rows}` are lists of values.
pub fn locked_rows<E: Store, const N: usize>(
    text: &'static str,
    rows: impl ExactSizeIterator<Item = [i64; N]>,
) -> rowlock::Query<E> {
    let row = format!("({})", vec!["?"; N].join(", "));
    rows_of::<E, _>(text, &row, rows.len(), rows.flatten(), |query, value| query.bind(value))
}

/// A statement that writes `count` rows, whose `{rows}` are as many times `row`, which is a literal of the program.
pub fn rows_of<E: Store, T>(
    text: &'static str,
    row: &str,
    count: usize,
    values: impl Iterator<Item = T>,
    bind: impl FnMut(rowlock::Query<E>, T) -> rowlock::Query<E>,
) -> rowlock::Query<E> {
    let text = text.replace("{rows}", &vec![row; count].join(", "));
    values.fold(rowlock::query(AssertSqlSafe(say::<E>(&text))), bind)
}

/// A statement that changes each row by an amount of its own: `{by}` is the amount, `{list}` the ids.
///
/// One trip for all rows, since each trip is made while others wait for them.
pub fn locked_changes<E: Store>(text: &'static str, changes: &[(i64, i64)]) -> rowlock::Query<E> {
    let by = format!("case id{} end", " when ? then ?".repeat(changes.len()));
    let said = text.replace("{by}", &by).replace("{list}", &vec!["?"; changes.len()].join(", "));
    let said = AssertSqlSafe(say::<E>(&said));
    let amounts = changes.iter().flat_map(|&(id, by)| [id, by]);
    let amounts = std::iter::repeat_n(amounts, text.matches("{by}").count()).flatten();
    let values = amounts.chain(changes.iter().map(|&(id, _)| id));
    values.fold(rowlock::query(said), |query, value| query.bind(value))
}

/// For how many values a text is made: few texts serve all numbers, so that they stay prepared.
fn room<T>(values: &[T]) -> usize {
    values.len().next_power_of_two()
}

/// The values, and the last again until the text's room is full.
fn padded<T: Clone>(values: &[T]) -> impl Iterator<Item = T> {
    values.iter().chain(std::iter::repeat(&values[values.len() - 1])).take(room(values)).cloned()
}

fn list<E: Store>(text: &'static str, room: usize) -> SqlStr {
    let text = text.replace("{list}", &vec!["?"; room].join(", "));
    AssertSqlSafe(say::<E>(&text)).into_sql_str()
}

/// The text of a statement in the engine's words; translated once, then kept.
pub fn sql<E: Store>(text: &'static str) -> SqlStr {
    type Texts = HashMap<(&'static str, &'static str), Arc<str>>;
    static TEXTS: LazyLock<RwLock<Texts>> = LazyLock::new(RwLock::default);
    let key = (E::NAME, text);
    if let Some(known) = TEXTS.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
        return AssertSqlSafe(known.clone()).into_sql_str();
    }
    let said: Arc<str> = say::<E>(text).into();
    TEXTS.write().unwrap_or_else(PoisonError::into_inner).insert(key, said.clone());
    AssertSqlSafe(said).into_sql_str()
}

fn say<E: Store>(text: &str) -> String {
    let text = text.replace("{int}", E::INTEGER).replace("{text}", E::TEXT).replace("{for update}", E::FOR_UPDATE);
    if !E::NUMBERED {
        return text;
    }
    let mut parts = text.split('?');
    let mut said = parts.next().unwrap_or_default().to_owned();
    for (n, part) in parts.enumerate() {
        said.push_str(&format!("${}{part}", n + 1));
    }
    said
}

#[cfg(test)]
mod tests {
    use sqlx::{Postgres, Sqlite};

    use super::say;

    #[test]
    fn speaks_each_engine() {
        let text = "select cast(a as {int}) from t where b = ? and c = ? {for update}";
        assert_eq!(say::<Postgres>(text), "select cast(a as bigint) from t where b = $1 and c = $2 for update");
        assert_eq!(say::<Sqlite>(text), "select cast(a as integer) from t where b = ? and c = ? ");
    }
}
