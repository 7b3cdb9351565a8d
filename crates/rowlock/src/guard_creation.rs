//! A creation guard that is about to be taken: refined, then awaited.

use std::{pin::Pin, time::Duration};

use rowlock_footprint::{Strength, Wait};

use crate::{
    KeyValue, Plan, Resource, Tx,
    acquire::Ask,
    creation,
    engine::Engine,
    error::Error,
    place::{Part, Place},
};

/// The right to make rows of `R`, about to be taken; made by [`Tx::guard_creation`]. Nothing is sent until it is
/// awaited.
///
/// ```
/// # rowlock_testing::guide! { db =>
/// db.transaction(async |tx| {
///     // Error::Busy at once where another transaction makes the same user.
///     let mut tx = tx.guard_creation::<User>(["ada@example.org"]).nowait().await?;
///     sqlx::query("insert into users (email, name) values ('ada@example.org', 'Ada')").execute(&mut tx).await?;
///     Ok::<_, rowlock::Error>(())
/// })
/// .await?;
/// # }
/// ```
///
/// # Errors
/// [`Error::Busy`] after `nowait` or the wait limit; [`Error::OutOfOrder`] as of [`Lock`](crate::Lock);
/// [`Error::NotInstalled`]; the database's.
///
/// # Cancellation
/// Dropping the future drops the [`Tx`] in it, and so rolls the transaction back.
#[must_use = "a guard is taken when it is awaited"]
pub struct GuardCreation<E: Engine, R: Resource> {
    tx: Tx<E, R>,
    keys: Vec<KeyValue>,
    wait: Wait,
    limit: Option<Duration>,
}

impl<E: Engine, R: Resource> GuardCreation<E, R> {
    pub(crate) fn new(tx: Tx<E, R>, keys: Vec<KeyValue>) -> Self {
        GuardCreation { tx, keys, wait: Wait::Wait, limit: None }
    }

    /// Fails with [`Error::Busy`] where it would wait.
    pub fn nowait(mut self) -> Self {
        self.wait = Wait::NoWait;
        self
    }

    /// Waits at most so long, then fails with [`Error::Busy`]; the statement is cancelled at the server.
    pub fn wait(mut self, limit: Duration) -> Self {
        self.limit = Some(limit.min(crate::options::LONGEST));
        self
    }

    async fn run(self) -> Result<Tx<E, R>, Error> {
        let GuardCreation { mut tx, keys, wait, limit } = self;
        let inner = tx.inner();
        inner.shared.knows::<R>()?;
        let ask = Ask { wait, limit: limit.unwrap_or(inner.options.wait), all: true };
        let dialect = inner.dialect();
        let slots = keys.iter().map(|key| (Place::creation(R::RANK, creation::slot(dialect, key)), Strength::Update));
        for step in Plan::new(slots).steps() {
            debug_assert_eq!(step.part, Part::Creation);
            creation::acquire(inner, step, ask).await?;
        }
        Ok(tx)
    }
}

impl<E: Engine, R: Resource> IntoFuture for GuardCreation<E, R> {
    type Output = Result<Tx<E, R>, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.run())
    }
}
