//! What the webhook does: the stock of the lines first, then the order.

use crate::error::Result;
use crate::naive::{stock, transfer};
use crate::order::{Line, Order, SELECT_LINES, now};
use crate::payment::{Payment, RECORD_EVENT, RECORD_PAYMENT, Receipt, SELECT_EVENT, objection};
use crate::sql::query;
use crate::store::{self, Store};

/// Applies a payment: the items as the order lists them, then the order, then the accounts.
pub async fn pay<E: Store>(pool: &sqlx::Pool<E>, payment: &Payment) -> Result<Receipt> {
    let mut tx = pool.begin().await?;
    let known = query(SELECT_EVENT).bind(payment.event.clone());
    if let Some(receipt) = store::row::<E, Receipt>(&mut tx, known).await? {
        return Ok(receipt);
    }
    let lines = store::rows::<E, Line>(&mut tx, query(SELECT_LINES).bind(payment.order)).await?;
    let mut items = Vec::with_capacity(lines.len());
    for line in &lines {
        items.push(stock::lock::<E>(&mut tx, line.item).await?);
    }
    let select =
        query("select id, account, status, total, placed_at, note, version from orders where id = ? {for update}");
    let order = store::row::<E, Order>(&mut tx, select.bind(payment.order)).await?;
    let mut outcome = objection(payment, order.as_ref()).unwrap_or("applied");
    if let (Some(order), "applied") = (order, outcome) {
        if balance::<E>(&mut tx, order.account).await? < order.total {
            outcome = "insufficient";
        } else {
            for (item, line) in items.into_iter().zip(&lines) {
                item.sell::<E>(&mut tx, line.quantity).await?;
            }
            transfer::charge::<E>(&mut tx, order.account, order.total, &lines).await?;
            let paid =
                query::<E>("update orders set status = 'paid', version = version + 1 where id = ?").bind(order.id);
            E::execute(&mut tx, paid).await?;
            let record = query::<E>(RECORD_PAYMENT).bind(order.id).bind(order.account).bind(order.total).bind(now());
            E::execute(&mut tx, record).await?;
        }
    }
    let record = query::<E>(RECORD_EVENT).bind(payment.event.clone()).bind(payment.kind.clone());
    E::execute(&mut tx, record.bind(payment.order).bind(outcome.to_owned()).bind(now())).await?;
    tx.commit().await?;
    Ok(Receipt::of(payment, outcome))
}

/// Notes an event that the shop has no use for.
pub async fn ignore<E: Store>(pool: &sqlx::Pool<E>, event: &str, kind: &str) -> Result<Receipt> {
    let mut tx = pool.begin().await?;
    let known = query(SELECT_EVENT).bind(event.to_owned());
    if let Some(receipt) = store::row::<E, Receipt>(&mut tx, known).await? {
        return Ok(receipt);
    }
    let record = query::<E>(RECORD_EVENT).bind(event.to_owned()).bind(kind.to_owned());
    E::execute(&mut tx, record.bind(None::<i64>).bind("ignored".to_owned()).bind(now())).await?;
    tx.commit().await?;
    Ok(Receipt { event: event.to_owned(), outcome: "ignored".to_owned(), order: None })
}

async fn balance<E: Store>(conn: &mut E::Connection, account: i64) -> Result<i64> {
    let select = query("select balance from accounts where id = ?").bind(account);
    Ok(store::row::<E, (i64,)>(conn, select).await?.map_or(0, |(balance,)| balance))
}
