//! The statements of edits, and what the schema says of them.
//!
//! One row: `UPDATE t SET .., version = version + 1 WHERE key = .. AND version = ..`. Many rows are locked already;
//! their values come as a table that is joined by key, row by row from its side, so that no engine scans the other.

use std::{collections::HashSet, fmt::Write};

use rowlock_footprint::{Column, Dialect, Strength};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use crate::{
    Edit, KeyValue, LockOrder, Resource, Versioned,
    check::{TargetColumn, quote},
    engine::Engine,
    error::Error,
    footing::Footing,
    model::Model,
    query::Query,
    statement::Statement,
};

/// The most parameters of one statement (SQLite's default limit is 32,766), and the most rows.
const PARAMETERS: usize = 10_000;
const ROWS: usize = 200;

/// What an edit is, on the schema as it is.
pub(crate) struct Editing {
    pub(crate) rank: u16,
    resource: &'static str,
    version: &'static str,
    /// The version's column, quoted.
    quoted_version: String,
    /// The columns that are set, quoted.
    quoted: Vec<String>,
    /// The statement that writes one row.
    text: String,
    /// What the statement locks its row at.
    pub(crate) strength: Strength,
    /// It locks rows besides its own (a foreign key's parent), so that the guard must see each.
    pub(crate) alone: bool,
}

impl Editing {
    /// Looks the columns up, and refuses what cannot be.
    pub(crate) fn of<R: Resource, E: Engine, T: Versioned>(model: &Model, edit: &Edit<E, T>) -> Result<Editing, Error> {
        let resource = R::Order::RESOURCES[usize::from(R::RANK)].name;
        let refused = |column, reason: String| Error::Edit { resource, column, reason };
        let counter = model.counter(R::RANK, T::VERSION);
        let version = counter.map_err(|reason| refused(Some(T::VERSION), format!("no version: {reason}")))?;
        if i128::from(edit.version) >= version.range.high {
            let reason =
                format!("the row of key {} has version {}, the last that the column holds", edit.key, edit.version);
            return Err(refused(Some(T::VERSION), reason));
        }
        let target = &model.targets[usize::from(R::RANK)];
        let mut quoted = Vec::with_capacity(edit.columns.len());
        for (n, name) in edit.columns.iter().enumerate() {
            let column = model
                .column(R::RANK, name)
                .ok_or_else(|| refused(Some(*name), format!("`{}` has no such column", target.name)))?;
            let own = |c: &TargetColumn| c.name == column.name;
            if target.columns.iter().any(own) || column.name == version.name {
                return Err(refused(Some(*name), "the key and the version of a row cannot be set".into()));
            }
            if edit.columns[..n].iter().any(|other| same(model.dialect, other, column)) {
                return Err(refused(Some(*name), "it is set twice".into()));
            }
            quoted.push(quote(model.dialect, &column.name));
        }
        let mut editing = Editing {
            rank: R::RANK,
            resource,
            version: T::VERSION,
            quoted_version: version.quoted.clone(),
            quoted,
            text: String::new(),
            strength: Strength::NoKeyUpdate,
            alone: false,
        };
        editing.text = single_text::<E>(model, &editing);
        if let Footing::Checked(checked) = &*model.footing(&editing.text) {
            for demand in &checked.demands {
                match demand.rank == R::RANK && !demand.parent && !demand.insert {
                    true => editing.strength = editing.strength.max(demand.strength),
                    false => editing.alone = true,
                }
            }
        }
        Ok(editing)
    }

    pub(crate) fn error(&self, column: Option<&'static str>, reason: String) -> Error {
        Error::Edit { resource: self.resource, column: column.or(Some(self.version)), reason }
    }
}

fn same(dialect: Dialect, name: &str, column: &Column) -> bool {
    match dialect {
        Dialect::Postgres => column.name == name,
        _ => column.name.eq_ignore_ascii_case(name),
    }
}

impl Model {
    fn column(&self, rank: u16, name: &str) -> Option<&Column> {
        self.table(rank)?.columns.iter().find(|column| same(self.dialect, name, column))
    }
}

/// Two edits of one row: the second could only conflict with the first.
pub(crate) fn refuse_twice<'k, R: Resource>(keys: impl Iterator<Item = &'k KeyValue>) -> Result<(), Error> {
    let mut seen = HashSet::new();
    for key in keys {
        if !seen.insert(key) {
            let resource = R::Order::RESOURCES[usize::from(R::RANK)].name;
            let reason = format!("two edits of the row of key {key} in one call: the second could only conflict");
            return Err(Error::Edit { resource, column: None, reason });
        }
    }
    Ok(())
}

/// The statement that writes one row, from its version.
pub(crate) fn single<E: Engine, T>(model: &Model, editing: &Editing, edit: &Edit<E, T>) -> Query<E> {
    let query = query(editing.text.clone());
    let query = edit.values.iter().fold(query, |query, bind| bind(query));
    query.bind_key(&edit.key, &model.targets[usize::from(editing.rank)]).bind(edit.version)
}

fn single_text<E: Engine>(model: &Model, editing: &Editing) -> String {
    let target = &model.targets[usize::from(editing.rank)];
    // Of the table by name: SQLite reads a quoted column alone that is not there (any more) as text.
    let mut sql = format!("UPDATE {} AS t SET ", target.table);
    let mut next = Numbers::new(model.dialect);
    for column in &editing.quoted {
        let _ = write!(sql, "{column} = {}, ", next.plain());
    }
    let version = &editing.quoted_version;
    let _ = write!(sql, "{version} = t.{version} + 1 WHERE ");
    key_condition::<E>(&mut sql, &target.columns, &mut next);
    let _ = write!(sql, " AND t.{version} = {}", next.plain());
    sql
}

/// The statement that reads one row.
pub(crate) fn read<E: Engine>(model: &Model, rank: u16, key: &KeyValue) -> Query<E> {
    let target = &model.targets[usize::from(rank)];
    let mut sql = format!("SELECT {} FROM {} t WHERE ", target.row, target.table);
    key_condition::<E>(&mut sql, &target.columns, &mut Numbers::new(model.dialect));
    query(sql).bind_key(key, target)
}

fn key_condition<E: Engine>(sql: &mut String, columns: &[TargetColumn], next: &mut Numbers) {
    for (n, column) in columns.iter().enumerate() {
        let and = if n == 0 { "" } else { " AND " };
        let _ = write!(sql, "{and}t.{} = {}", column.quoted, E::key_value(column, next.number()));
    }
}

/// How many rows one statement writes.
pub(crate) fn room(model: &Model, editing: &Editing) -> usize {
    let each = editing.quoted.len() + model.targets[usize::from(editing.rank)].columns.len();
    (PARAMETERS / each.max(1)).clamp(1, ROWS)
}

/// The statement that writes many rows, all locked and of the right version.
pub(crate) fn many<E: Engine, T>(
    model: &Model,
    editing: &Editing,
    edits: &[(&Edit<E, T>, &Editing)],
) -> Result<Statement<E>, Error> {
    let target = &model.targets[usize::from(editing.rank)];
    let mut next = Numbers::new(model.dialect);
    let mut values = String::new();
    for row in 0..edits.len() {
        values.push_str(match (model.dialect, row) {
            (Dialect::Postgres, 0) => "VALUES (",
            (Dialect::Postgres, _) => "), (",
            (_, 0) => "SELECT ",
            (_, _) => " UNION ALL SELECT ",
        });
        let keys = target.columns.iter().map(|column| E::joined_key_value(column, next.number())).collect::<Vec<_>>();
        let keys = keys.into_iter().enumerate().map(|(n, value)| (format!("k{n}"), value));
        let sets = (0..editing.quoted.len()).map(|n| (format!("v{n}"), next.plain()));
        for (n, (name, value)) in keys.chain(sets).enumerate() {
            let comma = if n == 0 { "" } else { ", " };
            // PostgreSQL names the columns behind the alias.
            let name =
                if row == 0 && model.dialect != Dialect::Postgres { format!(" AS {name}") } else { String::new() };
            let _ = write!(values, "{comma}{value}{name}");
        }
    }
    let on = target.columns.iter().enumerate().map(|(n, column)| format!("t.{} = v.k{n}", column.quoted));
    let on = on.collect::<Vec<_>>().join(" AND ");
    let (table, version) = (&target.table, &editing.quoted_version);
    let of = if model.dialect.is_innodb() { "t." } else { "" };
    let mut set = String::new();
    for (n, column) in editing.quoted.iter().enumerate() {
        let _ = write!(set, "{of}{column} = v.v{n}, ");
    }
    let _ = write!(set, "{of}{version} = t.{version} + 1");
    let sql = match model.dialect {
        Dialect::Postgres => {
            let keys = (0..target.columns.len()).map(|n| format!("k{n}"));
            let names = keys.chain((0..editing.quoted.len()).map(|n| format!("v{n}"))).collect::<Vec<_>>().join(", ");
            format!("UPDATE {table} t SET {set} FROM ({values})) v({names}) WHERE {on}")
        }
        Dialect::Sqlite => format!("UPDATE {table} AS t SET {set} FROM ({values}) v WHERE {on}"),
        Dialect::MySql | Dialect::MariaDb => {
            format!("UPDATE ({values}) v STRAIGHT_JOIN {table} t FORCE INDEX ({}) ON {on} SET {set}", target.index)
        }
    };
    let mut query = query(sql);
    for (edit, _) in edits {
        query = query.bind_key(&edit.key, target);
        query = edit.values.iter().fold(query, |query, bind| bind(query));
    }
    query.into_statement()
}

fn query<E: Engine>(sql: String) -> Query<E> {
    Query::new(AssertSqlSafe(sql).into_sql_str())
}

/// Numbers placeholders from 1, where they have numbers.
struct Numbers {
    numbered: bool,
    last: usize,
}

impl Numbers {
    fn new(dialect: Dialect) -> Self {
        Numbers { numbered: dialect == Dialect::Postgres, last: 0 }
    }

    fn number(&mut self) -> usize {
        self.last += 1;
        self.last
    }

    fn plain(&mut self) -> String {
        let n = self.number();
        if self.numbered { format!("${n}") } else { "?".into() }
    }
}
