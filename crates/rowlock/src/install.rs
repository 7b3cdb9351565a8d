//! rowlock's own tables: commit tokens, and the guard rows of creation on MySQL and MariaDB.

use std::fmt::Write;

use rowlock_footprint::Dialect;

use crate::{LockOrder, creation};

/// The SQL that makes rowlock's own tables for the order `O`, for your own migrations: several statements, each of which
/// may be run again without harm. [`Db::install`](crate::Db::install) runs it.
///
/// ```
/// rowlock::lock_order! { order Shop { Order => "orders" (id: i64) } }
/// let sql = rowlock::install_sql::<Shop>(rowlock::Dialect::Postgres);
/// assert!(sql.contains("rowlock_token"));
/// ```
pub fn install_sql<O: LockOrder>(dialect: Dialect) -> String {
    sql(dialect, O::RESOURCES.iter().map(|r| r.table))
}

pub(crate) fn sql(dialect: Dialect, tables: impl Iterator<Item = &'static str>) -> String {
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
    if dialect.is_innodb() {
        sql.push_str(
            "CREATE TABLE IF NOT EXISTS rowlock_creation (class int NOT NULL, slot int NOT NULL, PRIMARY KEY (class, slot)) ENGINE=InnoDB;\n",
        );
        for table in tables {
            sql.push_str("INSERT IGNORE INTO rowlock_creation (class, slot) VALUES ");
            for slot in 0..creation::SLOTS {
                let _ = write!(sql, "{}({}, {slot})", if slot == 0 { "" } else { ", " }, creation::class(table));
            }
            sql.push_str(";\n");
        }
    }
    sql
}
