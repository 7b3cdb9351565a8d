//! `UPDATE`: of one table, with `FROM` or joins, or MySQL's of several tables.

use sqlparser::ast::{Assignment, AssignmentTarget, Expr, ObjectName, Update, UpdateTableFromKind};

use crate::{
    Cause, Literal, Rows, Strength, Table, TableName, Value, Verb,
    analyze::Analysis,
    condition,
    insert::unique_keys,
    name,
    rows::{keyed, rows},
    scope::{Level, Source},
    value,
};

/// A column that is given a value: its qualifiers are gone, its name is as stored.
pub(crate) type Assigned = Vec<(String, Value)>;

impl<'s> Analysis<'s> {
    pub(crate) fn update(&mut self, update: &Update) {
        self.verb(Verb::Write);
        let several = self.dialect.is_innodb() && !update.table.joins.is_empty();
        let mut level = Level::new(self.dialect);
        self.add_joined(&mut level, &update.table, &[]);
        if let Some(UpdateTableFromKind::BeforeSet(from) | UpdateTableFromKind::AfterSet(from)) = &update.from {
            for table in from {
                self.add_joined(&mut level, table, &[]);
            }
        }
        level.require(update.selection.as_ref());
        self.subqueries(&update.selection);
        self.subqueries(&update.assignments);
        self.subqueries(&update.returning);
        self.subqueries(&update.limit);

        for (relation, assigned) in self.targets(&level, &update.assignments, several) {
            match assigned {
                Some(assigned) => self.update_relation(&level, relation, &assigned),
                None => self.read_relation(&level, relation),
            }
        }
    }

    /// The relations that are locked, with what they are assigned; `None`: read only.
    fn targets(
        &self,
        level: &Level<'s, '_>,
        assignments: &[Assignment],
        several: bool,
    ) -> Vec<(usize, Option<Assigned>)> {
        if !several {
            return vec![(0, Some(assigned(level.table(0), assignments, self.dialect)))];
        }
        let mut of: Vec<(usize, Option<Assigned>)> = (0..level.relations.len()).map(|at| (at, None)).collect();
        for (target, value) in columns_and_values(assignments, self.dialect) {
            let idents: Option<Vec<_>> = target.0.iter().map(|p| p.as_ident().cloned()).collect();
            match idents.and_then(|idents| level.resolve(&idents)) {
                Some((at, column)) => of[at].1.get_or_insert_default().push((column, value)),
                // It may be any of them.
                None => of.iter_mut().for_each(|(_, assigned)| {
                    assigned.get_or_insert_default();
                }),
            }
        }
        of
    }

    fn update_relation(&mut self, level: &Level<'s, '_>, relation: usize, assigned: &Assigned) {
        let Source::Table(name, table) = &level.relations[relation].source else { return };
        if self.is_view(*table) {
            return;
        }
        let alternatives = condition::alternatives(level, Some(relation), &self.outputs);
        let rows = rows(level, relation, &alternatives);
        self.lock(name, update_strength(*table, assigned), rows.clone(), Cause::Update);
        self.fires(*table);
        if let Some(table) = table {
            self.new_keys(name, table, &rows, assigned);
            self.parents_of_update(table, assigned);
            self.children_of(table, &rows, Some(assigned));
        }
    }

    /// A new value of a unique key is a place that the row takes, as an INSERT would.
    fn new_keys(&mut self, name: &TableName, table: &Table, rows: &Rows, assigned: &Assigned) {
        let value = |column: &String| assigned.iter().find(|(c, _)| c == column).map(|(_, v)| v.clone());
        for columns in unique_keys(table) {
            let values: Vec<Option<Value>> = columns.iter().map(value).collect();
            if values.iter().all(Option::is_none) || values.contains(&Some(Value::Literal(Literal::Null))) {
                continue;
            }
            // The other columns keep what they had.
            let had = match rows {
                Rows::Keys { columns: by, keys } if *by == *columns => keys.clone(),
                _ => vec![vec![Value::Unknown; columns.len()]],
            };
            let becomes =
                |key: Vec<Value>| key.into_iter().zip(&values).map(|(v, new)| new.clone().unwrap_or(v)).collect();
            let keys = had.into_iter().map(becomes).collect();
            self.lock(name, Strength::Update, keyed(columns.to_vec(), keys), Cause::Insert);
        }
    }

    pub(crate) fn read_relation(&mut self, level: &Level<'s, '_>, relation: usize) {
        let Source::Table(name, table) = &level.relations[relation].source else { return };
        if self.shares_reads && !self.is_view(*table) {
            let alternatives = condition::alternatives(level, Some(relation), &self.outputs);
            self.lock(name, Strength::Share, rows(level, relation, &alternatives), Cause::Read);
        }
    }
}

/// PostgreSQL locks a row FOR UPDATE when a column of a unique index is assigned that a foreign key could point at (not
/// partial, no expression: `INDEX_ATTR_BITMAP_KEY`), and FOR NO KEY UPDATE otherwise. Whether the value really changes
/// counts when the row is first found; whether it is assigned counts when the row changed meanwhile: so that is what counts here.
pub(crate) fn update_strength(table: Option<&Table>, assigned: &Assigned) -> Strength {
    let in_key = |column: &String| {
        table.is_some_and(|t| {
            t.primary_key.contains(column) || t.unique_keys.iter().any(|k| !k.partial && k.columns.contains(column))
        })
    };
    if assigned.iter().any(|(column, _)| in_key(column)) { Strength::Update } else { Strength::NoKeyUpdate }
}

/// What `SET` gives the columns of one table.
pub(crate) fn assigned(table: Option<&Table>, assignments: &[Assignment], dialect: crate::Dialect) -> Assigned {
    columns_and_values(assignments, dialect)
        .into_iter()
        .map(|(target, value)| {
            let mut parts = name::parts(target, dialect);
            // PostgreSQL knows no qualifier here: `a.b` is field b of column a.
            let written = if dialect == crate::Dialect::Postgres { parts.drain(..).next() } else { parts.pop() };
            let column = name::column(table, &written.unwrap_or_default(), dialect);
            let value = match table.and_then(|t| t.column(&column)) {
                Some(stored) => condition::as_stored(value, &stored.type_name),
                None => value,
            };
            (column, value)
        })
        .collect()
}

/// `SET a = 1` and `SET (a, b) = (1, 2)`, column by column.
fn columns_and_values(assignments: &[Assignment], dialect: crate::Dialect) -> Vec<(&ObjectName, Value)> {
    let value = |expr: &Expr| value::constant(expr, dialect).unwrap_or(Value::Unknown);
    let mut found = Vec::new();
    for assignment in assignments {
        match &assignment.target {
            AssignmentTarget::ColumnName(name) => found.push((name, value(&assignment.value))),
            AssignmentTarget::Tuple(names) => {
                let values = match &assignment.value {
                    Expr::Tuple(items) if items.len() == names.len() => items.iter().map(value).collect(),
                    _ => vec![Value::Unknown; names.len()],
                };
                found.extend(names.iter().zip(values));
            }
        }
    }
    found
}
