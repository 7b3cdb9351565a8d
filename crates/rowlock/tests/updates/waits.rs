//! Rows that are another's: waited for, not waited for, and waited for so long.

use std::time::Duration;

use rowlock::{Engine, Error, Outcome};
use rowlock_testing::{TestDb, engines};

use crate::{BALANCE, STOCK, support::open};

engines! { servers:
    async fn a_busy_row_is_told<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let mut other = test.session("other").await;
        other.step("begin").await;
        other.step("update inventories set n = n - 1 where id = 30").await;
        let kind = db.kind("sell");
        let one = || STOCK.subtract([(30, 1)]);
        let two = || STOCK.subtract([(20, 1), (30, 1)]);
        for change in [one(), two()] {
            let error = kind.update(change.clone().nowait()).await.unwrap_err();
            assert!(matches!(error, Error::Busy { waited: None, .. }), "{error:?}");
            let error = kind.update(change.clone().wait(Duration::from_millis(50))).await.unwrap_err();
            assert!(matches!(error, Error::Busy { waited: Some(_), .. }), "{error:?}");
            let error = kind.clone().wait(Duration::from_millis(50)).update(change.clone()).await.unwrap_err();
            assert!(error.is_busy(), "{error:?}");
            let error = kind.transaction(async |tx| tx.update(change.clone().nowait()).await.map(drop)).await.unwrap_err();
            assert!(error.is_busy(), "{error:?}");
        }
        other.step("commit").await;
        // The connections are good, and nothing was applied.
        assert_eq!(kind.update(two().nowait()).await.unwrap()[1], Outcome::Applied { value: 998 });
        assert_eq!(test.value("select n from inventories where id = 20").await, "999");
    }

    async fn what_is_decided_on_is_what_the_other_left<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let mut other = test.session("other").await;
        for (keys, expected) in [(vec![30], 1), (vec![20, 30, 40], 3)] {
            test.execute("update inventories set n = 1000 where id in (20, 30, 40)").await;
            other.step("begin").await;
            other.step("update inventories set n = 5 where id = 30").await;
            let task = tokio::spawn({
                let (db, keys) = (db.clone(), keys.clone());
                async move { db.kind("sell").update(STOCK.subtract(keys.into_iter().map(|key| (key, 6)))).await.unwrap() }
            });
            test.until_blocked(1).await;
            other.step("commit").await;
            let sold = task.await.unwrap();
            assert_eq!(sold.len(), expected);
            let outcome = sold.iter().find(|(key, _)| **key == 30).unwrap().1;
            assert_eq!(outcome, Outcome::Insufficient { found: 5 });
            assert_eq!(sold.failed().count(), 1);
        }
    }

    async fn a_row_that_comes_while_it_waits_is_not_missing<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let mut other = test.session("other").await;
        other.step("begin").await;
        other.step("update inventories set n = n where id = 30").await;
        let task = tokio::spawn({
            let db = db.clone();
            async move { db.kind("sell").update(STOCK.subtract([(30, 1), (500, 1), (600, 1)])).await.unwrap() }
        });
        test.until_blocked(1).await;
        other.step("insert into inventories (id, n) values (500, 3)").await;
        other.step("commit").await;
        let sold = task.await.unwrap();
        assert_eq!(sold[1], Outcome::Applied { value: 2 });
        assert_eq!(sold[2], Outcome::Missing);
        // Deleted and made again while one statement waited for it.
        other.step("begin").await;
        other.step("delete from inventories where id = 30").await;
        let task = tokio::spawn(async move { db.kind("sell").update(STOCK.subtract([(30, 1)])).await.unwrap() });
        test.until_blocked(1).await;
        other.step("insert into inventories (id, n) values (30, 50)").await;
        other.step("commit").await;
        assert_eq!(task.await.unwrap()[0], Outcome::Applied { value: 49 });
    }

    async fn a_busy_late_row_restarts_the_transaction<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let mut other = test.session("other").await;
        other.step("begin").await;
        other.step("update accounts set n = n - 1 where id = 7").await;
        let task = tokio::spawn({
            let db = db.clone();
            async move {
                db.kind("transfer").transaction(async |tx| {
                    let (tx, _) = tx.update(BALANCE.subtract([(8, 1)])).await?;
                    let (_, given) = tx.update(BALANCE.add([(7, 1)])).await?;
                    Ok::<_, Error>(given[0])
                }).await.unwrap()
            }
        });
        // It waits for 7 from the start of its second attempt, and holds nothing.
        test.until_blocked(1).await;
        assert!(test.held("accounts", "id = 8").await.is_none());
        other.step("commit").await;
        assert_eq!(task.await.unwrap(), Outcome::Applied { value: 1000 });
        assert_eq!(db.counts().restarts, 1);
        assert_eq!(test.value("select n from accounts where id = 8").await, "999");
    }

    async fn dropped_while_it_waits_it_is_not_applied<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let mut other = test.session("other").await;
        other.step("begin").await;
        other.step("update inventories set n = n where id = 30").await;
        for keys in [vec![30], vec![20, 30]] {
            let db = db.clone();
            let task = tokio::spawn(async move {
                db.kind("sell").update(STOCK.subtract(keys.into_iter().map(|key| (key, 1)))).await.map(drop)
            });
            test.until_blocked(1).await;
            task.abort();
            assert!(task.await.unwrap_err().is_cancelled());
            while !test.waits().await.is_empty() {}
        }
        other.step("commit").await;
        assert_eq!(db.kind("sell").update(STOCK.subtract([(30, 1)])).await.unwrap()[0], Outcome::Applied { value: 999 });
        assert_eq!(test.value("select n from inventories where id = 20").await, "1000");
    }
}
