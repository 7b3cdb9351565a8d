//! A batch: the requests of one statement, or of one transaction, and what they come to.
//!
//! ```text
//!                     one statement: each row's sum, where it is there        one transaction
//! no token, no ledger ---> the sum fits, or what was found grants nothing ------------------> answers
//!                     \--> it grants some of it, or nothing was found: lock those rows, .. --> answers
//! commit token ----------> lock the rows, read, grant, subtract, token ---------------------> answers
//! ledger ----------------> lock the rows, read; grant; enter; subtract ---------------------> answers
//!                     \--> a request is entered already: roll back, and once more, with a look into the ledger
//! ```
//!
//! **Rows before the ledger.** A request's repeat concerns the same row, so whoever holds the row's lock is alone with the
//! ledger rows of its requests: a plain read, made after the lock, sees every earlier one, and the new ones are written
//! with their outcomes at once. The other way round each ledger row would be written twice, and one process's insert would
//! wait for another's with no place in the lock order. Two that still meet in the ledger (a row that is not there cannot be
//! locked, and a request key may be used for two rows) meet in the order of request keys; the second finds the key taken,
//! rolls back, and runs again. Repeats are rare: the ledger is read before it is written only while there are some.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use super::{Shared, direct::Direct, grant::grant, ledger::Told, queue::Group, rows};
use crate::{Start, Tx, engine::Engine, error::Error, failure::Failure};

/// How often a batch with a ledger is run again because its COMMIT was lost, or because a request came into the ledger
/// meanwhile.
const AGAIN: usize = 10;

/// Groups that have no answer, and why.
type Failed<'g> = (Vec<&'g Group>, Error);

/// Runs the batch and answers everyone in it. What the database refuses is refused for one row as a rule, and not known for
/// which: each row is then tried by itself, so that no other fails for it.
pub(super) async fn run<E: Engine>(shared: &Shared<E>, direct: &mut Direct<E>, groups: &[Group]) {
    let Err((failed, error)) = together(shared, direct, groups).await else { return };
    if failed.len() < 2 || !is_refused::<E>(shared, &error) {
        return fail(shared, &failed, error);
    }
    for group in failed {
        if let Err((failed, error)) = together(shared, direct, std::slice::from_ref(group)).await {
            fail(shared, &failed, error);
        }
    }
}

/// Whether the database said no to what was asked for, and nothing of it was done.
fn is_refused<E: Engine>(shared: &Shared<E>, error: &Error) -> bool {
    match error {
        Error::Counter { .. } => true,
        Error::Database(error @ sqlx::Error::Database(_)) => {
            matches!(Failure::of::<E>(shared.kind.shared.dialect, error), Failure::Other | Failure::Duplicate)
        }
        _ => false,
    }
}

async fn together<'g, E: Engine>(
    shared: &Shared<E>,
    direct: &mut Direct<E>,
    groups: &'g [Group],
) -> Result<(), Failed<'g>> {
    if shared.ledger.is_some() {
        direct.release();
        return entered(shared, groups).await.map_err(|error| (groups.iter().collect(), error));
    }
    let mut rest: Vec<&Group> = groups.iter().collect();
    if direct.serves(shared, groups) {
        match direct.subtract(shared, groups).await {
            Ok(found) => {
                rest.clear();
                for (group, found) in groups.iter().zip(found) {
                    // What was not found may be there all the same: a row that was made while the statement waited.
                    if found.is_some_and(|there| there >= group.total || group.granted(found) == 0) {
                        group.answer(found);
                    } else {
                        rest.push(group);
                    }
                }
            }
            Err(error) => return Err((rest, error)),
        }
    }
    if rest.is_empty() {
        return Ok(());
    }
    direct.release();
    locked(shared, &rest).await.map_err(|error| (rest, error))
}

/// One transaction: lock, read, grant, subtract.
async fn locked<E: Engine>(shared: &Shared<E>, groups: &[&Group]) -> Result<(), Error> {
    let sums = rows::sums(shared, groups.iter().copied());
    let work = async |mut tx: Tx<E, Start>| {
        let locked = rows::lock(tx.inner(), shared, &sums).await?;
        let found = locked.found.clone();
        let granted: Vec<i64> = groups.iter().zip(&found).map(|(group, found)| group.granted(*found)).collect();
        locked.grant(tx.inner(), granted.into_iter()).await?;
        Ok::<_, Error>(found)
    };
    let found = shared.kind.transaction(work).await?;
    groups.iter().zip(found).for_each(|(group, found)| group.answer(found));
    Ok(())
}

/// One transaction, with the ledger.
async fn entered<E: Engine>(shared: &Shared<E>, groups: &[Group]) -> Result<(), Error> {
    let Some(ledger) = &shared.ledger else { return Ok(()) };
    let sums = rows::sums(shared, groups.iter());
    let (mut runs, mut reads) = (0, ledger.expects_repeats());
    // A request is in the ledger already.
    let repeats = AtomicBool::new(false);
    let told = loop {
        let work = async |mut tx: Tx<E, Start>| {
            repeats.store(false, Relaxed);
            let inner = tx.inner();
            let locked = rows::lock(inner, shared, &sums).await?;
            let known = if reads { ledger.read(inner, groups).await? } else { HashMap::new() };
            let entries = ledger.grant(groups, &locked.found, known);
            if !ledger.write(inner, &entries).await? {
                repeats.store(true, Relaxed);
                // Told where it is so each time, though each time another look was taken: the table is not what it was.
                let cause = "requests were entered into the ledger meanwhile, again and again".into();
                return Err(Error::RolledBack { kind: shared.kind.name.clone(), cause });
            }
            locked.grant(inner, entries.granted.iter().copied()).await?;
            Ok::<_, Error>(entries.told)
        };
        runs += 1;
        match shared.kind.transaction(work).await {
            Ok(told) => break told,
            Err(_) if runs < AGAIN && repeats.load(Relaxed) => reads = true,
            // Its own rows in the ledger tell whether it was committed.
            Err(Error::CommitUnknown { .. }) if runs < AGAIN => reads = true,
            Err(error) => return Err(error),
        }
    };
    for (slot, told) in groups.iter().flat_map(|group| &group.slots).zip(told) {
        slot.answer(match told {
            Told::Outcome(outcome) => Ok(outcome),
            Told::Reused => Err(Error::RequestReused {
                kind: shared.kind.name.clone(),
                request: slot.request.as_deref().unwrap_or_default().to_owned(),
            }),
        });
    }
    Ok(())
}

/// Tells everyone why they have no outcome.
fn fail<E: Engine>(shared: &Shared<E>, groups: &[&Group], error: Error) {
    let requests = groups.iter().map(|group| group.slots.len()).sum();
    let source = Arc::new(error);
    for slot in groups.iter().flat_map(|group| &group.slots) {
        slot.answer(Err(Error::Merged { kind: shared.kind.name.clone(), requests, source: source.clone() }));
    }
}

impl Group {
    /// How much of what is asked for is granted where `found` is there.
    fn granted(&self, found: Option<i64>) -> i64 {
        match found {
            Some(found) if found >= self.total => self.total,
            found => grant(found, self.slots.iter().map(|slot| slot.quantity), |_| ()),
        }
    }

    /// Tells everyone its outcome.
    fn answer(&self, found: Option<i64>) {
        let mut slots = self.slots.iter();
        grant(found, self.slots.iter().map(|slot| slot.quantity), |outcome| {
            if let Some(slot) = slots.next() {
                slot.answer(Ok(outcome));
            }
        });
    }
}
