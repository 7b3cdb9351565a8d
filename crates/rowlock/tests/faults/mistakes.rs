//! Statements that cannot be sent as they are: the caller's mistake, which no other run mends, and after which a driver may be
//! out of step with the server.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use rowlock::{Db, Engine, Error};
use rowlock_testing::{Family, TestDb, engines};

use crate::support::Order;
use crate::{add, n, open_single, server::until_quiet};

/// Needs two values.
fn two_values(test: &TestDb) -> &'static str {
    match test.family() {
        Family::Postgres => "update orders set n = $2 where id = $1",
        _ => "update orders set n = n + ? where id = 10 and n <> ?",
    }
}

async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(20), work).await.unwrap_or_else(|_| panic!("{what}: no end"))
}

engines! { servers:
    async fn a_value_too_few_is_told_at_once<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let sql = two_values(&test);
        let runs = AtomicU32::new(0);
        let result = soon("a transaction", db.transaction(async |tx| {
            runs.fetch_add(1, Relaxed);
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            sqlx::query(sql).bind(10i64).execute(&mut tx).await?;
            Ok::<_, Error>(())
        })).await;
        assert!(matches!(result, Err(Error::Database(_))), "{result:?}");
        assert_eq!(runs.load(Relaxed), 1, "no other run mends it");

        // Swallowed, it commits nothing: what the connection would answer next is not known.
        let result = soon("swallowed", db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            let _ = sqlx::query(sql).bind(10i64).execute(&mut tx).await;
            Ok::<_, Error>(())
        })).await;
        assert!(matches!(result, Err(Error::RolledBack { .. })), "{result:?}");

        // And alone nothing was done: that is known.
        let result = soon("alone", db.kind("alone").execute(rowlock::query(sql).bind(10i64))).await;
        assert!(matches!(result, Err(Error::Database(_))), "{result:?}");

        until_quiet(&test).await;
        assert_eq!(n(&test, "orders", 10).await, 1000);
        soon("afterwards", db.transaction(async |mut tx| add(&mut tx, "orders", 10, 1).await)).await.unwrap();
        assert_eq!((n(&test, "orders", 10).await, db.counts().other_retries), (1001, 0));
    }
}
