//! A statement whose bound values the guard can see.

use futures_util::TryStreamExt;
use sqlx::{Arguments, Either, Encode, FromRow, SqlSafeStr, SqlStr, Type, encode::IsNull};

use crate::{
    KeyValue, Tx,
    check::Target,
    engine::Engine,
    error::Error,
    inner::Inner,
    statement::{Bound, Statement},
};

/// Makes a statement as [`sqlx::query()`] does, with the same `bind`; besides, the guard sees the bound keys, so that it
/// knows which rows the statement locks.
///
/// ```no_run
/// # rowlock::lock_order! { order Shop { Order => "orders" (id: i64) } }
/// # async fn example(tx: &mut rowlock::Tx<sqlx::Postgres, Order>) -> rowlock::Result<()> {
/// rowlock::query("update orders set status = 'paid' where id = $1").bind(10i64).execute(tx).await?;
/// # Ok(()) }
/// ```
pub fn query<E: Engine>(sql: impl SqlSafeStr) -> Query<E> {
    Query::new(sql)
}

/// A statement with its bound values; made by [`query()`].
///
/// # Cancellation
/// Dropped while it is under way in a transaction, what the connection would answer next is not known: the transaction can
/// only be rolled back.
#[must_use = "a statement is sent when it is executed or fetched"]
pub struct Query<E: Engine> {
    sql: SqlStr,
    arguments: E::Arguments,
    bound: Vec<Bound>,
    fault: Option<sqlx::error::BoxDynError>,
}

impl<E: Engine> Query<E> {
    pub(crate) fn new(sql: impl SqlSafeStr) -> Self {
        Query { sql: sql.into_sql_str(), arguments: Default::default(), bound: Vec::new(), fault: None }
    }

    pub(crate) fn with_sql(mut self, sql: SqlStr) -> Self {
        self.sql = sql;
        self
    }

    /// Binds the next value. One that cannot be encoded is an error when the statement is sent.
    pub fn bind<'q, T: Encode<'q, E> + Type<E>>(mut self, value: T) -> Self {
        // The drivers keep bound values to themselves; encoded a second time, by itself, a value can be read.
        let mut encoded = E::ArgumentBuffer::default();
        let kind = value.produces().unwrap_or_else(T::type_info);
        self.bound.push(match value.encode_by_ref(&mut encoded) {
            Ok(IsNull::No) => E::bound(&encoded, &kind).map_or(Bound::Other, Bound::Key),
            Ok(IsNull::Yes) => Bound::Null,
            Err(_) => Bound::Other,
        });
        if let Err(fault) = self.arguments.add(value) {
            self.fault.get_or_insert(fault);
        }
        self
    }

    /// Binds a key, a value a column.
    pub(crate) fn bind_key(mut self, key: &KeyValue, target: &Target) -> Self {
        self.bound.extend(key.columns().iter().cloned().map(Bound::Key));
        if let Err(fault) = E::add_key(&mut self.arguments, target, key) {
            self.fault.get_or_insert(fault.into());
        }
        self
    }

    /// Sends it; how many rows it changed.
    ///
    /// # Errors
    /// [`Error::Refused`] and [`Error::OutOfOrder`] of the guard; the database's.
    pub async fn execute<L>(self, tx: &mut Tx<E, L>) -> Result<u64, Error> {
        self.into_statement()?.send(tx.inner()).await
    }

    /// Sends it; its rows, each as a `T`.
    ///
    /// # Errors
    /// As [`Query::execute`], and those of `T`.
    pub async fn fetch_all<T: for<'r> FromRow<'r, E::Row>>(self, tx: &mut Tx<E, impl Sized>) -> Result<Vec<T>, Error> {
        let rows = rows(self.into_statement()?, tx.inner()).await?;
        Ok(rows.iter().map(T::from_row).collect::<Result<_, _>>()?)
    }

    /// Sends it; its first row, if there is one, as a `T`.
    ///
    /// # Errors
    /// As [`Query::fetch_all`].
    pub async fn fetch_optional<T: for<'r> FromRow<'r, E::Row>>(
        self,
        tx: &mut Tx<E, impl Sized>,
    ) -> Result<Option<T>, Error> {
        let statement = self.into_statement()?;
        let row = tx.inner().optional(statement).await?;
        Ok(row.as_ref().map(T::from_row).transpose()?)
    }

    /// Sends it; its first row as a `T`.
    ///
    /// # Errors
    /// As [`Query::fetch_all`]; [`sqlx::Error::RowNotFound`] without a row.
    pub async fn fetch_one<T: for<'r> FromRow<'r, E::Row>>(self, tx: &mut Tx<E, impl Sized>) -> Result<T, Error> {
        self.fetch_optional(tx).await?.ok_or(Error::Database(sqlx::Error::RowNotFound))
    }

    /// The query with the values of keys behind its own.
    pub(crate) fn again_with<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k KeyValue>,
        target: &Target,
    ) -> Result<Query<E>, Error> {
        let mut again = Query {
            sql: self.sql.clone(),
            arguments: self.arguments.clone(),
            bound: self.bound.clone(),
            fault: self.fault.as_ref().map(|fault| fault.to_string().into()),
        };
        for key in keys {
            E::add_key(&mut again.arguments, target, key)?;
            again.bound.extend(key.columns().iter().cloned().map(Bound::Key));
        }
        Ok(again)
    }

    /// The rows of a query that rowlock made, kept for another time.
    pub(crate) async fn rows(&self, inner: &mut Inner<E>) -> Result<Vec<E::Row>, Error> {
        let rows = rows(self.again()?, inner).await;
        if let Err(Error::Database(error)) = &rows {
            inner.note_own(error);
        }
        rows
    }

    /// The statement, the query kept for another time.
    pub(crate) fn again(&self) -> Result<Statement<E>, Error> {
        match &self.fault {
            Some(fault) => Err(Error::Database(sqlx::Error::Encode(fault.to_string().into()))),
            None => Ok(Statement::new(self.sql.clone(), self.arguments.clone()).with_bound(self.bound.clone())),
        }
    }

    pub(crate) fn into_statement(self) -> Result<Statement<E>, Error> {
        match self.fault {
            Some(fault) => Err(Error::Database(sqlx::Error::Encode(fault))),
            None => Ok(Statement::new(self.sql, self.arguments).with_bound(self.bound)),
        }
    }
}

async fn rows<E: Engine>(statement: Statement<E>, inner: &mut Inner<E>) -> Result<Vec<E::Row>, Error> {
    let rows = inner.stream(statement).try_filter_map(|step| std::future::ready(Ok(step.right())));
    Ok(rows.try_collect().await?)
}

impl<E: Engine> Statement<E> {
    /// Sends it in a transaction; how many rows it changed.
    pub(crate) async fn send(self, inner: &mut Inner<E>) -> Result<u64, Error> {
        let mut steps = inner.stream(self);
        let mut changed = 0;
        while let Some(step) = steps.try_next().await? {
            if let Either::Left(result) = step {
                changed += E::rows_affected(&result);
            }
        }
        Ok(changed)
    }
}
