//! What became of each item of a conditional update.

use std::{ops::Index, vec};

/// What became of one item of a [`Change`](crate::Change). Values are those under the row's lock, never older ones.
///
/// ```
/// # rowlock_testing::guide! { db =>
/// use rowlock::{Counter, Outcome};
/// const STOCK: Counter<Inventory> = Counter::new("stock");
///
/// let sold = db.kind("sell").update(STOCK.subtract([(20, 3), (30, 101), (99, 1)])).await?;
/// assert_eq!(sold[0], Outcome::Applied { value: 97 });
/// assert_eq!(sold[1], Outcome::Insufficient { found: 100 });
/// assert_eq!(sold[2], Outcome::Missing);
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// It was applied.
    Applied {
        /// The value that it left.
        value: i64,
    },
    /// It was not applied: the value did not meet its condition. There was too little to subtract from, too little room
    /// below the upper bound or in the column, or another value than the one expected.
    Insufficient {
        /// The value that it met. Of several items on one key each meets what those before it left (with
        /// [`together`](crate::Change::together): would have left).
        found: i64,
    },
    /// There is no such row, looked for twice.
    Missing,
    /// It could have been applied and was not, since another item of a change that goes
    /// [`together`](crate::Change::together) could not.
    Withheld {
        /// The value that it met.
        found: i64,
    },
}

impl Outcome {
    /// It was applied.
    pub fn is_applied(self) -> bool {
        matches!(self, Outcome::Applied { .. })
    }

    /// The value that it left, if it was applied.
    pub fn value(self) -> Option<i64> {
        match self {
            Outcome::Applied { value } => Some(value),
            _ => None,
        }
    }
}

/// What became of the items of a [`Change`](crate::Change), each with its key, in the order of the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcomes<K> {
    items: Vec<(K, Outcome)>,
}

impl<K> Outcomes<K> {
    pub(crate) fn new(keys: Vec<K>, outcomes: Vec<Outcome>) -> Self {
        Outcomes { items: keys.into_iter().zip(outcomes).collect() }
    }

    /// Every item was applied. (Of a change without items, too.)
    pub fn all_applied(&self) -> bool {
        self.items.iter().all(|(_, outcome)| outcome.is_applied())
    }

    /// The items that were not applied.
    pub fn failed(&self) -> impl Iterator<Item = (&K, Outcome)> {
        self.iter().filter(|(_, outcome)| !outcome.is_applied())
    }

    /// All items.
    pub fn iter(&self) -> impl Iterator<Item = (&K, Outcome)> {
        self.items.iter().map(|(key, outcome)| (key, *outcome))
    }

    /// How many items there were.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// There were no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
}

/// By the item's position in the input.
impl<K> Index<usize> for Outcomes<K> {
    type Output = Outcome;

    fn index(&self, item: usize) -> &Outcome {
        &self.items[item].1
    }
}

impl<K> IntoIterator for Outcomes<K> {
    type Item = (K, Outcome);
    type IntoIter = vec::IntoIter<(K, Outcome)>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}
