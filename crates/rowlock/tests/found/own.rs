//! What is a transaction's own: parents that a statement locks by itself, temporary tables.

use rowlock::{Db, Engine, Error, Guard};
use rowlock_testing::{Family, TestDb, engines};
use sqlx::AssertSqlSafe;

use crate::support::{Shop, tables};

rowlock::lock_order! {
    order Desk {
        Shelf  => "shelves" (id: i64),
        Ticket => "tickets" (id: i64),
        Desk2  => "desks"   (id: i64),
    }
}

async fn run<E: Engine>(db: &Db<E>, guard: Guard, statements: &[&str]) -> Result<(), Error> {
    let kind = db.kind("own").guard(guard);
    kind.transaction(async |mut tx| {
        for sql in statements {
            sqlx::query::<E>(AssertSqlSafe(*sql)).execute(&mut tx).await?;
        }
        Ok(())
    })
    .await
}

engines! {
    /// Whether it is refused does not hang on the key that the new row has, nor on how its parents are locked.
    async fn a_new_row_below_its_own_parents<E: Engine>(test: TestDb) {
        test.execute(
            "create table shelves (id bigint not null primary key);
             create table desks (id bigint not null primary key);
             create table tickets (id bigint not null primary key, parent bigint, shelf bigint, desk bigint,
                 foreign key (parent) references tickets (id), foreign key (shelf) references shelves (id),
                 foreign key (desk) references desks (id));
             insert into shelves values (1); insert into desks values (1);
             insert into tickets values (50, null, null, null)",
        )
        .await;
        let db: Db<E> = Db::builder(Desk).open(test.pool_of::<E>(3).await).await.unwrap();
        for (n, above) in [(10, false), (90, true)] {
            for (at, sql) in [
                format!("insert into tickets (id, parent, shelf, desk) values ({n}, 50, 1, 1)"),
                format!("insert into tickets (id, parent) values ({}, 50)", n + 1),
            ].into_iter().enumerate() {
                run(&db, Guard::Enforce, &[&sql]).await.unwrap_or_else(|error| panic!("{above} {at}: {error}"));
            }
            // Where the author has locked the parent, too.
            db.transaction(async |tx| {
                let mut tx = tx.lock::<Ticket>([50]).await?;
                let sql = format!("insert into tickets (id, parent) values ({}, 50)", n + 2);
                sqlx::query::<E>(AssertSqlSafe(sql)).execute(&mut tx).await?;
                Ok::<_, Error>(())
            }).await.unwrap();
        }
        // Another row that is held is another matter.
        let error = db.transaction(async |tx| {
            let mut tx = tx.lock::<Ticket>([90]).await?;
            sqlx::query::<E>(AssertSqlSafe("insert into tickets (id, parent) values (20, 50)")).execute(&mut tx).await?;
            Ok::<_, Error>(())
        }).await.unwrap_err();
        assert!(matches!(error, Error::OutOfOrder(_)), "{error:?}");
    }

    async fn temporary_tables_pass_and_hide_nothing<E: Engine>(test: TestDb) {
        tables(&test).await;
        let db: Db<E> = Db::builder(Shop).open(test.pool_of::<E>(1).await).await.unwrap();
        let mine = ["create temporary table mine (id bigint, n bigint)", "insert into mine values (1, 1)", "update mine set n = 2 where n = 1", "delete from mine"];
        run(&db, Guard::Enforce, &mine).await.unwrap();
        match test.family() {
            Family::Postgres => run(&db, Guard::Enforce, &["update pg_temp.mine set n = 3"]).await.unwrap(),
            Family::Sqlite => run(&db, Guard::Enforce, &["update temp.mine set n = 3"]).await.unwrap(),
            Family::InnoDb => {}
        }
        for guard in [Guard::Observe, Guard::Warn, Guard::Enforce] {
            let error = run(&db, guard, &["create temporary table if not exists orders (id bigint)"]).await.unwrap_err();
            assert!(matches!(error, Error::Refused(_)) && error.to_string().contains("hide that of `Order`"), "{error:?}");
        }
        // Of a table that is another's, too, it is told.
        test.execute("create table others (id bigint not null primary key, n bigint)").await;
        let error = run(&db, Guard::Enforce, &["update others set n = 1 where id = 1"]).await.unwrap_err();
        assert!(error.to_string().contains("others`, which is not in the order"), "{error}");
    }
}
