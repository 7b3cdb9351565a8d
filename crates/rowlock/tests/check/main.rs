//! Reading the live schema, and the check at start, on real servers: what is understood, and each refusal as a user
//! sees it.

mod changes;
mod innodb;
mod keys;
mod postgres;
mod sqlite;

use rowlock::{Catalog, Checked, KeyType, Policy, ResourceInfo, check};
use rowlock_testing::{Family, TestDb};
use sqlx::{Connection, MySqlConnection, PgConnection, SqliteConnection};

pub(crate) const INTEGER: &[KeyType] = &[KeyType::Integer];
pub(crate) const UNSIGNED: &[KeyType] = &[KeyType::Unsigned];
pub(crate) const UUID: &[KeyType] = &[KeyType::Uuid];
pub(crate) const TEXT: &[KeyType] = &[KeyType::Text];
pub(crate) const BYTES: &[KeyType] = &[KeyType::Bytes];

/// A resource named `R` with the one key column `id`.
pub(crate) fn by_id(table: &'static str, types: &'static [KeyType]) -> ResourceInfo {
    named("R", table, &["id"], types)
}

pub(crate) fn named(
    name: &'static str,
    table: &'static str,
    columns: &'static [&'static str],
    types: &'static [KeyType],
) -> ResourceInfo {
    ResourceInfo { name, table, columns, types }
}

pub(crate) async fn read(db: &TestDb, order: &[ResourceInfo]) -> Catalog {
    let url = db.url();
    let catalog = async {
        match db.family() {
            Family::Postgres => Catalog::postgres(&mut PgConnection::connect(url).await?).await,
            Family::InnoDb => Catalog::mysql(&mut MySqlConnection::connect(url).await?, order).await,
            Family::Sqlite => Catalog::sqlite(&mut SqliteConnection::connect(url).await?).await,
        }
    };
    catalog.await.unwrap_or_else(|error| panic!("{} does not give its schema: {error}", db.engine()))
}

pub(crate) async fn passes(db: &TestDb, order: &[ResourceInfo]) -> Checked {
    check(order, &read(db, order).await, Policy::Refuse).unwrap_or_else(|report| panic!("{report}"))
}

/// The findings' texts, errors and warnings, one a line with its way out.
pub(crate) async fn findings(db: &TestDb, order: &[ResourceInfo]) -> Vec<String> {
    let report = match check(order, &read(db, order).await, Policy::Refuse) {
        Ok(checked) => checked.report,
        Err(report) => report,
    };
    let findings: Vec<String> =
        report.findings.iter().map(|f| f.to_string().replace("\n  way out", "; way out")).collect();
    findings
}

/// The one finding there is.
pub(crate) async fn finding(db: &TestDb, order: &[ResourceInfo]) -> String {
    match &findings(db, order).await[..] {
        [one] => one.clone(),
        findings => panic!("one finding is expected on {}: {findings:#?}", db.engine()),
    }
}

pub(crate) fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

const SHOP: &[ResourceInfo] = &[
    ResourceInfo { name: "Order", table: "orders", columns: &["id"], types: INTEGER },
    ResourceInfo {
        name: "Line",
        table: "order_lines",
        columns: &["order_id", "line"],
        types: &[KeyType::Integer, KeyType::Integer],
    },
];

rowlock_testing::engines! {
    async fn an_order_that_fits_gives_its_targets(db: TestDb) {
        db.execute(
            "create table orders (id bigint not null primary key);
             create table order_lines (order_id bigint not null references orders (id), line int not null, note text,
                 primary key (line, order_id))",
        )
        .await;
        let checked = passes(&db, SHOP).await;
        assert!(checked.report.is_empty(), "{}", checked.report);
        let [order, line] = &checked.targets[..] else { panic!("two targets: {:?}", checked.targets) };
        assert_eq!((order.resource, order.name.name.as_str(), order.primary), ("Order", "orders", true));
        assert!(order.in_index_order && line.primary);
        // The index is (line, order_id): a scan of it is not in the order of the resource's keys.
        assert!(!line.in_index_order);
        let columns: Vec<&str> = line.columns.iter().map(|c| c.name.as_str()).collect();
        assert_eq!(columns, ["order_id", "line"]);
        match db.family() {
            Family::Postgres => assert_eq!((&*order.table, &*order.index), (r#""public"."orders""#, r#""orders_pkey""#)),
            Family::InnoDb => {
                assert_eq!((order.table.clone(), &*order.index), (format!("`{}`.`orders`", db.name()), "`PRIMARY`"));
            }
            Family::Sqlite => assert_eq!(&*order.table, r#""main"."orders""#),
        }
    }

    async fn a_table_that_is_not_there_is_told_with_its_neighbours(db: TestDb) {
        db.execute("create table orders (id bigint not null primary key); create table accounts (id bigint primary key)").await;
        says(&finding(&db, &[by_id("order", INTEGER)]).await, &[
            "error: `R` (table `order`): there is no table `order`",
            "way out: the nearest names are `orders`",
        ]);
        says(&finding(&db, &[by_id("payments", INTEGER)]).await, &["way out: run the migrations that make it"]);
    }

    async fn a_column_that_is_not_there_is_told_with_its_neighbours(db: TestDb) {
        db.execute("create table orders (order_id bigint not null primary key, note int)").await;
        let order = [named("Order", "orders", &["orderid"], INTEGER)];
        says(&finding(&db, &order).await, &["it has no column `orderid`; way out: the nearest names are `order_id`"]);
        says(&finding(&db, &[by_id("orders", INTEGER)]).await, &["its columns are `order_id` and `note`"]);
    }

    async fn a_key_that_is_not_unique_is_refused(db: TestDb) {
        db.execute("create table orders (id bigint not null primary key, customer bigint not null)").await;
        says(&finding(&db, &[named("Order", "orders", &["customer"], INTEGER)]).await, &[
            "`customer` is no primary or unique key: a key must name one row",
            "or declare a key that it has",
        ]);
    }

    async fn part_of_a_key_is_no_key(db: TestDb) {
        db.execute("create table order_lines (order_id bigint not null, line int not null, primary key (order_id, line))").await;
        says(&finding(&db, &[named("Line", "order_lines", &["order_id"], INTEGER)]).await, &["`order_id` is no primary", "(order_id, line)"]);
    }

    async fn a_key_that_may_be_null_is_refused(db: TestDb) {
        db.execute("create table orders (id int not null primary key, number bigint unique)").await;
        let texts = findings(&db, &[named("Order", "orders", &["number"], INTEGER)]).await;
        says(&texts[0], &["error: `Order`", "`number` may be NULL"]);
    }

    async fn a_view_is_refused(db: TestDb) {
        db.execute("create table orders (id bigint not null primary key); create view open_orders as select id from orders").await;
        says(&finding(&db, &[by_id("open_orders", INTEGER)]).await, &["it is a view", "declare the table that the rows stand in"]);
    }

    async fn two_resources_of_one_table_are_refused(db: TestDb) {
        db.execute("create table orders (id bigint not null primary key)").await;
        let full: &'static str = match db.family() {
            Family::Postgres => "public.orders",
            Family::InnoDb => format!("{}.orders", db.name()).leak(),
            Family::Sqlite => "MAIN.Orders",
        };
        let order = [named("Order", "orders", &["id"], INTEGER), named("Purchase", full, &["id"], INTEGER)];
        says(&finding(&db, &order).await, &["`Purchase`", "are one table; way out: declare it once, as `Order`"]);
    }

    async fn cascades_to_what_is_no_resource_are_named(db: TestDb) {
        db.execute(
            "create table orders (id bigint not null primary key);
             create table order_lines (id bigint not null primary key, order_id bigint,
                 constraint line_of foreign key (order_id) references orders (id) on delete cascade);
             create table notes (id bigint not null primary key, line_id bigint,
                 constraint note_of foreign key (line_id) references order_lines (id) on delete set null)",
        )
        .await;
        let texts = findings(&db, &[by_id("orders", INTEGER)]).await;
        assert_eq!(texts.len(), 2, "{texts:?}");
        says(&texts[0], &["error", "a DELETE locks rows of", "order_lines` (foreign key `", "which is no resource"]);
        says(&texts[1], &["a DELETE locks rows of", "notes` by way of", "order_lines`"]);
        // What the order has, the guard counts; what comes before its parent is warned of.
        let (orders, lines, notes) =
            (named("O", "orders", &["id"], INTEGER), named("L", "order_lines", &["id"], INTEGER), named("N", "notes", &["id"], INTEGER));
        assert!(findings(&db, &[orders, lines, notes]).await.is_empty());
        let text = finding(&db, &[lines, notes, orders]).await;
        says(&text, &["warning: `O`", "and `L` comes before it in the order", "declare `L` after `O`"]);
        // By policy.
        let catalog = read(&db, &[orders]).await;
        assert!(check(&[orders], &catalog, Policy::Allow).unwrap().report.is_empty());
        assert_eq!(check(&[orders], &catalog, Policy::Warn).unwrap().report.findings.len(), 2);
    }

    async fn triggers_are_named(db: TestDb) {
        db.execute("create table orders (id bigint not null primary key, n int)").await;
        db.execute(match db.family() {
            Family::Postgres => {
                "create function f() returns trigger language plpgsql as 'begin return new; end';
                 create trigger audited after update on orders for each row execute function f();
                 create trigger asleep after update on orders for each row execute function f();
                 alter table orders disable trigger asleep;
                 create trigger emptied after truncate on orders execute function f()"
            }
            Family::InnoDb => "create trigger audited before update on orders for each row set new.n = 1",
            Family::Sqlite => "create trigger audited after update on orders begin delete from orders where id = 0; end",
        })
        .await;
        assert_eq!(
            finding(&db, &[by_id("orders", INTEGER)]).await.split("; way out").next().unwrap().split("): ").nth(1).unwrap(),
            "trigger `audited` may lock rows that no statement names"
        );
    }
}
