//! Names that are keywords of Rust or of SQL, or that want quotes.

use rowlock::{Counter, Db, Edit, Engine, Error, Saved, Versioned};
use rowlock_testing::{Family, TestDb, engines};

rowlock::lock_order! {
    order Odd {
        Thing => "odd things" (type: i64, "the key": i64),
        Raw   => "order"      (r#match: i64),
    }
}

const COUNT: Counter<Thing> = Counter::new("the count");

#[derive(Debug, PartialEq, sqlx::FromRow)]
struct Row {
    r#type: i64,
    #[sqlx(rename = "the key")]
    key: i64,
    #[sqlx(rename = "the count")]
    count: i64,
}

impl Versioned for Row {
    type Resource = Thing;
    const VERSION: &'static str = "the count";
    fn key(&self) -> (i64, i64) {
        (self.r#type, self.key)
    }
    fn version(&self) -> i64 {
        self.count
    }
}

engines! {
    async fn names_are_what_the_database_has<E: Engine>(test: TestDb) {
        let mark = if test.family() == Family::InnoDb { "`" } else { "\"" };
        let quoted = |sql: &str| sql.replace('\'', mark);
        test.execute(&quoted(
            "create table 'odd things' ('type' bigint not null, 'the key' bigint not null, 'the count' bigint not null,
                 'a note' varchar(20), primary key ('the key', 'type'));
             create table 'order' ('match' bigint not null primary key);
             insert into 'order' values (1);
             insert into 'odd things' ('type', 'the key', 'the count') values (1, 2, 5), (1, 3, 5)",
        )).await;
        let db: Db<E> = Db::builder(Odd).open(test.pool_of::<E>(2).await).await.unwrap();
        let found: &'static str = quoted("'the count' = 5 and 'type' = 1").leak();
        let (locked, met, claimed) = db.transaction(async |tx| {
            let (tx, locked) = tx.lock::<Thing>([(1, 3), (1, 2)]).fetch_all::<Row>().await?;
            let (tx, met) = tx.lock_where::<Thing>(found).keys().await?;
            let (tx, claimed) = tx.lock_where::<Thing>(found).limit(1).skip_locked().keys().await?;
            let (_, told) = tx.update(COUNT.add([((1, 2), 1), ((1, 3), 1)])).await?;
            assert!(told.all_applied());
            Ok::<_, Error>((locked, met, claimed))
        }).await.unwrap();
        assert_eq!(locked.iter().map(|row| row.key).collect::<Vec<_>>(), [2, 3]);
        assert_eq!((met, claimed), (vec![(1, 2), (1, 3)], vec![(1, 2)]));
        assert!(db.kind("alone").update(COUNT.subtract([((1, 2), 1)])).await.unwrap().all_applied());
        let saved = db.kind("save").save(Edit::<E, Row>::at((1, 3), 6).set("a note", "new")).await.unwrap();
        assert!(matches!(saved, Saved::Done { version: 7 }), "{saved:?}");
        let text: &'static str = quoted("update 'odd things' set 'a note' = 'the key' where 'type' = 1 and 'the key' = 2").leak();
        assert_eq!(db.kind("one").execute(rowlock::query(text)).await.unwrap(), 1);
        db.transaction(async |tx| tx.lock::<Raw>([1]).await.map(drop)).await.unwrap();
    }
}
