//! How names find their tables: search paths, quotes, case, parts.
#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod support;

use rowlock_footprint::{Dialect, Rows, Schema, TableName, analyze};
use support::Build;

/// `orders` in two schemas, with other keys, and one whose name needs quotes.
fn schema(search_path: &[&str]) -> Schema {
    let mut schema = Schema::default();
    schema.search_path = search_path.iter().map(|&s| s.to_owned()).collect();
    schema.insert(Build::new("public.orders").column("id", "bigint").key(&["id"]).0);
    schema.insert(Build::new("archive.orders").column("number", "bigint").key(&["number"]).0);
    schema.insert(Build::new("public.Order Lines").column("Id", "bigint").column("id", "bigint").key(&["Id"]).0);
    schema
}

fn locked(sql: &str, dialect: Dialect, search_path: &[&str]) -> (TableName, Rows) {
    let lock = analyze(sql, dialect, &schema(search_path)).unwrap().locks.remove(0);
    (lock.table, lock.rows)
}

fn table(sql: &str, dialect: Dialect, search_path: &[&str]) -> String {
    locked(sql, dialect, search_path).0.to_string()
}

fn key(sql: &str, dialect: Dialect) -> String {
    locked(sql, dialect, &["public"]).1.to_string()
}

#[test]
fn the_search_path_decides() {
    let sql = "select * from orders for update";
    assert_eq!(table(sql, Dialect::Postgres, &["public", "archive"]), "public.orders");
    assert_eq!(table(sql, Dialect::Postgres, &["archive", "public"]), "archive.orders");
    // Not found: as written.
    assert_eq!(table(sql, Dialect::Postgres, &["other"]), "orders");
    assert_eq!(table("select * from archive.orders for update", Dialect::Postgres, &["public"]), "archive.orders");
    assert_eq!(table("select * from shop.archive.orders for update", Dialect::Postgres, &["public"]), "archive.orders");
}

#[test]
fn a_cte_hides_a_table_but_not_one_with_a_schema() {
    let hidden = "with orders as (select 1 as id) select * from orders for update";
    assert!(analyze(hidden, Dialect::Postgres, &schema(&["public"])).unwrap().locks.is_empty());
    let named = "with orders as (select 1 as id) select * from public.orders for update";
    assert_eq!(table(named, Dialect::Postgres, &["public"]), "public.orders");
}

#[test]
fn postgres_folds_what_is_not_quoted() {
    assert_eq!(table("update ORDERS set id = 1", Dialect::Postgres, &["public"]), "public.orders");
    assert_eq!(table("update \"ORDERS\" set id = 1", Dialect::Postgres, &["public"]), "ORDERS");
    assert_eq!(key("delete from \"Order Lines\" where \"Id\" = 1", Dialect::Postgres), "Id = 1");
    assert_eq!(key("delete from \"Order Lines\" where Id = 1", Dialect::Postgres), "some rows");
}

#[test]
fn others_ignore_case_in_columns_and_find_tables_without_it() {
    for dialect in [Dialect::MySql, Dialect::MariaDb, Dialect::Sqlite] {
        assert_eq!(table("update ORDERS set x = 1", dialect, &["public"]), "public.orders");
        assert_eq!(table("update PUBLIC.ORDERS set x = 1", dialect, &[]), "public.orders");
        assert_eq!(key("delete from `orders` where `ID` = 1", dialect), "id = 1");
    }
    let plain = support::schema();
    let lock =
        analyze("delete from main.payments where order_id = 1", Dialect::Sqlite, &plain).unwrap().locks.remove(0);
    assert_eq!(lock.to_string(), "payments: update, order_id = 1, DELETE");
}

#[test]
fn columns_belong_to_the_alias() {
    let sql = "select * from orders a join orders b on a.id = 1 and b.id = 2 for update of b";
    assert_eq!(key(sql, Dialect::Postgres), "id = 2");
    // The table's own name is hidden by its alias.
    assert_eq!(key("select * from orders a where orders.id = 1 for update", Dialect::Postgres), "some rows");
}

#[test]
fn a_table_without_columns_is_read_without_order() {
    let mut schema = Schema::default();
    let mut table = rowlock_footprint::Table::new(TableName::parse("t"));
    table.primary_key = vec!["id".into()];
    schema.insert(table);
    let rows = |sql: &str| analyze(sql, Dialect::Postgres, &schema).unwrap().locks.remove(0).rows;
    assert_eq!(rows("insert into t values (1, 2)"), Rows::Unknown);
    assert_eq!(rows("insert into t (x, id) values (1, 2)").to_string(), "id = 2");
    assert_eq!(rows("update t set x = 1 where id = 2").to_string(), "id = 2");
}
