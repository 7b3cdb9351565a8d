//! One transaction for each of many items, where atomicity allows: short locks, and one item's failure is its own.

use std::fmt;

use crate::{Start, Tx, engine::Engine, error::Error, kind::Kind};

/// What became of the items of [`Kind::for_each`].
#[derive(Debug)]
pub struct ForEach<K, T, X> {
    /// The items that were committed, with what their closure returned, in the order of the input.
    pub done: Vec<(K, T)>,
    /// The items that failed, with their errors, in the order of the input.
    pub failed: Vec<(K, X)>,
}

impl<K: fmt::Debug, T, X: fmt::Display> fmt::Display for ForEach<K, T, X> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} done, {} failed", self.done.len(), self.failed.len())?;
        self.failed.iter().try_for_each(|(item, error)| write!(f, "\n  {item:?}: {error}"))
    }
}

impl<E: Engine> Kind<E> {
    /// Runs `f` once for each item, each in a transaction of its own with its own retries, one after the other.
    /// `progress` is told after each item how many are through.
    ///
    /// ```no_run
    /// # rowlock::lock_order! { order Shop { Order => "orders" (id: i64) } }
    /// # async fn example(db: rowlock::Db<sqlx::Postgres>, unpaid: Vec<i64>) {
    /// let report = db
    ///     .kind("expire")
    ///     .for_each(unpaid, |done| println!("{done}"), async |tx, id| {
    ///         let mut tx = tx.lock::<Order>([id]).await?;
    ///         rowlock::query("update orders set status = 'expired' where id = $1").bind(id).execute(&mut tx).await
    ///     })
    ///     .await;
    /// assert!(report.failed.is_empty(), "{report}");
    /// # }
    /// ```
    ///
    /// # Errors
    /// None: what each item failed with stands in the report.
    ///
    /// # Cancellation
    /// The item under way is rolled back; those before it stay committed.
    pub async fn for_each<K, T, X, F, Fut>(
        &self,
        items: impl IntoIterator<Item = K>,
        mut progress: impl FnMut(usize),
        f: F,
    ) -> ForEach<K, T, X>
    where
        K: Clone,
        F: Fn(Tx<E, Start>, K) -> Fut,
        Fut: Future<Output = Result<T, X>> + Send,
        X: From<Error>,
    {
        let mut report = ForEach { done: Vec::new(), failed: Vec::new() };
        for (n, item) in items.into_iter().enumerate() {
            match self.transaction(|tx| f(tx, item.clone())).await {
                Ok(value) => report.done.push((item, value)),
                Err(error) => report.failed.push((item, error)),
            }
            progress(n + 1);
        }
        report
    }
}
