//! Foreign keys: the parents that a child's statement locks, and the children that a parent's statement locks.
//!
//! - A child that is inserted, or given another parent, locks the parent: `FOR KEY SHARE` on PostgreSQL, shared on InnoDB.
//!   A NULL in the key checks nothing (`MATCH SIMPLE`). A deferred check locks at COMMIT, which is counted here.
//! - A parent that is deleted, or whose key changes, has its children looked at (the same weak lock: any that is found is
//!   an error), or changed and deleted with it, and theirs after them.

use std::collections::HashSet;

use crate::{
    Action, Cause, Dialect, Literal, Rows, Strength, Table, Value,
    analyze::Analysis,
    insert::NewRows,
    rows::{in_key_order, keyed},
    update::{Assigned, update_strength},
};

/// How far a cascade is followed.
const MAX_CASCADE: usize = 16;

impl Analysis<'_> {
    pub(crate) fn parents_of_insert(&mut self, table: &Table, new: &NewRows) {
        for key in &table.foreign_keys {
            let rows = match new.tuples(Some(table), &key.columns, self.dialect) {
                Some(tuples) if tuples.is_empty() => continue,
                Some(tuples) => self.parent_rows(key, tuples),
                None => Rows::Unknown,
            };
            self.lock(&key.parent, Strength::KeyShare, rows, Cause::ForeignKey(key.name.clone()));
        }
    }

    /// An UPDATE that leaves a foreign key's columns alone checks nothing; except that MariaDB makes a row anew when its
    /// primary key changes, and checks all of them.
    pub(crate) fn parents_of_update(&mut self, table: &Table, assigned: &Assigned) {
        let anew =
            self.dialect == Dialect::MariaDb && assigned.iter().any(|(column, _)| table.primary_key.contains(column));
        for key in &table.foreign_keys {
            let value = |column: &String| assigned.iter().find(|(c, _)| c == column).map(|(_, v)| v.clone());
            let values: Vec<Option<Value>> = key.columns.iter().map(value).collect();
            let untouched = values.iter().all(Option::is_none) && !anew;
            if untouched || values.contains(&Some(Value::Literal(Literal::Null))) {
                continue;
            }
            // The other columns keep what they had; and an expression can differ from row to row.
            let known = values.into_iter().collect::<Option<Vec<_>>>().filter(|v| !v.contains(&Value::Unknown));
            let rows = known.map_or(Rows::Unknown, |tuple| self.parent_rows(key, vec![tuple]));
            self.lock(&key.parent, Strength::KeyShare, rows, Cause::ForeignKey(key.name.clone()));
        }
    }

    /// The parents with these values, by a key of theirs in its own order.
    fn parent_rows(&self, key: &crate::ForeignKey, tuples: Vec<Vec<Value>>) -> Rows {
        let parent = self.schema.table(&key.parent);
        let columns =
            parent.and_then(|p| in_key_order(p, &key.parent_columns)).unwrap_or_else(|| key.parent_columns.clone());
        reorder(&key.parent_columns, &columns, &tuples).map_or(Rows::Unknown, |tuples| keyed(columns, tuples))
    }

    /// What happens to the children of `rows` of `parent`, which are deleted (`None`) or assigned new values.
    pub(crate) fn children_of(&mut self, parent: &Table, rows: &Rows, assigned: Option<&Assigned>) {
        if !matches!(rows, Rows::Keys { keys, .. } if keys.is_empty()) {
            self.follow(parent, rows, assigned, &mut HashSet::new());
        }
    }

    fn follow(
        &mut self,
        parent: &Table,
        rows: &Rows,
        assigned: Option<&Assigned>,
        seen: &mut HashSet<(String, String)>,
    ) {
        let schema = self.schema;
        let mut children: Vec<_> = schema
            .children(&parent.name)
            .filter(|(_, key)| match assigned {
                None => true,
                Some(assigned) => key.parent_columns.iter().any(|c| assigned.iter().any(|(a, _)| a == c)),
            })
            .collect();
        children.sort_by(|a, b| (&a.0.name, &a.1.name).cmp(&(&b.0.name, &b.1.name)));
        for (child, key) in children {
            let action = if assigned.is_none() { key.on_delete } else { key.on_update };
            let child_rows = rows_of_child(child, key, rows);
            let set: Option<Assigned> = match (action, assigned) {
                (Action::NoAction | Action::Restrict, _) => {
                    self.lock(&child.name, Strength::KeyShare, child_rows, Cause::ForeignKey(key.name.clone()));
                    continue;
                }
                (Action::Cascade, None) => None,
                (Action::SetNull, _) => {
                    Some(key.columns.iter().map(|c| (c.clone(), Value::Literal(Literal::Null))).collect())
                }
                (Action::Cascade | Action::SetDefault, _) => {
                    Some(key.columns.iter().map(|c| (c.clone(), Value::Unknown)).collect())
                }
            };
            let strength = set.as_ref().map_or(Strength::Update, |set| update_strength(Some(child), set));
            self.lock(&child.name, strength, child_rows.clone(), Cause::Cascade(key.name.clone()));
            // InnoDB: "Cascaded foreign key actions do not activate triggers."
            if !self.dialect.is_innodb() {
                self.fires(Some(child));
            }
            if let Some(set) = set.as_ref().filter(|_| action == Action::SetDefault) {
                self.parents_of_update(child, set);
            }
            let first_time = seen.insert((child.name.to_string(), key.name.clone()));
            if first_time && seen.len() <= MAX_CASCADE {
                self.follow(child, &child_rows, set.as_ref(), seen);
            } else if !first_time {
                // Round again, to rows that nothing here can name.
                self.lock(&child.name, strength, Rows::Unknown, Cause::Cascade(key.name.clone()));
            }
        }
    }
}

/// The children of these parents: named only if the foreign key's columns hold a whole unique key of the child, for else
/// a parent can have many.
fn rows_of_child(child: &Table, key: &crate::ForeignKey, parents: &Rows) -> Rows {
    let Rows::Keys { columns, keys } = parents else { return Rows::Unknown };
    let Some(tuples) = reorder(columns, &key.parent_columns, keys) else { return Rows::Unknown };
    let whole = std::iter::once(&child.primary_key)
        .chain(child.unique_keys.iter().filter(|k| !k.partial).map(|k| &k.columns))
        .find(|unique| !unique.is_empty() && unique.iter().all(|c| key.columns.contains(c)));
    match whole {
        Some(unique) => reorder(&key.columns, unique, &tuples).map_or(Rows::Unknown, |t| keyed(unique.clone(), t)),
        None => Rows::Unknown,
    }
}

/// Tuples of `from` as tuples of `to`, which must be among them.
fn reorder(from: &[String], to: &[String], tuples: &[Vec<Value>]) -> Option<Vec<Vec<Value>>> {
    let places: Vec<usize> = to.iter().map(|c| from.iter().position(|f| f == c)).collect::<Option<_>>()?;
    tuples.iter().map(|tuple| places.iter().map(|&at| tuple.get(at).cloned()).collect()).collect()
}
