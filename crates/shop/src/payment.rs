//! Payments, and the events that tell of them: whatever arrives, each event has its effect once.

use serde::{Deserialize, Serialize};
use sqlx::FromRow;

use crate::order::Order;

/// A payment event that a webhook brought.
#[derive(Clone, Debug)]
pub struct Payment {
    /// The event's id, unique for ever.
    pub event: String,
    /// The event's type.
    pub kind: String,
    /// Which order was paid.
    pub order: i64,
    /// How much was paid.
    pub amount: i64,
}

/// What came of an event. A later delivery of it is answered with the same.
#[derive(Clone, Debug, Serialize, Deserialize, FromRow, PartialEq, Eq)]
pub struct Receipt {
    /// The event's id.
    #[sqlx(rename = "id")]
    pub event: String,
    /// `applied`; or why it had no effect: `no_such_order`, `order_paid`, `order_cancelled`, `order_expired`,
    /// `amount_differs`, `insufficient`, `ignored`.
    pub outcome: String,
    /// The order that it tells of.
    #[sqlx(rename = "order_id")]
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub order: Option<i64>,
}

impl Receipt {
    /// What came of a payment.
    pub fn of(payment: &Payment, outcome: &str) -> Self {
        Self { event: payment.event.clone(), outcome: outcome.to_owned(), order: Some(payment.order) }
    }
}

/// Why a payment cannot be applied to an order as it stands, if it cannot.
pub fn objection(payment: &Payment, order: Option<&Order>) -> Option<&'static str> {
    let Some(order) = order else { return Some("no_such_order") };
    match order.status.as_str() {
        "open" if order.total == payment.amount => None,
        "open" => Some("amount_differs"),
        "paid" => Some("order_paid"),
        "cancelled" => Some("order_cancelled"),
        _ => Some("order_expired"),
    }
}

pub(crate) const SELECT_EVENT: &str = "select id, outcome, order_id from events where id = ?";
pub(crate) const RECORD_EVENT: &str =
    "insert into events (id, type, order_id, outcome, received_at) values (?, ?, ?, ?, ?)";
pub(crate) const RECORD_PAYMENT: &str =
    "insert into payments (order_id, account, amount, status, captured_at) values (?, ?, ?, 'captured', ?)";
