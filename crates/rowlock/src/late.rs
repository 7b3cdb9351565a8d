//! Late places: those below what is held. They are not waited for, but after too many restarts and where the guard only tells.
//!
//! One is asked for with NOWAIT; when it is busy, the attempt ends and the next one locks all of it up front (Calvin's
//! reconnaissance, "OLLP": Thomson et al., SIGMOD 2012, section 3.2.1).

use rowlock_footprint::{Dialect, Strength, Wait};

use crate::{
    KeyValue,
    count::Event,
    creation,
    engine::Engine,
    error::Error,
    held::Standing,
    inner::{Inner, Seen},
    options::{Guard, Late},
    place::{Part, Place},
    plan::Step,
    violation::Violation,
};

/// What was late, and was had without waiting.
pub(crate) struct Taken<E: Engine> {
    /// Sorted.
    pub(crate) keys: Vec<KeyValue>,
    pub(crate) rows: Vec<E::Row>,
}

impl<E: Engine> Taken<E> {
    fn nothing() -> Self {
        Taken { keys: Vec::new(), rows: Vec::new() }
    }
}

impl<E: Engine> Inner<E> {
    /// Makes sure that a waiting statement for `step` climbs the order: what lies below is taken first, without waiting.
    /// Then all of the step counts as held. What was late and is had already.
    pub(crate) async fn admit_step(&mut self, step: &Step, statement: Option<&str>) -> Result<Taken<E>, Error> {
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
        let taken = match first {
            Some(standing) => {
                let keys = if ahead { late } else { step.keys.clone() };
                Box::pin(self.take_late(Step { keys, ..step.clone() }, standing, statement)).await?
            }
            None => Taken::nothing(),
        };
        self.hold_step(step);
        Ok(taken)
    }

    /// A late place is not taken by rowlock's own means: it is refused, or only told.
    pub(crate) fn refuses_late(&self) -> bool {
        self.options.late == Late::Refuse || self.options.guard == Guard::Observe
    }

    /// Takes places below what is held, without waiting. (Where they are to be waited for after all, nothing is taken.)
    async fn take_late(&mut self, step: Step, standing: Standing, statement: Option<&str>) -> Result<Taken<E>, Error> {
        self.count(Event::Late);
        let place = Place { rank: step.rank, part: step.part, key: step.keys[0].clone() };
        let violation = self.out_of_order(&place, step.strength, &standing, statement);
        if self.refuses_late() {
            self.violation(violation)?;
            return Ok(Taken::nothing());
        }
        if self.fallback {
            self.count(Event::Fallback);
            tracing::warn!(kind = %self.kind, "rowlock: waits for a late place after too many restarts: {violation}");
            return Ok(Taken::nothing());
        }
        if self.dialect() == Dialect::Sqlite {
            // Nobody else can have it. It is told all the same: on a server it could be busy.
            tracing::debug!(kind = %self.kind, "rowlock: {violation}");
            return Ok(Taken::nothing());
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
            rows => Ok(Taken { rows: rows?, keys: step.keys }),
        }
    }

    pub(crate) fn out_of_order(
        &self,
        place: &Place,
        strength: Strength,
        standing: &Standing,
        statement: Option<&str>,
    ) -> Violation {
        let asked = place.name(self.model.resources);
        let (held, rise) = match standing {
            Standing::Late(reach) => (reach.name(self.model.resources), None),
            Standing::Upgrade(from) => (asked.clone(), Some((*from, strength))),
            Standing::Held | Standing::Ahead => (asked.clone(), None),
        };
        Violation { kind: self.kind.clone(), asked, held, rise, made: None, statement: statement.map(str::to_owned) }
    }
}
