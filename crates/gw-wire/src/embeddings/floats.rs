//! Turns the numbers of a checked array into 32-bit floats, as clients want them in base64.
//!
//! Most numbers are decimals below one with up to 19 digits. Such a number is an integer divided by a power of ten. Both are read or
//! known at once, and a division of 64-bit floats misses the quotient by less than two of its last places. That decides how it is
//! rounded to 32 bits, unless it lies that near to the middle between two of them. Then, and for all other numbers, the standard
//! library decides.

use super::decimal::{DIGITS, START, WIDTH, any_number, small_decimal};

/// The most digits of an integer that fits into 64 bits whatever the digits.
const MOST_DIGITS: usize = 19;
/// The powers of ten up to the most digits. 64-bit floats have them exactly.
const POWERS: [f64; MOST_DIGITS + 1] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18,
    1e19,
];
/// The powers of ten below a word of digits, and that of a word.
const STEPS: [u64; WIDTH] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000];
const WHOLE_STEP: u64 = 100_000_000;
/// The bits that a 64-bit float has more than a 32-bit one, and their value in the middle between two 32-bit floats.
const MORE_BITS: u64 = (1 << 29) - 1;
const MIDDLE: u64 = 1 << 28;
/// The distance from the middle, in last places of a 64-bit float, within which the rounding is not certain. The error is below 2.
const UNCERTAIN: u64 = 4;

/// Appends the numbers of an array as little-endian 32-bit floats. The text has been checked: it is an array of finite numbers.
pub(super) fn write_floats(text: &str, out: &mut Vec<u8>) {
    let Some(mut rest) = text.as_bytes().strip_prefix(b"[") else { return };
    loop {
        let (float, end, behind) = if let Some((end, b',')) = small_decimal(rest) {
            (small_float(rest, end).unwrap_or_else(|| any_float(rest, end)), end, b',')
        } else {
            let Some((end, behind)) = any_number(rest) else { return };
            (any_float(rest, end), end, behind)
        };
        out.extend_from_slice(&float.to_le_bytes());
        rest = rest.get(end.wrapping_add(1)..).unwrap_or_default();
        if behind != b',' {
            return;
        }
    }
}

/// The number in the first `end` bytes, with whitespace around it.
fn any_float(text: &[u8], end: usize) -> f32 {
    let number = text.get(..end).and_then(|number| std::str::from_utf8(number).ok());
    // Cannot fail: the text was checked.
    number.and_then(|number| number.trim().parse().ok()).unwrap_or_default()
}

/// The decimal below one that [`small_decimal`] found in the first `end` bytes. None if only the standard library rounds it right.
#[inline(always)]
fn small_float(text: &[u8], end: usize) -> Option<f32> {
    let minus = text.first() == Some(&b'-');
    let before = START.len().wrapping_add(usize::from(minus));
    let digits = text.get(before..)?.first_chunk::<DIGITS>()?;
    let (words, []) = digits.as_chunks::<WIDTH>() else { return None };
    let [first, second, third] = words else { return None };
    let len = end.wrapping_sub(before);
    let scale = *POWERS.get(len)?;
    let more = len % WIDTH;
    let step = *STEPS.get(more)?;
    // No step overflows: the number has at most 19 digits.
    let behind =
        |number: u64, word: &[u8; WIDTH]| number.wrapping_mul(step).wrapping_add(first_digits(*word, more));
    let number = match len / WIDTH {
        0 => behind(0, first),
        1 => behind(eight_digits(*first), second),
        _ => behind(eight_digits(*first).wrapping_mul(WHOLE_STEP).wrapping_add(eight_digits(*second)), third),
    };
    let quotient = number as f64 / scale;
    let is_certain = (quotient.to_bits() & MORE_BITS).abs_diff(MIDDLE) > UNCERTAIN;
    let float = quotient as f32;
    is_certain.then_some(if minus { -float } else { float })
}

/// The integer of the first digits of a word.
#[inline(always)]
fn first_digits(word: [u8; WIDTH], count: usize) -> u64 {
    // The bytes in front become zeros, whose value as digits is masked out.
    let bits = (WIDTH - count) as u32 * u8::BITS;
    eight_digits(u64::from_le_bytes(word).checked_shl(bits).unwrap_or_default().to_le_bytes())
}

/// The integer of eight digits: neighbours are added in pairs, then pairs of pairs, and their sums.
#[inline(always)]
fn eight_digits(word: [u8; WIDTH]) -> u64 {
    let ones = u64::from_le_bytes(word) & 0x0f0f_0f0f_0f0f_0f0f;
    let pairs = (ones.wrapping_mul(10).wrapping_add(ones >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100).wrapping_add(pairs >> 16)) & 0x0000_ffff_0000_ffff;
    fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xffff_ffff
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_std(numbers: &[String]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.parse::<f32>().unwrap().to_le_bytes()).collect()
    }

    fn written(numbers: &[String], separator: &str) -> Vec<u8> {
        let mut out = Vec::new();
        write_floats(&format!("[{}]", numbers.join(separator)), &mut out);
        out
    }

    /// A decimal with a given number of digits, as near as that to the middle between two 32-bit floats.
    fn near_a_middle() -> impl Strategy<Value = String> {
        (0x2000_0000..0x3f80_0000_u32, 1..=21_usize, -1..=1_i64).prop_map(|(bits, digits, beside)| {
            let [low, high] = [bits, bits + 1].map(|bits| f64::from(f32::from_bits(bits)));
            let text = format!("{:.digits$}", (low + high) / 2.0);
            let (before, last) = text.split_at(text.len() - 1);
            let last = (last.parse::<i64>().unwrap() + beside).clamp(0, 9);
            format!("{before}{last}")
        })
    }

    fn number() -> impl Strategy<Value = String> {
        prop_oneof![
            3 => (-1.0..1.0_f64).prop_map(|number| number.to_string()),
            2 => (-0.001..0.001_f64).prop_map(|number| number.to_string()),
            2 => (-1.0..1.0_f32).prop_map(|number| number.to_string()),
            2 => "-?0\\.[0-9]{1,25}",
            3 => near_a_middle(),
            1 => (-1e30..1e30_f64).prop_map(|number| serde_json::to_string(&number).unwrap()),
            1 => "-?[1-9][0-9]{0,30}(\\.[0-9]{1,9})?([eE]-?[0-9]{1,2})?",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn floats_are_those_of_the_standard_library(numbers in prop::collection::vec(number(), 1..8), is_padded in any::<bool>()) {
            let numbers: Vec<String> =
                numbers.into_iter().filter(|number| number.parse().is_ok_and(f32::is_finite)).collect();
            prop_assume!(!numbers.is_empty());
            let separator = if is_padded { " ,\n" } else { "," };
            prop_assert_eq!(written(&numbers, separator), by_std(&numbers), "{:?}", numbers);
        }
    }

    #[test]
    fn every_number_of_digits_is_read() {
        let digits = "9876543210123456789012345";
        let numbers: Vec<String> = (1..digits.len())
            .flat_map(|len| {
                [
                    format!("0.{}", &digits[..len]),
                    format!("-0.{}", "0".repeat(len)),
                    format!("0.{}1", "0".repeat(len)),
                ]
            })
            .collect();
        assert_eq!(written(&numbers, ","), by_std(&numbers));
    }
}
