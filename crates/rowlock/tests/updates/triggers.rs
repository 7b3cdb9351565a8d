//! Triggers and types of the database's own beside a conditional update and a save.

use rowlock::{Counter, Db, Edit, Engine, Error, Outcome::*, Policy, Saved, Versioned};
use rowlock_testing::{Engine as Server, Family, TestDb, engines};

use crate::{
    STOCK,
    support::{Account, Inventory, Shop, open, tables},
};

#[derive(Clone, Debug, sqlx::FromRow)]
struct Balance {
    id: i64,
    version: i64,
}

impl Versioned for Balance {
    type Resource = Account;
    fn key(&self) -> i64 {
        self.id
    }
    fn version(&self) -> i64 {
        self.version
    }
}

/// Keeps row 2 of `table` as it is, without an error.
async fn skip(test: &TestDb, table: &str) {
    let trigger = match test.family() {
        Family::Sqlite => format!(
            "create trigger skip_{table} before update on {table} when old.id = 2 begin select raise(ignore); end"
        ),
        _ => format!(
            "create trigger skip_{table} before update on {table} for each row when (old.id = 2) execute function skip()"
        ),
    };
    test.execute(&trigger).await;
}

engines! { pg15, pg18, sqlite:
    async fn a_trigger_that_skips_the_change_is_told<E: Engine>(test: TestDb) {
        tables(&test).await;
        test.execute("alter table accounts add version bigint not null default 0").await;
        if test.family() == Family::Postgres {
            test.execute("create function skip() returns trigger language plpgsql as 'begin return null; end'").await;
        }
        skip(&test, "inventories").await;
        skip(&test, "accounts").await;
        let pool = test.pool_of::<E>(2).await;
        let db: Db<E> = Db::builder(Shop).undeclared(Policy::Allow).open(pool).await.unwrap();
        let kind = db.kind("skipped");
        for change in [STOCK.subtract([(2, 1)]), STOCK.subtract([(1, 1), (2, 1)]), STOCK.add([(2, 1)]).nowait()] {
            let error = kind.update(change).await.unwrap_err();
            assert!(matches!(error, Error::Counter { .. }), "{error:?}");
        }
        assert_eq!(test.value("select n from inventories where id = 1").await, "1000");
        assert_eq!(kind.update(STOCK.subtract([(2, 1001)])).await.unwrap()[0], Insufficient { found: 1000 });

        // The row is there, with the version that was expected: it is not missing, and no conflict.
        let edit = |id| Edit::<E, Balance>::at(id, 0).set("n", 7i64);
        let error = kind.save(edit(2)).await.unwrap_err();
        assert!(matches!(error, Error::Edit { .. }), "{error:?}");
        let error = kind.save_each([edit(1), edit(2)]).await.unwrap_err();
        assert!(matches!(error, Error::Edit { .. }), "{error:?}");
        let error = kind.transaction(async |tx| tx.save(edit(2)).await.map(drop)).await.unwrap_err();
        assert!(matches!(error, Error::Edit { .. }), "{error:?}");
        assert!(matches!(kind.save(edit(1)).await.unwrap(), Saved::Done { version: 1 }));
        assert!(matches!(kind.save(edit(999)).await.unwrap(), Saved::Missing));
    }
}

engines! {
    /// An audit table, which has keys of its own that the database makes.
    async fn an_audit_table_does_not_change_what_is_told<E: Engine>(test: TestDb) {
        let db: Db<E> = open(&test).await;
        let (id, action) = match test.engine() {
            Server::MariaDb | Server::MySql => ("bigint auto_increment primary key", "insert into audit (n) values (new.n)"),
            Server::Sqlite => ("integer primary key autoincrement", "begin insert into audit (n) values (new.n); end"),
            _ => ("bigserial primary key", "execute function audit()"),
        };
        test.execute(&format!("create table audit (id {id}, n bigint)")).await;
        if test.family() == Family::Postgres {
            let body = "begin insert into audit (n) values (new.n); return null; end";
            test.execute(&format!("create function audit() returns trigger language plpgsql as '{body}'")).await;
        }
        test.execute("insert into audit (n) values (0), (0), (0)").await;
        test.execute(&format!("create trigger audited after update on inventories for each row {action}")).await;
        let one = async |by| db.kind("one").update(STOCK.subtract([(1, by)])).await.unwrap()[0];
        assert_eq!(one(3).await, Applied { value: 997 });
        assert_eq!(one(998).await, Insufficient { found: 997 });
        assert_eq!(one(997).await, Applied { value: 0 });
        assert_eq!(one(1).await, Insufficient { found: 0 });
        let below = db.kind("one").update(STOCK.subtract([(1, 5)]).at_least(-5)).await.unwrap();
        assert_eq!(below[0], Applied { value: -5 });
        let outcomes = db.transaction(async |tx| {
            let (tx, one) = tx.update(STOCK.add([(1, 6)])).await?;
            let (_, two) = tx.update(STOCK.subtract([(1, 1), (2, 1), (3, 1001)])).await?;
            Ok::<_, Error>([one[0], two[0], two[1], two[2]])
        });
        assert_eq!(
            outcomes.await.unwrap(),
            [Applied { value: 1 }, Applied { value: 0 }, Applied { value: 999 }, Insufficient { found: 1000 }]
        );
    }

    /// Names in which case, blanks and quotes count.
    async fn names_are_quoted<E: Engine>(test: TestDb) {
        tables(&test).await;
        let name = if test.family() == Family::InnoDb { "`On \"Hand\"`" } else { "\"On \"\"Hand\"\"\"" };
        test.execute(&format!("alter table inventories add {name} bigint not null default 5")).await;
        let db: Db<E> = Db::builder(Shop).open(test.pool_of::<E>(2).await).await.unwrap();
        let on_hand = Counter::<Inventory>::new("On \"Hand\"");
        let kind = db.kind("named");
        assert_eq!(kind.update(on_hand.subtract([(1, 2)])).await.unwrap()[0], Applied { value: 3 });
        let many = kind.update(on_hand.compare_and_set([(1, 3, 9), (2, 5, 8), (3, 4, 1)])).await.unwrap();
        assert_eq!([many[0], many[1], many[2]], [Applied { value: 9 }, Applied { value: 8 }, Insufficient { found: 5 }]);
        let merger = kind.merger(on_hand).start().await.unwrap();
        assert_eq!(merger.subtract(1, 2).await.unwrap(), Applied { value: 7 });
    }
}

engines! { postgres:
    /// A column of a domain is either counted with, or refused before anything is changed.
    async fn a_domain_is_no_surprise<E: Engine>(test: TestDb) {
        tables(&test).await;
        test.execute("create domain quantity as integer check (value >= 0)").await;
        test.execute("alter table inventories add held quantity not null default 5").await;
        let db: Db<E> = Db::builder(Shop).open(test.pool_of::<E>(2).await).await.unwrap();
        let held = Counter::<Inventory>::new("held");
        for change in [held.subtract([(1, 1)]), held.subtract([(1, 1), (2, 1)]), held.subtract([(1, 1), (1, 9)])] {
            match db.kind("domain").update(change).await {
                Ok(outcomes) => assert!(outcomes[0].is_applied()),
                Err(error) => assert!(matches!(error, Error::Counter { .. }), "{error:?}"),
            }
        }
    }
}
