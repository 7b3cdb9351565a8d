//! Rows that a condition finds: read, locked in order, and looked at again; or, where busy ones are passed over, claimed.

use std::marker::PhantomData;

use rowlock_footprint::Wait;
use sqlx::{AssertSqlSafe, Encode, FromRow, SqlSafeStr, SqlStr, Type};

use crate::{
    KeyValue, Plan, Resource, Tx,
    acquire::Ask,
    claim::Claim,
    engine::{Engine, where_text},
    error::Error,
    lock::{Locked, Terms, awaited, terms},
    place::Place,
    query::Query,
};

/// Rows of `R` that meet a condition and are about to be locked; made by [`Tx::lock_where`].
///
/// ```
/// # rowlock_testing::guide! { db =>
/// db.transaction(async |tx| {
///     let open = tx.lock_where::<Order>("status = $1 and account <> $2").bind("open").bind(9);
///     let (_tx, ids) = open.limit(10).keys().await?;
///     assert_eq!(ids, [10, 11]);
///     Ok::<_, rowlock::Error>(())
/// })
/// .await?;
/// # }
/// ```
///
/// Its errors and its cancellation are those of [`Lock`](crate::Lock). Rows that meet the condition only after the last look are not
/// had: nothing short of SERIALIZABLE keeps them out.
#[must_use = "a lock is taken when it is awaited"]
pub struct LockWhere<E: Engine, R: Resource> {
    tx: Tx<E, R>,
    condition: SqlStr,
    arguments: Query<E>,
    terms: Terms,
    limit: Option<u32>,
    resource: PhantomData<fn() -> R>,
}

/// How often rows may come in before the rest is left to the next call.
const LOOKS: usize = 10;

impl<E: Engine, R: Resource> LockWhere<E, R> {
    pub(crate) fn new(tx: Tx<E, R>, condition: SqlStr) -> Self {
        LockWhere {
            tx,
            condition,
            arguments: Query::new(""),
            terms: Terms::default(),
            limit: None,
            resource: PhantomData,
        }
    }

    terms!();

    /// Binds the next value of the condition.
    pub fn bind<'q, T: Encode<'q, E> + Type<E>>(mut self, value: T) -> Self {
        self.arguments = self.arguments.bind(value);
        self
    }

    /// Passes over rows that are another transaction's, and waits for none; [`limit`](LockWhere::limit) then counts the rows
    /// that were had. What a worker takes its jobs by:
    ///
    /// ```
    /// # rowlock_testing::guide! { db =>
    /// db.transaction(async |tx| {
    ///     let (_tx, jobs) = tx.lock_where::<Order>("status = 'open'").limit(2).skip_locked().keys().await?;
    ///     assert_eq!(jobs, [10, 11]);
    ///     Ok::<_, rowlock::Error>(())
    /// })
    /// .await?;
    /// # }
    /// ```
    ///
    /// One statement on PostgreSQL. On MySQL and MariaDB, where a scan locks what it passes, the keys are read first: two
    /// statements for each 500 rows that meet the condition, until there are enough.
    pub fn skip_locked(mut self) -> Self {
        self.terms.wait = Wait::SkipLocked;
        self
    }

    /// At most so many rows, those with the smallest keys; fewer when some went out while they were waited for, since others
    /// are not sought in their stead. Default: no limit.
    pub fn limit(mut self, rows: u32) -> Self {
        self.limit = Some(rows);
        self
    }

    async fn run(self) -> Result<(Tx<E, R>, Vec<E::Row>), Error> {
        let LockWhere { mut tx, condition, arguments, terms, limit, .. } = self;
        let inner = tx.inner();
        inner.shared.knows::<R>()?;
        let model = inner.model.clone();
        let target = &model.targets[usize::from(R::RANK)];
        if terms.wait == Wait::SkipLocked {
            let claim = Claim { rank: R::RANK, condition: condition.as_str(), arguments, terms, limit };
            let rows = claim.take(inner).await?;
            return Ok((tx, rows));
        }
        let sql = where_text(target, &target.row, "", condition.as_str(), "", limit);
        let look: Query<E> = arguments.with_sql(AssertSqlSafe(sql).into_sql_str());
        let ask = Ask { wait: terms.wait, limit: terms.limit.unwrap_or(inner.options.wait), all: false };
        let mut rows = look.rows(inner).await?;
        let mut locked: Vec<KeyValue> = Vec::new();
        for _ in 0..LOOKS {
            let found: Vec<KeyValue> = rows.iter().map(|row| E::key(row, target)).collect::<Result<_, _>>()?;
            let new = found.into_iter().filter(|key| locked.binary_search(key).is_err());
            let plan = Plan::new(new.map(|key| (Place::row(R::RANK, key), terms.strength)));
            let [step, ..] = plan.steps() else { return Ok((tx, rows)) };
            // A row that has gone meanwhile is not locked, even if it comes again.
            for row in inner.acquire(step, ask, None).await? {
                locked.push(E::key(&row, target)?);
            }
            locked.sort_unstable();
            // Decided on what is seen under the locks, never on what was read before.
            rows = look.rows(inner).await?;
            if limit.is_some() {
                // Whatever has taken the place of a row that went out lies anywhere, and mostly below what is held. It
                // was not promised: the next call finds it.
                break;
            }
        }
        // Of rows that came in meanwhile, none is locked: those that are locked are given.
        let mut kept = Vec::with_capacity(rows.len());
        for row in rows {
            if locked.binary_search(&E::key(&row, target)?).is_ok() {
                kept.push(row);
            }
        }
        Ok((tx, kept))
    }
}

awaited!(LockWhere);
