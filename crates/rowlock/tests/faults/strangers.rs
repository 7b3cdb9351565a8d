//! Sessions that bear the numbers of rowlock's, and are not rowlock's: nobody ends them.

use std::{collections::HashSet, sync::Arc};

use rowlock::{Db, Engine, Error};
use rowlock_testing::{Connection, Family, TestDb, engines, server::Servers};
use tokio::sync::mpsc;

use crate::{
    add, n, open_at,
    server::{kill, session, until, until_free, until_quiet},
    support::{Inventory, Order, tables},
};

const OPEN: i64 = 20;
const STRANGERS: i64 = 60;

engines! { innodb:
    /// A server's connection ids start again with it.
    async fn a_server_that_came_back_has_strangers_under_old_numbers<E: Engine>(test: TestDb) {
        let engine = test.engine();
        let servers = Arc::new(Servers::private().unwrap());
        let url = servers.start(engine).await.unwrap().url;
        let mut setup = Connection::open(engine, &url).await.unwrap();
        for table in ["orders", "inventories", "accounts"] {
            setup.run(&format!("create table {table} (id bigint not null primary key, n bigint not null)")).await.unwrap();
            let rows: Vec<String> = (1..=STRANGERS).map(|id| format!("({id}, 0)")).collect();
            setup.run(&format!("insert into {table} values {}", rows.join(", "))).await.unwrap();
        }
        let db: Db<E> = open_at(&url, OPEN as u32, |builder| builder).await;
        let (tell, mut told) = mpsc::unbounded_channel();
        let family = test.family();
        let open: Vec<_> = (1..=OPEN).map(|id| {
            let (db, tell) = (db.clone(), tell.clone());
            tokio::spawn(async move {
                db.transaction(async |tx| {
                    let mut tx = tx.lock::<Order>([id]).await?;
                    let number = session(&mut tx, family).await?;
                    tell.send(number).unwrap();
                    std::future::pending::<()>().await;
                    drop(tx);
                    Ok::<_, Error>(())
                }).await
            })
        }).collect();
        let mut old = HashSet::new();
        for _ in 0..OPEN {
            old.insert(told.recv().await.unwrap().to_string());
        }
        let stop = servers.clone();
        tokio::task::spawn_blocking(move || stop.shut_down(engine)).await.unwrap().unwrap();
        servers.restart(engine).await.unwrap();

        let (mut strangers, mut met) = (Vec::new(), 0);
        for id in 1..=STRANGERS {
            let mut stranger = Connection::open(engine, &url).await.unwrap();
            stranger.run("begin").await.unwrap();
            stranger.run(&format!("update accounts set n = 1 where id = {id}")).await.unwrap();
            let number = stranger.run("select connection_id()").await.unwrap();
            met += usize::from(number.value().is_some_and(|number| old.contains(number)));
            strangers.push(stranger);
        }
        assert!(met > 0, "a bare number would not have met any of them: {old:?}");
        open.iter().for_each(|task| task.abort());
        for task in open {
            assert!(task.await.unwrap_err().is_cancelled());
        }
        let mut look = Connection::open(engine, &url).await.unwrap();
        until("each session that was lost was to be ended", async || {
            let rows = look.run("show global status like 'Com_kill'").await.unwrap().rows;
            rows[0][1].as_ref().is_some_and(|n| n.parse::<i64>().unwrap() >= OPEN)
        }).await;
        for mut stranger in strangers {
            stranger.run("commit").await.unwrap();
        }
        let changed = look.run("select count(*) from accounts where n = 1").await.unwrap();
        assert_eq!(changed.value(), Some(&*STRANGERS.to_string()));
    }

    /// Who lets go of all locks of the session has none by which it is found: the server ends it when it notices.
    async fn a_session_without_its_lock_is_left_to_the_server<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = open_at(test.url(), 1, |builder| builder).await;
        let (tell, told) = tokio::sync::oneshot::channel();
        let tell = std::sync::Mutex::new(Some(tell));
        let open = { let db = db.clone(); tokio::spawn(async move {
            db.transaction(async |tx| {
                let mut tx = tx.lock::<Order>([10]).await?;
                sqlx::query("select release_all_locks()").execute(&mut tx).await?;
                let number = session(&mut tx, Family::InnoDb).await?;
                let tell = tell.lock().unwrap().take();
                tell.into_iter().for_each(|tell| tell.send(number).unwrap());
                std::future::pending::<()>().await;
                drop(tx);
                Ok::<_, Error>(())
            }).await
        }) };
        told.await.unwrap();
        open.abort();
        assert!(open.await.unwrap_err().is_cancelled());
        // The connection was dropped too, and this statement did not wait.
        until_free(&test, "orders", 10).await;
        db.transaction(async |mut tx| add(&mut tx, "orders", 10, 1).await).await.unwrap();
        assert_eq!(n(&test, "orders", 10).await, 1001);
    }
}

engines! { servers:
    /// Where connections keep no statements, each BEGIN asks for the session: it is found all the same.
    async fn a_session_that_begin_asked_for_is_ended<E: Engine>(test: TestDb) {
        tables(&test).await;
        let url = format!("{}?statement-cache-capacity=0", test.url());
        let db: Db<E> = open_at(&url, 2, |builder| builder.wait(std::time::Duration::from_secs(600))).await;
        // So many until it is given up to tell them apart.
        for _ in 0..250 {
            db.transaction(async |mut tx| add(&mut tx, "accounts", 1, 1).await).await.unwrap();
        }
        let mut holder = test.session("holder").await;
        holder.run("begin").await;
        holder.run("update inventories set n = 0 where id = 20").await;
        for way in ["dropped", "killed"] {
            let (tell, told) = tokio::sync::oneshot::channel();
            let tell = std::sync::Mutex::new(Some(tell));
            let family = test.family();
            let work = { let db = db.clone(); tokio::spawn(async move {
                db.transaction(async |tx| {
                    let mut tx = tx.lock::<Order>([10]).await?;
                    let number = session(&mut tx, family).await?;
                    let tell = tell.lock().unwrap().take();
                    tell.into_iter().for_each(|tell| tell.send(number).unwrap());
                    tx.lock::<Inventory>([20]).await.map(drop)
                }).await
            }) };
            let number = told.await.unwrap();
            test.until_blocked(1).await;
            if way == "killed" {
                // Its second attempt waits, in another session.
                kill(&test, number).await;
                test.until_blocked(1).await;
            }
            work.abort();
            assert!(work.await.unwrap_err().is_cancelled());
            until_free(&test, "orders", 10).await;
            until("nobody waits", async || test.waits().await.is_empty()).await;
        }
        holder.run("rollback").await;
        until_quiet(&test).await;
        assert_eq!(n(&test, "accounts", 1).await, 1250);
    }
}
