//! Stock by read, compute, write back.

use sqlx::FromRow;

use crate::error::{Error, Result};
use crate::inventory::MAX_DELIVERED;
use crate::order::NewLine;
use crate::sql::query;
use crate::store::{self, Store};

/// An item's numbers, as read under its lock.
#[derive(FromRow)]
pub(crate) struct Stock {
    id: i64,
    delivered: i64,
    stock: i64,
    reserved: i64,
    sold: i64,
}

/// Locks one item and reads it; the caller does so for one item after the other.
pub(crate) async fn lock<E: Store>(conn: &mut E::Connection, id: i64) -> Result<Stock> {
    let select = query("select id, delivered, stock, reserved, sold from inventories where id = ? {for update}");
    let found = store::row(conn, select.bind(id)).await?;
    found.ok_or_else(|| Error::invalid("lines", format!("there is no item {id}")))
}

impl Stock {
    /// Takes pieces out of stock for an order.
    pub(crate) async fn reserve<E: Store>(mut self, conn: &mut E::Connection, quantity: i64) -> Result<()> {
        if self.stock < quantity {
            return Err(Error::OutOfStock { item: self.id, wanted: quantity, stock: self.stock });
        }
        self.stock -= quantity;
        self.reserved += quantity;
        self.write::<E>(conn).await
    }

    /// Puts an open order's pieces back.
    pub(crate) async fn release<E: Store>(mut self, conn: &mut E::Connection, quantity: i64) -> Result<()> {
        self.reserved -= quantity;
        self.stock += quantity;
        self.write::<E>(conn).await
    }

    /// An open order's pieces are paid.
    pub(crate) async fn sell<E: Store>(mut self, conn: &mut E::Connection, quantity: i64) -> Result<()> {
        self.reserved -= quantity;
        self.sold += quantity;
        self.write::<E>(conn).await
    }

    /// A paid order's pieces come back.
    pub(crate) async fn unsell<E: Store>(mut self, conn: &mut E::Connection, quantity: i64) -> Result<()> {
        self.sold -= quantity;
        self.stock += quantity;
        self.write::<E>(conn).await
    }

    /// New pieces come in.
    pub(crate) async fn deliver<E: Store>(mut self, conn: &mut E::Connection, quantity: i64) -> Result<()> {
        self.delivered += quantity;
        self.stock += quantity;
        if self.delivered > MAX_DELIVERED {
            return Err(Error::Full { what: "item", id: self.id, limit: MAX_DELIVERED });
        }
        self.write::<E>(conn).await
    }

    async fn write<E: Store>(self, conn: &mut E::Connection) -> Result<()> {
        let update = query::<E>("update inventories set delivered = ?, stock = ?, reserved = ?, sold = ? where id = ?");
        let update = update.bind(self.delivered).bind(self.stock).bind(self.reserved).bind(self.sold).bind(self.id);
        E::execute(conn, update).await?;
        Ok(())
    }
}

/// A delivery: items one after the other, as the request lists them.
pub async fn restock<E: Store>(pool: &sqlx::Pool<E>, lines: &[NewLine]) -> Result<()> {
    let mut tx = pool.begin().await?;
    for line in lines {
        lock::<E>(&mut tx, line.item).await?.deliver::<E>(&mut tx, line.quantity).await?;
    }
    Ok(tx.commit().await?)
}
