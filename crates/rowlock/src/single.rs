//! One statement by itself, without BEGIN and COMMIT: one round trip.

use std::time::Instant;

use futures_util::TryStreamExt;
use sqlx::Either;

use crate::{
    Start, Tx,
    connection::Connection,
    count::Event,
    engine::Engine,
    error::Error,
    failure::Failure,
    guard::Admission,
    inner::Inner,
    kind::{Kind, Progress},
    query::Query,
    statement::Statement,
};

impl<E: Engine> Kind<E> {
    /// Runs one writing statement as a transaction of its own; how many rows it changed.
    ///
    /// Where it locks at most one row, by its key, it is sent as it is, in one round trip. Several rows, or a commit
    /// token, make it a transaction with BEGIN and COMMIT, in which the rows are locked in order first. It is held to the
    /// order and retried as a transaction is.
    ///
    /// ```no_run
    /// # rowlock::lock_order! { order Shop { Inventory => "inventories" (id: i64) } }
    /// # async fn example(db: rowlock::Db<sqlx::Postgres>) -> rowlock::Result<()> {
    /// let sale = rowlock::query("update inventories set stock = stock - $2 where id = $1 and stock >= $2");
    /// let sold = db.kind("sell").execute(sale.bind(20i64).bind(3i64)).await? == 1;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Kind::transaction`]; besides, [`Error::CommitUnknown`] where the connection was lost while the statement was
    /// under way, since a server goes on with a statement whose client has gone. With a commit token that is resolved.
    ///
    /// # Cancellation
    /// Dropped while the statement is under way, it may have been applied or not: what must be known wants to be awaited.
    pub async fn execute(&self, query: Query<E>) -> Result<u64, Error> {
        let began = Instant::now();
        let mut progress = Progress::default();
        // Unprepared, a statement is described in one trip and run in the next: outside a transaction a pooler may send the
        // two to different sessions.
        while !self.takes_token() && self.shared.keeps_prepared {
            let connection = Connection::acquire(&self.shared).await?;
            let mut inner = self.attempt(connection, &progress);
            let statement = query.again()?;
            if let Admission::First(_) = inner.admit(&statement)? {
                break;
            }
            match inner.alone(statement).await {
                Ok(changed) => {
                    self.shared.counters.count(Event::Committed, &self.name);
                    return Ok(changed);
                }
                Err(error) => match Failure::of::<E>(self.shared.dialect, &error) {
                    Failure::ConnectionLost => {
                        return Err(Error::CommitUnknown { kind: self.name.clone(), source: error });
                    }
                    failure if failure.is_transient() => {
                        if failure == Failure::StalePlan {
                            inner.connection.retire().await;
                        }
                        self.failed(&mut progress, began, failure, error.to_string()).await?;
                    }
                    _ => return Err(error.into()),
                },
            }
        }
        self.transaction(async |mut tx: Tx<E, Start>| query.again()?.send(tx.inner()).await).await
    }
}

impl<E: Engine> Inner<E> {
    /// Sends an admitted statement outside a transaction. Until it is answered, a drop hangs up.
    async fn alone(&mut self, statement: Statement<E>) -> Result<u64, sqlx::Error> {
        self.sending()?;
        self.connection.set_open(true);
        let steps = E::fetch_many(self.connection.get(), statement);
        let changed = steps
            .try_fold(0, |sum, step| {
                std::future::ready(
                    Ok(sum + if let Either::Left(result) = step { E::rows_affected(&result) } else { 0 }),
                )
            })
            .await;
        // An error of the server's leaves the session as it was; of the connection's, sqlx drops it by itself.
        let answered = !matches!(&changed, Err(error) if !matches!(error, sqlx::Error::Database(_)));
        self.connection.set_open(!answered);
        changed
    }
}
