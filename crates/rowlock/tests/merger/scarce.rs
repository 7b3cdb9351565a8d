//! A merger where connections are scarce, or its runtime is gone.

use std::{
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    task::Poll,
    time::Duration,
};

use futures_util::future::join_all;
use rowlock::{Db, Engine, Error, Gate, Merger};
use rowlock_testing::{TestDb, engines};
use sqlx::pool::PoolOptions;

use crate::{
    STOCK, start,
    support::{Inventory, Shop, tables},
};

/// A database with one connection, for which nobody waits long.
async fn one_connection<E: Engine>(test: &TestDb) -> Db<E> {
    tables(test).await;
    let options = PoolOptions::<E>::new().max_connections(1).acquire_timeout(Duration::from_secs(3));
    let gate = Gate::new(1, 100);
    Db::builder(Shop).gate::<Inventory>(gate).open(options.connect(test.url()).await.unwrap()).await.unwrap()
}

/// Runs `work` while callers keep the merger busy.
async fn while_busy<E: Engine, T>(merger: &Merger<E, Inventory>, work: impl Future<Output = T>) -> T {
    let over = Arc::new(AtomicBool::new(false));
    let callers = join_all((0..20).map(|_| async {
        while !over.load(SeqCst) {
            merger.subtract(1, 0).await.unwrap();
        }
    }));
    let work = async {
        merger.subtract(1, 0).await.unwrap();
        let done = work.await;
        over.store(true, SeqCst);
        done
    };
    tokio::join!(callers, work).1
}

engines! {
    /// Who waits at a gate holds no connection: the one who is inside may be waiting for it.
    async fn a_batch_waits_at_its_gate_without_a_connection<E: Engine>(test: TestDb) {
        let db = one_connection::<E>(&test).await;
        let kind = db.kind("merged").enters::<Inventory>([1]);
        let merger = kind.merger(STOCK).start().await.unwrap();
        for _ in 0..10 {
            let locked = kind.transaction(async |tx| tx.lock::<Inventory>([1]).await.map(drop));
            while_busy(&merger, locked).await.unwrap();
        }
    }

    /// While a batch gathers, its lane holds no connection.
    async fn a_batch_gathers_without_a_connection<E: Engine>(test: TestDb) {
        let db = one_connection::<E>(&test).await;
        let merger = db.kind("merged").merger(STOCK).linger(Duration::from_millis(200)).start().await.unwrap();
        let other = async {
            let mut waits = 0;
            for _ in 0..3 {
                // It is had while a batch gathers, and not only once it was sent.
                let began = std::time::Instant::now();
                drop(db.pool().acquire().await.unwrap());
                waits += u32::from(began.elapsed() >= Duration::from_millis(190));
            }
            waits
        };
        assert!(while_busy(&merger, other).await < 3);
    }
}

engines! {
    /// Lanes run where the database was opened. When that is gone, callers are told, and do not wait for ever.
    async fn a_runtime_that_is_gone_is_told<E: Engine>(test: TestDb) {
        let url = test.url().to_owned();
        tables(&test).await;
        let (merger, mut under_way) = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let (merger, under_way) = runtime.block_on(async {
                let pool = PoolOptions::<E>::new().max_connections(1).connect(&url).await.unwrap();
                let db = Db::builder(Shop).open(pool.clone()).await.unwrap();
                let merger = start(&db).await;
                // There is no connection for the batch.
                let _taken = pool.acquire().await.unwrap();
                let mut calls: Vec<_> = [1, 1, 2].map(|key| merger.subtract(key, 1)).into();
                poll_fn(|context| {
                    for call in &mut calls {
                        assert!(std::pin::Pin::new(call).poll(context).is_pending());
                    }
                    Poll::Ready(())
                })
                .await;
                while merger.waiting() > 0 {
                    tokio::task::yield_now().await;
                }
                // These come while theirs is under way.
                calls.push(merger.subtract(1, 1));
                assert!(futures_util::FutureExt::now_or_never(&mut calls[3]).is_none());
                (merger, calls)
            });
            runtime.shutdown_background();
            (merger, under_way)
        })
        .await
        .unwrap();
        let told = async {
            for call in &mut under_way {
                let error = call.await.unwrap_err();
                assert!(matches!(error, Error::Closed { .. }), "{error:?}");
            }
            let error = merger.subtract(1, 1).await.unwrap_err();
            assert!(matches!(error, Error::Closed { .. }), "{error:?}");
            merger.close().await;
        };
        tokio::time::timeout(Duration::from_secs(20), told).await.expect("nobody is told");
        assert_eq!(test.value("select n from inventories where id = 1").await, "1000");
    }
}
