//! The state of one attempt of a transaction, under the typed [`Tx`](crate::Tx).

use std::{collections::BTreeMap, sync::Arc};

use rowlock_footprint::{Dialect, Strength, TableName};

use crate::{
    Policy,
    connection::Connection,
    count::Event,
    db::Shared,
    engine::Engine,
    error::{Error, KindName},
    failure::{Failure, is_out_of_step},
    held::Held,
    hold::{Hold, Pace},
    model::Model,
    options::{Guard, Options},
    place::Place,
    savepoint::Savepoints,
    violation::{Refusal, Violation},
};

const GIVEN_UP: &str = "a statement's future was dropped before it was answered";

pub(crate) struct Inner<E: Engine> {
    pub(crate) connection: Connection<E>,
    pub(crate) shared: Arc<Shared<E>>,
    pub(crate) model: Arc<Model>,
    pub(crate) options: Arc<Options>,
    pub(crate) kind: KindName,
    pub(crate) held: Held,
    /// What was asked for and not had: locked up front by the next attempt.
    pub(crate) wanted: BTreeMap<Place, Strength>,
    pub(crate) seen: Seen,
    pub(crate) hold: Arc<Hold>,
    pub(crate) pace: Pace,
    /// Late places are waited for: this attempt is the stated fallback after too many restarts.
    pub(crate) fallback: bool,
    pub(crate) savepoints: Savepoints,
    /// Temporary tables that the transaction has made: nobody else can lock their rows.
    pub(crate) temporary: Vec<TableName>,
}

/// What the connection saw. The runner decides on this, never on the error that the closure returned: any error type of
/// the user's works, and a database error that was swallowed is still seen.
#[derive(Debug, Default)]
pub(crate) enum Seen {
    #[default]
    Fine,
    /// The server ended the transaction, or the statement in a way that asks for another run.
    Transient(Failure, String),
    /// A late place was busy: run again with all of it locked up front.
    Late,
    /// A statement of rowlock's own did not fit the schema: run again on the schema as it is now, if that is another.
    Outdated(String),
    /// A statement failed and took the transaction with it (PostgreSQL), for a reason that another run will not mend.
    Aborted(String),
}

/// Where the answers to statements are noted, while the connection is borrowed by one.
pub(crate) struct Notes<'a, E: Engine> {
    shared: &'a Shared<E>,
    seen: &'a mut Seen,
    pace: &'a mut Pace,
    model: &'a Model,
    kind: &'a KindName,
}

impl<E: Engine> Notes<'_, E> {
    /// Every statement's error passes here on its way to the user.
    pub(crate) fn note(&mut self, error: &sqlx::Error) {
        let out_of_step = is_out_of_step(self.shared.dialect, error);
        match out_of_step {
            true => self.pace.broken(),
            false => self.pace.answered(),
        }
        let failure = Failure::of_undone::<E>(self.shared.dialect, error);
        if matches!(failure, Failure::SchemaChanged | Failure::StalePlan) {
            self.shared.schema_may_have_changed();
        }
        if failure.is_transient() {
            self.see(Seen::Transient(failure, error.to_string()));
        } else if out_of_step {
            self.see(Seen::Aborted(error.to_string()));
        } else if matches!(error, sqlx::Error::Database(_)) {
            self.failed(&error.to_string());
        }
    }

    /// A statement failed for a reason that another run will not mend: on PostgreSQL that took the transaction with it.
    pub(crate) fn failed(&mut self, cause: &str) {
        if self.shared.dialect == Dialect::Postgres {
            self.see(Seen::Aborted(cause.to_owned()));
        }
    }

    /// What was seen first decides: what comes after it may come of it.
    pub(crate) fn see(&mut self, seen: Seen) {
        if matches!(self.seen, Seen::Fine) {
            *self.seen = seen;
        }
    }

    /// An error of the statement `sql` as the user gets it: typed, where the statement was not to wait (`.. NOWAIT`), and
    /// then not run again.
    pub(crate) fn typed(&mut self, sql: &str, error: sqlx::Error) -> sqlx::Error {
        let dialect = self.shared.dialect;
        if Failure::of::<E>(dialect, &error) == Failure::Busy
            && let Some(resource) = self.model.nowait(sql)
        {
            self.pace.answered();
            self.shared.counters.count(Event::Busy, self.kind);
            self.failed(&error.to_string());
            let kind = self.kind.clone();
            return Error::Busy { kind, resource, keys: Vec::new(), waited: None, turned_away: false }.into();
        }
        self.note(&error);
        error
    }

    /// A statement was answered.
    pub(crate) fn answered(&mut self) {
        self.pace.answered();
    }

    /// A statement failed in the middle of a protocol of its own: the connection is not used again.
    pub(crate) fn broken(&mut self, error: &sqlx::Error) {
        self.note(error);
        self.pace.broken();
        self.see(Seen::Aborted(error.to_string()));
    }
}

impl<E: Engine> Inner<E> {
    pub(crate) fn dialect(&self) -> Dialect {
        self.model.dialect
    }

    pub(crate) fn count(&self, event: Event) {
        self.shared.counters.count(event, &self.kind);
    }

    /// The connection, and beside it where its answers are noted.
    pub(crate) fn split(&mut self) -> (&mut E::Connection, Notes<'_, E>) {
        let Inner { connection, shared, seen, pace, model, kind, .. } = self;
        (connection.get(), Notes { shared, seen, pace, model, kind })
    }

    /// Notes a statement's error.
    pub(crate) fn note(&mut self, error: &sqlx::Error) {
        self.split().1.note(error);
    }

    /// Notes an error of a statement that rowlock made from what it knows of the schema.
    pub(crate) fn note_own(&mut self, error: &sqlx::Error) {
        self.note(error);
        let changed = Failure::of::<E>(self.dialect(), error) == Failure::SchemaChanged;
        if changed && matches!(self.seen, Seen::Fine | Seen::Aborted(_)) {
            self.seen = Seen::Outdated(error.to_string());
        }
    }

    /// Before a statement is sent.
    pub(crate) fn sending(&mut self) -> Result<(), Error> {
        self.asking()?;
        self.shared.counters.count(Event::Statement, &self.kind);
        Ok(())
    }

    /// Before the connection is used. After a statement that was given up, or that left the driver out of step, it is not: the
    /// next answer would be read as that statement's (seen with sqlx's MySQL driver, which then waited for ever).
    pub(crate) fn asking(&mut self) -> Result<(), Error> {
        if self.note_abandoned() {
            let cause = if let Seen::Aborted(cause) = &self.seen { cause.clone() } else { GIVEN_UP.into() };
            return Err(Error::RolledBack { kind: self.kind.clone(), cause });
        }
        self.pace.sent();
        Ok(())
    }

    /// A statement whose future was dropped before it was answered (a timeout of the user's around it) may have been done
    /// or not: nothing of the transaction may be committed. Whether there is one.
    pub(crate) fn note_abandoned(&mut self) -> bool {
        let abandoned = self.pace.is_under_way();
        if abandoned {
            self.split().1.see(Seen::Aborted(GIVEN_UP.into()));
        }
        abandoned
    }

    /// A statement was cancelled, and its answer did not come: it counts as given up, the connection is hung up, and the
    /// transaction run again.
    pub(crate) fn no_answer(&mut self) -> Error {
        self.split().1.see(Seen::Transient(Failure::ConnectionLost, "the server did not answer".into()));
        sqlx::Error::Io(std::io::ErrorKind::TimedOut.into()).into()
    }

    /// A lock out of order that cannot be mended. An error where the guard enforces, else it is traced.
    pub(crate) fn violation(&mut self, violation: Violation) -> Result<(), Error> {
        self.count(Event::Violation);
        match self.options.guard {
            Guard::Enforce => Err(Error::OutOfOrder(Box::new(violation))),
            Guard::Warn if self.shared.told.is_new_violation(&violation) => {
                tracing::warn!(kind = %self.kind, "rowlock: {violation}");
                Ok(())
            }
            Guard::Warn | Guard::Observe => {
                tracing::debug!(kind = %self.kind, "rowlock: {violation}");
                Ok(())
            }
        }
    }

    /// The error for a statement that is not sent.
    pub(crate) fn refuse(&self, statement: &str, reason: String) -> Error {
        self.count(Event::Refusal);
        Error::Refused(Box::new(Refusal { kind: self.kind.clone(), reason, statement: statement.to_owned() }))
    }

    /// Something that the guard cannot see through, under its policy.
    pub(crate) fn judge(&self, policy: Policy, statement: &str, reason: impl FnOnce() -> String) -> Result<(), Error> {
        if policy == Policy::Refuse && self.options.guard < Guard::Enforce {
            self.count(Event::Violation);
        }
        match (policy, self.options.guard) {
            (Policy::Refuse, Guard::Enforce) => Err(self.refuse(statement, reason())),
            (Policy::Allow, _) | (_, Guard::Observe) => {
                tracing::debug!(kind = %self.kind, statement, "rowlock: let pass: {}", reason());
                Ok(())
            }
            _ => {
                let reason = reason();
                match self.shared.told.is_new(&self.kind, statement, &reason) {
                    true => tracing::warn!(kind = %self.kind, statement, "rowlock: let pass: {reason}"),
                    false => tracing::debug!(kind = %self.kind, statement, "rowlock: let pass: {reason}"),
                }
                Ok(())
            }
        }
    }
}
