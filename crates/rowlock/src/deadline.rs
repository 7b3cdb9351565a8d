//! A statement within its limit: when that is over it is cancelled at the server, and answers; the connection stays
//! good.

use std::time::{Duration, Instant};

use rowlock_footprint::Wait;

use crate::{db::Shared, engine::Engine};

/// The grace that a cancelled statement has to answer before the connection is given up.
const GRACE: Duration = Duration::from_secs(2);

/// What a statement that locks without waiting has to answer, and so much more a row. Half of PostgreSQL's
/// `deadlock_timeout` at its default: who closes a cycle in spite of NOWAIT has gone before another's detector looks.
const AT_ONCE: Duration = Duration::from_millis(500);
const A_ROW: Duration = Duration::from_millis(10);

/// Until when a statement that takes locks on `rows` rows may be under way.
///
/// NOWAIT and SKIP LOCKED are of row locks, and do wait: for a table that another has locked, and on PostgreSQL for a row
/// whose change ended between the look at it and the wait for it, when the new version has been locked meanwhile (the wait is
/// heap_lock_updated_tuple's, which knows neither; "while locking updated version" in the server's log, about three in a
/// million on a hot row of 15). What is asked for below what is held must not wait for long: it could close a cycle.
pub(crate) fn of_lock(wait: Wait, limit: Duration, rows: usize) -> Instant {
    let rows = u32::try_from(rows).unwrap_or(u32::MAX);
    Instant::now() + if wait == Wait::Wait { limit } else { AT_ONCE + A_ROW.saturating_mul(rows) }
}

/// Until when a statement may be under way that changes rows. One that does not wait has some time to answer all the same.
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
