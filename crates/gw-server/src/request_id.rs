//! Request ids: `req_` and 26 characters, ordered by time, never taken from a client.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Crockford's alphabet in lower case: no i, l, o, u.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const DIGITS: usize = 26;
const PREFIX: &[u8; 4] = b"req_";
/// The bits of twelve digits.
const LOW: u128 = (1 << 60) - 1;

/// A new id.
pub(crate) fn generate() -> Arc<str> {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let millis = u64::try_from(millis).unwrap_or(0);
    let id = uuid::Builder::from_unix_timestamp_millis(millis, &rand::random()).into_uuid();
    Arc::from(std::str::from_utf8(&spell(id.as_u128())).unwrap_or_default())
}

/// `req_` and 128 bits in base 32, the most significant first.
fn spell(value: u128) -> [u8; PREFIX.len() + DIGITS] {
    let mut text = [0; PREFIX.len() + DIGITS];
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_thirty_characters_of_the_alphabet() {
        let id = generate();
        let tail = id.strip_prefix("req_").unwrap();
        assert_eq!(tail.len(), DIGITS);
        assert!(tail.bytes().all(|byte| ALPHABET.contains(&byte)));
        assert_ne!(id, generate());
    }

    #[test]
    fn every_bit_is_spelled() {
        assert_eq!(&spell(0), b"req_00000000000000000000000000");
        assert_eq!(&spell(u128::MAX), b"req_7zzzzzzzzzzzzzzzzzzzzzzzzz");
        assert_eq!(&spell(33), b"req_00000000000000000000000011");
        assert_eq!(&spell(1 << 127 | 1 << 60 | 1), b"req_40000000000001000000000001");
    }
}
