//! Columns of every width and sign at their ends, keys of every type, and columns that cannot be counted with.

use rowlock::{AsKey, Before, Change, Counter, Db, Engine, Error, Outcome, Outcome::*, Resource, Start};
use rowlock_testing::{Engine as Server, Family, TestDb, engines};
use uuid::Uuid;

rowlock::lock_order! {
    order Odd {
        Text  => "by_text"  (name: String),
        Bytes => "by_bytes" (name: Vec<u8>),
        Id    => "by_uuid"  (id: Uuid),
        Pair  => "by_pair"  (a: i64, b: String),
        Unique => "by_unique" (code: i64),
    }
}

rowlock::lock_order! {
    order Widths { Number => "numbers" (id: i32) }
}

async fn odd<E: Engine>(test: &TestDb) -> Db<E> {
    let (text, bytes, uuid) = match test.engine() {
        Server::MariaDb => {
            ("varchar(50) character set utf8mb4 collate utf8mb4_nopad_bin", "varbinary(50)", "binary(16)")
        }
        Server::MySql => ("varchar(50) character set utf8mb4 collate utf8mb4_0900_bin", "varbinary(50)", "binary(16)"),
        Server::Sqlite => ("text", "blob", "blob"),
        _ => ("text", "bytea", "uuid"),
    };
    let n = "n int not null default 10";
    for sql in [
        format!("create table by_text (name {text} not null primary key, {n})"),
        format!("create table by_bytes (name {bytes} not null primary key, {n})"),
        format!("create table by_uuid (id {uuid} not null primary key, {n})"),
        format!("create table by_pair (a bigint not null, b {text} not null, {n}, primary key (a, b))"),
        format!("create table by_unique (id bigint not null primary key, code bigint not null unique, {n})"),
    ] {
        test.execute(&sql).await;
    }
    Db::builder(Odd).open(test.pool_of::<E>(3).await).await.unwrap()
}

/// Two keys that are there, one that is not: alone, several, together, in a transaction.
async fn each_way<E: Engine, R: Resource + Before<R>, K: AsKey<R::Key> + Clone + Sync>(
    db: &Db<E>,
    there: [K; 2],
    gone: K,
) where
    Start: Before<R>,
{
    let n = Counter::<R>::new("n");
    let [first, second] = there;
    let of = |change: Change<R>| async {
        db.kind("odd").update(change).await.unwrap().into_iter().map(|(_, o)| o).collect::<Vec<_>>()
    };
    assert_eq!(of(n.subtract([(first.clone(), 3)])).await, [Applied { value: 7 }]);
    assert_eq!(of(n.subtract([(first.clone(), 8)])).await, [Insufficient { found: 7 }]);
    assert_eq!(of(n.subtract([(gone.clone(), 8)])).await, [Missing]);
    let all = n.subtract([(second.clone(), 1), (gone.clone(), 1), (first.clone(), 2)]);
    assert_eq!(of(all.clone()).await, [Applied { value: 9 }, Missing, Applied { value: 5 }]);
    assert_eq!(of(all.together()).await, [Withheld { found: 9 }, Missing, Withheld { found: 5 }]);
    let outcomes = db.transaction(async |tx| {
        let (tx, one) = tx.update(n.subtract([(second.clone(), 1)])).await?;
        let (tx, two) = tx.update(n.add([(first.clone(), 1), (second.clone(), 1)])).await?;
        let (_, set) = tx.update(n.compare_and_set([(second.clone(), 9, 4), (first.clone(), 6, 5)])).await?;
        Ok::<_, Error>([one[0], two[0], two[1], set[0], set[1]])
    });
    assert_eq!(outcomes.await.unwrap(), [8, 6, 9, 4, 5].map(|value| Applied { value }));
}

engines! {
    async fn keys_of_every_type<E: Engine>(test: TestDb) {
        let db: Db<E> = odd(&test).await;
        test.execute("insert into by_text (name) values ('b'), ('ä')").await;
        each_way::<E, Text, &str>(&db, ["ä", "b"], "a").await;
        let hex = |bytes: &str| match test.family() {
            Family::Postgres => format!("'\\x{bytes}'"),
            _ => format!("x'{bytes}'"),
        };
        test.execute(&format!("insert into by_bytes (name) values ({}), ({})", hex("00"), hex("ff01"))).await;
        each_way::<E, Bytes, &[u8]>(&db, [&[0xff, 1], &[0]], &[1]).await;
        let [one, two] = [1u128 << 120, 1].map(Uuid::from_u128);
        let id = |id: Uuid| if test.family() == Family::Postgres { format!("'{id}'") } else { hex(&id.simple().to_string()) };
        test.execute(&format!("insert into by_uuid (id) values ({}), ({})", id(one), id(two))).await;
        each_way::<E, Id, Uuid>(&db, [one, two], Uuid::nil()).await;
        test.execute("insert into by_pair (a, b) values (1, 'y'), (1, 'x'), (2, 'x')").await;
        each_way::<E, Pair, (i64, String)>(&db, [(2, "x".into()), (1, "y".into())], (2, "y".into())).await;
        assert_eq!(test.value("select n from by_pair where a = 1 and b = 'x'").await, "10");
        test.execute("insert into by_unique (id, code) values (1, 9), (2, 8)").await;
        each_way::<E, Unique, i64>(&db, [9, 8], 1).await;
    }

    async fn no_width_wraps<E: Engine>(test: TestDb) {
        let unsigned = [
            ("tinyint unsigned", 0, 255), ("smallint unsigned", 0, 65_535), ("mediumint unsigned", 0, 16_777_215),
            ("int unsigned", 0, 4_294_967_295), ("bigint unsigned", 0, i64::MAX),
        ];
        let signed = [("smallint", -32_768, 32_767), ("int", -2_147_483_648, 2_147_483_647), ("bigint", i64::MIN, i64::MAX)];
        let mut types: Vec<(&str, i64, i64)> = signed.to_vec();
        match test.family() {
            Family::InnoDb => types.extend([("tinyint", -128, 127), ("mediumint", -8_388_608, 8_388_607)].into_iter().chain(unsigned)),
            Family::Sqlite => types = vec![("integer", i64::MIN, i64::MAX)],
            Family::Postgres => {}
        }
        for (kind, low, high) in types {
            test.execute("drop table if exists numbers").await;
            test.execute(&format!("create table numbers (id int not null primary key, n {kind} not null)")).await;
            test.execute(&format!("insert into numbers values (1, {low}), (2, {high})")).await;
            let db: Db<E> = Db::builder(Widths).open(test.pool_of::<E>(1).await).await.unwrap();
            let n = Counter::<Number>::new("n");
            let one = async |change| db.kind("one").update(change).await.unwrap()[0];
            let both = async |change| {
                let both = db.kind("both").update(change).await.unwrap();
                [both[0], both[1]]
            };
            // By one statement, and by many.
            assert_eq!(one(n.subtract([(1, 1)]).at_least(i64::MIN)).await, Insufficient { found: low }, "{kind}");
            assert_eq!(one(n.add([(2, 1)])).await, Insufficient { found: high }, "{kind}");
            assert_eq!(one(n.add([(2, i64::MAX)])).await, Insufficient { found: high }, "{kind}");
            assert_eq!(
                both(n.add([(2, 1), (1, i64::MAX)])).await,
                [Insufficient { found: high }, if low.checked_add(i64::MAX).is_some_and(|n| n <= high) { Applied { value: low + i64::MAX } } else { Insufficient { found: low } }],
                "{kind}"
            );
            test.execute(&format!("update numbers set n = {low} where id = 1")).await;
            assert_eq!(one(n.subtract([(2, 1)]).at_least(i64::MIN)).await, Applied { value: high - 1 }, "{kind}");
            assert_eq!(both(n.add([(2, 1), (1, 1)])).await, [Applied { value: high }, Applied { value: low + 1 }], "{kind}");
            assert_eq!(one(n.subtract([(1, 1)]).at_least(i64::MIN)).await, Applied { value: low }, "{kind}");
            assert_eq!(one(n.compare_and_set([(1, low, high)])).await, Applied { value: high }, "{kind}");
            assert_eq!(both(n.set_if(.., [(1, low), (2, low)])).await, [low, low].map(|value| Applied { value }), "{kind}");
            // A value that the column cannot hold at all is the caller's mistake.
            if high < i64::MAX {
                let error = db.kind("set").update(n.set_if(.., [(1, high + 1)])).await.unwrap_err();
                assert!(matches!(error, Error::Quantity { .. }), "{error}");
            }
        }
    }

    async fn columns_that_cannot_be_counted_with<E: Engine>(test: TestDb) {
        let text = if test.family() == Family::InnoDb { "varchar(20)" } else { "text" };
        let real = if test.family() == Family::Sqlite { "real" } else { "numeric(10, 2)" };
        test.execute("create table other (id int not null primary key)").await;
        test.execute(&format!(
            "create table numbers (id int not null primary key, nullable int, word {text} not null, price {real} not null, \
             code int not null unique, parent int not null, n int not null, foreign key (parent) references other (id))"
        )).await;
        test.execute("insert into other values (1)").await;
        test.execute("insert into numbers values (1, 1, 'w', 1, 1, 1, 5)").await;
        let db: Db<E> = Db::builder(Widths).undeclared(rowlock::Policy::Allow).open(test.pool_of::<E>(1).await).await.unwrap();
        for (column, told) in [
            ("stock", "has no such column"),
            ("nullable", "may be NULL"),
            ("word", "not an integer"),
            ("price", "not an integer"),
            ("code", "unique key"),
            ("id", "unique key"),
            ("parent", "refers to another table"),
        ] {
            let counter = Counter::<Number>::new(Box::leak(column.to_owned().into_boxed_str()));
            let error = db.kind("count").update(counter.add([(1, 1)])).await.unwrap_err();
            assert!(matches!(error, Error::Counter { .. }) && error.to_string().contains(told), "{column}: {error}");
        }
        assert_eq!(db.counts().statements, 0);
        let n = Counter::<Number>::new("n");
        assert_eq!(db.kind("count").update(n.add([(1, 1)])).await.unwrap()[0], Outcome::Applied { value: 6 });
        // It is looked at again when the schema changes.
        test.execute("alter table numbers add stock int not null default 3").await;
        db.refresh().await.unwrap();
        let stock = Counter::<Number>::new("stock");
        assert_eq!(db.kind("count").update(stock.subtract([(1, 1)])).await.unwrap()[0], Outcome::Applied { value: 2 });
    }
}

engines! { innodb:
    async fn a_value_beyond_an_i64_is_left_alone<E: Engine>(test: TestDb) {
        test.execute("create table numbers (id int not null primary key, n bigint unsigned not null)").await;
        test.execute("insert into numbers values (1, 18446744073709551615), (2, 7)").await;
        let db: Db<E> = Db::builder(Widths).open(test.pool_of::<E>(1).await).await.unwrap();
        let n = Counter::<Number>::new("n");
        for change in [n.subtract([(1, 5)]), n.subtract([(2, 1), (1, 5)])] {
            let error = db.kind("count").update(change).await.unwrap_err();
            assert!(error.to_string().contains("a row holds 18446744073709551615"), "{error}");
        }
        assert_eq!(test.value("select n from numbers where id = 2").await, "7");
        assert_eq!(test.value("select n from numbers where id = 1").await, "18446744073709551615");
    }
}

engines! { sqlite:
    async fn what_is_no_integer_after_all_is_an_error<E: Engine>(test: TestDb) {
        test.execute("create table numbers (id int not null primary key, n integer not null)").await;
        test.execute("insert into numbers values (1, 'many'), (2, 1.5)").await;
        let db: Db<E> = Db::builder(Widths).open(test.pool_of::<E>(1).await).await.unwrap();
        let n = Counter::<Number>::new("n");
        assert!(db.kind("count").update(n.add([(1, 1)])).await.is_err());
        assert!(db.kind("count").update(n.add([(2, 1)])).await.is_err());
        assert_eq!(test.value("select n from numbers where id = 1").await, "many");
    }
}
