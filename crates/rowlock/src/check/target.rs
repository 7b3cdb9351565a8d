//! What the check hands on: each resource's table and key as they are written in SQL.

use rowlock_footprint::{Column, Table, TableName, UniqueKey};

use super::Report;
use crate::{Dialect, KeyType, ResourceInfo};

/// An order that the schema bears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// One a resource; the index is the rank.
    pub targets: Vec<Target>,
    /// What should be seen to all the same: warnings only.
    pub report: Report,
}

/// Where a resource's rows stand, and how they are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The resource's type, by name.
    pub resource: &'static str,
    /// The table's full name, as stored.
    pub name: TableName,
    /// The same, quoted for SQL: `"public"."orders"`.
    pub table: String,
    /// What rowlock reads of a row: the columns that `t.*` gives, each by its name, of the table `t`. A `*` would give
    /// others after a change of the table, to a program that does not expect them (docs/adr/0023).
    pub row: String,
    /// The key's columns, in the order in which the resource declares them.
    pub columns: Vec<TargetColumn>,
    /// The unique index that finds a row by this key, quoted for SQL (`rowid` for SQLite's `integer primary key`).
    pub index: String,
    /// The key is the primary key.
    pub primary: bool,
    /// The index has its columns in the resource's order: a scan of it goes in the order of keys (of integers).
    pub in_index_order: bool,
    /// The index has all columns of the table in it. MySQL then reads the whole of it rather than some ranges, when they
    /// are a good part, and locks rows that nobody asked for on its way.
    pub covered: bool,
}

/// One column of a resource's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetColumn {
    /// Its name as stored.
    pub name: String,
    /// The same, quoted for SQL.
    pub quoted: String,
    /// What the resource declares.
    pub key: KeyType,
    /// The type as the server names it, in lower case: `bigint unsigned`, `varchar(36)`. A cast of a bound value leaves
    /// the length out, which would cut the value.
    pub type_name: String,
    /// Text on MySQL and MariaDB: what a bound value is compared by, so that the key's index finds it. (PostgreSQL takes
    /// the column's collation by itself, SQLite too.)
    pub collation: Option<String>,
    /// The character set of that collation.
    pub charset: Option<String>,
}

impl Target {
    /// The key's columns, of the table `t`: `t."a", t."b"`.
    pub(crate) fn key_list(&self) -> String {
        let columns: Vec<String> = self.columns.iter().map(|column| format!("t.{}", column.quoted)).collect();
        columns.join(", ")
    }

    pub(super) fn new(
        dialect: Dialect,
        resource: &ResourceInfo,
        table: &Table,
        key: &UniqueKey,
        columns: Vec<TargetColumn>,
        hidden: &[String],
    ) -> Target {
        // A key that `*` leaves out is read all the same: without it the row cannot be told.
        let seen = table.columns.iter().map(|column| &column.name).filter(|name| !hidden.contains(name));
        let read = seen.chain(columns.iter().map(|column| &column.name).filter(|name| hidden.contains(name)));
        let row: Vec<String> = read.map(|name| format!("t.{}", quote(dialect, name))).collect();
        Target {
            row: row.join(", "),
            resource: resource.name,
            name: table.name.clone(),
            table: full_name(dialect, &table.name),
            index: quote(dialect, &key.name),
            primary: key.columns == table.primary_key,
            covered: table.columns.iter().all(|c| key.columns.contains(&c.name) || table.primary_key.contains(&c.name)),
            in_index_order: columns.iter().map(|column| &column.name).eq(&key.columns),
            columns,
        }
    }
}

impl TargetColumn {
    pub(super) fn new(dialect: Dialect, column: &Column, key: KeyType) -> TargetColumn {
        let collation = column.collation.clone().filter(|_| dialect.is_innodb());
        TargetColumn {
            name: column.name.clone(),
            quoted: quote(dialect, &column.name),
            // From here on an integer is an integer.
            key: if key == KeyType::Unsigned { KeyType::Integer } else { key },
            type_name: column.type_name.clone(),
            charset: collation.as_deref().map(|c| charset(c).to_owned()),
            collation,
        }
    }
}

/// MySQL's and MariaDB's collations are named after their character sets.
pub(super) fn charset(collation: &str) -> &str {
    collation.split('_').next().unwrap_or_default()
}

/// `name` as an identifier of SQL.
pub(crate) fn quote(dialect: Dialect, name: &str) -> String {
    if dialect.is_innodb() {
        format!("`{}`", name.replace('`', "``"))
    } else {
        format!("\"{}\"", name.replace('"', "\"\""))
    }
}

pub(crate) fn full_name(dialect: Dialect, name: &TableName) -> String {
    let table = quote(dialect, &name.name);
    match &name.schema {
        Some(schema) => format!("{}.{table}", quote(dialect, schema)),
        None => table,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(quote(Dialect::Postgres, r#"a"b"#), r#""a""b""#);
        assert_eq!(quote(Dialect::MySql, "a`b"), "`a``b`");
        assert_eq!(full_name(Dialect::MariaDb, &TableName::parse("shop.orders")), "`shop`.`orders`");
    }
}
