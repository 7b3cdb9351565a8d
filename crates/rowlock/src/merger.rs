//! Merged hot rows: what many tasks subtract from the same few rows at once is applied in one transaction.
//!
//! ```text
//! callers --> queue (a line a key) --> lane: takes what waits --> one statement, or a transaction --> each its answer
//!               ^                                                                                      |
//!               +-- whoever comes meanwhile waits here, and is the next batch <------------------------+
//! ```
//!
//! Nothing waits on a timer: while a batch is on its way, the next one gathers. So a row on which nobody else works costs
//! one statement, as without a merger, and a hot one costs a statement and a flush for all who came since the last.
//!
//! The outcomes are those that the callers would have had one after the other, in the order in which they came. They are
//! told after the commit that made them durable.

mod batch;
mod direct;
mod grant;
mod lane;
mod ledger;
mod queue;
mod request;
mod rows;
mod slot;

use std::{marker::PhantomData, sync::Arc, time::Duration};

pub use ledger::ledger_sql;
pub use request::Subtract;

use rowlock_footprint::Wait;

use crate::{
    AsKey, Counter, Kind, Resource,
    engine::{Engine, Told},
    error::Error,
    merger::{ledger::Ledger, queue::Queue},
};

/// How many requests may be in the queue where nothing else is said.
const ROOM: usize = 4096;

/// How many batches may be under way at once, each with rows of its own: one that waits for a row which another process
/// holds does not keep the others from theirs.
const LANES: usize = 4;

/// Subtracts from counters for many tasks at once: what waits while a batch is under way is the next batch, and a batch is
/// one statement, or one transaction. Made by [`Kind::merger`]. Cheap to clone; all clones share a queue.
///
/// Each call gets its own exact outcome, as if the calls had been run one after the other in the order in which they came
/// (were first polled): a request that does not fit is refused, and a smaller one after it may fit. Requests for one row
/// are in that order; those for different rows are in different batches or in one, as it comes. Several processes may do it
/// on one database: each takes the rows' locks in lock order, and decides on what they returned.
///
/// ```
/// # rowlock_testing::guide! { db =>
/// use rowlock::{Counter, Outcome};
///
/// const STOCK: Counter<Inventory> = Counter::new("stock");
///
/// let merger = db.kind("flash sale").merger(STOCK).start().await?;
/// let (first, second) = tokio::join!(merger.subtract(20, 60), merger.subtract(20, 60));
/// assert_eq!(first?, Outcome::Applied { value: 40 });
/// assert_eq!(second?, Outcome::Insufficient { found: 40 });
/// # }
/// ```
pub struct Merger<E: Engine, R: Resource> {
    shared: Arc<Shared<E>>,
    resource: PhantomData<fn() -> R>,
}

/// What the handles, the calls and the lanes of a merger share.
pub(crate) struct Shared<E: Engine> {
    kind: Kind<E>,
    rank: u16,
    /// The counter's column, as stored.
    column: &'static str,
    queue: Queue,
    linger: Option<Duration>,
    ledger: Option<Ledger>,
}

impl<E: Engine, R: Resource> Clone for Merger<E, R> {
    fn clone(&self) -> Self {
        Merger { shared: self.shared.clone(), resource: PhantomData }
    }
}

impl<E: Engine, R: Resource> std::fmt::Debug for Merger<E, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shared { kind, column, queue, .. } = &*self.shared;
        f.debug_struct("Merger").field("kind", kind).field("column", column).field("waiting", &queue.waiting()).finish()
    }
}

impl<E: Engine, R: Resource> Merger<E, R> {
    /// Subtracts `quantity` from the counter of the row with this key, where so much is left.
    ///
    /// The call takes its place in line when it is first polled. It may be refined before:
    /// [`request`](Subtract::request), [`nowait`](Subtract::nowait).
    ///
    /// # Errors
    /// [`Error::Quantity`] for a negative quantity; [`Error::Closed`] after [`close`](Merger::close);
    /// [`Error::Busy`] with `nowait`; [`Error::RequestReused`] with `request`; [`Error::Merged`] when the transaction
    /// of the batch failed, which says why. No other call is then charged or failed for it than those of that batch.
    ///
    /// # Cancellation
    /// Dropped while it waits in line, the request is withdrawn: it is not charged. Dropped later it is under way with its
    /// batch and has its outcome all the same; [`withdraw`](Subtract::withdraw) tells the two apart, and with a request key
    /// the outcome can be asked for again.
    pub fn subtract(&self, key: impl AsKey<R::Key>, quantity: i64) -> Subtract<E> {
        Subtract::new(self.shared.clone(), key.as_key(), quantity)
    }

    /// How many requests are in the queue now. (Not those that are under way.)
    pub fn waiting(&self) -> usize {
        self.shared.queue.waiting()
    }

    /// Takes no more requests, and resolves once all that came before are answered. (A merger that is merely dropped does
    /// the same in the background.)
    ///
    /// # Cancellation
    /// May be dropped: the merger stays closed, and goes on with what it has.
    pub async fn close(&self) {
        self.shared.queue.close();
        self.shared.queue.drained().await;
    }
}

/// The settings of a merger; made by [`Kind::merger`].
#[must_use = "a merger works once it is started"]
pub struct MergerBuilder<E: Engine, R: Resource> {
    kind: Kind<E>,
    counter: Counter<R>,
    room: usize,
    linger: Option<Duration>,
    ledger: Option<String>,
}

impl<E: Engine, R: Resource> std::fmt::Debug for MergerBuilder<E, R> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let MergerBuilder { kind, room, linger, ledger, .. } = self;
        let mut debug = f.debug_struct("MergerBuilder");
        debug.field("kind", kind).field("room", room).field("linger", linger).field("ledger", ledger).finish()
    }
}

impl<E: Engine> Kind<E> {
    /// Starts to make a merger for a counter, which runs its transactions as this kind's: its limits, its attempts, its
    /// commit token.
    ///
    /// With [`commit_token(true)`](Kind::commit_token) a lost answer to COMMIT is resolved, and nobody is left to guess; a
    /// batch is then a transaction of its own, three round trips instead of one. With a [`ledger`](MergerBuilder::ledger) it
    /// is resolved in any case.
    pub fn merger<R: Resource>(&self, counter: Counter<R>) -> MergerBuilder<E, R> {
        MergerBuilder { kind: self.clone(), counter, room: ROOM, linger: None, ledger: None }
    }
}

impl<E: Engine, R: Resource> MergerBuilder<E, R> {
    /// How many requests may be in the queue. Those that come then wait outside, in line; [`nowait`](Subtract::nowait) turns
    /// them away. One key may fill as much of it as it leaves free for others: half. Default: 4096.
    pub fn queue(mut self, room: usize) -> Self {
        self.room = room.max(1);
        self
    }

    /// Lets a batch gather for so long before it is sent, for fewer and larger ones. It is added to the time of every call;
    /// where rows are hot, batches are large without it. Default: no wait.
    pub fn linger(mut self, time: Duration) -> Self {
        self.linger = Some(time).filter(|time| !time.is_zero());
        self
    }

    /// Writes a row for each request into `table`, in the same transaction, with the request's idempotency key and its
    /// outcome: a repeat of the key is answered with the first outcome and not applied again, in whichever process it comes.
    /// [`ledger_sql`] makes the table.
    ///
    /// With it a lost answer to COMMIT is resolved without a commit token: the batch is run again, and finds its own rows.
    pub fn ledger(mut self, table: &str) -> Self {
        self.ledger = Some(table.to_owned());
        self
    }

    /// Starts the merger.
    ///
    /// # Errors
    /// [`Error::OtherOrder`]; [`Error::Counter`] for a column that cannot be counted with; with a ledger, [`Error::Ledger`]
    /// when its table is not there or is not what [`ledger_sql`] makes.
    ///
    /// # Cancellation
    /// May be dropped: nothing is begun before it returns.
    pub async fn start(self) -> Result<Merger<E, R>, Error> {
        let MergerBuilder { kind, counter, room, linger, ledger } = self;
        kind.shared.knows::<R>()?;
        let (model, column) = (kind.shared.model(), counter.column);
        let resource = model.resources[usize::from(R::RANK)].name;
        model.counter(R::RANK, column).map_err(|reason| Error::Counter { resource, column, reason })?;
        let ledger = match ledger {
            Some(table) => Some(Ledger::open(&kind, R::RANK, &table).await?),
            None => None,
        };
        // Where one statement can't tell of several rows, they are a transaction: it is better to have them side by side.
        let one = E::told(kind.shared.dialect, 2, Wait::Wait) == Told::Nothing;
        let queue = Queue::new(room, LANES, if one { 1 } else { lane::SIZE.keys });
        let shared = Shared { kind, rank: R::RANK, column: counter.column, queue, linger, ledger };
        Ok(Merger { shared: Arc::new(shared), resource: PhantomData })
    }
}
