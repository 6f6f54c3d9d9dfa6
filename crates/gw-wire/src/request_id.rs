//! Request ids: `req_` and 128 bits in base 32. The first 48 bits are the unix milliseconds at which the request was
//! accepted (a UUID of version 7).

/// Crockford's base-32 alphabet in lower case, without i, l, o and u.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const DIGITS: usize = 26;
const PREFIX: &[u8; 4] = b"req_";
/// Bytes of an id's text.
pub const LENGTH: usize = PREFIX.len() + DIGITS;
/// The bits of twelve digits.
const LOW: u128 = (1 << 60) - 1;
/// Number of digits that hold the time.
const TIME_DIGITS: usize = 10;
/// Marks a byte that is no digit.
const NONE: u8 = 255;
/// The value of each byte as a digit.
const VALUES: [u8; 256] = values();

#[expect(clippy::indexing_slicing, reason = "evaluated at compile time, where a wrong index is an error")]
const fn values() -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut digit = 0;
    while digit < ALPHABET.len() {
        values[ALPHABET[digit] as usize] = digit as u8;
        digit += 1;
    }
    values
}

/// The text of an id. Ids sort like their bits.
#[must_use]
pub fn format(value: u128) -> [u8; LENGTH] {
    let mut text = [0; LENGTH];
    let (prefix, digits) = text.split_at_mut(PREFIX.len());
    prefix.copy_from_slice(PREFIX);
    // Twelve digits fit 64 bits, whose shifts are single instructions.
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

/// The unix milliseconds at which the request was accepted; `None` if the text is not an id of this gateway.
#[must_use]
pub fn timestamp_millis(id: &str) -> Option<i64> {
    let digits = id.as_bytes().strip_prefix(PREFIX).filter(|digits| digits.len() == DIGITS)?;
    let mut values = digits.iter().map(|digit| VALUES.get(usize::from(*digit)).copied().unwrap_or(NONE));
    let time = values.by_ref().take(TIME_DIGITS).try_fold(0, |sum, value| {
        let is_digit = value != NONE;
        is_digit.then_some(sum << 5 | i64::from(value))
    })?;
    values.all(|value| value != NONE).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_is_written() {
        assert_eq!(&format(0), b"req_00000000000000000000000000");
        assert_eq!(&format(u128::MAX), b"req_7zzzzzzzzzzzzzzzzzzzzzzzzz");
        assert_eq!(&format(33), b"req_00000000000000000000000011");
        assert_eq!(&format(1 << 127 | 1 << 60 | 1), b"req_40000000000001000000000001");
    }

    #[test]
    fn an_id_holds_its_time() {
        for time in [0, 1, 31, 32, 1_795_000_000_000, (1 << 48) - 1] {
            for rest in [0, 1, (1 << 80) - 1] {
                let id = format(time << 80 | rest);
                assert_eq!(timestamp_millis(std::str::from_utf8(&id).unwrap()), i64::try_from(time).ok());
            }
        }
        for other in ["", "req_", "req_1", "rex_00000000000000000000000000", "req_0000000000000000000000000u"]
        {
            assert_eq!(timestamp_millis(other), None, "{other}");
        }
    }
}
