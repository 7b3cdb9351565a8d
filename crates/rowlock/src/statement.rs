//! A statement on its way to the server: read out of whatever sqlx was given, so that the guard can look at it first.

use futures_core::future::BoxFuture;
use futures_util::TryStreamExt;
use sqlx::{Database, Either, Execute, SqlStr};

use crate::{KeyValue, checkout::behind, engine::Engine};

/// Text, arguments, whether to keep it prepared, and the prepared statement if there is one. (A tuple of text and
/// arguments, which sqlx would take too, loses the last two.)
pub struct Statement<E: Database> {
    pub(crate) sql: SqlStr,
    arguments: Option<E::Arguments>,
    persistent: bool,
    prepared: Option<E::Statement>,
    /// The bound values: known only where rowlock bound them itself, since sqlx lets nobody read them.
    pub(crate) bound: Option<Vec<Bound>>,
}

/// A bound value, as far as it says which row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// It can be a key. (An array is the tuple of its elements.)
    Key(KeyValue),
    /// NULL, which is equal to no row.
    Null,
    /// Something that no key column stores, or that cannot be read.
    Other,
}

impl<E: Database> Statement<E> {
    pub(crate) fn read<'q>(mut query: impl Execute<'q, E>) -> Result<Self, sqlx::Error> {
        let prepared = query.statement().cloned();
        let arguments = query.take_arguments().map_err(sqlx::Error::Encode)?;
        let persistent = query.persistent();
        Ok(Statement { arguments, persistent, prepared, sql: query.sql(), bound: None })
    }

    pub(crate) fn new(sql: SqlStr, arguments: E::Arguments) -> Self {
        Statement { sql, arguments: Some(arguments), persistent: true, prepared: None, bound: None }
    }

    /// Whether it may stay prepared once it was sent: not behind a pooler that does not carry prepared statements.
    pub(crate) fn kept(mut self, keeps_prepared: bool) -> Self {
        if !keeps_prepared {
            self.persistent = false;
            self.prepared = None;
        }
        self
    }

    pub(crate) fn with_bound(mut self, bound: Vec<Bound>) -> Self {
        self.bound = Some(bound);
        self
    }
}

impl<E: Database> Execute<'_, E> for Statement<E> {
    fn sql(self) -> SqlStr {
        self.sql
    }
    fn statement(&self) -> Option<&E::Statement> {
        self.prepared.as_ref()
    }
    fn take_arguments(&mut self) -> Result<Option<E::Arguments>, sqlx::error::BoxDynError> {
        Ok(self.arguments.take())
    }
    fn persistent(&self) -> bool {
        self.persistent
    }
}

/// Runs a writing statement; how many rows it changed (matched, on MySQL).
pub(crate) fn changed<E: Engine>(
    connection: &mut E::Connection,
    statement: Statement<E>,
) -> BoxFuture<'_, Result<u64, sqlx::Error>> {
    Box::pin(async move {
        let mut steps = E::fetch_many(connection, statement);
        let mut sum = None;
        loop {
            match steps.try_next().await {
                Ok(Some(Either::Left(result))) => sum = Some(sum.unwrap_or(0) + E::rows_affected(&result)),
                Ok(Some(Either::Right(_))) => {}
                Ok(None) => return Ok(sum.unwrap_or(0)),
                Err(error) if sum.is_some() => return Err(behind::<E>(error)),
                Err(error) => return Err(error),
            }
        }
    })
}
