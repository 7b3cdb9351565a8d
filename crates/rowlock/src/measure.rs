//! The guard's work without the server's, for `crates/bench`. Not part of the public API.

use sqlx::Execute;

use crate::{Query, Tx, engine::Engine, error::Error, guard::Admission, statement::Statement};

/// Holds a statement to the order, and drops it. Whether it would be sent at once.
///
/// # Errors
/// As the statement would give.
pub fn guard<'q, E: Engine, L>(tx: &mut Tx<E, L>, query: impl Execute<'q, E>) -> Result<bool, Error> {
    let statement = Statement::read(query)?;
    Ok(matches!(tx.inner().admit(&statement)?, Admission::Pass))
}

/// As [`guard`], for a statement whose bound values are seen.
///
/// # Errors
/// As the statement would give.
pub fn guard_bound<E: Engine, L>(tx: &mut Tx<E, L>, query: Query<E>) -> Result<bool, Error> {
    let statement = query.into_statement()?;
    Ok(matches!(tx.inner().admit(&statement)?, Admission::Pass))
}
