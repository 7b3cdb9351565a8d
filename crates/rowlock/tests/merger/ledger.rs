//! Idempotency keys: a request is applied once, however often and wherever it is repeated.

use futures_util::future::join_all;
use rowlock::{Db, Engine, Error, Outcome};
use rowlock_testing::{TestDb, engines};

use crate::{
    STOCK, start_with_ledger,
    support::{Inventory, Shop, open},
};

async fn left(test: &TestDb) -> i64 {
    test.value("select n from inventories where id = 20").await.parse().unwrap()
}

/// Another process: a pool, a database and a merger of its own.
async fn elsewhere<E: Engine>(test: &TestDb) -> rowlock::Merger<E, Inventory> {
    let db: Db<E> = Db::builder(Shop).open(test.pool_of::<E>(3).await).await.unwrap();
    db.kind("elsewhere").merger(STOCK).ledger("stock_ledger").start().await.unwrap()
}

engines! {
    async fn a_repeat_is_answered_and_not_applied<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let merger = start_with_ledger(&test, &db).await;
        // Each kind of outcome, repeated at once, later, and by another process after this one has gone.
        let requests = [("a", 20, 600, Outcome::Applied { value: 400 }),
            ("b", 20, 401, Outcome::Insufficient { found: 400 }),
            ("c", 1000, 1, Outcome::Missing),
            ("d \u{1F600} \"quoted\" \\ \n", 20, 400, Outcome::Applied { value: 0 })];
        for (request, key, quantity, expected) in requests {
            let calls = (0..3).map(|_| merger.subtract(key, quantity).request(request));
            for outcome in join_all(calls).await {
                assert_eq!(outcome.unwrap(), expected, "{request}");
            }
            assert_eq!(merger.subtract(key, quantity).request(request).await.unwrap(), expected, "{request}");
        }
        // More of it does not change what was told.
        test.execute("update inventories set n = 500 where id = 20").await;
        merger.close().await;
        drop((merger, db));
        let merger = elsewhere::<E>(&test).await;
        for (request, key, quantity, expected) in requests {
            assert_eq!(merger.subtract(key, quantity).request(request).await.unwrap(), expected, "{request}");
        }
        assert_eq!(left(&test).await, 500);
        assert_eq!(test.value("select count(*) from stock_ledger").await, "4");
    }

    async fn two_processes_apply_each_request_once<E: Engine>(test: TestDb) {
        const REQUESTS: i64 = 200;
        let db = open::<E>(&test).await;
        let here = start_with_ledger(&test, &db).await;
        let there = elsewhere::<E>(&test).await;
        // Both send all of them, in opposite orders, at rows of which one is not there.
        let key = |n: i64| if n % 10 == 0 { 1000 } else { 20 };
        let ours = join_all((0..REQUESTS).map(|n| here.subtract(key(n), n % 3).request(&format!("r{n}")).into_future()));
        let theirs = join_all((0..REQUESTS).rev().map(|n| there.subtract(key(n), n % 3).request(&format!("r{n}")).into_future()));
        let (ours, mut theirs) = tokio::join!(ours, theirs);
        theirs.reverse();
        let mut sum = 0;
        for (n, (ours, theirs)) in (0..).zip(ours.into_iter().zip(theirs)) {
            let (ours, theirs) = (ours.unwrap(), theirs.unwrap());
            assert_eq!(ours, theirs, "request {n}");
            match ours {
                Outcome::Applied { .. } => sum += n % 3,
                outcome => assert_eq!((outcome, n % 10), (Outcome::Missing, 0)),
            }
        }
        assert_eq!(left(&test).await, 1000 - sum);
        assert_eq!(test.value("select count(*) from stock_ledger").await, REQUESTS.to_string());
    }

    async fn a_key_used_for_another_request_is_told<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let merger = start_with_ledger(&test, &db).await;
        assert_eq!(merger.subtract(20, 1).request("a").await.unwrap(), Outcome::Applied { value: 999 });
        let (quantity, row, fine) = tokio::join!(
            merger.subtract(20, 2).request("a"),
            merger.subtract(30, 1).request("a"),
            merger.subtract(30, 1).request("b"),
        );
        for error in [quantity.unwrap_err(), row.unwrap_err()] {
            assert!(matches!(&error, Error::RequestReused { request, .. } if request == "a"), "{error:?}");
        }
        assert_eq!(fine.unwrap(), Outcome::Applied { value: 999 });
        assert_eq!(left(&test).await, 999);
    }

    async fn keys_that_cannot_be_kept_are_refused<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let merger = start_with_ledger(&test, &db).await;
        for bad in ["", "a\0b", &"x".repeat(256)] {
            let error = merger.subtract(20, 1).request(bad).await.unwrap_err();
            assert!(matches!(error, Error::RequestKey { .. }), "{error:?}");
        }
        // Cut by nothing, equal to nothing but itself.
        for (n, good) in [&*"x".repeat(255), "a", "A", "a ", "\u{e9}", "e\u{301}"].into_iter().enumerate() {
            let outcome = merger.subtract(20, 1).request(good).await.unwrap();
            assert_eq!(outcome, Outcome::Applied { value: 999 - n as i64 }, "{good:?}");
        }
    }

    async fn without_its_table_it_does_not_start<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let error = db.kind("merged").merger(STOCK).ledger("nowhere").start().await.unwrap_err();
        assert!(matches!(&error, Error::Ledger { table, .. } if table == "nowhere"), "{error:?}");
        assert!(error.to_string().contains("rowlock::ledger_sql"), "{error}");
    }
}
