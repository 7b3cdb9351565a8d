//! A place in the order: which resource, and which of its rows.

use std::fmt;

use crate::{KeyValue, ResourceInfo};

/// Where a lock stands in the order: by rank, then creation guards before rows, then by key.
///
/// The derived order *is* the lock order of the system.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The resource's rank.
    pub rank: u16,
    /// A creation guard of the resource, or a row.
    pub part: Part,
    /// Which row; for a creation guard, its slot.
    pub key: KeyValue,
}

/// What is locked at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The right to make rows of keys that hash to this slot (`tx.guard_creation`). Before the rows, since rows are made
    /// only after it is had.
    Creation,
    /// A row.
    Row,
}

impl Place {
    /// The row `key` of the resource at `rank`.
    pub fn row(rank: u16, key: KeyValue) -> Place {
        Place { rank, part: Part::Row, key }
    }

    pub(crate) fn creation(rank: u16, slot: i64) -> Place {
        Place { rank, part: Part::Creation, key: KeyValue::Integer(slot.into()) }
    }

    /// The place in words, by the names of the order: `Order 10`, `Account (1, "a")`.
    pub(crate) fn name(&self, resources: &[ResourceInfo]) -> String {
        let resource = resources.get(usize::from(self.rank)).map_or("?", |r| r.name);
        match self.part {
            Part::Row => format!("`{resource}` {}", self.key),
            Part::Creation => format!("creation of `{resource}` (slot {})", self.key),
        }
    }
}

/// How high a transaction has climbed: the last place that it holds, or a whole resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Its last place.
    Place(Place),
    /// Some rows of the resource at this rank, it is not known which: as far as the resource goes.
    Resource(u16),
}

impl Reach {
    /// Whether `place` lies above: only then may it be waited for.
    pub(crate) fn is_below(&self, place: &Place) -> bool {
        match self {
            Reach::Place(last) => last < place,
            Reach::Resource(rank) => *rank < place.rank,
        }
    }

    /// Whether every row of the resource at `rank` lies above.
    pub(crate) fn is_below_rows(&self, rank: u16) -> bool {
        match self {
            Reach::Place(last) => (last.rank, last.part) < (rank, Part::Row),
            Reach::Resource(last) => *last < rank,
        }
    }

    pub(crate) fn name(&self, resources: &[ResourceInfo]) -> String {
        match self {
            Reach::Place(place) => place.name(resources),
            Reach::Resource(rank) => {
                format!("some rows of `{}`", resources.get(usize::from(*rank)).map_or("?", |r| r.name))
            }
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reach::Place(place) => write!(f, "rank {}, key {}", place.rank, place.key),
            Reach::Resource(rank) => write!(f, "rank {rank}"),
        }
    }
}
