//! What only PostgreSQL has: domains, collations, partitions, inheritance, rules, row security.

use rowlock::{Catalog, KeyType, ResourceInfo, check};
use rowlock_footprint::{Action, TableName};
use rowlock_testing::TestDb;
use sqlx::Connection;

use super::{BYTES, INTEGER, TEXT, UUID, by_id, finding, findings, named, passes, read, says};

rowlock_testing::engines! { postgres:
    async fn the_whole_schema_is_read(db: TestDb) {
        db.execute(
            "create schema stock;
             create domain code as varchar(8) collate \"C\";
             create domain short_code as code;
             create table stock.items (id bigserial primary key, code short_code not null, price numeric, made timestamptz,
                 ref uuid default gen_random_uuid() not null, big bigint generated always as identity,
                 twice bigint generated always as (1) stored, constraint items_code unique (code));
             create unique index cheap on stock.items (id) where price < 1;
             create unique index lower_code on stock.items (lower(code), id) include (price);
             create unique index other_order on stock.items (code collate \"POSIX\");
             create table lines (line int primary key, item bigint, order_id int, \"Odd name\" char(3),
                 constraint of_item foreign key (item) references stock.items on delete cascade on update set null
                     deferrable initially deferred)",
        )
        .await;
        let catalog = read(&db, &[]).await;
        assert!(catalog.version.starts_with("15.") || catalog.version.starts_with("18."), "{}", catalog.version);
        assert_eq!(catalog.schema.search_path, ["public"]);
        let items = catalog.schema.table(&TableName::parse("stock.items")).unwrap();
        let column = |name: &str| items.column(name).unwrap();
        assert_eq!(items.primary_key, ["id"]);
        assert_eq!((&*column("code").type_name, column("code").collation.as_deref()), ("character varying(8)", Some("C")));
        assert!(column("code").bytewise && !column("code").nullable && !column("price").bytewise);
        let generated: Vec<&str> = items.columns.iter().filter(|c| c.generated).map(|c| &*c.name).collect();
        assert_eq!(generated, ["id", "ref", "big"]);
        let keys: Vec<(&str, String, bool)> =
            items.unique_keys.iter().map(|k| (&*k.name, k.columns.join(","), k.partial)).collect();
        assert_eq!(keys, [
            ("items_pkey", "id".into(), false),
            ("cheap", "id".into(), true),
            ("items_code", "code".into(), false),
            ("lower_code", "lower(code::text),id".into(), true),
            ("other_order", "code".into(), true),
        ]);
        let lines = catalog.schema.table(&TableName::parse("lines")).unwrap();
        let key = &lines.foreign_keys[0];
        assert_eq!((&*key.name, &key.parent, &key.parent_columns[..]), ("of_item", &items.name, &["id".to_owned()][..]));
        assert_eq!((key.on_delete, key.on_update, key.deferred), (Action::Cascade, Action::SetNull, true));
        assert_eq!(lines.column("Odd name").unwrap().type_name, "character(3)");
        // A key of a domain is a key of what the domain is made of.
        passes(&db, &[named("Item", "stock.items", &["code"], TEXT), named("Line", "lines", &["line"], INTEGER)]).await;
        says(&finding(&db, &[by_id("items", INTEGER)]).await, &["there is `stock.items`: declare it with its schema"]);
    }

    async fn keys_of_every_type_fit_their_columns_and_no_others(db: TestDb) {
        db.execute(
            "create table i (id smallint primary key); create table u (id uuid primary key);
             create table t (id text primary key); create table b (id bytea primary key);
             create table n (id numeric primary key); create table d (id timestamptz primary key)",
        )
        .await;
        for (table, types) in [("i", INTEGER), ("u", UUID), ("t", TEXT), ("b", BYTES)] {
            assert!(passes(&db, &[by_id(table, types)]).await.report.is_empty());
            for other in [INTEGER, UUID, TEXT, BYTES].into_iter().filter(|o| o[0] != types[0]) {
                says(&finding(&db, &[by_id(table, other)]).await, &["error: `R`", "and the key is declared as", "or declare the key as"]);
            }
        }
        says(&finding(&db, &[by_id("t", INTEGER)]).await, &[
            "`id` is `text` and the key is declared as integer: it needs smallint, integer or bigint, since a number does not find text",
            r#"alter table "public"."t" alter column "id" type bigint using "id"::bigint, or declare the key as `String`"#,
        ]);
        says(&finding(&db, &[by_id("n", INTEGER)]).await, &["`id` is `numeric`"]);
        says(&finding(&db, &[by_id("d", TEXT)]).await, &["`id` is `timestamp with time zone`"]);
    }

    async fn text_that_is_padded_is_refused(db: TestDb) {
        db.execute("create table b (id char(4) primary key); insert into b values ('A')").await;
        // One row, two spellings: this is what is refused.
        assert_eq!(db.value("select count(*) from b where id = 'A  '").await, "1");
        says(&finding(&db, &[by_id("b", TEXT)]).await, &["`char(n)` is equal without regard to trailing blanks"]);
    }

    async fn a_partial_key_is_no_key(db: TestDb) {
        db.execute("create table orders (id bigint, open bool); create unique index opened on orders (id) where open").await;
        says(&finding(&db, &[by_id("orders", INTEGER)]).await, &[
            "unique key `opened` covers only part of the rows",
            r#"alter table "public"."orders" add unique ("id")"#,
        ]);
    }

    async fn partitions_are_understood(db: TestDb) {
        db.execute(
            "create table orders (id bigint primary key, n int) partition by range (id);
             create table orders_1 partition of orders for values from (1) to (100);
             create table lines (id bigint primary key, order_id bigint references orders on delete cascade) partition by hash (id);
             create table lines_0 partition of lines for values with (modulus 1, remainder 0)",
        )
        .await;
        let (whole, part) = (by_id("orders", INTEGER), by_id("orders_1", INTEGER));
        let lines = named("Line", "lines", &["id"], INTEGER);
        assert!(passes(&db, &[whole, lines]).await.report.is_empty());
        // A cascade is named once, not once a partition.
        says(&finding(&db, &[whole]).await, &["a DELETE locks rows of `public.lines` (foreign key `lines_order_id_fkey`)"]);
        let texts = findings(&db, &[part, lines]).await;
        says(&texts[0], &["it is a part of `public.orders`, by which its rows can be locked unseen"]);
        let order = [whole, named("Part", "orders_1", &["id"], INTEGER), lines];
        let texts = findings(&db, &order).await;
        says(&texts[0], &["error: `Part`", "it is a part of `public.orders`, which is a resource too"]);
    }

    async fn inheritance_breaks_keys_and_is_refused(db: TestDb) {
        db.execute(
            "create table orders (id bigint primary key); create table old_orders () inherits (orders);
             insert into orders values (1); insert into old_orders values (1)",
        )
        .await;
        assert_eq!(db.value("select count(*) from orders where id = 1").await, "2");
        says(&finding(&db, &[by_id("orders", INTEGER)]).await, &["it has inheriting children", "partition it instead"]);
    }

    async fn rules_and_foreign_tables_are_named(db: TestDb) {
        db.execute(
            "create table orders (id bigint primary key); create table log (n int);
             create rule logged as on delete to orders do also insert into log values (1);
             create materialized view seen as select 1::bigint as id",
        )
        .await;
        says(&finding(&db, &[by_id("orders", INTEGER)]).await, &["rule `logged` rewrites statements"]);
        says(&finding(&db, &[by_id("seen", INTEGER)]).await, &["it is a materialized view"]);
    }

    async fn row_security_is_named_for_those_it_holds(db: TestDb) -> anyhow::Result<()> {
        db.execute("create table orders (id bigint primary key); alter table orders enable row level security").await;
        // The owner sees all.
        assert!(findings(&db, &[by_id("orders", INTEGER)]).await.is_empty());
        let role = format!("{}_r", &db.name()[..db.name().len().min(60)]);
        db.execute(&format!("create role {role}; grant usage on schema public to {role}; grant select on orders to {role}")).await;
        let pool = db.pool_of::<sqlx::Postgres>(1).await;
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("set role {role}"))).execute(&pool).await?;
        let catalog = Catalog::postgres(&mut *pool.acquire().await?).await?;
        let report = check(&[by_id("orders", INTEGER)], &catalog, rowlock::Policy::Refuse).unwrap_err();
        says(&report.to_string(), &["row security is on for this user", "BYPASSRLS"]);
        pool.close().await;
        db.execute(&format!("drop owned by {role}; drop role {role}")).await;
        Ok(())
    }

    async fn names_that_need_quotes_are_quoted(db: TestDb) {
        db.execute(r#"create schema "My ""shop"; create table "My ""shop"."Orders" ("Id" bigint primary key)"#).await;
        let order = [named("Order", "My \"shop.Orders", &["Id"], INTEGER)];
        let target = &passes(&db, &order).await.targets[0];
        assert_eq!((&*target.table, &*target.columns[0].quoted), (r#""My ""shop"."Orders""#, r#""Id""#));
        // Names are what they are: PostgreSQL folds what a statement does not quote.
        says(&finding(&db, &[ResourceInfo { columns: &["id"], types: &[KeyType::Integer], ..order[0] }]).await, &[
            "it has no column `id`; way out: the nearest names are `Id`",
        ]);
    }
}

// The server of PostgreSQL 18 for tests is built without ICU.
rowlock_testing::engines! { pg15:
    async fn a_databases_collation_leaves_equality_to_the_bytes(db: TestDb) -> anyhow::Result<()> {
        // Two databases that sort differently: the check lets both pass, since rowlock sorts by itself.
        let other = format!("{}_c", &db.name()[..db.name().len().min(60)]);
        db.execute(&format!(
            "create database {other} template template0 encoding 'UTF8' locale_provider icu icu_locale 'de' locale 'C.UTF-8'"
        ))
        .await;
        let mut there = sqlx::PgConnection::connect(&db.url().replace(db.name(), &other)).await?;
        let table = "create table t (id text primary key); insert into t values ('a'), ('B')";
        sqlx::raw_sql(table).execute(&mut there).await?;
        db.execute(table).await;
        let first: String = sqlx::query_scalar("select min(id) from t").fetch_one(&mut there).await?;
        assert_eq!((first.as_str(), db.value("select min(id) from t").await.as_str()), ("a", "B"));
        let catalog = Catalog::postgres(&mut there).await?;
        assert!(check(&[by_id("t", TEXT)], &catalog, rowlock::Policy::Refuse).is_ok());
        passes(&db, &[by_id("t", TEXT)]).await;
        there.close().await?;
        db.execute(&format!("drop database {other} with (force)")).await;
        Ok(())
    }

    async fn text_that_has_two_spellings_is_refused(db: TestDb) {
        db.execute(
            "create collation ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
             create collation de (provider = icu, locale = 'de');
             create table a (id text collate ci primary key); insert into a values ('A');
             create table d (id text collate de primary key); insert into d values ('A')",
        )
        .await;
        // One row, two spellings: this is what is refused.
        assert_eq!(db.value("select count(*) from a where id = 'a'").await, "1");
        assert_eq!(db.value("select count(*) from d where id = 'a'").await, "0");
        says(&finding(&db, &[by_id("a", TEXT)]).await, &[
            "its collation `ci` is nondeterministic, so two spellings of one key would sort to two places",
            r#"alter table "public"."a" alter column "id" type text collate "C", or lock by another key of the table"#,
        ]);
        passes(&db, &[by_id("d", TEXT)]).await;
        // The way out is one.
        db.execute("alter table a alter column id type text collate \"C\"").await;
        passes(&db, &[by_id("a", TEXT)]).await;
    }
}
