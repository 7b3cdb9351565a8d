//! SQLite's one writer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use rowlock::{Db, Error};
use rowlock_testing::{TestDb, engines};
use sqlx::{
    ConnectOptions, Sqlite,
    sqlite::{SqliteConnectOptions, SqlitePoolOptions},
};

use crate::support::{Order, Shop, tables};

engines! { sqlite:
    /// A BEGIN that met a busy file has begun nothing: its connection is kept, and is set as it was.
    async fn a_busy_begin_keeps_its_connection(test: TestDb) {
        tables(&test).await;
        let mut holder = test.session("holder").await;
        // With a limit of the connection's own above the kind's, which is shortened for BEGIN, and without one.
        for own in [Duration::from_secs(7), Duration::ZERO] {
            let made = Arc::<AtomicU32>::default();
            let count = made.clone();
            let options = SqliteConnectOptions::from_url(&test.url().parse().unwrap()).unwrap().busy_timeout(own);
            let pool = SqlitePoolOptions::new().max_connections(1).after_connect(move |_, _| {
                count.fetch_add(1, Relaxed);
                Box::pin(std::future::ready(Ok(())))
            });
            let db: Db<Sqlite> = Db::builder(Shop).open(pool.connect_with(options).await.unwrap()).await.unwrap();
            let lock = async || {
                let kind = db.kind("lock").wait(Duration::from_millis(20));
                kind.transaction(async |tx| tx.lock::<Order>([10]).await.map(drop)).await
            };
            holder.run("begin immediate").await;
            for _ in 0..3 {
                let error = lock().await.unwrap_err();
                assert!(matches!(error, Error::Busy { resource: "SQLite's one writer", .. }), "{error:?}");
            }
            holder.run("rollback").await;
            lock().await.unwrap();
            assert_eq!(made.load(Relaxed), 1, "connections made, with a limit of {own:?}");
            let (limit,): (i64,) = sqlx::query_as("pragma busy_timeout").fetch_one(db.pool()).await.unwrap();
            assert_eq!(u128::try_from(limit).unwrap(), own.as_millis());
            db.pool().close().await;
        }
    }
}
