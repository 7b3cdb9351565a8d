//! A connection in a transaction, and what becomes of it when its future is dropped.
//!
//! sqlx's own `Transaction` returns a connection to the pool inside a transaction when `begin` is dropped at the wrong
//! moment (its depth is still 0 while BEGIN is on its way). So rowlock owns the pool's connection and marks it open
//! *before* BEGIN is sent:
//!
//! ```text
//! acquired --BEGIN sent--> open --COMMIT or ROLLBACK answered--> back to the pool (and on SQLite, where BEGIN was busy)
//!                           |
//!                           +--dropped--> never back to the pool; a task ends the session at the server, from another
//!                                         connection, since a statement that waits for a lock does not notice that its
//!                                         client has gone and keeps the transaction's other locks
//! ```
//!
//! **Invariant: a connection that is, or may be, in a transaction never returns to the pool.** Locks of a dropped
//! transaction are let go once the control connection has ended the session, as a rule within milliseconds; when the
//! server cannot be reached, once it notices that the client is gone.

use std::{borrow::Cow, fmt::Write, sync::Arc};

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr, pool::PoolConnection};
use sqlx_core::transaction::TransactionManager;

use rowlock_footprint::Dialect;

use crate::{
    db::Shared,
    engine::Engine,
    failure::Failure,
    options::{Isolation, Options},
    session::Session,
};

pub(crate) struct Connection<E: Engine> {
    inner: Option<PoolConnection<E>>,
    open: bool,
    /// The number by which the session is ended from outside.
    pub(crate) session: Option<i64>,
    /// By what its session is known.
    address: Option<usize>,
    /// The pool has just asked it whether it lives.
    asked: bool,
    read_only: bool,
    /// sqlx itself began it, and ends it: its way is shorter than a text's where there is nothing beside BEGIN and COMMIT.
    managed: bool,
    /// SQLite: the limit on waits that the connection had of its own is to be set again.
    shortened: bool,
    shared: Arc<Shared<E>>,
}

impl<E: Engine> Connection<E> {
    /// Begins a transaction on a connection of the pool's. The session's number is known from its last
    /// transaction, or comes with the answer to BEGIN.
    pub(crate) async fn begin(
        shared: &Arc<Shared<E>>,
        inner: PoolConnection<E>,
        options: &Options,
        isolation: Option<Isolation>,
    ) -> Result<Self, sqlx::Error> {
        let mut connection = Connection::new(shared, inner);
        let known = connection.known().await?;
        let own = Session { number: None, wait: shared.own_wait, read_committed: false };
        let sqlite = shared.dialect == Dialect::Sqlite;
        let session = known.as_ref().map(|(_, session)| session).or(sqlite.then_some(&own));
        let asks = session.is_none() && shared.sessions.are_numbered();
        let mut begin = E::begin(shared.dialect, options, isolation, session);
        if asks {
            let _ = write!(begin.to_mut(), "; {}", E::number_text(shared.straight));
        }
        connection.shortened = sqlite && options.wait < own.wait;
        connection.read_only = options.read_only;
        connection.open = true;
        connection.session = known.and_then(|(_, session)| session.number);
        if let Some((address, session)) = known
            && E::KEEPS_BACKSTOP
            && session.wait != E::backstop(options)
        {
            shared.sessions.set_wait(address, E::backstop(options));
        }
        connection.managed =
            session.is_some() && !options.commit_token && !(sqlite && (options.read_only || connection.shortened));
        let begun = if connection.managed {
            E::TransactionManager::begin(connection.get(), Some(text(begin))).await.map(|()| None)
        } else {
            E::batch(connection.get(), text(begin)).await
        };
        match begun {
            Ok(None) if asks => shared.sessions.note_unnumbered(),
            Ok(answer) => connection.session = connection.session.or(answer),
            Err(error) => {
                // It may have been set, or not.
                known.into_iter().for_each(|(address, _)| shared.sessions.forget(address));
                if sqlite && Failure::of::<E>(shared.dialect, &error) == Failure::Busy {
                    connection.not_begun().await?;
                }
                return Err(error);
            }
        }
        Ok(connection)
    }

    /// A connection of the pool's, for a statement outside a transaction.
    pub(crate) fn taken(shared: &Arc<Shared<E>>, inner: PoolConnection<E>) -> Self {
        let mut connection = Connection::new(shared, inner);
        connection.asked = shared.pool.options().get_test_before_acquire();
        connection
    }

    fn new(shared: &Arc<Shared<E>>, inner: PoolConnection<E>) -> Self {
        Connection {
            inner: Some(inner),
            open: false,
            session: None,
            address: None,
            asked: false,
            read_only: false,
            managed: false,
            shortened: false,
            shared: shared.clone(),
        }
    }

    /// Its session, and the address that it is known by, where it keeps one.
    async fn known(&mut self) -> Result<Option<(usize, Session)>, sqlx::Error> {
        let shared = self.shared.clone();
        // Behind a pooler a connection has another session in each transaction.
        let told_apart = shared.straight && shared.keeps_prepared && shared.dialect != Dialect::Sqlite;
        let known = if told_apart { shared.sessions.of(self.get()).await? } else { None };
        self.address = known.map(|(address, _)| address);
        Ok(known)
    }

    /// Finds out its session, so that a statement outside a transaction can be cancelled, and makes sure that it lives: of a
    /// statement whose answer is lost nobody knows whether it was done.
    pub(crate) async fn find_session(&mut self) -> Result<(), sqlx::Error> {
        self.session = self.known().await?.and_then(|(_, session)| session.number);
        let asked = std::mem::take(&mut self.asked) || self.shared.dialect == Dialect::Sqlite;
        if !asked && self.shared.sessions.is_doubtful(self.address) {
            sqlx::Connection::ping(self.get()).await?;
            self.note_used();
        }
        Ok(())
    }

    /// It has just answered.
    pub(crate) fn note_used(&self) {
        if let Some(address) = self.address {
            self.shared.sessions.note_used(address);
        }
    }

    /// Whether a drop hangs up.
    pub(crate) fn set_open(&mut self, open: bool) {
        self.open = open;
    }

    pub(crate) fn get(&mut self) -> &mut E::Connection {
        #[allow(clippy::expect_used, reason = "`inner` is taken by `drop` alone")]
        self.inner.as_mut().expect("a connection is there until it is dropped")
    }

    pub(crate) fn peek(&self) -> &E::Connection {
        #[allow(clippy::expect_used, reason = "`inner` is taken by `drop` alone")]
        self.inner.as_ref().expect("a connection is there until it is dropped")
    }

    /// Opens a part of the transaction whose statements go past rowlock: sqlx's own nested transaction, or, where sqlx does not
    /// know that it is in one, its first.
    pub(crate) async fn nest(&mut self) -> Result<Nested, sqlx::Error> {
        let first = E::TransactionManager::get_transaction_depth(self.get()) == 0;
        let savepoint = first.then(|| text(PART.into()));
        E::TransactionManager::begin(self.get(), savepoint).await?;
        self.managed = true;
        Ok(Nested { depth: E::TransactionManager::get_transaction_depth(self.get()), first })
    }

    /// Closes it; `false`: there is a transaction more or less than there was.
    pub(crate) async fn unnest(&mut self, nested: Nested) -> Result<bool, sqlx::Error> {
        if E::TransactionManager::get_transaction_depth(self.get()) != nested.depth {
            return Ok(false);
        }
        match nested.first {
            true => E::batch(self.get(), text(format!("RELEASE {PART}").into())).await.map(drop)?,
            false => E::TransactionManager::commit(self.get()).await?,
        }
        Ok(true)
    }

    /// COMMIT, with the token's row written `before` it. The connection returns to the pool only when the answer came.
    pub(crate) async fn commit(mut self, before: Option<String>) -> Result<(), sqlx::Error> {
        self.finish(End::Commit { before }).await
    }

    /// ROLLBACK. An error hangs up, which rolls back too.
    pub(crate) async fn rollback(mut self) {
        // What it says no longer matters: the connection is gone, or is given up now.
        let _ = self.finish(End::Rollback).await;
    }

    /// ROLLBACK, and then the connection is closed: what it has prepared fits no longer.
    pub(crate) async fn retire(mut self) {
        let _ = self.finish(End::Rollback).await;
        if !self.open
            && let Some(connection) = self.inner.take()
        {
            let _ = connection.close().await;
        }
    }

    /// SQLite: BEGIN did not get the writer's place. Nothing was begun, and the connection is as good as before.
    async fn not_begun(&mut self) -> Result<(), sqlx::Error> {
        let back = self.settings_back();
        if !back.is_empty() {
            E::batch(self.get(), text(back.into())).await?;
        }
        self.open = false;
        Ok(())
    }

    /// Sets the connection to what it was before BEGIN, where a setting for the transaction is one of the connection (SQLite).
    fn settings_back(&self) -> String {
        let mut sql = String::new();
        if self.read_only && self.shared.dialect == Dialect::Sqlite {
            sql.push_str("; PRAGMA query_only = 0");
        }
        if self.shortened {
            let _ = write!(sql, "; PRAGMA busy_timeout = {}", self.shared.own_wait.as_millis());
        }
        sql
    }

    async fn finish(&mut self, end: End) -> Result<(), sqlx::Error> {
        let after = self.settings_back();
        if !self.shared.straight {
            // Once it has ended, a pooler gives the session to another client. One whose client hangs up in the middle it
            // closes by itself.
            self.session = None;
        }
        let (before, commits) = match end {
            End::Commit { before } => (before.map(|before| before + "; ").unwrap_or_default(), true),
            End::Rollback => (String::new(), false),
        };
        if self.managed {
            if !before.is_empty() {
                E::batch(self.get(), text(before.into())).await?;
            }
            match commits {
                true => E::TransactionManager::commit(self.get()).await?,
                // A part that failed is open still: sqlx rolls back one after the other.
                false => {
                    while E::TransactionManager::get_transaction_depth(self.get()) > 1 {
                        E::TransactionManager::rollback(self.get()).await?;
                    }
                    E::TransactionManager::rollback(self.get()).await?;
                }
            }
            if !after.is_empty() {
                E::batch(self.get(), text(after.into())).await?;
            }
        } else {
            let word = if commits { "COMMIT" } else { "ROLLBACK" };
            let sql = match before.is_empty() && after.is_empty() {
                true => word.into(),
                false => format!("{before}{word}{after}").into(),
            };
            E::batch(self.get(), text(sql)).await?;
        }
        self.open = false;
        self.note_used();
        Ok(())
    }
}

/// How a transaction ends.
enum End {
    Commit { before: Option<String> },
    Rollback,
}

/// A part of the transaction that is open.
#[derive(Clone, Copy)]
pub(crate) struct Nested {
    depth: usize,
    /// sqlx knew of no transaction before.
    first: bool,
}

const PART: &str = "SAVEPOINT rowlock_unguarded";

/// What is always the same is sent as it is, without a copy.
fn text(sql: Cow<'static, str>) -> SqlStr {
    match sql {
        Cow::Borrowed(sql) => sql.into_sql_str(),
        Cow::Owned(sql) => AssertSqlSafe(sql).into_sql_str(),
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
        // The connection is dropped after the session was ended, so that the number is its own meanwhile.
        self.shared.runtime.spawn(async move {
            if let Err(error) = shared.control.end_session(session, true).await {
                tracing::warn!(%error, session, "rowlock: could not end a dropped transaction's session; the server will when it notices");
            }
            drop(connection);
        });
    }
}
