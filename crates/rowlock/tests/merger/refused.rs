//! What the database refuses for one row is told to those who asked for that row, and to nobody beside them.

use futures_util::future::join_all;
use rowlock::{Db, Engine, Error, Merger, Outcome};
use rowlock_testing::{Family, TestDb, engines};

use crate::{
    STOCK, start, start_with_ledger,
    support::{Inventory, Shop, open, tables},
};

/// Subtracts from a row that refuses it, between two that do not.
async fn beside_the_refused<E: Engine>(merger: &Merger<E, Inventory>) {
    let answers = join_all([1, 2, 3, 2].map(|key| merger.subtract(key, 600))).await;
    for n in [0, 2] {
        assert!(matches!(answers[n], Ok(Outcome::Applied { value: 400 })), "{answers:?}");
    }
    for n in [1, 3] {
        let Err(error @ Error::Merged { .. }) = &answers[n] else { panic!("{answers:?}") };
        assert!(matches!(error.root(), Error::Database(_)), "{error:?}");
    }
}

engines! {
    async fn a_constraint_concerns_its_row_alone<E: Engine>(test: TestDb) {
        let n = if test.family() == Family::Sqlite { "integer" } else { "bigint" };
        test.execute(&format!("create table orders (id {n} not null primary key, n {n} not null)")).await;
        test.execute(&format!("create table accounts (id {n} not null primary key, n {n} not null)")).await;
        let check = "check (id <> 2 or n >= 900)";
        test.execute(&format!("create table inventories (id {n} not null primary key, n {n} not null, {check})")).await;
        test.execute("insert into inventories values (1, 1000), (2, 1000), (3, 1000)").await;
        let db: Db<E> = Db::builder(Shop).open(test.pool_of::<E>(2).await).await.unwrap();
        db.install().await.unwrap();
        beside_the_refused(&start(&db).await).await;
        test.execute("update inventories set n = 1000").await;
        beside_the_refused(&start_with_ledger(&test, &db).await).await;
        assert_eq!(test.value("select count(*) from stock_ledger").await, "2");
        test.execute("update inventories set n = 1000").await;
        let token = db.kind("merged").commit_token(true).merger(STOCK).start().await.unwrap();
        beside_the_refused(&token).await;
        assert_eq!(test.value("select n from inventories where id = 2").await, "1000");
    }
}

engines! { postgres:
    /// A trigger that says no without an error leaves the row as it was: nobody is told that it was charged.
    async fn a_trigger_that_skips_the_change_is_told<E: Engine>(test: TestDb) {
        tables(&test).await;
        test.execute("create function skip() returns trigger language plpgsql as 'begin return null; end'").await;
        test.execute("create trigger skip before update on inventories for each row when (old.id = 2) \
                      execute function skip()").await;
        let db: Db<E> = Db::builder(Shop).undeclared(rowlock::Policy::Allow).open(test.pool_of::<E>(2).await).await.unwrap();
        let merger = start(&db).await;
        let answers = join_all([1, 2].map(|key| merger.subtract(key, 1))).await;
        assert!(matches!(answers[0], Ok(Outcome::Applied { value: 999 })), "{answers:?}");
        let error = answers[1].as_ref().unwrap_err();
        assert!(matches!(error.root(), Error::Counter { .. }), "{error:?}");
        assert_eq!(test.value("select n from inventories where id = 2").await, "1000");
        let alone = db.kind("alone").update(STOCK.subtract([(2, 1)])).await.unwrap_err();
        assert!(matches!(alone, Error::Counter { .. }), "{alone:?}");
    }
}

engines! { innodb:
    /// The value is told by the session's last insert id, which a trigger's own inserts are not to change.
    async fn an_audit_table_does_not_change_what_is_told<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        test.execute("create table audit (id bigint auto_increment primary key, n bigint)").await;
        test.execute("insert into audit (n) values (0), (0), (0)").await;
        test.execute("create trigger audited after update on inventories for each row insert into audit (n) values (new.n)").await;
        let merger = start(&db).await;
        assert_eq!(merger.subtract(1, 3).await.unwrap(), Outcome::Applied { value: 997 });
        assert_eq!(merger.subtract(1, 998).await.unwrap(), Outcome::Insufficient { found: 997 });
        let one = async |by| db.kind("one").update(STOCK.subtract([(1, by)])).await.unwrap()[0];
        assert_eq!(one(997).await, Outcome::Applied { value: 0 });
        assert_eq!(one(1).await, Outcome::Insufficient { found: 0 });
        assert_eq!(one(0).await, Outcome::Applied { value: 0 });
        assert_eq!(merger.subtract(1, 0).await.unwrap(), Outcome::Applied { value: 0 });
    }
}
