//! PostgreSQL's COPY inside a transaction: rows in bulk, in and out, held to the order like any statement.
//!
//! sqlx sends it by a protocol of its own, and not through `sqlx::query`. What the guard sees is the text: `COPY t FROM` makes
//! rows of `t` whose keys are unknown, `COPY .. TO` reads.

use std::ops::Deref;

use futures_core::stream::BoxStream;
use futures_util::{StreamExt, TryStreamExt};
use sqlx::{AssertSqlSafe, PgConnection, Postgres, SqlSafeStr, SqlStr, postgres::PgCopyIn};
use sqlx_core::bytes::Bytes;

use crate::{
    Tx,
    error::Error,
    guard::Admission,
    inner::{Inner, Notes},
    statement::Statement,
};

impl<L> Tx<Postgres, L> {
    /// Sends `COPY .. FROM STDIN`, and takes its rows: text, CSV or binary, as the statement says. Nothing is there before
    /// [`CopyIn::finish`]. The guard counts it as an INSERT of rows whose keys it does not know.
    ///
    /// ```no_run
    /// # async fn example(mut tx: rowlock::Tx<sqlx::Postgres, rowlock::Start>) -> rowlock::Result<()> {
    /// let mut rows = tx.copy_in_raw("copy events (id, what) from stdin (format csv)").await?;
    /// rows.send(&b"1,paid\n2,sent\n"[..]).await?;
    /// assert_eq!(rows.finish().await?, 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// [`Error::Refused`] for a text that is no COPY, and what the guard says of any statement; else the database's.
    ///
    /// # Cancellation
    /// Dropped before it is finished, here or later, the transaction is given up and its connection hung up, as with any
    /// statement whose future is dropped.
    pub async fn copy_in_raw(&mut self, sql: &str) -> Result<CopyIn<'_>, Error> {
        let inner = self.inner();
        let sql = inner.admit_copy(sql).await?;
        let (connection, mut notes) = inner.split();
        match connection.copy_in_raw(sql.as_str()).await {
            Ok(copy) => Ok(CopyIn { copy, notes }),
            Err(error) => {
                notes.broken(&error);
                Err(error.into())
            }
        }
    }

    /// Sends `COPY .. TO STDOUT`, and gives what comes, in pieces: text, CSV or binary, as the statement says. The guard
    /// counts it as a read, and sees the rows that its query locks.
    ///
    /// ```no_run
    /// # async fn example(mut tx: rowlock::Tx<sqlx::Postgres, rowlock::Start>) -> rowlock::Result<()> {
    /// use futures_util::TryStreamExt;
    ///
    /// let mut pieces = tx.copy_out_raw("copy events to stdout (format csv)").await?;
    /// while let Some(piece) = pieces.try_next().await? {
    ///     println!("{} bytes", piece.len());
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// As [`Tx::copy_in_raw`].
    ///
    /// # Cancellation
    /// Dropped before its end, here or in the stream, the transaction is given up and its connection hung up.
    pub async fn copy_out_raw(&mut self, sql: &str) -> Result<BoxStream<'_, Result<Bytes, sqlx::Error>>, Error> {
        let inner = self.inner();
        let sql = inner.admit_copy(sql).await?;
        let (connection, mut notes) = inner.split();
        let pieces = match connection.copy_out_raw(sql.as_str()).await {
            Ok(pieces) => pieces,
            Err(error) => {
                // sqlx leaves the end of the server's answer unread.
                notes.broken(&error);
                return Err(error.into());
            }
        };
        // It is answered when its end was read, and not before.
        let pieces = futures_util::stream::try_unfold((pieces, notes), async |(mut pieces, mut notes)| {
            match pieces.try_next().await {
                Ok(Some(piece)) => Ok(Some((piece, (pieces, notes)))),
                Ok(None) => {
                    notes.answered();
                    Ok(None)
                }
                Err(error) => {
                    notes.broken(&error);
                    Err(error)
                }
            }
        });
        Ok(pieces.boxed())
    }
}

impl Inner<Postgres> {
    /// Holds a COPY to the order, and marks it as sent.
    async fn admit_copy(&mut self, sql: &str) -> Result<SqlStr, Error> {
        // By the simple protocol any text would be run.
        if !sql.split_whitespace().next().is_some_and(|word| word.eq_ignore_ascii_case("copy")) {
            return Err(self.refuse(sql, "it is no COPY; send it by `sqlx::query`".into()));
        }
        let text = AssertSqlSafe(sql.to_owned()).into_sql_str();
        let statement = Statement::new(text.clone(), sqlx::postgres::PgArguments::default());
        if let Admission::First(first) = self.admit(&statement)? {
            self.take_first(&first, sql).await?;
            self.admit_after(&statement)?;
        }
        self.sending()?;
        Ok(text)
    }
}

/// A COPY that takes rows ([`Tx::copy_in_raw`]).
#[must_use = "without `finish` nothing is copied, and the transaction is given up"]
pub struct CopyIn<'t> {
    copy: PgCopyIn<&'t mut PgConnection>,
    notes: Notes<'t, Postgres>,
}

impl std::fmt::Debug for CopyIn<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CopyIn").finish_non_exhaustive()
    }
}

impl CopyIn<'_> {
    /// Sends a piece of the data; it may end in the middle of a row.
    ///
    /// # Errors
    /// Of the connection. What the server has against the data is told by [`CopyIn::finish`].
    ///
    /// # Cancellation
    /// As [`Tx::copy_in_raw`].
    pub async fn send(&mut self, data: impl Deref<Target = [u8]>) -> Result<(), Error> {
        let sent = self.copy.send(data).await.map(drop);
        sent.map_err(|error| {
            self.notes.broken(&error);
            error.into()
        })
    }

    /// Ends the data; how many rows were copied.
    ///
    /// # Errors
    /// What the server has against them. The transaction can then only be rolled back.
    ///
    /// # Cancellation
    /// As [`Tx::copy_in_raw`].
    pub async fn finish(self) -> Result<u64, Error> {
        let CopyIn { copy, mut notes } = self;
        match copy.finish().await {
            Ok(rows) => {
                notes.answered();
                Ok(rows)
            }
            Err(error) => {
                notes.broken(&error);
                Err(error.into())
            }
        }
    }
}
