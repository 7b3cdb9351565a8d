//! A statement within its limit: when that is over it is cancelled at the server, and answers; the connection stays
//! good.

use std::time::{Duration, Instant};

use rowlock_footprint::Wait;

use crate::{db::Shared, engine::Engine};

/// The grace that a cancelled statement has to answer before the connection is given up.
const GRACE: Duration = Duration::from_secs(2);

/// Until when a locking statement may be under way. One that does not wait has some time to answer all the same.
pub(crate) fn of(wait: Wait, limit: Duration) -> Instant {
    Instant::now() + if wait == Wait::Wait { limit } else { limit.max(GRACE) }
}

/// Runs `statement`, which is under way in `session`, until `until`. Its answer, or `None` when it gave none even after
/// it was cancelled; and whether it was.
pub(crate) async fn within<E: Engine, T>(
    shared: &Shared<E>,
    session: Option<i64>,
    until: Instant,
    statement: impl Future<Output = T>,
) -> (Option<T>, bool) {
    tokio::pin!(statement);
    if let Some(answer) = shared.ticker.timeout_at(until, &mut statement).await {
        return (Some(answer), false);
    }
    if let Some(session) = session {
        // When this fails, the server's own limit ends the statement a little later. (Boxed: every locking call would
        // be larger for it, and it hardly ever runs.)
        let _ = Box::pin(shared.control.end_session(session, false)).await;
    }
    // It may have been done at the last moment: then it is.
    (tokio::time::timeout(GRACE, statement).await.ok(), true)
}
