//! Orders: what is asked for, what is kept, and reading it back.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use sqlx::{FromRow, Pool};

use crate::error::{Error, Result};
use crate::sql::query;
use crate::store::{self, Store};

/// The most lines that one order or delivery may have.
pub const MAX_LINES: usize = 100;
/// The most pieces that one line may ask for.
pub const MAX_QUANTITY: i64 = 1_000_000;
/// The most money that one order or transfer may move, in the smallest unit.
pub const MAX_AMOUNT: i64 = 1_000_000_000_000;

/// An order as a client asks for it.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct NewOrder {
    /// Who pays.
    pub account: i64,
    /// What is wanted, in any order.
    pub lines: Vec<NewLine>,
    /// Whether to charge the account at once; else the order stays open until a payment's event arrives.
    #[serde(default)]
    pub pay: bool,
}

/// A change of an order; what is left out stays as it is.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Revision {
    /// What the buyer wants known about the delivery.
    #[serde(default)]
    pub note: Option<String>,
    /// All that is wanted from now on, in any order.
    #[serde(default)]
    pub lines: Option<Vec<NewLine>>,
}

/// The most characters of a note.
pub const MAX_NOTE: usize = 500;

impl Revision {
    /// Checks it; its merged lines, if it has some.
    pub fn check(&self) -> Result<Option<Vec<NewLine>>> {
        if self.note.is_none() && self.lines.is_none() {
            return Err(Error::invalid("note", "nothing is to be changed: `note`, `lines` or both are taken"));
        }
        if let Some(note) = &self.note {
            if note.chars().count() > MAX_NOTE {
                return Err(Error::invalid("note", format!("at most {MAX_NOTE} characters are taken")));
            }
            if note.contains('\0') {
                return Err(Error::invalid("note", "a NUL character cannot be kept"));
            }
        }
        self.lines.as_deref().map(merge_lines).transpose()
    }
}

/// So many pieces of an item.
#[derive(Clone, Copy, Debug, Deserialize, Serialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct NewLine {
    /// The item.
    pub item: i64,
    /// How many pieces.
    pub quantity: i64,
}

/// Checks a list of lines and merges those of one item, in the order in which the items first appear.
pub fn merge_lines(lines: &[NewLine]) -> Result<Vec<NewLine>> {
    if lines.is_empty() {
        return Err(Error::invalid("lines", "at least one line is needed"));
    }
    if lines.len() > MAX_LINES {
        return Err(Error::invalid("lines", format!("{} lines, at most {MAX_LINES} are taken", lines.len())));
    }
    let mut merged: Vec<NewLine> = Vec::with_capacity(lines.len());
    let mut at = HashMap::with_capacity(lines.len());
    for (n, line) in lines.iter().enumerate() {
        let field = || format!("lines[{n}].quantity");
        if !(1..=MAX_QUANTITY).contains(&line.quantity) {
            return Err(Error::invalid(field(), format!("{} is not from 1 to {MAX_QUANTITY}", line.quantity)));
        }
        let place = *at.entry(line.item).or_insert(merged.len());
        match merged.get_mut(place) {
            None => merged.push(*line),
            Some(first) => first.quantity += line.quantity,
        }
        if merged[place].quantity > MAX_QUANTITY {
            let why = format!("the lines of item {} ask for more than {MAX_QUANTITY} together", line.item);
            return Err(Error::invalid(field(), why));
        }
    }
    Ok(merged)
}

/// An order as it is kept.
#[derive(Clone, Debug, FromRow, Serialize, Deserialize)]
pub struct Order {
    /// Random, within what a JSON number holds exactly.
    pub id: i64,
    /// Who pays.
    pub account: i64,
    /// `open`, `paid`, `cancelled` or `expired`.
    pub status: String,
    /// The sum of its lines.
    pub total: i64,
    /// Milliseconds since 1970.
    pub placed_at: i64,
    /// What the buyer wants known about the delivery.
    pub note: String,
    /// Raised by whatever changes the order or its lines; the entity tag of its page.
    pub version: i64,
    /// Its lines; left out in lists.
    #[sqlx(skip)]
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub lines: Vec<Line>,
}

/// A line of an order, with the price of its day, and who sells the item.
#[derive(Clone, Copy, Debug, FromRow, Serialize, Deserialize)]
pub struct Line {
    /// From 1.
    pub line: i64,
    /// The item.
    pub item: i64,
    /// How many pieces.
    pub quantity: i64,
    /// The price of one.
    pub price: i64,
    /// The account that is paid for it.
    pub seller: i64,
}

impl Line {
    /// What the line costs.
    pub fn amount(&self) -> i64 {
        self.price * self.quantity
    }
}

/// The sum of lines, or why that cannot be an order's.
pub fn total(lines: &[Line]) -> Result<i64> {
    lines
        .iter()
        .try_fold(0_i64, |sum, line| sum.checked_add(line.price.checked_mul(line.quantity)?))
        .filter(|sum| *sum <= MAX_AMOUNT)
        .ok_or_else(|| Error::invalid("lines", format!("the total is more than {MAX_AMOUNT}")))
}

pub(crate) const SELECT: &str = "select id, account, status, total, placed_at, note, version from orders where id = ?";
pub(crate) const SELECT_LINES: &str = "select l.line, l.item, l.quantity, l.price, i.seller \
     from order_lines l join inventories i on i.id = l.item where l.order_id = ? order by l.line";

/// An order with its lines.
pub async fn read<E: Store>(pool: &Pool<E>, id: i64) -> Result<Order> {
    let mut conn = pool.acquire().await?;
    let found = store::row::<E, Order>(&mut conn, query(SELECT).bind(id)).await?;
    let mut order = found.ok_or(Error::NotFound { what: "order", id })?;
    order.lines = store::rows::<E, Line>(&mut conn, query(SELECT_LINES).bind(id)).await?;
    Ok(order)
}

/// Orders after an id, in the order of their ids, without their lines.
pub async fn list<E: Store>(pool: &Pool<E>, after: i64, limit: i64, status: Option<&str>) -> Result<Vec<Order>> {
    let mut conn = pool.acquire().await?;
    let of_status = match status {
        Some(status) => query::<E>(
            "select id, account, status, total, placed_at, note, version from orders where status = ? and id > ? order by id limit ?",
        )
        .bind(status.to_owned()),
        None => query("select id, account, status, total, placed_at, note, version from orders where id > ? order by id limit ?"),
    };
    Ok(store::rows::<E, _>(&mut conn, of_status.bind(after).bind(limit)).await?)
}

/// A new id: positive, and exact in JSON readers that keep numbers as floats.
pub fn new_id() -> i64 {
    rand::random_range(1..1 << 53)
}

/// Now, in milliseconds since 1970.
pub fn now() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(item: i64, quantity: i64) -> NewLine {
        NewLine { item, quantity }
    }

    #[test]
    fn lines_of_one_item_are_merged_where_it_first_stands() {
        let merged = merge_lines(&[line(30, 1), line(20, 2), line(30, 4)]).unwrap();
        assert_eq!(merged, [line(30, 5), line(20, 2)]);
    }

    #[test]
    fn quantities_are_bounded_alone_and_together() {
        let at = |lines: &[NewLine]| match merge_lines(lines) {
            Err(Error::Invalid { at, .. }) => at,
            other => panic!("{other:?}"),
        };
        assert_eq!(at(&[]), "lines");
        assert_eq!(at(&[line(1, 1), line(2, 0)]), "lines[1].quantity");
        assert_eq!(at(&[line(1, i64::MAX), line(1, i64::MAX)]), "lines[0].quantity");
        assert_eq!(at(&[line(1, MAX_QUANTITY), line(1, 1)]), "lines[1].quantity");
        assert_eq!(at(&vec![line(1, 1); MAX_LINES + 1]), "lines");
    }

    #[test]
    fn a_total_is_bounded() {
        let line = |price, quantity| Line { line: 1, item: 1, quantity, price, seller: 1 };
        assert_eq!(total(&[line(3, 4), line(5, 1)]).unwrap(), 17);
        assert!(total(&[line(i64::MAX, 2)]).is_err());
        assert!(total(&[line(MAX_AMOUNT, 1), line(1, 1)]).is_err());
    }
}
