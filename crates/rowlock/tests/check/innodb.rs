//! What only MySQL and MariaDB have: padding collations, character sets, storage engines, MariaDB's `uuid`.

use rowlock::{Catalog, Dialect, Policy, check};
use rowlock_footprint::{Action, TableName};
use rowlock_testing::{Engine, TestDb};
use sqlx::Connection;

use super::{BYTES, INTEGER, TEXT, UNSIGNED, UUID, by_id, finding, findings, named, passes, read, says};

fn nopad(db: &TestDb) -> &'static str {
    if db.engine() == Engine::MySql { "utf8mb4_0900_bin" } else { "utf8mb4_nopad_bin" }
}

rowlock_testing::engines! { innodb:
    async fn the_whole_schema_is_read(db: TestDb) {
        db.execute(
            "create table items (id bigint unsigned auto_increment primary key, code varchar(8) not null, price double,
                 unique key items_code (code), unique key prefix (code(2), price));
             create table items_lines (item bigint unsigned, line int not null,
                 constraint of_item foreign key (item) references items (id) on delete cascade on update set null)",
        )
        .await;
        let catalog = read(&db, &[]).await;
        let (dialect, version) =
            if db.engine() == Engine::MySql { (Dialect::MySql, "9.") } else { (Dialect::MariaDb, "10.11") };
        assert_eq!(catalog.dialect, dialect);
        assert!(catalog.version.starts_with(version), "{}", catalog.version);
        assert_eq!(catalog.schema.search_path, [db.name()]);
        let items = catalog.schema.table(&TableName::parse("items")).unwrap();
        assert_eq!(items.primary_key, ["id"]);
        assert!(items.column("id").unwrap().generated && items.column("id").unwrap().type_name.ends_with(" unsigned"));
        let keys: Vec<(&str, String, bool)> =
            items.unique_keys.iter().map(|k| (&*k.name, k.columns.join(","), k.partial)).collect();
        assert_eq!(keys, [
            ("PRIMARY", "id".into(), false),
            ("items_code", "code".into(), false),
            ("prefix", "code,price".into(), true),
        ]);
        let lines = catalog.schema.table(&TableName::parse("items_lines")).unwrap();
        let key = &lines.foreign_keys[0];
        assert_eq!((&*key.name, &key.parent, &key.parent_columns[..]), ("of_item", &items.name, &["id".to_owned()][..]));
        assert_eq!((key.on_delete, key.on_update), (Action::Cascade, Action::SetNull));
        if db.engine() == Engine::MySql {
            db.execute("create unique index half on items ((price / 2))").await;
            let catalog = read(&db, &[]).await;
            let items = catalog.schema.table(&TableName::parse("items")).unwrap();
            let half = items.unique_keys.iter().find(|k| k.name == "half").unwrap();
            assert!(half.partial && half.columns == ["(`price` / 2)"], "{half:?}");
        }
    }

    async fn keys_of_every_type_fit_their_columns_and_no_others(db: TestDb) {
        db.execute(&format!(
            "create table i (id int unsigned primary key); create table u (id binary(16) primary key);
             create table t (id varchar(20) character set utf8mb4 collate {0} primary key);
             create table b (id varbinary(20) primary key)",
            nopad(&db)
        ))
        .await;
        for (table, types) in [("i", INTEGER), ("u", UUID), ("t", TEXT), ("b", BYTES)] {
            assert!(passes(&db, &[by_id(table, types)]).await.report.is_empty());
            for other in [INTEGER, UUID, TEXT, BYTES].into_iter().filter(|o| o[0] != types[0]) {
                if (table, other[0]) != ("u", BYTES[0]) {
                    says(&finding(&db, &[by_id(table, other)]).await, &["error: `R`", "and the key is declared as", "or declare the key as"]);
                }
            }
        }
        let column = &passes(&db, &[by_id("t", TEXT)]).await.targets[0].columns[0];
        assert_eq!((column.charset.as_deref(), column.collation.as_deref()), (Some("utf8mb4"), Some(nopad(&db))));
        says(&finding(&db, &[by_id("t", INTEGER)]).await, &["since a number compared with text scans the table"]);
    }

    async fn text_that_has_two_spellings_is_refused(db: TestDb) {
        db.execute(
            "create table ci (id varchar(20) character set utf8mb4 collate utf8mb4_general_ci primary key);
             create table pad (id varchar(20) character set utf8mb4 collate utf8mb4_bin primary key);
             create table fixed (id char(20) character set utf8mb4 collate utf8mb4_bin primary key);
             insert into ci values ('A'); insert into pad values ('A')",
        )
        .await;
        // One row, two spellings: this is what is refused.
        assert_eq!(db.value("select count(*) from ci where id = 'a'").await, "1");
        assert_eq!(db.value("select count(*) from pad where id = 'A  '").await, "1");
        let way_out = format!("modify `id` varchar(20) character set utf8mb4 collate {} not null, or varbinary", nopad(&db));
        says(&finding(&db, &[by_id("ci", TEXT)]).await, &["its collation `utf8mb4_general_ci` is not one of bytes", &way_out]);
        says(&finding(&db, &[by_id("pad", TEXT)]).await, &["its collation `utf8mb4_bin` pads: 'a' and 'a ' are equal", &way_out]);
        says(&finding(&db, &[by_id("fixed", TEXT)]).await, &["`char(n)` drops trailing blanks"]);
        // The way out is one.
        db.execute(&format!("alter table pad modify id varchar(20) character set utf8mb4 collate {} not null", nopad(&db))).await;
        passes(&db, &[by_id("pad", TEXT)]).await;
        assert_eq!(db.value("select count(*) from pad where id = 'A  '").await, "0");
    }

    /// The way out of a collation runs as it stands, with all that foreign keys tie to the column: else 1832 or 1833.
    async fn a_collation_under_foreign_keys_is_changed_as_told(db: TestDb) {
        db.execute(
            "create table `the users` (email varchar(40) character set utf8mb4 collate utf8mb4_general_ci primary key);
             create table logins (id int primary key, `e mail` varchar(60) character set utf8mb4 collate utf8mb4_general_ci,
                 unique key (`e mail`), constraint `of user` foreign key (`e mail`) references `the users` (email)
                 on delete cascade on update set null);
             create table notes (id int primary key, login varchar(60) character set utf8mb4 collate utf8mb4_general_ci not null,
                 constraint of_login foreign key (login) references logins (`e mail`));
             insert into `the users` values ('Ada@x'); insert into logins values (1, 'Ada@x'); insert into notes values (1, 'Ada@x')",
        )
        .await;
        let order = [named("User", "the users", &["email"], TEXT)];
        let before = read(&db, &order).await;
        let texts = findings(&db, &order).await;
        let told = texts[0].split_once("way out: ").unwrap().1.split_once(", or varbinary").unwrap().0;
        assert_eq!(told.split("; ").count(), 7, "{told}");
        for statement in told.split("; ") {
            db.execute(statement).await;
        }
        passes(&db, &[named("User", "the users", &["email"], TEXT), named("Note", "notes", &["id"], INTEGER), named("Login", "logins", &["id"], INTEGER)]).await;
        let after = read(&db, &order).await;
        for table in ["logins", "notes"] {
            let [before, after] = [&before, &after].map(|c| c.schema.table(&TableName::parse(table)).unwrap());
            assert_eq!(before.foreign_keys, after.foreign_keys);
            assert_eq!(before.columns[1].nullable, after.columns[1].nullable);
            assert!(after.columns[1].bytewise);
        }
    }

    /// The upper half of `bigint unsigned` is no `i64`; whatever is smaller is.
    async fn an_unsigned_bigint_wants_a_key_of_its_own(db: TestDb) {
        db.execute(
            "create table items (id bigint unsigned not null auto_increment primary key);
             create table item_lines (id int unsigned primary key, item bigint unsigned not null,
                 constraint of_item foreign key (item) references items (id));
             create table small (id smallint unsigned primary key)",
        )
        .await;
        let text = finding(&db, &[by_id("items", INTEGER)]).await;
        says(&text, &[
            "error: `R`",
            "unsigned` and the key is declared as a type that ends at half of it",
            "way out: declare the key as `u64`, or alter table",
        ]);
        for (table, types) in [("items", UNSIGNED), ("small", INTEGER), ("small", UNSIGNED), ("item_lines", INTEGER)] {
            passes(&db, &[by_id(table, types)]).await;
        }
        for statement in text.split_once("`u64`, or ").unwrap().1.split("; ") {
            db.execute(statement).await;
        }
        db.execute("insert into items values ()").await;
        let catalog = read(&db, &[]).await;
        let items = catalog.schema.table(&TableName::parse("items")).unwrap();
        assert!(items.columns[0].generated && items.columns[0].type_name.starts_with("bigint"));
        for types in [INTEGER, UNSIGNED] {
            passes(&db, &[by_id("items", types)]).await;
        }
    }

    async fn a_key_that_is_not_the_primary_key_is_warned_of(db: TestDb) {
        db.execute("create table orders (id int primary key, number bigint not null, unique key numbers (number))").await;
        let order = [named("Order", "orders", &["number"], INTEGER)];
        says(&finding(&db, &order).await, &[
            "warning: `Order`",
            "`numbers` is not the primary key: a lock by it takes the index entry and then the row",
            "declare the resource by its primary key (id)",
        ]);
        assert_eq!(passes(&db, &order).await.targets[0].index, "`numbers`");
    }

    async fn an_engine_without_row_locks_is_refused(db: TestDb) {
        db.execute("create table orders (id int primary key) engine = MyISAM").await;
        says(&finding(&db, &[by_id("orders", INTEGER)]).await, &["its storage engine is MyISAM", "engine = InnoDB"]);
    }

    async fn another_database_is_read_when_the_order_names_it(db: TestDb) {
        let other = format!("{}_o", db.name());
        db.execute(&format!("create database {other}; create table {other}.items (id int primary key)")).await;
        let table: &'static str = format!("{other}.items").leak();
        let checked = passes(&db, &[by_id(table, INTEGER)]).await;
        assert_eq!(checked.targets[0].table, format!("`{other}`.`items`"));
        // In another case, a column is the same; a table is, only where the server folds names.
        passes(&db, &[named("Item", table, &["ID"], INTEGER)]).await;
        db.execute(&format!("drop database {other}")).await;
    }

    /// What happens to a parent locks its children, wherever they stand.
    async fn children_in_another_database_are_read(db: TestDb) {
        let other = format!("{}_o", &db.name()[2..]);
        let before = read(&db, &[]).await;
        db.execute(&format!(
            "create table orders (id bigint not null primary key); insert into orders values (10);
             create database {other}; create table {other}.links (id bigint not null primary key, order_id bigint,
                 foreign key (order_id) references {}.orders (id) on delete cascade);
             insert into {other}.links values (1, 10)",
            db.name()
        ))
        .await;
        let mut session = db.session("deletes").await;
        session.run("begin").await;
        session.run("delete from orders where id = 10").await;
        assert_eq!(db.held(&format!("{other}.links"), "id = 1").await, Some(rowlock::Strength::Update), "on the server");
        session.run("rollback").await;
        let catalog = read(&db, &[]).await;
        assert_ne!(catalog.fingerprint, before.fingerprint, "noticed while running");
        let delete = "delete from orders where id = 10";
        let footprint = rowlock_footprint::analyze(delete, catalog.dialect, &catalog.schema).unwrap();
        let tables: Vec<String> = footprint.locks.iter().map(|lock| lock.table.to_string()).collect();
        assert_eq!(tables, [format!("{}.orders", db.name()), format!("{other}.links")]);
        session.close().await;
        db.execute(&format!("drop database {other}")).await;
    }

    async fn the_default_collation_of_a_database_is_that_of_its_keys(db: TestDb) {
        let other = format!("{}_c", db.name());
        let table: &'static str = format!("{other}.t").leak();
        for (collation, fits) in [("utf8mb4_general_ci", false), ("utf8mb4_bin", false), (nopad(&db), true)] {
            db.execute(&format!(
                "create database {other} character set utf8mb4 collate {collation};
                 create table {other}.t (id varchar(20) primary key)"
            ))
            .await;
            let texts = findings(&db, &[by_id(table, TEXT)]).await;
            assert_eq!(texts.is_empty(), fits, "{collation}: {texts:?}");
            db.execute(&format!("drop database {other}")).await;
        }
    }

    async fn partitions_are_understood(db: TestDb) {
        db.execute("create table orders (id int primary key) partition by hash (id) partitions 4").await;
        let catalog = read(&db, &[]).await;
        assert!(catalog.schema.table(&TableName::parse("orders")).unwrap().partitioned);
        assert!(passes(&db, &[by_id("orders", INTEGER)]).await.report.is_empty());
    }
}

rowlock_testing::engines! { mariadb:
    async fn the_servers_own_uuid_is_refused(db: TestDb) {
        db.execute("create table u (id uuid primary key)").await;
        for types in [UUID, TEXT, BYTES] {
            let texts = findings(&db, &[by_id("u", types)]).await;
            says(&texts[0], &["MariaDB's `uuid`, which does not sort in the order of its bytes", "modify `id` binary(16)"]);
        }
    }

    async fn a_character_set_that_lacks_characters_is_refused(db: TestDb) {
        db.execute("create table t (id varchar(20) character set latin1 collate latin1_nopad_bin primary key)").await;
        db.execute("insert into t values ('?')").await;
        // This is what is refused.
        assert_eq!(db.value("select count(*) from t where id = convert('日' using latin1)").await, "1");
        says(&finding(&db, &[by_id("t", TEXT)]).await, &["a character that `latin1` lacks becomes `?`, which is another key"]);
    }
}

// MariaDB shows them to all who may use the table.
rowlock_testing::engines! { mysql:
    async fn triggers_that_the_user_may_not_see_are_told_of(db: TestDb) -> anyhow::Result<()> {
        db.execute(
            "create table orders (id int primary key, n int);
             create trigger audited before update on orders for each row set new.n = 1",
        )
        .await;
        let user = &db.name()[db.name().len().saturating_sub(28)..];
        db.execute(&format!("create user {user}; grant select, insert, update, delete on {}.* to {user}", db.name())).await;
        let url = db.url().replace("root@", &format!("{user}@"));
        let mut connection = sqlx::MySqlConnection::connect(&url).await?;
        let order = [by_id("orders", INTEGER)];
        let report = check(&order, &Catalog::mysql(&mut connection, &order).await?, Policy::Refuse).unwrap_err();
        says(&report.to_string(), &["1 error, 0 warnings\nerror: this user may not see triggers", "grant trigger on the database"]);
        db.execute(&format!("grant trigger on {}.* to {user}", db.name())).await;
        // A right to a database counts from the next connection on.
        let mut connection = sqlx::MySqlConnection::connect(&url).await?;
        let report = check(&order, &Catalog::mysql(&mut connection, &order).await?, Policy::Refuse).unwrap_err();
        says(&report.to_string(), &["1 error, 0 warnings", "trigger `audited` may lock rows"]);
        db.execute(&format!("drop user {user}")).await;
        Ok(())
    }
}
