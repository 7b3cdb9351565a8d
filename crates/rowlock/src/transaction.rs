//! A transaction, at the level of the order that it has reached.

use std::{
    fmt,
    marker::PhantomData,
    sync::{Arc, Mutex, PoisonError},
};

use futures_core::{future::BoxFuture, stream::BoxStream};
use futures_util::{FutureExt, StreamExt, TryStreamExt, stream};
use sqlx::{Either, Execute, Executor, SqlSafeStr, SqlStr};

use crate::{
    AsKey, Before, GuardCreation, KeyValue, Lock, Resource,
    engine::{Engine, Steps},
    guard::Admission,
    inner::Inner,
    lock_where::LockWhere,
    statement::Statement,
};

/// Where a dropped [`Tx`] leaves its state for the runner.
pub(crate) type Slot<E> = Arc<Mutex<Option<Box<Inner<E>>>>>;

/// A transaction of engine `E` that has reached the level `L` of its order.
///
/// It is owned: [`lock`](Tx::lock) consumes it and gives it back at the new level, so that a helper's signature says
/// where in the order it stands, and the whole transaction is checked through all of its functions. An alias keeps
/// signatures short: `type Tx<L> = rowlock::Tx<Postgres, L>`.
///
/// `&mut Tx` is an sqlx [`Executor`]: `sqlx::query(..).execute(&mut tx)` works as on a connection, and the guard looks at
/// each statement first. Of bound values sqlx shows nothing, so there it knows the resource and the strength;
/// [`rowlock::query`](crate::query) shows it the keys as well.
///
/// Dropping it hands the transaction back to the one that runs it; keeping it beyond the closure is
/// [`Error::Escaped`](crate::Error::Escaped).
pub struct Tx<E: Engine, L> {
    inner: Option<Box<Inner<E>>>,
    slot: Slot<E>,
    level: PhantomData<fn() -> L>,
}

impl<E: Engine, L> Drop for Tx<E, L> {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.take() {
            *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(inner);
        }
    }
}

impl<E: Engine, L> fmt::Debug for Tx<E, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.inner.as_ref().map_or(0, |i| i.held.len());
        write!(f, "Tx({}, {held} held)", std::any::type_name::<L>())
    }
}

impl<E: Engine, L> Tx<E, L> {
    pub(crate) fn new(inner: Box<Inner<E>>, slot: Slot<E>) -> Self {
        Tx { inner: Some(inner), slot, level: PhantomData }
    }

    pub(crate) fn at<M>(mut self) -> Tx<E, M> {
        Tx { inner: self.inner.take(), slot: self.slot.clone(), level: PhantomData }
    }

    pub(crate) fn inner(&mut self) -> &mut Inner<E> {
        #[allow(clippy::expect_used, reason = "`inner` is taken by `at` and `drop` alone, which consume the Tx")]
        self.inner.as_mut().expect("a Tx has its state until it is consumed")
    }

    /// Locks rows of `R` by their keys, whatever order they come in, and takes the transaction to that level. Awaited
    /// as it is, it gives the [`Tx`]; with [`fetch_all`](Lock::fetch_all) and its kin, the rows as well. Options come
    /// before: `.share()`, `.update()`, `.nowait()`, `.wait(limit)`, `.existing()`.
    ///
    /// One statement for a resource (in chunks beyond some hundreds of keys); none for no key. At strength *no key
    /// update*, which does not stand in the way of foreign key checks; rows that will be deleted or changed in a unique
    /// column want `.update()`.
    ///
    /// ```no_run
    /// # rowlock::lock_order! { order Shop { Order => "orders" (id: i64), Inventory => "inventories" (id: i64) } }
    /// # #[derive(sqlx::FromRow)] struct Stock { id: i64, stock: i64 }
    /// # async fn example(tx: rowlock::Tx<sqlx::Postgres, rowlock::Start>) -> rowlock::Result<()> {
    /// let tx = tx.lock::<Order>([10]).await?;
    /// let (tx, stock) = tx.lock::<Inventory>([30, 20, 30]).fetch_all::<Stock>().await?; // 20, then 30
    /// # Ok(()) }
    /// ```
    pub fn lock<R: Resource>(self, keys: impl IntoIterator<Item = impl AsKey<R::Key>>) -> Lock<E, R>
    where
        L: Before<R>,
    {
        let keys: Vec<KeyValue> = keys.into_iter().map(|key| key.as_key()).collect();
        Lock::new(self.at(), keys)
    }

    /// Locks the rows of `R` that meet a condition: reads their keys, locks them in order, and looks again under the
    /// locks; rows that came in meanwhile are locked too, rows that went out are left out. The condition is SQL over the
    /// table's columns, with the engine's placeholders.
    ///
    /// ```no_run
    /// # rowlock::lock_order! { order Shop { Order => "orders" (id: i64) } }
    /// # #[derive(sqlx::FromRow)] struct Row { id: i64 }
    /// # async fn example(tx: rowlock::Tx<sqlx::Postgres, rowlock::Start>) -> rowlock::Result<()> {
    /// let (tx, unpaid) = tx.lock_where::<Order>("status = $1").bind("open").limit(100).fetch_all::<Row>().await?;
    /// # Ok(()) }
    /// ```
    pub fn lock_where<R: Resource>(self, condition: impl SqlSafeStr) -> LockWhere<E, R>
    where
        L: Before<R>,
    {
        LockWhere::new(self.at(), condition.into_sql_str())
    }

    /// Takes the right to make rows of `R` with these keys, before any row of `R` is locked: of two transactions that
    /// guard the same key, the second waits until the first has ended, and then sees whether it made the row.
    ///
    /// On MySQL and MariaDB it needs rowlock's tables ([`Db::install`](crate::Db::install)).
    ///
    /// ```
    /// # rowlock_testing::guide! { db =>
    /// db.transaction(async |tx| {
    ///     let tx = tx.guard_creation::<User>(["ada@example.org"]).await?;
    ///     let (mut tx, there) = tx.lock::<User>(["ada@example.org"]).existing().keys().await?;
    ///     if there.is_empty() {
    ///         sqlx::query("insert into users (email, name) values ('ada@example.org', 'Ada')").execute(&mut tx).await?;
    ///     }
    ///     Ok::<_, rowlock::Error>(())
    /// })
    /// .await?;
    /// # }
    /// ```
    ///
    /// Options come before it is awaited: `.nowait()`, `.wait(limit)`.
    pub fn guard_creation<R: Resource>(self, keys: impl IntoIterator<Item = impl AsKey<R::Key>>) -> GuardCreation<E, R>
    where
        L: Before<R>,
    {
        let keys: Vec<KeyValue> = keys.into_iter().map(|key| key.as_key()).collect();
        GuardCreation::new(self.at(), keys)
    }

    /// Goes on to the level of `R` without locking, so that branches and loops agree.
    ///
    /// ```no_run
    /// # rowlock::lock_order! { order Shop { Order => "orders" (id: i64), Account => "accounts" (id: i64) } }
    /// # async fn example(tx: rowlock::Tx<sqlx::Postgres, Order>, charge: bool) -> rowlock::Result<()> {
    /// let tx = if charge { tx.lock::<Account>([7]).await? } else { tx.pass::<Account>() };
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn pass<R: Resource>(self) -> Tx<E, R>
    where
        L: Before<R>,
    {
        self.at()
    }

    /// What the transaction holds, as far as rowlock knows.
    pub fn held(&self) -> &crate::Held {
        #[allow(clippy::expect_used, reason = "`inner` is taken by `at` and `drop` alone, which consume the Tx")]
        &self.inner.as_ref().expect("a Tx has its state until it is consumed").held
    }
}

impl<'c, E: Engine, L> Executor<'c> for &'c mut Tx<E, L> {
    type Database = E;

    fn fetch_many<'e, 'q: 'e, Q>(self, query: Q) -> BoxStream<'e, Result<Either<E::QueryResult, E::Row>, sqlx::Error>>
    where
        'c: 'e,
        Q: 'q + Execute<'q, E>,
    {
        match Statement::read(query) {
            Ok(statement) => self.inner().stream(statement),
            Err(error) => stream::once(std::future::ready(Err(error))).boxed(),
        }
    }

    fn fetch_optional<'e, 'q: 'e, Q>(self, query: Q) -> BoxFuture<'e, Result<Option<E::Row>, sqlx::Error>>
    where
        'c: 'e,
        Q: 'q + Execute<'q, E>,
    {
        match Statement::read(query) {
            Ok(statement) => self.inner().optional(statement),
            Err(error) => std::future::ready(Err(error)).boxed(),
        }
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [E::TypeInfo],
    ) -> BoxFuture<'e, Result<E::Statement, sqlx::Error>>
    where
        'c: 'e,
    {
        let inner = self.inner();
        if !inner.shared.keeps_prepared {
            let reason =
                "a pooler stands before the server that does not carry prepared statements: send the query itself";
            return Box::pin(std::future::ready(Err(sqlx::Error::Configuration(reason.into()))));
        }
        Box::pin(async move {
            inner.asking()?;
            let result = E::prepare_with(inner.connection.get(), sql, parameters).await;
            inner.pace.answered();
            result.inspect_err(|error| inner.note(error))
        })
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<sqlx::Describe<E>, sqlx::Error>>
    where
        'c: 'e,
    {
        let inner = self.inner();
        Box::pin(async move {
            inner.asking()?;
            let result = E::describe(inner.connection.get(), sql).await;
            inner.pace.answered();
            result.inspect_err(|error| inner.note(error))
        })
    }
}

impl<E: Engine> Inner<E> {
    /// A statement of the user's: looked at, then sent.
    pub(crate) fn stream(&mut self, statement: Statement<E>) -> Steps<'_, E> {
        match self.admit(&statement) {
            Err(error) => stream::once(std::future::ready(Err(error.into()))).boxed(),
            Ok(Admission::Pass) => self.send(statement),
            Ok(Admission::First(first)) => stream::once(async move {
                self.take_first(&first, statement.sql.as_str()).await?;
                self.admit_after(&statement)?;
                if !first.is_open(&self.held) {
                    return Ok(self.send(statement));
                }
                let steps = self.send_at_once(statement, &first).await?;
                Ok::<_, sqlx::Error>(stream::iter(steps.into_iter().map(Ok)).boxed())
            })
            .try_flatten()
            .boxed(),
        }
    }

    fn send(&mut self, statement: Statement<E>) -> Steps<'_, E> {
        if let Err(error) = self.sending() {
            return stream::once(std::future::ready(Err(error.into()))).boxed();
        }
        let statement = statement.kept(self.shared.keeps_prepared);
        let sql = statement.sql.clone();
        // The stream borrows the connection, and its errors are noted beside it.
        let (connection, mut notes) = self.split();
        let mut silent = true;
        let steps = E::fetch_many(connection, statement).map(Some).chain(stream::once(std::future::ready(None)));
        let noted = steps.filter_map(move |step| {
            let answer = step.map(|step| step.map_err(|error| notes.typed(sql.as_str(), error)));
            // A text without a statement in it has nothing for an answer.
            if matches!(answer, Some(Ok(_))) || (answer.is_none() && silent) {
                notes.answered();
            }
            silent = false;
            std::future::ready(answer)
        });
        noted.boxed()
    }

    pub(crate) fn optional(&mut self, statement: Statement<E>) -> BoxFuture<'_, Result<Option<E::Row>, sqlx::Error>> {
        let admission = self.admit(&statement);
        async move {
            if let Admission::First(first) = admission? {
                self.take_first(&first, statement.sql.as_str()).await?;
                self.admit_after(&statement)?;
                if first.is_open(&self.held) {
                    let steps = self.send_at_once(statement, &first).await?;
                    return Ok(steps.into_iter().find_map(Either::right));
                }
            }
            self.sending()?;
            let statement = statement.kept(self.shared.keeps_prepared);
            let sql = statement.sql.clone();
            let result = E::fetch_optional(self.connection.get(), statement).await;
            self.pace.answered();
            result.map_err(|error| self.split().1.typed(sql.as_str(), error))
        }
        .boxed()
    }
}
