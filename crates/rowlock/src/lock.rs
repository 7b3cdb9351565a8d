//! A lock that is about to be taken: refined, then awaited.

use std::time::Duration;

use futures_core::future::BoxFuture;
use rowlock_footprint::{Strength, Wait};
use sqlx::FromRow;

use crate::{Key, KeyValue, Plan, Resource, Tx, acquire::Ask, engine::Engine, error::Error, place::Place};

/// What a locking call asks for, whichever way it finds its rows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Terms {
    pub(crate) strength: Strength,
    pub(crate) wait: Wait,
    pub(crate) limit: Option<Duration>,
}

impl Default for Terms {
    fn default() -> Self {
        Terms { strength: Strength::NoKeyUpdate, wait: Wait::Wait, limit: None }
    }
}

/// The transaction, at the level of `R`, with what was fetched.
pub(crate) type Locked<E, R, T> = BoxFuture<'static, Result<(Tx<E, R>, T), Error>>;

macro_rules! terms {
    () => {
        /// `FOR KEY SHARE`: the rows will be referred to. (InnoDB: shared.)
        pub fn key_share(mut self) -> Self {
            self.terms.strength = rowlock_footprint::Strength::KeyShare;
            self
        }
        /// `FOR SHARE`: the rows will only be read. To write them later in the same transaction, take what that needs now.
        pub fn share(mut self) -> Self {
            self.terms.strength = rowlock_footprint::Strength::Share;
            self
        }
        /// `FOR UPDATE`: the rows will be deleted, or changed in a unique column.
        pub fn update(mut self) -> Self {
            self.terms.strength = rowlock_footprint::Strength::Update;
            self
        }
        /// Fails with [`Error::Busy`](crate::Error::Busy) where it would wait.
        pub fn nowait(mut self) -> Self {
            self.terms.wait = rowlock_footprint::Wait::NoWait;
            self
        }
        /// Waits at most so long, then fails with [`Error::Busy`](crate::Error::Busy); the statement is cancelled at the server.
        pub fn wait(mut self, limit: std::time::Duration) -> Self {
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

    /// Locks one row and gives it. With several keys, all are locked, and the row of the smallest is given. Without one
    /// it is [`sqlx::Error::RowNotFound`].
    pub fn fetch_one<T>(self) -> Locked<E, R, T>
    where
        T: for<'r> FromRow<'r, E::Row> + Send + 'static,
    {
        Box::pin(async move {
            let (tx, rows) = self.run().await?;
            let row = rows.first().ok_or(sqlx::Error::RowNotFound)?;
            Ok((tx, T::from_row(row)?))
        })
    }

    /// Locks one row and gives it, or `None` where there is no such row (as after [`existing`](Lock::existing)), or where it
    /// is another transaction's and [`skip_locked`](Lock::skip_locked) was asked for. With several keys, those that are there
    /// are locked, and the row of the smallest is given.
    pub fn fetch_optional<T>(self) -> Locked<E, R, Option<T>>
    where
        T: for<'r> FromRow<'r, E::Row> + Send + 'static,
    {
        Box::pin(async move {
            let (tx, rows) = self.existing().run().await?;
            let row = rows.first().map(T::from_row).transpose()?;
            Ok((tx, row))
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

/// The ways to await a locking call, for both kinds: they differ in how their rows are found.
macro_rules! awaited {
    ($lock:ident) => {
        impl<E: Engine, R: Resource> $lock<E, R> {
            /// Locks, and gives the rows in key order, each as a `T`. Errors and cancellation as of [`Lock`](crate::Lock);
            /// besides, those of `T`.
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

            /// Locks, and gives the keys of the rows that were had, in order.
            pub fn keys(self) -> Locked<E, R, Vec<R::Key>> {
                Box::pin(async move {
                    let (mut tx, rows) = self.run().await?;
                    let keys = $crate::lock::typed_keys::<E, R>(&mut tx, &rows)?;
                    Ok((tx, keys))
                })
            }
        }

        impl<E: Engine, R: Resource> IntoFuture for $lock<E, R> {
            type Output = Result<Tx<E, R>, Error>;
            type IntoFuture = std::pin::Pin<Box<dyn Future<Output = Self::Output> + Send>>;

            fn into_future(self) -> Self::IntoFuture {
                Box::pin(async move { Ok(self.run().await?.0) })
            }
        }
    };
}
pub(crate) use {awaited, terms};

awaited!(Lock);

pub(crate) fn typed_keys<E: Engine, R: Resource>(tx: &mut Tx<E, R>, rows: &[E::Row]) -> Result<Vec<R::Key>, Error> {
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
