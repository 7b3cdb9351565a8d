//! A transaction's connection as it is, for functions that take sqlx's own types.
//!
//! Functions that are written against `&mut PgConnection` or `&mut Transaction<'_, Postgres>` cannot take a [`Tx`], and what
//! they send goes past the guard. Two things must hold all the same: the runner decides on what the connection saw, and nothing
//! is committed after an error that somebody swallowed. So the part stands in a savepoint:
//!
//! ```text
//! unguarded() --SAVEPOINT--> the functions' statements --end()--RELEASE--> goes on
//!                                                      --failed(error)---> what the error means is noted, as a statement's
//!                                                      --dropped---------> nothing of the transaction is committed
//! ```
//!
//! RELEASE fails where the transaction is not what it was: PostgreSQL refuses it after any error, InnoDB does not know the
//! savepoint after a deadlock, and none knows it after a COMMIT or ROLLBACK in between. It is sqlx's own nested transaction,
//! so that a function's `connection.begin()` is one more savepoint and not a BEGIN.

use std::{
    error::Error as StdError,
    fmt,
    ops::{Deref, DerefMut},
};

use crate::{
    Tx,
    connection::Nested,
    engine::Engine,
    error::{Error, causes},
    inner::{Inner, Seen},
};

const DROPPED: &str = "a connection without the guard was dropped before `end` or `failed`";
const GONE: &str = "what was sent on a connection without the guard has ended the transaction, left one open in it, or failed and the \
                    error was not returned";

/// The connection of a transaction, without the guard; made by [`Tx::unguarded`]. It dereferences to sqlx's connection.
#[must_use = "without `end` or `failed` the transaction cannot be committed"]
pub struct Unguarded<'t, E: Engine> {
    inner: &'t mut Inner<E>,
    nested: Nested,
    ended: bool,
}

impl<E: Engine, L> Tx<E, L> {
    /// The connection itself, for functions that take `&mut PgConnection` or `&mut Transaction<'_, Postgres>`. rowlock does not
    /// see what they send: lock what they lock before, in order, with [`Tx::lock`]. Two round trips, for a savepoint
    /// around them.
    ///
    /// ```
    /// # rowlock_testing::guide! { db =>
    /// use sqlx::{Connection, SqliteConnection, Transaction};
    ///
    /// async fn mark(connection: &mut SqliteConnection, order: i64) -> sqlx::Result<()> {
    ///     sqlx::query("update orders set status = 'paid' where id = $1").bind(order).execute(connection).await.map(drop)
    /// }
    /// async fn book(tx: &mut Transaction<'_, sqlx::Sqlite>, account: i64) -> sqlx::Result<()> {
    ///     sqlx::query("update accounts set balance = balance - 1 where id = $1").bind(account).execute(&mut **tx).await.map(drop)
    /// }
    ///
    /// db.transaction(async |tx| {
    ///     let tx = tx.lock::<Order>([10]).await?;
    ///     let mut tx = tx.lock::<Account>([7]).await?; // all that the two will lock
    ///     let mut connection = tx.unguarded().await?;
    ///     let result = async {
    ///         mark(&mut connection, 10).await?;
    ///         let mut nested = connection.begin().await?; // a savepoint
    ///         book(&mut nested, 7).await?;
    ///         nested.commit().await
    ///     };
    ///     match result.await {
    ///         Ok(()) => connection.end().await,
    ///         Err(error) => {
    ///             connection.failed(&error); // a deadlock is run again
    ///             Err(error.into())
    ///         }
    ///     }
    /// })
    /// .await?;
    /// # }
    /// ```
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancellation
    /// Dropped under way, or the [`Unguarded`] dropped before [`end`](Unguarded::end) or [`failed`](Unguarded::failed), the
    /// transaction can only be rolled back, and its connection is closed.
    pub async fn unguarded(&mut self) -> Result<Unguarded<'_, E>, Error> {
        let inner = self.inner();
        inner.hold.start();
        inner.sending()?;
        match inner.connection.nest().await {
            Ok(nested) => Ok(Unguarded { inner, nested, ended: false }),
            Err(error) => {
                inner.note(&error);
                Err(error.into())
            }
        }
    }
}

impl<E: Engine> Unguarded<'_, E> {
    /// All that was sent succeeded: the guarded transaction goes on.
    ///
    /// # Errors
    /// [`Error::RolledBack`] where it is not so: an error was swallowed, COMMIT or ROLLBACK was sent, or a transaction was left
    /// open. (After a COMMIT, what stood before it is committed: that is not rowlock's to undo.)
    ///
    /// # Cancellation
    /// Dropped under way, the transaction can only be rolled back.
    pub async fn end(mut self) -> Result<(), Error> {
        self.ended = true;
        let released = self.inner.connection.unnest(self.nested).await;
        self.inner.pace.answered();
        let error = match released {
            Ok(true) => return Ok(()),
            Ok(false) => None,
            Err(error) => Some(error),
        };
        if let Some(error) = &error {
            self.inner.note(error);
        }
        let cause = error.map_or_else(|| GONE.to_owned(), |error| format!("{GONE}: {error}"));
        if let Seen::Transient(..) = self.inner.seen {
            return Err(Error::RolledBack { kind: self.inner.kind.clone(), cause });
        }
        self.inner.seen = Seen::Aborted(cause.clone());
        // It may be outside of any transaction: hang up.
        self.inner.pace.broken();
        Err(Error::RolledBack { kind: self.inner.kind.clone(), cause })
    }

    /// Something that was sent failed: `error`, or one of its causes, is what sqlx said, and is taken as a statement's of the
    /// transaction (a deadlock is run again). The transaction can only be rolled back.
    pub fn failed(mut self, error: &(dyn StdError + 'static)) {
        self.ended = true;
        self.inner.pace.answered();
        if let Some(told) = causes(error).find_map(|cause| cause.downcast_ref::<sqlx::Error>()) {
            self.inner.note(told);
        }
        self.inner.split().1.see(Seen::Aborted(error.to_string()));
    }
}

impl<E: Engine> Drop for Unguarded<'_, E> {
    fn drop(&mut self) {
        // The connection counts as under way still, and so is hung up.
        if !self.ended {
            self.inner.split().1.see(Seen::Aborted(DROPPED.into()));
        }
    }
}

impl<E: Engine> Deref for Unguarded<'_, E> {
    type Target = E::Connection;

    fn deref(&self) -> &E::Connection {
        self.inner.connection.peek()
    }
}

impl<E: Engine> DerefMut for Unguarded<'_, E> {
    fn deref_mut(&mut self) -> &mut E::Connection {
        self.inner.connection.get()
    }
}

impl<E: Engine> fmt::Debug for Unguarded<'_, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Unguarded({})", self.inner.kind)
    }
}
