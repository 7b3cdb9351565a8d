//! The shop on one engine: every operation, in the way that was chosen.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use rowlock::Db;
use sqlx::Pool;
use uuid::Uuid;

use crate::account::{self, NewTransfer, Transfer};
use crate::batch;
use crate::edit;
use crate::error::{Error, Result};
use crate::flash::{self, FlashSale, NewFlashOrder};
use crate::invariant;
use crate::inventory::{self, Delivery};
use crate::load::Strategy;
use crate::naive;
use crate::order::{self, NewLine, NewOrder, Order, Revision};
use crate::payment::{self, Receipt};
use crate::placement::{self, Taking};
use crate::stats::Stats;
use crate::store::Store;
use crate::webhook::Event;

/// How transactions lock.
enum Way<E: Store> {
    /// In the declared order.
    Ordered(Db<E>, FlashSale<E>),
    /// As it is usually written.
    Naive,
}

/// The shop. Cheap to clone.
pub struct Shop<E: Store>(Arc<Inner<E>>);

struct Inner<E: Store> {
    pool: Pool<E>,
    way: Way<E>,
    /// The database's errors that reached a client, by code.
    surfaced: Mutex<BTreeMap<String, u64>>,
}

impl<E: Store> Clone for Shop<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: Store> Shop<E> {
    /// The shop on a database that was opened with its order, and a pool for reads.
    pub async fn ordered(db: Db<E>, pool: Pool<E>) -> Result<Self> {
        let flash = FlashSale::open(&db, &pool).await?;
        Ok(Self(Arc::new(Inner { pool, way: Way::Ordered(db, flash), surfaced: Mutex::default() })))
    }

    /// The shop as it is usually written, to compare.
    pub fn naive(pool: Pool<E>) -> Self {
        Self(Arc::new(Inner { pool, way: Way::Naive, surfaced: Mutex::default() }))
    }

    /// The connections, for reads outside of any transaction.
    pub fn pool(&self) -> &Pool<E> {
        &self.0.pool
    }

    /// Places an order.
    pub async fn place(&self, new: &NewOrder) -> Result<Order> {
        let wanted = order::merge_lines(&new.lines)?;
        self.noted(match &self.0.way {
            Way::Ordered(db, _) => placement::place(db, new, &wanted, Taking::Conditional).await,
            Way::Naive => naive::api::place(&self.0.pool, new, &wanted).await,
        })
    }

    /// Buys pieces of an item that many want at once. Asked again with the same key, it is one order and the same answer;
    /// as it is usually written, it is two.
    pub async fn buy(&self, item: i64, key: &str, new: NewFlashOrder) -> Result<Order> {
        self.noted(match &self.0.way {
            Way::Ordered(_, flash) => flash.buy(item, key, new).await,
            Way::Naive => {
                new.check()?;
                let NewFlashOrder { account, quantity } = new;
                let lines = vec![NewLine { item, quantity }];
                naive::api::place(&self.0.pool, &NewOrder { account, lines: vec![], pay: false }, &lines).await
            }
        })
    }

    /// Buys pieces of an item by a strategy, to compare them; a shop as it is usually written knows one only.
    pub async fn buy_by(&self, strategy: Strategy, item: i64, new: NewFlashOrder) -> Result<Order> {
        let lines = [NewLine { item, quantity: new.quantity }];
        let order = NewOrder { account: new.account, lines: vec![], pay: false };
        match (&self.0.way, strategy) {
            (Way::Naive, _) | (_, Strategy::Naive) => naive::api::place(&self.0.pool, &order, &lines).await,
            (Way::Ordered(db, _), Strategy::Locked) => placement::place(db, &order, &lines, Taking::Locked).await,
            (Way::Ordered(db, _), Strategy::Conditional) => {
                placement::place(db, &order, &lines, Taking::Conditional).await
            }
            (Way::Ordered(_, flash), Strategy::Merged) => flash.buy(item, &Uuid::new_v4().to_string(), new).await,
        }
    }

    /// Makes the orders of flash-sale grants that a crash left without one; how many there were.
    pub async fn settle(&self) -> Result<usize> {
        self.noted(match &self.0.way {
            Way::Ordered(db, _) => flash::settle::sweep(db, &self.0.pool).await,
            Way::Naive => Ok(0),
        })
    }

    /// Cancels an order that is open, or one that is paid, which pays the money back. Cancelled twice is cancelled.
    pub async fn cancel(&self, id: i64) -> Result<Order> {
        self.noted(match &self.0.way {
            Way::Ordered(db, _) => placement::cancel(db, id).await,
            Way::Naive => naive::api::cancel(&self.0.pool, id).await,
        })
    }

    /// Changes an order that is open, if it is still of the version that was read.
    pub async fn edit(&self, id: i64, read: i64, revision: &Revision) -> Result<Order> {
        let wanted = revision.check()?;
        self.noted(match &self.0.way {
            Way::Ordered(db, _) => edit::edit(db, &self.0.pool, id, read, revision.note.as_deref(), wanted).await,
            Way::Naive => naive::api::edit(&self.0.pool, id, revision.note.as_deref(), wanted).await,
        })
    }

    /// Takes in a delivery.
    pub async fn restock(&self, delivery: &Delivery) -> Result<()> {
        let lines = order::merge_lines(&delivery.lines)?;
        self.noted(match &self.0.way {
            Way::Ordered(db, _) => inventory::restock(db, &lines).await,
            Way::Naive => naive::stock::restock(&self.0.pool, &lines).await,
        })
    }

    /// Moves money from one account to another.
    pub async fn transfer(&self, new: &NewTransfer) -> Result<Transfer> {
        new.check()?;
        self.noted(match &self.0.way {
            Way::Ordered(db, _) => account::transfer(db, new).await,
            Way::Naive => naive::transfer::transfer(&self.0.pool, new).await,
        })
    }

    /// Takes in an event. However often it arrives, it has its effect once, and the same answer every time.
    pub async fn receive(&self, event: &Event) -> Result<Receipt> {
        self.noted(match (&self.0.way, event) {
            (Way::Ordered(db, _), event) => payment::receive(db, event).await,
            (Way::Naive, Event::Payment(payment)) => naive::event::pay(&self.0.pool, payment).await,
            (Way::Naive, Event::Other { event, kind }) => naive::event::ignore(&self.0.pool, event, kind).await,
        })
    }

    /// Expires the oldest orders that were placed before a moment and never paid, at most `limit` of them, all or none.
    pub async fn expire(&self, before: i64, limit: i64) -> Result<Vec<i64>> {
        self.noted(match &self.0.way {
            Way::Ordered(db, _) => batch::expire(db, before, limit).await,
            Way::Naive => naive::batch::expire(&self.0.pool, before, limit).await,
        })
    }

    /// Checks everything that must hold.
    pub async fn check(&self) -> Result<invariant::Report> {
        invariant::check(&self.0.pool).await
    }

    /// What was counted since the start.
    pub fn stats(&self) -> Stats {
        let surfaced = self.0.surfaced.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (engine, locks) = match &self.0.way {
            Way::Ordered(db, _) => (format!("{:?} {}", db.dialect(), db.version()), Some(db.counts().into())),
            Way::Naive => (E::NAME.to_owned(), None),
        };
        Stats { engine, way: self.way().to_owned(), surfaced, locks }
    }

    /// `naive` or `rowlock`.
    pub fn way(&self) -> &'static str {
        match self.0.way {
            Way::Ordered(..) => "rowlock",
            Way::Naive => "naive",
        }
    }

    /// Waits for what runs, then closes the connections.
    pub async fn close(&self) {
        if let Way::Ordered(db, flash) = &self.0.way {
            flash.close().await;
            db.pool().close().await;
        }
        self.0.pool.close().await;
    }

    fn noted<T>(&self, result: Result<T>) -> Result<T> {
        if let Some(code) = result.as_ref().err().and_then(Error::code) {
            *self.0.surfaced.lock().unwrap_or_else(PoisonError::into_inner).entry(code).or_default() += 1;
        }
        result
    }
}
