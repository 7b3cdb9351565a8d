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
    /// The schema is not what it was when the statement was checked: a table or column is not there.
    SchemaChanged,
    /// The schema changed since the statement was prepared, and the server does not prepare it again by itself ("cached
    /// plan must not change result type"; 1412, 1615); or, in a transaction on SQLite, sqlx's driver died of it.
    StalePlan,
    /// The server ended the session because its transaction was idle for too long (25P03).
    Idle,
    /// The row's version was not the one that was decided on ([`Kind::revise`](crate::Kind::revise)).
    Conflict,
    /// Anything else: the statement is wrong, or a constraint forbids it.
    Other,
}

impl Failure {
    /// The whole transaction may be run again: nothing of it is left, and another run may fare better.
    pub fn is_transient(self) -> bool {
        match self {
            Failure::Deadlock | Failure::Serialization | Failure::Busy | Failure::Conflict => true,
            Failure::ConnectionLost | Failure::StalePlan | Failure::Idle => true,
            Failure::Cancelled | Failure::Duplicate | Failure::SchemaChanged | Failure::Other => false,
        }
    }

    /// Tells what an error of sqlx means.
    pub(crate) fn of<E: Engine>(dialect: Dialect, error: &sqlx::Error) -> Failure {
        match error {
            sqlx::Error::Database(error) => E::failure(dialect, &**error),
            sqlx::Error::Protocol(said) if misunderstood(dialect, said) != Misunderstood::Garbled => Failure::Other,
            sqlx::Error::Io(_) | sqlx::Error::Protocol(_) | sqlx::Error::WorkerCrashed | sqlx::Error::BeginFailed => {
                Failure::ConnectionLost
            }
            _ => Failure::Other,
        }
    }

    /// What an error means where nothing is left of what was under way. SQLite's driver dies of a statement that it prepared
    /// before the schema changed: the next connection may have such a one too.
    pub(crate) fn of_undone<E: Engine>(dialect: Dialect, error: &sqlx::Error) -> Failure {
        match error {
            sqlx::Error::WorkerCrashed => Failure::StalePlan,
            _ => Failure::of::<E>(dialect, error),
        }
    }
}

/// What a driver's "protocol" error is about. sqlx has one variant for what cannot be sent, for what the driver does not speak and
/// for bytes that make no sense; only its words tell them apart (all of sqlx 0.9's were looked through).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Misunderstood {
    /// The caller's mistake, found before the statement was sent.
    NotSent,
    /// The server did what it was asked for, and answered in a way that the driver does not know there: COPY or replication in
    /// a plain statement, a column type that is too new. Another connection would answer the same.
    NotSpoken,
    /// An answer that the protocol does not have: the connection is as good as lost.
    Garbled,
}

fn misunderstood(dialect: Dialect, said: &str) -> Misunderstood {
    // Of sqlx-postgres: message/{bind,parse,mod}, io/buf_mut, connection/{executor,resolve,describe}; then executor, message/mod
    // and copy. Of sqlx-mysql: connection/executor; then protocol/text/{column,row} and protocol/statement/row.
    let (not_sent, not_spoken): (&[&str], &[&str]) = match dialect {
        // A NUL in the text, a parameter's form, a collation's name: nothing is ever sent anywhere.
        Dialect::Sqlite => (&[""], &[]),
        Dialect::Postgres => (
            &[
                "too many arguments",
                "format codes (",
                "param_types.len()",
                "message size out of range",
                "error allocating",
                "unable to resolve type OIDs",
                "type category is listed",
                "cannot EXPLAIN",
                "error from nullables query",
            ],
            &[
                "unexpected message: Copy",
                "expected Copy",
                "got Copy",
                "message format during copy",
                "bytes read exceeds",
                "unknown message type: 'W'",
            ],
        ),
        Dialect::MySql | Dialect::MariaDb => {
            (&["parameters were provided"], &["unknown column type", "TextRow length", "BLOB length"])
        }
    };
    let says = |words: &[&str]| words.iter().any(|words| said.contains(words));
    match (says(not_sent), says(not_spoken)) {
        (true, _) => Misunderstood::NotSent,
        (_, true) => Misunderstood::NotSpoken,
        _ => Misunderstood::Garbled,
    }
}

/// Whether the statement may have been done, although the driver made nothing of the answer.
pub(crate) fn is_unread(dialect: Dialect, error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Protocol(said) if misunderstood(dialect, said) != Misunderstood::NotSent)
}

/// Whether the driver may be out of step with the server after this error. sqlx 0.9.0 counts an answer of MySQL's to a
/// statement that it did not send for its number of values, and then waits for it for ever; and what is sent to SQLite's
/// thread while that dies may never be answered.
pub(crate) fn is_out_of_step(dialect: Dialect, error: &sqlx::Error) -> bool {
    match error {
        sqlx::Error::Protocol(_) => dialect != Dialect::Sqlite,
        sqlx::Error::WorkerCrashed => true,
        _ => false,
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
            Failure::StalePlan => "stale plan",
            Failure::Idle => "idle for too long",
            Failure::Conflict => "version conflict",
            Failure::Other => "error",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_no_lost_line() {
        use Misunderstood::{Garbled, NotSent, NotSpoken};
        let cases = [
            (Dialect::Postgres, "PgConnection::run(): too many arguments for query: 70000", NotSent),
            (Dialect::Postgres, "execute: unexpected message: CopyOutResponse", NotSpoken),
            (Dialect::Postgres, "execute: unexpected message: CopyInResponse", NotSpoken),
            (Dialect::Postgres, "Postgres protocol error: expected CopyInResponse, got RowDescription", NotSpoken),
            (Dialect::Postgres, "unknown message type: 'W'", NotSpoken),
            (Dialect::Postgres, "unknown message type: '\\0'", Garbled),
            (Dialect::Postgres, "execute: unexpected message: ParseComplete", Garbled),
            (Dialect::Postgres, "received more ReadyForQuery messages than expected", Garbled),
            (Dialect::MySql, "prepared statement expected 2 parameters but 1 parameters were provided", NotSent),
            (Dialect::MariaDb, "unknown column type 0xf2", NotSpoken),
            (Dialect::MySql, "Packet empty", Garbled),
            (Dialect::Sqlite, "query contains nul bytes", NotSent),
        ];
        for (dialect, said, is) in cases {
            assert_eq!(misunderstood(dialect, said), is, "{said}");
            let failure = Failure::of::<sqlx::Sqlite>(dialect, &sqlx::Error::Protocol(said.into()));
            assert_eq!(failure.is_transient(), is == Garbled, "{said}");
            assert_eq!(is_unread(dialect, &sqlx::Error::Protocol(said.into())), is != NotSent, "{said}");
        }
    }
}
