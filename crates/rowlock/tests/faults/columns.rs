//! Columns come and go while statements that were prepared before are run: no row that is there is missing, and nothing
//! fails for good.

use std::time::Duration;

use rowlock::{Counter, Db, Edit, Engine, Error, Outcome, Saved, Versioned};
use rowlock_testing::{Family, TestDb, engines};

use crate::support::{Inventory, Order, Row, tables};
use crate::{n, open_at, open_single};

const N: Counter<Order> = Counter::new("n");
const STOCK: Counter<Inventory> = Counter::new("n");
const STAR: &str = "select * from orders where id = 10";
/// No statement waits so long: what waits for the change of the table is not to be busy.
const LONG: Duration = Duration::from_secs(60);

/// `n` serves as the version.
impl Versioned for Row {
    type Resource = Order;
    const VERSION: &'static str = "n";
    fn key(&self) -> i64 {
        self.id
    }
    fn version(&self) -> i64 {
        self.n
    }
}

/// The ways to ask for row 10 of the orders. Each must find it.
const WAYS: [&str; 9] =
    ["lock", "lock at once", "lock where", "claim", "optional", "all", "query", "read", "update of several"];

/// Whether the row was found.
async fn found<E: Engine>(db: &Db<E>, way: &str) -> Result<bool, Error> {
    let kind = db.kind("look").wait(LONG);
    if way == "read" {
        // From a version that it never had: what it has is read, outside any transaction.
        let saved = kind.save(Edit::<E, Row>::at(10, -1).set("code", 7i64)).await?;
        return Ok(matches!(saved, Saved::Conflict { .. }));
    }
    kind.transaction(async |mut tx| {
        Ok(match way {
            "lock" => tx.lock::<Order>([10]).existing().fetch_all::<(i64, i64)>().await?.1.len() == 1,
            "lock at once" => tx.lock::<Order>([10]).nowait().existing().fetch_all::<Row>().await?.1.len() == 1,
            "lock where" => tx.lock_where::<Order>("id = 10").fetch_all::<Row>().await?.1.len() == 1,
            "claim" => tx.lock_where::<Order>("id = 10").skip_locked().fetch_all::<Row>().await?.1.len() == 1,
            "optional" => {
                let row: Option<Row> = sqlx::query_as(STAR).fetch_optional(&mut tx).await?;
                row.is_some()
            }
            "all" => {
                let rows: Vec<Row> = sqlx::query_as(STAR).fetch_all(&mut tx).await?;
                rows.len() == 1
            }
            "query" => rowlock::query("select * from orders where id = 10").fetch_all::<Row>(&mut tx).await?.len() == 1,
            _ => tx.update(N.add([(10, 0), (11, 0)])).await?.1.all_applied(),
        })
    })
    .await
}

engines! {
    async fn a_row_is_found_after_a_new_column<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        for (number, way) in WAYS.into_iter().enumerate() {
            for change in [format!("add column c{number} int"), format!("drop column c{number}")] {
                // Prepared on the one connection that there is.
                for _ in 0..2 {
                    assert!(found(&db, way).await.unwrap(), "{way}: before any change");
                }
                test.execute(&format!("alter table orders {change}")).await;
                for _ in 0..2 {
                    assert!(found(&db, way).await.unwrap_or_else(|e| panic!("{way}, {change}: {e:?}")), "{way}, {change}");
                }
            }
        }
    }
}

/// The columns of a row, by name.
struct Names(Vec<String>);

impl<'r, R: sqlx::Row> sqlx::FromRow<'r, R> for Names {
    fn from_row(row: &'r R) -> Result<Self, sqlx::Error> {
        Ok(Names(row.columns().iter().map(|column| sqlx::Column::name(column).to_owned()).collect()))
    }
}

engines! {
    /// What `*` gives, and in its order.
    async fn a_row_has_the_columns_of_a_star<E: Engine>(test: TestDb) {
        tables(&test).await;
        test.execute(match test.family() {
            Family::Postgres => {
                "alter table orders add column gone int, add column twice bigint generated always as (n * 2) stored,
                 add column \"Last One\" int; alter table orders drop column gone"
            }
            Family::InnoDb => {
                "alter table orders add column gone int, add column twice bigint generated always as (n * 2) virtual,
                 add column secret int default 7 invisible, add column `Last One` int; alter table orders drop column gone"
            }
            Family::Sqlite => {
                "alter table orders add column gone int;
                 alter table orders add column twice bigint generated always as (n * 2) virtual;
                 alter table orders add column \"Last One\" int; alter table orders drop column gone"
            }
        }).await;
        let db: Db<E> = open_at(test.url(), 1, |builder| builder).await;
        db.transaction(async |tx| {
            let (tx, locked) = tx.lock::<Order>([10, 11]).fetch_all::<Names>().await?;
            let (tx, met) = tx.lock_where::<Order>("id = 10").fetch_all::<Names>().await?;
            let (mut tx, claimed) = tx.lock_where::<Order>("id = 10").skip_locked().fetch_all::<Names>().await?;
            let star: Names = sqlx::query_as(STAR).fetch_one(&mut tx).await?;
            assert_eq!(star.0, ["id", "n", "code", "twice", "Last One"]);
            for row in [locked, met, claimed].into_iter().flatten() {
                assert_eq!(row.0, star.0);
            }
            Ok::<_, Error>(())
        }).await.unwrap();
    }

    /// A key that is not there any more is an error, and no row is missing for it.
    async fn a_key_that_was_renamed_is_an_error<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        test.execute("alter table orders rename column id to number").await;
        for way in WAYS {
            let error = found(&db, way).await.expect_err(way);
            assert!(matches!(error, Error::Database(sqlx::Error::Database(_))), "{way}: {error:?}");
        }
        let error = db.kind("one").update(N.add([(10, 1)])).await.unwrap_err();
        assert!(matches!(error, Error::Database(sqlx::Error::Database(_))), "{error:?}");
    }
}

engines! { innodb:
    /// A key that `*` leaves out is read all the same.
    async fn a_key_may_be_invisible<E: Engine>(test: TestDb) {
        tables(&test).await;
        test.execute("alter table orders modify id bigint not null default 0 invisible").await;
        let db: Db<E> = open_at(test.url(), 1, |builder| builder).await;
        let (_, rows) = db
            .transaction(async |tx| {
                let (tx, rows) = tx.lock::<Order>([11, 10]).fetch_all::<Row>().await?;
                Ok::<_, Error>((tx.held().len(), rows))
            })
            .await
            .unwrap();
        assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [10, 11]);
    }
}

engines! { pg15, pg18, sqlite:
    /// A text without a statement gives nothing, and that is its answer. (MySQL and MariaDB call it an error.)
    async fn no_statement_is_an_answer<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        db.transaction(async |mut tx| {
            sqlx::query("-- nothing to do").execute(&mut tx).await?;
            sqlx::query("").execute(&mut tx).await?;
            let none: Option<(i64,)> = sqlx::query_as("select n from orders where id = 999").fetch_optional(&mut tx).await?;
            assert_eq!(none, None);
            Ok::<_, Error>(())
        }).await.unwrap();
        assert_eq!(db.counts().other_retries, 0);
    }
}

engines! { sqlite:
    /// A connection whose driver died is not used again: each is met once, and that is no failed attempt.
    async fn each_dead_driver_is_met_once<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = open_at(test.url(), 4, |builder| builder.wait(LONG).attempts(1)).await;
        let look = async || {
            db.kind("look").read_only().transaction(async |mut tx| {
                let row: Option<Row> = sqlx::query_as(STAR).fetch_optional(&mut tx).await?;
                Ok::<_, Error>(row.map(|row| row.n))
            }).await
        };
        // All four at once, so that each connection has it prepared.
        let together = tokio::sync::Barrier::new(4);
        let prepare = async || {
            let kind = db.kind("prepare").read_only();
            kind.transaction(async |mut tx| {
                let row: Row = sqlx::query_as(STAR).fetch_one(&mut tx).await?;
                together.wait().await;
                Ok::<_, Error>(row)
            }).await
        };
        let (a, b, c, d) = tokio::join!(prepare(), prepare(), prepare(), prepare());
        for row in [a, b, c, d] {
            assert_eq!(row.unwrap().n, 1000);
        }
        test.execute("alter table orders add column note text").await;
        for _ in 0..4 {
            assert_eq!(look().await.unwrap(), Some(1000));
        }
        assert!((1..=4).contains(&db.counts().other_retries), "{:?}", db.counts());
    }
}

/// What one task does, so often.
const TURNS: i64 = 40;
const TASKS: i64 = 6;
/// How often a column is added and dropped meanwhile.
const CHANGES: usize = 12;

engines! {
    async fn columns_come_and_go_under_load<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = open_at(test.url(), 8, |builder| builder.wait(LONG).deadline(LONG * 2)).await;
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..TASKS {
            let db = db.clone();
            tasks.spawn(async move {
                for turn in 0..TURNS {
                    let way = WAYS[usize::try_from(task + turn).unwrap() % WAYS.len()];
                    // Another may hold it just then: it is there all the same.
                    match found(&db, way).await {
                        Ok(there) => assert!(there || way == "claim", "{way}"),
                        Err(Error::Busy { .. }) if way == "lock at once" => {}
                        Err(error) => panic!("{way}: {error:?}"),
                    }
                    work(&db, 50 + task).await.unwrap_or_else(|error| panic!("turn {turn}: {error:?}"));
                }
            });
        }
        let changes = {
            let (db, test) = (db.clone(), test.clone());
            tokio::spawn(async move {
                for change in 0..CHANGES {
                    for table in ["orders", "inventories"] {
                        test.execute(&format!("alter table {table} add column c{change} int")).await;
                        // Now the new column is among those that are read.
                        db.refresh().await.unwrap();
                        test.execute(&format!("alter table {table} drop column c{change}")).await;
                    }
                }
            })
        };
        while let Some(task) = tasks.join_next().await {
            task.unwrap();
        }
        changes.await.unwrap();
        for task in 0..TASKS {
            assert_eq!(n(&test, "orders", 50 + task).await, 1000 + TURNS);
        }
        assert_eq!(n(&test, "inventories", 20).await, 1000 - TASKS * TURNS);
    }
}

/// One more in an order, one less in the inventory, decided under a lock.
async fn work<E: Engine>(db: &Db<E>, order: i64) -> Result<(), Error> {
    db.kind("work")
        .transaction(async |tx| {
            let (mut tx, row) = tx.lock::<Order>([order]).fetch_one::<Row>().await?;
            let again: Row = sqlx::query_as("select id, n from orders where id = 50").fetch_one(&mut tx).await?;
            assert!(again.id == 50 && row.id == order);
            let (tx, taken) = tx.update(N.add([(order, 1)])).await?;
            assert!(taken.all_applied());
            assert_eq!(taken[0], Outcome::Applied { value: row.n + 1 });
            let (_tx, taken) = tx.update(STOCK.subtract([(20, 1)])).await?;
            assert!(taken.all_applied());
            Ok(())
        })
        .await
}
