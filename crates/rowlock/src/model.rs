//! What is known of the database, as one value: the schema, where each resource stands in it, and what was worked out
//! from both. A change of the schema makes a new one; transactions under way keep theirs.

use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
};

use rowlock_footprint::{Dialect, Schema, TableName, analyze};
use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::{
    ResourceInfo,
    catalog::Catalog,
    check::Target,
    engine::{Driver, Shape},
    footing::Footing,
};

/// At most this many statement texts are kept. A service has hundreds; one that builds texts with values in them has no
/// end of them, and gets each read anew.
const KEPT: usize = 4096;

pub(crate) struct Model {
    pub(crate) dialect: Dialect,
    pub(crate) fingerprint: u64,
    /// By rank.
    pub(crate) targets: Vec<Target>,
    pub(crate) resources: &'static [ResourceInfo],
    schema: Schema,
    ranks: HashMap<TableName, u16>,
    footings: RwLock<HashMap<Box<str>, Arc<Footing>>>,
    texts: RwLock<HashMap<(u16, Shape), Arc<str>>>,
}

impl Model {
    pub(crate) fn new(catalog: Catalog, targets: Vec<Target>, resources: &'static [ResourceInfo]) -> Model {
        let ranks = targets.iter().zip(0u16..).map(|(target, rank)| (target.name.clone(), rank)).collect();
        Model {
            dialect: catalog.dialect,
            fingerprint: catalog.fingerprint,
            schema: catalog.schema,
            targets,
            resources,
            ranks,
            footings: RwLock::default(),
            texts: RwLock::default(),
        }
    }

    pub(crate) fn rank(&self, table: &TableName) -> Option<u16> {
        self.ranks.get(table).copied()
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

    /// The text that locks rows of the resource at `rank`, made once; and whether this call made it.
    pub(crate) fn lock_text<E: Driver>(&self, rank: u16, shape: Shape) -> (SqlStr, bool) {
        if let Some(text) = read(&self.texts).get(&(rank, shape)) {
            return (AssertSqlSafe(text.clone()).into_sql_str(), false);
        }
        let text: Arc<str> = E::lock_text(self.dialect, &self.targets[usize::from(rank)], shape).into();
        write(&self.texts).insert((rank, shape), text.clone());
        (AssertSqlSafe(text).into_sql_str(), true)
    }
}

// A panic while one of these is held leaves a whole map behind: nothing is half written.

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(std::sync::PoisonError::into_inner)
}
