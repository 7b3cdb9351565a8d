//! A lane: a task that takes batch after batch until nothing waits, and then ends. It is started by whoever finds work that
//! no lane is at.

use std::sync::Arc;

use super::{
    Shared, batch,
    direct::Direct,
    queue::{Group, Size},
};
use crate::{engine::Engine, error::Error};

/// Beyond so many keys or requests in a batch little is gained, and everyone in it waits for all of it.
pub(super) const SIZE: Size = Size { keys: 256, requests: 1024 };

/// How often a lane steps back to let callers come that are about to. Who has just been answered asks again, as a rule, as
/// soon as it is run.
const ROUNDS: usize = 4;

pub(super) fn start<E: Engine>(shared: Arc<Shared<E>>) {
    let runtime = shared.kind.shared.runtime.clone();
    // Made here: on a runtime that is gone the task is dropped before it is run.
    let lane = Lane { shared, ended: false };
    drop(runtime.spawn(run(lane)));
}

async fn run<E: Engine>(mut lane: Lane<E>) {
    let shared = lane.shared.clone();
    let mut direct = Direct::new();
    loop {
        if shared.linger.is_some() {
            direct.release();
        }
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
            slot.answer(Err(closed(self.shared)));
        }
        self.shared.queue.done(self.groups.iter().map(|group| &group.key));
    }
}

/// Counts as a lane until it ends, however it does. In the middle it ends where the runtime goes down: no other lane will
/// come then, and whoever is in line is told so.
struct Lane<E: Engine> {
    shared: Arc<Shared<E>>,
    ended: bool,
}

impl<E: Engine> Drop for Lane<E> {
    fn drop(&mut self) {
        if !self.ended {
            for slot in self.shared.queue.lane_lost() {
                slot.answer(Err(closed(&self.shared)));
            }
        }
    }
}

fn closed<E: Engine>(shared: &Shared<E>) -> Error {
    Error::Closed { kind: shared.kind.name.clone() }
}
