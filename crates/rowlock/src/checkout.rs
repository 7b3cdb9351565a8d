//! A connection of the pool's for a kind of transaction: how long it is waited for, and what its loss says.
//!
//! A statement that stands alone is done when the server has done it, and the answer may be lost. So it is known to be not
//! done, and run again on another connection, only where
//!
//! - nothing was sent: no connection was had, or the one that was had turned out to be dead before;
//! - the system refused to send it (a broken pipe);
//! - the server itself said, before any answer, that it ends the session: it rolls back what is under way, or says what
//!   happened while nobody asked.
//!
//! A line that just ends says nothing. So that it does not end under the first statement after a restart, a connection that
//! was not in use a moment ago, or not since another was lost, is asked whether it lives before a statement is sent alone.

use std::time::{Duration, Instant};

use sqlx::pool::PoolConnection;

use crate::{
    connection::Connection, count::Event, engine::Engine, error::Error, failure::Failure, kind::Kind,
    progress::Progress,
};

/// Where nothing is to be waited for, a connection may take so long to be made or asked: nobody else holds it up.
const AT_ONCE: Duration = Duration::from_millis(500);

impl<E: Engine> Kind<E> {
    /// A connection of the pool, waited for as long as the kind waits for a lock, and not beyond its deadline.
    pub(crate) async fn take(&self, began: Instant) -> Result<PoolConnection<E>, Error> {
        let asked = Instant::now();
        let left = self.options.deadline.saturating_sub(began.elapsed());
        let limit = self.options.wait.min(left).max(AT_ONCE);
        let taken = std::pin::pin!(self.shared.pool.acquire());
        let taken = self.shared.ticker.timeout_at(asked + limit, taken).await;
        match taken.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
            Ok(taken) => Ok(taken),
            Err(sqlx::Error::PoolTimedOut) => {
                self.shared.counters.count(Event::Busy, &self.name);
                Err(Error::NoConnection { kind: self.name.clone(), waited: asked.elapsed() })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// A connection for a statement outside a transaction; `None`: that failed in a way that another try may mend.
    pub(crate) async fn take_alone(
        &self,
        progress: &mut Progress,
        began: Instant,
    ) -> Result<Option<Connection<E>>, Error> {
        match self.take(began).await {
            Ok(taken) => Ok(Some(Connection::taken(&self.shared, taken))),
            Err(Error::Database(error)) => {
                let failure = Failure::of::<E>(self.shared.dialect, &error);
                if !failure.is_transient() {
                    return Err(error.into());
                }
                self.failed(progress, began, failure, error.to_string()).await.map(|()| None)
            }
            Err(error) => Err(error),
        }
    }

    /// A connection that was taken was of no use, and nothing was sent on it: another, or the error.
    pub(crate) async fn unsent(
        &self,
        error: sqlx::Error,
        progress: &mut Progress,
        began: Instant,
    ) -> Result<(), Error> {
        let failure = Failure::of::<E>(self.shared.dialect, &error);
        if !failure.is_transient() {
            return Err(error.into());
        }
        // Each connection of the pool may be dead, and each is met once: no attempt that failed.
        progress.dead += 1;
        if failure == Failure::ConnectionLost && progress.dead <= self.shared.pool.options().get_max_connections() {
            self.shared.sessions.note_lost();
            self.shared.counters.count(Event::Retry(failure), &self.name);
            return Ok(());
        }
        self.failed(progress, began, failure, error.to_string()).await
    }

    /// Whether a statement alone whose connection was lost is known to be not done.
    pub(crate) fn is_undone(&self, error: &sqlx::Error) -> bool {
        match error {
            // A pooler speaks for itself, not for the server.
            sqlx::Error::Database(error) => self.shared.straight && E::ends_session(&**error),
            sqlx::Error::Io(error) => error.kind() == std::io::ErrorKind::BrokenPipe,
            _ => false,
        }
    }
}

/// An error behind the answer of a statement: what it says of the connection says nothing of the statement.
pub(crate) fn behind<E: Engine>(error: sqlx::Error) -> sqlx::Error {
    match error {
        sqlx::Error::Io(error) => sqlx::Error::Io(std::io::Error::other(error)),
        sqlx::Error::Database(error) if E::ends_session(&*error) => sqlx::Error::Io(std::io::Error::other(error)),
        error => error,
    }
}
