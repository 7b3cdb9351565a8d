//! One statement by itself, without BEGIN and COMMIT: one round trip.

use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use rand::Rng;
use rowlock_footprint::{Dialect, Wait};
use sqlx::{AssertSqlSafe, SqlSafeStr};

use crate::{
    Reach, Start, Tx,
    count::Event,
    deadline,
    engine::Engine,
    error::Error,
    failure::{Failure, is_unread},
    guard::Admission,
    inner::Inner,
    kind::Kind,
    progress::Progress,
    query::Query,
    statement::changed,
};

impl<E: Engine> Kind<E> {
    /// Runs one writing statement as a transaction of its own; how many rows it changed.
    ///
    /// Where it locks at most one row, by its key, it is sent as it is, in one round trip. Several rows, a commit
    /// token, an isolation level or `read_only` make it a transaction with BEGIN and COMMIT, in which the rows are
    /// locked in order first. It is held to the order and retried as a transaction is.
    ///
    /// ```no_run
    /// # rowlock::lock_order! { order Shop { Inventory => "inventories" (id: i64) } }
    /// # async fn example(db: rowlock::Db<sqlx::Postgres>) -> rowlock::Result<()> {
    /// let sale = rowlock::query("update inventories set stock = stock - $2 where id = $1 and stock >= $2");
    /// let sold = db.kind("sell").execute(sale.bind(20i64).bind(3i64)).await? == 1;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Kind::transaction`]; besides, [`Error::CommitUnknown`] where the connection was lost while the statement
    /// was under way, since a server goes on with a statement whose client has gone. (Where it is known that it was not done,
    /// because it was never sent or the server said so, it is run again.) With a commit token that is
    /// resolved. A row that is not had within the kind's wait limit is [`Error::Busy`]: the statement is cancelled at
    /// the server (behind a pooler the server's own limit ends it).
    ///
    /// # Cancellation
    /// Dropped while the statement is under way, it may have been applied or not: what must be known wants to be
    /// awaited.
    pub async fn execute(&self, query: Query<E>) -> Result<u64, Error> {
        let _inside = self.enter().await?;
        let began = Instant::now();
        let mut progress = Progress::default();
        while self.goes_alone() {
            let Some(connection) = self.take_alone(&mut progress, began).await? else { continue };
            let mut inner = self.attempt(connection, &progress);
            let statement = query.again()?;
            if let Admission::First(_) = inner.admit(&statement)? {
                break;
            }
            let sent = Instant::now();
            let limit = self.options.wait;
            let answer = inner.alone(limit, |connection| changed::<E>(connection, statement)).await;
            if let Some(changed) = self.answered(inner, answer, &mut progress, (began, sent)).await? {
                self.shared.counters.count(Event::Committed, &self.name);
                return Ok(changed);
            }
        }
        self.inside().transaction(async |mut tx: Tx<E, Start>| query.again()?.send(tx.inner()).await).await
    }

    /// What [`Inner::alone`] came to; `None`: it failed in a way that another run may mend, and is to be sent again.
    pub(crate) async fn answered<T>(
        &self,
        inner: Box<Inner<E>>,
        answer: Result<(Option<Result<T, sqlx::Error>>, bool), sqlx::Error>,
        progress: &mut Progress,
        (began, sent): (Instant, Instant),
    ) -> Result<Option<T>, Error> {
        let (answer, cancelled) = match answer {
            Ok(answer) => answer,
            Err(error) => {
                drop(inner);
                return self.unsent(error, progress, began).await.map(|()| None);
            }
        };
        // Given up without an answer: it may have been done.
        let error = match answer.unwrap_or_else(|| Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()))) {
            Ok(value) => return Ok(Some(value)),
            Err(error) => error,
        };
        match Failure::of::<E>(self.shared.dialect, &error) {
            Failure::ConnectionLost if self.is_undone(&error) => {
                drop(inner);
                self.failed(progress, began, Failure::ConnectionLost, error.to_string()).await?;
            }
            failure if failure == Failure::ConnectionLost || is_unread(self.shared.dialect, &error) => {
                self.shared.sessions.note_lost();
                return Err(Error::CommitUnknown { kind: self.name.clone(), source: error });
            }
            Failure::Busy if self.shared.dialect == Dialect::Sqlite => {
                drop(inner);
                self.wait_for_writer(progress, sent.elapsed()).await?;
            }
            failure if failure == Failure::Busy || (cancelled && failure == Failure::Cancelled) => {
                inner.count(Event::Busy);
                return Err(inner.busy(sent.elapsed()));
            }
            failure if failure.is_transient() => {
                if failure == Failure::StalePlan {
                    inner.connection.retire().await;
                } else {
                    // Nobody waits on a connection for his next turn.
                    drop(inner);
                }
                self.failed(progress, began, failure, error.to_string()).await?;
            }
            _ => return Err(error.into()),
        }
        Ok(None)
    }

    /// Whether nothing is asked for that only a transaction has.
    pub(crate) fn goes_alone(&self) -> bool {
        let plain = !self.takes_token() && self.options.isolation.is_none() && !self.options.read_only;
        // Unprepared, a statement is described in one trip and run in the next: outside a transaction a pooler may send
        // the two to different sessions.
        plain && self.shared.keeps_prepared
    }

    /// SQLite: another has the one writer's place, and it was waited for as long as the connection does by itself.
    /// Again, until the wait limit.
    pub(crate) async fn wait_for_writer(&self, progress: &mut Progress, took: Duration) -> Result<(), Error> {
        let limit = self.options.wait;
        progress.waited += took;
        if progress.waited >= limit {
            self.shared.counters.count(Event::Busy, &self.name);
            let waited = Some(progress.waited).filter(|_| !limit.is_zero());
            let (kind, keys) = (self.name.clone(), Vec::new());
            return Err(Error::Busy { kind, resource: "SQLite's one writer", keys, waited, turned_away: false });
        }
        self.shared.counters.count(Event::Retry(Failure::Busy), &self.name);
        let pause = PAUSE.min(limit - progress.waited).mul_f64(rand::rng().random());
        progress.waited += pause;
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// The longest pause before SQLite's writer is tried again, where the connection itself does not wait.
const PAUSE: Duration = Duration::from_millis(20);

impl<E: Engine> Inner<E> {
    /// Sends a statement that was held to the order outside a transaction, within the wait limit. Until it is answered,
    /// a drop hangs up. Its answer, if it gave one, and whether it was cancelled.
    pub(crate) async fn alone<T>(
        &mut self,
        limit: Duration,
        send: impl for<'e> FnOnce(&'e mut E::Connection) -> BoxFuture<'e, Result<T, sqlx::Error>>,
    ) -> Result<(Option<Result<T, sqlx::Error>>, bool), sqlx::Error> {
        self.connection.find_session().await?;
        self.sending()?;
        self.connection.set_open(true);
        let own = self.shared.own_wait;
        let shortened = self.dialect() == Dialect::Sqlite && limit < own;
        if shortened {
            self.set_busy_timeout(limit).await?;
        }
        let (shared, session) = (self.shared.clone(), self.connection.session);
        let answer = send(self.connection.get());
        // In a file there is nobody to cancel it, and nothing waits longer than its own limit.
        let limit = if self.model.dialect == Dialect::Sqlite { crate::options::LONGEST } else { limit };
        // No time to wait for a row is some time to answer.
        let until = deadline::of(if limit.is_zero() { Wait::NoWait } else { Wait::Wait }, limit);
        let (answer, cancelled) = deadline::within(&shared, session, until, answer).await;
        // An error of the server's leaves the session as it was; of the connection's, sqlx drops it by itself.
        let answered = matches!(&answer, Some(Ok(_) | Err(sqlx::Error::Database(_))));
        if shortened && answered {
            self.set_busy_timeout(own).await?;
        }
        self.connection.set_open(!answered);
        if answered {
            self.connection.note_used();
        }
        if cancelled {
            self.count(Event::Cancelled);
        }
        Ok((answer, cancelled))
    }

    async fn set_busy_timeout(&mut self, limit: Duration) -> Result<(), sqlx::Error> {
        let sql = format!("PRAGMA busy_timeout = {}", limit.as_millis());
        E::batch(self.connection.get(), AssertSqlSafe(sql).into_sql_str()).await.map(drop)
    }

    /// Busy, at what the statement was to lock last.
    fn busy(&self, waited: Duration) -> Error {
        let (resource, keys) = match self.held.reach() {
            Some(Reach::Place(place)) => (self.resource(place.rank).name, vec![place.key]),
            Some(Reach::Resource(rank)) => (self.resource(rank).name, Vec::new()),
            None => ("a row", Vec::new()),
        };
        Error::Busy { kind: self.kind.clone(), resource, keys, waited: Some(waited), turned_away: false }
    }
}
