//! The end of a merger: what came before is answered, what comes after is told.

use futures_util::{FutureExt, future::join_all};
use rowlock::{Engine, Error, Outcome};
use rowlock_testing::{TestDb, engines};

use crate::{start, support::open};

engines! {
    async fn closing_answers_what_came_before<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let merger = start(&db).await;
        let mut calls: Vec<_> = (0..300).map(|n| merger.subtract(1 + n % 3, 1)).collect();
        for call in &mut calls {
            assert!(call.now_or_never().is_none());
        }
        merger.close().await;
        // Their answers are there; nothing is left to be waited for.
        for call in calls {
            assert!(matches!(call.now_or_never().unwrap(), Ok(Outcome::Applied { .. })));
        }
        let error = merger.subtract(1, 1).await.unwrap_err();
        assert!(matches!(error, Error::Closed { .. }), "{error:?}");
        assert_eq!(test.value("select sum(n) from inventories where id <= 3").await, "2700");
        // Once more does no harm.
        merger.close().await;
    }

    async fn a_dropped_merger_answers_what_came_before<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let merger = start(&db).await;
        let calls: Vec<_> = (0..100).map(|_| merger.subtract(1, 1)).collect();
        drop(merger);
        assert!(join_all(calls).await.iter().all(Result::is_ok));
        assert_eq!(test.value("select n from inventories where id = 1").await, "900");
    }

    async fn a_pool_that_is_closed_fails_those_who_ask<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let merger = start(&db).await;
        db.pool().close().await;
        let errors = join_all((0..10).map(|_| merger.subtract(1, 1))).await;
        for error in errors {
            let error = error.unwrap_err();
            let closed = matches!(error.root(), Error::Database(sqlx::Error::PoolClosed));
            assert!(closed && matches!(error, Error::Merged { .. }), "{error:?}");
        }
    }
}
