//! The engines that tests run on: one row for each, with its name, its variable and its family.

use std::fmt;

use rowlock_footprint::Dialect;

/// A database that tests run on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Engine {
    /// PostgreSQL 15, from Debian's package.
    Pg15,
    /// PostgreSQL 18, from a PyPI wheel.
    Pg18,
    /// MariaDB 10.11, from Debian's package.
    MariaDb,
    /// MySQL 9, from Debian sid, unpacked beside the system.
    MySql,
    /// SQLite, inside the test's process.
    Sqlite,
    /// PgBouncer in transaction mode, in front of PostgreSQL 15.
    PgBouncer,
}

/// Engines that share a wire protocol and a lock manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// PostgreSQL, straight or through PgBouncer.
    Postgres,
    /// MySQL and MariaDB, whose row locks are InnoDB's.
    InnoDb,
    /// SQLite, which has no row locks.
    Sqlite,
}

impl Engine {
    /// Every engine, in the order in which reports name them.
    pub const ALL: [Engine; 6] =
        [Engine::Pg15, Engine::Pg18, Engine::MariaDb, Engine::MySql, Engine::Sqlite, Engine::PgBouncer];

    /// The engines that are a process to start; PgBouncer last, since it stands in front of PostgreSQL 15.
    pub const SERVERS: [Engine; 5] = [Engine::Pg15, Engine::Pg18, Engine::MariaDb, Engine::MySql, Engine::PgBouncer];

    /// The name in test names, folders and options.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Pg15 => "pg15",
            Engine::Pg18 => "pg18",
            Engine::MariaDb => "mariadb",
            Engine::MySql => "mysql",
            Engine::Sqlite => "sqlite",
            Engine::PgBouncer => "pgbouncer",
        }
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Engine::Pg15 => "PostgreSQL 15",
            Engine::Pg18 => "PostgreSQL 18",
            Engine::MariaDb => "MariaDB",
            Engine::MySql => "MySQL",
            Engine::Sqlite => "SQLite",
            Engine::PgBouncer => "PgBouncer",
        }
    }

    /// The environment variable that holds the server's URL; SQLite needs none.
    pub fn variable(self) -> Option<&'static str> {
        match self {
            Engine::Pg15 => Some("ROWLOCK_TEST_PG15"),
            Engine::Pg18 => Some("ROWLOCK_TEST_PG18"),
            Engine::MariaDb => Some("ROWLOCK_TEST_MARIADB"),
            Engine::MySql => Some("ROWLOCK_TEST_MYSQL"),
            Engine::PgBouncer => Some("ROWLOCK_TEST_PGBOUNCER"),
            Engine::Sqlite => None,
        }
    }

    /// Which driver speaks to it, and which rules its locks follow.
    pub fn family(self) -> Family {
        match self {
            Engine::Pg15 | Engine::Pg18 | Engine::PgBouncer => Family::Postgres,
            Engine::MariaDb | Engine::MySql => Family::InnoDb,
            Engine::Sqlite => Family::Sqlite,
        }
    }

    /// Which of the lock model's dialects it speaks.
    pub fn dialect(self) -> Dialect {
        match self {
            Engine::Pg15 | Engine::Pg18 | Engine::PgBouncer => Dialect::Postgres,
            Engine::MariaDb => Dialect::MariaDb,
            Engine::MySql => Dialect::MySql,
            Engine::Sqlite => Dialect::Sqlite,
        }
    }

    /// The engine of that name, if there is one.
    pub fn named(name: &str) -> Option<Engine> {
        Engine::ALL.into_iter().find(|engine| engine.name() == name)
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}
