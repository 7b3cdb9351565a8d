//! Conditional updates: in a transaction, or alone.
//!
//! ```text
//! items -> by key, sorted -> a tally a key (what all its items come to, and from which values all of them apply)
//!
//! alone, one key        one statement; where it is not enough, a transaction
//! in a transaction      nothing late, and the engine can: change (lock, decide, change), in key order, chunk by chunk
//!                       else: lock as `tx.lock` does
//!   .. then             what is locked and was not changed is decided here, item by item, and written
//! ```
//!
//! **Invariant: a row is changed only under its lock and by the value found there**, by the statement or by this code; so
//! an outcome is what happened, and not what a second look would find. The order is held as by a lock: a change waits only
//! for rows above all that is held (`acquire`).

use std::{ops::Range, sync::Arc, time::Instant};

use futures_core::future::BoxFuture;
use rowlock_footprint::{Strength, Wait};

use crate::{
    Before, Change, Key, KeyValue, Outcome, Outcomes, Resource, Tx,
    acquire::Ask,
    check::CounterColumn,
    count::Event,
    counter::{Batch, Entry},
    deadline,
    engine::{ChangeShape, Changed, Engine, Told},
    error::{Error, KindName},
    held::Standing,
    inner::Inner,
    kind::Kind,
    model::Model,
    place::{Part, Place},
    plan::Step,
    progress::Progress,
    statement::{Statement, changed},
    tally::{Interval, Op, Tally},
};

/// The transaction, at the level of `R`, with what became of the items.
type Updated<E, R> = BoxFuture<'static, Result<(Tx<E, R>, Outcomes<<R as Resource>::Key>), Error>>;

impl<E: Engine, L> Tx<E, L> {
    /// Makes a conditional update and takes the transaction to the level of `R`: the rows are locked in key order as by
    /// [`Tx::lock`], changed where they meet their conditions, and stay locked, changed or not. What became of each item comes
    /// with the [`Tx`], in the order of the input.
    ///
    /// On PostgreSQL one statement (in chunks of 10,000 keys). On MySQL and MariaDB one for one key; for several, and with
    /// `nowait`, one to lock and one to write. On SQLite two. Where a place is late, or a row seems to be missing, one more.
    ///
    /// ```
    /// # rowlock_testing::guide! { db =>
    /// use rowlock::Counter;
    /// const BALANCE: Counter<Account> = Counter::new("balance");
    ///
    /// let moved = db
    ///     .transaction(async |tx| {
    ///         let (tx, taken) = tx.update(BALANCE.subtract([(7, 200)])).await?;
    ///         if !taken.all_applied() {
    ///             return Ok(false);
    ///         }
    ///         let (_tx, given) = tx.update(BALANCE.add([(8, 200)])).await?;
    ///         Ok::<_, rowlock::Error>(given.all_applied())
    ///     })
    ///     .await?;
    /// assert!(moved);
    /// # }
    /// ```
    ///
    /// # Errors
    /// None for an item that is not applied. [`Error::Counter`] for a column that cannot be counted with;
    /// [`Error::Quantity`] for a negative quantity or a value that the column cannot hold, before anything is sent;
    /// [`Error::Busy`] and [`Error::OutOfOrder`] as of [`Lock`](crate::Lock); [`Error::Database`].
    ///
    /// # Cancellation
    /// Dropping the future drops the [`Tx`] in it, and so rolls the transaction back.
    pub fn update<R: Resource>(self, change: Change<R>) -> Updated<E, R>
    where
        L: Before<R>,
    {
        let mut tx: Tx<E, R> = self.at();
        Box::pin(async move {
            let inner = tx.inner();
            inner.shared.knows::<R>()?;
            let keys = typed_keys::<R>(&change.batch)?;
            let outcomes = inner.update(R::RANK, &change.batch).await?;
            Ok((tx, Outcomes::new(keys, outcomes)))
        })
    }
}

impl<E: Engine> Kind<E> {
    /// Makes a conditional update as a transaction of its own.
    ///
    /// Of one key it is one statement, without BEGIN and COMMIT: one round trip, and the row is locked for no longer than the
    /// statement and its commit take. Several keys, `nowait`, a commit token, a pooler, or an isolation level of the kind's
    /// make it a transaction. Retried as one: each attempt decides anew.
    ///
    /// ```
    /// # rowlock_testing::guide! { db =>
    /// use rowlock::{Counter, Outcome};
    /// const STOCK: Counter<Inventory> = Counter::new("stock");
    ///
    /// match db.kind("sell").update(STOCK.subtract([(20, 3)])).await?[0] {
    ///     Outcome::Applied { value } => assert_eq!(value, 97),
    ///     Outcome::Insufficient { found } => panic!("only {found} are left"),
    ///     Outcome::Missing | Outcome::Withheld { .. } => panic!("no such item"),
    /// }
    /// assert_eq!(db.counts().statements, 1);
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`Tx::update`] and [`Kind::transaction`]; besides, [`Error::CommitUnknown`] where the connection was lost while the
    /// one statement was under way, since a server goes on with a statement whose client has gone. With a commit token
    /// that is resolved.
    ///
    /// # Cancellation
    /// Dropped while the one statement is under way, it may have been applied or not (it is ended at the server where it
    /// waits); dropped in a transaction, that is rolled back.
    pub async fn update<R: Resource>(&self, change: Change<R>) -> Result<Outcomes<R::Key>, Error> {
        self.shared.knows::<R>()?;
        let keys = typed_keys::<R>(&change.batch)?;
        check(&self.shared.model(), &self.name, R::RANK, &change.batch)?;
        if change.batch.items.is_empty() {
            return Ok(Outcomes::new(keys, Vec::new()));
        }
        let _inside = self.enter().await?;
        if let Some(outcomes) = self.update_alone(R::RANK, &change.batch).await? {
            self.shared.counters.count(Event::Committed, &self.name);
            return Ok(Outcomes::new(keys, outcomes));
        }
        let kind = self.inside();
        kind.transaction(async |tx: Tx<E, crate::Start>| {
            let (_, outcomes) = tx.update(change.clone()).await?;
            Ok(outcomes)
        })
        .await
    }

    /// One key by one statement. `None`: that is not to be, or was not enough; nothing was changed.
    fn update_alone<'a>(&'a self, rank: u16, batch: &'a Batch) -> BoxFuture<'a, Result<Option<Vec<Outcome>>, Error>> {
        Box::pin(async move {
            let told = E::told(self.shared.dialect, 1, batch.wait);
            let first = &batch.items[0].key;
            if told == Told::Nothing || batch.items.iter().any(|item| item.key != *first) {
                return Ok(None);
            }
            let (began, limit) = (Instant::now(), batch.limit.unwrap_or(self.options.wait));
            let mut progress = Progress::default();
            // A row that was made, or deleted and made again, while the statement waited is found by a new one, which locks it
            // in any case.
            let mut looks = 0;
            while self.goes_alone() {
                let Some(connection) = self.take_alone(&mut progress, began).await? else { continue };
                let mut inner = self.attempt(connection, &progress);
                let work = Work::new(&inner, rank, batch)?;
                // It is what it is busy at, if it is.
                inner.hold_step(&work.step);
                let sent = Instant::now();
                let statement = inner.change_statement(&work, 0..1, looks == 0)?;
                let answer = inner.alone(limit, |connection| E::fetch_changed(connection, statement)).await;
                let changed = match self.answered(inner, answer, &mut progress, (began, sent)).await {
                    Ok(Some(changed)) => changed,
                    Ok(None) => continue,
                    Err(Error::Busy { kind, resource, keys, waited, turned_away }) => {
                        let waited = waited.filter(|_| batch.wait == Wait::Wait);
                        return Err(Error::Busy { kind, resource, keys, waited, turned_away });
                    }
                    Err(error) => return Err(error),
                };
                looks += 1;
                let rows = [changed.first().map(|changed| work.row(&work.tallies[0], changed))];
                match (rows, told) {
                    ([None], Told::All) if looks == 1 => {}
                    ([None], Told::Hits | Told::Nothing) => return Ok(None),
                    _ => {
                        // Of several items some may apply, and the row is not locked any more.
                        let (outcomes, values) = work.decide(&rows)?;
                        return Ok(values.iter().all(Option::is_none).then_some(outcomes));
                    }
                }
            }
            Ok(None)
        })
    }
}

/// The items' keys as the order declares them, before anything is sent.
fn typed_keys<R: Resource>(batch: &Batch) -> Result<Vec<R::Key>, Error> {
    let typed = |entry: &Entry| {
        R::Key::of(&entry.key).ok_or_else(|| {
            let source = format!("key {} does not come back as the type that the order declares", entry.key).into();
            Error::Database(sqlx::Error::ColumnDecode { index: entry.key.to_string(), source })
        })
    };
    batch.items.iter().map(typed).collect()
}

/// A batch, made ready: its keys in lock order, and what is to be done to each.
pub(crate) struct Work<'b> {
    batch: &'b Batch,
    resource: &'static str,
    column: Arc<CounterColumn>,
    pub(crate) step: Step,
    /// By key: which items of the batch, in their order.
    items: Vec<Vec<usize>>,
    tallies: Vec<Tally>,
    /// What may be left in a row.
    bounds: Interval,
}

/// What is known of a row.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    /// Before the change.
    pub(crate) found: i128,
    /// All items of its key were applied.
    pub(crate) done: bool,
}

/// The column, and what may be left in it, if the batch can be meant.
fn check(model: &Model, kind: &KindName, rank: u16, batch: &Batch) -> Result<(Arc<CounterColumn>, Interval), Error> {
    let resource = model.resources[usize::from(rank)].name;
    let column = model.counter(rank, batch.column).map_err(|reason| Error::Counter {
        resource,
        column: batch.column,
        reason,
    })?;
    let bounds = column.range.and(Interval {
        low: batch.floor.map_or(Interval::ALL.low, i128::from),
        high: batch.cap.map_or(Interval::ALL.high, i128::from),
    });
    for Entry { key, amount, item } in &batch.items {
        let reason = match item.op {
            Op::Add(_) if *amount < 0 => "is a negative quantity; use the other of `add` and `subtract`".to_owned(),
            Op::Set(to) if !column.range.has(to) => {
                let Interval { low, high } = column.range;
                format!("does not fit column `{}`, which holds {low} to {high}", column.name)
            }
            _ => continue,
        };
        return Err(Error::Quantity { kind: kind.clone(), resource, key: key.clone(), amount: *amount, reason });
    }
    Ok((column, bounds))
}

impl<'b> Work<'b> {
    pub(crate) fn new<E: Engine>(inner: &Inner<E>, rank: u16, batch: &'b Batch) -> Result<Work<'b>, Error> {
        let resource = inner.resource(rank).name;
        let (column, bounds) = check(&inner.model, &inner.kind, rank, batch)?;
        let mut order: Vec<usize> = (0..batch.items.len()).collect();
        order.sort_by(|a, b| batch.items[*a].key.cmp(&batch.items[*b].key));
        let mut keys: Vec<KeyValue> = Vec::new();
        let mut items: Vec<Vec<usize>> = Vec::new();
        for at in order {
            let key = &batch.items[at].key;
            match items.last_mut() {
                Some(same) if keys.last() == Some(key) => same.push(at),
                _ => {
                    keys.push(key.clone());
                    items.push(vec![at]);
                }
            }
        }
        let tally = |of: &Vec<usize>| Tally::of(of.iter().map(|at| &batch.items[*at].item), bounds, column.range);
        let tallies = items.iter().map(tally).collect();
        let step = Step { rank, part: Part::Row, strength: Strength::NoKeyUpdate, keys };
        Ok(Work { batch, resource, column, step, items, tallies, bounds })
    }

    fn shape(&self, room: usize, alone: bool) -> ChangeShape {
        let Batch { sets, together, wait, .. } = *self.batch;
        ChangeShape::Change { sets, together, wait, alone, room }
    }

    /// What a statement told of the row of `tally`.
    fn row(&self, tally: &Tally, changed: &Changed) -> Row {
        let mut found = i128::from(changed.found);
        if self.column.unsigned && found < 0 {
            found += 1 << 64;
        }
        Row { found, done: changed.done.unwrap_or_else(|| tally.from.has(found)) }
    }

    /// The value that a statement for all of the keys met in each row; `None`: it told of none, or did not change the row
    /// although it should have.
    pub(crate) fn found(&self, changed: &[Changed]) -> Result<Vec<Option<i64>>, Error> {
        let mut found = vec![None; self.tallies.len()];
        for changed in changed {
            if let (Some(found), Some(tally)) = (found.get_mut(changed.at), self.tallies.get(changed.at)) {
                let row = self.row(tally, changed);
                // A trigger may have kept it as it was.
                let as_told = row.done == tally.from.has(row.found);
                *found = if as_told { Some(self.number(row.found)?) } else { None };
            }
        }
        Ok(found)
    }

    pub(crate) fn number(&self, value: i128) -> Result<i64, Error> {
        i64::try_from(value).map_err(|_| self.beyond(value))
    }

    /// Decides each item by what was found, in turn: the outcomes in the order of the input, and by key the value that is
    /// still to be written.
    fn decide(&self, rows: &[Option<Row>]) -> Result<(Vec<Outcome>, Vec<Option<i64>>), Error> {
        let mut outcomes = vec![Outcome::Missing; self.batch.items.len()];
        let mut met = vec![0; self.batch.items.len()];
        let mut values = vec![None; rows.len()];
        for (n, row) in rows.iter().enumerate() {
            let Some(Row { found, done }) = *row else { continue };
            let mut value = found;
            let number = |value: i128| i64::try_from(value).map_err(|_| self.beyond(value));
            for at in &self.items[n] {
                met[*at] = number(value)?;
                outcomes[*at] = match self.batch.items[*at].item.on(value, self.bounds) {
                    Some(left) => {
                        value = left;
                        Outcome::Applied { value: number(left)? }
                    }
                    None => Outcome::Insufficient { found: met[*at] },
                };
            }
            values[n] = if !done && value != found { Some(number(value)?) } else { None };
        }
        if self.batch.together && !outcomes.iter().all(|outcome| outcome.is_applied()) {
            values.fill(None);
            for (outcome, found) in outcomes.iter_mut().zip(met) {
                if outcome.is_applied() {
                    *outcome = Outcome::Withheld { found };
                }
            }
        }
        Ok((outcomes, values))
    }

    fn beyond(&self, value: i128) -> Error {
        let reason = format!("a row holds {value}, which is more than an i64 can; it was left alone");
        Error::Counter { resource: self.resource, column: self.batch.column, reason }
    }
}

impl<E: Engine> Inner<E> {
    async fn update(&mut self, rank: u16, batch: &Batch) -> Result<Vec<Outcome>, Error> {
        let work = Work::new(self, rank, batch)?;
        if work.step.keys.is_empty() {
            return Ok(Vec::new());
        }
        self.hold.start();
        let ask = Ask { wait: batch.wait, limit: batch.limit.unwrap_or(self.options.wait), all: false };
        let until = deadline::of(ask.wait, ask.limit);
        let rows = match self.can_change(&work) {
            true => self.change_rows(&work, ask, until).await?,
            false => {
                let rows = self.acquire(&work.step, ask, None).await?;
                let mut known = vec![None; work.step.keys.len()];
                self.take_in(&work, &rows, &mut known)?;
                known
            }
        };
        let (outcomes, values) = work.decide(&rows)?;
        self.write(&work, &values, until).await?;
        Ok(outcomes)
    }

    /// Whether change statements can do it: no place of it is late, and each statement decides by itself.
    pub(crate) fn can_change(&self, work: &Work<'_>) -> bool {
        let Step { rank, ref keys, strength, .. } = work.step;
        let (dialect, strength) = (self.dialect(), self.strength(strength));
        let chunk = E::chunk(dialect, &self.model.targets[usize::from(rank)]);
        let in_order = |key: &KeyValue| {
            let standing = self.held.standing(&Place::row(rank, key.clone()), strength);
            matches!(standing, Standing::Held | Standing::Ahead)
        };
        E::told(dialect, keys.len(), work.batch.wait) == Told::All
            && (!work.batch.together || keys.len() <= chunk)
            && keys.iter().all(in_order)
    }

    /// Locks, decides and changes, chunk by chunk in key order.
    pub(crate) async fn change_rows(
        &mut self,
        work: &Work<'_>,
        ask: Ask,
        until: Instant,
    ) -> Result<Vec<Option<Row>>, Error> {
        let step = &work.step;
        let own = self.own(step);
        self.hold_step(step);
        let mut known = vec![None; step.keys.len()];
        let chunk = E::chunk(self.dialect(), &self.model.targets[usize::from(step.rank)]).max(1);
        for from in (0..step.keys.len()).step_by(chunk) {
            let to = step.keys.len().min(from + chunk);
            match self.change(work, from..to, until).await {
                Ok(rows) => rows.into_iter().zip(from..).for_each(|(row, at)| known[at] = row),
                Err(error) => {
                    self.doubt(step);
                    return Err(error);
                }
            }
        }
        if known.iter().all(Option::is_some) {
            return Ok(known);
        }
        if ask.wait == Wait::Wait {
            // Those that are there after all are locked, and decided on by the caller.
            let missing = step.keys.iter().zip(&known).filter(|(_, row)| row.is_none()).map(|(key, _)| key.clone());
            let again = Step { keys: missing.collect(), ..*step };
            let found = self.look_again(&again, Vec::new(), ask, &own).await?;
            self.take_in(work, &found, &mut known)?;
        } else {
            let missing: Vec<KeyValue> =
                step.keys.iter().zip(&known).filter(|(_, row)| row.is_none()).map(|(key, _)| key.clone()).collect();
            self.forget(step, &missing, &own);
        }
        Ok(known)
    }

    /// One change statement for some of the keys.
    async fn change(&mut self, work: &Work<'_>, at: Range<usize>, until: Instant) -> Result<Vec<Option<Row>>, Error> {
        let tallies = &work.tallies[at.clone()];
        let statement = self.change_statement(work, at, false)?;
        let changed = self
            .limited(&work.step, work.batch.wait, until, |connection| E::fetch_changed(connection, statement))
            .await?;
        let mut rows = vec![None; tallies.len()];
        for changed in &changed {
            if let (Some(row), Some(tally)) = (rows.get_mut(changed.at), tallies.get(changed.at)) {
                *row = Some(work.row(tally, changed));
            }
        }
        Ok(rows)
    }

    /// `alone`: nothing else is in its transaction.
    pub(crate) fn change_statement(
        &self,
        work: &Work<'_>,
        at: Range<usize>,
        alone: bool,
    ) -> Result<Statement<E>, Error> {
        let (dialect, rank) = (self.dialect(), work.step.rank);
        let target = &self.model.targets[usize::from(rank)];
        let (keys, tallies) = (&work.step.keys[at.clone()], &work.tallies[at]);
        let shape = work.shape(E::room(dialect, keys.len()), alone);
        let text = self.model.change_text::<E>(rank, work.batch.column, &work.column, shape);
        let arguments = E::change_arguments(dialect, target, (keys, tallies), shape)?;
        Ok(Statement::new(text, arguments).kept(self.shared.keeps_prepared))
    }

    /// Takes in locked rows.
    pub(crate) fn take_in(&self, work: &Work<'_>, rows: &[E::Row], known: &mut [Option<Row>]) -> Result<(), Error> {
        let target = &self.model.targets[usize::from(work.step.rank)];
        for row in rows {
            if let Ok(at) = work.step.keys.binary_search(&E::key(row, target)?) {
                known[at] = Some(Row { found: E::number(row, &work.column)?, done: false });
            }
        }
        Ok(())
    }

    /// Writes what was decided here, to rows that are locked.
    pub(crate) async fn write(&mut self, work: &Work<'_>, values: &[Option<i64>], until: Instant) -> Result<(), Error> {
        let model = self.model.clone();
        let (dialect, rank) = (self.dialect(), work.step.rank);
        let target = &model.targets[usize::from(rank)];
        let decided = work.step.keys.iter().zip(values).filter_map(|(key, value)| Some((key.clone(), (*value)?)));
        let (keys, values): (Vec<KeyValue>, Vec<i64>) = decided.unzip();
        let chunk = E::chunk(dialect, target).max(1);
        for (keys, values) in keys.chunks(chunk).zip(values.chunks(chunk)) {
            let room = E::room(dialect, keys.len());
            let shape = ChangeShape::Write { room };
            let text = model.change_text::<E>(rank, work.batch.column, &work.column, shape);
            let arguments = E::write_arguments(dialect, target, (keys, values), room)?;
            let statement = Statement::new(text, arguments).kept(self.shared.keeps_prepared);
            let written = self.limited(&work.step, Wait::Wait, until, |connection| changed::<E>(connection, statement));
            if written.await? != keys.len() as u64 {
                let reason = "a trigger or a policy kept a row from being changed".to_owned();
                return Err(Error::Counter { resource: work.resource, column: work.batch.column, reason });
            }
        }
        Ok(())
    }
}
