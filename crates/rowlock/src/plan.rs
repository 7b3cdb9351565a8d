//! A plan: what a transaction is about to lock, in the order in which it may be locked. Pure.

use rowlock_footprint::Strength;

use crate::{
    KeyValue,
    place::{Part, Place},
};

/// Places and strengths in any order, with repeats, made into the steps that lock them: sorted, de-duplicated, and each
/// resource at the strongest strength that any of its places needs, so that it is one statement.
///
/// One strength a resource costs some concurrency where a few of many rows need more; two statements would cost a round
/// trip and, worse, would not follow the order of the keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    steps: Vec<Step>,
}

/// One resource's part of a plan: one locking statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The resource's rank.
    pub rank: u16,
    /// Creation guards or rows.
    pub part: Part,
    /// The strength for all of `keys`.
    pub strength: Strength,
    /// Sorted, without repeats, never empty.
    pub keys: Vec<KeyValue>,
}

impl Step {
    /// The step less some of its keys (sorted).
    pub(crate) fn without(&self, keys: &[KeyValue]) -> Step {
        let rest = self.keys.iter().filter(|key| keys.binary_search(key).is_err());
        Step { keys: rest.cloned().collect(), ..*self }
    }
}

impl Plan {
    /// Makes a plan of whatever is needed.
    ///
    /// ```
    /// use rowlock::{KeyValue, Place, Plan, Strength};
    ///
    /// let plan = Plan::new([
    ///     (Place::row(1, KeyValue::Integer(30)), Strength::NoKeyUpdate),
    ///     (Place::row(0, KeyValue::Integer(10)), Strength::Share),
    ///     (Place::row(1, KeyValue::Integer(20)), Strength::Update),
    ///     (Place::row(1, KeyValue::Integer(30)), Strength::Share),
    /// ]);
    /// let steps = plan.steps();
    /// assert_eq!((steps[0].rank, steps[1].rank), (0, 1));
    /// assert_eq!(steps[1].keys, [KeyValue::Integer(20), KeyValue::Integer(30)]);
    /// assert_eq!(steps[1].strength, Strength::Update);
    /// ```
    pub fn new(needs: impl IntoIterator<Item = (Place, Strength)>) -> Plan {
        let mut needs: Vec<(Place, Strength)> = needs.into_iter().collect();
        needs.sort_unstable();
        let mut steps: Vec<Step> = Vec::new();
        for (Place { rank, part, key }, strength) in needs {
            match steps.last_mut() {
                Some(step) if step.rank == rank && step.part == part => {
                    step.strength = step.strength.max(strength);
                    if step.keys.last() != Some(&key) {
                        step.keys.push(key);
                    }
                }
                _ => steps.push(Step { rank, part, strength, keys: vec![key] }),
            }
        }
        Plan { steps }
    }

    /// The steps, in lock order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn needs() -> impl Strategy<Value = Vec<(Place, Strength)>> {
        let place = (0u16..4, prop::bool::ANY, 0i64..8).prop_map(|(rank, row, key)| Place {
            rank,
            part: if row { Part::Row } else { Part::Creation },
            key: KeyValue::Integer(key.into()),
        });
        prop::collection::vec((place, prop::sample::select(&Strength::ALL[..])), 0..40)
    }

    proptest! {
        #[test]
        fn any_input_comes_out_in_lock_order_once_and_strong_enough(needs in needs()) {
            let plan = Plan::new(needs.clone());
            let places: Vec<Place> = plan.steps().iter()
                .flat_map(|s| s.keys.iter().map(|k| Place { rank: s.rank, part: s.part, key: k.clone() }))
                .collect();
            prop_assert!(places.is_sorted_by(|a, b| a < b), "strictly ascending: {places:?}");

            // The naive version: the strongest need of each place.
            let mut naive: BTreeMap<Place, Strength> = BTreeMap::new();
            for (place, strength) in needs {
                let s = naive.entry(place).or_insert(strength);
                *s = (*s).max(strength);
            }
            prop_assert_eq!(naive.keys().cloned().collect::<Vec<_>>(), places);
            for step in plan.steps() {
                let strongest = naive.iter().filter(|(p, _)| p.rank == step.rank && p.part == step.part).map(|(_, s)| *s).max();
                prop_assert_eq!(Some(step.strength), strongest);
            }
        }

        #[test]
        fn the_order_of_the_input_does_not_matter(mut needs in needs()) {
            let plan = Plan::new(needs.clone());
            needs.reverse();
            prop_assert_eq!(plan, Plan::new(needs));
        }
    }
}
