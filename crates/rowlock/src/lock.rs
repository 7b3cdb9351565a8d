//! A lock that is about to be taken: refined, then awaited.

use std::{marker::PhantomData, pin::Pin, time::Duration};

use futures_core::future::BoxFuture;
use rowlock_footprint::{Strength, Wait};
use sqlx::{Encode, FromRow, SqlStr, Type};

use crate::{
    Key, KeyValue, Plan, Resource, Tx, acquire::Ask, engine::Engine, error::Error, place::Place, query::Query,
};

/// What a locking call asks for, whichever way it finds its rows.
#[derive(Clone, Copy, Debug)]
struct Terms {
    strength: Strength,
    wait: Wait,
    limit: Option<Duration>,
}

impl Default for Terms {
    fn default() -> Self {
        Terms { strength: Strength::NoKeyUpdate, wait: Wait::Wait, limit: None }
    }
}

/// The transaction, at the level of `R`, with what was fetched.
type Locked<E, R, T> = BoxFuture<'static, Result<(Tx<E, R>, T), Error>>;

macro_rules! terms {
    () => {
        /// `FOR KEY SHARE`: the rows will be referred to. (InnoDB: shared.)
        pub fn key_share(mut self) -> Self {
            self.terms.strength = Strength::KeyShare;
            self
        }
        /// `FOR SHARE`: the rows will only be read. To write them later in the same transaction, take what that needs now.
        pub fn share(mut self) -> Self {
            self.terms.strength = Strength::Share;
            self
        }
        /// `FOR UPDATE`: the rows will be deleted, or changed in a unique column.
        pub fn update(mut self) -> Self {
            self.terms.strength = Strength::Update;
            self
        }
        /// Fails with [`Error::Busy`] where it would wait.
        pub fn nowait(mut self) -> Self {
            self.terms.wait = Wait::NoWait;
            self
        }
        /// Waits at most so long, then fails with [`Error::Busy`]; the statement is cancelled at the server.
        pub fn wait(mut self, limit: Duration) -> Self {
            self.terms.limit = Some(limit.min(crate::options::LONGEST));
            self
        }
    };
}

/// Rows of `R` that are about to be locked by their keys; made by [`Tx::lock`]. Nothing is sent until it is awaited or
/// fetched.
///
/// ```
/// # rowlock_testing::guide! { db =>
/// use std::time::Duration;
///
/// db.transaction(async |tx| {
///     let tx = tx.lock::<Order>([10]).update().wait(Duration::from_millis(200)).await?; // the Tx alone
///     let (tx, there) = tx.lock::<Inventory>([20, 99]).share().existing().keys().await?; // and keys
///     let (_tx, accounts) = tx.lock::<Account>([8, 7]).nowait().fetch_all::<AccountRow>().await?; // and rows
///     assert_eq!((there, accounts[0].id), (vec![20], 7));
///     Ok::<_, rowlock::Error>(())
/// })
/// .await?;
/// # }
/// ```
///
/// # Errors
/// Of every way to await it: [`Error::Missing`] names keys without a row (not after [`existing`](Lock::existing) or
/// [`skip_locked`](Lock::skip_locked)); [`Error::Busy`] after `nowait` or the wait limit; [`Error::OutOfOrder`], which the
/// runner of the transaction turns into a restart unless [`Late::Refuse`](crate::Late::Refuse) is set;
/// [`Error::Database`].
///
/// # Cancellation
/// Dropping the future drops the [`Tx`] in it, and so rolls the transaction back.
#[must_use = "a lock is taken when it is awaited"]
pub struct Lock<E: Engine, R: Resource> {
    tx: Tx<E, R>,
    keys: Vec<KeyValue>,
    terms: Terms,
    existing: bool,
}

impl<E: Engine, R: Resource> Lock<E, R> {
    pub(crate) fn new(tx: Tx<E, R>, keys: Vec<KeyValue>) -> Self {
        Lock { tx, keys, terms: Terms::default(), existing: false }
    }

    terms!();

    /// Leaves out rows that are another transaction's. Which were had, [`keys`](Lock::keys) or the rows tell.
    pub fn skip_locked(mut self) -> Self {
        self.terms.wait = Wait::SkipLocked;
        self.existing = true;
        self
    }

    /// Locks those that are there; keys without a row are no error.
    pub fn existing(mut self) -> Self {
        self.existing = true;
        self
    }

    /// Locks, and gives the rows in key order, each as a `T`. Errors and cancellation as of [`Lock`]; besides, those of `T`.
    pub fn fetch_all<T>(self) -> Locked<E, R, Vec<T>>
    where
        T: for<'r> FromRow<'r, E::Row> + Send + 'static,
    {
        Box::pin(async move {
            let (tx, rows) = self.run().await?;
            let rows = rows.iter().map(T::from_row).collect::<Result<_, _>>()?;
            Ok((tx, rows))
        })
    }

    /// Locks one row and gives it. With several keys, all are locked, and the row of the smallest is given. Without one
    /// it is [`sqlx::Error::RowNotFound`].
    pub fn fetch_one<T>(self) -> Locked<E, R, T>
    where
        T: for<'r> FromRow<'r, E::Row> + Send + 'static,
    {
        Box::pin(async move {
            match self.fetch_optional().await? {
                (tx, Some(row)) => Ok((tx, row)),
                (_, None) => Err(Error::Database(sqlx::Error::RowNotFound)),
            }
        })
    }

    /// Locks one row and gives it, if it is there and free: for [`existing`](Lock::existing) and
    /// [`skip_locked`](Lock::skip_locked).
    pub fn fetch_optional<T>(self) -> Locked<E, R, Option<T>>
    where
        T: for<'r> FromRow<'r, E::Row> + Send + 'static,
    {
        Box::pin(async move {
            let (tx, rows) = self.run().await?;
            let row = rows.first().map(T::from_row).transpose()?;
            Ok((tx, row))
        })
    }

    /// Locks, and gives the keys of the rows that were had, in order.
    pub fn keys(self) -> Locked<E, R, Vec<R::Key>> {
        Box::pin(async move {
            let (mut tx, rows) = self.run().await?;
            let keys = typed_keys::<E, R>(&mut tx, &rows)?;
            Ok((tx, keys))
        })
    }

    async fn run(self) -> Result<(Tx<E, R>, Vec<E::Row>), Error> {
        let Lock { mut tx, keys, terms, existing } = self;
        let inner = tx.inner();
        inner.shared.knows::<R>()?;
        let limit = terms.limit.unwrap_or(inner.options.wait);
        let ask = Ask { wait: terms.wait, limit, all: !existing };
        let plan = Plan::new(keys.into_iter().map(|key| (Place::row(R::RANK, key), terms.strength)));
        let rows = match plan.steps() {
            [] => Vec::new(),
            [step, ..] => inner.acquire(step, ask, None).await?,
        };
        Ok((tx, rows))
    }
}

impl<E: Engine, R: Resource> IntoFuture for Lock<E, R> {
    type Output = Result<Tx<E, R>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.run().await?.0) })
    }
}

fn typed_keys<E: Engine, R: Resource>(tx: &mut Tx<E, R>, rows: &[E::Row]) -> Result<Vec<R::Key>, Error> {
    let model = tx.inner().model.clone();
    let target = &model.targets[usize::from(R::RANK)];
    rows.iter()
        .map(|row| {
            let value = E::key(row, target)?;
            R::Key::of(&value).ok_or_else(|| {
                let source = format!("key {value} does not fit the type that the order declares").into();
                Error::Database(sqlx::Error::ColumnDecode { index: target.columns[0].name.clone(), source })
            })
        })
        .collect()
}

/// Rows of `R` that meet a condition and are about to be locked; made by [`Tx::lock_where`].
///
/// ```
/// # rowlock_testing::guide! { db =>
/// db.transaction(async |tx| {
///     let open = tx.lock_where::<Order>("status = $1 and account <> $2").bind("open").bind(9);
///     let (_tx, ids) = open.limit(10).keys().await?;
///     assert_eq!(ids, [10, 11]);
///     Ok::<_, rowlock::Error>(())
/// })
/// .await?;
/// # }
/// ```
///
/// Its errors and its cancellation are those of [`Lock`]. Rows that meet the condition only after the last look are not
/// had: nothing short of SERIALIZABLE keeps them out.
#[must_use = "a lock is taken when it is awaited"]
pub struct LockWhere<E: Engine, R: Resource> {
    tx: Tx<E, R>,
    condition: SqlStr,
    arguments: Query<E>,
    terms: Terms,
    limit: Option<u32>,
    resource: PhantomData<fn() -> R>,
}

/// How often rows may come in before the rest is left to the next call.
const LOOKS: usize = 10;

impl<E: Engine, R: Resource> LockWhere<E, R> {
    pub(crate) fn new(tx: Tx<E, R>, condition: SqlStr) -> Self {
        LockWhere {
            tx,
            condition,
            arguments: Query::new(""),
            terms: Terms::default(),
            limit: None,
            resource: PhantomData,
        }
    }

    terms!();

    /// Binds the next value of the condition.
    pub fn bind<'q, T: Encode<'q, E> + Type<E>>(mut self, value: T) -> Self {
        self.arguments = self.arguments.bind(value);
        self
    }

    /// At most so many rows, those with the smallest keys; fewer when some went out while they were waited for, since others
    /// are not sought in their stead. Default: no limit.
    pub fn limit(mut self, rows: u32) -> Self {
        self.limit = Some(rows);
        self
    }

    /// Locks, and gives the rows that meet the condition under the lock, in key order.
    pub fn fetch_all<T>(self) -> Locked<E, R, Vec<T>>
    where
        T: for<'r> FromRow<'r, E::Row> + Send + 'static,
    {
        Box::pin(async move {
            let (tx, rows) = self.run().await?;
            let rows = rows.iter().map(T::from_row).collect::<Result<_, _>>()?;
            Ok((tx, rows))
        })
    }

    /// Locks, and gives the keys of the rows that meet the condition under the lock, in order.
    pub fn keys(self) -> Locked<E, R, Vec<R::Key>> {
        Box::pin(async move {
            let (mut tx, rows) = self.run().await?;
            let keys = typed_keys::<E, R>(&mut tx, &rows)?;
            Ok((tx, keys))
        })
    }

    async fn run(self) -> Result<(Tx<E, R>, Vec<E::Row>), Error> {
        let LockWhere { mut tx, condition, arguments, terms, limit, .. } = self;
        let inner = tx.inner();
        inner.shared.knows::<R>()?;
        let model = inner.model.clone();
        let target = &model.targets[usize::from(R::RANK)];
        let mut sql = format!("SELECT t.* FROM {} t WHERE ({}) ORDER BY ", target.table, condition.as_str());
        for (n, column) in target.columns.iter().enumerate() {
            sql.push_str(if n == 0 { "t." } else { ", t." });
            sql.push_str(&column.quoted);
        }
        if let Some(rows) = limit {
            sql.push_str(&format!(" LIMIT {rows}"));
        }
        let look: Query<E> = arguments.with_sql(sqlx::SqlSafeStr::into_sql_str(sqlx::AssertSqlSafe(sql)));
        let ask = Ask { wait: terms.wait, limit: terms.limit.unwrap_or(inner.options.wait), all: false };
        let mut rows = look.rows(inner).await?;
        let mut locked: Vec<KeyValue> = Vec::new();
        for _ in 0..LOOKS {
            let found: Vec<KeyValue> = rows.iter().map(|row| E::key(row, target)).collect::<Result<_, _>>()?;
            let new = found.into_iter().filter(|key| locked.binary_search(key).is_err());
            let plan = Plan::new(new.map(|key| (Place::row(R::RANK, key), terms.strength)));
            let [step, ..] = plan.steps() else { return Ok((tx, rows)) };
            // A row that has gone meanwhile is not locked, even if it comes again.
            for row in inner.acquire(step, ask, None).await? {
                locked.push(E::key(&row, target)?);
            }
            locked.sort_unstable();
            // Decided on what is seen under the locks, never on what was read before.
            rows = look.rows(inner).await?;
            if limit.is_some() {
                // Whatever has taken the place of a row that went out lies anywhere, and mostly below what is held. It
                // was not promised: the next call finds it.
                break;
            }
        }
        // Of rows that came in meanwhile, none is locked: those that are locked are given.
        let mut kept = Vec::with_capacity(rows.len());
        for row in rows {
            if locked.binary_search(&E::key(&row, target)?).is_ok() {
                kept.push(row);
            }
        }
        Ok((tx, kept))
    }
}

impl<E: Engine, R: Resource> IntoFuture for LockWhere<E, R> {
    type Output = Result<Tx<E, R>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { Ok(self.run().await?.0) })
    }
}
