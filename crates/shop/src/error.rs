//! What can stand in the way of an operation of the shop.

use std::sync::Arc;

/// The result of an operation of the shop.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation was not done. Nothing of it has happened, since each is one transaction; only
/// [`Unfinished`](Error::Unfinished) has two, and tells of the second.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// What the request is about does not exist.
    #[error("there is no {what} {id}")]
    NotFound {
        /// `order`, `item`, `account`.
        what: &'static str,
        /// Its id.
        id: i64,
    },
    /// A value of the request cannot be.
    #[error("{at}: {why}")]
    Invalid {
        /// The field, as a path: `lines[2].quantity`.
        at: String,
        /// What is wrong with it.
        why: String,
    },
    /// Fewer pieces are there than were asked for.
    #[error("item {item} has {stock} in stock, {wanted} are wanted")]
    OutOfStock {
        /// The item.
        item: i64,
        /// How many were asked for.
        wanted: i64,
        /// How many there are.
        stock: i64,
    },
    /// An account holds less than is to be taken from it.
    #[error("account {account} holds {balance}, {wanted} is needed")]
    Insufficient {
        /// The account.
        account: i64,
        /// What was to be taken.
        wanted: i64,
        /// What it holds.
        balance: i64,
    },
    /// A number would leave the range that the shop keeps to.
    #[error("{what} {id} would hold more than {limit}")]
    Full {
        /// `item`, `account`.
        what: &'static str,
        /// Its id.
        id: i64,
        /// The most that it may hold.
        limit: i64,
    },
    /// The order's state does not allow it.
    #[error("order {order} is {status}, so it cannot be {wanted}")]
    NotOpen {
        /// The order.
        order: i64,
        /// What it is.
        status: String,
        /// What it was to become.
        wanted: &'static str,
    },
    /// The order is not what it was when the client read it.
    #[error("order {order} has changed: it is version {now}, and version {read} was read")]
    Changed {
        /// The order.
        order: i64,
        /// The version that the client read.
        read: i64,
        /// The version that there is.
        now: i64,
    },
    /// The pieces were granted, for good, and their order could not be written. It will be: when the request comes again
    /// with its key, at the next start, or by `shop batch settle`.
    #[error("the pieces are the buyer's, their order is not written yet: {0}")]
    Unfinished(Arc<Self>),
    /// A row was busy, the database refused, or it was not there.
    #[error(transparent)]
    Database(#[from] rowlock::Error),
}

/// Inside a transaction rowlock's own errors come out of sqlx's calls; here they are unpacked.
impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self::Database(error.into())
    }
}

impl Error {
    /// A value of the request cannot be: which, and why.
    pub fn invalid(at: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Invalid { at: at.into(), why: why.into() }
    }

    /// Whether a row with that key was there already.
    pub fn is_duplicate(&self) -> bool {
        self.refusal().is_some_and(sqlx::error::DatabaseError::is_unique_violation)
    }

    /// The engine's own code of a database error: `40P01`, `1213`, `517`.
    pub fn code(&self) -> Option<String> {
        self.refusal().map(code_of)
    }

    /// What the database said.
    fn refusal(&self) -> Option<&dyn sqlx::error::DatabaseError> {
        let mut error = match self {
            Self::Unfinished(source) => return source.refusal(),
            Self::Database(error) => error,
            _ => return None,
        };
        while let rowlock::Error::Merged { source, .. } = error {
            error = source;
        }
        match error {
            rowlock::Error::Database(sqlx::Error::Database(error)) => Some(error.as_ref()),
            _ => None,
        }
    }
}

/// The number by which people know an error: on MySQL the error number (its SQLSTATE says little), else the code.
fn code_of(error: &dyn sqlx::error::DatabaseError) -> String {
    match error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>() {
        Some(mysql) => mysql.number().to_string(),
        None => error.code().unwrap_or_default().into_owned(),
    }
}
