//! Conditional updates and the order: what naive ones do to each other on real servers, and these do not.

use rowlock::{Engine, Error, Outcome};
use rowlock_testing::{Family, Session, TestDb, engines};

use crate::{BALANCE, STOCK, support::open};

/// How many rounds two batches run against each other, and of how many keys.
const ROUNDS: usize = 40;
const KEYS: i64 = 600;

/// Whether the server ends one of two sessions, of which `waiting` waits already, when the other runs `sql`.
async fn deadlock(last: &mut Session, sql: &str, waiting: &mut Session) -> bool {
    assert!(waiting.is_running());
    last.start(sql);
    let (last, first) = tokio::join!(last.outcome(), waiting.outcome());
    last.is_deadlock() != first.is_deadlock()
}

engines! { servers:
    async fn naive_loops_in_opposite_orders_deadlock<E: Engine>(test: TestDb) {
        let _db = open::<E>(&test).await;
        let sell = |id: i64| format!("update inventories set n = n - 1 where id = {id} and n >= 1");
        let [mut one, mut two] = test.sessions(["one", "two"]).await;
        one.step("begin").await;
        two.step("begin").await;
        one.step(&sell(20)).await;
        two.step(&sell(30)).await;
        one.step(&sell(30)).await;
        assert!(deadlock(&mut two, &sell(20), &mut one).await);
    }

    async fn batches_in_opposite_orders_do_not<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let rows: Vec<String> = (101..=KEYS).map(|id| format!("({id}, 1000)")).collect();
        test.execute(&format!("insert into inventories (id, n) values {}", rows.join(", "))).await;
        let batch = async |reverse: bool, together: bool| {
            for round in 0..ROUNDS {
                let keys: Vec<i64> = if reverse { (1..=KEYS).rev().collect() } else { (1..=KEYS).collect() };
                let change = STOCK.subtract(keys.into_iter().map(|key| (key, 1)));
                let change = if together { change.together() } else { change };
                let sold = db.kind("batch").update(change).await.unwrap();
                assert!(sold.all_applied(), "round {round}");
            }
        };
        tokio::join!(batch(false, false), batch(true, false), batch(true, true), batch(false, true));
        let counts = db.counts();
        assert_eq!((counts.deadlocks, counts.restarts, counts.late), (0, 0, 0), "{counts:?}");
        let left = KEYS * (1000 - 4 * ROUNDS as i64);
        assert_eq!(test.value("select sum(n) from inventories").await, left.to_string());
    }

    async fn transfers_there_and_back_do_not_deadlock<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let transfers = async |from: i64, to: i64| {
            for _ in 0..ROUNDS * 2 {
                db.kind("transfer").transaction(async |tx| {
                    let (tx, taken) = tx.update(BALANCE.subtract([(from, 1)])).await?;
                    let (_, given) = tx.update(BALANCE.add([(to, 1)])).await?;
                    assert!(taken.all_applied() && given.all_applied());
                    Ok::<_, Error>(())
                }).await.unwrap();
            }
        };
        tokio::join!(transfers(1, 2), transfers(2, 1), transfers(1, 2), transfers(2, 1));
        let counts = db.counts();
        assert_eq!(counts.deadlocks, 0, "{counts:?}");
        assert!(counts.late > 0, "{counts:?}");
        assert_eq!(test.value("select sum(n) from accounts where id <= 2").await, "2000");
        assert_eq!(test.value("select n from accounts where id = 1").await, "1000");
    }
}

engines! { postgres:
    async fn a_naive_update_from_unnest_deadlocks_with_another_order(test: TestDb) {
        let _db = open::<sqlx::Postgres>(&test).await;
        // The rows stand in the table in another order than their keys; the join goes by the table.
        test.execute("create table heap (id bigint primary key, n bigint not null)").await;
        test.execute("insert into heap select id, 1000 from generate_series(50, 1, -1) id").await;
        let naive = "update heap t set n = t.n - 1 from unnest(array(select generate_series(1, 50))::bigint[]) k(id) where t.id = k.id";
        let [mut one, mut two] = test.sessions(["one", "two"]).await;
        // A transaction that goes up, row by row, as ordered ones do.
        one.step("begin").await;
        one.step("update heap set n = n - 1 where id = 20").await;
        two.step("begin").await;
        two.step("set local enable_nestloop = off").await;
        two.step(naive).await;
        // `naive` has locked 50 down to 21, and waits for 20.
        assert!(deadlock(&mut one, "update heap set n = n - 1 where id = 30", &mut two).await);
    }
}

engines! {
    async fn a_transfer_there_and_back_in_one_transaction<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        db.transaction(async |tx| {
            let (tx, taken) = tx.update(BALANCE.subtract([(8, 300)])).await?;
            // Below what is held: taken without waiting.
            let (tx, given) = tx.update(BALANCE.add([(7, 300)])).await?;
            let (tx, taken_back) = tx.update(BALANCE.subtract([(7, 100)])).await?;
            let (tx, given_back) = tx.update(BALANCE.add([(8, 100)])).await?;
            assert_eq!(taken[0], Outcome::Applied { value: 700 });
            assert_eq!(given[0], Outcome::Applied { value: 1300 });
            assert_eq!(taken_back[0], Outcome::Applied { value: 1200 });
            assert_eq!(given_back[0], Outcome::Applied { value: 800 });
            assert_eq!(tx.held().len(), 2);
            Ok::<_, Error>(())
        }).await.unwrap();
        assert_eq!((db.counts().late, db.counts().restarts), (1, 0));
        assert_eq!(test.value("select n from accounts where id = 7").await, "1200");
    }

    async fn a_savepoint_takes_it_back<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        db.transaction(async |tx| {
            let (mut tx, _) = tx.update(STOCK.subtract([(20, 1)])).await?;
            let before = tx.savepoint().await?;
            let (tx, _) = tx.update(STOCK.subtract([(30, 1)])).await?;
            let tx = tx.rollback_to(before).await?;
            let (tx, sold) = tx.update(STOCK.subtract([(20, 1)])).await?;
            assert_eq!(sold[0], Outcome::Applied { value: 998 });
            let held = if test.family() == Family::InnoDb { 2 } else { 1 };
            assert_eq!(tx.held().len(), held);
            Ok::<_, Error>(())
        }).await.unwrap();
        assert_eq!(test.value("select n from inventories where id = 30").await, "1000");
    }
}
