//! The batch: many orders in one transaction.
//!
//! Order by order, each in the declared order, would still deadlock: the whole transaction must go down it once. So all
//! orders are locked first, then all their items.

use rowlock::Db;

use crate::error::Result;
use crate::inventory;
use crate::locks;
use crate::order::{Line, Order};
use crate::sql::{locked_list, query_list, sql};
use crate::store::Store;

/// How many orders one statement names.
const CHUNK: usize = 256;

/// Expires the orders that were placed before a moment and never paid, at most `limit` of them, all or none.
pub async fn expire<E: Store>(db: &Db<E>, before: i64, limit: i64) -> Result<Vec<i64>> {
    let most = u32::try_from(limit).unwrap_or_default();
    db.kind("expire orders")
        .transaction(async |tx| {
            let old =
                tx.lock_where::<locks::Order>(sql::<E>("status = 'open' and placed_at < ?")).bind(before).limit(most);
            let (mut tx, orders) = old.fetch_all::<Order>().await?;
            let ids: Vec<i64> = orders.iter().map(|order| order.id).collect();
            let mut lines: Vec<Line> = vec![];
            for ids in ids.chunks(CHUNK) {
                lines.extend(query_list::<E, Line>(SELECT_LINES, ids).fetch_all(&mut tx).await?);
            }
            let mut tx = inventory::release(tx, &merged(lines)).await?;
            for ids in ids.chunks(CHUNK) {
                locked_list::<E>(
                    "update orders set status = 'expired', version = version + 1 where id in ({list})",
                    ids,
                )
                .execute(&mut tx)
                .await?;
            }
            Ok(ids)
        })
        .await
}

const SELECT_LINES: &str = "select l.line, l.item, l.quantity, l.price, i.seller \
     from order_lines l join inventories i on i.id = l.item where l.order_id in ({list})";

/// One line an item: hundreds of orders touch few items.
fn merged(mut lines: Vec<Line>) -> Vec<Line> {
    lines.sort_unstable_by_key(|line| line.item);
    lines.dedup_by(|next, first| {
        let same = next.item == first.item;
        first.quantity += if same { next.quantity } else { 0 };
        same
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_one_item_become_one() {
        let line = |item, quantity| Line { line: 1, item, quantity, price: 1, seller: 1 };
        let merged = merged(vec![line(3, 1), line(2, 5), line(3, 4), line(2, 1)]);
        let short: Vec<_> = merged.iter().map(|line| (line.item, line.quantity)).collect();
        assert_eq!(short, [(2, 6), (3, 5)]);
    }
}
