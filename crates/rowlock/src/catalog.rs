//! The live schema, as one reading of the server: what the check at start and the lock model go by.
//!
//! A reading is one trip (one more on MySQL for each other database that the order names). Statements go by the simple
//! protocol, so that nothing is prepared and a pooler in transaction mode is no obstacle.

pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod sqlite;

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use futures_util::TryStreamExt;
use rowlock_footprint::{ForeignKey, Schema, Table, TableName};
use sqlx::{AssertSqlSafe, Connection, Database, Either, Executor, MySqlConnection, PgConnection, SqliteConnection};

use crate::{Dialect, ResourceInfo};

/// What a server says of its tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catalog {
    /// Which server it is; MySQL and MariaDB are told apart by their version.
    pub dialect: Dialect,
    /// What the server calls its version.
    pub version: String,
    /// Its tables, views included, system schemas left out.
    pub schema: Schema,
    /// Changes when anything changes that the schema was read from. Equal fingerprints are the same schema; different
    /// ones may be too (a table that was rewritten).
    pub fingerprint: u64,
    pub(crate) details: HashMap<TableName, Details>,
    /// The user may not see triggers, so that it is not known which there are.
    pub(crate) triggers_hidden: bool,
    /// Table names are equal when they differ only in ASCII case.
    pub(crate) folded: bool,
}

/// What the check must know of a table beyond the lock model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Details {
    /// What it is when it is not a base table: `view`, `foreign table`.
    pub(crate) kind: Option<&'static str>,
    /// The tables of which it is a partition or an inheriting child: their statements reach its rows.
    pub(crate) parents: Vec<TableName>,
    /// It has inheriting children that are not partitions: its keys are not unique among their rows.
    pub(crate) inherited: bool,
    /// Columns that `*` leaves out (MySQL, MariaDB: INVISIBLE).
    pub(crate) hidden: Vec<String>,
    /// The storage engine (MySQL, MariaDB).
    pub(crate) engine: Option<String>,
}

impl Catalog {
    /// Reads all schemas of the database that `connection` is in, as its user sees them.
    ///
    /// ```no_run
    /// # rowlock::lock_order! { pub order Shop { Order => "orders" (id: i64) } }
    /// # async fn example(connection: &mut sqlx::PgConnection) -> Result<(), Box<dyn std::error::Error>> {
    /// use rowlock::{Catalog, LockOrder, Policy, check};
    ///
    /// let catalog = Catalog::postgres(connection).await?;
    /// let checked = check(Shop::RESOURCES, &catalog, Policy::Refuse)?;
    /// assert!(checked.report.is_empty(), "{}", checked.report);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What sqlx reports.
    pub async fn postgres(connection: &mut PgConnection) -> Result<Catalog, sqlx::Error> {
        postgres::read(connection).await
    }

    /// Reads the database that `connection` is in and those that `order` names (`"stock.items"`). A foreign key that
    /// another database has on these tables is not seen. Where the user may not see triggers, the check says so.
    ///
    /// # Errors
    /// What sqlx reports.
    pub async fn mysql(connection: &mut MySqlConnection, order: &[ResourceInfo]) -> Result<Catalog, sqlx::Error> {
        mysql::read(connection, order).await
    }

    /// Reads the main database and the attached ones.
    ///
    /// # Errors
    /// What sqlx reports.
    pub async fn sqlite(connection: &mut SqliteConnection) -> Result<Catalog, sqlx::Error> {
        sqlite::read(connection).await
    }

    /// The table of that name, in the spelling that the server stores.
    pub(crate) fn table(&self, name: &TableName) -> Option<&Table> {
        self.schema.table(name).or_else(|| {
            let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
            let found = |schema: &str| {
                self.schema.tables().find(|t| {
                    same(&t.name.name, &name.name) && t.name.schema.as_deref().is_some_and(|s| same(s, schema))
                })
            };
            match &name.schema {
                _ if !self.folded => None,
                Some(schema) => found(schema),
                None => self.schema.search_path.iter().find_map(|schema| found(schema)),
            }
        })
    }

    pub(crate) fn details(&self, name: &TableName) -> Option<&Details> {
        self.details.get(name)
    }

    /// The tables whose statements reach rows of `name`: what it is a partition of, and so on upwards.
    pub(crate) fn ancestors(&self, name: &TableName) -> Vec<&TableName> {
        let mut found: Vec<&TableName> = Vec::new();
        let mut next: Vec<&TableName> = self.details(name).map_or_else(Vec::new, |d| d.parents.iter().collect());
        while let Some(parent) = next.pop() {
            if !found.contains(&parent) {
                found.push(parent);
                next.extend(self.details(parent).iter().flat_map(|d| &d.parents));
            }
        }
        found
    }
}

/// Adds a foreign key of one column to the table, or its column to the one of that name which was added last.
fn add_foreign_key(table: &mut Table, column: ForeignKey) {
    match table.foreign_keys.last_mut().filter(|key| key.name == column.name) {
        Some(key) => {
            key.columns.extend(column.columns);
            key.parent_columns.extend(column.parent_columns);
        }
        None => table.foreign_keys.push(column),
    }
}

/// The rows of each statement of `sql`, in one trip.
async fn row_sets<DB: Database>(
    connection: &mut DB::Connection,
    sql: String,
) -> Result<std::vec::IntoIter<Vec<DB::Row>>, sqlx::Error>
where
    DB::Connection: Connection<Database = DB>,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    let mut results = sqlx::raw_sql(AssertSqlSafe(sql)).fetch_many(connection);
    let mut sets = Vec::new();
    let mut set = Vec::new();
    while let Some(result) = results.try_next().await? {
        match result {
            Either::Right(row) => set.push(row),
            Either::Left(_) => sets.push(std::mem::take(&mut set)),
        }
    }
    // SQLite's driver has died: a schema without its last tables would be believed.
    if sets.is_empty() || !set.is_empty() {
        return Err(sqlx::Error::WorkerCrashed);
    }
    Ok(sets.into_iter())
}

fn hash(value: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(folded: bool) -> Catalog {
        let mut schema = Schema::default();
        schema.search_path = vec!["shop".into(), "stock".into()];
        for name in ["shop.Orders", "stock.items", "Other.things"] {
            schema.insert(Table::new(TableName::parse(name)));
        }
        let parents = |names: &[&str]| Details {
            parents: names.iter().map(|name| TableName::parse(name)).collect(),
            ..Details::default()
        };
        // A cycle cannot be made in a server; it must not hang what reads one all the same.
        let details = [("a", &["b"][..]), ("b", &["c"]), ("c", &["a"])];
        let details = details.into_iter().map(|(name, p)| (TableName::parse(name), parents(p))).collect();
        let version = String::new();
        Catalog { dialect: Dialect::MySql, version, schema, fingerprint: 0, details, triggers_hidden: false, folded }
    }

    #[test]
    fn names_are_folded_where_the_server_folds_them() {
        let find =
            |folded, name: &str| catalog(folded).table(&TableName::parse(name)).map(|table| table.name.to_string());
        assert_eq!(find(false, "Orders").as_deref(), Some("shop.Orders"));
        assert_eq!(find(false, "orders"), None);
        assert_eq!(find(true, "orders").as_deref(), Some("shop.Orders"));
        assert_eq!(find(true, "ITEMS").as_deref(), Some("stock.items"));
        assert_eq!(find(true, "other.THINGS").as_deref(), Some("Other.things"));
        assert_eq!(find(true, "things"), None);
    }

    #[test]
    fn ancestors_go_all_the_way_up_once() {
        let catalog = catalog(false);
        let names: Vec<String> = catalog.ancestors(&TableName::parse("a")).iter().map(|n| n.to_string()).collect();
        assert_eq!(names, ["b", "c", "a"]);
    }
}
