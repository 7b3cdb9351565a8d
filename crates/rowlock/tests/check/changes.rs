//! A change of schema is noticed by its fingerprint, and what is no change is not.

use rowlock::Catalog;
use rowlock_testing::{Family, TestDb};

use super::read;

async fn fingerprint(db: &TestDb) -> u64 {
    read(db, &[]).await.fingerprint
}

rowlock_testing::engines! {
    async fn each_change_of_schema_is_noticed(db: TestDb) {
        db.execute("create table orders (id bigint not null primary key, n int, customer int not null)").await;
        db.execute("create table customers (id int not null primary key)").await;
        let trigger = match db.family() {
            Family::Postgres => {
                "create function f() returns trigger language plpgsql as 'begin return new; end';
                 create trigger t after update on orders for each row execute function f()"
            }
            Family::InnoDb => "create trigger t before update on orders for each row set new.n = 1",
            Family::Sqlite => "create trigger t after update on orders begin select 1; end",
        };
        let sqlite = db.family() == Family::Sqlite;
        let drop_index = if db.family() == Family::InnoDb { "drop index by_n on orders" } else { "drop index by_n" };
        let changes = [
            "create unique index by_n on orders (n)",
            drop_index,
            "alter table orders add column note varchar(10)",
            // SQLite's ALTER TABLE adds no constraint to a table that is there.
            if sqlite {
                "create table payments (id int, foreign key (id) references orders (id))"
            } else {
                "alter table orders add constraint fk foreign key (customer) references customers (id)"
            },
            trigger,
            if db.family() == Family::Postgres { "drop trigger t on orders" } else { "drop trigger t" },
            if sqlite { "select 1" } else { "alter table orders drop constraint fk" },
            if sqlite {
                "alter table orders drop column note"
            } else {
                "alter table orders add constraint fk foreign key (customer) references customers (id) on delete cascade"
            },
            "drop table if exists payments; create table payments (id int)",
            "drop table payments",
        ];
        let mut before = fingerprint(&db).await;
        for change in changes {
            db.execute(change).await;
            let after = fingerprint(&db).await;
            assert!(after != before || change == "select 1", "not noticed: {change}");
            before = after;
        }
    }

    async fn what_is_no_change_is_not_noticed(db: TestDb) {
        db.execute("create table orders (id bigint not null primary key, n int)").await;
        let before = fingerprint(&db).await;
        let mut session = db.connect().await;
        session.run("create temporary table mine (id int)").await.unwrap();
        session.run("insert into orders values (1, 1), (2, 2)").await.unwrap();
        session.run("delete from orders where id = 1").await.unwrap();
        session
            .run(match db.family() {
                Family::Postgres => "vacuum analyze orders",
                Family::InnoDb => "analyze table orders",
                Family::Sqlite => "pragma wal_checkpoint",
            })
            .await
            .unwrap();
        let same: Catalog = read(&db, &[]).await;
        assert_eq!(same.fingerprint, before);
        assert_eq!(same.schema.tables().count(), 1);
    }
}

rowlock_testing::engines! { postgres:
    async fn rights_and_policies_are_noticed(db: TestDb) {
        db.execute("create table orders (id bigint primary key); create domain code as text").await;
        let mut before = fingerprint(&db).await;
        for change in [
            "alter table orders enable row level security",
            "create policy p on orders using (id > 0)",
            "alter domain code set not null",
            "alter table orders alter column id set default 7",
            "create rule r as on update to orders do also select 1",
            "create table parts (id int) partition by range (id)",
            "create table part partition of parts for values from (1) to (9)",
            "alter table parts detach partition part",
        ] {
            db.execute(change).await;
            let after = fingerprint(&db).await;
            assert_ne!(after, before, "not noticed: {change}");
            before = after;
        }
    }
}
