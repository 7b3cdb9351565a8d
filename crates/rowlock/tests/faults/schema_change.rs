//! The schema changed under a running service.

use std::time::Duration;

use rowlock::{Builder, Db, Engine, Error};
use rowlock_testing::{Family, TestDb, engines};
use tracing::Level;

use crate::support::{Account, Order, Row, tables};
use crate::{log::Log, n, open_at, open_single, server::until};

fn watched<E: Engine>(builder: Builder<E>) -> Builder<E> {
    builder.watch_schema(Some(Duration::from_millis(20)))
}

engines! {
    /// What a server has planned for `SELECT t.*` no longer fits once there is another column.
    async fn a_new_column_disturbs_nobody<E: Engine>(test: TestDb) {
        let db: Db<E> = open_single(&test).await;
        let look = async || {
            db.kind("look").transaction(async |tx| {
                let (mut tx, row) = tx.lock::<Order>([10]).fetch_one::<Row>().await?;
                let again: Row = sqlx::query_as("select * from orders where id = 10").fetch_one(&mut tx).await?;
                assert_eq!(row, again);
                sqlx::query("update orders set n = n + 1 where id = 10").execute(&mut tx).await?;
                Ok::<_, Error>(())
            }).await
        };
        for (round, column) in ["a", "b"].into_iter().enumerate() {
            for _ in 0..3 {
                look().await.unwrap();
            }
            test.execute(&format!("alter table orders add column {column} int")).await;
            for _ in 0..3 {
                look().await.unwrap_or_else(|error| panic!("after the {round}th change: {error:?}"));
            }
        }
        assert_eq!(n(&test, "orders", 10).await, 1012);
    }

    /// An order that no longer fits is told by the watcher and by `refresh`; transactions go on.
    async fn an_order_that_no_longer_fits_is_told<E: Engine>(test: TestDb) {
        tables(&test).await;
        let theirs = test.clone();
        // One thread for all tasks, so that the watcher's log is this test's.
        let work = tokio::task::spawn_blocking(move || {
            let test = theirs;
            let log = Log::start(Level::WARN);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let db: Db<E> = open_at(test.url(), 2, watched).await;
                log.text();
                test.execute(match test.family() {
                    Family::Postgres => "alter table orders drop constraint orders_pkey",
                    Family::InnoDb => "alter table orders drop primary key",
                    Family::Sqlite => {
                        "create table other (id bigint not null, n bigint not null, code bigint); insert into other select * from orders;
                         drop table orders; alter table other rename to orders"
                    }
                }).await;
                let mut told = String::new();
                until("the watcher tells", async || {
                    told.push_str(&log.text());
                    told.contains("Order") && told.contains("unique")
                }).await;
                assert!(told.contains("the schema has changed"), "{told}");
                let error = db.refresh().await.unwrap_err();
                assert!(matches!(error, Error::Check(_)), "{error:?}");
                let result = db.transaction(async |tx| tx.lock::<Order>([10]).await.map(drop)).await;
                match (test.family(), result) {
                    // The index by which InnoDB is made to lock in order is gone: refused, rather than locked in any order.
                    (Family::InnoDb, Err(Error::Database(error))) => assert!(error.to_string().contains("PRIMARY"), "{error}"),
                    (Family::InnoDb, other) => panic!("{other:?}"),
                    (_, other) => other.unwrap(),
                }
                // It fits again.
                test.execute(if test.family() == Family::Sqlite {
                    "create unique index by_id on orders (id)"
                } else {
                    "alter table orders add primary key (id)"
                }).await;
                db.refresh().await.unwrap();
            });
        });
        work.await.unwrap();
    }
}

engines! { servers:
    /// A foreign key that was added: a child's row from now on locks its parent, and the guard knows.
    async fn a_new_foreign_key_is_noticed<E: Engine>(test: TestDb) {
        tables(&test).await;
        test.execute("alter table accounts add column parent bigint").await;
        let db: Db<E> = open_at(test.url(), 2, watched).await;
        let held = async || {
            let result = db.transaction(async |mut tx| {
                sqlx::query("insert into accounts (id, n, parent) values (500, 1, 10)").execute(&mut tx).await.map_err(Error::from)?;
                let held = tx.held().places().any(|(place, _)| place.rank == 0);
                Err::<(), Error>(Error::Missing {
                    kind: db.kind("none").name().clone(),
                    resource: if held { "parent" } else { "none" },
                    keys: Vec::new(),
                })
            }).await;
            match result {
                Err(Error::Missing { resource, .. }) => resource == "parent",
                other => panic!("{other:?}"),
            }
        };
        assert!(!held().await);
        test.execute("alter table accounts add constraint fk foreign key (parent) references orders (id)").await;
        let noticed = until("the guard knows the parent", async || held().await).await;
        println!("{}: a new foreign key was known after {noticed:?}, looking every 20 ms", test.engine());
    }

    /// Without the watcher, a statement that fails as if the schema had changed has it looked at.
    async fn a_failure_has_the_schema_looked_at<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = open_at(test.url(), 2, |builder| builder.watch_schema(Some(Duration::from_secs(3600)))).await;
        test.execute("create table notes (id int primary key, order_id bigint not null, foreign key (order_id) references orders (id))").await;
        let parent = async || {
            db.transaction(async |tx| {
                let mut tx = tx.lock::<Account>([3]).await?;
                sqlx::query("insert into notes (id, order_id) values (1, 10)").execute(&mut tx).await?;
                Ok::<_, Error>(())
            }).await
        };
        // A column that is not there.
        let error = db.transaction(async |mut tx| {
            sqlx::query("update orders set gone = 1 where id = 10").execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await.unwrap_err();
        assert!(matches!(error, Error::Database(_)), "{error:?}");
        // What is known now: the new table's parent lies below what is held.
        until("the new table is known", async || {
            let before = db.counts().late;
            parent().await.unwrap();
            test.execute("delete from notes").await;
            db.counts().late > before
        }).await;
    }
}
