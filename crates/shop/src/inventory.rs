//! Items and their stock: every piece that was delivered is in stock, reserved or sold.

use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Pool};

use crate::error::{Error, Result};
use crate::order::{NewLine, new_id};
use crate::sql::query;
use crate::store::{self, Store};

/// The most pieces of one item that may ever be delivered.
pub const MAX_DELIVERED: i64 = 1_000_000_000_000;
/// The highest price of one piece.
pub const MAX_PRICE: i64 = 1_000_000_000;

/// An item as it is put on sale.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewItem {
    /// What it is called.
    pub name: String,
    /// The account that is paid for it.
    pub seller: i64,
    /// The price of one piece.
    pub price: i64,
    /// How many pieces come with it.
    #[serde(default)]
    pub stock: i64,
}

/// A delivery.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Delivery {
    /// What came in, in any order.
    pub lines: Vec<NewLine>,
}

/// An item as it is kept.
#[derive(Clone, Debug, FromRow, Serialize, Deserialize, PartialEq, Eq)]
pub struct Item {
    /// Random, within what a JSON number holds exactly.
    pub id: i64,
    /// What it is called.
    pub name: String,
    /// The account that is paid for it.
    pub seller: i64,
    /// The price of one piece.
    pub price: i64,
    /// All that ever came in.
    pub delivered: i64,
    /// What can be ordered.
    pub stock: i64,
    /// What stands in open orders.
    pub reserved: i64,
    /// What stands in paid orders.
    pub sold: i64,
}

/// Puts an item on sale. One new row, one statement: nothing is locked that anyone could hold.
pub async fn create<E: Store>(pool: &Pool<E>, new: NewItem) -> Result<Item> {
    if new.name.is_empty() || new.name.chars().count() > 200 {
        return Err(Error::invalid("name", "from 1 to 200 characters are taken"));
    }
    if new.name.contains('\0') {
        return Err(Error::invalid("name", "a NUL character cannot be kept"));
    }
    if !(1..=MAX_PRICE).contains(&new.price) {
        return Err(Error::invalid("price", format!("{} is not from 1 to {MAX_PRICE}", new.price)));
    }
    if !(0..=MAX_DELIVERED).contains(&new.stock) {
        return Err(Error::invalid("stock", format!("{} is not from 0 to {MAX_DELIVERED}", new.stock)));
    }
    let mut conn = pool.acquire().await?;
    let seller = query::<E>("select id from accounts where id = ?").bind(new.seller);
    if store::row::<E, (i64,)>(&mut conn, seller).await?.is_none() {
        return Err(Error::invalid("seller", format!("there is no account {}", new.seller)));
    }
    let NewItem { name, seller, price, stock } = new;
    let item = Item { id: new_id(), name, seller, price, delivered: stock, stock, reserved: 0, sold: 0 };
    let insert = query::<E>(
        "insert into inventories (id, name, seller, price, delivered, stock, reserved, sold) values (?, ?, ?, ?, ?, ?, 0, 0)",
    )
    .bind(item.id)
    .bind(item.name.clone())
    .bind(seller)
    .bind(price)
    .bind(stock)
    .bind(stock);
    E::execute(&mut conn, insert).await?;
    Ok(item)
}

/// One item.
pub async fn read<E: Store>(pool: &Pool<E>, id: i64) -> Result<Item> {
    let mut conn = pool.acquire().await?;
    let select =
        query("select id, name, seller, price, delivered, stock, reserved, sold from inventories where id = ?");
    store::row::<E, _>(&mut conn, select.bind(id)).await?.ok_or(Error::NotFound { what: "item", id })
}

/// Items after an id, in the order of their ids.
pub async fn list<E: Store>(pool: &Pool<E>, after: i64, limit: i64) -> Result<Vec<Item>> {
    let mut conn = pool.acquire().await?;
    let select = query(
        "select id, name, seller, price, delivered, stock, reserved, sold from inventories where id > ? order by id limit ?",
    );
    Ok(store::rows::<E, _>(&mut conn, select.bind(after).bind(limit)).await?)
}
