//! The clients: who they are and what they send.
//!
//! They know of each other's orders through the [`Town`], so that an order is paid, cancelled and expired at once, which
//! is the point.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use indicatif::ProgressBar;
use rand::Rng as _;
use rand::seq::IndexedRandom as _;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::account::Account;
use crate::flash::NewFlashOrder;
use crate::inventory::Item;
use crate::load::tally::{End, Kind, Tally};
use crate::load::{Client, Load};
use crate::order::Order;
use crate::webhook::PAYMENT;

/// What an account is opened with: enough that most can pay, little enough that some cannot.
const FUNDS: i64 = 10_000_000;
/// What an item begins with.
const STOCK: i64 = 1_000;
/// How long an order may stay unpaid under load.
const UNPAID_MS: u64 = 300;
/// The most orders that wait for their payment; beyond it the oldest are left to the batch.
const BACKLOG: usize = 4096;

/// The accounts, items and orders that the clients share.
pub(crate) struct Town {
    accounts: Vec<i64>,
    items: Vec<i64>,
    hot: f64,
    /// Whether the shop knows idempotency keys. As it is usually written it does not, and what comes again is done again.
    keyed: bool,
    orders: Mutex<VecDeque<(i64, i64)>>,
    last: AtomicU64,
}

impl Town {
    /// Opens the accounts and puts the items on sale.
    pub(crate) async fn build(client: &Client, load: &Load, keyed: bool) -> Result<Self> {
        let mut accounts = Vec::new();
        for _ in 0..load.accounts {
            let account: Account = client.make("/accounts", &json!({"balance": FUNDS})).await?;
            accounts.push(account.id);
        }
        let mut items = Vec::new();
        for n in 0..load.items {
            let seller = accounts[n as usize % accounts.len()];
            let price = rand::rng().random_range(100..1000);
            let item = json!({"name": format!("item {n}"), "seller": seller, "price": price, "stock": STOCK});
            let item: Item = client.make("/items", &item).await?;
            items.push(item.id);
        }
        Ok(Self { accounts, items, hot: load.hot, keyed, orders: Mutex::default(), last: AtomicU64::new(0) })
    }

    fn pick(&self, from: &[i64]) -> i64 {
        let mut rng = rand::rng();
        let hottest = from.len().div_ceil(10);
        let among = if rng.random_bool(self.hot) { &from[..hottest] } else { from };
        among.choose(&mut rng).copied().unwrap_or_default()
    }

    /// A few lines as a client would list them: in no order, now and then one item twice.
    fn lines(&self, most: usize) -> Vec<Value> {
        let mut rng = rand::rng();
        (0..rng.random_range(1..=most))
            .map(|_| json!({"item": self.pick(&self.items), "quantity": rng.random_range(1..=3)}))
            .collect()
    }

    fn placed(&self, order: &Order) {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        orders.push_back((order.id, order.total));
        if orders.len() > BACKLOG {
            orders.pop_front();
        }
        drop(orders);
        self.last.store(order.id.unsigned_abs(), Ordering::Relaxed);
    }

    /// An order that nobody has paid for yet: the newest, so that the batch is often at it as well.
    fn to_pay(&self) -> Option<(i64, i64)> {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).pop_back()
    }

    /// An order that others are likely to be at.
    fn some_order(&self) -> Option<i64> {
        let orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        match orders.len() {
            0 => i64::try_from(self.last.load(Ordering::Relaxed)).ok().filter(|id| *id > 0),
            n => orders.get(rand::rng().random_range(0..n)).map(|(id, _)| *id),
        }
    }
}

/// How much is to be sent.
pub(crate) struct Budget {
    requests: Option<u64>,
    sent: AtomicU64,
    started: Instant,
    end: Duration,
}

impl Budget {
    pub(crate) fn new(requests: Option<u64>, end: Duration) -> Self {
        Self { requests, sent: AtomicU64::new(0), started: Instant::now(), end }
    }

    /// Whether another request is to be sent; counts it.
    pub(crate) fn take(&self) -> bool {
        let sent = self.sent.fetch_add(1, Ordering::Relaxed);
        match self.requests {
            Some(requests) => sent < requests,
            None => self.started.elapsed() < self.end,
        }
    }

    /// How far it is: requests, or milliseconds.
    fn position(&self) -> u64 {
        match self.requests {
            Some(requests) => self.sent.load(Ordering::Relaxed).min(requests),
            None => u64::try_from(self.started.elapsed().min(self.end).as_millis()).unwrap_or(u64::MAX),
        }
    }
}

/// What a client does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Api,
    Webhook,
    Batch,
}

impl Role {
    /// The n-th client's: one in sixteen is a batch (and there always is one), a quarter are webhooks.
    pub(crate) fn of(n: u32) -> Self {
        match n % 16 {
            0 => Self::Batch,
            n if n % 4 == 1 => Self::Webhook,
            _ => Self::Api,
        }
    }

    /// Sends until the budget is spent.
    pub(crate) async fn work(self, client: Client, town: Arc<Town>, budget: Arc<Budget>) -> Tally {
        let mut tally = Tally::default();
        while budget.take() {
            match self {
                Self::Api => api(&client, &town, &mut tally).await,
                Self::Webhook => webhook(&client, &town, &mut tally).await,
                Self::Batch => batch(&client, &mut tally).await,
            }
        }
        tally
    }
}

/// Waits for all clients while the bar moves.
pub(crate) async fn gather(clients: &mut JoinSet<Tally>, budget: &Budget, bar: &ProgressBar) -> Result<Tally> {
    let mut all = Tally::default();
    let mut tick = tokio::time::interval(Duration::from_millis(100));
    loop {
        tokio::select! {
            done = clients.join_next() => match done {
                None => return Ok(all),
                Some(tally) => all.merge(tally?),
            },
            _ = tick.tick() => {
                bar.set_position(budget.position());
                bar.set_message(format!("{} sent", budget.sent.load(Ordering::Relaxed)));
            }
        }
    }
}

async fn api(client: &Client, town: &Town, tally: &mut Tally) {
    let dice = rand::rng().random_range(0..100);
    match dice {
        0..10 => flash(client, town, tally).await,
        10..50 => {
            let order = json!({
                "account": town.pick(&town.accounts), "lines": town.lines(5), "pay": dice < 15,
            });
            if let Some(order) = client.post::<Order>(tally, Kind::Place, "/orders", &order).await {
                town.placed(&order);
            }
        }
        50..61 => {
            if let Some(id) = town.some_order() {
                let path = format!("/orders/{id}/cancel");
                client.post::<Order>(tally, Kind::Cancel, &path, &Value::Null).await;
            }
        }
        61..72 => {
            let delivery = json!({"lines": town.lines(8)});
            client.post::<()>(tally, Kind::Restock, "/deliveries", &delivery).await;
        }
        72..90 => {
            let (from, to) = (town.pick(&town.accounts), town.pick(&town.accounts));
            if from != to {
                let amount = rand::rng().random_range(1..500);
                let transfer = json!({"from": from, "to": to, "amount": amount});
                client.post::<Value>(tally, Kind::Transfer, "/transfers", &transfer).await;
            }
        }
        _ => {
            let path = match (dice % 3, town.some_order()) {
                (0, Some(order)) => format!("/orders/{order}"),
                (1, _) => format!("/accounts/{}", town.pick(&town.accounts)),
                _ => format!("/items/{}", town.pick(&town.items)),
            };
            client.read(tally, &path).await;
        }
    }
}

/// A buyer at a flash sale, of one of the hottest items: asks again when the shop is busy, at times twice at once, at times
/// again though he has his answer.
async fn flash(client: &Client, town: &Town, tally: &mut Tally) {
    let (item, key) = (town.pick(&town.items), Uuid::new_v4().to_string());
    let new = NewFlashOrder { account: town.pick(&town.accounts), quantity: rand::rng().random_range(1..=3) };
    let mut twin = None;
    let mut answer = if town.keyed && rand::rng().random_bool(0.3) {
        let mut twins = Tally::default();
        let (one, other) = tokio::join!(client.buy(tally, item, &key, &new), client.buy(&mut twins, item, &key, &new));
        tally.merge(twins);
        twin = Some(other);
        one
    } else {
        client.buy(tally, item, &key, &new).await
    };
    for _ in 0..5 {
        if !town.keyed || !matches!(answer.0, End::Busy | End::Refused(_)) {
            break;
        }
        answer = client.buy(tally, item, &key, &new).await;
    }
    if town.keyed && rand::rng().random_bool(0.3) {
        let again = client.buy(tally, item, &key, &new).await;
        tally.inconsistent += u64::from(differ(&answer, &again));
    }
    tally.inconsistent += u64::from(twin.is_some_and(|twin| differ(&answer, &twin)));
    if let Some(order) = answer.1 {
        town.placed(&order);
    }
}

/// Whether one was sold and the other was not, or sold twice. Who was turned away knows nothing.
fn differ(one: &(End, Option<Order>), other: &(End, Option<Order>)) -> bool {
    let known = |end: &End| matches!(end, End::Done | End::Declined);
    let id = |order: &Option<Order>| order.as_ref().map(|order| order.id);
    known(&one.0) && known(&other.0) && id(&one.1) != id(&other.1)
}

/// Payments as providers send them: again when the answer was not a success, at times twice for no reason, at times both
/// at once.
async fn webhook(client: &Client, town: &Town, tally: &mut Tally) {
    let Some((order, amount)) = town.to_pay() else {
        // Nothing to pay for: breathe, so that the clients that place orders get their turn.
        tokio::time::sleep(Duration::from_millis(2)).await;
        return;
    };
    let event = format!("evt_{}", Uuid::new_v4().simple());
    let body = json!({"type": PAYMENT, "data": {"order": order, "amount": amount}}).to_string();
    let first = if rand::rng().random_bool(0.3) {
        let mut twin = Tally::default();
        let (one, other) = tokio::join!(
            client.deliver(tally, &event, body.as_bytes()),
            client.deliver(&mut twin, &event, body.as_bytes())
        );
        tally.merge(twin);
        if let ((_, Some(one)), (_, Some(other))) = (&one, &other) {
            tally.inconsistent += u64::from(one != other);
        }
        if one.1.is_some() { one } else { other }
    } else {
        client.deliver(tally, &event, body.as_bytes()).await
    };
    let mut answer = first;
    for _ in 0..5 {
        if !matches!(answer.0, End::Busy | End::Refused(_)) {
            break;
        }
        answer = client.deliver(tally, &event, body.as_bytes()).await;
    }
    if let Some(receipt) = answer.1.filter(|_| rand::rng().random_bool(0.3)) {
        let (_, again) = client.deliver(tally, &event, body.as_bytes()).await;
        tally.inconsistent += u64::from(again.is_some_and(|again| again != receipt));
    }
}

async fn batch(client: &Client, tally: &mut Tally) {
    let asked = json!({"older_than_ms": UNPAID_MS, "limit": 50});
    client.post::<Value>(tally, Kind::Expire, "/batch/expire", &asked).await;
    // Orders need time to grow old.
    tokio::time::sleep(Duration::from_millis(UNPAID_MS / 10)).await;
}
