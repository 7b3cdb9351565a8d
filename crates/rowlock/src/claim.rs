//! Claiming: of the rows that meet a condition those that are free, busy ones passed over. Nothing is waited for, so no order
//! of the rows is kept.
//!
//! PostgreSQL does it in one statement: LIMIT stands above LockRows, which holds the condition against the newest version.
//! InnoDB locks whatever its scan passes, so the scan must be one of keys: they are read first, without a lock, and the
//! claiming statement goes through the key's index, holds the condition against each row that it has locked, lets those go
//! that do not meet it, and stops when it has enough.

use std::time::Instant;

use rowlock_footprint::Wait;
use sqlx::{AssertSqlSafe, SqlSafeStr};

use crate::{
    KeyValue,
    engine::{Engine, where_text},
    error::Error,
    inner::Inner,
    lock::Terms,
    place::{Part, Place},
    plan::Step,
    query::Query,
    statement::Statement,
};

/// How many keys are looked for at once.
const PAGE: u32 = 500;

pub(crate) struct Claim<'c, E: Engine> {
    pub(crate) rank: u16,
    pub(crate) condition: &'c str,
    /// The condition's values.
    pub(crate) arguments: Query<E>,
    pub(crate) terms: Terms,
    pub(crate) limit: Option<u32>,
}

impl<E: Engine> Claim<'_, E> {
    /// Locks them, and gives them in key order.
    pub(crate) async fn take(self, inner: &mut Inner<E>) -> Result<Vec<E::Row>, Error> {
        let model = inner.model.clone();
        let target = &model.targets[usize::from(self.rank)];
        let step = Step { rank: self.rank, part: Part::Row, strength: self.terms.strength, keys: Vec::new() };
        let step = inner.as_sent(&step, Wait::SkipLocked).unwrap_or(step);
        let until = Instant::now() + self.terms.limit.unwrap_or(inner.options.wait);
        let mut rows: Vec<(KeyValue, E::Row)> = Vec::new();
        let mut after: Option<KeyValue> = None;
        loop {
            let left = self.limit.map(|limit| limit.saturating_sub(u32::try_from(rows.len()).unwrap_or(u32::MAX)));
            if left == Some(0) {
                break;
            }
            let among = match E::CLAIMS_AMONG_KEYS {
                true => self.candidates(inner, after.as_ref()).await?,
                false => Vec::new(),
            };
            if E::CLAIMS_AMONG_KEYS && among.is_empty() {
                break;
            }
            let mut claim = self.arguments.again_with(&among, target)?;
            if !E::CLAIMS_AMONG_KEYS {
                // The guard sees the condition as a plain read of it.
                claim = claim.with_sql(
                    AssertSqlSafe(where_text(target, &target.row, "", self.condition, "", left)).into_sql_str(),
                );
                inner.admit(&claim.again()?)?;
            }
            let text = E::claim_text(model.dialect, target, self.condition, step.strength, among.len(), left);
            let statement: Statement<E> = claim.with_sql(AssertSqlSafe(text).into_sql_str()).into_statement()?;
            let statement = statement.kept(inner.shared.keeps_prepared);
            inner.hold.start();
            let had =
                inner.limited(&step, Wait::SkipLocked, until, |connection| E::fetch_all(connection, statement)).await?;
            for row in had {
                let key = E::key(&row, target)?;
                inner.held.insert(Place::row(self.rank, key.clone()), inner.strength(step.strength));
                rows.push((key, row));
            }
            if among.len() < PAGE as usize {
                break;
            }
            after = among.into_iter().next_back();
        }
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(rows.into_iter().map(|(_, row)| row).collect())
    }

    /// The keys of the next rows that meet the condition, busy or not, as the database sorts them.
    async fn candidates(&self, inner: &mut Inner<E>, after: Option<&KeyValue>) -> Result<Vec<KeyValue>, Error> {
        let model = inner.model.clone();
        let target = &model.targets[usize::from(self.rank)];
        let beyond = if after.is_some() { E::beyond_text(target) } else { String::new() };
        let text = where_text(target, &target.key_list(), "", self.condition, &beyond, Some(PAGE));
        let look = self.arguments.again_with(after, target)?;
        let rows = look.with_sql(AssertSqlSafe(text).into_sql_str()).rows(inner).await?;
        Ok(rows.iter().map(|row| E::key(row, target)).collect::<Result<_, _>>()?)
    }
}
