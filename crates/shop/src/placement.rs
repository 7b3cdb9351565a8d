//! Placing and cancelling orders.
//!
//! Both go down the order once: the order's own row, then its items, then the accounts.

use rowlock::Db;

use crate::account::{self, Charge};
use crate::error::{Error, Result};
use crate::inventory;
use crate::locks;
use crate::order::{Line, NewLine, NewOrder, Order, SELECT_LINES, new_id, now, total};
use crate::payment;
use crate::sql::{locked, locked_rows, query_as};
use crate::store::Store;

/// How the pieces of a new order are taken out of stock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taking {
    /// By one conditional statement, where it is one item: what the shop does.
    Conditional,
    /// The items are locked, looked at, and changed: to compare.
    Locked,
}

/// Places an order of merged lines; it is paid at once if `new` says so, else it stays open.
///
/// Who waits for a hot item waits at its gate, on no connection, or is turned away. Asked twice it is done twice, so a lost answer to COMMIT is not left open: the commit token resolves it. (Cancelling,
/// expiring and events need none: they can be asked again.)
pub async fn place<E: Store>(db: &Db<E>, new: &NewOrder, wanted: &[NewLine], taking: Taking) -> Result<Order> {
    let (id, account, placed_at) = (new_id(), new.account, now());
    let status = if new.pay { "paid" } else { "open" };
    db.kind("place order")
        .commit_token(true)
        .enters::<locks::Inventory>(wanted.iter().map(|line| line.item))
        .transaction(async |mut tx| {
            let known = query_as::<E, (i64,)>("select id from accounts where id = ?").bind(account);
            if known.fetch_optional(&mut tx).await?.is_none() {
                return Err(Error::invalid("account", format!("there is no account {account}")));
            }
            let lines = inventory::quote(&mut tx, wanted).await?;
            let total = total(&lines)?;
            locked::<E>("insert into orders (id, account, status, total, placed_at) values (?, ?, ?, ?, ?)")
                .bind(id)
                .bind(account)
                .bind(status)
                .bind(total)
                .bind(placed_at)
                .execute(&mut tx)
                .await?;
            let mut tx = match taking {
                Taking::Conditional => inventory::reserve(tx, &lines).await?,
                Taking::Locked => inventory::reserve_locked(tx, &lines).await?,
            };
            let insert = "insert into order_lines (order_id, line, item, quantity, price) values {rows}";
            let rows = lines.iter().map(|line| [id, line.line, line.item, line.quantity, line.price]);
            locked_rows::<E, 5>(insert, rows).execute(&mut tx).await?;
            if new.pay {
                inventory::sell(&mut tx, &lines).await?;
                let (mut tx, charge) = account::charge(tx, account, total, &lines).await?;
                if let Charge::Insufficient { balance } = charge {
                    return Err(Error::Insufficient { account, wanted: total, balance });
                }
                payment::record(&mut tx, id, account, total).await?;
            }
            let (status, note) = (status.to_owned(), String::new());
            Ok(Order { id, account, status, total, placed_at, note, version: 0, lines })
        })
        .await
}

/// Cancels an order that is open, or one that is paid, which pays the money back.
pub async fn cancel<E: Store>(db: &Db<E>, id: i64) -> Result<Order> {
    db.kind("cancel order")
        .transaction(async |tx| {
            let (mut tx, order) = tx.lock::<locks::Order>([id]).fetch_optional::<Order>().await?;
            let mut order = order.ok_or(Error::NotFound { what: "order", id })?;
            order.lines = query_as::<E, Line>(SELECT_LINES).bind(id).fetch_all(&mut tx).await?;
            let mut tx = match order.status.as_str() {
                "cancelled" => return Ok(order),
                "open" => inventory::release(tx, &order.lines).await?.pass::<locks::Payment>(),
                "paid" => {
                    let tx = inventory::take_back(tx, &order.lines).await?;
                    let mut tx = account::refund(tx, order.account, order.total, &order.lines).await?;
                    locked::<E>("update payments set status = 'refunded' where order_id = ?")
                        .bind(id)
                        .execute(&mut tx)
                        .await?;
                    tx.pass()
                }
                _ => return Err(Error::NotOpen { order: id, status: order.status, wanted: "cancelled" }),
            };
            locked::<E>("update orders set status = 'cancelled', version = version + 1 where id = ?")
                .bind(id)
                .execute(&mut tx)
                .await?;
            order.status = "cancelled".to_owned();
            order.version += 1;
            Ok(order)
        })
        .await
}
