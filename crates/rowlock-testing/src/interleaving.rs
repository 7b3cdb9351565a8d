//! The orders in which the statements of several transactions can reach a server.
//!
//! Orders that differ only by swapping neighbours which do not conflict come to the same (Mazurkiewicz's traces): of each such
//! class only the first in lexicographic order is made, by the test of Anisimov and Knuth.

/// A statement: of which transaction, and which of its.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Turn {
    /// The transaction.
    pub of: usize,
    /// The place of the statement in it.
    pub at: usize,
}

/// All interleavings of transactions with these numbers of statements, one of each class. `conflict` says of two statements
/// of different transactions whether their order can matter; when in doubt it does.
///
/// ```
/// use rowlock_testing::interleavings;
///
/// assert_eq!(interleavings(&[2, 2], |_, _| true).len(), 6);
/// assert_eq!(interleavings(&[2, 2], |_, _| false).len(), 1);
/// // Only the last statements of both meet: one or the other comes first.
/// assert_eq!(interleavings(&[2, 2], |a, b| (a.at, b.at) == (1, 1)).len(), 2);
/// ```
pub fn interleavings(lengths: &[usize], conflict: impl Fn(Turn, Turn) -> bool) -> Vec<Vec<Turn>> {
    let mut found = Vec::new();
    let mut next = vec![0; lengths.len()];
    extend(&mut Vec::new(), &mut next, lengths, &conflict, &mut found);
    found
}

fn extend(
    order: &mut Vec<Turn>,
    next: &mut [usize],
    lengths: &[usize],
    conflict: &impl Fn(Turn, Turn) -> bool,
    found: &mut Vec<Vec<Turn>>,
) {
    if order.len() == lengths.iter().sum::<usize>() {
        return found.push(order.clone());
    }
    for of in 0..lengths.len() {
        let turn = Turn { of, at: next[of] };
        if turn.at == lengths[of] || !is_first(order, turn, conflict) {
            continue;
        }
        order.push(turn);
        next[of] += 1;
        extend(order, next, lengths, conflict, found);
        next[of] -= 1;
        order.pop();
    }
}

/// Whether `turn` could not as well have come before a later transaction's turn.
fn is_first(order: &[Turn], turn: Turn, conflict: &impl Fn(Turn, Turn) -> bool) -> bool {
    order
        .iter()
        .rev()
        .take_while(|earlier| earlier.of != turn.of && !conflict(**earlier, turn))
        .all(|earlier| earlier.of < turn.of)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// The class of an order: for each pair of statements that conflict, which comes first.
    fn class(order: &[Turn], conflict: impl Fn(Turn, Turn) -> bool) -> Vec<(Turn, Turn)> {
        let mut pairs = Vec::new();
        for (at, a) in order.iter().enumerate() {
            pairs.extend(order[at + 1..].iter().filter(|b| a.of != b.of && conflict(*a, **b)).map(|b| (*a, *b)));
        }
        pairs.sort_by_key(|(a, b)| (a.of, a.at, b.of, b.at));
        pairs
    }

    #[test]
    fn one_of_each_class_and_all_classes() {
        let lengths = [2, 3, 2];
        for salt in 0..64_usize {
            let conflict = |a: Turn, b: Turn| {
                let (a, b) = if a.of < b.of { (a, b) } else { (b, a) };
                (a.of * 7 + a.at * 3 + b.of * 5 + b.at * 11 + salt).is_multiple_of(1 + salt % 4)
            };
            let all: HashSet<_> =
                interleavings(&lengths, |_, _| true).iter().map(|order| class(order, conflict)).collect();
            let chosen = interleavings(&lengths, conflict);
            let classes: HashSet<_> = chosen.iter().map(|order| class(order, conflict)).collect();
            assert_eq!(chosen.len(), classes.len(), "twice the same");
            assert_eq!(classes, all);
        }
    }
}
