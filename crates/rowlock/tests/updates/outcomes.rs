//! What each operation does and tells, and how many statements it takes.

use rowlock::{Engine, Error, Outcome::*};
use rowlock_testing::{Family, TestDb, engines};

use crate::{BALANCE, STOCK, support::open};

engines! {
    async fn each_key_has_its_outcome<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let kind = db.kind("sell");
        let sold = kind.update(STOCK.subtract([(30, 1), (20, 1000), (40, 1001), (999, 1)])).await.unwrap();
        assert_eq!(sold.iter().map(|(key, outcome)| (*key, outcome)).collect::<Vec<_>>(), [
            (30, Applied { value: 999 }), (20, Applied { value: 0 }), (40, Insufficient { found: 1000 }), (999, Missing),
        ]);
        assert_eq!(test.value("select sum(n) from inventories").await, "98999");
        let back = kind.update(STOCK.add([(30, 1), (20, 5)]).at_most(1000)).await.unwrap();
        assert_eq!((back[0], back[1]), (Applied { value: 1000 }, Applied { value: 5 }));
        assert_eq!(kind.update(STOCK.add([(30, 1)]).at_most(1000)).await.unwrap()[0], Insufficient { found: 1000 });
        // Below zero, where that is allowed; and back from there.
        assert_eq!(kind.update(STOCK.subtract([(20, 12)]).at_least(-10)).await.unwrap()[0], Applied { value: -7 });
        assert_eq!(kind.update(STOCK.subtract([(20, 4)]).at_least(-10)).await.unwrap()[0], Insufficient { found: -7 });
        assert_eq!(kind.update(STOCK.add([(20, 7)])).await.unwrap()[0], Applied { value: 0 });
    }

    async fn values_are_set_where_they_are_as_expected<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let kind = db.kind("set");
        let set = kind.update(STOCK.compare_and_set([(1, 1000, 7), (2, 999, 7), (3, 1000, -7)])).await.unwrap();
        assert_eq!((set[0], set[1], set[2]), (Applied { value: 7 }, Insufficient { found: 1000 }, Applied { value: -7 }));
        assert_eq!(kind.update(STOCK.compare_and_set([(3, -7, -8)])).await.unwrap()[0], Applied { value: -8 });
        assert_eq!(kind.update(STOCK.compare_and_set([(3, -7, 0)])).await.unwrap()[0], Insufficient { found: -8 });
        assert_eq!(kind.update(STOCK.set_if(..=5, [(3, 100)])).await.unwrap()[0], Applied { value: 100 });
        assert_eq!(kind.update(STOCK.set_if(..5, [(1, 100)])).await.unwrap()[0], Insufficient { found: 7 });
        assert_eq!(kind.update(STOCK.set_if(8.., [(1, 100)])).await.unwrap()[0], Insufficient { found: 7 });
        assert_eq!(kind.update(STOCK.set_if(.., [(1, 100), (999, 1)])).await.unwrap()[0], Applied { value: 100 });
    }

    async fn all_or_nothing<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let kind = db.kind("cart");
        let none = kind.update(STOCK.subtract([(30, 1), (20, 1001), (10, 0)]).together()).await.unwrap();
        assert_eq!((none[0], none[1], none[2]), (Withheld { found: 1000 }, Insufficient { found: 1000 }, Withheld { found: 1000 }));
        assert!(!none.all_applied());
        assert_eq!(none.failed().count(), 3);
        let none = kind.update(STOCK.subtract([(30, 1), (999, 1)]).together()).await.unwrap();
        assert_eq!((none[0], none[1]), (Withheld { found: 1000 }, Missing));
        assert_eq!(test.value("select sum(n) from inventories").await, "100000");
        // In a transaction it spoils nothing: what comes after is done.
        db.transaction(async |tx| {
            let (tx, none) = tx.update(STOCK.subtract([(1, 1), (2, 1001)]).together()).await?;
            assert!(!none.all_applied());
            let (tx, all) = tx.update(STOCK.subtract([(3, 1), (4, 1)]).together()).await?;
            assert!(all.all_applied());
            let (_, given) = tx.update(BALANCE.add([(7, 2)])).await?;
            assert_eq!(given[0], Applied { value: 1002 });
            Ok::<_, Error>(())
        }).await.unwrap();
        assert_eq!(test.value("select sum(n) from inventories").await, "99998");
    }

    async fn several_items_on_one_key_apply_in_turn<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let kind = db.kind("merged");
        let all = kind.update(STOCK.subtract([(20, 1), (20, 2), (20, 3)])).await.unwrap();
        assert_eq!((all[0], all[1], all[2]), (Applied { value: 999 }, Applied { value: 997 }, Applied { value: 994 }));
        // One statement, as for one.
        assert_eq!(db.counts().statements, 1);
        let some = kind.update(STOCK.subtract([(20, 900), (20, 95), (30, 1), (20, 94), (20, 1), (20, 0)])).await.unwrap();
        assert_eq!(some.into_iter().map(|(_, outcome)| outcome).collect::<Vec<_>>(), [
            Applied { value: 94 }, Insufficient { found: 94 }, Applied { value: 999 },
            Applied { value: 0 }, Insufficient { found: 0 }, Applied { value: 0 },
        ]);
        let some = kind.update(STOCK.subtract([(30, 900), (30, 100)])).await.unwrap();
        assert_eq!((some[0], some[1]), (Applied { value: 99 }, Insufficient { found: 99 }));
        let none = kind.update(STOCK.subtract([(30, 9), (30, 91)]).together()).await.unwrap();
        assert_eq!((none[0], none[1]), (Withheld { found: 99 }, Insufficient { found: 90 }));
        let swapped = kind.update(STOCK.compare_and_set([(30, 99, 5), (30, 5, 6), (30, 5, 7)])).await.unwrap();
        assert_eq!((swapped[0], swapped[1], swapped[2]), (Applied { value: 5 }, Applied { value: 6 }, Insufficient { found: 6 }));
        assert_eq!(test.value("select n from inventories where id = 30").await, "6");
    }

    async fn what_cannot_be_meant_is_an_error_before_anything_is_sent<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let kind = db.kind("sell");
        let error = kind.update(STOCK.subtract([(20, 3), (30, -3)])).await.unwrap_err();
        assert!(matches!(error, Error::Quantity { amount: -3, .. }), "{error}");
        assert_eq!(error.to_string(), "sell: `Inventory` 30: -3 is a negative quantity; use the other of `add` and `subtract`");
        assert!(kind.update(STOCK.add([(20, i64::MIN)])).await.is_err());
        assert_eq!(db.counts().statements, 0);
        assert!(kind.update(STOCK.subtract(Vec::<(i64, i64)>::new())).await.unwrap().is_empty());
        assert_eq!(db.counts().statements, 0);
        // In a transaction nothing is spoilt.
        db.transaction(async |tx| {
            let (tx, sold) = tx.update(STOCK.subtract([(20, 3)])).await?;
            assert!(sold.all_applied());
            let (tx, nothing) = tx.update(STOCK.subtract(None::<(i64, i64)>)).await?;
            assert!(nothing.is_empty() && nothing.all_applied());
            drop(tx);
            Ok::<_, Error>(())
        }).await.unwrap();
        assert_eq!(test.value("select n from inventories where id = 20").await, "997");
    }

    async fn round_trips_are_few<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let family = test.family();
        let sent = async |change: rowlock::Change<crate::support::Inventory>, alone: bool| {
            let before = db.counts().statements;
            match alone {
                true => drop(db.kind("alone").update(change).await.unwrap()),
                false => db.transaction(async |tx| tx.update(change.clone()).await.map(drop)).await.unwrap(),
            }
            db.counts().statements - before
        };
        let many = |by: i64| STOCK.subtract((1..=100).map(move |key| (key, by)));
        // Alone: one, of which MySQL has no more than one key, and SQLite only if it hits.
        assert_eq!(sent(STOCK.subtract([(20, 3)]), true).await, 1);
        let (miss, gone) = match family {
            Family::Postgres | Family::InnoDb => (1, 2),
            Family::Sqlite => (1 + 3, 1 + 4),
        };
        assert_eq!(sent(STOCK.subtract([(20, 3000)]), true).await, miss);
        assert_eq!(sent(STOCK.subtract([(999, 1)]), true).await, gone);
        // BEGIN, one or two, COMMIT.
        let (one, hundred) = match family {
            Family::Postgres => (1, 1),
            Family::InnoDb => (1, 2),
            Family::Sqlite => (2, 2),
        };
        assert_eq!(sent(STOCK.subtract([(20, 3)]), false).await, 2 + one);
        assert_eq!(sent(many(1), true).await, 2 + hundred);
        assert_eq!(sent(many(1).together(), false).await, 2 + hundred);
        // None is applied: nothing to write.
        assert_eq!(sent(many(10_000), false).await, 2 + 1);
        // With a token it is a transaction.
        let before = db.counts().statements;
        db.kind("token").commit_token(true).update(STOCK.subtract([(20, 3)])).await.unwrap();
        assert_eq!(db.counts().statements - before, 2 + one);
    }

    async fn thousands_of_keys<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        for from in (1000..13_000).step_by(1000) {
            let rows: Vec<String> = (from..from + 1000).map(|id| format!("({id}, {})", id % 7)).collect();
            test.execute(&format!("insert into inventories (id, n) values {}", rows.join(", "))).await;
        }
        let keys = || (1000..13_100).rev();
        for together in [false, true] {
            let change = STOCK.subtract(keys().map(|key| (key, 3)));
            let change = if together { change.together() } else { change };
            let sold = db.kind("many").update(change).await.unwrap();
            for (key, outcome) in sold {
                let n = key % 7;
                match outcome {
                    Applied { value } => assert!(!together && key < 13_000 && value == n - 3),
                    Insufficient { found } => assert!(found < 3 && (together || found == n)),
                    Missing => assert!(key >= 13_000),
                    Withheld { found } => assert!(together && found >= 3),
                }
            }
        }
        let expected: i64 = (1000..13_000).map(|id| id % 7 - if id % 7 >= 3 { 3 } else { 0 }).sum();
        assert_eq!(test.value("select sum(n) from inventories where id >= 1000").await, expected.to_string());
    }

    async fn what_is_changed_is_held<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        db.transaction(async |tx| {
            let (tx, _) = tx.update(STOCK.subtract([(30, 1), (20, 5000), (999, 1)])).await?;
            let held: Vec<String> = tx.held().places().map(|(place, _)| place.key.to_string()).collect();
            assert_eq!(held, ["20", "30"]);
            if test.family() != Family::Sqlite {
                assert!(test.held("inventories", "id = 20").await.is_some());
                assert!(test.held("inventories", "id = 30").await.is_some());
                assert!(test.held("inventories", "id = 21").await.is_none());
            }
            Ok::<_, Error>(())
        }).await.unwrap();
    }
}
