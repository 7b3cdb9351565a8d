//! Deadlocks of one shape, counted: what a person wants of a log with thousands of them.

use std::collections::HashMap;

use crate::finding::Finding;

/// Deadlocks of one shape.
#[derive(Clone, Debug)]
pub struct Group<P> {
    /// The first of them that was explained.
    pub finding: Finding,
    /// Where that one stands.
    pub place: P,
    /// How many there were.
    pub count: u64,
    /// When the first and the last of them were, as written.
    pub first: Option<String>,
    /// See `first`.
    pub last: Option<String>,
}

/// All groups, in the order in which their first members came. Grows with the number of shapes, not of deadlocks.
///
/// `P` is where a report stands, in the caller's terms.
#[derive(Clone, Debug)]
pub struct Groups<P> {
    groups: Vec<Group<P>>,
    by_shape: HashMap<String, usize>,
}

impl<P> Default for Groups<P> {
    fn default() -> Self {
        Groups { groups: Vec::new(), by_shape: HashMap::new() }
    }
}

impl<P> Groups<P> {
    /// Counts a deadlock of a shape that is there already; `false`: it is not, and [`add`](Self::add) must explain it.
    pub fn count(&mut self, shape: &str, time: Option<&str>) -> bool {
        let Some(group) = self.by_shape.get(shape).and_then(|at| self.groups.get_mut(*at)) else { return false };
        group.count += 1;
        if let Some(time) = time {
            group.first.get_or_insert_with(|| time.to_owned());
            group.last = Some(time.to_owned());
        }
        true
    }

    /// Adds the first of a shape.
    pub fn add(&mut self, shape: String, finding: Finding, place: P) {
        let time = finding.time.clone();
        self.by_shape.insert(shape, self.groups.len());
        self.groups.push(Group { finding, place, count: 1, first: time.clone(), last: time });
    }

    /// The groups, the most frequent first.
    pub fn into_sorted(mut self) -> Vec<Group<P>> {
        self.groups.sort_by_key(|group| std::cmp::Reverse(group.count));
        self.groups
    }
}
