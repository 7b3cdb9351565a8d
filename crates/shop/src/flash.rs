//! Flash sales: more want an item at once than its row can be changed one after the other.
//!
//! ```text
//! buyer --> merger: stock - n, a row in the ledger --> clerk: order, line, reserved + n --> buyer
//!           one transaction for all who wait           one transaction for all who wait
//! ```
//!
//! The first transaction decides: what it grants is granted for good, under the buyer's idempotency key, and a repeat of
//! the key finds it in the ledger. The second makes the order, once, since an order names its request. What a crash leaves
//! between the two stands in the ledger without an order; the next start, or `shop batch settle`, makes it.
//!
//! Two transactions, since the first is the merger's own; and each is shared by all who wait, so that the item's row
//! is written twice for hundreds of buyers, and not for each.

mod clerk;
pub mod settle;

use rowlock::{Db, Merger, Outcome};
use serde::{Deserialize, Serialize};
use sqlx::Pool;

use crate::error::{Error, Result};
use crate::flash::clerk::Clerk;
use crate::flash::settle::Grant;
use crate::inventory::STOCK;
use crate::locks::Inventory;
use crate::order::{MAX_AMOUNT, MAX_QUANTITY, Order};
use crate::sql::query;
use crate::store::{self, Store};

/// The longest idempotency key; with the account before it, it is the ledger's.
pub const MAX_KEY: usize = 200;

/// The ledger's table, which the migrations make.
pub const LEDGER: &str = "flash_ledger";

/// An order of a flash-sale item as a client asks for it.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewFlashOrder {
    /// Who will pay.
    pub account: i64,
    /// How many pieces.
    pub quantity: i64,
}

impl NewFlashOrder {
    /// Whether it can be one at all.
    pub fn check(&self) -> Result<()> {
        if !(1..=MAX_QUANTITY).contains(&self.quantity) {
            return Err(Error::invalid("quantity", format!("{} is not from 1 to {MAX_QUANTITY}", self.quantity)));
        }
        Ok(())
    }
}

/// Sells items to many at once. Cheap to clone.
pub struct FlashSale<E: Store> {
    pool: Pool<E>,
    merger: Merger<E, Inventory>,
    clerk: Clerk,
}

impl<E: Store> Clone for FlashSale<E> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone(), merger: self.merger.clone(), clerk: self.clerk.clone() }
    }
}

impl<E: Store> FlashSale<E> {
    /// Opens it.
    pub async fn open(db: &Db<E>, pool: &Pool<E>) -> Result<Self> {
        let merger = db.kind("flash sale").merger(STOCK).ledger(LEDGER).start().await?;
        Ok(Self { pool: pool.clone(), merger, clerk: Clerk::start(db.clone(), pool.clone()) })
    }

    /// Buys pieces of an item: the order, open; asked again with the same key, the same order as it is by then.
    ///
    /// Who asks and goes away has bought all the same: the order is there when he asks again, and expires if he never does.
    pub async fn buy(&self, item: i64, key: &str, new: NewFlashOrder) -> Result<Order> {
        new.check()?;
        let grant = Grant { account: new.account, key: key.to_owned(), item, quantity: new.quantity };
        let sale = self.clone();
        // In a task of its own: a client that hangs up must not leave a grant without its order.
        let task = tokio::spawn(async move { sale.bought(grant).await });
        task.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }

    async fn bought(&self, grant: Grant) -> Result<Order> {
        self.check(&grant).await?;
        let (item, wanted) = (grant.item, grant.quantity);
        match self.merger.subtract(item, wanted).request(&grant.request()).nowait().await? {
            Outcome::Applied { .. } => self.clerk.settle(grant).await,
            Outcome::Insufficient { found: stock } => Err(Error::OutOfStock { item, wanted, stock }),
            Outcome::Missing | Outcome::Withheld { .. } => Err(Error::NotFound { what: "item", id: item }),
        }
    }

    /// What could keep an order from being written must be known before its pieces are granted. Items and accounts stay
    /// for ever and prices do not change, so what is seen here still holds then.
    async fn check(&self, grant: &Grant) -> Result<()> {
        let select =
            query::<E>("select (select price from inventories where id = ?), (select id from accounts where id = ?)");
        let select = select.bind(grant.item).bind(grant.account);
        let mut conn = self.pool.acquire().await?;
        let (price, account) =
            store::row::<E, (Option<i64>, Option<i64>)>(&mut conn, select).await?.unwrap_or_default();
        let price = price.ok_or(Error::NotFound { what: "item", id: grant.item })?;
        if account.is_none() {
            return Err(Error::invalid("account", format!("there is no account {}", grant.account)));
        }
        match price.checked_mul(grant.quantity) {
            Some(total) if total <= MAX_AMOUNT => Ok(()),
            _ => Err(Error::invalid("quantity", format!("the total is more than {MAX_AMOUNT}"))),
        }
    }

    /// Takes no more, and resolves when all are answered.
    pub async fn close(&self) {
        self.merger.close().await;
    }
}

#[cfg(test)]
mod tests {
    use rowlock::Dialect;

    use super::LEDGER;

    #[test]
    fn the_migrations_make_the_ledger_as_rowlock_makes_it() {
        let postgres = include_str!("../migrations/postgres/0003_flash_sales.sql");
        let mysql = include_str!("../migrations/mysql/0003_flash_sales.sql");
        let sqlite = include_str!("../migrations/sqlite/0003_flash_sales.sql");
        for (dialect, migration) in [
            (Dialect::Postgres, postgres),
            (Dialect::MySql, mysql),
            (Dialect::MariaDb, mysql),
            (Dialect::Sqlite, sqlite),
        ] {
            let made = rowlock::ledger_sql(dialect, LEDGER);
            assert!(migration.contains(&made), "{dialect:?}: {made}");
        }
    }
}
