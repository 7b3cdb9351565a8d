//! COPY in a transaction: held to the order, whole or not at all, and no mistake in its use is run again.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use futures_util::TryStreamExt;
use rowlock::{Db, Error, UnknownKeys};
use rowlock_testing::{TestDb, cancel_at, engines};
use sqlx::Postgres;

use crate::{
    add, n, open_single,
    server::until_quiet,
    support::{Inventory, Order},
};

async fn events(test: &TestDb) -> String {
    test.value("select count(*) from events").await
}

engines! { postgres:
    async fn rows_go_in_and_come_out(test: TestDb) {
        let db: Db<Postgres> = open_single(&test).await;
        test.execute("create table events (id bigint primary key, what text not null)").await;
        db.refresh().await.unwrap();
        let out = db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await?;
            let mut copy = tx.copy_in_raw("copy events from stdin (format csv)").await?;
            copy.send(&b"1,pa"[..]).await?;
            copy.send(b"id\n2,sent\n".to_vec()).await?;
            assert_eq!(copy.finish().await?, 2);
            let pieces = tx.copy_out_raw("copy (select id, what from events order by id) to stdout").await?;
            let pieces: Vec<_> = pieces.try_collect().await?;
            add(&mut tx, "orders", 10, 1).await?;
            Ok::<_, Error>(pieces.concat())
        }).await.unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "1\tpaid\n2\tsent\n");
        assert_eq!((events(&test).await.as_str(), n(&test, "orders", 10).await), ("2", 1002));
    }

    async fn its_mistakes_are_told_at_once(test: TestDb) {
        let db: Db<Postgres> = open_single(&test).await;
        test.execute("create table events (id bigint primary key, what text not null)").await;
        db.refresh().await.unwrap();
        let runs = AtomicU32::new(0);
        for case in 0.. {
            runs.store(0, Relaxed);
            let work = db.transaction(async |tx| {
                runs.fetch_add(1, Relaxed);
                let mut tx = tx.lock::<Order>([10]).await?;
                add(&mut tx, "orders", 10, 1).await?;
                match case {
                    // sqlx's way for statements does not speak COPY's protocol.
                    0 => sqlx::query("copy events to stdout").execute(&mut tx).await.map(|_| ())?,
                    1 => sqlx::query("copy events from stdin").execute(&mut tx).await.map(|_| ())?,
                    2 => drop(tx.copy_out_raw("copy events from stdin").await?),
                    3 => drop(tx.copy_in_raw("copy events to stdout").await?),
                    4 => drop(tx.copy_out_raw("copy no_events to stdout").await?),
                    5 => drop(tx.copy_in_raw("copy no_events from stdin").await?),
                    6 => drop(tx.copy_in_raw("update orders set n = 0").await?),
                    7 => {
                        let mut copy = tx.copy_in_raw("copy events from stdin (format csv)").await?;
                        copy.send(&b"1,paid\nx,y\n"[..]).await?;
                        copy.finish().await?;
                    }
                    _ => {
                        let pieces = tx.copy_out_raw("copy (select 1 / (2 - g) from generate_series(1, 2) g) to stdout");
                        pieces.await?.try_collect::<Vec<_>>().await?;
                    }
                }
                Ok::<_, Error>(())
            });
            let result = tokio::time::timeout(std::time::Duration::from_secs(20), work).await;
            let error = result.unwrap_or_else(|_| panic!("case {case}: no end")).unwrap_err();
            assert!(matches!(error, Error::Database(_) | Error::Refused(_)), "case {case}: {error:?}");
            assert_eq!(runs.load(Relaxed), 1, "case {case}: no other run mends it: {error:?}");
            until_quiet(&test).await;
            assert_eq!((events(&test).await.as_str(), n(&test, "orders", 10).await), ("0", 1000), "case {case}");
            if case == 8 {
                break;
            }
        }
    }

    async fn given_up_in_the_middle_it_is_given_up_whole(test: TestDb) {
        let db: Db<Postgres> = open_single(&test).await;
        test.execute("create table events (id bigint primary key, what text not null)").await;
        db.refresh().await.unwrap();
        for out in [false, true] {
            let error = db.transaction(async |mut tx| {
                add(&mut tx, "orders", 10, 1).await?;
                if out {
                    let sql = "copy (select g, repeat('x', 1000) from generate_series(1, 10000) g) to stdout";
                    let mut pieces = tx.copy_out_raw(sql).await?;
                    assert!(pieces.try_next().await?.is_some());
                } else {
                    let mut copy = tx.copy_in_raw("copy events from stdin (format csv)").await?;
                    copy.send(&b"1,paid\n"[..]).await?;
                }
                Ok::<_, Error>(())
            }).await.unwrap_err();
            assert!(matches!(error, Error::RolledBack { .. }), "{error:?}");
            until_quiet(&test).await;
        }
        for awaits in 0.. {
            let work = cancel_at(awaits, db.transaction(async |mut tx| {
                add(&mut tx, "orders", 10, 1).await?;
                let mut copy = tx.copy_in_raw("copy events from stdin (format csv)").await?;
                copy.send(format!("{awaits},paid\n").into_bytes()).await?;
                copy.finish().await?;
                tx.copy_out_raw("copy events to stdout").await?.try_collect::<Vec<_>>().await?;
                Ok::<_, Error>(())
            }));
            let done = work.await;
            until_quiet(&test).await;
            assert_eq!(n(&test, "orders", 10).await - 1000, events(&test).await.parse::<i64>().unwrap(), "at {awaits}");
            if done.is_some() {
                break;
            }
        }
    }

    /// Into a table of the order it makes rows whose keys nobody sees.
    async fn it_is_held_to_the_order(test: TestDb) {
        let db: Db<Postgres> = open_single(&test).await;
        let copy = "copy orders (id, n) from stdin (format csv)";
        for kind in [db.kind("refused"), db.kind("whole").unknown_keys(UnknownKeys::WholeResource)] {
            let error = kind.transaction(async |tx| {
                let mut tx = tx.lock::<Inventory>([20]).await?;
                tx.copy_in_raw(copy).await?.finish().await?;
                Ok::<_, Error>(())
            }).await.unwrap_err();
            assert!(matches!(error, Error::Refused(_) | Error::OutOfOrder(_)), "{error:?}");
        }
        let whole = db.kind("first").unknown_keys(UnknownKeys::WholeResource);
        whole.transaction(async |mut tx| {
            let mut copy = tx.copy_in_raw(copy).await?;
            copy.send(&b"500,1\n"[..]).await?;
            assert_eq!(copy.finish().await?, 1);
            tx.lock::<Inventory>([20]).await.map(drop)
        }).await.unwrap();
        assert_eq!(n(&test, "orders", 500).await, 1);
    }
}
