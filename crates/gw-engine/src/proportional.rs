//! Divides a sum in proportion to weights: without a remainder, and each part within one unit of its share.

/// The parts of `whole` in proportion to the weights. If all weights are zero, the parts are equal.
pub(crate) fn divide(whole: u128, weights: &[u64]) -> Vec<u128> {
    let is_weightless = weights.iter().all(|weight| *weight == 0);
    let weights = || weights.iter().map(|weight| if is_weightless { 1 } else { u128::from(*weight) });
    let sum = weights().sum::<u128>().max(1);
    let due = |weight: u128| {
        let exact = whole.checked_mul(weight).map(|due| (due / sum, due % sum));
        exact.unwrap_or_else(|| (whole / sum * weight, 0))
    };
    let (mut parts, rests): (Vec<u128>, Vec<u128>) = weights().map(due).unzip();
    let mut left = whole.saturating_sub(parts.iter().sum());
    // The parts with the largest remainders get the rest (largest remainder method).
    let mut order: Vec<(usize, u128)> = rests.into_iter().enumerate().collect();
    order.sort_by_key(|(_, rest)| std::cmp::Reverse(*rest));
    for (place, _) in order {
        if let Some(part) = parts.get_mut(place).filter(|_| left > 0) {
            *part += 1;
            left -= 1;
        }
    }
    // A product that overflows leaves a larger rest.
    if let Some(first) = parts.first_mut() {
        *first += left;
    }
    parts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_largest_remainders_get_what_is_left() {
        for (whole, weights, parts) in [
            (8, &[1, 1, 1][..], &[3, 3, 2][..]),
            (8, &[4], &[8]),
            (10, &[1, 2, 7], &[1, 2, 7]),
            (2, &[10, 1, 1], &[2, 0, 0]),
            (3, &[5, 5, 1, 1], &[2, 1, 0, 0]),
            (5, &[0, 0], &[3, 2]),
            (0, &[3, 4], &[0, 0]),
            (7, &[], &[]),
        ] {
            assert_eq!(divide(whole, weights), parts, "{whole} {weights:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nobody_gets_more_than_a_unit_too_much(
            whole in 0..1_u128 << 90,
            weights in prop::collection::vec(0..1_u64 << 34, 1..80),
        ) {
            let parts = divide(whole, &weights);
            prop_assert_eq!(parts.iter().sum::<u128>(), whole);
            let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
            for (part, weight) in parts.iter().zip(&weights) {
                let (part, due) = (part * sum, whole * u128::from(*weight));
                prop_assert!(sum == 0 || (part < due + sum && due < part + sum));
            }
        }
    }
}
