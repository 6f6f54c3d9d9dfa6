//! The one rule of every pool that keys share: a key's share is half of what the other keys leave.
//!
//! So one key takes half of a pool at most, and a key that comes later always finds room. The key that holds the most is the
//! first one beyond its share when others come: it is refused first, and its entries leave first.

/// The most that a key may hold of a pool of `capacity`, while the other keys hold `others`. It is at least one, as long as
/// there is room for one.
#[must_use]
pub fn fair_share(capacity: u64, others: u64) -> u64 {
    capacity.saturating_sub(others).div_ceil(2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::fair_share;

    #[test]
    fn one_key_has_half_of_a_pool_and_later_ones_have_half_of_the_rest() {
        assert_eq!(fair_share(128, 0), 64);
        assert_eq!(fair_share(128, 64), 32);
        assert_eq!(fair_share(128, 127), 1);
        assert_eq!(fair_share(128, 128), 0);
        assert_eq!(fair_share(1, 0), 1);
    }

    proptest! {
        #[test]
        fn keys_that_fill_their_shares_leave_room_for_another(keys in 1..6_usize, rounds in 1..20_usize) {
            let mut held = vec![0_u64; keys];
            for _ in 0..rounds {
                for key in 0..keys {
                    let others = held.iter().sum::<u64>() - held[key];
                    held[key] = held[key].max(fair_share(1 << 20, others));
                }
            }
            let used = held.iter().sum::<u64>();
            prop_assert!(used < 1 << 20, "{held:?}");
            prop_assert!(fair_share(1 << 20, used) > 0);
        }
    }
}
