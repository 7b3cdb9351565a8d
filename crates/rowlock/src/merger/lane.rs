//! A lane: a task that takes batch after batch until nothing waits, and then ends. It is started by whoever finds work that
//! no lane is at.

use std::sync::Arc;

use super::{
    Shared, batch,
    direct::Direct,
    queue::{Group, Size},
};
use crate::engine::Engine;

/// Beyond so many keys or requests in a batch little is gained, and everyone in it waits for all of it.
pub(super) const SIZE: Size = Size { keys: 256, requests: 1024 };

/// How often a lane steps back to let callers come that are about to. Who has just been answered asks again, as a rule, as
/// soon as it is run.
const ROUNDS: usize = 4;

pub(super) fn start<E: Engine>(shared: Arc<Shared<E>>) {
    let runtime = shared.kind.shared.runtime.clone();
    drop(runtime.spawn(run(shared)));
}

async fn run<E: Engine>(shared: Arc<Shared<E>>) {
    let mut lane = Lane { shared: shared.clone(), ended: false };
    let mut direct = Direct::new();
    loop {
        gather(&shared).await;
        let Some(groups) = shared.queue.take(SIZE) else {
            lane.ended = true;
            return;
        };
        if shared.queue.wants_lane() {
            start(shared.clone());
        }
        let taken = Taken { shared: &shared, groups };
        batch::run(&shared, &mut direct, &taken.groups).await;
    }
}

/// Lets a batch gather: for as long as it lingers, and as long as callers come without anybody waiting for it.
async fn gather<E: Engine>(shared: &Shared<E>) {
    if let Some(time) = shared.linger {
        tokio::time::sleep(time).await;
    }
    let mut waiting = shared.queue.waiting();
    for _ in 0..ROUNDS {
        tokio::task::yield_now().await;
        let now = shared.queue.waiting();
        if now == waiting || now >= SIZE.requests {
            return;
        }
        waiting = now;
    }
}

/// Groups that are under way. When they are dropped their keys are free again, and whoever has no answer is told so.
struct Taken<'a, E: Engine> {
    shared: &'a Shared<E>,
    groups: Vec<Group>,
}

impl<E: Engine> Drop for Taken<'_, E> {
    fn drop(&mut self) {
        for slot in self.groups.iter().flat_map(|group| &group.slots) {
            slot.answer(Err(crate::Error::Closed { kind: self.shared.kind.name.clone() }));
        }
        self.shared.queue.done(self.groups.iter().map(|group| &group.key));
    }
}

/// Counts as a lane until it ends, however it does: in the middle where the runtime goes down.
struct Lane<E: Engine> {
    shared: Arc<Shared<E>>,
    ended: bool,
}

impl<E: Engine> Drop for Lane<E> {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.queue.lane_lost();
        }
    }
}
