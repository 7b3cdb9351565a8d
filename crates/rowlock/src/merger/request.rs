//! A call: a request that is about to take its place in line, and then waits for its answer.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use uuid::Uuid;

use super::{Shared, lane, ledger, queue::Entry, slot::Slot};
use crate::{KeyValue, Outcome, engine::Engine, error::Error};

/// A subtraction that is about to be merged with others; made by [`Merger::subtract`](super::Merger::subtract).
///
/// ```
/// # rowlock_testing::guide! { db =>
/// use rowlock::{Counter, Outcome};
///
/// sqlx::raw_sql(sqlx::AssertSqlSafe(rowlock::ledger_sql(db.dialect(), "stock_ledger"))).execute(db.pool()).await?;
/// let merger = db.kind("flash sale").merger(Counter::<Inventory>::new("stock")).ledger("stock_ledger").start().await?;
/// for _ in 0..2 {
///     // The second is a repeat: answered, and not applied.
///     let outcome = merger.subtract(20, 3).request("order-17").await?;
///     assert_eq!(outcome, Outcome::Applied { value: 97 });
/// }
/// # }
/// ```
#[must_use = "a request takes its place in line when it is awaited"]
pub struct Subtract<E: Engine> {
    shared: Arc<Shared<E>>,
    key: KeyValue,
    quantity: i64,
    request: Option<Arc<str>>,
    may_wait: bool,
    state: State,
}

enum State {
    New,
    InLine { number: u64, slot: Arc<Slot> },
    Over,
}

impl<E: Engine> std::fmt::Debug for Subtract<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Subtract { key, quantity, request, .. } = self;
        f.debug_struct("Subtract").field("key", key).field("quantity", quantity).field("request", request).finish()
    }
}

impl<E: Engine> Subtract<E> {
    pub(super) fn new(shared: Arc<Shared<E>>, key: KeyValue, quantity: i64) -> Self {
        Subtract { shared, key, quantity, request: None, may_wait: true, state: State::New }
    }

    /// Names the request by an idempotency key, at most 255 bytes: with the merger's ledger, a repeat of it is answered with
    /// the first outcome, whatever that was, and not applied. Without effect on a merger that has no ledger.
    pub fn request(mut self, key: &str) -> Self {
        if self.shared.ledger.is_some() {
            self.request = Some(key.into());
        }
        self
    }

    /// Fails with [`Error::Busy`], turned away, where it would wait for room in the queue.
    pub fn nowait(mut self) -> Self {
        self.may_wait = false;
        self
    }

    /// Takes the request back, if it is still in line: `true`, and it is not charged and never will be. `false`: it is under
    /// way with its batch, or answered; await it to learn its outcome. (Awaited after it was withdrawn it is
    /// [`Error::Closed`].)
    pub fn withdraw(&mut self) -> bool {
        let withdrawn = match &self.state {
            State::New => true,
            State::InLine { number, .. } => {
                let left = self.shared.queue.leave(&self.key, *number);
                if left && self.shared.queue.wants_lane() {
                    lane::start(self.shared.clone());
                }
                left
            }
            State::Over => false,
        };
        if withdrawn {
            self.state = State::Over;
        }
        withdrawn
    }

    fn resource(&self) -> &'static str {
        self.shared.kind.shared.resources[usize::from(self.shared.rank)].name
    }

    /// Takes its place in line.
    fn enter(&mut self) -> Result<Arc<Slot>, Error> {
        let kind = || self.shared.kind.name.clone();
        if self.quantity < 0 {
            return Err(Error::Quantity {
                kind: kind(),
                resource: self.resource(),
                key: self.key.clone(),
                amount: self.quantity,
                reason: "is a negative quantity".into(),
            });
        }
        if self.shared.ledger.is_some() {
            // So that a batch whose COMMIT was lost can be run again.
            let request = self.request.get_or_insert_with(|| Uuid::new_v4().to_string().into());
            ledger::check(&self.shared.kind.name, request)?;
        }
        let slot = Slot::new(self.quantity, self.request.take());
        match self.shared.queue.enter(&self.key, slot.clone(), self.may_wait) {
            Entry::InLine { number, start } => {
                self.state = State::InLine { number, slot: slot.clone() };
                if start {
                    lane::start(self.shared.clone());
                }
                Ok(slot)
            }
            Entry::Full => {
                let keys = vec![self.key.clone()];
                Err(Error::Busy { kind: kind(), resource: self.resource(), keys, waited: None, turned_away: true })
            }
            Entry::Closed => Err(Error::Closed { kind: kind() }),
        }
    }
}

impl<E: Engine> Future for Subtract<E> {
    type Output = Result<Outcome, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let answer = match &this.state {
            State::New => match this.enter() {
                Ok(slot) => slot.poll(context.waker()),
                Err(error) => Poll::Ready(Err(error)),
            },
            State::InLine { slot, .. } => slot.poll(context.waker()),
            // It was withdrawn, or was answered before.
            State::Over => Poll::Ready(Err(Error::Closed { kind: this.shared.kind.name.clone() })),
        };
        if answer.is_ready() {
            this.state = State::Over;
        }
        answer
    }
}

impl<E: Engine> Drop for Subtract<E> {
    fn drop(&mut self) {
        if matches!(self.state, State::InLine { .. }) {
            self.withdraw();
        }
    }
}
