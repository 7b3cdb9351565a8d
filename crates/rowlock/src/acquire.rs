//! Taking locks, untyped: one step of a plan, in order, or without waiting where it lies below what is held.
//!
//! **Invariant: a waiting statement is sent only for places that all lie above everything held.** Then every wait climbs
//! the order, and a cycle of waits would have to climb for ever. What lies below is late (`late`, which has the exceptions).

use std::time::{Duration, Instant};

use futures_core::future::BoxFuture;
use rowlock_footprint::{Dialect, Strength, Wait};

use crate::{
    KeyValue, Plan, ResourceInfo,
    count::Event,
    creation, deadline,
    engine::{Engine, Shape},
    error::Error,
    failure::Failure,
    held::Standing,
    inner::{Inner, Seen},
    options::Guard,
    place::{Part, Place},
    plan::Step,
    statement::Statement,
};

/// How a step is to be taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ask {
    pub(crate) wait: Wait,
    /// How long it may wait.
    pub(crate) limit: Duration,
    /// Whether rows that are not there are an error.
    pub(crate) all: bool,
}

impl Ask {
    /// Whoever may wait for no time does not wait.
    pub(crate) fn at_once(mut self) -> Ask {
        if self.wait == Wait::Wait && self.limit.is_zero() {
            self.wait = Wait::NoWait;
        }
        self
    }
}

impl<E: Engine> Inner<E> {
    /// Takes all steps of a plan, whatever rows there are.
    pub(crate) async fn acquire_plan(&mut self, plan: &Plan, statement: Option<&str>) -> Result<(), Error> {
        let ask = Ask { wait: Wait::Wait, limit: self.options.wait, all: false };
        for step in plan.steps() {
            match step.part {
                Part::Row => drop(self.acquire(step, ask, statement).await?),
                Part::Creation => creation::acquire(self, step, ask).await?,
            }
        }
        Ok(())
    }

    /// Locks the rows of `step` and gives them in key order. `statement` is the user's own, for whose sake it is done.
    pub(crate) async fn acquire(
        &mut self,
        step: &Step,
        ask: Ask,
        statement: Option<&str>,
    ) -> Result<Vec<E::Row>, Error> {
        self.hold.start();
        let ask = ask.at_once();
        let own = self.own(step);
        match ask.wait {
            Wait::Wait => {
                let taken = self.admit_step(step, statement).await?;
                let mut rows = match taken.keys.len() {
                    0 => self.lock_rows(step, Wait::Wait, ask.limit).await?,
                    all if all == step.keys.len() => taken.rows,
                    // What was late is not asked for again: a row that was not there could be another's by now.
                    _ => {
                        let ahead = self.lock_rows(&step.without(&taken.keys), Wait::Wait, ask.limit).await?;
                        self.in_key_order(step, taken.rows.into_iter().chain(ahead))?
                    }
                };
                if rows.len() < step.keys.len() {
                    rows = Box::pin(self.look_again(step, rows, ask, &own)).await?;
                }
                tracing::trace!(kind = %self.kind, rank = step.rank, rows = rows.len(), "rowlock: locked");
                Ok(rows)
            }
            Wait::NoWait => {
                // After a NOWAIT that failed half-way, InnoDB keeps what it had got: all of it counts as held.
                self.hold_step(step);
                let rows = self.lock_rows(step, Wait::NoWait, ask.limit).await?;
                if rows.len() < step.keys.len() {
                    let missing = self.missing(step, &rows)?;
                    self.forget(step, &missing, &own);
                    if ask.all {
                        return Err(self.missing_error(step, missing));
                    }
                }
                Ok(rows)
            }
            Wait::SkipLocked => {
                let rows = self.lock_rows(step, Wait::SkipLocked, ask.limit).await?;
                let target = &self.model.targets[usize::from(step.rank)];
                let keys: Vec<KeyValue> = rows.iter().map(|row| E::key(row, target)).collect::<Result<_, _>>()?;
                let sent = self.as_sent(step, Wait::SkipLocked).map_or(step.strength, |sent| sent.strength);
                let strength = self.strength(sent);
                keys.into_iter().for_each(|key| self.held.insert(Place::row(step.rank, key), strength));
                Ok(rows)
            }
        }
    }

    /// Sends the locking statements of `step`, chunk by chunk in key order. No check of the order is made here. When it
    /// fails, some of the rows may be locked, and it is not known which.
    pub(crate) async fn lock_rows(&mut self, step: &Step, wait: Wait, limit: Duration) -> Result<Vec<E::Row>, Error> {
        let sent = self.as_sent(step, wait);
        let step = sent.as_ref().unwrap_or(step);
        if wait == Wait::NoWait {
            self.hold_step(step);
        }
        let rows = self.lock_chunks(step, wait, limit).await;
        if rows.is_err() && wait != Wait::SkipLocked {
            self.doubt(step);
        }
        rows
    }

    /// Another strength than was asked for, where that one would wait all the same: PostgreSQL's FOR KEY SHARE passes a row's
    /// change by another transaction and waits for a stronger lock that stands on the new version, with NOWAIT and SKIP
    /// LOCKED too (heap_lock_updated_tuple knows neither; seen on 15 and 18). Share stops at the change.
    pub(crate) fn as_sent(&self, step: &Step, wait: Wait) -> Option<Step> {
        let passes = step.strength == Strength::KeyShare && self.dialect() == Dialect::Postgres;
        (passes && wait != Wait::Wait).then(|| Step { strength: Strength::Share, ..step.clone() })
    }

    async fn lock_chunks(&mut self, step: &Step, wait: Wait, limit: Duration) -> Result<Vec<E::Row>, Error> {
        let dialect = self.dialect();
        let model = self.model.clone();
        let target = &model.targets[usize::from(step.rank)];
        let until = deadline::of_lock(wait, limit, step.keys.len());
        let mut rows = Vec::new();
        for keys in step.keys.chunks(E::chunk(dialect, target).max(1)) {
            let shape = Shape { strength: step.strength, wait, room: E::room(dialect, keys.len()) };
            let (text, fresh) = model.lock_text::<E>(step.rank, shape);
            // One row has no order to check; and MariaDB's EXPLAIN of it takes its lock.
            if cfg!(debug_assertions) && fresh && keys.len() > 1 {
                self.explain(step, shape, keys).await?;
            }
            let arguments = E::lock_arguments(dialect, target, keys, shape.room)?;
            let statement = Statement::new(text, arguments).kept(self.shared.keeps_prepared);
            let chunk = self.limited(step, wait, until, |connection| E::fetch_all(connection, statement)).await?;
            if rows.is_empty() { rows = chunk } else { rows.extend(chunk) }
        }
        if rows.len() > 1 && !E::in_key_order(target) {
            rows = self.in_key_order(step, rows)?;
        }
        Ok(rows)
    }

    fn in_key_order(&self, step: &Step, rows: impl IntoIterator<Item = E::Row>) -> Result<Vec<E::Row>, Error> {
        let target = &self.model.targets[usize::from(step.rank)];
        let mut keyed =
            rows.into_iter().map(|row| Ok((E::key(&row, target)?, row))).collect::<Result<Vec<_>, Error>>()?;
        keyed.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(keyed.into_iter().map(|(_, row)| row).collect())
    }

    /// One locking statement within its limit. When that is over the statement is cancelled at the server, and answers;
    /// the connection stays good.
    pub(crate) async fn limited<T>(
        &mut self,
        step: &Step,
        wait: Wait,
        until: Instant,
        send: impl for<'e> FnOnce(&'e mut E::Connection) -> BoxFuture<'e, Result<T, sqlx::Error>>,
    ) -> Result<T, Error> {
        self.sending()?;
        let began = Instant::now();
        let session = self.connection.session;
        let shared = self.shared.clone();
        let answer = send(self.connection.get());
        // What it got at the last moment, it has.
        let (result, cancelled) = deadline::within(&shared, session, until, answer).await;
        let busy = |this: &Self| Error::Busy {
            kind: this.kind.clone(),
            resource: this.resource(step.rank).name,
            keys: step.keys.clone(),
            waited: (wait == Wait::Wait).then(|| began.elapsed()),
            turned_away: false,
        };
        if cancelled {
            self.count(Event::Cancelled);
        }
        let Some(result) = result else { return Err(self.no_answer()) };
        self.pace.answered();
        let error = match result {
            Ok(rows) => return Ok(rows),
            Err(error) => error,
        };
        let failure = Failure::of::<E>(self.dialect(), &error);
        if failure == Failure::Busy || (cancelled && failure == Failure::Cancelled) {
            self.count(Event::Busy);
            self.split().1.failed(&error.to_string());
            return Err(busy(self));
        }
        self.note_own(&error);
        Err(error.into())
    }

    /// Rows are missing. A row that was made while the statement waited is not in its result (its snapshot is older); a
    /// new statement finds it. Nothing that is found now may be waited for: it lies before what is held. Where a late place
    /// is waited for all the same (the fallback, a guard that only tells), so is this.
    pub(crate) async fn look_again(
        &mut self,
        step: &Step,
        rows: Vec<E::Row>,
        ask: Ask,
        own: &[KeyValue],
    ) -> Result<Vec<E::Row>, Error> {
        let missing = self.missing(step, &rows)?;
        let again = Step { keys: missing.clone(), ..step.clone() };
        self.forget(step, &missing, own);
        let told = self.refuses_late() && self.options.guard < Guard::Enforce;
        let wait = if told || self.fallback { Wait::Wait } else { Wait::NoWait };
        self.hold_step(&again);
        let found = match self.lock_rows(&again, wait, ask.limit).await {
            Err(Error::Busy { .. }) if wait == Wait::NoWait => {
                let standing = self.held.reach().map_or(Standing::Ahead, Standing::Late);
                let place = Place::row(step.rank, again.keys[0].clone());
                let violation = self.out_of_order(&place, step.strength, &standing, None);
                if self.refuses_late() {
                    self.count(Event::Violation);
                    return Err(Error::OutOfOrder(Box::new(violation)));
                }
                for key in missing {
                    self.wanted.insert(Place::row(step.rank, key), step.strength);
                }
                self.seen = Seen::Late;
                return Err(Error::OutOfOrder(Box::new(violation)));
            }
            other => other?,
        };
        let still = self.missing(&again, &found)?;
        self.forget(step, &still, own);
        if ask.all && !still.is_empty() {
            return Err(self.missing_error(step, still));
        }
        self.in_key_order(step, rows.into_iter().chain(found))
    }

    /// The keys of `step` for which there is no row in `rows`.
    pub(crate) fn missing(&self, step: &Step, rows: &[E::Row]) -> Result<Vec<KeyValue>, Error> {
        let target = &self.model.targets[usize::from(step.rank)];
        let mut there: Vec<KeyValue> = rows.iter().map(|row| E::key(row, target)).collect::<Result<_, _>>()?;
        there.sort_unstable();
        Ok(step.keys.iter().filter(|key| there.binary_search(key).is_err()).cloned().collect())
    }

    fn missing_error(&self, step: &Step, keys: Vec<KeyValue>) -> Error {
        Error::Missing { kind: self.kind.clone(), resource: self.resource(step.rank).name, keys }
    }

    /// All of the step counts as held.
    pub(crate) fn hold_step(&mut self, step: &Step) {
        let strength = self.strength(step.strength);
        for key in &step.keys {
            self.held.insert(Place { rank: step.rank, part: step.part, key: key.clone() }, strength);
        }
    }

    /// The keys of `step` that were held before it.
    pub(crate) fn own(&self, step: &Step) -> Vec<KeyValue> {
        let place = |key: &KeyValue| Place { rank: step.rank, part: step.part, key: key.clone() };
        step.keys.iter().filter(|key| self.held.strength(&place(key)).is_some()).cloned().collect()
    }

    /// Rows that are not there are not held: whoever makes one may lock it. But the transaction's `own`, which it has
    /// deleted, are: whoever makes one waits.
    pub(crate) fn forget(&mut self, step: &Step, missing: &[KeyValue], own: &[KeyValue]) {
        for key in missing.iter().filter(|key| !own.contains(key)) {
            self.held.remove(&Place::row(step.rank, key.clone()));
        }
    }

    /// Some of the step may be locked, it is not known which: none of it may be waited for any more, as a place that is
    /// held could be.
    pub(crate) fn doubt(&mut self, step: &Step) {
        for key in &step.keys {
            self.held.remove(&Place { rank: step.rank, part: step.part, key: key.clone() });
        }
        self.held.insert_unknown(step.rank, self.strength(step.strength));
    }

    pub(crate) fn strength(&self, asked: Strength) -> Strength {
        asked.on(self.dialect())
    }

    pub(crate) fn resource(&self, rank: u16) -> &'static ResourceInfo {
        &self.model.resources[usize::from(rank)]
    }

    /// In debug builds each new locking text is explained once: a plan that does not lock in the order of the keys is
    /// told, with what it does.
    async fn explain(&mut self, step: &Step, shape: Shape, keys: &[KeyValue]) -> Result<(), Error> {
        let model = self.model.clone();
        let target = &model.targets[usize::from(step.rank)];
        let text = E::lock_text(model.dialect, target, shape);
        let arguments = E::lock_arguments(model.dialect, target, keys, shape.room)?;
        self.asking()?;
        let plan = E::explain(self.connection.get(), model.dialect, target, text, arguments).await;
        self.pace.answered();
        match plan {
            Ok(None) => {}
            Ok(Some(fault)) => {
                tracing::warn!(kind = %self.kind, resource = self.resource(step.rank).name, "rowlock: the plan does not lock in key order: {fault}");
            }
            Err(error) => {
                self.note_own(&error);
                return Err(error.into());
            }
        }
        Ok(())
    }
}
