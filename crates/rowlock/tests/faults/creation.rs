//! Creation guards: of one table by whatever name, and of two tables whatever their names.

use rowlock::{Db, Engine, Error};
use rowlock_testing::{TestDb, engines, server::Servers};
use sqlx::pool::PoolOptions;

rowlock::lock_order! { order Bare { Order => "orders" (id: i64) } }

mod full {
    rowlock::lock_order! { pub(super) order Full { Order => "public.orders" (id: i64) } }
}

mod database {
    rowlock::lock_order! { pub(super) order Full { Order => "shop.orders" (id: i64) } }
}

// Their names have the same hash of 32 bits (FNV-1a).
rowlock::lock_order! {
    order Meeting {
        Note => "notes_23033" (id: i64),
        Bill => "bills_20510" (id: i64),
    }
}

async fn open<E: Engine>(url: &str, order: impl rowlock::LockOrder) -> Db<E> {
    let pool = PoolOptions::<E>::new().max_connections(2).connect(url).await;
    let pool = pool.unwrap_or_else(|error| panic!("{error}"));
    let db = Db::builder(order).open(pool).await.unwrap_or_else(|error| panic!("{error}"));
    db.install().await.unwrap();
    db
}

/// Whether the guard of key 500 that `holder` has is busy for `other`.
async fn meets<E, A, B>(holder: &Db<E>, other: &Db<E>) -> bool
where
    E: Engine,
    A: rowlock::Resource<Key = i64>,
    B: rowlock::Resource<Key = i64>,
    rowlock::Start: rowlock::Before<A> + rowlock::Before<B>,
{
    let met = holder.transaction(async |tx| {
        let _guard = tx.guard_creation::<A>([500]).await?;
        let other = other.transaction(async |tx| tx.guard_creation::<B>([500]).nowait().await.map(drop)).await;
        Ok::<_, Error>(match other {
            Ok(()) => false,
            Err(Error::Busy { .. }) => true,
            Err(error) => panic!("{error:?}"),
        })
    });
    met.await.unwrap()
}

engines! { postgres:
    async fn a_table_has_one_guard_by_all_its_names<E: Engine>(test: TestDb) {
        test.execute("create table orders (id bigint primary key)").await;
        let (bare, full) = (open::<E>(test.url(), Bare).await, open::<E>(test.url(), full::Full).await);
        assert!(meets::<E, Order, full::Order>(&bare, &full).await);
        assert!(meets::<E, full::Order, Order>(&full, &bare).await);
    }
}

engines! { innodb:
    /// On a server of its own, since an order declares its database by a fixed name. One program is connected to another
    /// database; and the tables come from the text for migrations.
    async fn a_table_has_one_guard_by_all_its_names_and_from_all_databases<E: Engine>(test: TestDb) {
        let servers = Servers::private().unwrap();
        let url = servers.start(test.engine()).await.unwrap().url;
        let mut connection = rowlock_testing::Connection::open(test.engine(), &url).await.unwrap();
        connection.run("create database shop").await.unwrap();
        connection.run("create database elsewhere").await.unwrap();
        connection.run("create table shop.orders (id bigint primary key)").await.unwrap();
        connection.run("use shop").await.unwrap();
        let dialect = test.engine().dialect();
        for sql in [rowlock::install_sql::<Bare>(dialect), rowlock::install_sql::<database::Full>(dialect)] {
            for sql in sql.split(";\n").filter(|sql| !sql.is_empty()) {
                connection.run(sql).await.unwrap();
            }
        }
        connection.close().await.unwrap();
        let at = |database: &str| format!("{}/{database}", url.rsplit_once('/').unwrap().0);
        let bare = open::<E>(&at("shop"), Bare).await;
        for from in ["shop", "elsewhere"] {
            let full = open::<E>(&at(from), database::Full).await;
            assert!(meets::<E, Order, database::Order>(&bare, &full).await, "{from}");
            assert!(meets::<E, database::Order, Order>(&full, &bare).await, "{from}");
        }
    }
}

engines! { servers:
    async fn two_tables_whose_hashes_meet_have_guards_of_their_own<E: Engine>(test: TestDb) {
        test.execute("create table notes_23033 (id bigint primary key); create table bills_20510 (id bigint primary key)").await;
        let db = open::<E>(test.url(), Meeting).await;
        assert!(!meets::<E, Note, Bill>(&db, &db).await);
        assert!(meets::<E, Note, Note>(&db, &db).await);
    }
}
