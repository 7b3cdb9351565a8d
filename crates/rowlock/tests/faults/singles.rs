//! Statements that stand alone, while the server goes and comes back: what was not sent is sent again, and only what was under
//! way is unknown.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use rowlock::{Counter, Db, Engine, Error, Outcome};
use rowlock_testing::{Connection, TestDb, engines, server::Servers};
use sqlx::{Connection as _, pool::PoolOptions};
use tokio::sync::{Barrier, Notify};

use crate::{
    add,
    support::{Inventory, Shop},
};

const STOCK: Counter<Inventory> = Counter::new("n");
const POOL: u32 = 4;
/// As `rowlock` has it: so long a connection that answered is taken to live.
const FRESH: Duration = Duration::from_millis(100);

/// A server of its own, with the tables.
async fn server(test: &TestDb) -> (Arc<Servers>, String) {
    let servers = Arc::new(Servers::private().unwrap().durable());
    let url = servers.start(test.engine()).await.unwrap().url;
    let mut setup = Connection::open(test.engine(), &url).await.unwrap();
    for table in ["orders", "inventories", "accounts"] {
        let table_sql = format!("create table {table} (id bigint not null primary key, n bigint not null)");
        setup.run(&table_sql).await.unwrap();
        let rows: Vec<String> = (1..=30).map(|id| format!("({id}, 1000)")).collect();
        setup.run(&format!("insert into {table} values {}", rows.join(", "))).await.unwrap();
    }
    (servers, url)
}

/// The pool that rowlock makes, which does not ask a connection that was in use a moment ago.
async fn open<E: Engine>(url: &str, connections: u32) -> Db<E> {
    let server: <E::Connection as sqlx::Connection>::Options = url.parse().unwrap_or_else(|error| panic!("{error}"));
    Db::builder(Shop).connect_with(PoolOptions::new().max_connections(connections), server).await.unwrap()
}

/// Shuts it down, or lets it crash.
async fn down(test: &TestDb, servers: &Arc<Servers>, crash: bool) {
    let (engine, servers) = (test.engine(), servers.clone());
    let stop = move || if crash { servers.crash(engine) } else { servers.shut_down(engine) };
    tokio::task::spawn_blocking(stop).await.unwrap().unwrap();
}

/// Uses all connections of the pool at once.
async fn use_all<E: Engine>(db: &Db<E>) {
    let all = Arc::new(Barrier::new(POOL as usize));
    let uses = (1..=POOL).map(|id| {
        let (all, db) = (all.clone(), db.clone());
        async move {
            let work = async |mut tx| {
                add(&mut tx, "accounts", i64::from(id), 1).await?;
                all.wait().await;
                Ok::<_, Error>(())
            };
            db.transaction(work).await
        }
    });
    for done in futures_util::future::join_all(uses).await {
        done.unwrap();
    }
}

async fn value(look: &mut Connection, table: &str, id: i64) -> i64 {
    let sql = format!("select trim(cast(n as char(9))) from {table} where id = {id}");
    look.run(&sql).await.unwrap().value().unwrap().parse().unwrap()
}

engines! { servers:
    async fn after_a_restart_all_are_done<E: Engine>(test: TestDb) {
        let (servers, url) = server(&test).await;
        let db: Db<E> = open(&url, POOL).await;
        let merger = db.kind("merged").merger(STOCK).start().await.unwrap();
        for crash in [false, true] {
            use_all(&db).await;
            let stopped = Instant::now();
            down(&test, &servers, crash).await;
            servers.restart(test.engine()).await.unwrap();
            // What lies within nobody can know: the limit is the subject.
            tokio::time::sleep_until((stopped + FRESH).into()).await;
            for _ in 0..7 {
                let update = rowlock::query("update orders set n = n + 1 where id = 10");
                assert_eq!(db.kind("single").execute(update).await.unwrap(), 1);
                let changed = db.kind("change").update(STOCK.subtract([(20, 1)])).await.unwrap();
                assert!(changed.all_applied(), "{changed:?}");
                assert!(matches!(merger.subtract(30, 1).await.unwrap(), Outcome::Applied { .. }));
            }
        }
        let mut look = Connection::open(test.engine(), &url).await.unwrap();
        assert_eq!(value(&mut look, "orders", 10).await, 1014);
        assert_eq!(value(&mut look, "inventories", 20).await, 986);
        assert_eq!(value(&mut look, "inventories", 30).await, 986);
    }

    async fn in_a_crash_only_what_was_under_way_is_unknown<E: Engine>(test: TestDb) {
        const WORKERS: i64 = 8;
        let (servers, url) = server(&test).await;
        let db: Db<E> = open(&url, POOL).await;
        let (busy, back) = (Arc::new(Notify::new()), Arc::new(AtomicBool::new(false)));
        let done = Arc::new(AtomicU64::new(0));
        let workers: Vec<_> = (1..=WORKERS).map(|id| {
            let (db, busy, back, total) = (db.clone(), busy.clone(), back.clone(), done.clone());
            tokio::spawn(async move {
                // MySQL needs some seconds to come back.
                let kind = db.kind("single").attempts(100);
                let (mut done, mut unknown, mut afterwards) = (0, 0, 0);
                while afterwards < 20 {
                    let is_back = back.load(Relaxed);
                    let update = rowlock::query(match <E as sqlx::Database>::NAME {
                        "PostgreSQL" => "update orders set n = n + 1 where id = $1",
                        _ => "update orders set n = n + 1 where id = ?",
                    });
                    match kind.execute(update.bind(id)).await {
                        Ok(changed) => {
                            assert_eq!(changed, 1);
                            done += 1;
                            afterwards += i64::from(is_back);
                            if total.fetch_add(1, Relaxed) == 200 {
                                busy.notify_one();
                            }
                        }
                        Err(Error::CommitUnknown { .. }) => unknown += 1,
                        Err(error) => panic!("{error:?}"),
                    }
                }
                (done, unknown)
            })
        }).collect();
        busy.notified().await;
        down(&test, &servers, true).await;
        servers.restart(test.engine()).await.unwrap();
        back.store(true, Relaxed);
        let mut look = Connection::open(test.engine(), &url).await.unwrap();
        for (id, worker) in (1..).zip(workers) {
            let (done, unknown) = worker.await.unwrap();
            let there = value(&mut look, "orders", id).await - 1000;
            assert!(there >= done && there <= done + unknown, "told {done}, unknown {unknown}, there are {there}");
            // One at a time was under way. (A server that crashes may answer once more on another connection.)
            assert!(unknown <= 2, "{unknown}");
        }
    }

    /// Its connection was ended by somebody while nobody used it, and the pool does not ask.
    async fn a_dead_connection_is_not_the_statement_s_end<E: Engine>(test: TestDb) {
        crate::support::tables(&test).await;
        let options = PoolOptions::<E>::new().max_connections(1).test_before_acquire(false);
        let db: Db<E> = Db::builder(Shop).open(options.connect(test.url()).await.unwrap()).await.unwrap();
        let family = test.family();
        for n in 1..=5 {
            let number = db.transaction(async |mut tx| Ok::<_, Error>(crate::server::session(&mut tx, family).await?)).await;
            let answered = Instant::now();
            crate::server::kill(&test, number.unwrap()).await;
            tokio::time::sleep_until((answered + FRESH).into()).await;
            let update = rowlock::query("update orders set n = n + 1 where id = 10");
            assert_eq!(db.kind("single").execute(update).await.unwrap(), 1);
            assert_eq!(crate::n(&test, "orders", 10).await, 1000 + n);
        }
        db.pool().acquire().await.unwrap().ping().await.unwrap();
    }
}
