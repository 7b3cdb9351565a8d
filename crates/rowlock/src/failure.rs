//! What an error means for the transaction in which it happened.

use std::fmt;

use rowlock_footprint::Dialect;

use crate::engine::Engine;

/// What happened to a transaction, told apart as far as it matters for what is to be done. The codes were seen on the
/// servers themselves; each engine's table stands in its file in `engine/`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failure {
    /// The server chose this transaction as a deadlock's victim (40P01, 1213), or a cluster's certification did.
    Deadlock,
    /// The data changed under the transaction's snapshot (40001; 1020 on MariaDB; SQLITE_BUSY_SNAPSHOT).
    Serialization,
    /// A lock was not had without waiting, or not within the limit (55P03, 3572, 1205, SQLITE_BUSY).
    Busy,
    /// The statement was ended from outside (57014, 1317).
    Cancelled,
    /// A row with that key is there already (23505, 1062, SQLITE_CONSTRAINT_UNIQUE).
    Duplicate,
    /// The connection is gone, or the server is going: whatever was not committed is rolled back.
    ConnectionLost,
    /// The schema is not what it was when the statement was prepared or checked.
    SchemaChanged,
    /// Anything else: the statement is wrong, or a constraint forbids it.
    Other,
}

impl Failure {
    /// The whole transaction may be run again: nothing of it is left, and another run may fare better.
    pub fn is_transient(self) -> bool {
        matches!(self, Failure::Deadlock | Failure::Serialization | Failure::Busy | Failure::ConnectionLost)
    }

    /// Tells what an error of sqlx means.
    pub(crate) fn of<E: Engine>(dialect: Dialect, error: &sqlx::Error) -> Failure {
        match error {
            sqlx::Error::Database(error) => E::failure(dialect, &**error),
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed | sqlx::Error::BeginFailed => {
                Failure::ConnectionLost
            }
            _ => Failure::Other,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Failure::Deadlock => "deadlock",
            Failure::Serialization => "serialization failure",
            Failure::Busy => "busy",
            Failure::Cancelled => "cancelled",
            Failure::Duplicate => "duplicate key",
            Failure::ConnectionLost => "connection lost",
            Failure::SchemaChanged => "schema changed",
            Failure::Other => "error",
        })
    }
}
