//! Request ids: `req_` and 26 characters, ordered by time, never taken from a client.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Crockford's alphabet in lower case: no i, l, o, u.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";
const DIGITS: usize = 26;

/// A new id.
pub(crate) fn generate() -> Arc<str> {
    let millis = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis());
    let millis = u64::try_from(millis).unwrap_or(0);
    let id = uuid::Builder::from_unix_timestamp_millis(millis, &rand::random()).into_uuid();
    Arc::from(spell(id.as_u128()).as_str())
}

/// 128 bits in base 32, the most significant first.
fn spell(mut value: u128) -> String {
    let mut text = [b'0'; DIGITS];
    for place in text.iter_mut().rev() {
        let digit = usize::try_from(value & 31).unwrap_or(0);
        *place = ALPHABET.get(digit).copied().unwrap_or(b'0');
        value >>= 5;
    }
    let mut id = String::with_capacity(4 + DIGITS);
    id.push_str("req_");
    id.extend(text.iter().map(|byte| char::from(*byte)));
    id
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
        assert_eq!(spell(0), "req_00000000000000000000000000");
        assert_eq!(spell(u128::MAX), "req_7zzzzzzzzzzzzzzzzzzzzzzzzz");
        assert_eq!(spell(33), "req_00000000000000000000000011");
    }
}
