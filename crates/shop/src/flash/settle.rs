//! From what was granted to orders: once each, however often and by however many it is tried.

use std::collections::HashMap;

use rowlock::{Db, Tx};
use sqlx::Pool;

use crate::error::Result;
use crate::inventory;
use crate::order::{self, NewLine, Order, new_id, now};
use crate::sql::{locked_rows, query, query_texts, rows_of};
use crate::store::{self, Store};

/// How many orders one transaction makes: while it is under way, their items are locked.
pub(crate) const CHUNK: usize = 100;

/// How often it is tried where others make the same orders at the same moment. Each time at least one more is there.
const TRIES: usize = 10;

/// Pieces that a flash sale has granted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grant {
    /// Whose they are.
    pub account: i64,
    /// The buyer's idempotency key: unique among the account's.
    pub key: String,
    /// The item.
    pub item: i64,
    /// How many.
    pub quantity: i64,
}

impl Grant {
    /// The ledger's key: all that the order needs beside the ledger's own columns.
    pub fn request(&self) -> String {
        format!("{} {}", self.account, self.key)
    }

    /// From a row of the ledger.
    fn read(request: &str, place: &str, quantity: i64) -> Option<Self> {
        let (account, key) = request.split_once(' ')?;
        let item = place.strip_prefix("inventories ")?.parse().ok()?;
        Some(Self { account: account.parse().ok()?, key: key.to_owned(), item, quantity })
    }
}

/// Makes the orders of grants, those that are not there yet; all of them, by request.
pub async fn settle<E: Store>(db: &Db<E>, pool: &Pool<E>, mut grants: Vec<Grant>) -> Result<HashMap<String, Order>> {
    grants.sort_by_cached_key(Grant::request);
    grants.dedup();
    let mut tries = 1;
    let (mut orders, known) = loop {
        match enter(db, &grants).await {
            // Another process, or the sweeper, was faster with one of them.
            Err(error) if error.is_duplicate() && tries < TRIES => tries += 1,
            result => break result?,
        }
    };
    for (request, id) in known {
        orders.insert(request, order::read(pool, id).await?);
    }
    Ok(orders)
}

/// Enters the orders that are not there yet, and finds the ids of those that are.
async fn enter<E: Store>(db: &Db<E>, grants: &[Grant]) -> Result<(HashMap<String, Order>, HashMap<String, i64>)> {
    let requests: Vec<String> = grants.iter().map(Grant::request).collect();
    db.kind("settle flash sale")
        .transaction(async |mut tx| {
            let select = "select cast(request as {text}), id from orders where request in ({list})";
            let known = query_texts::<E, (String, i64)>(select, &requests).fetch_all(&mut tx).await?;
            let known: HashMap<String, i64> = known.into_iter().collect();
            let new = requests.iter().zip(grants).filter(|(request, _)| !known.contains_key(*request));
            let orders = orders(&mut tx, new.collect()).await?;
            if orders.is_empty() {
                return Ok((HashMap::new(), known));
            }
            let insert = "insert into orders (id, account, status, total, placed_at, request) values {rows}";
            rows_of::<E, _>(
                insert,
                "(?, ?, 'open', ?, ?, ?)",
                orders.len(),
                orders.iter(),
                |query, (request, order)| {
                    let Order { id, account, total, placed_at, .. } = *order;
                    query.bind(id).bind(account).bind(total).bind(placed_at).bind(request.clone())
                },
            )
            .execute(&mut tx)
            .await?;
            let pieces = orders.iter().flat_map(|(_, order)| &order.lines).map(|line| (line.item, line.quantity));
            let mut tx = inventory::reserve_granted(tx, pieces).await?;
            let insert = "insert into order_lines (order_id, line, item, quantity, price) values {rows}";
            let lines: Vec<_> =
                orders.iter().flat_map(|(_, order)| order.lines.iter().map(|line| (order.id, line))).collect();
            let rows = lines.iter().map(|(id, line)| [*id, line.line, line.item, line.quantity, line.price]);
            locked_rows::<E, 5>(insert, rows).execute(&mut tx).await?;
            Ok((orders.into_iter().collect(), known))
        })
        .await
}

/// The orders of grants, which are in the order of their requests. Their ids are in that order too: an order is a place by
/// its id and by its request, and two who enter the same ones must meet at the first of them.
async fn orders<E: Store, L>(tx: &mut Tx<E, L>, grants: Vec<(&String, &Grant)>) -> Result<Vec<(String, Order)>> {
    if grants.is_empty() {
        return Ok(vec![]);
    }
    let wanted: Vec<NewLine> =
        grants.iter().map(|(_, grant)| NewLine { item: grant.item, quantity: grant.quantity }).collect();
    let lines = inventory::quote(tx, &wanted).await?;
    let mut ids: Vec<i64> = grants.iter().map(|_| new_id()).collect();
    ids.sort_unstable();
    let placed_at = now();
    let order = |((id, (request, grant)), line): ((i64, (&String, &Grant)), order::Line)| {
        let line = order::Line { line: 1, ..line };
        let (status, note) = ("open".to_owned(), String::new());
        let (account, total, lines) = (grant.account, line.amount(), vec![line]);
        (request.clone(), Order { id, account, status, total, placed_at, note, version: 0, lines })
    };
    Ok(ids.into_iter().zip(grants).zip(lines).map(order).collect())
}

/// Makes the orders of all grants that have none: what a crash left between the two. How many there were.
///
/// It reads the whole ledger, and may be run beside shops that sell.
pub async fn sweep<E: Store>(db: &Db<E>, pool: &Pool<E>) -> Result<usize> {
    let select = query::<E>(
        "select cast(l.request as {text}), l.place, l.quantity from flash_ledger l \
         left join orders o on o.request = l.request where l.outcome = 0 and o.id is null",
    );
    let mut conn = pool.acquire().await?;
    let left = store::rows::<E, (String, String, i64)>(&mut conn, select).await?;
    drop(conn);
    let mut grants = Vec::with_capacity(left.len());
    for (request, place, quantity) in left {
        match Grant::read(&request, &place, quantity) {
            Some(grant) => grants.push(grant),
            None => tracing::error!(request, place, "a row of {} is not of this shop", super::LEDGER),
        }
    }
    for grants in grants.chunks(CHUNK) {
        settle(db, pool, grants.to_vec()).await?;
    }
    Ok(grants.len())
}

#[cfg(test)]
mod tests {
    use super::Grant;

    #[test]
    fn a_grant_is_read_from_the_ledger_as_it_was_entered() {
        let grant = Grant { account: 7, key: "a b".to_owned(), item: 20, quantity: 3 };
        assert_eq!(Grant::read(&grant.request(), "inventories 20", 3), Some(grant));
        for (request, place) in [("7", "inventories 20"), ("x y", "inventories 20"), ("7 a", "accounts 20")] {
            assert_eq!(Grant::read(request, place, 1), None, "{request} {place}");
        }
    }
}
