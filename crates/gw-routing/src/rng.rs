//! Random numbers that can be replayed: each is computed from a counter and a salt.

/// Mixes two numbers into one pseudorandom number, with the finaliser of SplitMix64 (Steele, Lea, Flood: "Fast
/// splittable pseudorandom number generators", 2014).
pub(crate) const fn mix(turn: u64, salt: u64) -> u64 {
    let mut z = turn
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(salt.wrapping_mul(0xd1b5_4a32_d192_ed03))
        .wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A pseudorandom number from 0 (included) to 1 (excluded).
pub(crate) fn fraction(turn: u64, salt: u64) -> f64 {
    // The upper 32 bits are precise enough and fit a double exactly.
    let upper = u32::try_from(mix(turn, salt) >> 32).unwrap_or(0);
    f64::from(upper) / 4_294_967_296.0
}
