//! What only SQLite has: affinities, rowids, collations that no pragma tells.

use rowlock_footprint::{Action, TableName};
use rowlock_testing::TestDb;

use super::{BYTES, INTEGER, TEXT, UUID, by_id, finding, named, passes, read, says};

rowlock_testing::engines! { sqlite:
    async fn the_whole_schema_is_read(db: TestDb) {
        db.execute(
            "create table items (id integer primary key, code text not null unique, price real);
             create unique index cheap on items (id) where price < 1;
             create unique index lower_code on items (lower(code));
             create table lines (item integer references items on delete cascade on update set null, line integer,
                 primary key (item, line)) without rowid, strict;
             create virtual table found using fts5(body)",
        )
        .await;
        let catalog = read(&db, &[]).await;
        assert!(catalog.version.starts_with("3."), "{}", catalog.version);
        let items = catalog.schema.table(&TableName::parse("main.items")).unwrap();
        let id = items.column("id").unwrap();
        assert!(id.generated && !id.nullable && items.column("price").is_some_and(|c| !c.bytewise && c.nullable));
        let keys: Vec<(&str, String, bool)> =
            items.unique_keys.iter().map(|k| (&*k.name, k.columns.join(","), k.partial)).collect();
        assert_eq!(keys, [
            ("rowid", "id".into(), false),
            ("cheap", "id".into(), true),
            ("lower_code", "an expression".into(), true),
            ("sqlite_autoindex_items_1", "code".into(), false),
        ]);
        let lines = catalog.schema.table(&TableName::parse("lines")).unwrap();
        assert_eq!(lines.primary_key, ["item", "line"]);
        assert!(lines.columns.iter().all(|c| !c.nullable && !c.generated));
        let key = &lines.foreign_keys[0];
        assert_eq!((&key.parent, &key.parent_columns[..]), (&items.name, &["id".to_owned()][..]));
        assert_eq!((key.on_delete, key.on_update), (Action::Cascade, Action::SetNull));
        says(&finding(&db, &[by_id("found", INTEGER)]).await, &["it is a virtual table"]);
    }

    async fn keys_of_every_type_fit_their_columns_and_no_others(db: TestDb) {
        db.execute(
            "create table i (id integer primary key); create table u (id uuid not null primary key);
             create table t (id varchar(20) not null primary key); create table b (id blob not null primary key)",
        )
        .await;
        for (table, types) in [("i", INTEGER), ("u", UUID), ("t", TEXT), ("b", BYTES), ("b", UUID)] {
            assert!(passes(&db, &[by_id(table, types)]).await.report.is_empty());
        }
        for (table, types) in [("i", TEXT), ("t", INTEGER), ("t", UUID), ("b", TEXT), ("u", INTEGER)] {
            says(&finding(&db, &[by_id(table, types)]).await, &["and the key is declared as", "or declare the key as"]);
        }
    }

    async fn text_that_has_two_spellings_is_refused(db: TestDb) {
        db.execute(
            "create table a (id text collate nocase not null primary key); insert into a values ('A');
             create table b (id text collate rtrim not null, primary key (id)); insert into b values ('A');
             create table c (id text collate binary not null, other text collate nocase, unique (id));
             create table d (id text collate nocase not null); create unique index by_bytes on d (id collate binary);
             create table e (id text not null primary key)",
        )
        .await;
        assert_eq!(db.value("select count(*) from a where id = 'a'").await, "1");
        assert_eq!(db.value("select count(*) from b where id = 'A  '").await, "1");
        says(&finding(&db, &[by_id("a", TEXT)]).await, &["its collation is `NOCASE`, so two spellings", r#"make "a" anew with `"id" text not null`"#]);
        says(&finding(&db, &[by_id("b", TEXT)]).await, &["its collation is `RTRIM`"]);
        // It is the column's collation that `id = ?` goes by, whatever the index has.
        says(&finding(&db, &[by_id("d", TEXT)]).await, &["its collation is `NOCASE`"]);
        passes(&db, &[by_id("c", TEXT)]).await;
        passes(&db, &[by_id("e", TEXT)]).await;
    }

    async fn a_primary_key_that_takes_null_is_warned_of(db: TestDb) {
        db.execute("create table t (id text primary key)").await;
        says(&finding(&db, &[by_id("t", TEXT)]).await, &["warning: `R`", "`id` may be NULL", "declare the column NOT NULL"]);
    }

    async fn names_are_equal_in_any_case(db: TestDb) {
        db.execute("create table Orders (Id integer primary key)").await;
        let target = &passes(&db, &[named("Order", "orders", &["id"], INTEGER)]).await.targets[0];
        assert_eq!((&*target.table, &*target.columns[0].name), (r#""main"."Orders""#, "Id"));
    }
}
