//! Savepoints: a part of a transaction that may fail by itself.

use std::{marker::PhantomData, sync::Arc};

use sqlx::{AssertSqlSafe, SqlSafeStr};

use crate::{
    Tx,
    engine::Engine,
    error::Error,
    hold::Hold,
    inner::{Inner, Seen},
};

/// A point of a transaction to which it can be rolled back, at the level that it had there. Made by [`Tx::savepoint`].
pub struct Savepoint<L> {
    number: u32,
    mark: usize,
    /// The attempt that it belongs to.
    of: Arc<Hold>,
    level: PhantomData<fn() -> L>,
}

/// The savepoints of an attempt that can still be rolled back to, oldest first. A number is given once: one that was
/// undone would else name the next savepoint that is made, at another level and with more held.
#[derive(Default)]
pub(crate) struct Savepoints {
    made: u32,
    live: Vec<u32>,
}

impl Savepoints {
    fn index(&self, number: u32) -> Option<usize> {
        self.live.binary_search(&number).ok()
    }
}

impl<E: Engine, L> Tx<E, L> {
    /// Marks a point to roll back to.
    ///
    /// ```no_run
    /// # rowlock::lock_order! { order Shop { Order => "orders" (id: i64) } }
    /// # async fn example(mut tx: rowlock::Tx<sqlx::Postgres, Order>) -> rowlock::Result<()> {
    /// let before = tx.savepoint().await?;
    /// if sqlx::query("insert into coupons (code) values ('twice')").execute(&mut tx).await.is_err() {
    ///     tx = tx.rollback_to(before).await?; // on PostgreSQL nothing else could be done after an error
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The database's.
    ///
    /// # Cancellation
    /// Dropped under way, the transaction can only be rolled back.
    pub async fn savepoint(&mut self) -> Result<Savepoint<L>, Error> {
        let inner = self.inner();
        inner.savepoints.made += 1;
        let number = inner.savepoints.made;
        inner.control(format!("SAVEPOINT rowlock_{number}")).await?;
        inner.savepoints.live.push(number);
        Ok(Savepoint { number, mark: inner.held.mark(), of: inner.hold.clone(), level: PhantomData })
    }

    /// Rolls back to `savepoint`, and goes back to its level. On PostgreSQL the locks taken since are let go, and earlier
    /// strengths restored; on MySQL and MariaDB they stay held, so that a place below them is late as before.
    ///
    /// # Errors
    /// [`Error::Savepoint`] when it is another transaction's, or undone already; the database's.
    ///
    /// # Cancellation
    /// Dropped under way, the transaction can only be rolled back.
    pub async fn rollback_to<M>(mut self, savepoint: Savepoint<M>) -> Result<Tx<E, M>, Error> {
        let inner = self.inner();
        let index = inner.live(&savepoint)?;
        inner.control(format!("ROLLBACK TO SAVEPOINT rowlock_{}", savepoint.number)).await?;
        inner.savepoints.live.truncate(index + 1);
        if matches!(inner.seen, Seen::Aborted(_)) {
            inner.seen = Seen::Fine;
        }
        if !inner.dialect().is_innodb() {
            inner.held.shrink(savepoint.mark);
        }
        Ok(self.at())
    }

    /// Forgets `savepoint` and those made after it; what was done since stays part of the transaction.
    ///
    /// # Errors
    /// As [`Tx::rollback_to`].
    ///
    /// # Cancellation
    /// Dropped under way, the transaction can only be rolled back.
    pub async fn release<M>(&mut self, savepoint: Savepoint<M>) -> Result<(), Error> {
        let inner = self.inner();
        let index = inner.live(&savepoint)?;
        inner.control(format!("RELEASE SAVEPOINT rowlock_{}", savepoint.number)).await?;
        inner.savepoints.live.truncate(index);
        Ok(())
    }
}

impl<E: Engine> Inner<E> {
    /// Where `savepoint` stands among those that can be rolled back to.
    fn live<L>(&self, savepoint: &Savepoint<L>) -> Result<usize, Error> {
        let own = Arc::ptr_eq(&savepoint.of, &self.hold);
        let index = self.savepoints.index(savepoint.number).filter(|_| own);
        index.ok_or_else(|| Error::Savepoint { kind: self.kind.clone() })
    }

    async fn control(&mut self, sql: String) -> Result<(), Error> {
        self.sending()?;
        let result = E::batch(self.connection.get(), AssertSqlSafe(sql).into_sql_str()).await;
        self.pace.answered();
        if let Err(error) = result {
            self.note(&error);
            return Err(error.into());
        }
        Ok(())
    }
}
