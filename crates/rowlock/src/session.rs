//! Which session of the server stands behind a connection, and what it has set: asked once for each physical connection.
//!
//! A transaction must know its session before it waits, so that it can be ended from outside. To ask each time costs as
//! much as a statement. sqlx gives a pooled connection no name, but each connection keeps its own prepared statements:
//! the one for [`TAG`] is prepared once a connection, found again without a round trip, and its columns stand at an
//! address that is this connection's alone.
//!
//! **Invariant: an address is known only while its statement is kept here**, so that it cannot become another's. Where a
//! connection forgot the statement it is prepared anew, at another address, and the session is asked again.

use std::{
    collections::HashMap,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use sqlx::{AssertSqlSafe, SqlSafeStr, Statement};

use crate::engine::Engine;

/// Prepared on each connection, never run.
const TAG: &str = "SELECT 1 AS rowlock_session";

/// Sessions of connections that are gone are forgotten all at once, with the living: they are asked again.
const KEPT: usize = 1024;

/// After so many misses that found more of them than hits, the connections keep no statements: it is given up.
const MISSES: usize = 200;

/// A server's session.
#[derive(Clone, Copy, Debug)]
pub struct Session {
    /// The number that it is found by from outside ([`Driver::end_session`](crate::engine::Driver::end_session)), which can
    /// never be another session's; `None` where the server gives none, and it is then not ended from outside.
    pub number: Option<i64>,
    /// How long its statements may wait for a row by its own settings; zero: for ever.
    pub wait: Duration,
    /// Its transactions are READ COMMITTED where nothing else is said.
    pub read_committed: bool,
}

/// A session that answered within this time is taken to live, unless another was lost since.
const FRESH: Duration = Duration::from_millis(100);

/// So long after one was lost any other may go too, whatever it has just answered: a server does not end all at once.
const DOUBT: Duration = Duration::from_secs(1);

struct Known<E: Engine> {
    /// Keeps the address.
    _tag: E::Statement,
    session: Session,
    /// When it answered last.
    used: Instant,
}

pub(crate) struct Sessions<E: Engine> {
    known: Mutex<HashMap<usize, Known<E>>>,
    /// When a connection was lost last.
    lost: Mutex<Option<Instant>>,
    hits: AtomicUsize,
    misses: AtomicUsize,
    /// A session was met that has no number.
    unnumbered: AtomicBool,
}

impl<E: Engine> Default for Sessions<E> {
    fn default() -> Self {
        Sessions {
            known: Mutex::default(),
            lost: Mutex::default(),
            hits: AtomicUsize::new(0),
            misses: AtomicUsize::new(0),
            unnumbered: AtomicBool::new(false),
        }
    }
}

impl<E: Engine> Sessions<E> {
    /// The session of a connection that stands outside any transaction, and the address that it is known by; `None` where
    /// connections cannot be told apart.
    pub(crate) async fn of(&self, connection: &mut E::Connection) -> Result<Option<(usize, Session)>, sqlx::Error> {
        let misses = self.misses.load(Relaxed);
        if misses > MISSES && misses > self.hits.load(Relaxed) {
            return Ok(None);
        }
        let tag = E::prepare_with(connection, AssertSqlSafe(TAG).into_sql_str(), &[]).await?;
        let address = tag.columns().as_ptr().addr();
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner).get(&address).map(|known| known.session);
        if known.is_some() {
            self.hits.fetch_add(1, Relaxed);
            return Ok(known.map(|session| (address, session)));
        }
        self.misses.fetch_add(1, Relaxed);
        let session = E::session(connection).await?;
        if session.number.is_none() {
            self.note_unnumbered();
        }
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= KEPT {
            known.clear();
        }
        known.insert(address, Known { _tag: tag, session, used: Instant::now() });
        Ok(Some((address, session)))
    }

    /// A session has no number: it is said once.
    pub(crate) fn note_unnumbered(&self) {
        if !self.unnumbered.swap(true, Relaxed) {
            tracing::warn!(
                "rowlock: the server gives a session no number that cannot be another's (MySQL and MariaDB: GET_LOCK is refused; \
                 PostgreSQL behind a pooler: track_activities is off), so none is ended from outside: a dropped transaction that \
                 waits keeps its locks until the server's own limit"
            );
        }
    }

    /// Whether the server may be asked for a number in the same trip as BEGIN, which would fail with it.
    pub(crate) fn are_numbered(&self) -> bool {
        !self.unnumbered.load(Relaxed)
    }

    /// The session at `address` is being set to another limit, for good.
    pub(crate) fn set_wait(&self, address: usize, wait: Duration) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get_mut(&address) {
            known.session.wait = wait;
        }
    }

    /// The session at `address` has just answered.
    pub(crate) fn note_used(&self, address: usize) {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.get_mut(&address) {
            known.used = Instant::now();
        }
    }

    /// A connection was lost: others may be, too.
    pub(crate) fn note_lost(&self) {
        *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Whether the session may have ended since it answered last.
    pub(crate) fn is_doubtful(&self, address: Option<usize>) -> bool {
        let lost = *self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let used = address.and_then(|address| known.get(&address)).map(|known| known.used);
        used.is_some_and(|used| used.elapsed() >= FRESH || lost.is_some_and(|lost| lost >= used))
            || lost.is_some_and(|lost| lost.elapsed() < DOUBT)
    }

    /// What is known of the session at `address` may no longer hold.
    pub(crate) fn forget(&self, address: usize) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).remove(&address);
    }

    /// Nothing that is known may hold any longer: each connection is asked again.
    pub(crate) fn forget_all(&self) {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sqlx::{Connection, database::HasStatementCache};

    trait Keeps: Engine + HasStatementCache {}
    impl<E: Engine + HasStatementCache> Keeps for E {}

    async fn number<E: Engine>(
        sessions: &Sessions<E>,
        connection: &mut E::Connection,
    ) -> Result<Option<i64>, sqlx::Error> {
        Ok(sessions.of(connection).await?.and_then(|(_, session)| session.number))
    }

    rowlock_testing::engines! { servers:
        async fn each_connection_is_asked_once<E: Keeps>(test: rowlock_testing::TestDb) -> Result<(), sqlx::Error> {
            let pool = test.pool_of::<E>(2).await;
            let (mut one, mut two) = (pool.acquire().await?, pool.acquire().await?);
            let sessions = Sessions::<E>::default();
            let asked = || sessions.misses.load(Relaxed);
            let (first, second) = (number(&sessions, &mut one).await?, number(&sessions, &mut two).await?);
            assert_eq!(first, E::session(&mut one).await?.number);
            assert!(first.is_some());
            assert_ne!(first, second);
            assert_eq!((number(&sessions, &mut one).await?, number(&sessions, &mut two).await?, asked()), (first, second, 2));
            // It forgot its statements: no address of another's is taken for its own.
            one.clear_cached_statements().await?;
            assert_eq!((number(&sessions, &mut one).await?, number(&sessions, &mut two).await?, asked()), (first, second, 3));
            Ok(())
        }

        async fn connections_that_keep_no_statements_are_given_up<E: Keeps>(test: rowlock_testing::TestDb) -> Result<(), sqlx::Error> {
            let pool = test.pool_of::<E>(1).await;
            let mut connection = pool.acquire().await?;
            let sessions = Sessions::<E>::default();
            for _ in 0..=MISSES {
                assert!(sessions.of(&mut connection).await?.is_some());
                connection.clear_cached_statements().await?;
            }
            assert!(sessions.of(&mut connection).await?.is_none());
            Ok(())
        }
    }
}
