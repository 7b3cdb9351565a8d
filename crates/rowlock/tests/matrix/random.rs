//! Work of no particular kind: sixteen clients send random statements, in any order, at any strength, some of which lock
//! what they do not name. The guard alone keeps them in order: all commit, none is ever a deadlock's victim, and the
//! result is exact.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use rand::{Rng, SeedableRng, rngs::StdRng, seq::IndexedRandom};
use rowlock::{Db, Engine, Result};
use rowlock_testing::{Engine as Server, TestDb, engines};
use sqlx::AssertSqlSafe;

use crate::ground::open_of;

const CLIENTS: u64 = 16;
const TRANSACTIONS: usize = 75;

/// What the statements of one transaction come to.
#[derive(Default)]
struct Sums {
    orders: AtomicI64,
    items: AtomicI64,
    lines: AtomicI64,
}

engines! { servers:
    async fn random_statements_never_deadlock<E: Engine>(test: TestDb) {
        let db: Db<E> = open_of(&test, CLIENTS as u32 + 4).await;
        let (sums, line) = (Sums::default(), AtomicI64::new(0));
        let clients = (0..CLIENTS).map(|client| {
            let (db, sums, line, server) = (&db, &sums, &line, test.engine());
            async move {
                let mut random = StdRng::seed_from_u64(client);
                for _ in 0..TRANSACTIONS {
                    let statements: Vec<String> =
                        (0..random.random_range(2..=4)).map(|_| statement(&mut random, server, sums, line)).collect();
                    let done: Result<()> = db.transaction(async |mut tx| {
                        for sql in &statements {
                            rowlock::query(AssertSqlSafe(sql.clone())).execute(&mut tx).await?;
                        }
                        Ok(())
                    }).await;
                    done.unwrap_or_else(|error| panic!("client {client}: {statements:#?}: {error}"));
                }
            }
        });
        futures_util::future::join_all(clients).await;
        let counts = db.counts();
        eprintln!("{}: {counts:?}", test.engine().name());
        assert_eq!((counts.deadlocks, counts.fallbacks, counts.rolled_back), (0, 0, 0), "{counts:?}");
        assert_eq!(counts.committed, CLIENTS * TRANSACTIONS as u64, "{counts:?}");
        assert!(counts.late > 0 && counts.restarts > 0, "nothing was out of order: {counts:?}");
        for (sql, sum) in [
            ("select sum(n) from orders", sums.orders.into_inner()),
            ("select sum(n) - 500 from inventories", sums.items.into_inner()),
            ("select count(*) from order_lines", sums.lines.into_inner()),
        ] {
            assert_eq!(test.value(sql).await, sum.to_string(), "{sql}");
        }
    }
}

/// One statement, and what it adds.
fn statement(random: &mut StdRng, server: Server, sums: &Sums, line: &AtomicI64) -> String {
    let mut item = || *[20, 30, 42, 70, 105].choose(random).unwrap_or(&20);
    let (a, b) = (item(), item());
    let order = if random.random() { 10 } else { 11 };
    let share = if server == Server::MariaDb { "lock in share mode" } else { "for share" };
    match random.random_range(0..8) {
        0 => {
            sums.orders.fetch_add(1, Relaxed);
            format!("update orders set n = n + 1 where id = {order}")
        }
        1 => {
            sums.orders.fetch_add(2, Relaxed);
            "update orders set n = n + 1 where id in (11, 10)".into()
        }
        2 => {
            sums.items.fetch_add(1, Relaxed);
            format!("update inventories set n = n + 1 where id = {a}")
        }
        3 => {
            sums.items.fetch_add(if a == b { 1 } else { 2 }, Relaxed);
            format!("update inventories set n = n + 1 where id in ({a}, {b})")
        }
        // It locks its item as well.
        4 => {
            sums.lines.fetch_add(1, Relaxed);
            format!("insert into order_lines (id, item, n) values ({}, {a}, 1)", line.fetch_add(1, Relaxed))
        }
        5 => format!("select * from inventories where id = {a} {share}"),
        6 => format!("select * from inventories where id = {a} or id = {b} for update"),
        _ => format!("select * from orders where id = {order} {share}"),
    }
}
