//! Payments, and the events that tell of them: whatever arrives, each event has its effect once.

use rowlock::{Db, Tx};
use serde::{Deserialize, Serialize};
use sqlx::FromRow;

use crate::account::{self, Charge};
use crate::error::Result;
use crate::inventory;
use crate::locks;
use crate::order::{Line, Order, SELECT_LINES, now};
use crate::sql::{locked, query_as};
use crate::store::Store;
use crate::webhook::Event;

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

/// Takes in an event: once, with the same answer every time.
pub async fn receive<E: Store>(db: &Db<E>, event: &Event) -> Result<Receipt> {
    let (result, id) = match event {
        Event::Payment(payment) => (apply(db, payment).await, &payment.event),
        Event::Other { event, kind } => (ignore(db, event, kind).await, event),
    };
    match result {
        // Two deliveries at once that share no order's lock: the event's own key has let one of them through.
        Err(error) if error.is_duplicate() => read(db, id).await?.ok_or(error),
        result => result,
    }
}

/// Applies a payment. Every delivery of its event waits for the order's lock, so that the first has its effect and all
/// later ones find what came of it, which was recorded in the same transaction.
async fn apply<E: Store>(db: &Db<E>, payment: &Payment) -> Result<Receipt> {
    db.kind("payment event")
        .transaction(async |tx| {
            let (mut tx, order) = tx.lock::<locks::Order>([payment.order]).fetch_optional::<Order>().await?;
            if let Some(receipt) = known(&mut tx, &payment.event).await? {
                return Ok(receipt);
            }
            let outcome = match (objection(payment, order.as_ref()), order) {
                (None, Some(order)) => {
                    let (id, payer, total) = (order.id, order.account, order.total);
                    let lines = query_as::<E, Line>(SELECT_LINES).bind(id).fetch_all(&mut tx).await?;
                    let tx = tx.lock::<locks::Inventory>(lines.iter().map(|line| line.item)).await?;
                    let (mut tx, charge) = account::charge(tx, payer, total, &lines).await?;
                    if charge == Charge::Done {
                        inventory::sell(&mut tx, &lines).await?;
                        locked::<E>("update orders set status = 'paid', version = version + 1 where id = ?")
                            .bind(id)
                            .execute(&mut tx)
                            .await?;
                        record(&mut tx, id, payer, total).await?;
                    }
                    let outcome = if charge == Charge::Done { "applied" } else { "insufficient" };
                    note(&mut tx, payment, outcome).await?;
                    outcome
                }
                (objection, _) => {
                    let outcome = objection.unwrap_or("no_such_order");
                    note(&mut tx, payment, outcome).await?;
                    outcome
                }
            };
            Ok(Receipt::of(payment, outcome))
        })
        .await
}

/// Notes an event that the shop has no use for.
async fn ignore<E: Store>(db: &Db<E>, event: &str, kind: &str) -> Result<Receipt> {
    db.kind("other event")
        .transaction(async |mut tx| {
            if let Some(receipt) = known(&mut tx, event).await? {
                return Ok(receipt);
            }
            locked::<E>(RECORD_EVENT)
                .bind(event)
                .bind(kind)
                .bind(None::<i64>)
                .bind("ignored")
                .bind(now())
                .execute(&mut tx)
                .await?;
            Ok(Receipt { event: event.to_owned(), outcome: "ignored".to_owned(), order: None })
        })
        .await
}

/// Records that an order was paid.
pub(crate) async fn record<E: Store, L>(tx: &mut Tx<E, L>, order: i64, account: i64, amount: i64) -> Result<()> {
    locked::<E>(RECORD_PAYMENT).bind(order).bind(account).bind(amount).bind(now()).execute(tx).await?;
    Ok(())
}

/// What came of an event, in a transaction of its own.
async fn read<E: Store>(db: &Db<E>, event: &str) -> Result<Option<Receipt>> {
    db.kind("read event").read_only().transaction(async |mut tx| known(&mut tx, event).await).await
}

/// What came of an event, if it was here before.
async fn known<E: Store, L>(tx: &mut Tx<E, L>, event: &str) -> Result<Option<Receipt>> {
    Ok(query_as::<E, Receipt>(SELECT_EVENT).bind(event.to_owned()).fetch_optional(tx).await?)
}

async fn note<E: Store, L>(tx: &mut Tx<E, L>, payment: &Payment, outcome: &'static str) -> Result<()> {
    locked::<E>(RECORD_EVENT)
        .bind(&*payment.event)
        .bind(&*payment.kind)
        .bind(payment.order)
        .bind(outcome)
        .bind(now())
        .execute(tx)
        .await?;
    Ok(())
}
