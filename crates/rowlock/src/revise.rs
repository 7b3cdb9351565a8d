//! Reads a row, decides, and writes it from the version that was read; and all of it again where someone else was
//! faster.

use std::time::Instant;

use sqlx::FromRow;

use crate::{
    AsKey, Edit, Resource, Saved, Versioned, engine::Engine, error::Error, failure::Failure, kind::Kind,
    order::LockOrder, progress::Progress,
};

impl<E: Engine> Kind<E> {
    /// Reads the row of `key`, hands it to `decide`, and saves what that returns; on a conflict reads again and decides
    /// again. The new version; `None` where `decide` found nothing to do.
    ///
    /// `decide` holds no lock, no transaction and no connection, and may take as long as it likes: its time does not
    /// count against the kind's deadline. It may run several times, and so must not have effects outside (call the
    /// gateway with an idempotency key, or before). Conflicts count as attempts, with the waits of
    /// [`attempts`](Kind::attempts) and [`backoff`](Kind::backoff) between.
    ///
    /// Where conflicts are common, a short lock costs less: see the guide's page on versions.
    ///
    /// ```
    /// # rowlock_testing::guide! { db =>
    /// # sqlx::raw_sql("alter table orders add version integer not null default 0").execute(db.pool()).await?;
    /// # db.refresh().await?;
    /// use rowlock::{Edit, Versioned};
    ///
    /// #[derive(sqlx::FromRow)]
    /// struct Draft { id: i64, status: String, version: i64 }
    ///
    /// impl Versioned for Draft {
    ///     type Resource = Order;
    ///     fn key(&self) -> i64 { self.id }
    ///     fn version(&self) -> i64 { self.version }
    /// }
    ///
    /// let kind = db.kind("approve");
    /// let approved = kind.revise(10, async |order: Draft| {
    ///     if order.status != "open" {
    ///         return Ok(None);
    ///     }
    ///     // .. ask the credit agency ..
    ///     Ok::<_, rowlock::Error>(Some(Edit::of(&order).set("status", "approved")))
    /// });
    /// assert_eq!(approved.await?, Some(1));
    /// # }
    /// ```
    ///
    /// # Errors
    /// The closure's own, at once. [`Error::Missing`] when the row is not there (any more); [`Error::Exhausted`], with
    /// [`Failure::Conflict`] for each conflict; those of [`Kind::save`].
    ///
    /// # Cancellation
    /// As of [`Kind::save`]: dropped while the write is under way, it may have been done or not.
    pub async fn revise<T, X, F, Fut>(
        &self,
        key: impl AsKey<<T::Resource as Resource>::Key>,
        decide: F,
    ) -> Result<Option<i64>, X>
    where
        T: Versioned + for<'r> FromRow<'r, E::Row>,
        F: Fn(T) -> Fut,
        Fut: Future<Output = Result<Option<Edit<E, T>>, X>> + Send,
        X: From<Error>,
    {
        let key = key.as_key();
        let mut progress = Progress::default();
        let mut began = Instant::now();
        loop {
            let row = self.read::<T>(&key).await?;
            let missing = || {
                let resources = <<T::Resource as Resource>::Order as LockOrder>::RESOURCES;
                let resource = resources[usize::from(T::Resource::RANK)].name;
                Error::Missing { kind: self.name.clone(), resource, keys: vec![key.clone()] }
            };
            let asked = Instant::now();
            let edit = match row {
                Some(row) => decide(row).await?,
                None => return Err(missing().into()),
            };
            began += asked.elapsed();
            let Some(edit) = edit else { return Ok(None) };
            let from = edit.version;
            match self.save(edit).await? {
                Saved::Done { version } => return Ok(Some(version)),
                Saved::Missing | Saved::Withheld => return Err(missing().into()),
                Saved::Conflict { now } => {
                    let message = format!("decided on version {from}, now it is {}", now.version());
                    self.failed(&mut progress, began, Failure::Conflict, message).await?;
                }
            }
        }
    }
}
