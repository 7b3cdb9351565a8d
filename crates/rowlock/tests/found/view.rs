//! Updatable views over tables of the order: what lies beneath them is locked, and the text does not say which rows.

use rowlock::{Db, Engine, Error, Guard};
use rowlock_testing::{Family, TestDb, engines};

use crate::support::{Order, Shop, tables};

async fn send<E: Engine>(db: &Db<E>, guard: Guard, sql: &'static str) -> Result<(), Error> {
    let kind = db.kind("view").guard(guard);
    kind.transaction(async |mut tx| sqlx::query(sql).execute(&mut tx).await.map(drop).map_err(Error::from)).await
}

engines! { servers:
    async fn what_is_written_through_a_view_is_refused<E: Engine>(test: TestDb) {
        tables(&test).await;
        test.execute("create table notes (id bigint not null primary key, n bigint); insert into notes values (1, 1)").await;
        test.execute("create view open_orders as select id, n from orders where n > 0").await;
        test.execute("create view big_orders as select id, n from open_orders where n > 10").await;
        test.execute("create view some_notes as select id, n from notes").await;
        let db: Db<E> = Db::builder(Shop).open(test.pool_of::<E>(2).await).await.unwrap();
        let mut statements = vec![
            "update open_orders set n = n + 1 where id = 10",
            "update big_orders set n = n + 1 where id = 10",
            "delete from big_orders where id = 10",
            "insert into open_orders (id, n) values (500, 1)",
        ];
        // InnoDB locks what lies beneath a view in a locking read, too.
        statements.push("select n from open_orders where id = 10 for update");
        for sql in statements {
            let error = send(&db, Guard::Enforce, sql).await.unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, Error::Refused(_)) && text.contains("`Order` through the view"), "{sql}: {text}");
            assert!(text.contains("orders` in place of the view"), "no way out: {text}");
        }
        let error = send(&db, Guard::Enforce, "update some_notes set n = 2 where id = 1").await.unwrap_err();
        assert!(error.to_string().contains("notes (through the view"), "{error}");
        // To read through one locks nothing.
        send(&db, Guard::Enforce, "select n from big_orders where id = 10").await.unwrap();
        send(&db, Guard::Warn, "update big_orders set n = 77 where id = 10").await.unwrap();
        assert_eq!(test.value("select n from orders where id = 10").await, "77");

        // Changed, a view is read again.
        let other = match test.family() {
            Family::Postgres => "create or replace view open_orders as select id, n from accounts where n > 0",
            _ => "create or replace view open_orders as select id, n from accounts",
        };
        test.execute(other).await;
        db.refresh().await.unwrap();
        let error = send(&db, Guard::Enforce, "update open_orders set n = n + 1 where id = 10").await.unwrap_err();
        assert!(error.to_string().contains("`Account` through the view"), "{error}");
        db.transaction(async |tx| tx.lock::<Order>([10]).await.map(drop)).await.unwrap();
    }
}
