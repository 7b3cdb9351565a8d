//! Saves edits of versioned rows: one in one statement, many under locks that are taken in key order.

use std::time::Instant;

use futures_core::future::BoxFuture;
use rowlock_footprint::Wait;
use sqlx::FromRow;

use crate::{
    Before, Edit, KeyValue, Plan, Resource, Saved, Tx, Versioned,
    acquire::Ask,
    count::Event,
    deadline,
    edit_text::{self, Editing},
    engine::Engine,
    error::Error,
    failure::Failure,
    guard::Admission,
    inner::Inner,
    kind::Kind,
    place::Place,
    progress::Progress,
    statement::{Statement, changed},
};

/// How often a row that comes and goes between two statements is tried.
const TRIES: usize = 10;

/// It has its version, and is not written all the same.
const UNWRITTEN: &str =
    "the row has the expected version and is not written: a trigger, a rule or row security stands between";

impl<E: Engine> Kind<E> {
    /// Saves an edit as a transaction of its own: one statement, in one round trip; a second one, which reads the row,
    /// where it was not written. It is held to the order, retried, and kept to the wait limit as [`Kind::execute`] is;
    /// and it passes the resource's gate, if there is one.
    ///
    /// # Errors
    /// [`Error::Edit`] for an edit that cannot be: a column that is not there, a version that has come to its column's
    /// end, a row that a trigger keeps as it is. Those of [`Kind::execute`]. A conflict is no error.
    ///
    /// # Cancellation
    /// Dropped while the statement is under way, it may have been applied or not; the row's version tells.
    pub async fn save<T>(&self, edit: Edit<E, T>) -> Result<Saved<T>, Error>
    where
        T: Versioned + for<'r> FromRow<'r, E::Row>,
    {
        self.shared.knows::<T::Resource>()?;
        let kind = self.clone().enters_value(T::Resource::RANK, [edit.key.clone()]);
        let model = self.shared.model();
        for _ in 0..TRIES {
            let editing = Editing::of::<T::Resource, E, T>(&model, &edit)?;
            let changed = kind.execute(edit_text::single(&model, &editing, &edit)).await?;
            if changed > 0 {
                return Ok(Saved::Done { version: edit.version + 1 });
            }
            match self.read::<T>(&edit.key).await? {
                None => return Ok(Saved::Missing),
                // It was made anew in between.
                Some(now) if now.version() == edit.version => {}
                Some(now) => {
                    self.shared.counters.count(Event::Conflict, &self.name);
                    return Ok(Saved::Conflict { now });
                }
            }
        }
        Err(Editing::of::<T::Resource, E, T>(&model, &edit)?.error(None, UNWRITTEN.to_owned()))
    }

    /// Saves many edits, each on its own, in one transaction: the rows are locked in key order, whatever order the
    /// edits come in, and those that still have their version are written. The outcomes, in the order of the edits. Two
    /// trips besides BEGIN and COMMIT for some hundreds of rows (one a row where a column refers to another table).
    ///
    /// # Errors
    /// As of [`Kind::save`]; [`Error::Edit`] also for two edits of one row. Those of [`Kind::transaction`].
    ///
    /// # Cancellation
    /// As of [`Kind::transaction`].
    pub async fn save_each<T>(&self, edits: impl IntoIterator<Item = Edit<E, T>>) -> Result<Vec<Saved<T>>, Error>
    where
        T: Versioned + for<'r> FromRow<'r, E::Row>,
    {
        self.save_many(edits.into_iter().collect(), false).await
    }

    /// As [`save_each`](Kind::save_each), but all or none: where one cannot be written, none is, and those that could
    /// have been are [`Saved::Withheld`].
    ///
    /// # Errors
    /// As of [`Kind::save_each`]. A conflict is no error.
    ///
    /// # Cancellation
    /// As of [`Kind::transaction`].
    pub async fn save_all<T>(&self, edits: impl IntoIterator<Item = Edit<E, T>>) -> Result<Vec<Saved<T>>, Error>
    where
        T: Versioned + for<'r> FromRow<'r, E::Row>,
    {
        self.save_many(edits.into_iter().collect(), true).await
    }

    async fn save_many<T>(&self, edits: Vec<Edit<E, T>>, together: bool) -> Result<Vec<Saved<T>>, Error>
    where
        T: Versioned + for<'r> FromRow<'r, E::Row>,
    {
        self.shared.knows::<T::Resource>()?;
        match edits.len() {
            0 => return Ok(Vec::new()),
            1 => {
                let Some(edit) = edits.into_iter().next() else { return Ok(Vec::new()) };
                return Ok(vec![self.save(edit).await?]);
            }
            _ => {}
        }
        let kind = self.clone().enters_value(T::Resource::RANK, edits.iter().map(|edit| edit.key.clone()));
        kind.transaction(async |mut tx| save_many::<E, T>(tx.inner(), edits.clone(), together).await).await
    }

    /// The row of a key as it is now: one plain read, outside any transaction.
    pub(crate) async fn read<T>(&self, key: &KeyValue) -> Result<Option<T>, Error>
    where
        T: Versioned + for<'r> FromRow<'r, E::Row>,
    {
        self.shared.knows::<T::Resource>()?;
        let row = self.read_row(T::Resource::RANK, key).await?;
        Ok(row.as_ref().map(T::from_row).transpose()?)
    }

    /// Nothing was written: whatever may be run again, is.
    fn read_row<'a>(&'a self, rank: u16, key: &'a KeyValue) -> BoxFuture<'a, Result<Option<E::Row>, Error>> {
        Box::pin(async move {
            let (began, mut progress) = (Instant::now(), Progress::default());
            loop {
                let model = self.shared.model();
                let statement = edit_text::read::<E>(&model, rank, key).into_statement()?;
                let Some(mut connection) = self.take_alone(&mut progress, began).await? else { continue };
                self.shared.counters.count(Event::Statement, &self.name);
                let statement = statement.kept(self.shared.keeps_prepared);
                let error = match E::fetch_optional(connection.get(), statement).await {
                    Ok(row) => return Ok(row),
                    Err(error) => error,
                };
                let failure = Failure::of_undone::<E>(self.shared.dialect, &error);
                // What is broken is not given back.
                connection.set_open(!matches!(error, sqlx::Error::Database(_)));
                match failure {
                    Failure::StalePlan if matches!(error, sqlx::Error::Database(_)) => connection.retire().await,
                    _ => drop(connection),
                }
                if failure.is_transient() {
                    self.failed(&mut progress, began, failure, error.to_string()).await?;
                } else if failure != Failure::SchemaChanged
                    || !self.renewed(&model, &mut progress, began, error.to_string()).await?
                {
                    return Err(error.into());
                }
            }
        })
    }
}

/// The transaction, at the level of the rows, with what became of the edits.
type Kept<E, T, S> = BoxFuture<'static, Result<(Tx<E, <T as Versioned>::Resource>, S), Error>>;

impl<E: Engine, L> Tx<E, L> {
    /// Saves an edit in this transaction, where it takes its place in the order like any lock: one statement; a second
    /// one where it was not written, which locks the row, so that what a conflict shows stays so until the end.
    ///
    /// ```
    /// # rowlock_testing::guide! { db =>
    /// # sqlx::raw_sql("alter table orders add version integer not null default 0").execute(db.pool()).await?;
    /// # db.refresh().await?;
    /// # #[derive(Debug, sqlx::FromRow)] struct Draft { id: i64, version: i64 }
    /// # impl rowlock::Versioned for Draft {
    /// #     type Resource = Order;
    /// #     fn key(&self) -> i64 { self.id }
    /// #     fn version(&self) -> i64 { self.version }
    /// # }
    /// use rowlock::{Edit, Saved};
    ///
    /// db.transaction(async |tx| {
    ///     let edit = Edit::<_, Draft>::at(10, 0).set("status", "approved");
    ///     let (tx, saved) = tx.save(edit).await?; // at the level of `Order` now
    ///     assert_eq!(saved.version(), Some(1));
    ///     tx.lock::<Inventory>([20]).await.map(drop)
    /// })
    /// .await?;
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Edit`] as of [`Kind::save`]; [`Error::Busy`] after the wait limit; [`Error::OutOfOrder`] as of
    /// [`Lock`](crate::Lock); the database's. A conflict is no error.
    ///
    /// # Cancellation
    /// Dropping the future drops the [`Tx`] in it, and so rolls the transaction back.
    pub fn save<T>(self, edit: Edit<E, T>) -> Kept<E, T, Saved<T>>
    where
        T: Versioned + for<'r> FromRow<'r, E::Row>,
        L: Before<T::Resource>,
    {
        let mut tx: Tx<E, T::Resource> = self.at();
        Box::pin(async move {
            let saved = save::<E, T>(tx.inner(), edit).await?;
            Ok((tx, saved))
        })
    }

    /// Saves many edits, each on its own. See [`Kind::save_each`]; two statements for some hundreds of rows.
    ///
    /// # Errors
    /// As of [`Tx::save`]; [`Error::Edit`] also for two edits of one row.
    ///
    /// # Cancellation
    /// Dropping the future drops the [`Tx`] in it, and so rolls the transaction back.
    pub fn save_each<T>(self, edits: impl IntoIterator<Item = Edit<E, T>>) -> Kept<E, T, Vec<Saved<T>>>
    where
        T: Versioned + for<'r> FromRow<'r, E::Row>,
        L: Before<T::Resource>,
    {
        self.keep_many(edits.into_iter().collect(), false)
    }

    /// Saves many edits, all or none; the transaction goes on in either case, with the rows locked. See
    /// [`Kind::save_all`].
    ///
    /// # Errors
    /// As of [`Tx::save_each`].
    ///
    /// # Cancellation
    /// Dropping the future drops the [`Tx`] in it, and so rolls the transaction back.
    pub fn save_all<T>(self, edits: impl IntoIterator<Item = Edit<E, T>>) -> Kept<E, T, Vec<Saved<T>>>
    where
        T: Versioned + for<'r> FromRow<'r, E::Row>,
        L: Before<T::Resource>,
    {
        self.keep_many(edits.into_iter().collect(), true)
    }

    fn keep_many<T>(self, edits: Vec<Edit<E, T>>, together: bool) -> Kept<E, T, Vec<Saved<T>>>
    where
        T: Versioned + for<'r> FromRow<'r, E::Row>,
    {
        let mut tx: Tx<E, T::Resource> = self.at();
        Box::pin(async move {
            let saved = save_many::<E, T>(tx.inner(), edits, together).await?;
            Ok((tx, saved))
        })
    }
}

async fn save<E: Engine, T>(inner: &mut Inner<E>, edit: Edit<E, T>) -> Result<Saved<T>, Error>
where
    T: Versioned + for<'r> FromRow<'r, E::Row>,
{
    inner.shared.knows::<T::Resource>()?;
    let model = inner.model.clone();
    let editing = Editing::of::<T::Resource, E, T>(&model, &edit)?;
    for _ in 0..TRIES {
        let statement = edit_text::single(&model, &editing, &edit).into_statement()?;
        if inner.write_one(&editing, &edit.key, statement).await? > 0 {
            return Ok(Saved::Done { version: edit.version + 1 });
        }
        match inner.lock_versions::<T>(&editing, [edit.key.clone()]).await?.pop() {
            None => return Ok(Saved::Missing),
            // It was made anew in between; now it is locked.
            Some((_, now)) if now.version() == edit.version => {}
            Some((_, now)) => {
                inner.count(Event::Conflict);
                return Ok(Saved::Conflict { now });
            }
        }
    }
    Err(editing.error(None, UNWRITTEN.to_owned()))
}

async fn save_many<E: Engine, T>(
    inner: &mut Inner<E>,
    edits: Vec<Edit<E, T>>,
    together: bool,
) -> Result<Vec<Saved<T>>, Error>
where
    T: Versioned + for<'r> FromRow<'r, E::Row>,
{
    inner.shared.knows::<T::Resource>()?;
    let model = inner.model.clone();
    let editings =
        edits.iter().map(|edit| Editing::of::<T::Resource, E, T>(&model, edit)).collect::<Result<Vec<_>, _>>()?;
    edit_text::refuse_twice::<T::Resource>(edits.iter().map(|edit| &edit.key))?;
    let Some(strongest) = editings.iter().max_by_key(|editing| editing.strength) else { return Ok(Vec::new()) };
    let mut rows = inner.lock_versions::<T>(strongest, edits.iter().map(|edit| edit.key.clone())).await?;
    let mut outcomes: Vec<Saved<T>> = Vec::with_capacity(edits.len());
    for edit in &edits {
        outcomes.push(match rows.binary_search_by(|(key, _)| key.cmp(&edit.key)) {
            Err(_) => Saved::Missing,
            Ok(at) if rows[at].1.version() == edit.version => Saved::Done { version: edit.version + 1 },
            Ok(at) => {
                inner.count(Event::Conflict);
                Saved::Conflict { now: rows.remove(at).1 }
            }
        });
    }
    if together && !outcomes.iter().all(Saved::is_done) {
        outcomes.iter_mut().filter(|outcome| outcome.is_done()).for_each(|outcome| *outcome = Saved::Withheld);
        return Ok(outcomes);
    }
    let mut left: Vec<(&Edit<E, T>, &Editing)> = edits
        .iter()
        .zip(&editings)
        .zip(&outcomes)
        .filter_map(|(edit, outcome)| outcome.is_done().then_some(edit))
        .collect();
    // Those that set the same columns go together.
    left.sort_by(|a, b| a.0.columns.cmp(&b.0.columns).then_with(|| a.0.key.cmp(&b.0.key)));
    for group in left.chunk_by(|a, b| a.0.columns == b.0.columns) {
        let editing = group[0].1;
        let room = if editing.alone { 1 } else { edit_text::room(&model, editing) };
        for chunk in group.chunks(room) {
            let changed = match chunk {
                [(edit, _)] => {
                    let statement = edit_text::single(&model, editing, edit).into_statement()?;
                    inner.write_one(editing, &edit.key, statement).await?
                }
                many => inner.write_many(editing, many).await?,
            };
            if changed != chunk.len() as u64 {
                let reason = format!(
                    "{changed} of {} locked rows were written: a trigger, a rule or row security stands between",
                    chunk.len()
                );
                return Err(editing.error(None, reason));
            }
        }
    }
    Ok(outcomes)
}

impl<E: Engine> Inner<E> {
    /// Sends the statement that writes one row, past the guard and within the wait limit; how many rows it changed.
    async fn write_one(&mut self, editing: &Editing, key: &KeyValue, statement: Statement<E>) -> Result<u64, Error> {
        if let Admission::First(first) = self.admit(&statement)? {
            self.take_first(&first, statement.sql.as_str()).await?;
            self.admit_after(&statement)?;
        }
        let limit = self.options.wait;
        let plan = Plan::new([(Place::row(editing.rank, key.clone()), editing.strength)]);
        let Some(step) = plan.steps().first() else { return Ok(0) };
        let statement = statement.kept(self.shared.keeps_prepared);
        // Who does not wait has it locked by now; the statement has some time to answer all the same.
        let wait = if limit.is_zero() { Wait::NoWait } else { Wait::Wait };
        let until = deadline::of(wait, limit);
        let written = self.limited(step, wait, until, |connection| changed::<E>(connection, statement)).await;
        if written.is_err() {
            self.doubt(step);
        }
        written
    }

    /// Sends one statement that writes rows which are locked.
    async fn write_many<T: Versioned>(
        &mut self,
        editing: &Editing,
        edits: &[(&Edit<E, T>, &Editing)],
    ) -> Result<u64, Error> {
        let model = self.model.clone();
        // The guard knows the statement of one row; what it has against it, it has against many.
        let one = edit_text::single(&model, editing, edits[0].0).into_statement()?;
        if let Admission::First(first) = self.admit(&one)? {
            self.take_first(&first, one.sql.as_str()).await?;
        }
        let statement = edit_text::many(&model, editing, edits)?.kept(self.shared.keeps_prepared);
        self.sending()?;
        let result = changed::<E>(self.connection.get(), statement).await;
        self.pace.answered();
        result.map_err(|error| {
            self.note(&error);
            error.into()
        })
    }

    /// Locks rows, and gives those that are there, by key.
    async fn lock_versions<T>(
        &mut self,
        editing: &Editing,
        keys: impl IntoIterator<Item = KeyValue>,
    ) -> Result<Vec<(KeyValue, T)>, Error>
    where
        T: for<'r> FromRow<'r, E::Row>,
    {
        let model = self.model.clone();
        let plan = Plan::new(keys.into_iter().map(|key| (Place::row(editing.rank, key), editing.strength)));
        let Some(step) = plan.steps().first() else { return Ok(Vec::new()) };
        let ask = Ask { wait: Wait::Wait, limit: self.options.wait, all: false };
        let rows = self.acquire(step, ask, None).await?;
        let target = &model.targets[usize::from(editing.rank)];
        rows.iter().map(|row| Ok((E::key(row, target)?, T::from_row(row)?))).collect()
    }
}
