//! What a transaction has locked, and what it may therefore still wait for.

use std::collections::{BTreeMap, BTreeSet};

use rowlock_footprint::Strength;

use crate::place::{Part, Place, Reach};

/// The places and strengths that a transaction has locked.
///
/// **Invariant: whatever the transaction may hold is in here.** A place enters before the statement that locks it is
/// sent, and leaves only where the server is known to have let go. Too much in here costs a restart; too little, a
/// deadlock.
#[derive(Debug, Default)]
pub struct Held {
    rows: BTreeMap<Place, Strength>,
    /// Resources of which some rows are locked, it is not known which (a statement whose keys could not be read).
    unknown: BTreeMap<u16, Strength>,
    /// Those of them of which the transaction has made rows itself.
    made: BTreeSet<u16>,
    /// What to put back, newest last, while a savepoint is open: the strength before, or `None` for not held.
    journal: Option<Vec<(Change, Option<Strength>)>>,
}

#[derive(Debug)]
enum Change {
    Row(Place),
    Unknown(u16),
}

/// How a needed place stands to what is held.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    /// Held already, strongly enough.
    Held,
    /// It lies above all that is held: it may be waited for.
    Ahead,
    /// It lies below what is held: it must not be waited for.
    Late(Reach),
    /// It is held more weakly, and the rise may not be waited for.
    Upgrade(Strength),
}

impl Held {
    /// How `place` at `strength` stands.
    pub fn standing(&self, place: &Place, strength: Strength) -> Standing {
        let have = self.rows.get(place).copied();
        if have.is_some_and(|s| s >= strength) {
            return Standing::Held;
        }
        match (have, self.reach()) {
            (None, None) => Standing::Ahead,
            (None, Some(reach)) if reach.is_below(place) => Standing::Ahead,
            // A rise is a wait at a place that is held: it may be waited for only where no like of it can stand against
            // it, and only from the last place.
            (Some(have), Some(Reach::Place(last))) if last == *place && have.may_rise_to(strength) => Standing::Ahead,
            (Some(have), _) => Standing::Upgrade(have),
            (None, Some(reach)) => Standing::Late(reach),
        }
    }

    /// The strength at which `place` is held.
    pub fn strength(&self, place: &Place) -> Option<Strength> {
        self.rows.get(place).copied()
    }

    /// Whether any row of the resource at `rank` is held by its key, or was made, at `strength` or more. (One that is held
    /// by a key that nobody saw does not count: the next such statement can be on another row.)
    pub(crate) fn any_of(&self, rank: u16, strength: Strength) -> bool {
        (self.made.contains(&rank) && self.some_unknown(rank, strength))
            || self.rows_of(rank).any(|(_, s)| s >= strength)
    }

    /// Whether the creation of some row of the resource at `rank` is guarded.
    pub(crate) fn guards_of(&self, rank: u16) -> bool {
        self.rows
            .range(Place::creation(rank, i64::MIN)..)
            .next()
            .is_some_and(|(p, _)| (p.rank, p.part) == (rank, Part::Creation))
    }

    /// Whether rows of the resource at `rank` are held at `strength` or more of which it is not known which.
    pub(crate) fn some_unknown(&self, rank: u16, strength: Strength) -> bool {
        self.unknown.get(&rank).is_some_and(|s| *s >= strength)
    }

    /// The rows held of the resource at `rank`.
    pub(crate) fn rows_of(&self, rank: u16) -> impl Iterator<Item = (&Place, Strength)> {
        let from = Place::row(rank, crate::KeyValue::Integer(i128::MIN));
        self.rows.range(from..).take_while(move |(p, _)| p.rank == rank).map(|(p, s)| (p, *s))
    }

    /// How far the transaction has come.
    pub fn reach(&self) -> Option<Reach> {
        self.reach_besides(&[])
    }

    /// How far the transaction would have come without these places.
    pub(crate) fn reach_besides(&self, own: &[Place]) -> Option<Reach> {
        let last = self.rows.keys().rev().find(|place| !own.contains(place));
        let unknown = self.unknown.last_key_value().map(|(rank, _)| *rank);
        match (last, unknown) {
            (Some(place), Some(rank)) if place.rank > rank => Some(Reach::Place(place.clone())),
            (_, Some(rank)) => Some(Reach::Resource(rank)),
            (last, None) => last.cloned().map(Reach::Place),
        }
    }

    /// Takes `place` in; never weakens it.
    pub fn insert(&mut self, place: Place, strength: Strength) {
        let before = self.rows.get(&place).copied();
        if before.is_some_and(|s| s >= strength) {
            return;
        }
        if let Some(journal) = &mut self.journal {
            journal.push((Change::Row(place.clone()), before));
        }
        self.rows.insert(place, strength);
    }

    /// Lets `place` go: it turned out that there is no row.
    pub(crate) fn remove(&mut self, place: &Place) {
        if let Some(before) = self.rows.remove(place)
            && let Some(journal) = &mut self.journal
        {
            journal.push((Change::Row(place.clone()), Some(before)));
        }
    }

    /// Takes in that some rows of the resource at `rank` are locked.
    pub(crate) fn insert_unknown(&mut self, rank: u16, strength: Strength) {
        let before = self.unknown.get(&rank).copied();
        if before.is_some_and(|s| s >= strength) {
            return;
        }
        if let Some(journal) = &mut self.journal {
            journal.push((Change::Unknown(rank), before));
        }
        self.unknown.insert(rank, strength);
    }

    /// Takes in that the transaction has made rows of the resource at `rank`, it is not known with which keys.
    pub(crate) fn insert_made(&mut self, rank: u16, strength: Strength) {
        self.made.insert(rank);
        self.insert_unknown(rank, strength);
    }

    /// How many places are held, resources of which it is not known counted as one.
    pub fn len(&self) -> usize {
        self.rows.len() + self.unknown.len()
    }

    /// Nothing is held.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.unknown.is_empty()
    }

    /// The places held, in lock order.
    pub fn places(&self) -> impl Iterator<Item = (&Place, Strength)> {
        self.rows.iter().map(|(p, s)| (p, *s))
    }

    /// Marks a savepoint: what comes from here on can be taken back with [`Held::shrink`].
    pub(crate) fn mark(&mut self) -> usize {
        self.journal.get_or_insert_default().len()
    }

    /// Takes back everything since `mark`: PostgreSQL lets go of it when it rolls back to the savepoint, and restores the
    /// earlier strengths. (InnoDB keeps them: do not call it there.)
    pub(crate) fn shrink(&mut self, mark: usize) {
        while let Some((change, before)) = self.journal.as_mut().filter(|j| j.len() > mark).and_then(Vec::pop) {
            match (change, before) {
                (Change::Row(place), Some(s)) => drop(self.rows.insert(place, s)),
                (Change::Row(place), None) => drop(self.rows.remove(&place)),
                (Change::Unknown(rank), Some(s)) => drop(self.unknown.insert(rank, s)),
                (Change::Unknown(rank), None) => drop(self.unknown.remove(&rank)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KeyValue;
    use Strength::{KeyShare, NoKeyUpdate, Share, Update};
    use proptest::prelude::*;

    fn at(rank: u16, key: i64) -> Place {
        Place::row(rank, KeyValue::Integer(key.into()))
    }

    #[test]
    fn what_lies_below_is_late_and_what_lies_above_is_ahead() {
        let mut held = Held::default();
        held.insert(at(1, 20), NoKeyUpdate);
        assert_eq!(held.standing(&at(1, 20), Share), Standing::Held);
        assert_eq!(held.standing(&at(1, 30), Update), Standing::Ahead);
        assert_eq!(held.standing(&at(2, 1), Update), Standing::Ahead);
        assert_eq!(held.standing(&at(1, 10), KeyShare), Standing::Late(Reach::Place(at(1, 20))));
        held.insert_unknown(1, Share);
        assert_eq!(held.standing(&at(1, 30), Update), Standing::Late(Reach::Resource(1)));
    }

    #[test]
    fn a_rise_is_waited_for_only_from_key_share_and_only_at_the_last_place() {
        let mut held = Held::default();
        held.insert(at(0, 1), KeyShare);
        assert_eq!(held.standing(&at(0, 1), NoKeyUpdate), Standing::Ahead);
        assert_eq!(held.standing(&at(0, 1), Update), Standing::Upgrade(KeyShare));
        held.insert(at(0, 2), NoKeyUpdate);
        assert_eq!(held.standing(&at(0, 1), NoKeyUpdate), Standing::Upgrade(KeyShare));
        assert_eq!(held.standing(&at(0, 2), Update), Standing::Upgrade(NoKeyUpdate));
    }

    proptest! {
        #[test]
        fn a_rollback_to_a_savepoint_restores_what_was_held(
            before in prop::collection::vec((0u16..3, 0i64..5, prop::sample::select(&Strength::ALL[..])), 0..10),
            after in prop::collection::vec((0u16..3, 0i64..5, prop::sample::select(&Strength::ALL[..])), 0..10),
        ) {
            let mut held = Held::default();
            before.into_iter().for_each(|(r, k, s)| held.insert(at(r, k), s));
            let old = (held.rows.clone(), held.unknown.clone());
            let mark = held.mark();
            for (r, k, s) in after {
                if k == 0 { held.insert_unknown(r, s) } else { held.insert(at(r, k), s) }
            }
            held.shrink(mark);
            prop_assert_eq!((held.rows, held.unknown), old);
        }
    }
}
