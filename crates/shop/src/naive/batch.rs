//! What the batch does: order after order in one transaction, of each the stock first.

use crate::error::Result;
use crate::naive::stock;
use crate::order::{Line, Order, SELECT_LINES};
use crate::sql::query;
use crate::store::{self, Store};

/// Expires the oldest unpaid orders placed before a moment, at most `limit` of them, in one transaction.
pub async fn expire<E: Store>(pool: &sqlx::Pool<E>, before: i64, limit: i64) -> Result<Vec<i64>> {
    let mut tx = pool.begin().await?;
    let select =
        query("select id from orders where status = 'open' and placed_at < ? order by placed_at limit ?").bind(before);
    let old = store::rows::<E, (i64,)>(&mut tx, select.bind(limit)).await?;
    let mut expired = vec![];
    for (id,) in old {
        let lines = store::rows::<E, Line>(&mut tx, query(SELECT_LINES).bind(id)).await?;
        let mut items = Vec::with_capacity(lines.len());
        for line in &lines {
            items.push(stock::lock::<E>(&mut tx, line.item).await?);
        }
        let select =
            query("select id, account, status, total, placed_at, note, version from orders where id = ? {for update}")
                .bind(id);
        let order = store::row::<E, Order>(&mut tx, select).await?;
        if order.is_none_or(|order| order.status != "open") {
            continue;
        }
        for (item, line) in items.into_iter().zip(&lines) {
            item.release::<E>(&mut tx, line.quantity).await?;
        }
        E::execute(&mut tx, query("update orders set status = 'expired', version = version + 1 where id = ?").bind(id))
            .await?;
        expired.push(id);
    }
    tx.commit().await?;
    Ok(expired)
}
