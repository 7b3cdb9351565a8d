//! Taking locks, untyped: one step of a plan, in order, or without waiting where it lies below what is held.
//!
//! **Invariant: a waiting statement is sent only for places that all lie above everything held.** Then every wait climbs
//! the order, and a cycle of waits would have to climb for ever. What lies below is asked for with NOWAIT; when it is
//! busy, the attempt ends and the next one locks all of it up front (Calvin's reconnaissance, "OLLP": Thomson et al.,
//! SIGMOD 2012, section 3.2.1).

use std::time::{Duration, Instant};

use rowlock_footprint::{Dialect, Strength, Wait};

use crate::{
    KeyValue, Plan, ResourceInfo,
    count::Event,
    creation,
    engine::{Engine, Shape},
    error::{Error, Violation},
    failure::Failure,
    held::Standing,
    inner::{Inner, Seen},
    options::{Guard, Late},
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

/// The grace that a cancelled statement has to answer before the connection is given up.
const GRACE: Duration = Duration::from_secs(2);

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
        match ask.wait {
            Wait::Wait => {
                let began = Instant::now();
                let rows = match self.admit_step(step, statement).await? {
                    Some(rows) => rows,
                    None => self.lock_rows(step, Wait::Wait, ask.limit).await?,
                };
                let rows = if rows.len() < step.keys.len() { self.look_again(step, rows, ask).await? } else { rows };
                tracing::trace!(kind = %self.kind, rank = step.rank, rows = rows.len(), waited = ?began.elapsed(), "rowlock: locked");
                Ok(rows)
            }
            Wait::NoWait => {
                // After a NOWAIT that failed half-way, InnoDB keeps what it had got: all of it counts as held.
                self.hold_step(step);
                let rows = self.lock_rows(step, Wait::NoWait, ask.limit).await?;
                if rows.len() < step.keys.len() {
                    let missing = self.missing(step, &rows)?;
                    self.forget(step, &missing);
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
                let strength = self.strength(step.strength);
                keys.into_iter().for_each(|key| self.held.insert(Place::row(step.rank, key), strength));
                Ok(rows)
            }
        }
    }

    /// Makes sure that a waiting statement for `step` climbs the order: what lies below is taken first, without waiting.
    /// Then all of the step counts as held. Where nothing of the step lies ahead, taking it without waiting was all there
    /// was to do, and its rows are given.
    pub(crate) async fn admit_step(
        &mut self,
        step: &Step,
        statement: Option<&str>,
    ) -> Result<Option<Vec<E::Row>>, Error> {
        let strength = self.strength(step.strength);
        let mut late: Vec<KeyValue> = Vec::new();
        let mut first: Option<Standing> = None;
        let mut ahead = false;
        for key in &step.keys {
            let place = Place { rank: step.rank, part: step.part, key: key.clone() };
            match self.held.standing(&place, strength) {
                Standing::Held => {}
                Standing::Ahead => ahead = true,
                standing => {
                    first.get_or_insert(standing);
                    late.push(key.clone());
                }
            }
        }
        let mut rows = None;
        if let Some(standing) = first {
            let keys = if ahead { late } else { step.keys.clone() };
            rows = self.take_late(Step { keys, ..step.clone() }, standing, statement).await?.filter(|_| !ahead);
        }
        self.hold_step(step);
        Ok(rows)
    }

    /// Takes places below what is held, without waiting. `None`: they are still to be taken, by a statement that may wait.
    async fn take_late(
        &mut self,
        step: Step,
        standing: Standing,
        statement: Option<&str>,
    ) -> Result<Option<Vec<E::Row>>, Error> {
        self.count(Event::Late);
        let violation = self.out_of_order(&step, &standing, statement);
        if self.options.late == Late::Refuse || self.options.guard == Guard::Observe {
            self.violation(violation)?;
            return Ok(None);
        }
        if self.fallback {
            self.count(Event::Fallback);
            tracing::warn!(kind = %self.kind, "rowlock: waits for a late place after too many restarts: {violation}");
            return Ok(None);
        }
        if self.dialect() == Dialect::Sqlite {
            // Nobody else can have it. It is told all the same: on a server it could be busy.
            tracing::debug!(kind = %self.kind, "rowlock: {violation}");
            return Ok(None);
        }
        self.hold_step(&step);
        let limit = self.options.wait;
        let taken = match step.part {
            Part::Row => self.lock_rows(&step, Wait::NoWait, limit).await,
            Part::Creation => creation::take(self, &step, Wait::NoWait, limit).await.map(|()| Vec::new()),
        };
        match taken {
            Err(Error::Busy { .. }) => {
                tracing::debug!(kind = %self.kind, "rowlock: restarts: {violation}");
                let strength = step.strength;
                for key in step.keys {
                    self.wanted.insert(Place { rank: step.rank, part: step.part, key }, strength);
                }
                self.seen = Seen::Late;
                Err(Error::OutOfOrder(Box::new(violation)))
            }
            taken => taken.map(Some),
        }
    }

    /// Sends the locking statements of `step`, chunk by chunk in key order. No check of the order is made here.
    async fn lock_rows(&mut self, step: &Step, wait: Wait, limit: Duration) -> Result<Vec<E::Row>, Error> {
        let dialect = self.dialect();
        let model = self.model.clone();
        let target = &model.targets[usize::from(step.rank)];
        let until = Instant::now() + limit;
        let mut rows = Vec::new();
        for keys in step.keys.chunks(E::chunk(dialect, target).max(1)) {
            let shape = Shape { strength: step.strength, wait, room: E::room(dialect, keys.len()) };
            let (text, fresh) = model.lock_text::<E>(step.rank, shape);
            // One row has no order to check; and MariaDB's EXPLAIN of it takes its lock.
            if cfg!(debug_assertions) && fresh && keys.len() > 1 {
                self.explain(step, shape, keys).await?;
            }
            let arguments = E::lock_arguments(dialect, target, keys, shape.room)?;
            let chunk = self.limited(step, Statement::new(text, arguments), wait, until).await?;
            if rows.is_empty() { rows = chunk } else { rows.extend(chunk) }
        }
        if rows.len() > 1 && !E::in_key_order(target) {
            let mut keyed =
                rows.into_iter().map(|row| Ok((E::key(&row, target)?, row))).collect::<Result<Vec<_>, Error>>()?;
            keyed.sort_by(|a, b| a.0.cmp(&b.0));
            rows = keyed.into_iter().map(|(_, row)| row).collect();
        }
        Ok(rows)
    }

    /// One locking statement within its limit. When that is over the statement is cancelled at the server, and answers;
    /// the connection stays good.
    async fn limited(
        &mut self,
        step: &Step,
        statement: Statement<E>,
        wait: Wait,
        until: Instant,
    ) -> Result<Vec<E::Row>, Error> {
        self.sending();
        let began = Instant::now();
        let session = self.connection.session;
        let shared = self.shared.clone();
        let mut cancelled = false;
        let result = {
            let statement = statement.kept(shared.keeps_prepared);
            let fetch = E::fetch_all(self.connection.get(), statement);
            tokio::pin!(fetch);
            match tokio::time::timeout_at(until.into(), &mut fetch).await {
                Ok(result) => result,
                Err(_) => {
                    cancelled = true;
                    if let Some(session) = session {
                        // When this fails, the server's own limit ends the statement a little later.
                        let _ = shared.control.end_session(session, false).await;
                    }
                    match tokio::time::timeout(GRACE, &mut fetch).await {
                        // It may have got its locks at the last moment: then it has them.
                        Ok(result) => result,
                        Err(_) => Err(sqlx::Error::Io(std::io::ErrorKind::TimedOut.into())),
                    }
                }
            }
        };
        self.pace.answered();
        let error = match result {
            Ok(rows) => return Ok(rows),
            Err(error) => error,
        };
        if cancelled {
            self.count(Event::Cancelled);
        }
        let failure = Failure::of::<E>(self.dialect(), &error);
        if failure == Failure::Busy || (cancelled && failure == Failure::Cancelled) {
            self.count(Event::Busy);
            if matches!(self.seen, Seen::Fine) && self.dialect() == Dialect::Postgres {
                self.seen = Seen::Aborted(error.to_string());
            }
            return Err(Error::Busy {
                kind: self.kind.clone(),
                resource: self.resource(step.rank).name,
                keys: step.keys.clone(),
                waited: (wait == Wait::Wait).then(|| began.elapsed()),
            });
        }
        self.note(&error);
        Err(error.into())
    }

    /// Rows are missing. A row that was made while the statement waited is not in its result (its snapshot is older); a
    /// new statement finds it. Nothing that is found now may be waited for: it lies before what is held.
    async fn look_again(&mut self, step: &Step, rows: Vec<E::Row>, ask: Ask) -> Result<Vec<E::Row>, Error> {
        let missing = self.missing(step, &rows)?;
        let again = Step { keys: missing.clone(), ..step.clone() };
        self.forget(step, &missing);
        let found = match self.lock_rows(&again, Wait::NoWait, ask.limit).await {
            Err(Error::Busy { .. }) => {
                for key in missing {
                    self.wanted.insert(Place::row(step.rank, key), step.strength);
                }
                self.seen = Seen::Late;
                let standing = self.held.reach().map_or(Standing::Ahead, Standing::Late);
                return Err(Error::OutOfOrder(Box::new(self.out_of_order(&again, &standing, None))));
            }
            other => other?,
        };
        if found.is_empty() {
            return if ask.all { Err(self.missing_error(step, missing)) } else { Ok(rows) };
        }
        let still = self.missing(&again, &found)?;
        let strength = self.strength(step.strength);
        for key in again.keys.into_iter().filter(|key| !still.contains(key)) {
            self.held.insert(Place::row(step.rank, key), strength);
        }
        if ask.all && !still.is_empty() {
            return Err(self.missing_error(step, still));
        }
        let model = self.model.clone();
        let target = &model.targets[usize::from(step.rank)];
        let mut keyed = rows
            .into_iter()
            .chain(found)
            .map(|row| Ok((E::key(&row, target)?, row)))
            .collect::<Result<Vec<_>, Error>>()?;
        keyed.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(keyed.into_iter().map(|(_, row)| row).collect())
    }

    /// The keys of `step` for which there is no row in `rows`.
    fn missing(&self, step: &Step, rows: &[E::Row]) -> Result<Vec<KeyValue>, Error> {
        let target = &self.model.targets[usize::from(step.rank)];
        let mut there: Vec<KeyValue> = rows.iter().map(|row| E::key(row, target)).collect::<Result<_, _>>()?;
        there.sort_unstable();
        Ok(step.keys.iter().filter(|key| there.binary_search(key).is_err()).cloned().collect())
    }

    fn missing_error(&self, step: &Step, keys: Vec<KeyValue>) -> Error {
        Error::Missing { kind: self.kind.clone(), resource: self.resource(step.rank).name, keys }
    }

    fn out_of_order(&self, step: &Step, standing: &Standing, statement: Option<&str>) -> Violation {
        let place = Place { rank: step.rank, part: step.part, key: step.keys[0].clone() };
        let asked = place.name(self.model.resources);
        let (held, rise) = match standing {
            Standing::Late(reach) => (reach.name(self.model.resources), None),
            Standing::Upgrade(from) => (asked.clone(), Some((*from, step.strength))),
            Standing::Held | Standing::Ahead => (asked.clone(), None),
        };
        Violation { kind: self.kind.clone(), asked, held, rise, statement: statement.map(str::to_owned) }
    }

    /// All of the step counts as held.
    pub(crate) fn hold_step(&mut self, step: &Step) {
        let strength = self.strength(step.strength);
        for key in &step.keys {
            self.held.insert(Place { rank: step.rank, part: step.part, key: key.clone() }, strength);
        }
    }

    /// Rows that are not there are not held: whoever makes one may lock it.
    fn forget(&mut self, step: &Step, missing: &[KeyValue]) {
        for key in missing {
            self.held.remove(&Place::row(step.rank, key.clone()));
        }
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
        match E::explain(self.connection.get(), model.dialect, target, text, arguments).await {
            Ok(None) => {}
            Ok(Some(fault)) => {
                tracing::warn!(kind = %self.kind, resource = self.resource(step.rank).name, "rowlock: the plan does not lock in key order: {fault}");
            }
            Err(error) => {
                self.note(&error);
                return Err(error.into());
            }
        }
        Ok(())
    }
}
