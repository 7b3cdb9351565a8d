//! What the API does to orders: the order first, then stock, then accounts.

use crate::error::{Error, Result};
use crate::naive::{stock, transfer};
use crate::order::{Line, NewLine, NewOrder, Order, SELECT, SELECT_LINES, new_id, now, total};
use crate::payment::RECORD_PAYMENT;
use crate::sql::query;
use crate::store::{self, Store};

/// Places an order: its lines as the request lists them.
pub async fn place<E: Store>(pool: &sqlx::Pool<E>, new: &NewOrder, wanted: &[NewLine]) -> Result<Order> {
    let mut tx = pool.begin().await?;
    let account = query::<E>("select id from accounts where id = ?").bind(new.account);
    if store::row::<E, (i64,)>(&mut tx, account).await?.is_none() {
        return Err(Error::invalid("account", format!("there is no account {}", new.account)));
    }
    let status = if new.pay { "paid" } else { "open" };
    let (id, placed_at) = (new_id(), now());
    let (status, note) = (status.to_owned(), String::new());
    let mut order = Order { id, account: new.account, status, total: 0, placed_at, note, version: 0, lines: vec![] };
    let insert = query::<E>("insert into orders (id, account, status, total, placed_at) values (?, ?, ?, 0, ?)");
    E::execute(&mut tx, insert.bind(id).bind(order.account).bind(order.status.clone()).bind(placed_at)).await?;
    for (n, want) in wanted.iter().enumerate() {
        // The price is looked up, the line is written (its foreign key takes a shared lock on the item), and only then
        // is the item locked for the change.
        let price = query::<E>("select price, seller from inventories where id = ?").bind(want.item);
        let found = store::row::<E, (i64, i64)>(&mut tx, price).await?;
        let (price, seller) =
            found.ok_or_else(|| Error::invalid("lines", format!("there is no item {}", want.item)))?;
        let line = Line { line: n as i64 + 1, item: want.item, quantity: want.quantity, price, seller };
        write_line::<E>(&mut tx, id, line).await?;
        let item = stock::lock::<E>(&mut tx, want.item).await?;
        item.reserve::<E>(&mut tx, want.quantity).await?;
        order.lines.push(line);
    }
    order.total = total(&order.lines)?;
    E::execute(&mut tx, query("update orders set total = ? where id = ?").bind(order.total).bind(id)).await?;
    if new.pay {
        for line in &order.lines {
            stock::lock::<E>(&mut tx, line.item).await?.sell::<E>(&mut tx, line.quantity).await?;
        }
        transfer::charge::<E>(&mut tx, order.account, order.total, &order.lines).await?;
        let payment = query::<E>(RECORD_PAYMENT).bind(id).bind(order.account).bind(order.total).bind(now());
        E::execute(&mut tx, payment).await?;
    }
    tx.commit().await?;
    Ok(order)
}

/// Cancels an order: the order first, then its items in the order of its lines.
pub async fn cancel<E: Store>(pool: &sqlx::Pool<E>, id: i64) -> Result<Order> {
    let mut tx = pool.begin().await?;
    let select =
        query("select id, account, status, total, placed_at, note, version from orders where id = ? {for update}")
            .bind(id);
    let found = store::row::<E, Order>(&mut tx, select).await?;
    let mut order = found.ok_or(Error::NotFound { what: "order", id })?;
    order.lines = store::rows::<E, Line>(&mut tx, query(SELECT_LINES).bind(id)).await?;
    match order.status.as_str() {
        "cancelled" => return Ok(order),
        "open" => {
            for line in &order.lines {
                stock::lock::<E>(&mut tx, line.item).await?.release::<E>(&mut tx, line.quantity).await?;
            }
        }
        "paid" => {
            for line in &order.lines {
                stock::lock::<E>(&mut tx, line.item).await?.unsell::<E>(&mut tx, line.quantity).await?;
            }
            transfer::refund::<E>(&mut tx, order.account, order.total, &order.lines).await?;
            let refund = query::<E>("update payments set status = 'refunded' where order_id = ?").bind(id);
            E::execute(&mut tx, refund).await?;
        }
        _ => return Err(Error::NotOpen { order: id, status: order.status, wanted: "cancelled" }),
    }
    E::execute(&mut tx, query("update orders set status = 'cancelled', version = version + 1 where id = ?").bind(id))
        .await?;
    tx.commit().await?;
    order.status = "cancelled".to_owned();
    order.version += 1;
    Ok(order)
}

/// Changes an order as its page was filled in, whatever has become of it since.
pub async fn edit<E: Store>(
    pool: &sqlx::Pool<E>,
    id: i64,
    note: Option<&str>,
    wanted: Option<Vec<NewLine>>,
) -> Result<Order> {
    let mut tx = pool.begin().await?;
    let found = store::row::<E, Order>(&mut tx, query(SELECT).bind(id)).await?;
    let mut order = found.ok_or(Error::NotFound { what: "order", id })?;
    if order.status != "open" {
        return Err(Error::NotOpen { order: id, status: order.status, wanted: "edited" });
    }
    order.lines = store::rows::<E, Line>(&mut tx, query(SELECT_LINES).bind(id)).await?;
    order.note = note.map_or(order.note, str::to_owned);
    order.version += 1;
    if let Some(wanted) = wanted {
        for line in &order.lines {
            stock::lock::<E>(&mut tx, line.item).await?.release::<E>(&mut tx, line.quantity).await?;
        }
        E::execute(&mut tx, query("delete from order_lines where order_id = ?").bind(id)).await?;
        order.lines.clear();
        for (n, want) in wanted.iter().enumerate() {
            let price = query::<E>("select price, seller from inventories where id = ?").bind(want.item);
            let found = store::row::<E, (i64, i64)>(&mut tx, price).await?;
            let (price, seller) =
                found.ok_or_else(|| Error::invalid("lines", format!("there is no item {}", want.item)))?;
            let line = Line { line: n as i64 + 1, item: want.item, quantity: want.quantity, price, seller };
            stock::lock::<E>(&mut tx, want.item).await?.reserve::<E>(&mut tx, want.quantity).await?;
            write_line::<E>(&mut tx, id, line).await?;
            order.lines.push(line);
        }
        order.total = total(&order.lines)?;
    }
    let update = query::<E>("update orders set note = ?, total = ?, version = version + 1 where id = ?");
    E::execute(&mut tx, update.bind(order.note.clone()).bind(order.total).bind(id)).await?;
    tx.commit().await?;
    Ok(order)
}

async fn write_line<E: Store>(conn: &mut E::Connection, order: i64, line: Line) -> Result<()> {
    let insert = query::<E>("insert into order_lines (order_id, line, item, quantity, price) values (?, ?, ?, ?, ?)")
        .bind(order);
    E::execute(conn, insert.bind(line.line).bind(line.item).bind(line.quantity).bind(line.price)).await?;
    Ok(())
}
