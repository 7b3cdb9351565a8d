//! The queue: a line of callers for each key, and which keys a batch may take.
//!
//! ```text
//! callers of a key:  [ in the queue, at most `room` of all keys | outside, waiting for room ]
//!                      ^ taken from here, all that is in the queue
//! keys:              ready (callers in the queue, no batch under way) -> under way -> ready again, at the end
//! ```
//!
//! **Invariants.** A key is in one batch at a time, and its callers are taken in the order in which they came: so outcomes
//! are those of that order. A key that is ready is in `ready` once.
//!
//! Fairness: ready keys take turns, whatever the length of their lines. Of the queue's room a key may fill at most as much
//! as it leaves free ("dynamic threshold" with a factor of 1: Choudhury and Hahne, IEEE/ACM Transactions on Networking 6(2),
//! 1998): one hot key fills half, two a third each, and a cold one always finds some.
//!
//! One lock guards it all. It is held for a look-up and a push by a caller, and once for a whole batch by a lane.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::Notify;

use super::slot::Slot;
use crate::KeyValue;

/// How much one batch takes: beyond it, what is gained is little, and everyone in it waits for all of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub(super) keys: usize,
    pub(super) requests: usize,
}

pub(super) struct Queue {
    state: Mutex<State>,
    /// Told when the last of all is answered.
    empty: Notify,
}

#[derive(Default)]
struct State {
    lines: HashMap<KeyValue, Line>,
    ready: VecDeque<KeyValue>,
    /// Keys with callers outside, each once.
    crowded: VecDeque<KeyValue>,
    room: usize,
    /// In the queue, of all keys.
    waiting: usize,
    next: u64,
    lanes: usize,
    most_lanes: usize,
    /// Lanes without a batch: each is about to take one.
    free: usize,
    /// How many ready keys a free lane is good for before another is started.
    keys_a_lane: usize,
    closed: bool,
}

#[derive(Default)]
struct Line {
    /// By number, which is the order in which they came.
    callers: VecDeque<(u64, Arc<Slot>)>,
    /// How many of them, from the front, are in the queue.
    inside: usize,
    under_way: bool,
    crowded: bool,
}

/// What became of a caller that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// It is in line under this number. `start`: a lane is to be started for it.
    InLine {
        number: u64,
        start: bool,
    },
    /// There is no room, and it did not want to wait.
    Full,
    Closed,
}

/// The callers of one key in a batch, in the order in which they came.
pub(super) struct Group {
    pub(super) key: KeyValue,
    pub(super) slots: Vec<Arc<Slot>>,
    /// The sum of what they ask for.
    pub(super) total: i64,
}

impl Queue {
    pub(super) fn new(room: usize, most_lanes: usize, keys_a_lane: usize) -> Queue {
        let state = State { room: room.max(1), most_lanes: most_lanes.max(1), keys_a_lane, ..State::default() };
        Queue { state: Mutex::new(state), empty: Notify::new() }
    }

    /// A caller comes.
    pub(super) fn enter(&self, key: &KeyValue, slot: Arc<Slot>, may_wait: bool) -> Entry {
        let mut guard = self.state();
        let state = &mut *guard;
        if state.closed {
            return Entry::Closed;
        }
        let line = match state.lines.get_mut(key) {
            Some(line) => line,
            None => state.lines.entry(key.clone()).or_default(),
        };
        let inside = line.inside == line.callers.len() && line.inside < state.room - state.waiting;
        if !inside && !may_wait {
            if line.callers.is_empty() && !line.under_way {
                state.lines.remove(key);
            }
            return Entry::Full;
        }
        let number = state.next;
        state.next += 1;
        line.callers.push_back((number, slot));
        let mut start = false;
        if inside {
            line.inside += 1;
            state.waiting += 1;
            if line.inside == 1 && !line.under_way {
                state.ready.push_back(key.clone());
                start = state.start_lane();
            }
        } else if !line.crowded {
            line.crowded = true;
            state.crowded.push_back(key.clone());
        }
        Entry::InLine { number, start }
    }

    /// A caller goes. Whether it was still in line: then it is as if it had not come.
    pub(super) fn leave(&self, key: &KeyValue, number: u64) -> bool {
        let mut guard = self.state();
        let state = &mut *guard;
        let Some(line) = state.lines.get_mut(key) else { return false };
        let Ok(at) = line.callers.binary_search_by_key(&number, |(number, _)| *number) else { return false };
        line.callers.remove(at);
        if at < line.inside {
            line.inside -= 1;
            if line.inside == 0 {
                state.ready.retain(|other| other != key);
            }
            state.waiting -= 1;
            state.let_in();
        }
        state.tidy(key);
        self.tell(state);
        true
    }

    /// A lane takes the next batch, sorted by key; `None`: there is nothing for it, and it counts as ended.
    pub(super) fn take(&self, size: Size) -> Option<Vec<Group>> {
        let mut guard = self.state();
        let state = &mut *guard;
        let mut groups: Vec<Group> = Vec::new();
        let mut requests = 0;
        while groups.len() < size.keys
            && requests < size.requests
            && let Some(key) = state.ready.pop_front()
        {
            let Some(line) = state.lines.get_mut(&key) else { continue };
            line.under_way = true;
            let group = line.take(key, size.requests - requests);
            state.waiting -= group.slots.len();
            requests += group.slots.len();
            groups.push(group);
        }
        state.free -= 1;
        if groups.is_empty() {
            state.lanes -= 1;
            self.tell(state);
            return None;
        }
        state.let_in();
        drop(guard);
        groups.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        Some(groups)
    }

    /// The batch of these is over; its lane is free.
    pub(super) fn done<'a>(&self, keys: impl Iterator<Item = &'a KeyValue>) {
        let mut guard = self.state();
        let state = &mut *guard;
        for key in keys {
            if let Some(line) = state.lines.get_mut(key) {
                line.under_way = false;
                if line.inside > 0 {
                    state.ready.push_back(key.clone());
                }
            }
            state.tidy(key);
        }
        state.free += 1;
    }

    /// How many are in the queue.
    pub(super) fn waiting(&self) -> usize {
        self.state().waiting
    }

    /// A lane ended that has no batch (any more) and was to take one. Those who were in line, and are in it no more.
    pub(super) fn lane_lost(&self) -> Vec<Arc<Slot>> {
        let mut guard = self.state();
        let state = &mut *guard;
        state.lanes -= 1;
        state.free -= 1;
        state.waiting = 0;
        state.ready.clear();
        state.crowded.clear();
        let mut callers = Vec::new();
        state.lines.retain(|_, line| {
            callers.extend(line.callers.drain(..).map(|(_, slot)| slot));
            (line.inside, line.crowded) = (0, false);
            line.under_way
        });
        self.tell(state);
        callers
    }

    /// Whether another lane is to be started: there is more to do than one is at. It counts as started.
    pub(super) fn wants_lane(&self) -> bool {
        self.state().start_lane()
    }

    /// Nobody may enter any more.
    pub(super) fn close(&self) {
        self.state().closed = true;
    }

    /// Resolves once nobody is in line and no batch is under way.
    pub(super) async fn drained(&self) {
        loop {
            let told = self.empty.notified();
            tokio::pin!(told);
            // Before the look, so that no word is missed.
            told.as_mut().enable();
            if self.state().is_empty() {
                return;
            }
            told.await;
        }
    }

    fn tell(&self, state: &State) {
        if state.is_empty() {
            self.empty.notify_waiters();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_empty(&self) -> bool {
        self.lanes == 0 && self.waiting == 0 && self.crowded.is_empty()
    }

    /// Whether a lane is to be started for what is ready: more of it than the free ones are good for, and one more may be.
    fn start_lane(&mut self) -> bool {
        let start = self.ready.len() > self.free.saturating_mul(self.keys_a_lane) && self.lanes < self.most_lanes;
        self.lanes += usize::from(start);
        self.free += usize::from(start);
        start
    }

    /// Lets callers in from outside, a key in turn, as far as there is room.
    fn let_in(&mut self) {
        // A key that may have no more is passed over; once all have been, nobody can be let in.
        let mut passed = 0;
        while passed < self.crowded.len()
            && self.waiting < self.room
            && let Some(key) = self.crowded.pop_front()
        {
            let Some(line) = self.lines.get_mut(&key) else { continue };
            if line.inside == line.callers.len() {
                line.crowded = false;
                continue;
            }
            if line.inside < self.room - self.waiting {
                line.inside += 1;
                self.waiting += 1;
                passed = 0;
                if line.inside == 1 && !line.under_way {
                    self.ready.push_back(key.clone());
                }
            } else {
                passed += 1;
            }
            if line.inside == line.callers.len() {
                line.crowded = false;
            } else {
                self.crowded.push_back(key);
            }
        }
    }

    /// Forgets a key that nobody waits for.
    fn tidy(&mut self, key: &KeyValue) {
        let Some(line) = self.lines.get(key) else { return };
        if line.callers.is_empty() && !line.under_way {
            let (crowded, _) = (line.crowded, self.lines.remove(key));
            if crowded {
                self.crowded.retain(|other| other != key);
            }
        }
    }
}

impl Line {
    /// Takes the front of the line: at most so many, and no more than their sum can be told.
    fn take(&mut self, key: KeyValue, most: usize) -> Group {
        let (mut count, mut total) = (0, 0i64);
        for (_, slot) in self.callers.iter().take(self.inside.min(most)) {
            let Some(sum) = total.checked_add(slot.quantity) else { break };
            (count, total) = (count + 1, sum);
        }
        self.inside -= count;
        let slots = self.callers.drain(..count).map(|(_, slot)| slot).collect();
        Group { key, slots, total }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn key(n: i64) -> KeyValue {
        KeyValue::Integer(n.into())
    }

    #[derive(Clone, Debug)]
    enum Act {
        Enter {
            key: i64,
            may_wait: bool,
        },
        /// One of those that came, whether it is in line or not.
        Leave(prop::sample::Index),
        Take {
            keys: usize,
            requests: usize,
        },
        /// The batch that was taken first is over.
        Done,
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            6 => (prop_oneof![2 => Just(0i64), 1 => 0i64..4], any::<bool>()).prop_map(|(key, may_wait)| Act::Enter { key, may_wait }),
            1 => any::<prop::sample::Index>().prop_map(Act::Leave),
            2 => (1usize..4, 1usize..6).prop_map(|(keys, requests)| Act::Take { keys, requests }),
            2 => Just(Act::Done),
        ];
        prop::collection::vec(act, 0..200)
    }

    proptest! {
        /// Each caller is taken once, or leaves; those of a key in their order; one batch a key; never more than there is
        /// room for; and nobody is forgotten.
        #[test]
        fn everyone_is_taken_once_and_in_turn(acts in acts(), room in 1usize..12, keys_a_lane in 1usize..3) {
            let queue = Queue::new(room, 3, keys_a_lane);
            let mut came: Vec<(i64, u64)> = Vec::new();
            let mut in_line: BTreeSet<u64> = BTreeSet::new();
            let mut under_way: VecDeque<Vec<Group>> = VecDeque::new();
            let mut last = HashMap::new();
            let mut lanes = 0;
            let size = |keys, requests| Size { keys, requests };
            // Slots are told apart by their quantity, which is the number that they will get.
            let mut take = |under_way: &mut VecDeque<Vec<Group>>, in_line: &mut BTreeSet<u64>, size: Size| {
                let Some(groups) = queue.take(size) else { return false };
                assert!(groups.is_sorted_by(|a, b| a.key < b.key) && groups.len() <= size.keys);
                assert!(groups.iter().map(|group| group.slots.len()).sum::<usize>() <= size.requests);
                for group in &groups {
                    assert!(!under_way.iter().flatten().any(|other| other.key == group.key));
                    for slot in &group.slots {
                        let number = slot.quantity.cast_unsigned();
                        assert!(in_line.remove(&number));
                        assert!(last.insert(group.key.clone(), number).is_none_or(|before| before < number));
                    }
                }
                under_way.push_back(groups);
                true
            };
            for act in acts {
                match act {
                    Act::Enter { key: n, may_wait } => {
                        let number = queue.state().next;
                        match queue.enter(&key(n), Slot::new(number.cast_signed(), None), may_wait) {
                            Entry::InLine { number, start } => {
                                lanes += usize::from(start);
                                came.push((n, number));
                                in_line.insert(number);
                            }
                            Entry::Full => prop_assert!(!may_wait),
                            Entry::Closed => prop_assert!(false),
                        }
                    }
                    Act::Leave(at) if !came.is_empty() => {
                        let (n, number) = came[at.index(came.len())];
                        prop_assert_eq!(queue.leave(&key(n), number), in_line.remove(&number));
                        lanes += usize::from(queue.wants_lane());
                    }
                    Act::Take { keys, requests } if lanes > under_way.len() => {
                        if !take(&mut under_way, &mut in_line, size(keys, requests)) {
                            lanes -= 1;
                        }
                    }
                    Act::Done => {
                        if let Some(groups) = under_way.pop_front() {
                            queue.done(groups.iter().map(|group| &group.key));
                        }
                    }
                    Act::Leave(_) | Act::Take { .. } => {}
                }
                prop_assert!(queue.waiting() <= room);
                prop_assert!(lanes <= 3);
            }
            // The lanes go on until nothing is left.
            while lanes > 0 {
                if let Some(groups) = under_way.pop_front() {
                    queue.done(groups.iter().map(|group| &group.key));
                }
                if !take(&mut under_way, &mut in_line, size(2, 3)) {
                    lanes -= 1;
                }
            }
            prop_assert!(in_line.is_empty(), "forgotten: {in_line:?}");
            prop_assert!(queue.state().lines.is_empty() && queue.state().ready.is_empty());
            prop_assert!(queue.drained().now_or_never().is_some());
        }
    }

    #[test]
    fn a_hot_key_leaves_room_for_a_cold_one() {
        let queue = Queue::new(4096, 1, 1);
        let mut inside = 0;
        while queue.enter(&key(1), Slot::new(1, None), false) != Entry::Full {
            inside += 1;
        }
        assert_eq!(inside, 2048);
        // Those who wait outside do not shut out others either, and the cold key is in the next batch.
        for _ in 0..10_000 {
            assert!(matches!(queue.enter(&key(1), Slot::new(1, None), true), Entry::InLine { .. }));
        }
        assert!(matches!(queue.enter(&key(2), Slot::new(1, None), false), Entry::InLine { .. }));
        let sizes = |groups: Vec<Group>| groups.iter().map(|group| group.slots.len()).collect::<Vec<_>>();
        let groups = queue.take(Size { keys: 256, requests: 1024 }).unwrap();
        queue.done(groups.iter().map(|group| &group.key));
        assert_eq!(sizes(groups), [1024]);
        let groups = queue.take(Size { keys: 256, requests: 1024 }).unwrap();
        assert_eq!(sizes(groups), [1023, 1]);
    }

    #[test]
    fn sums_that_cannot_be_told_are_two_batches() {
        let queue = Queue::new(10, 1, 1);
        for quantity in [i64::MAX, 1, 0] {
            queue.enter(&key(1), Slot::new(quantity, None), true);
        }
        let mut totals = Vec::new();
        while let Some(groups) = queue.take(Size { keys: 1, requests: 10 }) {
            totals.push((groups[0].total, groups[0].slots.len()));
            queue.done(groups.iter().map(|group| &group.key));
        }
        assert_eq!(totals, [(i64::MAX, 1), (1, 2)]);
    }
}
