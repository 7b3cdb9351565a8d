//! Items and their stock: every piece that was delivered is in stock, reserved or sold.

use std::collections::HashMap;

use rowlock::{Before, Counter, Db, Outcome, Tx};
use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Pool};

use crate::error::{Error, Result};
use crate::locks::Inventory;
use crate::order::{Line, NewLine, new_id};
use crate::sql::{locked, locked_changes, query, query_list};
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

/// How many items one statement changes.
const CHUNK: usize = 100;

const TAKE: &str = "update inventories set stock = stock - ?, reserved = reserved + ? where id = ? and stock >= ?";
const RESERVE: &str = "update inventories set stock = stock - {by}, reserved = reserved + {by} where id in ({list})";
const RELEASE: &str = "update inventories set reserved = reserved - {by}, stock = stock + {by} where id in ({list})";
const SELL: &str = "update inventories set reserved = reserved - {by}, sold = sold + {by} where id in ({list})";
const TAKE_BACK: &str = "update inventories set sold = sold - {by}, stock = stock + {by} where id in ({list})";

const DELIVERED: Counter<Inventory> = Counter::new("delivered");
const RESERVED: Counter<Inventory> = Counter::new("reserved");
pub(crate) const STOCK: Counter<Inventory> = Counter::new("stock");

/// The lines of a new order, with the prices at which the items stand now, and who sells them. Read without a lock: a
/// price is what the buyer was shown.
pub async fn quote<E: Store, L>(tx: &mut Tx<E, L>, wanted: &[NewLine]) -> Result<Vec<Line>> {
    let mut items: Vec<i64> = wanted.iter().map(|line| line.item).collect();
    items.sort_unstable();
    let select = "select id, price, seller from inventories where id in ({list})";
    let mut found = Vec::with_capacity(items.len());
    for items in items.chunks(CHUNK) {
        found.extend(query_list::<E, (i64, i64, i64)>(select, items).fetch_all(&mut *tx).await?);
    }
    let found: HashMap<i64, (i64, i64)> = found.into_iter().map(|(id, price, seller)| (id, (price, seller))).collect();
    let lines = (1..).zip(wanted).map(|(line, want)| {
        let NewLine { item, quantity } = *want;
        let &(price, seller) = found.get(&item).ok_or_else(|| no_item(item))?;
        Ok(Line { line, item, quantity, price, seller })
    });
    lines.collect()
}

/// Takes pieces out of stock for a new order, where they are there.
///
/// One item is changed by one statement, under its own condition; to lock it first would be a trip more while others wait
/// for it. Several are locked first: a statement that changes them all takes them in the order of its plan and not of their
/// keys, and one statement an item is as many trips. (rowlock's own conditional update goes in order, but it changes
/// one column, and here two move at once: it would be as many trips as to lock, and on MySQL one more.)
pub async fn reserve<E: Store, L: Before<Inventory>>(mut tx: Tx<E, L>, lines: &[Line]) -> Result<Tx<E, Inventory>> {
    if let [Line { item, quantity, .. }] = *lines {
        let take = locked::<E>(TAKE).bind(quantity).bind(quantity).bind(item).bind(quantity);
        if take.execute(&mut tx).await? == 1 {
            return Ok(tx.pass());
        }
        // Too little, or no such item: the lock tells which, and how much there is.
    }
    reserve_locked(tx, lines).await
}

/// The same, with all items locked first.
pub async fn reserve_locked<E: Store, L: Before<Inventory>>(tx: Tx<E, L>, lines: &[Line]) -> Result<Tx<E, Inventory>> {
    let wanted: Vec<NewLine> = quantities(lines).map(|(item, quantity)| NewLine { item, quantity }).collect();
    let (mut tx, items) = lock(tx, &wanted).await?;
    for want in wanted {
        let item = find(&items, want.item)?;
        if item.stock < want.quantity {
            return Err(Error::OutOfStock { item: item.id, wanted: want.quantity, stock: item.stock });
        }
    }
    change(&mut tx, RESERVE, quantities(lines)).await?;
    Ok(tx)
}

/// Puts the pieces of open orders back into stock.
pub async fn release<E: Store, L: Before<Inventory>>(tx: Tx<E, L>, lines: &[Line]) -> Result<Tx<E, Inventory>> {
    let mut tx = tx.lock::<Inventory>(lines.iter().map(|line| line.item)).await?;
    change(&mut tx, RELEASE, quantities(lines)).await?;
    Ok(tx)
}

/// Puts the pieces of a paid order back into stock.
pub async fn take_back<E: Store, L: Before<Inventory>>(tx: Tx<E, L>, lines: &[Line]) -> Result<Tx<E, Inventory>> {
    let mut tx = tx.lock::<Inventory>(lines.iter().map(|line| line.item)).await?;
    change(&mut tx, TAKE_BACK, quantities(lines)).await?;
    Ok(tx)
}

/// What was reserved is sold. The items must be locked already.
pub async fn sell<E: Store, L>(tx: &mut Tx<E, L>, lines: &[Line]) -> Result<()> {
    change(tx, SELL, quantities(lines)).await
}

/// Takes in a delivery of merged lines.
pub async fn restock<E: Store>(db: &Db<E>, delivered: &[NewLine]) -> Result<()> {
    db.kind("restock")
        .commit_token(true)
        .enters::<Inventory>(delivered.iter().map(|line| line.item))
        .transaction(async |tx| {
            let pieces = || delivered.iter().map(|line| (line.item, line.quantity));
            let (tx, came) = tx.update(DELIVERED.add(pieces()).at_most(MAX_DELIVERED).together()).await?;
            if let Some((&id, outcome)) =
                came.failed().find(|(_, outcome)| !matches!(outcome, Outcome::Withheld { .. }))
            {
                return Err(match outcome {
                    Outcome::Missing => no_item(id),
                    _ => Error::Full { what: "item", id, limit: MAX_DELIVERED },
                });
            }
            // What is in stock is a part of what was delivered: there is room for it.
            tx.update(STOCK.add(pieces())).await?;
            Ok(())
        })
        .await
}

/// What a flash sale took out of stock is reserved for its orders.
pub async fn reserve_granted<E: Store, L: Before<Inventory>>(
    tx: Tx<E, L>,
    granted: impl Iterator<Item = (i64, i64)>,
) -> Result<Tx<E, Inventory>> {
    let (tx, added) = tx.update(RESERVED.add(granted)).await?;
    match added.failed().next() {
        None => Ok(tx),
        Some((&id, _)) => Err(no_item(id)),
    }
}

/// Makes an order's lines those that are wanted: the items of both are locked in order, and stock moves by the difference.
/// What was ordered before keeps its price.
pub async fn reorder<E: Store, L: Before<Inventory>>(
    tx: Tx<E, L>,
    before: &[Line],
    wanted: &[NewLine],
) -> Result<(Tx<E, Inventory>, Vec<Line>)> {
    let had = before.iter().map(|line| NewLine { item: line.item, quantity: line.quantity });
    let touched: Vec<NewLine> = had.chain(wanted.iter().copied()).collect();
    let (mut tx, items) = lock(tx, &touched).await?;
    let mut lines = Vec::with_capacity(wanted.len());
    let (mut more, mut less) = (Vec::new(), Vec::new());
    for (line, want) in (1..).zip(wanted) {
        let item = find(&items, want.item)?;
        let old = before.iter().find(|line| line.item == want.item);
        let by = want.quantity - old.map_or(0, |line| line.quantity);
        if item.stock < by {
            return Err(Error::OutOfStock { item: item.id, wanted: by, stock: item.stock });
        }
        match by {
            1.. => more.push((item.id, by)),
            0 => {}
            _ => less.push((item.id, -by)),
        }
        let price = old.map_or(item.price, |line| line.price);
        lines.push(Line { line, item: item.id, quantity: want.quantity, price, seller: item.seller });
    }
    let gone = before.iter().filter(|line| wanted.iter().all(|want| want.item != line.item));
    less.extend(gone.map(|line| (line.item, line.quantity)));
    change(&mut tx, RESERVE, more.into_iter()).await?;
    change(&mut tx, RELEASE, less.into_iter()).await?;
    Ok((tx, lines))
}

/// Locks the items that lines name, in whatever order they name them.
async fn lock<E: Store, L: Before<Inventory>>(
    tx: Tx<E, L>,
    lines: &[NewLine],
) -> Result<(Tx<E, Inventory>, Vec<Item>)> {
    Ok(tx.lock::<Inventory>(lines.iter().map(|line| line.item)).existing().fetch_all::<Item>().await?)
}

/// One of the locked items, which are in the order of their ids.
fn find(items: &[Item], id: i64) -> Result<&Item> {
    match items.binary_search_by_key(&id, |item| item.id) {
        Ok(at) => Ok(&items[at]),
        Err(_) => Err(no_item(id)),
    }
}

fn no_item(id: i64) -> Error {
    Error::invalid("lines", format!("there is no item {id}"))
}

/// Changes the stock of locked items, each by its quantity.
async fn change<E: Store, L>(
    tx: &mut Tx<E, L>,
    change: &'static str,
    by: impl Iterator<Item = (i64, i64)>,
) -> Result<()> {
    for by in by.collect::<Vec<_>>().chunks(CHUNK) {
        locked_changes::<E>(change, by).execute(&mut *tx).await?;
    }
    Ok(())
}

fn quantities(lines: &[Line]) -> impl Iterator<Item = (i64, i64)> {
    lines.iter().map(|line| (line.item, line.quantity))
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
