//! Cancelling a future at a chosen await: dropped in the middle, as a timeout or a client that hangs up does it.

use std::pin::Pin;
use std::task::{Context, Poll};

/// Polls a future until it has been pending `awaits` times, and drops it at the next; gives `None` then, and the future's
/// output when it was ready before. Counting `awaits` up from 0 until it finishes cancels it at every await:
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// async fn work() -> u32 {
///     tokio::task::yield_now().await;
///     tokio::task::yield_now().await;
///     7
/// }
/// let mut awaits = 0;
/// while rowlock_testing::cancel_at(awaits, work()).await.is_none() {
///     // Here stands what must hold wherever the work was cancelled.
///     awaits += 1;
/// }
/// assert_eq!(awaits, 2);
/// # }
/// ```
pub fn cancel_at<F: Future>(awaits: usize, future: F) -> CancelAt<F> {
    CancelAt { future: Some(Box::pin(future)), left: awaits }
}

/// The future of [`cancel_at`].
#[derive(Debug)]
#[must_use = "futures do nothing unless awaited"]
pub struct CancelAt<F> {
    /// `None` once it was dropped or has finished.
    future: Option<Pin<Box<F>>>,
    left: usize,
}

impl<F: Future> Future for CancelAt<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(future) = &mut self.future else { return Poll::Ready(None) };
        match future.as_mut().poll(context) {
            Poll::Ready(output) => {
                self.future = None;
                Poll::Ready(Some(output))
            }
            Poll::Pending if self.left == 0 => {
                // Dropped here and now, not when the caller drops this adapter.
                self.future = None;
                Poll::Ready(None)
            }
            Poll::Pending => {
                self.left -= 1;
                Poll::Pending
            }
        }
    }
}
