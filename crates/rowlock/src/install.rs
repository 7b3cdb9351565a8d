//! rowlock's own tables: commit tokens, and the guard rows of creation on MySQL and MariaDB.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use rowlock_footprint::{Dialect, TableName};

use crate::{LockOrder, check::full_name, creation};

/// The SQL that makes rowlock's own tables for the order `O`, for your own migrations: several statements, each of which
/// may be run again without harm. [`Db::install`](crate::Db::install) runs it.
///
/// ```
/// rowlock::lock_order! { order Shop { Order => "orders" (id: i64) } }
/// let sql = rowlock::install_sql::<Shop>(rowlock::Dialect::Postgres);
/// assert!(sql.contains("rowlock_token"));
/// ```
pub fn install_sql<O: LockOrder>(dialect: Dialect) -> String {
    let tables: Vec<TableName> = O::RESOURCES.iter().map(|r| TableName::parse(r.table)).collect();
    let mut classes = BTreeMap::<Option<&str>, BTreeSet<i64>>::new();
    for table in &tables {
        // Whether the server tells names apart by case is not known here.
        let both = [false, true].map(|folded| creation::class(dialect, table, folded));
        classes.entry(table.schema.as_deref()).or_default().extend(both);
    }
    sql(dialect, &classes)
}

/// The table of the guard rows of a database's resources (MySQL, MariaDB).
pub(crate) fn guards(database: Option<&str>) -> String {
    let name = TableName { schema: database.map(str::to_owned), name: "rowlock_guard".into() };
    match database {
        Some(_) => full_name(Dialect::MySql, &name),
        None => name.name,
    }
}

/// `classes`: those of the resources' guards, by database.
pub(crate) fn sql(dialect: Dialect, classes: &BTreeMap<Option<&str>, BTreeSet<i64>>) -> String {
    let mut sql = String::from(match dialect {
        Dialect::Postgres => {
            "CREATE TABLE IF NOT EXISTS rowlock_token (token uuid PRIMARY KEY, void smallint NOT NULL DEFAULT 0, \
             made_at timestamptz NOT NULL DEFAULT now());\n"
        }
        Dialect::MySql | Dialect::MariaDb => {
            "CREATE TABLE IF NOT EXISTS rowlock_token (token binary(16) PRIMARY KEY, void smallint NOT NULL DEFAULT 0, \
             made_at timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP, KEY (made_at)) ENGINE=InnoDB;\n"
        }
        Dialect::Sqlite => {
            "CREATE TABLE IF NOT EXISTS rowlock_token (token blob PRIMARY KEY NOT NULL, void smallint NOT NULL DEFAULT 0, \
             made_at text NOT NULL DEFAULT CURRENT_TIMESTAMP);\n"
        }
    });
    if !dialect.is_innodb() {
        return sql;
    }
    for (database, classes) in classes {
        let table = guards(*database);
        let _ = writeln!(
            sql,
            "CREATE TABLE IF NOT EXISTS {table} (class bigint NOT NULL, slot int NOT NULL, PRIMARY KEY (class, slot)) ENGINE=InnoDB;"
        );
        for class in classes {
            let _ = write!(sql, "INSERT IGNORE INTO {table} (class, slot) VALUES ");
            for slot in 0..creation::SLOTS {
                let _ = write!(sql, "{}({class}, {slot})", if slot == 0 { "" } else { ", " });
            }
            sql.push_str(";\n");
        }
    }
    sql
}
