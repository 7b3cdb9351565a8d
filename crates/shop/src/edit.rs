//! Editing an order: someone has its page open, thinks, and sends what it should be.
//!
//! Nothing is locked meanwhile. The order has a version, which whatever changes it raises; an edit is written from the
//! version that was read, or not at all. So what is decided here on a plain read still holds when it is written.

use rowlock::{Db, Edit, Saved, Versioned};
use sqlx::Pool;

use crate::error::{Error, Result};
use crate::inventory;
use crate::locks;
use crate::order::{self, NewLine, Order, total};
use crate::sql::{locked, locked_list_of, locked_rows};
use crate::store::Store;

impl Versioned for Order {
    type Resource = locks::Order;

    fn key(&self) -> i64 {
        self.id
    }

    fn version(&self) -> i64 {
        self.version
    }
}

/// Changes an open order from the version `read`: its note, its lines, or both.
pub async fn edit<E: Store>(
    db: &Db<E>,
    pool: &Pool<E>,
    id: i64,
    read: i64,
    note: Option<&str>,
    wanted: Option<Vec<NewLine>>,
) -> Result<Order> {
    let mut order = order::read(pool, id).await?;
    check_version(&order, read)?;
    if order.status != "open" {
        return Err(Error::NotOpen { order: id, status: order.status, wanted: "edited" });
    }
    let mut edit = Edit::<E, Order>::of(&order);
    if let Some(note) = note {
        edit = edit.set("note", note.to_owned());
        order.note = note.to_owned();
    }
    order.version = match wanted {
        None => saved(&order, db.kind("edit order").save(edit).await?)?,
        Some(wanted) => {
            let (version, lines, total) = reorder(db, &order, edit, &wanted).await?;
            (order.lines, order.total) = (lines, total);
            version
        }
    };
    Ok(order)
}

/// The order first, from its version, then its items, then its lines.
async fn reorder<E: Store>(
    db: &Db<E>,
    order: &Order,
    edit: Edit<E, Order>,
    wanted: &[NewLine],
) -> Result<(i64, Vec<order::Line>, i64)> {
    let id = order.id;
    let items = order.lines.iter().map(|line| line.item).chain(wanted.iter().map(|line| line.item));
    db.kind("edit order")
        .enters::<locks::Inventory>(items)
        .transaction(async |tx| {
            let (tx, outcome) = tx.save(edit.clone()).await?;
            let version = saved(order, outcome)?;
            let (tx, lines) = inventory::reorder(tx, &order.lines, wanted).await?;
            let total = total(&lines)?;
            let mut tx = tx.lock::<locks::Line>(order.lines.iter().map(|line| (id, line.line))).await?;
            let numbers: Vec<i64> = order.lines.iter().map(|line| line.line).collect();
            let delete = "delete from order_lines where order_id = ? and line in ({list})";
            locked_list_of::<E>(delete, id, &numbers).execute(&mut tx).await?;
            let insert = "insert into order_lines (order_id, line, item, quantity, price) values {rows}";
            let rows = lines.iter().map(|line| [id, line.line, line.item, line.quantity, line.price]);
            locked_rows::<E, 5>(insert, rows).execute(&mut tx).await?;
            locked::<E>("update orders set total = ? where id = ?").bind(total).bind(id).execute(&mut tx).await?;
            Ok((version, lines, total))
        })
        .await
}

fn check_version(order: &Order, read: i64) -> Result<()> {
    match order.version {
        now if now == read => Ok(()),
        now => Err(Error::Changed { order: order.id, read, now }),
    }
}

fn saved(order: &Order, outcome: Saved<Order>) -> Result<i64> {
    match outcome {
        Saved::Done { version } => Ok(version),
        Saved::Conflict { now } => Err(Error::Changed { order: order.id, read: order.version, now: now.version }),
        Saved::Missing | Saved::Withheld => Err(Error::NotFound { what: "order", id: order.id }),
    }
}
