//! A kind of transaction, and how one is run: what becomes of an attempt, and the answer to COMMIT. What lies between two
//! attempts is in `progress`.
//!
//! ```text
//!            +--------------------------- transient: roll back, wait, run again --+
//!            v                                                                    |
//! begin -> lock the union -> closure -> what did the connection see? -------------+
//!            ^                              |            |           |
//!            |                            fine      late place    refused, or the closure's own error
//!            +--- restart with the union ---|------------+           |
//!                                           v                        v
//!                                COMMIT (with a token)            ROLLBACK
//!                                   |            |
//!                                answered      lost: ask by the token, or CommitUnknown
//! ```
//!
//! **Invariant: an attempt that is run again was rolled back first**, and the closure runs from its start: on MySQL a
//! client that goes on after 1213 is in a new transaction and has lost its first half.

use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed},
    time::Instant,
};

use sqlx::pool::PoolConnection;
use tracing::Instrument;
use uuid::Uuid;

use crate::{
    Plan, Start, Tx,
    connection::Connection,
    count::Event,
    db::Shared,
    engine::Engine,
    error::{Error, KindName},
    failure::Failure,
    gate::Entries,
    held::Held,
    hold::{Hold, Pace},
    inner::{Inner, Seen},
    options::{Options, settings},
    progress::Progress,
    savepoint::Savepoints,
    token::{self, Outcome},
    transaction::Slot,
};

/// A kind of transaction: a name, and settings of its own where they differ from the database's. Cheap to make and clone.
///
/// ```no_run
/// # rowlock::lock_order! { order Shop { Order => "orders" (id: i64) } }
/// # async fn example(db: rowlock::Db<sqlx::Postgres>) -> rowlock::Result<()> {
/// use std::time::Duration;
///
/// db.kind("place order")
///     .wait(Duration::from_millis(200))
///     .transaction(async |tx| {
///         tx.lock::<Order>([10]).await?;
///         Ok(())
///     })
///     .await
/// # }
/// ```
pub struct Kind<E: Engine> {
    pub(crate) shared: Arc<Shared<E>>,
    pub(crate) name: KindName,
    pub(crate) options: Arc<Options>,
    /// The gates that it passes; or the name of a resource of another order.
    pub(crate) entries: Result<Entries, &'static str>,
}

impl<E: Engine> Clone for Kind<E> {
    fn clone(&self) -> Self {
        let Kind { shared, name, options, entries } = self;
        Kind { shared: shared.clone(), name: name.clone(), options: options.clone(), entries: entries.clone() }
    }
}

impl<E: Engine> std::fmt::Debug for Kind<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kind").field("name", &self.name).field("options", &self.options).finish()
    }
}

/// How one attempt ended.
enum Ended<T, X> {
    Done(Result<T, X>),
    Again,
}

impl<E: Engine> Kind<E> {
    pub(crate) fn new(shared: Arc<Shared<E>>, name: KindName) -> Self {
        let options = shared.options.clone();
        Kind { shared, name, options, entries: Ok(Vec::new()) }
    }

    settings!(self => Arc::make_mut(&mut self.options));

    /// The transaction only reads. On SQLite it then does not take the write lock.
    #[must_use]
    pub fn read_only(mut self) -> Self {
        Arc::make_mut(&mut self.options).read_only = true;
        self
    }

    /// PostgreSQL: with SERIALIZABLE and read-only, the transaction may wait for a snapshot on which it cannot fail.
    /// Elsewhere without effect.
    #[must_use]
    pub fn deferrable(mut self) -> Self {
        Arc::make_mut(&mut self.options).deferrable = true;
        self
    }

    /// The kind's name.
    pub fn name(&self) -> &KindName {
        &self.name
    }

    /// Runs `f` in a transaction: begins, hands it a [`Tx`] that has locked nothing, and commits when it returns `Ok`.
    ///
    /// `f` may run several times, from its start each time: after a deadlock, a serialization failure, a lost connection,
    /// or with more rows locked up front when a late place was busy. What it does outside the database happens as often.
    /// Write it as `async |tx| ..`; to move captures in, put `async move` outside and `async |tx|` inside.
    ///
    /// ```
    /// # rowlock_testing::guide! { db =>
    /// let stock: i64 = db
    ///     .kind("take one")
    ///     .transaction(async |tx| {
    ///         let (mut tx, row) = tx.lock::<Inventory>([20]).fetch_one::<Stock>().await?;
    ///         sqlx::query("update inventories set stock = stock - 1 where id = 20").execute(&mut tx).await?;
    ///         Ok::<_, rowlock::Error>(row.stock - 1)
    ///     })
    ///     .await?;
    /// assert_eq!(stock, 99);
    /// # }
    /// ```
    ///
    /// # Errors
    /// The closure's own error, after ROLLBACK; it never retries. Else one of [`Error`], by `X: From<Error>`.
    ///
    /// # Cancellation
    /// Dropping the future at any await rolls back; a statement that waits at the server is ended there, so that no lock
    /// stays behind. Dropped while COMMIT is under way, the transaction is committed wholly or not at all.
    pub async fn transaction<T, X, F, Fut>(&self, f: F) -> Result<T, X>
    where
        F: Fn(Tx<E, Start>) -> Fut,
        Fut: Future<Output = Result<T, X>> + Send,
        X: From<Error>,
    {
        let span = tracing::info_span!("transaction", kind = %self.name, attempts = tracing::field::Empty);
        async {
            let _inside = self.enter().await?;
            let began = Instant::now();
            let mut progress = Progress::default();
            loop {
                // Not in the box of `begin`: it is larger than all the rest.
                let taken = self.take(began).await;
                let inner = match self.begin(taken, &mut progress, began).await {
                    Ok(Some(inner)) => inner,
                    Ok(None) => continue,
                    Err(error) => {
                        self.shared.counters.count(Event::RolledBack, &self.name);
                        return Err(error.into());
                    }
                };
                let hold = inner.hold.clone();
                let session = inner.connection.session;
                let limit = self.options.hold_limit;
                let slot = Slot::default();
                let attempt =
                    tracing::debug_span!("attempt", number = progress.attempts.len() + 1, restarts = progress.restarts);
                let work = f(Tx::new(inner, slot.clone())).instrument(attempt);
                let result = tokio::select! {
                    biased;
                    result = work => Some(result),
                    () = hold.exceeds(limit) => None,
                };
                let inner = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let (None, Some(session)) = (&inner, session) {
                    // The `Tx` lives on somewhere, or was leaked: its locks are not to live as long.
                    let _ = self.shared.control.end_session(session, true).await;
                }
                match self.end(result, inner, &mut progress, began).await {
                    Ended::Again => {}
                    Ended::Done(result) => {
                        tracing::Span::current().record("attempts", progress.attempts.len() + 1);
                        return result;
                    }
                }
            }
        }
        .instrument(span)
        .await
    }

    /// Begins an attempt, with what the last one needed locked up front. `None`: that failed transiently; once more.
    fn begin<'a>(
        &'a self,
        taken: Result<PoolConnection<E>, Error>,
        progress: &'a mut Progress,
        began: Instant,
    ) -> futures_core::future::BoxFuture<'a, Result<Option<Box<Inner<E>>>, Error>> {
        // Boxed, as is `end`: inline, what these hold over an await makes users' futures "not general enough" for `Send`.
        Box::pin(async move {
            let sent = Instant::now();
            let was_taken = taken.is_ok();
            let begun = match taken {
                Ok(taken) => Connection::begin(&self.shared, taken, &self.options, self.options.isolation).await,
                Err(Error::Database(error)) => Err(error),
                Err(error) => return Err(error),
            };
            let connection = match begun {
                Ok(connection) => connection,
                Err(error) => {
                    let failure = Failure::of::<E>(self.shared.dialect, &error);
                    if failure == Failure::Busy {
                        self.wait_for_writer(progress, sent.elapsed()).await?;
                        return Ok(None);
                    }
                    if !failure.is_transient() {
                        return Err(error.into());
                    }
                    match was_taken {
                        true => self.unsent(error, progress, began).await?,
                        false => self.failed(progress, began, failure, error.to_string()).await?,
                    }
                    return Ok(None);
                }
            };
            let mut inner = self.attempt(connection, progress);
            inner.count(Event::Statement);
            if progress.union.is_empty() {
                return Ok(Some(inner));
            }
            let plan = Plan::new(progress.union.iter().map(|(p, s)| (p.clone(), *s)));
            match inner.acquire_plan(&plan, None).await {
                Ok(()) => Ok(Some(inner)),
                Err(error) if inner.note_abandoned() => match std::mem::take(&mut inner.seen) {
                    Seen::Transient(failure, message) => {
                        drop(inner);
                        self.failed(progress, began, failure, message).await?;
                        Ok(None)
                    }
                    Seen::Fine | Seen::Late | Seen::Outdated(_) | Seen::Aborted(_) => Err(error),
                },
                Err(error) => match std::mem::take(&mut inner.seen) {
                    Seen::Transient(failure, message) => {
                        self.again(inner, progress, began, failure, message).await?;
                        Ok(None)
                    }
                    // A row that was made meanwhile and is busy: it is in the union from now on.
                    Seen::Late => {
                        let again = self.restart(progress, &mut inner, began);
                        inner.connection.rollback().await;
                        again.map(|()| None)
                    }
                    Seen::Outdated(message) => {
                        let model = inner.model.clone();
                        inner.connection.rollback().await;
                        match self.renewed(&model, progress, began, message).await? {
                            true => Ok(None),
                            false => Err(error),
                        }
                    }
                    Seen::Fine | Seen::Aborted(_) => {
                        inner.connection.rollback().await;
                        Err(error)
                    }
                },
            }
        })
    }

    /// The state of an attempt on `connection`.
    pub(crate) fn attempt(&self, connection: Connection<E>, progress: &Progress) -> Box<Inner<E>> {
        Box::new(Inner {
            connection,
            shared: self.shared.clone(),
            model: self.shared.model(),
            options: self.options.clone(),
            kind: self.name.clone(),
            held: Held::default(),
            wanted: BTreeMap::new(),
            seen: Seen::Fine,
            hold: Arc::new(Hold::default()),
            pace: Pace::default(),
            fallback: progress.restarts >= self.options.restarts,
            savepoints: Savepoints::default(),
            temporary: Vec::new(),
        })
    }

    pub(crate) fn takes_token(&self) -> bool {
        self.options.commit_token
    }

    /// Ends an attempt by what the connection saw.
    async fn end<T, X: From<Error>>(
        &self,
        result: Option<Result<T, X>>,
        inner: Option<Box<Inner<E>>>,
        progress: &mut Progress,
        began: Instant,
    ) -> Ended<T, X> {
        let done = |error: Error| {
            self.shared.counters.count(Event::RolledBack, &self.name);
            Ended::Done(Err(error.into()))
        };
        let Some(result) = result else {
            // The hold limit. The connection is dropped open, which ends the session at the server.
            drop(inner);
            let limit = self.options.hold_limit.unwrap_or_default();
            tracing::error!(kind = %self.name, ?limit, "rowlock: ended a transaction that held locks for too long");
            return done(Error::HoldLimit { kind: self.name.clone(), limit });
        };
        let Some(mut inner) = inner else {
            return done(Error::Escaped { kind: self.name.clone() });
        };
        self.watch_hold(&inner);
        if inner.note_abandoned() {
            // What the connection would answer next is not known: hang up, which rolls back.
            let seen = std::mem::take(&mut inner.seen);
            drop(inner);
            let cause = match seen {
                Seen::Transient(failure, message) => {
                    return match self.failed(progress, began, failure, message).await {
                        Ok(()) => Ended::Again,
                        Err(error) => done(error),
                    };
                }
                Seen::Aborted(cause) => cause,
                Seen::Fine | Seen::Late | Seen::Outdated(_) => String::new(),
            };
            return match result {
                Ok(_) => done(Error::RolledBack { kind: self.name.clone(), cause }),
                Err(error) => {
                    self.shared.counters.count(Event::RolledBack, &self.name);
                    Ended::Done(Err(error))
                }
            };
        }
        match (std::mem::take(&mut inner.seen), result) {
            (Seen::Late, _) => {
                let again = self.restart(progress, &mut inner, began);
                inner.connection.rollback().await;
                match again {
                    Ok(()) => Ended::Again,
                    Err(error) => done(error),
                }
            }
            (Seen::Transient(failure, message), _) => {
                match self.again(inner, progress, began, failure, message).await {
                    Ok(()) => Ended::Again,
                    Err(error) => done(error),
                }
            }
            (Seen::Fine, Ok(value)) => match self.commit(inner, progress, began).await {
                Ok(true) => {
                    self.shared.counters.count(Event::Committed, &self.name);
                    Ended::Done(Ok(value))
                }
                Ok(false) => Ended::Again,
                Err(error) => done(error),
            },
            (Seen::Outdated(cause), result) => {
                let model = inner.model.clone();
                inner.connection.rollback().await;
                match (self.renewed(&model, progress, began, cause.clone()).await, result) {
                    (Ok(true), _) => Ended::Again,
                    (Err(error), _) => done(error),
                    (Ok(false), Ok(_)) => done(Error::RolledBack { kind: self.name.clone(), cause }),
                    (Ok(false), Err(error)) => {
                        self.shared.counters.count(Event::RolledBack, &self.name);
                        Ended::Done(Err(error))
                    }
                }
            }
            (Seen::Aborted(cause), Ok(_)) => {
                inner.connection.rollback().await;
                done(Error::RolledBack { kind: self.name.clone(), cause })
            }
            (Seen::Fine | Seen::Aborted(_), Err(error)) => {
                inner.connection.rollback().await;
                self.shared.counters.count(Event::RolledBack, &self.name);
                Ended::Done(Err(error))
            }
        }
    }

    /// COMMIT. `false`: it failed transiently, and nothing was committed; once more.
    async fn commit(&self, inner: Box<Inner<E>>, progress: &mut Progress, began: Instant) -> Result<bool, Error> {
        let dialect = self.shared.dialect;
        let token = self.options.commit_token.then(Uuid::new_v4);
        if token.is_some() {
            self.shared.tokens.store(true, Relaxed);
        }
        inner.count(Event::Statement);
        let before = token.map(|token| token::insert_text(dialect, token, 0));
        let Err(error) = inner.connection.commit(before).await else { return Ok(true) };
        let failure = Failure::of::<E>(dialect, &error);
        if failure == Failure::ConnectionLost {
            self.shared.sessions.note_lost();
            let Some(token) = token else {
                return Err(Error::CommitUnknown { kind: self.name.clone(), source: error });
            };
            tracing::warn!(kind = %self.name, %error, "rowlock: the answer to COMMIT was lost; asking by its token");
            // Boxed: its future is larger than all else of the transaction's, and it hardly ever runs.
            return match Box::pin(token::resolve(&self.shared, token)).await {
                Outcome::Committed => Ok(true),
                Outcome::Never => self.failed(progress, began, failure, error.to_string()).await.map(|()| false),
                Outcome::Unknown => Err(Error::CommitUnknown { kind: self.name.clone(), source: error }),
            };
        }
        if failure.is_transient() {
            return self.fail(progress, began, failure, error.to_string()).await.map(|()| false);
        }
        if failure == Failure::SchemaChanged && token.is_some() && error.to_string().contains("rowlock_token") {
            return Err(Error::NotInstalled { feature: "commit_token" });
        }
        Err(error.into())
    }
}
