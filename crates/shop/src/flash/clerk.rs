//! The clerk: writes the orders of what was granted. What comes while a transaction is under way is the next one.

use std::sync::Arc;

use rowlock::Db;
use sqlx::Pool;
use tokio::sync::{mpsc, oneshot};

use crate::error::{Error, Result};
use crate::flash::settle::{CHUNK, Grant, settle};
use crate::order::Order;
use crate::store::Store;

/// The way to the clerk, who works until the last of these is gone.
#[derive(Clone)]
pub(crate) struct Clerk(mpsc::UnboundedSender<Ask>);

struct Ask {
    grant: Grant,
    answer: oneshot::Sender<Result<Order>>,
}

impl Clerk {
    pub(crate) fn start<E: Store>(db: Db<E>, pool: Pool<E>) -> Self {
        // As long as what was granted and waits here: the merger's queue is bounded, and its callers wait for this.
        let (desk, asks) = mpsc::unbounded_channel();
        tokio::spawn(work(db, pool, asks));
        Self(desk)
    }

    /// The order of a grant.
    pub(crate) async fn settle(&self, grant: Grant) -> Result<Order> {
        let (answer, answered) = oneshot::channel();
        let gone = || Error::from(sqlx::Error::WorkerCrashed);
        self.0.send(Ask { grant, answer }).map_err(|_| gone())?;
        answered.await.unwrap_or_else(|_| Err(gone()))
    }
}

async fn work<E: Store>(db: Db<E>, pool: Pool<E>, mut asks: mpsc::UnboundedReceiver<Ask>) {
    let mut batch = Vec::new();
    while asks.recv_many(&mut batch, CHUNK).await > 0 {
        let grants = batch.iter().map(|ask| ask.grant.clone()).collect();
        let orders = settle(&db, &pool, grants).await.map_err(Arc::new);
        for ask in batch.drain(..) {
            let order = match &orders {
                Ok(orders) => orders
                    .get(&ask.grant.request())
                    .cloned()
                    .ok_or_else(|| Error::Unfinished(Arc::new(sqlx::Error::RowNotFound.into()))),
                Err(error) => Err(Error::Unfinished(error.clone())),
            };
            // Whoever asked may have gone; the order is there all the same.
            let _ = ask.answer.send(order);
        }
    }
}
