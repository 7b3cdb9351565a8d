//! From the values that a condition allows to the rows of a table: the choice of the key.

use std::collections::HashSet;

use crate::{
    Rows, Table, Value,
    condition::{Alternative, get},
    name,
    scope::Level,
};

/// Which rows of `relation` meet `alternatives`: by its primary key when that is pinned, else by another unique key.
pub(crate) fn rows(level: &Level<'_, '_>, relation: usize, alternatives: &[Alternative]) -> Rows {
    match level.table(relation) {
        Some(table) => keys_of(table)
            .find_map(|columns| {
                let tuples = alternatives.iter().map(|alternative| {
                    columns
                        .iter()
                        .map(|c| get(alternative, &(relation, c.clone())).cloned())
                        .collect::<Option<Vec<_>>>()
                });
                tuples.collect::<Option<Vec<_>>>().map(|keys| keyed(columns.to_vec(), keys))
            })
            .unwrap_or(Rows::Unknown),
        None => best_effort(relation, alternatives),
    }
}

/// The keys by which rows may be named, the best first: the primary key, then unique keys that cannot hold NULL, then the
/// other ones (equality never finds a NULL, so they name at most one row as well).
fn keys_of(table: &Table) -> impl Iterator<Item = &[String]> {
    let primary = Some(table.primary_key.as_slice()).filter(|k| !k.is_empty());
    let unique = |nullable: bool| {
        table.unique_keys.iter().filter(move |k| !k.partial && has_nullable(table, &k.columns) == nullable)
    };
    primary.into_iter().chain(unique(false).chain(unique(true)).map(|k| k.columns.as_slice()))
}

pub(crate) fn has_nullable(table: &Table, columns: &[String]) -> bool {
    columns.iter().any(|c| table.column(c).is_none_or(|c| c.nullable))
}

/// A table without a schema: the columns that every alternative has.
fn best_effort(relation: usize, alternatives: &[Alternative]) -> Rows {
    let Some((first, others)) = alternatives.split_first() else { return Rows::Unknown };
    let mut columns: Vec<String> = Vec::new();
    for ((at, column), _) in first {
        let everywhere = others.iter().all(|a| get(a, &(*at, column.clone())).is_some());
        if *at == relation && everywhere && !columns.contains(column) {
            columns.push(column.clone());
        }
    }
    if columns.is_empty() {
        return Rows::Unknown;
    }
    let key = |alternative: &Alternative| {
        columns.iter().map(|c| get(alternative, &(relation, c.clone())).cloned().unwrap_or(Value::Unknown)).collect()
    };
    let keys = alternatives.iter().map(key).collect();
    keyed(columns, keys)
}

/// Rows by their keys, each named once, in the statement's order. (A key with an unknown part may be another than its like.)
pub(crate) fn keyed(columns: Vec<String>, mut keys: Vec<Vec<Value>>) -> Rows {
    let mut seen = HashSet::new();
    keys.retain(|key| key.contains(&Value::Unknown) || seen.insert(key.clone()));
    Rows::Keys { columns, keys }
}

/// The key with exactly these columns, in its own order, if the table has one.
pub(crate) fn in_key_order(table: &Table, columns: &[String]) -> Option<Vec<String>> {
    let is_it = |key: &[String]| {
        key.len() == columns.len()
            && key.iter().all(|c| columns.iter().any(|d| name::same(c, d, crate::Dialect::Postgres)))
    };
    keys_of(table).find(|key| is_it(key)).map(<[String]>::to_vec)
}
