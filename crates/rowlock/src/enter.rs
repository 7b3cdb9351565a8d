//! A kind of transaction goes through the gates before it takes a connection.

use std::time::Instant;

use futures_core::future::BoxFuture;

use crate::{
    AsKey, KeyValue, Resource,
    count::Event,
    engine::Engine,
    error::Error,
    gate::{Pass, TurnedAway},
    kind::Kind,
};

impl<E: Engine> Kind<E> {
    /// Passes the gate of `R`, if one is set ([`Builder::gate`](crate::Builder::gate)), for these of its rows, before
    /// it takes a connection of the pool, and stays inside until it has ended, retries included. Called for several
    /// resources, it passes all of their gates. Waits count against the kind's wait limit.
    ///
    /// Which rows it locks is for the transaction to say. A hot row's transactions all enter, and what waits for the
    /// row then waits in this process's memory, at most as many as the gate's queue holds.
    ///
    /// Do not run a transaction that enters from inside another that has entered: it could wait for itself, until its
    /// wait limit.
    ///
    /// ```
    /// # rowlock_testing::guide! { db =>
    /// let buy = db.kind("buy").enters::<Inventory>([20]);
    /// let bought = buy.transaction(async |tx| {
    ///     let mut tx = tx.lock::<Inventory>([20]).await?;
    ///     rowlock::query("update inventories set stock = stock - 1 where id = 20").execute(&mut tx).await
    /// });
    /// assert_eq!(bought.await?, 1);
    /// # }
    /// ```
    ///
    /// # Errors
    /// Of the transaction: [`Error::Busy`] with `turned_away`, at once when a queue is full, or when the wait limit is
    /// over.
    #[must_use]
    pub fn enters<R: Resource>(mut self, keys: impl IntoIterator<Item = impl AsKey<R::Key>>) -> Self {
        if let Err(Error::OtherOrder { resource, .. }) = self.shared.knows::<R>() {
            self.entries = Err(resource);
        }
        self.enters_value(R::RANK, keys.into_iter().map(|key| key.as_key()))
    }

    /// The same for the resource at `rank` of this database's order.
    pub(crate) fn enters_value(mut self, rank: u16, keys: impl IntoIterator<Item = KeyValue>) -> Self {
        let Ok(entries) = &mut self.entries else { return self };
        let at = match entries.binary_search_by_key(&rank, |(rank, _)| *rank) {
            Ok(at) => at,
            Err(at) => {
                entries.insert(at, (rank, Vec::new()));
                at
            }
        };
        let rows = &mut entries[at].1;
        rows.extend(keys);
        rows.sort_unstable();
        rows.dedup();
        self
    }

    /// Whether there may be gates to go through.
    pub(crate) fn is_gated(&self) -> bool {
        !self.entries.as_ref().is_ok_and(Vec::is_empty)
    }

    /// Goes through the gates.
    pub(crate) async fn enter(&self) -> Result<Pass, Error> {
        if self.is_gated() { self.queue().await } else { Ok(Pass::default()) }
    }

    fn queue(&self) -> BoxFuture<'_, Result<Pass, Error>> {
        Box::pin(async move {
            let entries = match &self.entries {
                Ok(entries) => entries,
                Err(resource) => return Err(Error::OtherOrder { resource, order: self.shared.order }),
            };
            let began = Instant::now();
            let queued = || self.shared.counters.count(Event::Queued, &self.name);
            let result = self.shared.gates.enter(entries, self.options.wait, queued).await;
            metrics::histogram!("rowlock_gate_wait_seconds", "kind" => self.name.label())
                .record(began.elapsed().as_secs_f64());
            match result {
                Ok(pass) => Ok(pass),
                Err(TurnedAway { rank, key, waited }) => {
                    self.shared.counters.count(Event::TurnedAway, &self.name);
                    let keys = key.into_iter().collect();
                    let resource = self.shared.resources[usize::from(rank)].name;
                    Err(Error::Busy { kind: self.name.clone(), resource, keys, waited, turned_away: true })
                }
            }
        })
    }

    /// This kind, once it is inside.
    pub(crate) fn inside(&self) -> Self {
        Kind { entries: Ok(Vec::new()), ..self.clone() }
    }
}
