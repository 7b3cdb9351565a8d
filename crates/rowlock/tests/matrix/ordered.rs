//! Rowlock's way: the work of each case, two transactions at a time, on every engine. Both always commit, nobody is ever a
//! deadlock's victim, and the result is exact. Where the work is written out of order, that is seen (a late place) and
//! mended (a restart); on SQLite it is seen as on a server.

use std::ops::RangeInclusive;

use rowlock::{Before, Db, Engine, Error, Result, Tx, query};
use rowlock_testing::{Family, TestDb, engines};

use crate::{
    gate::Gate,
    ground::{Inventory, Order, Row, open},
};

engines! {
    async fn opposite_resources<E: Engine>(test: TestDb) {
        let (db, gate) = (open::<E>(&test).await, Gate::new(&test));
        let api = db.transaction(async |tx| {
            let mut tx = tx.lock::<Order>([10]).await?;
            query("update orders set n = n + 1 where id = 10").execute(&mut tx).await?;
            gate.pass().await;
            let mut tx = tx.lock::<Inventory>([20]).await?;
            query("update inventories set n = n - 1 where id = 20").execute(&mut tx).await.map(drop)
        });
        let webhook = db.transaction(async |mut tx| {
            query("update inventories set n = n - 1 where id = 20").execute(&mut tx).await?;
            gate.pass().await;
            query("update orders set n = n + 1 where id = 10").execute(&mut tx).await.map(drop)
        });
        both(api, webhook).await;
        settled(&test, &db, 1..=1, 1..=1);
        assert_eq!(sums(&test).await, "2 498");
    }

    async fn opposite_keys<E: Engine>(test: TestDb) {
        let (db, gate) = (open::<E>(&test).await, Gate::new(&test));
        let take = async |first: i64, second: i64| {
            db.transaction(async |tx| {
                let tx = tx.lock::<Inventory>([first]).await?;
                gate.pass().await;
                let mut tx = tx.lock::<Inventory>([second]).await?;
                sell(&mut tx).await
            })
            .await
        };
        both(take(20, 30), take(30, 20)).await;
        settled(&test, &db, 1..=1, 1..=1);
        assert_eq!(sums(&test).await, "0 496");
    }

    async fn opposite_lists<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        let forward = db.transaction(async |mut tx| {
            query("update inventories set n = n - 1 where id in (105, 70, 42)").execute(&mut tx).await
        });
        let backward = db.transaction(async |mut tx| {
            query("update inventories set n = n - 1 where id in (42, 70, 105)").execute(&mut tx).await
        });
        if test.family() == Family::Sqlite {
            both(forward, backward).await;
        } else {
            let mut between = test.session("between").await;
            between.run("begin").await;
            between.run("update inventories set n = n where id = 70").await;
            let release = async {
                test.until_blocked(2).await;
                between.run("commit").await;
                Ok(())
            };
            tokio::try_join!(forward, backward, release).unwrap_or_else(|error| panic!("{error:?}"));
        }
        settled(&test, &db, 0..=0, 0..=0);
        assert_eq!(sums(&test).await, "0 494");
    }

    async fn a_helper_in_order_after_an_update_out_of_order<E: Engine>(test: TestDb) {
        async fn place<E: Engine, L: Before<Order>>(tx: Tx<E, L>) -> Result<Tx<E, Inventory>> {
            let mut tx = tx.lock::<Order>([10]).await?;
            query("update orders set n = n + 1 where id = 10").execute(&mut tx).await?;
            tx.lock::<Inventory>([20]).await
        }
        let (db, gate) = (open::<E>(&test).await, Gate::new(&test));
        let api = db.transaction(async |mut tx| {
            query("update inventories set n = n - 1 where id = 20").execute(&mut tx).await?;
            gate.pass().await;
            place(tx).await.map(drop)
        });
        let batch = db.transaction(async |tx| {
            let tx = tx.lock::<Order>([10]).await?;
            gate.pass().await;
            let mut tx = place(tx).await?;
            query("update inventories set n = n - 1 where id = 20").execute(&mut tx).await.map(drop)
        });
        both(api, batch).await;
        settled(&test, &db, 1..=1, 1..=1);
        assert_eq!(sums(&test).await, "2 498");
    }

    async fn several_orders_one_after_the_other<E: Engine>(test: TestDb) {
        let (db, gate) = (open::<E>(&test).await, Gate::new(&test));
        let ship = async |work: [(&'static str, &'static str); 2]| {
            db.transaction(async |mut tx| {
                for (at, (order, stock)) in work.into_iter().enumerate() {
                    if at == 1 {
                        gate.pass().await;
                    }
                    query(order).execute(&mut tx).await?;
                    query(stock).execute(&mut tx).await?;
                }
                Ok(())
            })
            .await
        };
        let first = ("update orders set n = n + 1 where id = 10", "update inventories set n = n - 1 where id = 20");
        let second = ("update orders set n = n + 1 where id = 11", "update inventories set n = n - 1 where id = 30");
        both(ship([first, second]), ship([second, first])).await;
        // One place of `batch` is late and two of its mirror; a restart may come before the last is met.
        settled(&test, &db, 1..=4, 2..=5);
        assert_eq!(sums(&test).await, "4 496");
    }

    async fn several_orders_declared<E: Engine>(test: TestDb) {
        let (db, gate) = (open::<E>(&test).await, Gate::new(&test));
        let ship = async |orders: [i64; 2], items: [i64; 2]| {
            db.transaction(async |tx| {
                let mut tx = tx.lock::<Order>(orders).await?;
                query("update orders set n = n + 1 where id in (11, 10)").execute(&mut tx).await?;
                gate.pass().await;
                let mut tx = tx.lock::<Inventory>(items).await?;
                sell(&mut tx).await
            })
            .await
        };
        both(ship([10, 11], [20, 30]), ship([11, 10], [30, 20])).await;
        settled(&test, &db, 0..=0, 0..=0);
        assert_eq!(sums(&test).await, "4 496");
    }

    async fn shared_then_exclusive<E: Engine>(test: TestDb) {
        let (db, gate) = (open::<E>(&test).await, Gate::new(&test));
        let buy = async || {
            db.transaction(async |tx| {
                let mut tx = tx.lock::<Inventory>([20]).share().await?;
                gate.pass().await;
                query("update inventories set n = n - 1 where id = 20").execute(&mut tx).await.map(drop)
            })
            .await
        };
        both(buy(), buy()).await;
        settled(&test, &db, 1..=2, 2..=2);
        assert_eq!(sums(&test).await, "0 498");
    }

    async fn a_childs_insert_beside_an_update_of_the_parent<E: Engine>(test: TestDb) {
        let (db, gate) = (open::<E>(&test).await, Gate::new(&test));
        let insert = db.transaction(async |mut tx| {
            query("insert into order_lines (id, item, n) values (1, 20, 1)").execute(&mut tx).await?;
            gate.pass().await;
            Ok(())
        });
        let update = db.transaction(async |mut tx| {
            query("update inventories set n = n - 1 where id = 20").execute(&mut tx).await?;
            gate.pass().await;
            Ok(())
        });
        both(insert, update).await;
        settled(&test, &db, 0..=0, 0..=0);
        assert_eq!(sums(&test).await, "0 499");
    }

    async fn a_childs_insert_then_update_of_the_parent<E: Engine>(test: TestDb) {
        let (db, gate) = (open::<E>(&test).await, Gate::new(&test));
        let order = async |line: &'static str| {
            db.transaction(async |mut tx| {
                query(line).execute(&mut tx).await?;
                gate.pass().await;
                query("update inventories set n = n - 1 where id = 20").execute(&mut tx).await.map(drop)
            })
            .await
        };
        let one = order("insert into order_lines (id, item, n) values (1, 20, 1)");
        let two = order("insert into order_lines (id, item, n) values (2, 20, 1)");
        both(one, two).await;
        // PostgreSQL's second update can be had at once when the first has committed.
        settled(&test, &db, if test.family() == Family::Postgres { 0..=1 } else { 1..=2 }, 2..=2);
        assert_eq!(sums(&test).await, "0 498");
        assert_eq!(test.value("select count(*) from order_lines").await, "2");
    }

    async fn a_missing_row_then_its_insert<E: Engine>(test: TestDb) {
        let (db, gate) = (open::<E>(&test).await, Gate::new(&test));
        let make = async || {
            db.transaction(async |tx| {
                let tx = tx.guard_creation::<Order>([500]).await?;
                gate.pass().await;
                let (mut tx, there) = tx.lock::<Order>([500]).fetch_optional::<Row>().await?;
                let sql = match there {
                    None => "insert into orders (id, n) values (500, 1)",
                    Some(_) => "update orders set n = n + 1 where id = 500",
                };
                query(sql).execute(&mut tx).await.map(drop)
            })
            .await
        };
        both(make(), make()).await;
        settled(&test, &db, 0..=0, 0..=0);
        assert_eq!(sums(&test).await, "2 500");
    }

    async fn upserts_of_new_rows_in_opposite_orders<E: Engine>(test: TestDb) {
        let (db, gate) = (open::<E>(&test).await, Gate::new(&test));
        let or_update = match test.family() {
            Family::InnoDb => "on duplicate key update n = n + 1",
            _ => "on conflict (id) do update set n = orders.n + 1",
        };
        let upsert = |id: i64| {
            query(sqlx::AssertSqlSafe(format!("insert into orders (id, n) values ({id}, 1) {or_update}")))
        };
        let make = async |ids: [i64; 2]| {
            db.transaction(async |tx| {
                let mut tx = tx.guard_creation::<Order>(ids).await?;
                gate.pass().await;
                let mut ids = ids;
                ids.sort();
                upsert(ids[0]).execute(&mut tx).await?;
                upsert(ids[1]).execute(&mut tx).await.map(drop)
            })
            .await
        };
        both(make([500, 400]), make([400, 500])).await;
        settled(&test, &db, 0..=0, 0..=0);
        assert_eq!(sums(&test).await, "4 500");
    }

    async fn one_insert_of_several_new_rows_each<E: Engine>(test: TestDb) {
        let (db, gate) = (open::<E>(&test).await, Gate::new(&test));
        let make = async |ids: [i64; 2]| {
            db.transaction(async |tx| {
                let tx = tx.guard_creation::<Order>(ids).await?;
                gate.pass().await;
                let (mut tx, there) = tx.lock::<Order>(ids).existing().keys().await?;
                let sql = match there[..] {
                    [] => format!("insert into orders (id, n) values ({}, 1), ({}, 1)", ids[0], ids[1]),
                    _ => format!("update orders set n = n + 1 where id in ({}, {})", ids[0], ids[1]),
                };
                query(sqlx::AssertSqlSafe(sql)).execute(&mut tx).await.map(drop)
            })
            .await
        };
        both(make([500, 400]), make([400, 500])).await;
        settled(&test, &db, 0..=0, 0..=0);
        assert_eq!(sums(&test).await, "4 500");
    }

    async fn no_key_update_then_delete<E: Engine>(test: TestDb) {
        let (db, gate) = (open::<E>(&test).await, Gate::new(&test));
        let sell = db.transaction(async |tx| {
            let mut tx = tx.lock::<Inventory>([30]).key_share().existing().await?;
            gate.pass().await;
            query("update inventories set n = n - 1 where id = 30").execute(&mut tx).await.map(drop)
        });
        let delete = async {
            gate.second().await;
            db.transaction(async |tx| {
                let mut tx = tx.lock::<Inventory>([30]).await?;
                gate.pass().await;
                query("delete from inventories where id = 30").execute(&mut tx).await.map(drop)
            })
            .await
        };
        both(sell, delete).await;
        // PostgreSQL: the delete is the late one. InnoDB: the sale is, since it has the row shared; MySQL lets it have it
        // though the delete waits.
        settled(&test, &db, if test.engine() == rowlock_testing::Engine::MySql { 0..=1 } else { 1..=1 }, 1..=2);
        assert_eq!(sums(&test).await, "0 400");
    }
}

/// One of each of two items.
async fn sell<E: Engine>(tx: &mut Tx<E, Inventory>) -> Result<()> {
    query("update inventories set n = n - 1 where id in (30, 20)").execute(tx).await.map(drop)
}

/// Both at once; neither may fail.
async fn both<T>(a: impl Future<Output = Result<T, Error>>, b: impl Future<Output = Result<T, Error>>) {
    tokio::try_join!(a, b).unwrap_or_else(|error| panic!("{error:?}"));
}

/// Both were committed, by no way but these many restarts (on SQLite none: nobody else is there) and late places.
fn settled<E: Engine>(test: &TestDb, db: &Db<E>, restarts: RangeInclusive<u64>, late: RangeInclusive<u64>) {
    let counts = db.counts();
    eprintln!("{}: {} restarts, {} late", test.engine().name(), counts.restarts, counts.late);
    assert_eq!((counts.deadlocks, counts.committed, counts.rolled_back), (0, 2, 0), "{counts:?}");
    assert_eq!((counts.fallbacks, counts.violations, counts.refusals), (0, 0, 0), "{counts:?}");
    assert_eq!((counts.other_retries, counts.serialization_failures), (0, 0), "{counts:?}");
    let restarts = if test.family() == Family::Sqlite { 0..=0 } else { restarts };
    assert!(restarts.contains(&counts.restarts), "{restarts:?}: {counts:?}");
    assert!(late.contains(&counts.late), "{late:?}: {counts:?}");
}

/// What all orders and all stocks come to.
async fn sums(test: &TestDb) -> String {
    let orders = test.value("select sum(n) from orders").await;
    format!("{orders} {}", test.value("select sum(n) from inventories").await)
}
