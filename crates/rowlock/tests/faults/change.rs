//! Conditional updates and merged ones, dropped at every await and cut off at their statements.

use rowlock::{Counter, Db, Engine, Error, Outcome};
use rowlock_testing::{Family, Lost, Proxy, TestDb, cancel_at, engines};
use sqlx::pool::PoolOptions;

use crate::support::{Inventory, Order, Shop, tables};
use crate::{
    n, open_single,
    server::{transactions, until_free, until_quiet},
};

const N: Counter<Order> = Counter::new("n");
const STOCK: Counter<Inventory> = Counter::new("n");

/// Nothing is left of what was dropped: the one connection serves, and no transaction is open.
async fn clean<E: Engine>(test: &TestDb, db: &Db<E>) -> i64 {
    until_free(test, "orders", 10).await;
    until_free(test, "inventories", 20).await;
    until_quiet(test).await;
    db.kind("next").update(Counter::<crate::support::Account>::new("n").add([(1, 1)])).await.unwrap();
    assert_eq!(transactions(test).await, 0);
    n(test, "orders", 10).await
}

engines! {
    async fn an_update_at_every_await<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        for awaits in 0..50 {
            let before = n(&test, "orders", 10).await;
            let result = cancel_at(awaits, db.kind("one").update(N.add([(10, 1)]))).await;
            let after = clean(&test, &db).await;
            assert!(after == before || after == before + 1, "{before} became {after}");
            if let Some(result) = result {
                assert_eq!(result.unwrap()[0], Outcome::Applied { value: after });
                return;
            }
        }
        panic!("it never finished");
    }

    async fn updates_in_a_transaction_at_every_await<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        for awaits in 0..50 {
            let (before, stock) = (n(&test, "orders", 10).await, n(&test, "inventories", 20).await);
            let work = db.transaction(async |tx| {
                let (tx, _) = tx.update(N.add([(10, 1), (9, 1)])).await?;
                tx.update(STOCK.subtract([(20, 1)])).await.map(drop)
            });
            let result = cancel_at(awaits, work).await;
            let after = clean(&test, &db).await;
            assert_eq!(after - before, stock - n(&test, "inventories", 20).await, "half done at await {awaits}");
            if let Some(result) = result {
                result.unwrap();
                assert_eq!(after, before + 1);
                return;
            }
        }
        panic!("it never finished");
    }

    /// A request that is dropped is withdrawn or done, and in neither case does it keep the next from its turn.
    async fn a_merged_request_at_every_await<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let merger = db.kind("merged").merger(N).start().await.unwrap();
        for awaits in 0..20 {
            let before = n(&test, "orders", 10).await;
            let mut dropped = merger.subtract(10, 1);
            let result = cancel_at(awaits, &mut dropped).await;
            let withdrawn = result.is_none() && dropped.withdraw();
            drop(dropped);
            let Outcome::Applied { value } = merger.subtract(10, 0).await.unwrap() else { panic!("not applied") };
            assert_eq!(value, if withdrawn { before } else { before - 1 });
            assert_eq!(clean(&test, &db).await, value);
            if let Some(result) = result {
                assert_eq!(result.unwrap(), Outcome::Applied { value });
                return;
            }
        }
        panic!("it never finished");
    }
}

engines! { servers:
    /// Cut off on its way there or back, a lone update is unknown, is done once at most, and the next goes on.
    async fn a_lone_update_that_is_cut_off_is_unknown<E: Engine>(test: TestDb) {
        tables(&test).await;
        let proxy = Proxy::to(test.url()).await.unwrap();
        let pool = PoolOptions::<E>::new().max_connections(1).connect(proxy.url()).await.unwrap();
        let db: Db<E> = Db::builder(Shop).open(pool).await.unwrap();
        let one = async || db.kind("one").update(N.add([(10, 1)])).await;
        // The run of a prepared statement: by its name, or by its command (COM_STMT_EXECUTE).
        let run = if test.family() == Family::Postgres { "sqlx_s_" } else { "\0\x17" };
        for (lost, done) in [(Lost::Request, 0), (Lost::Answer, 1)] {
            one().await.unwrap();
            let before = n(&test, "orders", 10).await;
            proxy.cut_at(run, lost);
            let error = one().await.unwrap_err();
            assert!(matches!(error, Error::CommitUnknown { .. }), "{error:?}");
            until_quiet(&test).await;
            assert_eq!(n(&test, "orders", 10).await, before + done, "{lost:?}");
        }
        assert_eq!(proxy.cuts(), 2);
        assert_eq!(one().await.unwrap()[0], Outcome::Applied { value: 1004 });
    }
}
