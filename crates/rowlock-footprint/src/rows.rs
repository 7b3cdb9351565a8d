//! From the values that a condition allows to the rows of a table: the choice of the key.

use std::collections::HashSet;

use crate::{
    Rows, Table, Value,
    condition::{self, Alternative, get},
    name,
    scope::{ColumnRef, Level},
};

/// Which rows of `relation` are locked when `alternatives` are what its condition allows: named by its primary key when that
/// is pinned, else by another unique key.
pub(crate) fn rows(level: &Level<'_, '_>, relation: usize, alternatives: &[Alternative]) -> Rows {
    let Some(table) = level.table(relation) else { return best_effort(relation, alternatives) };
    let tuples = |columns: &[String]| {
        let tuple = |alternative| {
            columns.iter().map(|c| get(alternative, &(relation, c.clone())).cloned()).collect::<Option<Vec<_>>>()
        };
        alternatives.iter().map(tuple).collect::<Option<Vec<_>>>().map(|keys| keyed(columns.to_vec(), keys))
    };
    if level.dialect.is_innodb()
        && let Some(columns) = read_by(level, relation, alternatives)
    {
        return tuples(columns)
            .filter(|rows| matches!(rows, Rows::Keys { keys, .. } if keys.len() == 1))
            .unwrap_or(Rows::Unknown);
    }
    keys_of(table).find_map(tuples).unwrap_or(Rows::Unknown)
}

/// The key by which InnoDB's servers read the one row of `relation`, if they do.
///
/// InnoDB locks a row when it is read. A row that was found by a whole key with one value stays locked even if the rest of
/// the condition turns out false: `id IN (1, 2) AND reference = 'R3'` locks the row with that reference, whatever its id.
/// The value of such a key can come from the row of another table that was itself found so, and then the text does not say
/// which it is. (Seen on MySQL 9.7 and MariaDB 10.11. Rows that are met in a scan are let go, under READ COMMITTED.)
fn read_by<'s>(level: &Level<'s, '_>, relation: usize, alternatives: &[Alternative]) -> Option<&'s [String]> {
    let equal = condition::equal_columns(level, relation);
    let one_value = |column: &ColumnRef| {
        let mut values = alternatives.iter().map(|a| get(a, column));
        let first = values.next().flatten();
        first.is_some() && values.all(|v| v == first)
    };
    let mut single = vec![false; level.relations.len()];
    let key_of = |at: usize, single: &[bool]| {
        keys_of(level.table(at)?).find(|key| {
            key.iter().all(|c| {
                let column = (at, c.clone());
                let of_single =
                    |(a, b): &(ColumnRef, ColumnRef)| (*a == column && single[b.0]) || (*b == column && single[a.0]);
                one_value(&column) || equal.iter().any(of_single)
            })
        })
    };
    // A row that is found makes others that are found by it.
    loop {
        let now: Vec<bool> =
            (0..single.len()).map(|at| single[at] || (at != relation && key_of(at, &single).is_some())).collect();
        if now == single {
            return key_of(relation, &single);
        }
        single = now;
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
