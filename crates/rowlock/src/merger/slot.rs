//! A caller's slot: what it asks for, and the place where its answer is put.
//!
//! One allocation a request, one wake-up a caller. The lock in it is taken by the caller when it is polled and by the lane
//! when it answers, so that hardly anyone ever waits for it.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
};

use crate::{Outcome, error::Error};

/// What a request came to.
pub(super) type Answer = Result<Outcome, Error>;

pub(super) struct Slot {
    pub(super) quantity: i64,
    /// The idempotency key; always there with a ledger.
    pub(super) request: Option<Arc<str>>,
    state: Mutex<State>,
}

enum State {
    Waiting(Option<Waker>),
    Answered(Answer),
    /// The answer was taken, or nobody is there to take it.
    Over,
}

impl Slot {
    pub(super) fn new(quantity: i64, request: Option<Arc<str>>) -> Arc<Slot> {
        Arc::new(Slot { quantity, request, state: Mutex::new(State::Waiting(None)) })
    }

    /// Takes the answer, or leaves word whom to wake.
    pub(super) fn poll(&self, waker: &Waker) -> Poll<Answer> {
        let mut state = self.state();
        match &mut *state {
            State::Waiting(Some(known)) if known.will_wake(waker) => Poll::Pending,
            State::Waiting(known) => {
                *known = Some(waker.clone());
                Poll::Pending
            }
            State::Answered(_) | State::Over => match std::mem::replace(&mut *state, State::Over) {
                State::Answered(answer) => Poll::Ready(answer),
                State::Waiting(_) | State::Over => Poll::Pending,
            },
        }
    }

    /// Puts the first answer there; later ones are dropped.
    pub(super) fn answer(&self, answer: Answer) {
        let mut state = self.state();
        if let State::Waiting(waker) = &mut *state {
            let waker = waker.take();
            *state = State::Answered(answer);
            drop(state);
            if let Some(waker) = waker {
                waker.wake();
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Nothing that can panic is run while it is held.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    struct Count(AtomicUsize);
    impl std::task::Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn the_first_answer_counts_and_wakes_once() {
        let count = Arc::new(Count(AtomicUsize::new(0)));
        let waker = Waker::from(count.clone());
        let slot = Slot::new(3, None);
        assert!(slot.poll(&waker).is_pending());
        assert!(slot.poll(&waker).is_pending());
        slot.answer(Ok(Outcome::Applied { value: 4 }));
        slot.answer(Ok(Outcome::Missing));
        assert_eq!(count.0.load(Relaxed), 1);
        assert!(matches!(slot.poll(&waker), Poll::Ready(Ok(Outcome::Applied { value: 4 }))));
        assert!(slot.poll(&waker).is_pending());
    }
}
