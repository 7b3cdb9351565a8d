//! The rows of a batch: the conditional update that its sums make, by itself or in a transaction.

use std::time::Instant;

use rowlock_footprint::Wait;

use super::{Shared, queue::Group};
use crate::{
    acquire::Ask,
    counter::{Batch, Entry},
    engine::Engine,
    error::Error,
    inner::Inner,
    statement::Statement,
    tally::{Interval, Item, Op},
    update::Work,
};

/// The sums of `groups`, which are sorted by key, as one conditional update: each is subtracted where it is there.
pub(super) fn sums<'a, E: Engine>(shared: &Shared<E>, groups: impl Iterator<Item = &'a Group>) -> Batch {
    let entry = |group: &Group| Entry {
        key: group.key.clone(),
        amount: group.total,
        item: Item { op: Op::Add(-i128::from(group.total)), expect: Interval::ALL },
    };
    Batch {
        column: shared.column,
        sets: false,
        items: groups.map(entry).collect(),
        floor: Some(0),
        cap: None,
        together: false,
        wait: Wait::Wait,
        limit: None,
    }
}

/// Rows that a transaction has locked, and what it found there.
pub(super) struct Locked<'b> {
    work: Work<'b>,
    until: Instant,
    /// One for each of the sums; `None`: there is no row.
    pub(super) found: Vec<Option<i64>>,
}

/// Locks the rows of `sums` and reads the counter.
pub(super) async fn lock<'b, E: Engine>(
    inner: &mut Inner<E>,
    shared: &Shared<E>,
    sums: &'b Batch,
) -> Result<Locked<'b>, Error> {
    let work = Work::new(inner, shared.rank, sums)?;
    let ask = Ask { wait: Wait::Wait, limit: inner.options.wait, all: false };
    let until = Instant::now() + ask.limit;
    let rows = inner.acquire(&work.step, ask, None).await?;
    let mut known = vec![None; sums.items.len()];
    inner.take_in(&work, &rows, &mut known)?;
    let found = known.iter().map(|row| row.map(|row| work.number(row.found)).transpose()).collect::<Result<_, _>>()?;
    Ok(Locked { work, until, found })
}

impl Locked<'_> {
    /// Writes what is left of each row after so much was granted.
    pub(super) async fn subtract<E: Engine>(
        self,
        inner: &mut Inner<E>,
        granted: impl Iterator<Item = i64>,
    ) -> Result<(), Error> {
        let left = |(found, granted): (&Option<i64>, i64)| found.filter(|_| granted != 0).map(|found| found - granted);
        let values: Vec<Option<i64>> = self.found.iter().zip(granted).map(left).collect();
        inner.write(&self.work, &values, self.until).await
    }
}

/// Sends a statement of the merger's own, for its ledger. It is not held to the order by the guard: what it locks lies above
/// all resources.
pub(super) async fn fetch<E: Engine>(inner: &mut Inner<E>, statement: Statement<E>) -> Result<Vec<E::Row>, Error> {
    inner.sending()?;
    let statement = statement.kept(inner.shared.keeps_prepared);
    let result = E::fetch_all(inner.connection.get(), statement).await;
    inner.pace.answered();
    result.inspect_err(|error| inner.note(error)).map_err(Error::from)
}
