//! The four servers that a statement can be read for.

use std::fmt;

/// Which server reads the statement. MySQL and MariaDB are told apart: they share a wire protocol, not a lock manager.
///
/// ```
/// use rowlock_footprint::{Dialect, Schema, analyze};
///
/// // A name in double quotes to one server, a string to the other.
/// let sql = r#"SELECT * FROM users WHERE "name" = name FOR UPDATE"#;
/// let rows = |dialect| analyze(sql, dialect, &Schema::default()).map(|f| f.locks[0].rows.to_string());
/// assert_eq!(rows(Dialect::Postgres)?, "some rows");
/// assert_eq!(rows(Dialect::MySql)?, "name = 'name'");
/// # Ok::<_, rowlock_footprint::Unreadable>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Dialect {
    /// PostgreSQL 12 to 18.
    Postgres,
    /// MySQL 8 and 9 (InnoDB).
    MySql,
    /// MariaDB 10.5 and later (InnoDB).
    MariaDb,
    /// SQLite 3: one writer at a time; its footprint is what the same statement would lock on a server, so that a
    /// project that is developed on SQLite learns of its violations.
    Sqlite,
}

impl Dialect {
    /// MySQL or MariaDB: two strengths, locks on index entries, implicit locks.
    pub const fn is_innodb(self) -> bool {
        matches!(self, Dialect::MySql | Dialect::MariaDb)
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dialect::Postgres => "PostgreSQL",
            Dialect::MySql => "MySQL",
            Dialect::MariaDb => "MariaDB",
            Dialect::Sqlite => "SQLite",
        })
    }
}
