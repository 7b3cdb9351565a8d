//! The control connection: the one by which rowlock ends statements and sessions that wait at the server.

use std::{sync::Arc, time::Duration};

use sqlx::{AssertSqlSafe, Connection as _, SqlSafeStr};
use tokio::sync::Mutex;

use crate::engine::Engine;

type ConnectOptions<E> = <<E as sqlx::Database>::Connection as sqlx::Connection>::Options;

/// How long ending a session may take; after that the server is on its own.
const LIMIT: Duration = Duration::from_secs(5);

/// A connection of its own, outside the pool, since the pool may be empty just when it is needed. Made at first need.
pub(crate) struct Control<E: Engine> {
    options: Arc<ConnectOptions<E>>,
    connection: Mutex<Option<E::Connection>>,
}

impl<E: Engine> Control<E> {
    pub(crate) fn new(options: Arc<ConnectOptions<E>>) -> Self {
        Control { options, connection: Mutex::new(None) }
    }

    /// Ends the statement under way in `session`, or (`hard`) the session.
    pub(crate) async fn end_session(&self, session: i64, hard: bool) -> Result<(), sqlx::Error> {
        let work = async {
            let mut slot = self.connection.lock().await;
            // A kept connection may have died since; a new one gets one try.
            if let Some(mut connection) = slot.take()
                && E::end_session(&mut connection, session, hard).await.is_ok()
            {
                *slot = Some(connection);
                return Ok(());
            }
            let mut connection = E::Connection::connect_with(&self.options).await?;
            E::end_session(&mut connection, session, hard).await?;
            *slot = Some(connection);
            Ok(())
        };
        within(work).await
    }

    /// The one number that a query gives, asked beside the pool: a transaction that took a second of its connections
    /// could wait for itself.
    pub(crate) async fn ask(&self, sql: String) -> Result<Option<i64>, sqlx::Error> {
        let work = async {
            let mut connection = E::Connection::connect_with(&self.options).await?;
            let answer = E::batch(&mut connection, AssertSqlSafe(sql).into_sql_str()).await;
            drop(connection.close().await);
            answer
        };
        within(work).await
    }
}

async fn within<T>(work: impl Future<Output = Result<T, sqlx::Error>>) -> Result<T, sqlx::Error> {
    tokio::time::timeout(LIMIT, work)
        .await
        .unwrap_or_else(|_| Err(sqlx::Error::Io(std::io::Error::from(std::io::ErrorKind::TimedOut))))
}

#[cfg(test)]
mod tests {
    use sqlx::ConnectOptions as _;

    use super::*;

    rowlock_testing::engines! { servers:
        /// Also where the sessions do not track what they do, or say so little.
        async fn nobody_is_ended_by_another_s_number<E: Engine>(test: rowlock_testing::TestDb) {
            let untracked = match test.family() {
                rowlock_testing::Family::Postgres => "?options[track_activities]=off",
                _ => "",
            };
            for setting in ["", untracked] {
                let url = format!("{}{setting}", test.url());
                let options: super::ConnectOptions<E> = url.parse().unwrap_or_else(|error| panic!("{error}"));
                let control = Control::<E>::new(Arc::new(options.clone()));
                for straight in [None, Some(true)] {
                    let mut session = options.connect().await.unwrap();
                    let number = match straight {
                        None => E::session(&mut session).await.unwrap().number.unwrap(),
                        Some(straight) => {
                            let sql = AssertSqlSafe(E::number_text(straight)).into_sql_str();
                            E::batch(&mut session, sql).await.unwrap().unwrap()
                        }
                    };
                    // Above the pid on PostgreSQL: the same backend's, at another time.
                    control.end_session(number ^ (1 << 30), false).await.unwrap();
                    control.end_session(number ^ (1 << 30), true).await.unwrap();
                    session.ping().await.unwrap();
                    control.end_session(number, true).await.unwrap();
                    let since = std::time::Instant::now();
                    while session.ping().await.is_ok() {
                        assert!(since.elapsed() < LIMIT, "its own number does not end it");
                    }
                    // It is gone: that is an answer.
                    control.end_session(number, true).await.unwrap();
                }
            }
        }
    }
}
