//! `INSERT`, upserts and `REPLACE`: the rows that are made, and those that stand in their way.
//!
//! An INSERT waits for whoever has inserted, or is deleting, a row with one of its unique keys. So it locks one place for
//! each unique key that its row has, except where the server makes the key and nobody else can have it.

use sqlparser::ast::{
    AssignmentTarget, ConflictTarget, Expr, Insert, InsertOverriding, OnConflictAction, OnInsert, SetExpr,
    SqliteOnConflict, TableObject,
};

use crate::{
    Cause, Dialect, Literal, Rows, Strength, Table, TableName, Value, Verb,
    analyze::Analysis,
    condition, name,
    rows::keyed,
    update::{Assigned, assigned, update_strength},
    value,
};

/// A value that an inserted row is given, or the column's default.
#[derive(Clone, Debug)]
pub(crate) enum Given {
    Value(Value),
    Default,
}

/// The rows of an INSERT.
pub(crate) struct NewRows {
    /// Columns as stored, in the order of the values.
    pub(crate) columns: Vec<String>,
    /// `None` for a value that can be many; and a list that stands for more rows than it is long when there is one.
    pub(crate) rows: Vec<Vec<Option<Given>>>,
}

impl NewRows {
    /// The values for `columns` of each row; `None` when there is no telling how many rows there are, or which.
    /// A row in which one of them is NULL meets no other row, and is left out.
    pub(crate) fn tuples(
        &self,
        table: Option<&Table>,
        columns: &[String],
        dialect: Dialect,
    ) -> Option<Vec<Vec<Value>>> {
        let mut tuples = Vec::new();
        'rows: for row in &self.rows {
            let mut tuple = Vec::new();
            for column in columns {
                let stored = table.and_then(|t| t.column(column));
                let value = match self.given(row, column)? {
                    Given::Value(value) if is_made(&value, stored.is_some_and(|c| c.generated), dialect) => {
                        continue 'rows;
                    }
                    Given::Value(Value::Literal(Literal::Null)) => continue 'rows,
                    Given::Value(value) => match stored {
                        Some(stored) => condition::as_stored(value, &stored.type_name),
                        None => value,
                    },
                    Given::Default if stored.is_some_and(|c| c.generated) => continue 'rows,
                    // A nullable column that is not given is taken to become NULL.
                    Given::Default if stored.is_some_and(|c| c.nullable) => continue 'rows,
                    Given::Default => Value::Unknown,
                };
                tuple.push(value);
            }
            tuples.push(tuple);
        }
        Some(tuples)
    }

    fn given(&self, row: &[Option<Given>], column: &str) -> Option<Given> {
        if self.columns.is_empty() && !row.is_empty() {
            // Values without a list of columns, for a table whose columns are not known.
            return None;
        }
        match self.columns.iter().position(|c| c == column).and_then(|at| row.get(at)) {
            Some(given) => given.clone(),
            None => Some(Given::Default),
        }
    }

    /// `OVERRIDING USER VALUE`: what is given to a generated column does not count.
    fn make_generated(&mut self, table: Option<&Table>) {
        for (at, column) in self.columns.iter().enumerate() {
            if table.and_then(|t| t.column(column)).is_some_and(|c| c.generated) {
                self.rows.iter_mut().filter_map(|row| row.get_mut(at)).for_each(|given| *given = Some(Given::Default));
            }
        }
    }
}

/// NULL (and on InnoDB 0) given to a generated column: the server makes the value.
fn is_made(value: &Value, generated: bool, dialect: Dialect) -> bool {
    generated
        && match value {
            Value::Literal(Literal::Null) => dialect != Dialect::Postgres,
            Value::Literal(Literal::Integer(0)) => dialect.is_innodb(),
            _ => false,
        }
}

impl Analysis<'_> {
    pub(crate) fn insert(&mut self, insert: &Insert) {
        self.verb(Verb::Write);
        let TableObject::TableName(written) = &insert.table else { return };
        let (name, table) = self.find(name::table_name(written, self.dialect));
        let mut new = self.new_rows(insert, table);
        if insert.overriding == Some(InsertOverriding::User) {
            new.make_generated(table);
        }
        self.subqueries(&insert.assignments);
        self.subqueries(&insert.on);
        self.subqueries(&insert.returning);
        if self.is_view(table) {
            return;
        }
        self.insert_rows(&name, table, &new);
        self.fires(table);
        if insert.replace_into || insert.or == Some(SqliteOnConflict::Replace) {
            self.replace(&name, table, &new);
        }
        match &insert.on {
            Some(OnInsert::DuplicateKeyUpdate(assignments)) => {
                let assigned = assigned(table, assignments, self.dialect);
                self.upsert(&name, table, &new, None, &assigned);
            }
            Some(OnInsert::OnConflict(conflict)) => {
                if let OnConflictAction::DoUpdate(update) = &conflict.action {
                    let target = conflict.conflict_target.as_ref().and_then(|t| target_columns(t, table, self.dialect));
                    let assigned = assigned(table, &update.assignments, self.dialect);
                    self.upsert(&name, table, &new, target.as_deref(), &assigned);
                }
            }
            _ => {}
        }
        if let Some(table) = table {
            self.parents_of_insert(table, &new);
        }
    }

    fn new_rows(&mut self, insert: &Insert, table: Option<&Table>) -> NewRows {
        let dialect = self.dialect;
        let stored = |written: &str| name::column(table, written, dialect);
        let named: Vec<String> =
            insert.columns.iter().filter_map(|c| name::parts(c, dialect).pop()).map(|c| stored(&c)).collect();
        let all = || table.map(|t| t.columns.iter().map(|c| c.name.clone()).collect()).unwrap_or_default();
        let given = |expr: &Expr| Some(given(expr, dialect));
        match &insert.source {
            // MySQL: `INSERT INTO t () VALUES ()`.
            Some(source) if source.with.is_none() && matches!(&*source.body, SetExpr::Values(_)) => {
                let SetExpr::Values(values) = &*source.body else {
                    return NewRows { columns: named, rows: Vec::new() };
                };
                self.subqueries(values);
                let rows: Vec<Vec<_>> = values.rows.iter().map(|r| r.content.iter().map(given).collect()).collect();
                let empty = rows.iter().all(Vec::is_empty);
                NewRows { columns: if named.is_empty() && !empty { all() } else { named }, rows }
            }
            Some(source) => {
                let output = self.query(source, &[]);
                let columns = if named.is_empty() { all() } else { named };
                if !output.complete {
                    return NewRows { rows: vec![vec![None; columns.len().max(1)]], columns };
                }
                let row = |row: Vec<Option<Value>>| row.into_iter().map(|v| v.map(Given::Value)).collect();
                NewRows { columns, rows: output.rows.into_iter().map(row).collect() }
            }
            None => {
                let mut columns = Vec::new();
                let mut row = Vec::new();
                for assignment in &insert.assignments {
                    if let AssignmentTarget::ColumnName(target) = &assignment.target {
                        columns.push(stored(&name::parts(target, dialect).pop().unwrap_or_default()));
                        row.push(given(&assignment.value));
                    }
                }
                NewRows { columns, rows: vec![row] }
            }
        }
    }

    /// The places that new rows take, a lock for each unique key.
    pub(crate) fn insert_rows(&mut self, name: &TableName, table: Option<&Table>, new: &NewRows) {
        let Some(table) = table else {
            let rows = match new.tuples(None, &new.columns, self.dialect) {
                Some(keys) if !new.columns.is_empty() && !keys.is_empty() => keyed(new.columns.clone(), keys),
                _ => Rows::Unknown,
            };
            return self.lock(name, Strength::Update, rows, Cause::Insert);
        };
        let mut locked = false;
        for columns in unique_keys(table) {
            match new.tuples(Some(table), columns, self.dialect) {
                Some(keys) if keys.is_empty() => {}
                Some(keys) => {
                    locked = true;
                    self.lock(name, Strength::Update, keyed(columns.to_vec(), keys), Cause::Insert);
                }
                None => {
                    locked = true;
                    self.lock(name, Strength::Update, Rows::Unknown, Cause::Insert);
                }
            }
        }
        if !locked {
            self.lock(name, Strength::Update, Rows::Fresh, Cause::Insert);
        }
    }

    /// The rows that stand in the way and are updated. Without a `target` any unique key can be the one.
    fn upsert(
        &mut self,
        name: &TableName,
        table: Option<&Table>,
        new: &NewRows,
        target: Option<&[String]>,
        assigned: &Assigned,
    ) {
        let strength = update_strength(table, assigned);
        let keys: Vec<&[String]> = match (target, table) {
            (Some(target), _) => vec![target],
            (None, Some(table)) => unique_keys(table).collect(),
            (None, None) => Vec::new(),
        };
        if keys.is_empty() && table.is_none() {
            self.lock(name, strength, Rows::Unknown, Cause::Upsert);
        }
        for columns in keys {
            let rows = match new.tuples(table, columns, self.dialect) {
                Some(keys) if keys.is_empty() => continue,
                Some(keys) => keyed(columns.to_vec(), keys),
                None => Rows::Unknown,
            };
            self.lock(name, strength, rows.clone(), Cause::Upsert);
            if let Some(table) = table {
                self.children_of(table, &rows, Some(assigned));
            }
        }
        if let Some(table) = table {
            // What is assigned from the row that was refused has been counted with that row.
            let others: Assigned = assigned.iter().filter(|(_, v)| *v != Value::Unknown).cloned().collect();
            self.parents_of_update(table, &others);
        }
    }

    /// The rows that stand in the way and are deleted, with their children.
    fn replace(&mut self, name: &TableName, table: Option<&Table>, new: &NewRows) {
        let Some(table) = table else {
            return self.lock(name, Strength::Update, Rows::Unknown, Cause::Upsert);
        };
        for columns in unique_keys(table) {
            let rows = match new.tuples(Some(table), columns, self.dialect) {
                Some(keys) if keys.is_empty() => continue,
                Some(keys) => keyed(columns.to_vec(), keys),
                None => Rows::Unknown,
            };
            self.lock(name, Strength::Update, rows.clone(), Cause::Upsert);
            self.children_of(table, &rows, None);
        }
    }
}

/// `DEFAULT` is a name to the parser.
pub(crate) fn given(expr: &Expr, dialect: Dialect) -> Given {
    match expr {
        Expr::Identifier(ident) if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") => {
            Given::Default
        }
        other => Given::Value(value::constant(other, dialect).unwrap_or(Value::Unknown)),
    }
}

/// The primary key, then the other unique keys. A partial one, or one with an expression, can make an INSERT wait too.
pub(crate) fn unique_keys(table: &Table) -> impl Iterator<Item = &[String]> {
    let primary = Some(table.primary_key.as_slice()).filter(|k| !k.is_empty());
    let others = table.unique_keys.iter().map(|k| k.columns.as_slice()).filter(|k| *k != table.primary_key.as_slice());
    primary.into_iter().chain(others)
}

/// The columns of `ON CONFLICT (..)`, in the order of the key that they are.
fn target_columns(target: &ConflictTarget, table: Option<&Table>, dialect: Dialect) -> Option<Vec<String>> {
    match target {
        ConflictTarget::Columns { columns, .. } => {
            let columns: Vec<String> =
                columns.iter().map(|c| name::column(table, &name::fold(c, dialect), dialect)).collect();
            Some(table.and_then(|t| crate::rows::in_key_order(t, &columns)).unwrap_or(columns))
        }
        ConflictTarget::OnConstraint(constraint) => {
            let constraint = name::parts(constraint, dialect).pop()?;
            table?.unique_keys.iter().find(|k| k.name == constraint).map(|k| k.columns.clone())
        }
    }
}
