//! Request ids as text: `req_` and 128 bits in base 32, of which the first 48 are the unix milliseconds of the moment at
//! which the request was accepted (a UUID of version 7).

/// Crockford's alphabet in lower case: no i, l, o, u.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const DIGITS: usize = 26;
const PREFIX: &[u8; 4] = b"req_";
/// Bytes of an id.
pub const LENGTH: usize = PREFIX.len() + DIGITS;
/// The bits of twelve digits.
const LOW: u128 = (1 << 60) - 1;
/// So many digits hold the time.
const OF_TIME: usize = 10;
/// No digit.
const NONE: u8 = 255;
/// What each byte is worth as a digit.
const VALUES: [u8; 256] = values();

#[expect(clippy::indexing_slicing, reason = "done by the compiler, which would say so")]
const fn values() -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        values[ALPHABET[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
}

/// The id of these bits, the most significant first: ids are ordered as their bits are.
#[must_use]
pub fn spell(value: u128) -> [u8; LENGTH] {
    let mut text = [0; LENGTH];
    let (prefix, digits) = text.split_at_mut(PREFIX.len());
    prefix.copy_from_slice(PREFIX);
    // Twelve digits at a time fit 64 bits, whose shifts are one instruction.
    let mut rest = value;
    for digits in digits.rchunks_mut(12) {
        let mut low = (rest & LOW) as u64;
        for digit in digits.iter_mut().rev() {
            *digit = ALPHABET.get((low & 31) as usize).copied().unwrap_or(b'0');
            low >>= 5;
        }
        rest >>= 60;
    }
    text
}

/// When the request of this id was accepted, unix milliseconds; `None` when it is no id of ours.
#[must_use]
pub fn millis(id: &str) -> Option<i64> {
    let digits = id.as_bytes().strip_prefix(PREFIX).filter(|digits| digits.len() == DIGITS)?;
    let mut values = digits.iter().map(|digit| VALUES.get(usize::from(*digit)).copied().unwrap_or(NONE));
    let of_time = values.by_ref().take(OF_TIME).try_fold(0, |sum, value| {
        let is_digit = value != NONE;
        is_digit.then_some(sum << 5 | i64::from(value))
    })?;
    values.all(|value| value != NONE).then_some(of_time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_spelled() {
        assert_eq!(&spell(0), b"req_00000000000000000000000000");
        assert_eq!(&spell(u128::MAX), b"req_7zzzzzzzzzzzzzzzzzzzzzzzzz");
        assert_eq!(&spell(33), b"req_00000000000000000000000011");
        assert_eq!(&spell(1 << 127 | 1 << 60 | 1), b"req_40000000000001000000000001");
    }

    #[test]
    fn an_id_tells_its_time() {
        for time in [0, 1, 31, 32, 1_795_000_000_000, (1 << 48) - 1] {
            for rest in [0, 1, (1 << 80) - 1] {
                let id = spell(time << 80 | rest);
                assert_eq!(millis(std::str::from_utf8(&id).unwrap()), i64::try_from(time).ok());
            }
        }
        for other in ["", "req_", "req_1", "rex_00000000000000000000000000", "req_0000000000000000000000000u"]
        {
            assert_eq!(millis(other), None, "{other}");
        }
    }
}
