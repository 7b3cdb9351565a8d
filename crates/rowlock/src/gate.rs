//! Gates: who waits for a hot row waits here, before a connection is taken, and not on one.
//!
//! Ten requests for one row that is locked for a second hold ten connections for ten seconds, and then requests that
//! have nothing to do with it find the pool empty. A gate stands before the pool. It lets so many transactions to a
//! resource, and to each of its rows, and keeps so many waiting; whoever comes beyond that is turned away at once, and
//! can be told so.
//!
//! ```text
//!            room in every queue?        turn at every row, in key order      turn at every resource, in rank order
//! caller ----------------------> seated ----------------------------> .. ----------------------------> inside: BEGIN
//! ..
//!            | no: Busy, at once           | wait limit over: Busy             | wait limit over: Busy
//! ```
//!
//! **Invariant: a turn that is waited for lies above all turns that the caller has** (rows by their places, then
//! resources by rank), and nobody waits at a gate who has begun. So no cycle of waits can close between gates, nor
//! between gates and row locks. Turns are given first come, first served (tokio's semaphore is fair); a seat is given
//! back when it is dropped, at whatever await that is.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use crate::KeyValue;

/// How many transactions may be at a resource at once, and how many callers may wait for it. Set by
/// [`Builder::gate`](crate::Builder::gate), passed by [`Kind::enters`](crate::Kind::enters).
///
/// ```
/// use rowlock::Gate;
///
/// // Of a pool of 16 connections at most 8 are at stock, at most 2 at one item; 200 and 20 callers wait.
/// let gate = Gate::new(8, 200).each_row(2, 20);
/// # let _ = gate;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    all: Bounds,
    row: Option<Bounds>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Bounds {
    at_once: usize,
    queue: usize,
}

impl Bounds {
    fn new(at_once: usize, queue: usize) -> Bounds {
        // More than anyone has, and what a semaphore can count.
        let most = Semaphore::MAX_PERMITS / 2;
        Bounds { at_once: at_once.clamp(1, most), queue: queue.min(most) }
    }
}

impl Gate {
    /// Lets `at_once` transactions (at least one) to the resource and keeps `queue` callers waiting. Leave connections
    /// of the pool to everything else: `at_once` well below its size.
    #[must_use]
    pub fn new(at_once: usize, queue: usize) -> Gate {
        Gate { all: Bounds::new(at_once, queue), row: None }
    }

    /// Besides, lets `at_once` of them (at least one) to each row and keeps `queue` callers waiting for it, so that a
    /// hot row leaves room for the others. Two at once hide the trips of the next behind the COMMIT of the one before.
    #[must_use]
    pub fn each_row(mut self, at_once: usize, queue: usize) -> Gate {
        self.row = Some(Bounds::new(at_once, queue));
        self
    }

    /// How many transactions may be inside.
    pub(crate) fn at_once(&self) -> usize {
        self.all.at_once
    }
}

/// The gates of a database, by rank.
pub(crate) struct Gates(Vec<Option<Arc<Class>>>);

/// The gate of one resource.
struct Class {
    queue: Queue,
    row: Option<Bounds>,
    /// The rows that someone is at, or waits for; no others.
    rows: Mutex<HashMap<KeyValue, Arc<Queue>>>,
}

/// A seat is a permit of `room`, and is had at once or not at all; a turn is one of `turns`, and is waited for.
#[derive(Clone)]
struct Queue {
    room: Arc<Semaphore>,
    turns: Arc<Semaphore>,
}

impl Queue {
    fn new(bounds: Bounds) -> Queue {
        Queue {
            room: Arc::new(Semaphore::new(bounds.at_once + bounds.queue)),
            turns: Arc::new(Semaphore::new(bounds.at_once)),
        }
    }

    async fn turn(&self, until: Instant, waits: &mut Option<impl FnOnce()>) -> Option<OwnedSemaphorePermit> {
        if let Ok(turn) = self.turns.clone().try_acquire_owned() {
            return Some(turn);
        }
        if let Some(tell) = waits.take() {
            tell();
        }
        timeout_at(until, self.turns.clone().acquire_owned()).await.ok()?.ok()
    }
}

/// What a kind of transaction enters: rows of resources, each at its rank, sorted.
pub(crate) type Entries = Vec<(u16, Vec<KeyValue>)>;

/// Why someone was not let in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TurnedAway {
    pub(crate) rank: u16,
    /// The row whose queue it was; `None` for the resource's.
    pub(crate) key: Option<KeyValue>,
    /// For how long it was waited; `None`: there was no room to wait in.
    pub(crate) waited: Option<Duration>,
}

/// The right to be inside. Dropped when the transaction has ended.
#[derive(Default)]
pub(crate) struct Pass {
    rows: Vec<Seat>,
    classes: Vec<OwnedSemaphorePermit>,
}

/// A place in the queue of one row.
struct Seat {
    class: Arc<Class>,
    key: KeyValue,
    queue: Option<Arc<Queue>>,
    permits: Vec<OwnedSemaphorePermit>,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.permits.clear();
        let mut rows = self.class.rows.lock().unwrap_or_else(PoisonError::into_inner);
        // The map's, and this one's: nobody else is at the row. (All clones are made and dropped under the lock.)
        if self.queue.take().is_some_and(|queue| Arc::strong_count(&queue) == 2) {
            rows.remove(&self.key);
        }
    }
}

impl Gates {
    pub(crate) fn new(resources: usize, gates: &[(u16, Gate)]) -> Gates {
        let mut classes = vec![None; resources];
        for (rank, gate) in gates {
            if let Some(class) = classes.get_mut(usize::from(*rank)) {
                let (queue, rows) = (Queue::new(gate.all), Mutex::default());
                *class = Some(Arc::new(Class { queue, row: gate.row, rows }));
            }
        }
        Gates(classes)
    }

    fn class(&self, rank: u16) -> Option<&Arc<Class>> {
        self.0.get(usize::from(rank))?.as_ref()
    }

    /// Goes in at all of `entries`, or says at which not. `tell` is called when it begins to wait, if it does.
    pub(crate) async fn enter(
        &self,
        entries: &Entries,
        limit: Duration,
        tell: impl FnOnce(),
    ) -> Result<Pass, TurnedAway> {
        let mut pass = Pass::default();
        let entries: Vec<_> =
            entries.iter().filter_map(|(rank, keys)| Some((*rank, self.class(*rank)?, keys))).collect();
        if entries.is_empty() {
            return Ok(pass);
        }
        let began = Instant::now();
        let until = began + limit;
        // Seats first, all of them: who cannot wait everywhere does not wait anywhere.
        for (rank, class, keys) in &entries {
            let full = |key: Option<&KeyValue>| TurnedAway { rank: *rank, key: key.cloned(), waited: None };
            pass.classes.push(class.queue.room.clone().try_acquire_owned().map_err(|_| full(None))?);
            if let Some(bounds) = class.row {
                for key in *keys {
                    pass.rows.push(class.seat(key, bounds).ok_or_else(|| full(Some(key)))?);
                }
            }
        }
        let over = |rank, key| TurnedAway { rank, key, waited: Some(began.elapsed()) };
        let mut waits = Some(tell);
        let mut seats = pass.rows.iter_mut();
        for (rank, _, keys) in entries.iter().filter(|(_, class, _)| class.row.is_some()) {
            for seat in seats.by_ref().take(keys.len()) {
                let Some(queue) = seat.queue.as_deref().cloned() else { continue };
                let turn = queue.turn(until, &mut waits).await;
                seat.permits.push(turn.ok_or_else(|| over(*rank, Some(seat.key.clone())))?);
            }
        }
        for (rank, class, _) in &entries {
            let turn = class.queue.turn(until, &mut waits).await;
            pass.classes.push(turn.ok_or_else(|| over(*rank, None))?);
        }
        Ok(pass)
    }
}

impl Class {
    /// A seat in the queue of a row; `None`: there is no room.
    fn seat(self: &Arc<Self>, key: &KeyValue, bounds: Bounds) -> Option<Seat> {
        let queue = {
            let mut rows = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
            rows.entry(key.clone()).or_insert_with(|| Arc::new(Queue::new(bounds))).clone()
        };
        let room = queue.room.clone().try_acquire_owned();
        // Made either way: dropped without a permit, it tidies up.
        let mut seat = Seat { class: self.clone(), key: key.clone(), queue: Some(queue), permits: Vec::new() };
        seat.permits.push(room.ok()?);
        Some(seat)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(n: i64) -> KeyValue {
        KeyValue::Integer(n.into())
    }

    fn gates() -> Gates {
        Gates::new(3, &[(0, Gate::new(3, 2)), (1, Gate::new(3, 4).each_row(1, 1))])
    }

    fn nothing() {}

    const NOW: Duration = Duration::ZERO;

    #[tokio::test]
    async fn whoever_comes_beyond_the_queue_is_turned_away_at_once() {
        let gates = Arc::new(gates());
        let one = gates.enter(&vec![(1, vec![key(7)])], NOW, nothing).await.ok().unwrap();
        let (waits, does_wait) = tokio::sync::oneshot::channel();
        // One waits; the next finds no room, another row does.
        let waiting = tokio::spawn({
            let gates = gates.clone();
            async move {
                let tell = || waits.send(()).unwrap();
                gates.enter(&vec![(1, vec![key(7)])], Duration::from_secs(60), tell).await.map(drop)
            }
        });
        does_wait.await.unwrap();
        let full = gates.enter(&vec![(1, vec![key(7)])], Duration::from_secs(60), nothing).await.err().unwrap();
        assert_eq!(full, TurnedAway { rank: 1, key: Some(key(7)), waited: None });
        drop(gates.enter(&vec![(1, vec![key(8)])], NOW, nothing).await.ok().unwrap());
        drop(one);
        assert_eq!(waiting.await.unwrap(), Ok(()));
        assert_idle(&gates);
    }

    #[tokio::test]
    async fn a_wait_ends_at_its_limit() {
        let gates = gates();
        let _one = gates.enter(&vec![(1, vec![key(7)])], NOW, nothing).await.ok().unwrap();
        let over =
            gates.enter(&vec![(1, vec![key(6), key(7)])], Duration::from_millis(5), nothing).await.err().unwrap();
        assert_eq!((over.rank, over.key), (1, Some(key(7))));
        assert!(over.waited.unwrap() >= Duration::from_millis(5));
        // What it had on the way was given back.
        assert!(gates.enter(&vec![(1, vec![key(6)])], NOW, nothing).await.is_ok());
    }

    #[tokio::test]
    async fn the_resource_has_bounds_of_its_own() {
        let gates = gates();
        let mut inside = Vec::new();
        for n in 0..3 {
            inside.push(gates.enter(&vec![(0, vec![key(n)])], NOW, nothing).await.ok().unwrap());
        }
        let over = gates.enter(&vec![(0, vec![key(9)])], NOW, nothing).await.err().unwrap();
        assert_eq!((over.rank, over.key, over.waited.is_some()), (0, None, true));
        // A resource without a gate lets everyone in.
        assert!(gates.enter(&vec![(2, vec![key(1)])], NOW, nothing).await.is_ok());
        drop(inside);
        assert_idle(&gates);
    }

    fn assert_idle(gates: &Gates) {
        for (class, room) in gates.0.iter().flatten().zip([5, 7]) {
            assert!(class.rows.lock().unwrap().is_empty(), "a row was left behind");
            assert_eq!((class.queue.turns.available_permits(), class.queue.room.available_permits()), (3, room));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// Entered in any combination, cancelled at any await, nobody is stuck and nothing is left.
        #[test]
        fn nothing_leaks(callers in prop::collection::vec((prop::collection::btree_set(0i64..4, 1..3), 0u16..2, 0u8..6), 1..20)) {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let gates = Arc::new(gates());
                let tasks: Vec<_> = callers.into_iter().map(|(keys, from, patience)| {
                    let gates = gates.clone();
                    let keys: Vec<KeyValue> = keys.into_iter().map(key).collect();
                    let entries: Entries = (from..2).map(|rank| (rank, keys.clone())).collect();
                    tokio::spawn(async move {
                        let steps = async { for _ in 0..patience { tokio::task::yield_now().await } };
                        tokio::select! {
                            biased;
                            pass = gates.enter(&entries, Duration::from_secs(60), nothing) => {
                                if pass.is_ok() { tokio::task::yield_now().await }
                            }
                            () = steps => {}
                        }
                    })
                }).collect();
                for task in tasks {
                    task.await.unwrap();
                }
                assert_idle(&gates);
            });
        }
    }
}
