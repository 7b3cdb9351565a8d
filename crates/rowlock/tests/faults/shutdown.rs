//! A server that is shut down, or crashes, in the middle of transactions, and comes back.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

use rowlock::{Db, Engine, Error};
use rowlock_testing::{Connection, Family, TestDb, engines, server::Servers};

use crate::support::{Inventory, Order};
use crate::{add, open_at};

const TABLES: &str = "create table {} (id bigint not null primary key, n bigint not null, code bigint unique)";

engines! { servers:
    async fn a_transaction_is_run_again_whole_when_the_server_is_back<E: Engine>(test: TestDb) {
        // Other tests use the shared server: this one shuts down its own.
        let engine = test.engine();
        let servers = Arc::new(Servers::private().unwrap().durable());
        let url = servers.start(engine).await.unwrap().url;
        let mut setup = Connection::open(engine, &url).await.unwrap();
        for table in ["orders", "inventories", "accounts"] {
            setup.run(&TABLES.replace("{}", table)).await.unwrap();
            setup.run(&format!("insert into {table} (id, n) values (10, 1000)")).await.unwrap();
        }
        let db: Db<E> = open_at(&url, 2, |builder| builder).await;
        for crash in [false, true] {
            let down = async || {
                let servers = servers.clone();
                tokio::task::spawn_blocking(move || match crash {
                    true => servers.crash(engine),
                    false => servers.shut_down(engine),
                }).await.unwrap().unwrap();
            };
            let before = db.counts();
            let runs = AtomicU32::new(0);
            db.transaction(async |tx| {
                let mut tx = tx.lock::<Order>([10]).await?;
                add(&mut tx, "orders", 10, 1).await?;
                if runs.fetch_add(1, Relaxed) == 0 {
                    down().await;
                    servers.restart(engine).await.unwrap();
                }
                let mut tx = tx.lock::<Inventory>([10]).await?;
                add(&mut tx, "inventories", 10, -1).await
            }).await.unwrap();
            assert!(runs.load(Relaxed) >= 2, "its first run was lost");
            assert_eq!(db.counts().committed - before.committed, 1);

            // At COMMIT nobody knows, but a token.
            let runs = AtomicU32::new(0);
            let work = |kind: rowlock::Kind<E>| {
                let (runs, servers, down) = (&runs, &servers, &down);
                async move {
                    kind.transaction(async |mut tx| {
                        add(&mut tx, "accounts", 10, 1).await?;
                        if runs.fetch_add(1, Relaxed) == 0 {
                            down().await;
                            servers.restart(engine).await.unwrap();
                        }
                        Ok::<_, Error>(())
                    }).await
                }
            };
            let unknown = work(db.kind("plain")).await;
            assert!(matches!(unknown, Err(Error::CommitUnknown { .. })), "{unknown:?}");
            runs.store(0, Relaxed);
            work(db.kind("token").commit_token(true)).await.unwrap();
        }
        let mut look = Connection::open(engine, &url).await.unwrap();
        for (table, n) in [("orders", "1002"), ("inventories", "998"), ("accounts", "1002")] {
            let rows = look.run(&format!("select trim(cast(n as char(9))) from {table} where id = 10")).await.unwrap().rows;
            assert_eq!(rows, [[Some(n.to_owned())]], "{table}: each once, and nothing of what was lost");
        }
    }

    async fn who_waits_for_a_lock_waits_anew<E: Engine>(test: TestDb) {
        let engine = test.engine();
        let servers = Arc::new(Servers::private().unwrap().durable());
        let url = servers.start(engine).await.unwrap().url;
        let mut holder = Connection::open(engine, &url).await.unwrap();
        for table in ["orders", "inventories", "accounts"] {
            holder.run(&TABLES.replace("{}", table)).await.unwrap();
            holder.run(&format!("insert into {table} (id, n) values (10, 1000)")).await.unwrap();
        }
        let db: Db<E> = open_at(&url, 2, |builder| builder).await;
        holder.run("begin").await.unwrap();
        holder.run("update orders set n = 0 where id = 10").await.unwrap();
        let runs = AtomicU32::new(0);
        // MySQL needs some seconds to come back.
        let kind = db.kind("waits").attempts(100);
        let work = kind.transaction(async |tx| {
            runs.fetch_add(1, Relaxed);
            let mut tx = tx.lock::<Order>([10]).await?;
            add(&mut tx, "orders", 10, 1).await
        });
        let operator = async {
            let mut look = Connection::open(engine, &url).await.unwrap();
            crate::server::until("it waits", async || match engine.family() {
                Family::Postgres => {
                    look.run("select count(*) from pg_locks where not granted").await.unwrap().value() == Some("1")
                }
                _ => {
                    let status = look.run("show engine innodb status").await.unwrap().rows;
                    status[0][2].as_ref().is_some_and(|text| text.contains("LOCK WAIT"))
                }
            }).await;
            let stop = servers.clone();
            tokio::task::spawn_blocking(move || stop.shut_down(engine)).await.unwrap().unwrap();
            servers.restart(engine).await.unwrap();
        };
        let (done, ()) = tokio::join!(work, operator);
        done.unwrap();
        assert!(runs.load(Relaxed) >= 2 || db.counts().other_retries > 0, "{:?}", db.counts());
        let mut look = Connection::open(engine, &url).await.unwrap();
        let n = look.run("select trim(cast(n as char(9))) from orders where id = 10").await.unwrap();
        assert_eq!(n.value(), Some("1001"), "the holder's change went with it");
    }
}
