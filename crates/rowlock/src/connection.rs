//! A connection in a transaction, and what becomes of it when its future is dropped.
//!
//! sqlx's own `Transaction` returns a connection to the pool inside a transaction when `begin` is dropped at the wrong
//! moment (its depth is still 0 while BEGIN is on its way). So rowlock owns the pool's connection and marks it open
//! *before* BEGIN is sent:
//!
//! ```text
//! acquired --BEGIN sent--> open --COMMIT or ROLLBACK answered--> back to the pool
//!                           |
//!                           +--dropped--> never back to the pool; a task ends the session at the server, from another
//!                                         connection, since a statement that waits for a lock does not notice that its
//!                                         client has gone and keeps the transaction's other locks
//! ```
//!
//! **Invariant: a connection that is, or may be, in a transaction never returns to the pool.** Locks of a dropped
//! transaction are let go once the control connection has ended the session, as a rule within milliseconds; when the
//! server cannot be reached, once it notices that the client is gone.

use std::{fmt::Write, sync::Arc};

use sqlx::{AssertSqlSafe, SqlSafeStr, pool::PoolConnection};

use rowlock_footprint::Dialect;

use crate::{
    db::Shared,
    engine::Engine,
    options::{Isolation, Options},
    session::Session,
};

pub(crate) struct Connection<E: Engine> {
    inner: Option<PoolConnection<E>>,
    open: bool,
    /// The server's number for the session.
    pub(crate) session: Option<i64>,
    pub(crate) read_only: bool,
    /// SQLite: the limit on waits that the connection had of its own is to be set again.
    shortened: bool,
    shared: Arc<Shared<E>>,
}

impl<E: Engine> Connection<E> {
    /// Takes a connection from the pool and begins a transaction on it. The session's number is known from its last
    /// transaction, or comes with the answer to BEGIN.
    pub(crate) async fn begin(
        shared: &Arc<Shared<E>>,
        options: &Options,
        isolation: Option<Isolation>,
    ) -> Result<Self, sqlx::Error> {
        let mut connection = Connection::acquire(shared).await?;
        let known = connection.known().await?;
        let own = Session { number: 0, wait: shared.own_wait, read_committed: false };
        let sqlite = shared.dialect == Dialect::Sqlite;
        let session = known.as_ref().map(|(_, session)| session).or(sqlite.then_some(&own));
        let begin = E::begin(shared.dialect, options, isolation, session);
        connection.shortened = sqlite && options.wait < own.wait;
        connection.open = true;
        connection.session = known.map(|(_, session)| session.number);
        if let Some((address, session)) = known
            && E::KEEPS_BACKSTOP
            && session.wait != E::backstop(options)
        {
            shared.sessions.set_wait(address, E::backstop(options));
        }
        match E::batch(connection.get(), AssertSqlSafe(begin).into_sql_str()).await {
            Ok(answer) => connection.session = connection.session.or(answer),
            Err(error) => {
                // It may have been set, or not.
                known.into_iter().for_each(|(address, _)| shared.sessions.forget(address));
                return Err(error);
            }
        }
        Ok(connection)
    }

    /// Takes a connection from the pool, for a statement outside a transaction.
    pub(crate) async fn acquire(shared: &Arc<Shared<E>>) -> Result<Self, sqlx::Error> {
        let inner = shared.pool.acquire().await?;
        Ok(Connection {
            inner: Some(inner),
            open: false,
            session: None,
            read_only: false,
            shortened: false,
            shared: shared.clone(),
        })
    }

    /// Its session, and the address that it is known by, where it keeps one.
    async fn known(&mut self) -> Result<Option<(usize, Session)>, sqlx::Error> {
        let shared = self.shared.clone();
        // Behind a pooler a connection has another session in each transaction.
        let told_apart = shared.straight && shared.keeps_prepared && shared.dialect != Dialect::Sqlite;
        if told_apart { shared.sessions.of(self.get()).await } else { Ok(None) }
    }

    /// Finds out its session, so that a statement outside a transaction can be cancelled.
    pub(crate) async fn find_session(&mut self) -> Result<(), sqlx::Error> {
        self.session = self.known().await?.map(|(_, session)| session.number);
        Ok(())
    }

    /// Whether a drop hangs up.
    pub(crate) fn set_open(&mut self, open: bool) {
        self.open = open;
    }

    pub(crate) fn get(&mut self) -> &mut E::Connection {
        // `inner` is taken by `drop` alone.
        #[allow(clippy::expect_used)]
        self.inner.as_mut().expect("a connection is there until it is dropped")
    }

    /// COMMIT, with whatever `sql` has before it. The connection returns to the pool only when the answer came.
    pub(crate) async fn commit(mut self, sql: String) -> Result<(), sqlx::Error> {
        self.finish(sql).await
    }

    /// ROLLBACK. An error hangs up, which rolls back too.
    pub(crate) async fn rollback(mut self) {
        // What it says no longer matters: the connection is gone, or is given up now.
        let _ = self.finish("ROLLBACK".into()).await;
    }

    /// ROLLBACK, and then the connection is closed: what it has prepared fits no longer.
    pub(crate) async fn retire(mut self) {
        let _ = self.finish("ROLLBACK".into()).await;
        if !self.open
            && let Some(connection) = self.inner.take()
        {
            let _ = connection.close().await;
        }
    }

    async fn finish(&mut self, mut sql: String) -> Result<(), sqlx::Error> {
        if self.read_only && self.shared.dialect == Dialect::Sqlite {
            // There it is a setting of the connection, not of the transaction.
            sql.push_str("; PRAGMA query_only = 0");
        }
        if self.shortened {
            let _ = write!(sql, "; PRAGMA busy_timeout = {}", self.shared.own_wait.as_millis());
        }
        if !self.shared.straight {
            // Once it has ended, a pooler gives the session to another client. One whose client hangs up in the middle it
            // closes by itself.
            self.session = None;
        }
        E::batch(self.get(), AssertSqlSafe(sql).into_sql_str()).await?;
        self.open = false;
        Ok(())
    }
}

impl<E: Engine> Drop for Connection<E> {
    fn drop(&mut self) {
        if !self.open {
            return;
        }
        let Some(connection) = self.inner.take() else { return };
        let connection = connection.detach();
        let Some(session) = self.session else { return };
        let shared = self.shared.clone();
        // The connection is dropped after the session was ended, so that the number cannot be another's meanwhile.
        self.shared.runtime.spawn(async move {
            if let Err(error) = shared.control.end_session(session, true).await {
                tracing::warn!(%error, session, "rowlock: could not end a dropped transaction's session; the server will when it notices");
            }
            drop(connection);
        });
    }
}
