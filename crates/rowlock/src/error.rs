//! What can go wrong, told so that code can match it and a tired person can act on it.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, LazyLock, PoisonError, RwLock},
    time::Duration,
};

use crate::{
    KeyValue,
    check::Report,
    failure::Failure,
    violation::{Refusal, Violation},
};

/// An error of rowlock's own, or of the database through it.
///
/// Inside sqlx's executor calls (`sqlx::query(..).execute(&mut tx)`) these travel in [`sqlx::Error::Configuration`], whose
/// message puts its own words before theirs. `From<sqlx::Error>` takes them out again, and [`Error::of`] finds them in any
/// error that has one among its causes.
///
/// A message does not repeat that of its cause, which is its [`source`](std::error::Error::source): print the chain
/// (`{:#}` of anyhow and eyre). ([`Error::Database`] speaks as sqlx does, which repeats.)
///
/// ```
/// # rowlock_testing::guide! { db =>
/// use rowlock::Error;
///
/// let error = db.transaction(async |tx| tx.lock::<Order>([99]).nowait().await.map(drop)).await.unwrap_err();
/// let code = match &error {
///     Error::Missing { .. } => 404,
///     Error::NoConnection { .. } => 503,
///     error if error.is_busy() => 409,
///     error if error.is_transient() => 503,
///     _ => 500,
/// };
/// assert_eq!(code, 404);
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Rows that were to be locked are not there, looked for twice.
    #[error("{kind}: no row of `{resource}` with key {}; use `.existing()` to lock those that are there", list(keys))]
    Missing {
        /// The kind of transaction.
        kind: KindName,
        /// The resource.
        resource: &'static str,
        /// The keys that have no row.
        keys: Vec<KeyValue>,
    },

    /// A row is another transaction's, and it was not to be waited for, or not for so long; or its queue is full. For a
    /// caller who may try again: 409, and 429 where it was turned away.
    #[error("{kind}: {} {}{}", named(resource, keys), if *turned_away { "has too many waiting" } else { "is busy" }, how_long(*waited))]
    Busy {
        /// The kind of transaction.
        kind: KindName,
        /// The resource.
        resource: &'static str,
        /// The keys that were asked for; one of them at least is busy. Empty where it is not known which row it is.
        keys: Vec<KeyValue>,
        /// How long it was waited for; `None` for `nowait`.
        waited: Option<Duration>,
        /// A gate of this process did not let it in ([`Gate`](crate::Gate)): nothing was sent.
        turned_away: bool,
    },

    /// No connection of the pool was had within the kind's [`wait`](crate::Kind::wait) limit, or within the pool's own:
    /// each is in use, or the server lets none in. Nothing was sent. For a caller who may try again: 503 with Retry-After.
    #[error("{kind}: no connection of the pool within {waited:?}; transactions are too long, or too many for the pool")]
    NoConnection {
        /// The kind of transaction.
        kind: KindName,
        /// How long one was waited for.
        waited: Duration,
    },

    /// A lock was asked for that lies below one that is held, or is stronger than it, and it could not be had without
    /// waiting (then the transaction restarts, and the caller does not see this) or [`Late::Refuse`](crate::Late) is set.
    #[error(transparent)]
    OutOfOrder(Box<Violation>),

    /// A statement that the guard does not let pass.
    #[error(transparent)]
    Refused(Box<Refusal>),

    /// The transaction was run as often, or as long, as it may be.
    #[error("{kind}: gave up after {} attempts: {}", attempts.len(), list(attempts))]
    Exhausted {
        /// The kind of transaction.
        kind: KindName,
        /// What ended each attempt, first to last.
        attempts: Vec<Attempt>,
    },

    /// The connection was lost at COMMIT and there was no commit token to ask, or it could not be asked: the transaction
    /// is committed wholly or not at all, and which is not known.
    #[error("{kind}: the answer to COMMIT was lost; use `.commit_token(true)` to have it resolved")]
    CommitUnknown {
        /// The kind of transaction.
        kind: KindName,
        /// What happened to the connection.
        source: sqlx::Error,
    },

    /// Locks were held longer than the kind's hold limit; the transaction was ended and rolled back.
    #[error(
        "{kind}: held locks for more than its limit of {limit:?} and was rolled back; do outside calls before or after the transaction"
    )]
    HoldLimit {
        /// The kind of transaction.
        kind: KindName,
        /// The limit.
        limit: Duration,
    },

    /// The closure returned `Ok` although a statement had failed and taken the transaction with it; nothing was committed.
    #[error(
        "{kind}: rolled back, since a statement had failed and its error was not returned: {cause}; run it in a savepoint if it may fail"
    )]
    RolledBack {
        /// The kind of transaction.
        kind: KindName,
        /// The statement's error.
        cause: String,
    },

    /// The `Tx` was kept beyond its closure; the transaction was rolled back.
    #[error("{kind}: the `Tx` left its closure; return it, or let it be dropped there")]
    Escaped {
        /// The kind of transaction.
        kind: KindName,
    },

    /// A savepoint of another transaction, or one that an earlier rollback has undone.
    #[error("{kind}: this savepoint is not one of this transaction, or has been rolled back")]
    Savepoint {
        /// The kind of transaction.
        kind: KindName,
    },

    /// A resource of another order than the one that the database was opened with.
    #[error("`{resource}` is not in the order `{order}` that this database was opened with")]
    OtherOrder {
        /// The resource.
        resource: &'static str,
        /// The order.
        order: &'static str,
    },

    /// A column that cannot be a [`Counter`](crate::Counter), or a row whose value in it cannot be counted with.
    #[error("`{resource}`: column `{column}` cannot be counted with: {reason}")]
    Counter {
        /// The resource.
        resource: &'static str,
        /// The column.
        column: &'static str,
        /// What is wrong, and the way out.
        reason: String,
    },

    /// A quantity of a [`Change`](crate::Change) that is negative, or a new value that its column cannot hold. Nothing was
    /// sent.
    #[error("{kind}: `{resource}` {key}: {amount} {reason}")]
    Quantity {
        /// The kind of transaction.
        kind: KindName,
        /// The resource.
        resource: &'static str,
        /// The item's key.
        key: KeyValue,
        /// The quantity, or the value.
        amount: i64,
        /// What is wrong, and the way out.
        reason: String,
    },

    /// An [`Edit`](crate::Edit) that cannot be. Nothing was written.
    #[error("`{resource}`{}: {reason}", column.map_or(String::new(), |c| format!(", column `{c}`")))]
    Edit {
        /// The resource.
        resource: &'static str,
        /// The column, where it is one's fault.
        column: Option<&'static str>,
        /// What is wrong, and the way out.
        reason: String,
    },

    /// Something needs rowlock's own tables and they are not there.
    #[error(
        "{feature} needs rowlock's own tables: call `db.install().await` once, or run the SQL of `rowlock::install_sql` in your migrations"
    )]
    NotInstalled {
        /// What needs them.
        feature: &'static str,
    },

    /// The merger was closed, or went down with its runtime, before the request had an outcome; or the request was withdrawn.
    #[error("{kind}: the merger is closed, or the request was withdrawn")]
    Closed {
        /// The kind of transaction.
        kind: KindName,
    },

    /// The transaction that a merged request shared with others failed, and each of them with it.
    #[error("{kind}: the transaction of {requests} merged requests failed")]
    Merged {
        /// The kind of transaction.
        kind: KindName,
        /// How many they were.
        requests: usize,
        /// Why it failed.
        source: Arc<Error>,
    },

    /// The idempotency key of a request is in the ledger for another row, or another quantity.
    #[error(
        "{kind}: the request key {request:?} was used before, for another row or quantity; give each request a key of its own"
    )]
    RequestReused {
        /// The kind of transaction.
        kind: KindName,
        /// The key.
        request: String,
    },

    /// An idempotency key that cannot be kept.
    #[error("{kind}: the request key {request:?} has to be 1 to 255 bytes without NUL")]
    RequestKey {
        /// The kind of transaction.
        kind: KindName,
        /// The key.
        request: String,
    },

    /// A merger's ledger is not there, or is not what `ledger_sql` makes.
    #[error("the ledger `{table}` cannot be used; make it with the SQL of `rowlock::ledger_sql`")]
    Ledger {
        /// The table's name, as it was given.
        table: String,
        /// What the database says.
        source: sqlx::Error,
    },

    /// The order does not fit the database; every finding with its way out.
    #[error(transparent)]
    Check(Box<Report>),

    /// An error of the database or the driver.
    #[error(transparent)]
    Database(sqlx::Error),
}

impl Error {
    /// A row is busy, or all connections are: [`Error::Busy`], [`Error::NoConnection`], or attempts that all ended so (by the
    /// server's own limit on waits).
    pub fn is_busy(&self) -> bool {
        match self.root() {
            Error::Busy { .. } | Error::NoConnection { .. } | Error::Database(sqlx::Error::PoolTimedOut) => true,
            Error::Exhausted { attempts, .. } => attempts.iter().all(|attempt| attempt.failure == Failure::Busy),
            _ => false,
        }
    }

    /// Whether a gate turned the transaction away before anything was sent ([`Gate`](crate::Gate)), or a merger's queue was
    /// full: 429, where [`is_busy`](Error::is_busy) alone is 409.
    pub fn is_turned_away(&self) -> bool {
        matches!(self.root(), Error::Busy { turned_away: true, .. })
    }

    /// The error itself; of a merged request, that of the transaction which it shared with others.
    pub fn root(&self) -> &Error {
        match self {
            Error::Merged { source, .. } => source.root(),
            error => error,
        }
    }

    /// The error of rowlock's among an error and its causes, through anyhow, sqlx, or a type of one's own that gives its
    /// cause by `source()`. An error type with `#[from] sqlx::Error` beside `#[from] rowlock::Error` has it in either. (A variant
    /// that is `#[error(transparent)]` gives not what it holds but the cause of that: match on the variant first.)
    ///
    /// ```
    /// # rowlock_testing::guide! { db =>
    /// use rowlock::Error;
    ///
    /// let result = db.transaction(async |mut tx| {
    ///     sqlx::query("update orders set status = 'paid' where status = 'new'").execute(&mut tx).await?; // refused
    ///     anyhow::Ok(())
    /// });
    /// let error = result.await.unwrap_err();
    /// assert!(error.downcast_ref::<Error>().is_none(), "it is a sqlx::Error");
    /// assert!(matches!(Error::of(error.as_ref()), Some(Error::Refused(_))));
    /// # }
    /// ```
    pub fn of<'e>(error: &'e (dyn std::error::Error + 'static)) -> Option<&'e Error> {
        causes(error).find_map(|error| {
            error.downcast_ref::<Error>().or_else(|| error.downcast_ref::<Arc<Error>>().map(|shared| &**shared))
        })
    }

    /// Whether another try by the caller may succeed: busy, or given up after attempts that each failed transiently.
    pub fn is_transient(&self) -> bool {
        match self.root() {
            Error::Busy { .. } | Error::NoConnection { .. } | Error::Exhausted { .. } => true,
            Error::Database(error) => matches!(error, sqlx::Error::PoolTimedOut),
            _ => false,
        }
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Configuration(inner) => match inner.downcast::<Error>() {
                Ok(own) => *own,
                Err(other) => Error::Database(sqlx::Error::Configuration(other)),
            },
            other => Error::Database(other),
        }
    }
}

impl From<Error> for sqlx::Error {
    fn from(error: Error) -> Self {
        match error {
            Error::Database(error) => error,
            own => sqlx::Error::Configuration(Box::new(own)),
        }
    }
}

/// The name of a kind of transaction: the one it was given, or where it was called.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct KindName(Arc<str>);

/// The names of the places where transactions are called: there are as many as the program has such calls.
static PLACES: LazyLock<RwLock<HashMap<usize, Arc<str>>>> = LazyLock::new(RwLock::default);

impl KindName {
    pub(crate) fn named(name: &str) -> KindName {
        KindName(name.into())
    }
    pub(crate) fn at(location: &'static std::panic::Location<'static>) -> KindName {
        let address = std::ptr::from_ref(location).addr();
        if let Some(name) = PLACES.read().unwrap_or_else(PoisonError::into_inner).get(&address) {
            return KindName(name.clone());
        }
        let name: Arc<str> = format!("{}:{}", location.file(), location.line()).into();
        PLACES.write().unwrap_or_else(PoisonError::into_inner).insert(address, name.clone());
        KindName(name)
    }

    /// As a label of a metric.
    pub(crate) fn label(&self) -> metrics::SharedString {
        self.0.clone().into()
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for KindName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What ended one attempt of a transaction.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// What it was.
    pub failure: Failure,
    /// The server's words.
    pub message: String,
    /// When, from the start of the first attempt.
    pub after: Duration,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {:?} ({})", self.failure, self.after, self.message)
    }
}

/// An error, what caused it, and so on.
pub(crate) fn causes<'e>(
    error: &'e (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'e (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |error| error.source())
}

fn list<T: fmt::Display>(items: &[T]) -> String {
    const SHOWN_ITEMS: usize = 10;
    let mut text = items.iter().take(SHOWN_ITEMS).map(T::to_string).collect::<Vec<_>>().join(", ");
    if items.len() > SHOWN_ITEMS {
        text.push_str(&format!(" and {} more", items.len() - SHOWN_ITEMS));
    }
    text
}

fn named(resource: &str, keys: &[KeyValue]) -> String {
    if keys.is_empty() { format!("`{resource}`") } else { format!("`{resource}` {}", list(keys)) }
}

fn how_long(waited: Option<Duration>) -> String {
    waited.map_or(String::new(), |d| format!(", waited for {d:?}"))
}

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    fn kind() -> KindName {
        KindName::named("pay")
    }

    #[test]
    fn a_message_does_not_repeat_its_cause() {
        let lost = || sqlx::Error::Io(std::io::ErrorKind::ConnectionReset.into());
        let unknown = Error::CommitUnknown { kind: kind(), source: lost() };
        let ledger = Error::Ledger { table: "ledger".into(), source: sqlx::Error::RowNotFound };
        let merged = Error::Merged { kind: kind(), requests: 2, source: Arc::new(Error::Closed { kind: kind() }) };
        for error in [unknown, ledger, merged] {
            let cause = error.source().unwrap_or_else(|| panic!("{error}: no cause"));
            assert!(!error.to_string().contains(&cause.to_string()), "{error}");
        }
    }

    #[test]
    fn it_is_found_among_the_causes_of_any_error() {
        #[derive(Debug, thiserror::Error)]
        enum Own {
            #[error("sqlx")]
            Sqlx(#[from] sqlx::Error),
            #[error(transparent)]
            Rowlock(#[from] Error),
            #[error("nothing of rowlock's")]
            Other,
        }
        let closed = || Error::Closed { kind: kind() };
        let shared = Own::Rowlock(Error::Merged { kind: kind(), requests: 2, source: Arc::new(closed()) });
        assert!(matches!(Error::of(&Own::Sqlx(closed().into())), Some(Error::Closed { .. })));
        assert!(Error::of(&Own::Rowlock(closed())).is_none(), "transparent: its cause is that of what it holds");
        assert!(matches!(Error::of(&shared).map(Error::root), Some(Error::Closed { .. })));
        let context = anyhow::Error::from(sqlx::Error::from(closed())).context("while it was paid");
        assert!(matches!(Error::of(context.as_ref()), Some(Error::Closed { .. })));
        assert!(matches!(Error::of(&closed()), Some(Error::Closed { .. })));
        assert!(Error::of(&Own::Other).is_none() && Error::of(&sqlx::Error::RowNotFound).is_none());
    }
}
