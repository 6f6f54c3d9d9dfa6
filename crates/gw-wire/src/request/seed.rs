//! The seed of one upstream call of a request.

/// The seed of the call whose first choice has this position among the choices of its prompt. Calls with equal seeds would
/// give equal choices. The seed moves away from zero, because some providers ignore its sign.
#[must_use]
pub fn seed_of_call(seed: i64, from: u32) -> i64 {
    if from == 0 {
        return seed;
    }
    let distance = seed.unsigned_abs().wrapping_add(u64::from(from)) & i64::MAX.unsigned_abs();
    let moved = i64::try_from(distance).unwrap_or(i64::MAX);
    if seed < 0 { moved.wrapping_neg() } else { moved }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::seed_of_call;

    #[test]
    fn each_call_has_its_own_seed_even_if_the_provider_ignores_the_sign() {
        assert_eq!([0, 1, 8].map(|from| seed_of_call(5, from)), [5, 6, 13]);
        assert_eq!([0, 1, 8].map(|from| seed_of_call(-1, from)), [-1, -2, -9]);
        for seed in [0, -1, i64::MAX, i64::MAX - 3, i64::MIN, i64::MIN + 1, i64::MIN + 3] {
            let seeds = (0..128).map(|from| seed_of_call(seed, from).unsigned_abs());
            assert_eq!(seeds.collect::<HashSet<_>>().len(), 128, "{seed}");
        }
    }
}
