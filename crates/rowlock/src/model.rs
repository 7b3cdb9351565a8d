//! What is known of the database, as one value: the schema, where each resource stands in it, and what was worked out
//! from both. A change of the schema makes a new one; transactions under way keep theirs.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{Arc, RwLock},
};

use rowlock_footprint::{Dialect, ForeignKey, Schema, Table, TableName, analyze};
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::{
    ResourceInfo,
    catalog::Catalog,
    check::{CounterColumn, Target, counter},
    creation,
    engine::{ChangeShape, Driver, Shape, UpdateDriver},
    footing::Footing,
};

/// At most this many statement texts are kept. A service has hundreds; one that builds texts with values in them has no
/// end of them, and gets each read anew.
const KEPT: usize = 4096;

/// A column of the resource of that rank, as the program names it.
type CounterName = (u16, &'static str);

pub(crate) struct Model {
    pub(crate) dialect: Dialect,
    pub(crate) fingerprint: u64,
    /// By rank.
    pub(crate) targets: Vec<Target>,
    pub(crate) resources: &'static [ResourceInfo],
    schema: Schema,
    /// Table names are equal when they differ only in ASCII case.
    folded: bool,
    ranks: HashMap<TableName, u16>,
    footings: RwLock<HashMap<Box<str>, Arc<Footing>>>,
    texts: RwLock<HashMap<(u16, Shape), Arc<str>>>,
    /// Columns that were used as counters, or why they cannot be.
    counters: RwLock<HashMap<CounterName, Result<Arc<CounterColumn>, String>>>,
    changes: RwLock<HashMap<(CounterName, ChangeShape), Arc<str>>>,
}

impl Model {
    pub(crate) fn new(catalog: Catalog, targets: Vec<Target>, resources: &'static [ResourceInfo]) -> Model {
        let mut ranks: HashMap<TableName, u16> =
            targets.iter().zip(0u16..).map(|(target, rank)| (target.name.clone(), rank)).collect();
        // A statement on a partition locks rows of the whole.
        for table in catalog.schema.tables() {
            let rank = catalog.ancestors(&table.name).into_iter().find_map(|whole| ranks.get(whole).copied());
            if let Some(rank) = rank {
                ranks.entry(table.name.clone()).or_insert(rank);
            }
        }
        Model {
            dialect: catalog.dialect,
            fingerprint: catalog.fingerprint,
            schema: catalog.schema,
            folded: catalog.folded,
            targets,
            resources,
            ranks,
            footings: RwLock::default(),
            texts: RwLock::default(),
            counters: RwLock::default(),
            changes: RwLock::default(),
        }
    }

    /// Whether tables of that schema are the session's own.
    pub(crate) fn is_temporary(&self, schema: &str) -> bool {
        match self.dialect {
            Dialect::Postgres => schema == "pg_temp" || schema.starts_with("pg_temp_"),
            Dialect::Sqlite => schema.eq_ignore_ascii_case("temp"),
            Dialect::MySql | Dialect::MariaDb => false,
        }
    }

    /// The resource whose table a temporary one of that name would hide.
    pub(crate) fn hidden_by(&self, temporary: &TableName) -> Option<&'static str> {
        let same = |target: &&Target| target.name.name.eq_ignore_ascii_case(&temporary.name);
        self.targets.iter().find(same).map(|target| target.resource)
    }

    pub(crate) fn rank(&self, table: &TableName) -> Option<u16> {
        self.ranks.get(table).copied()
    }

    /// The foreign key of that name that `child` has.
    pub(crate) fn foreign_key(&self, child: &TableName, name: &str) -> Option<&ForeignKey> {
        self.schema.table(child)?.foreign_keys.iter().find(|key| key.name == name)
    }

    /// Whether the foreign key of that name to `parent` is checked at COMMIT.
    pub(crate) fn is_deferred(&self, parent: &TableName, name: &str) -> bool {
        self.schema.children(parent).any(|(_, key)| key.deferred && key.name == name)
    }

    /// What the text of a statement locks, worked out once.
    pub(crate) fn footing(&self, sql: &str) -> Arc<Footing> {
        if let Some(footing) = read(&self.footings).get(sql) {
            return footing.clone();
        }
        let footing = Arc::new(Footing::new(analyze(sql, self.dialect, &self.schema), self));
        let mut kept = write(&self.footings);
        if kept.len() < KEPT {
            kept.insert(sql.into(), footing.clone());
        }
        footing
    }

    /// The class of the creation guards of the resource at `rank`.
    pub(crate) fn class(&self, rank: u16) -> i64 {
        creation::class(self.dialect, &self.targets[usize::from(rank)].name, self.folded)
    }

    /// The classes of all of them, by database.
    pub(crate) fn classes(&self) -> BTreeMap<Option<&str>, BTreeSet<i64>> {
        let mut classes = BTreeMap::<_, BTreeSet<i64>>::new();
        for (target, rank) in self.targets.iter().zip(0..) {
            classes.entry(target.name.schema.as_deref()).or_default().insert(self.class(rank));
        }
        classes
    }

    /// The table of the resource at `rank`.
    pub(crate) fn table(&self, rank: u16) -> Option<&Table> {
        self.schema.table(&self.targets[usize::from(rank)].name)
    }

    /// The column `name` of the resource at `rank` as a counter, checked once; else why it is none.
    pub(crate) fn counter(&self, rank: u16, name: &'static str) -> Result<Arc<CounterColumn>, String> {
        if let Some(known) = read(&self.counters).get(&(rank, name)) {
            return known.clone();
        }
        let found = match self.table(rank) {
            Some(table) => counter(self.dialect, table, name).map(Arc::new),
            None => Err("its table is not there".into()),
        };
        write(&self.counters).insert((rank, name), found.clone());
        found
    }

    /// The resource whose rows the text locks without waiting, if it does.
    pub(crate) fn nowait(&self, sql: &str) -> Option<&'static str> {
        match &*self.footing(sql) {
            Footing::Checked(checked) => checked.demands.iter().find(|demand| !demand.waits),
            Footing::Clear | Footing::Unreadable(_) => None,
        }
        .map(|demand| self.resources[usize::from(demand.rank)].name)
    }

    /// The text that locks rows of the resource at `rank`, made once; and whether this call made it.
    pub(crate) fn lock_text<E: Driver>(&self, rank: u16, shape: Shape) -> (SqlStr, bool) {
        if let Some(text) = read(&self.texts).get(&(rank, shape)) {
            return (AssertSqlSafe(text.clone()).into_sql_str(), false);
        }
        let text: Arc<str> = E::lock_text(self.dialect, &self.targets[usize::from(rank)], shape).into();
        write(&self.texts).insert((rank, shape), text.clone());
        (AssertSqlSafe(text).into_sql_str(), true)
    }

    /// The text that changes a counter of the resource at `rank`, made once.
    pub(crate) fn change_text<E: UpdateDriver>(
        &self,
        rank: u16,
        name: &'static str,
        column: &CounterColumn,
        shape: ChangeShape,
    ) -> SqlStr {
        if let Some(text) = read(&self.changes).get(&((rank, name), shape)) {
            return AssertSqlSafe(text.clone()).into_sql_str();
        }
        let text: Arc<str> = E::change_text(&self.targets[usize::from(rank)], column, shape).into();
        write(&self.changes).insert(((rank, name), shape), text.clone());
        AssertSqlSafe(text).into_sql_str()
    }
}

// A panic while one of these is held leaves a whole map behind: nothing is half written.

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{KeyType, Policy, check};
    use sqlx::Connection;

    const ORDER: &[ResourceInfo] =
        &[ResourceInfo { name: "Order", table: "orders", columns: &["id"], types: &[KeyType::Integer] }];

    rowlock_testing::engines! { postgres:
        async fn a_partition_has_the_rank_of_the_whole(db: rowlock_testing::TestDb) -> anyhow::Result<()> {
            db.execute(
                "create table orders (id bigint primary key) partition by range (id);
                 create table half partition of orders for values from (0) to (10) partition by range (id);
                 create table quarter partition of half for values from (0) to (5);
                 create table others (id bigint primary key)",
            )
            .await;
            let catalog = Catalog::postgres(&mut sqlx::PgConnection::connect(db.url()).await?).await?;
            let checked = check(ORDER, &catalog, Policy::Refuse)?;
            let model = Model::new(catalog, checked.targets, ORDER);
            let rank = |name| model.rank(&TableName::parse(name));
            assert_eq!((rank("public.orders"), rank("public.half"), rank("public.quarter")), (Some(0), Some(0), Some(0)));
            assert_eq!(rank("public.others"), None);
            Ok(())
        }
    }
}
