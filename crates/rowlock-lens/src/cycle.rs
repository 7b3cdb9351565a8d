//! Cycles of waits that transactions can come to: each holds what the one before it waits for.
//!
//! Every kind of transaction can run several times at once, so a kind may stand in a cycle more than once. A cycle is left
//! out when it cannot close: two of its transactions would hold a row at once that both lock exclusively (the first of them
//! is a gate for the other), or all of them climb one order of keys.

use std::collections::HashSet;

use rowlock_footprint::{Literal, Value};

use crate::report::Engine;
use crate::request::{Request, Requests, equal};

/// Most transactions in a cycle. (Coffman's circular wait has no limit; longer ones than this, nobody's logs had.)
const LONGEST: usize = 4;
/// Most steps of the search for cycles of three and more.
const MOST_STEPS: usize = 2_000_000;
/// Most waits that are looked at, of all transactions together.
const MOST_WAITS: usize = 6_000;

/// A wait that can come about: a transaction holds one lock and waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wait {
    /// The transaction's place among the kinds.
    pub(crate) kind: usize,
    /// The place of the lock that it holds, among its requests.
    pub(crate) held: usize,
    /// The place of the one that it waits for.
    pub(crate) wanted: usize,
}

/// What the search came to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cycles {
    /// Each wait is for what the next one holds.
    pub(crate) cycles: Vec<Vec<Wait>>,
    /// It was given up before its end.
    pub(crate) cut: bool,
}

/// All cycles that are not made of shorter ones.
pub(crate) fn cycles(kinds: &[Requests], engine: Engine) -> Cycles {
    let mut search = Search { kinds, engine, found: Cycles::default(), steps: 0 };
    let mut waits = search.waits();
    if waits.len() > MOST_WAITS {
        waits.truncate(MOST_WAITS);
        search.found.cut = true;
    }
    let mut paired: HashSet<Wait> = HashSet::new();
    for (at, a) in waits.iter().enumerate() {
        for b in waits.iter().skip(at) {
            let pair = [*a, *b];
            if search.meets(a, b) && search.meets(b, a) && search.can_close(&pair) {
                search.found.cycles.push(pair.to_vec());
                paired.extend(pair);
            }
        }
    }
    waits.retain(|wait| !paired.contains(wait));
    for (at, first) in waits.iter().enumerate() {
        search.extend(&mut vec![*first], waits.get(at..).unwrap_or_default());
    }
    search.found
}

struct Search<'a> {
    kinds: &'a [Requests],
    engine: Engine,
    found: Cycles,
    steps: usize,
}

/// A value in a cycle: one that is written, or a parameter of one of its transactions.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Term<'a> {
    Literal(&'a Literal),
    Parameter(usize, usize),
}

impl<'a> Term<'a> {
    fn of(value: &'a Value, transaction: usize) -> Option<Term<'a>> {
        match value {
            Value::Literal(literal) => Some(Term::Literal(literal)),
            Value::Parameter(n) => Some(Term::Parameter(transaction, *n)),
            Value::ParameterArray(_) | Value::Unknown => None,
        }
    }
}

impl<'a> Search<'a> {
    fn locks(&self, kind: usize) -> &'a [Request] {
        self.kinds.get(kind).map(|kind| kind.locks.as_slice()).unwrap_or_default()
    }

    fn request(&self, kind: usize, at: usize) -> Option<&'a Request> {
        self.locks(kind).get(at)
    }

    fn waits(&self) -> Vec<Wait> {
        let mut waits = Vec::new();
        for kind in 0..self.kinds.len() {
            let locks = self.locks(kind);
            for (wanted, lock) in locks.iter().enumerate() {
                let has = |earlier: &Request| {
                    earlier.surely_meets(lock, true) && earlier.strength >= lock.strength && earlier.wait == lock.wait
                };
                let before = locks.get(..wanted).unwrap_or_default();
                if lock.wait != rowlock_footprint::Wait::Wait || before.iter().any(has) {
                    continue;
                }
                // A scan holds the rows behind it while it waits for the next.
                let last = if lock.row.is_none() { wanted + 1 } else { wanted };
                waits.extend((0..last).map(|held| Wait { kind, held, wanted }));
            }
        }
        waits
    }

    /// Whether `waiter` can wait for what `holder` holds.
    fn meets(&self, waiter: &Wait, holder: &Wait) -> bool {
        let (Some(wanted), Some(held)) =
            (self.request(waiter.kind, waiter.wanted), self.request(holder.kind, holder.held))
        else {
            return false;
        };
        wanted.may_meet(held) && wanted.waits_for(held, self.engine)
    }

    fn can_close(&self, cycle: &[Wait]) -> bool {
        let gated = |a: &Wait, b: &Wait| {
            let held = |wait: &Wait| self.locks(wait.kind).get(..wait.wanted).unwrap_or_default();
            held(a).iter().any(|a| {
                held(b).iter().any(|b| {
                    a.surely_meets(b, false)
                        && a.strength.conflicts(b.strength)
                        && (a.waits_for(b, self.engine) || b.waits_for(a, self.engine))
                })
            })
        };
        let pairs = cycle.iter().enumerate().flat_map(|(at, a)| cycle.iter().skip(at + 1).map(move |b| (a, b)));
        let climbs = |wait: &Wait| {
            let held = self.request(wait.kind, wait.held);
            let rises = self.kinds.get(wait.kind).map(|kind| kind.rises.as_slice()).unwrap_or_default();
            held.zip(self.request(wait.kind, wait.wanted)).is_some_and(|(held, wanted)| held.climbs_to(wanted, rises))
        };
        self.binds(cycle) && !pairs.into_iter().any(|(a, b)| gated(a, b)) && !cycle.iter().all(climbs)
    }

    /// Whether parameters can have values by which each wait is for the row that the next one holds.
    fn binds(&self, cycle: &[Wait]) -> bool {
        let mut classes: Vec<Vec<Term<'_>>> = Vec::new();
        let nexts = cycle.iter().skip(1).chain(cycle.first());
        for (at, (waiter, holder)) in cycle.iter().zip(nexts).enumerate() {
            let keys = self
                .request(waiter.kind, waiter.wanted)
                .and_then(|request| request.row.as_ref())
                .zip(self.request(holder.kind, holder.held).and_then(|request| request.row.as_ref()));
            let Some((wanted, held)) = keys.filter(|(wanted, held)| wanted.columns == held.columns) else { continue };
            for (a, b) in wanted.values.iter().zip(&held.values) {
                let terms = Term::of(a, at).zip(Term::of(b, (at + 1) % cycle.len()));
                let Some((a, b)) = terms else { continue };
                let (mut joined, others): (Vec<_>, Vec<_>) =
                    classes.into_iter().partition(|class| class.contains(&a) || class.contains(&b));
                joined.push(vec![a, b]);
                classes = others;
                classes.push(joined.concat());
            }
        }
        classes.iter().all(|class| {
            let mut literals = class.iter().filter_map(|term| match term {
                Term::Literal(literal) => Some(*literal),
                Term::Parameter(..) => None,
            });
            let first = literals.next();
            literals.all(|other| first.is_some_and(|first| equal(first, other)))
        })
    }

    fn extend(&mut self, path: &mut Vec<Wait>, waits: &[Wait]) {
        let (Some(first), Some(last)) = (path.first().copied(), path.last().copied()) else { return };
        for next in waits {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                self.found.cut = true;
                return;
            }
            if path.contains(next) || !self.meets(&last, next) {
                continue;
            }
            path.push(*next);
            if path.len() > 2 && self.meets(next, &first) {
                // Each cycle is found once: from the wait of its that comes first.
                if self.can_close(path) {
                    self.found.cycles.push(path.clone());
                }
            } else if path.len() < LONGEST {
                self.extend(path, waits);
            }
            path.pop();
        }
    }
}
