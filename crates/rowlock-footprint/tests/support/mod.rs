//! The schema that the tests share: a small order system with one of each trap.
#![allow(unreachable_pub, dead_code, reason = "each test uses a part of this")]

use rowlock_footprint::{Action, Column, Dialect, ForeignKey, Schema, Table, TableName, UniqueKey};

pub const DIALECTS: [Dialect; 4] = [Dialect::Postgres, Dialect::MySql, Dialect::MariaDb, Dialect::Sqlite];

pub fn schema() -> Schema {
    let mut schema = Schema::default();
    for table in [
        Build::new("accounts").column("id", "uuid").column("balance", "bigint").key(&["id"]),
        Build::new("orders")
            .generated("id")
            .column("reference", "text")
            .nullable("account_id", "uuid")
            .column("status", "text")
            .key(&["id"])
            .unique("orders_reference_key", &["reference"])
            .parent("orders_account_fk", &["account_id"], "accounts", &["id"], Action::SetNull),
        Build::new("inventories").column("id", "bigint").column("stock", "int").key(&["id"]),
        Build::new("order_lines")
            .column("order_id", "bigint")
            .column("line", "int")
            .column("item_id", "bigint")
            .column("quantity", "int")
            .key(&["order_id", "line"])
            .parent("line_order_fk", &["order_id"], "orders", &["id"], Action::Cascade)
            .parent("line_item_fk", &["item_id"], "inventories", &["id"], Action::NoAction),
        // At most one for each order.
        Build::new("payments").column("order_id", "bigint").column("amount", "bigint").key(&["order_id"]).parent(
            "payment_order_fk",
            &["order_id"],
            "orders",
            &["id"],
            Action::Cascade,
        ),
        Build::new("events").generated("id").column("body", "text").key(&["id"]),
        Build::new("audited").column("id", "bigint").column("name", "text").key(&["id"]).trigger("audit_row"),
        Build::new("employees").column("id", "bigint").nullable("boss_id", "bigint").key(&["id"]).parent(
            "boss_fk",
            &["boss_id"],
            "employees",
            &["id"],
            Action::Cascade,
        ),
        // A key of text, a unique index over an expression, and one over some rows.
        Build::new("users")
            .column("name", "varchar(40)")
            .column("email", "text")
            .key(&["name"])
            .partial("users_email_idx", &["lower(email)"]),
        Build::new("links").column("a", "bigint").column("b", "bigint").column("note", "text").key(&["a", "b"]).parent(
            "link_line_fk",
            &["b", "a"],
            "order_lines",
            &["line", "order_id"],
            Action::Restrict,
        ),
        Build::new("open_orders").view(),
    ] {
        schema.insert(table.0);
    }
    schema
}

pub struct Build(pub Table);

impl Build {
    pub fn new(name: &str) -> Build {
        Build(Table::new(TableName::parse(name)))
    }

    fn add(mut self, name: &str, type_name: &str, nullable: bool, generated: bool) -> Build {
        let (name, type_name) = (name.to_owned(), type_name.to_owned());
        self.0.columns.push(Column { name, type_name, nullable, generated, collation: None, bytewise: true });
        self
    }

    pub fn column(self, name: &str, type_name: &str) -> Build {
        self.add(name, type_name, false, false)
    }

    pub fn nullable(self, name: &str, type_name: &str) -> Build {
        self.add(name, type_name, true, false)
    }

    pub fn generated(self, name: &str) -> Build {
        self.add(name, "bigint", false, true)
    }

    pub fn key(mut self, columns: &[&str]) -> Build {
        self.0.primary_key = owned(columns);
        let name = format!("{}_pkey", self.0.name.name);
        self.unique(&name, columns)
    }

    pub fn unique(mut self, name: &str, columns: &[&str]) -> Build {
        self.0.unique_keys.push(UniqueKey { name: name.into(), columns: owned(columns), partial: false });
        self
    }

    pub fn partial(mut self, name: &str, columns: &[&str]) -> Build {
        self.0.unique_keys.push(UniqueKey { name: name.into(), columns: owned(columns), partial: true });
        self
    }

    pub fn parent(mut self, name: &str, columns: &[&str], parent: &str, parents: &[&str], on_delete: Action) -> Build {
        self.0.foreign_keys.push(ForeignKey {
            name: name.into(),
            columns: owned(columns),
            parent: TableName::parse(parent),
            parent_columns: owned(parents),
            on_delete,
            on_update: Action::NoAction,
            deferred: false,
        });
        self
    }

    pub fn trigger(mut self, name: &str) -> Build {
        self.0.triggers.push(name.into());
        self
    }

    pub fn view(mut self) -> Build {
        self.0.view = true;
        self
    }
}

fn owned(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&c| c.to_owned()).collect()
}
