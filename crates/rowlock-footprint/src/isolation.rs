//! How isolated a transaction runs: InnoDB locks more of what it reads the more it must not change.

use std::fmt;

use crate::Dialect;

/// A transaction's isolation level, as far as it changes what is locked.
///
/// ```
/// use rowlock_footprint::{Dialect, Isolation};
///
/// assert_eq!(Isolation::default_of(Dialect::MySql), Isolation::RepeatableRead);
/// assert_eq!(Isolation::parse("READ-COMMITTED"), Some(Isolation::ReadCommitted));
/// assert_eq!(Isolation::Serializable.to_string(), "serializable");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Isolation {
    /// READ COMMITTED. (READ UNCOMMITTED locks the same.)
    ReadCommitted,
    /// REPEATABLE READ: InnoDB locks gaps, and shares the rows that a writing statement reads.
    RepeatableRead,
    /// SERIALIZABLE: InnoDB shares whatever a transaction reads.
    Serializable,
}

impl Isolation {
    /// What a server runs that nobody has told otherwise.
    pub const fn default_of(dialect: Dialect) -> Isolation {
        match dialect {
            Dialect::Postgres => Isolation::ReadCommitted,
            Dialect::MySql | Dialect::MariaDb => Isolation::RepeatableRead,
            Dialect::Sqlite => Isolation::Serializable,
        }
    }

    /// By its name in SQL, in any case, with blanks, hyphens or underscores.
    pub fn parse(name: &str) -> Option<Isolation> {
        let name = name.trim().trim_matches(['\'', '"']).replace(['-', '_'], " ").to_ascii_lowercase();
        match name.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["read", "committed" | "uncommitted"] => Some(Isolation::ReadCommitted),
            ["repeatable", "read"] => Some(Isolation::RepeatableRead),
            ["serializable"] => Some(Isolation::Serializable),
            _ => None,
        }
    }
}

impl fmt::Display for Isolation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Isolation::ReadCommitted => "read committed",
            Isolation::RepeatableRead => "repeatable read",
            Isolation::Serializable => "serializable",
        })
    }
}
