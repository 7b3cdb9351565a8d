//! What the items on one row come to: which value each needs, and what it leaves. Pure, and in i128, so that nothing wraps.
//!
//! Items on one row apply one after the other. The values from which *all* of them apply form one interval, and what they
//! come to together is one addition or one assignment: that is a [`Tally`], which one statement can do. Outside of the
//! interval some apply and some do not, and each is tried in turn.

/// What an item does to the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Add(i128),
    Set(i128),
}

/// One item: what it does, where the value that it meets lies in `expect` and the value that it leaves in the bounds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Item {
    pub(crate) op: Op,
    pub(crate) expect: Interval,
}

/// From `low` to `high`, both included; empty where `low > high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) low: i128,
    pub(crate) high: i128,
}

impl Interval {
    /// Far beyond every column, and far enough from the ends of i128 that sums of any list of items stay within.
    pub(crate) const ALL: Interval = Interval { low: i128::MIN / 4, high: i128::MAX / 4 };
    /// Empty, by numbers that every column can hold.
    pub(crate) const EMPTY: Interval = Interval { low: 1, high: 0 };

    pub(crate) fn has(self, value: i128) -> bool {
        self.low <= value && value <= self.high
    }

    pub(crate) fn and(self, other: Interval) -> Interval {
        Interval { low: self.low.max(other.low), high: self.high.min(other.high) }
    }

    fn moved(self, by: i128) -> Interval {
        Interval { low: self.low + by, high: self.high + by }
    }
}

impl Item {
    /// What the item leaves of `value`; `None` where it does not apply. `bounds` are those of what may be left.
    pub(crate) fn on(&self, value: i128, bounds: Interval) -> Option<i128> {
        let left = match self.op {
            Op::Add(by) => value + by,
            Op::Set(to) => to,
        };
        (self.expect.has(value) && bounds.has(left)).then_some(left)
    }

    /// The values on which it applies.
    fn applies(&self, bounds: Interval) -> Interval {
        match self.op {
            Op::Add(by) => self.expect.and(bounds.moved(-by)),
            Op::Set(to) if bounds.has(to) => self.expect,
            Op::Set(_) => Interval::EMPTY,
        }
    }
}

/// All items on one row, as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// What is added, or assigned.
    pub(crate) by: i64,
    /// The found values from which every item applies, within the column's range.
    pub(crate) from: Interval,
}

impl Tally {
    /// `range` is the column's, `bounds` lie within it.
    pub(crate) fn of<'i>(items: impl Iterator<Item = &'i Item>, bounds: Interval, range: Interval) -> Tally {
        let (mut net, mut from) = (Op::Add(0), range);
        for item in items {
            let applies = item.applies(bounds);
            from = match net {
                Op::Add(before) => from.and(applies.moved(-before)),
                Op::Set(value) if applies.has(value) => from,
                Op::Set(_) => Interval::EMPTY,
            };
            net = match (net, item.op) {
                (_, Op::Set(to)) => Op::Set(to),
                (Op::Add(before), Op::Add(by)) => Op::Add(before + by),
                (Op::Set(value), Op::Add(by)) => Op::Set(value + by),
            };
        }
        let (Op::Add(net) | Op::Set(net)) = net;
        match i64::try_from(net) {
            Ok(by) if from.low <= from.high => Tally { by, from },
            _ => Tally { by: 0, from: Interval::EMPTY },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The naive version: item by item.
    fn all_apply(items: &[Item], value: i128, bounds: Interval) -> Option<i128> {
        items.iter().try_fold(value, |value, item| item.on(value, bounds))
    }

    fn interval() -> impl Strategy<Value = Interval> {
        prop_oneof![Just(Interval::ALL), (-10i128..10, -10i128..10).prop_map(|(low, high)| Interval { low, high }),]
    }

    fn items() -> impl Strategy<Value = Vec<Item>> {
        let op = prop_oneof![(-6i128..=6).prop_map(Op::Add), (-8i128..=8).prop_map(Op::Set)];
        prop::collection::vec((op, interval()).prop_map(|(op, expect)| Item { op, expect }), 1..5)
    }

    proptest! {
        #[test]
        fn a_tally_applies_exactly_where_all_items_do(items in items(), low in -8i128..=0, high in 0i128..=8) {
            let (range, bounds) = (Interval { low: -8, high: 8 }, Interval { low, high });
            let tally = Tally::of(items.iter(), bounds, range);
            let sets = items.iter().any(|item| matches!(item.op, Op::Set(_)));
            for value in -8..=8 {
                let one_by_one = all_apply(&items, value, bounds);
                let at_once = tally.from.has(value).then(|| i128::from(tally.by) + if sets { 0 } else { value });
                prop_assert_eq!(at_once, one_by_one, "from {}", value);
            }
        }
    }

    #[test]
    fn sums_beyond_64_bits_do_not_wrap() {
        let range = Interval { low: i64::MIN.into(), high: i64::MAX.into() };
        let most = Item { op: Op::Add(i64::MAX.into()), expect: Interval::ALL };
        assert_eq!(Tally::of([most, most].iter(), range, range), Tally { by: 0, from: Interval::EMPTY });
        assert_eq!(all_apply(&[most, most], i64::MIN.into(), range), Some(i128::from(i64::MAX) - 1));
        assert_eq!(Tally::of([most].iter(), range, range).from.high, 0);
    }
}
