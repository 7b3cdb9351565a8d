//! Who gets what: the outcomes that a row's requests would have had one after the other.

use crate::Outcome;

/// What `quantities` come to, in their order, on a row whose value is `found` (`None`: there is no row). A request that does
/// not fit is refused, and a smaller one after it may fit. How much was granted in all.
///
/// Quantities are not negative. Then nothing overflows: what is granted was found.
pub(super) fn grant(found: Option<i64>, quantities: impl Iterator<Item = i64>, mut each: impl FnMut(Outcome)) -> i64 {
    let mut value = found;
    for quantity in quantities {
        each(match &mut value {
            None => Outcome::Missing,
            Some(value) if *value >= quantity => {
                *value -= quantity;
                Outcome::Applied { value: *value }
            }
            Some(value) => Outcome::Insufficient { found: *value },
        });
    }
    match (found, value) {
        (Some(found), Some(left)) => found - left,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_granted_was_there(
            found in prop::option::of(prop_oneof![any::<i64>(), 0i64..200]),
            quantities in prop::collection::vec(prop_oneof![8 => 0i64..50, 1 => Just(i64::MAX)], 0..20),
        ) {
            let mut outcomes = Vec::new();
            let granted = grant(found, quantities.iter().copied(), |outcome| outcomes.push(outcome));
            // In wider numbers, by a rule of one line: each gets what it asks for if what is left is as much.
            let mut left = found.map(i128::from);
            for (outcome, quantity) in outcomes.iter().zip(&quantities) {
                let fits = left.is_some_and(|left| left >= i128::from(*quantity));
                prop_assert_eq!(outcome.is_applied(), fits);
                left = left.map(|left| if fits { left - i128::from(*quantity) } else { left });
                let told = match *outcome {
                    Outcome::Applied { value } => Some(value),
                    Outcome::Insufficient { found } | Outcome::Withheld { found } => Some(found),
                    Outcome::Missing => None,
                };
                prop_assert_eq!(told.map(i128::from), left);
            }
            prop_assert_eq!(outcomes.len(), quantities.len());
            prop_assert_eq!(i128::from(granted), found.map_or(0, i128::from) - left.unwrap_or(0));
        }
    }
}
