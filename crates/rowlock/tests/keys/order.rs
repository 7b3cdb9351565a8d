//! Rows come, and are locked, in the order of their keys.

use rowlock::{Db, Engine, Error, Key, Resource, lock_order};
use rowlock_testing::{TestDb, engines};

use crate::ground::{
    ByBytes, ByFour, ByMixed, ByNewtype, ByPair, ByText, ByTextC, ByTextIcu, ByUuid, Number, ROWS, bytes, condition,
    fill, four, mixed, no_fault_was_traced, open, pair, text, uuid,
};

lock_order! { order Unsigned { ByUnsigned => "by_unsigned" (id: u64) } }
lock_order! { order InApp { Thing => "app.things" (id: i64) } }
lock_order! { order InMain { MainThing => "main.things" (id: i64) } }

engines! {
    async fn rows_come_in_key_order<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        in_order::<E, ByUuid>(&db, uuid).await;
        in_order::<E, ByText>(&db, text).await;
        in_order::<E, ByTextC>(&db, text).await;
        in_order::<E, ByTextIcu>(&db, text).await;
        in_order::<E, ByBytes>(&db, bytes).await;
        in_order::<E, ByPair>(&db, pair).await;
        in_order::<E, ByMixed>(&db, mixed).await;
        in_order::<E, ByFour>(&db, four).await;
        in_order::<E, ByNewtype>(&db, Number).await;
        no_fault_was_traced();
    }

    async fn missing_keys_are_named<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        missing::<E, ByUuid>(&db, uuid).await;
        missing::<E, ByText>(&db, text).await;
        missing::<E, ByTextIcu>(&db, text).await;
        missing::<E, ByBytes>(&db, bytes).await;
        missing::<E, ByPair>(&db, pair).await;
        missing::<E, ByMixed>(&db, mixed).await;
        missing::<E, ByFour>(&db, four).await;
        missing::<E, ByNewtype>(&db, Number).await;
        no_fault_was_traced();
    }
}

engines! { servers:
    async fn locks_are_taken_in_key_order<E: Engine>(test: TestDb) {
        let db = open::<E>(&test).await;
        followed::<E, ByUuid>(&test, &db, "by_uuid", uuid).await;
        followed::<E, ByText>(&test, &db, "by_text", text).await;
        followed::<E, ByTextC>(&test, &db, "by_text_c", text).await;
        followed::<E, ByTextIcu>(&test, &db, "by_text_icu", text).await;
        followed::<E, ByBytes>(&test, &db, "by_bytes", bytes).await;
        followed::<E, ByPair>(&test, &db, "by_pair", pair).await;
        followed::<E, ByMixed>(&test, &db, "by_mixed", mixed).await;
        followed::<E, ByFour>(&test, &db, "by_four", four).await;
        followed::<E, ByNewtype>(&test, &db, "by_newtype", Number).await;
        no_fault_was_traced();
    }
}

engines! { innodb:
    async fn unsigned_keys_go_to_their_end<E: Engine>(test: TestDb) {
        test.execute("create table by_unsigned (id bigint unsigned not null primary key, n bigint not null default 0)").await;
        let key = |n: i64| (n as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) | u64::from(n % 2 == 0) << 63;
        fill(&test, "by_unsigned", &(0..ROWS).map(key).chain([u64::MAX]).collect::<Vec<_>>()).await;
        let pool = test.pool_of::<E>(5).await;
        let db: Db<E> = Db::builder(Unsigned).open(pool).await.unwrap();
        in_order::<E, ByUnsigned>(&db, key).await;
        missing::<E, ByUnsigned>(&db, key).await;
        followed::<E, ByUnsigned>(&test, &db, "by_unsigned", key).await;
        let most = db.transaction(async |tx| Ok::<_, Error>(tx.lock::<ByUnsigned>([u64::MAX]).keys().await?.1)).await;
        assert_eq!(most.unwrap(), [u64::MAX]);
        no_fault_was_traced();
    }
}

engines! { postgres:
    async fn a_table_of_another_schema(test: TestDb) {
        test.execute("create schema app; create table app.things (id bigint primary key, n bigint not null default 0)").await;
        fill(&test, "app.things", &(0..ROWS).collect::<Vec<_>>()).await;
        let db: Db<sqlx::Postgres> = Db::builder(InApp).open(test.postgres().await).await.unwrap();
        in_order::<sqlx::Postgres, Thing>(&db, |n| n).await;
        followed::<sqlx::Postgres, Thing>(&test, &db, "app.things", |n| n).await;
    }
}

engines! { sqlite:
    async fn a_table_of_the_main_database(test: TestDb) {
        test.execute("create table things (id bigint not null primary key, n bigint not null default 0)").await;
        fill(&test, "things", &(0..ROWS).collect::<Vec<_>>()).await;
        let db: Db<sqlx::Sqlite> = Db::builder(InMain).open(test.sqlite().await).await.unwrap();
        in_order::<sqlx::Sqlite, MainThing>(&db, |n| n).await;
    }
}

/// So many keys, in no order, some twice: their rows in the order of the keys.
async fn in_order<E: Engine, R: Resource>(db: &Db<E>, key: impl Fn(i64) -> R::Key) {
    for size in [1, 2, 3, 501, ROWS] {
        let keys: Vec<R::Key> = (0..size).map(|n| key(n * 7 % size)).chain([key(0)]).collect();
        let got = db.transaction(async |tx| Ok::<_, Error>(tx.lock::<R>(&keys).keys().await?.1)).await;
        let got: Vec<_> = got.unwrap_or_else(|error| panic!("{size} keys: {error}")).iter().map(Key::value).collect();
        let mut expected: Vec<_> = keys.iter().map(Key::value).collect();
        expected.sort();
        expected.dedup();
        assert!(got == expected, "{size} keys: {got:?}");
    }
}

/// Two keys without a row among three: named, in order; or left out.
async fn missing<E: Engine, R: Resource>(db: &Db<E>, key: impl Fn(i64) -> R::Key) {
    let keys = [key(ROWS + 11), key(3), key(ROWS + 2)];
    let error = db.transaction(async |tx| tx.lock::<R>(&keys).await.map(drop)).await.unwrap_err();
    let Error::Missing { keys: named, .. } = &error else { panic!("{error:?}") };
    let mut expected = vec![keys[0].value(), keys[2].value()];
    expected.sort();
    assert_eq!(*named, expected);
    let there =
        db.transaction(async |tx| Ok::<_, Error>(tx.lock::<R>(&keys).existing().keys().await?.1)).await.unwrap();
    assert_eq!(there.iter().map(Key::value).collect::<Vec<_>>(), [keys[1].value()]);
}

/// Another session holds a key in the middle: those before it are locked, those after it are not.
async fn followed<E: Engine, R: Resource>(test: &TestDb, db: &Db<E>, table: &str, key: impl Fn(i64) -> R::Key) {
    let mut holder = test.session("holder").await;
    for size in [5, 60] {
        let keys: Vec<R::Key> = (0..size).map(|n| key(n * 7 % size * (ROWS / size))).collect();
        let mut sorted = keys.clone();
        sorted.sort_by_key(Key::value);
        let middle = sorted.len() / 2;
        holder.run("begin").await;
        holder.run(&format!("select n from {table} where {} for update", condition(test, &sorted[middle]))).await;
        let locks = db.transaction(async |tx| tx.lock::<R>(&keys).await.map(drop));
        let look = async {
            test.until_blocked(1).await;
            for (at, held) in [(0, true), (middle - 1, true), (middle + 1, false), (sorted.len() - 1, false)] {
                let found = test.held(table, &condition(test, &sorted[at])).await;
                assert_eq!(found.is_some(), held, "{table}: key {at} of {size}: {:?}", sorted[at]);
            }
            holder.run("rollback").await;
        };
        tokio::join!(locks, look).0.unwrap();
    }
}
