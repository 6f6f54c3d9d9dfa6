//! Keys of the configuration that can be guessed: texts too short for 128 random bits.

use gw_engine::settings::KeySettings;
use secrecy::ExposeSecret;

/// The least random bits that a key must have room for.
const MIN_BITS: f64 = 128.0;
/// A text with fewer characters that differ is no random one.
const MIN_DISTINCT: usize = 8;
/// The most keys that the note names.
const MAX_NAMED: usize = 5;
/// Beginnings that say what a text is. They hold no random bits.
const PREFIXES: [&str; 2] = ["sk-gw-", "sk-"];

/// A note about the configured keys that can be guessed. It does not show them.
pub fn note(keys: &[KeySettings]) -> Option<String> {
    let weak: Vec<&str> = keys
        .iter()
        .filter(|key| is_guessable(key.key.expose_secret()))
        .map(|key| key.name.as_str())
        .collect();
    let named: Vec<String> = weak.iter().take(MAX_NAMED).map(|name| format!("'{name}'")).collect();
    let more = match weak.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        count => format!(" and {count} more"),
    };
    (!weak.is_empty()).then(|| {
        format!(
            "keys: {}{more} can be guessed: the text has no room for 128 random bits; make one with `openssl rand -hex 32`",
            named.join(", ")
        )
    })
}

/// Whether a text of this length and of these kinds of characters has less than 128 bits even if it is random.
fn is_guessable(key: &str) -> bool {
    let text = PREFIXES.iter().find_map(|prefix| key.strip_prefix(prefix)).unwrap_or(key);
    let mut distinct: Vec<char> = text.chars().collect();
    let length = distinct.len();
    distinct.sort_unstable();
    distinct.dedup();
    let has = |kind: fn(char) -> bool| distinct.iter().copied().any(kind);
    let is_hexadecimal = distinct.iter().all(char::is_ascii_hexdigit)
        && !(has(|c| c.is_ascii_uppercase()) && has(|c| c.is_ascii_lowercase()));
    let kinds = [
        (10, has(|c| c.is_ascii_digit())),
        (26, has(|c| c.is_ascii_lowercase())),
        (26, has(|c| c.is_ascii_uppercase())),
        (33, has(|c| !c.is_ascii_alphanumeric())),
    ];
    let all: u32 = kinds.iter().filter(|(_, is_there)| *is_there).map(|(count, _)| count).sum();
    let alphabet = if is_hexadecimal { all.min(16) } else { all };
    let bits = length as f64 * f64::from(alphabet.max(1)).log2();
    distinct.len() < MIN_DISTINCT || bits < MIN_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_room_for_128_random_bits() {
        let hexadecimal = "00112233445566778899aabbccddeeff";
        for strong in [
            hexadecimal,
            &hexadecimal.to_uppercase(),
            "sk-gw-ab12CD34ef56GH78ij90KL12mn34OP56qr78ST90uvwxyz",
            "b7Qz0Yp4Lk9Xw2Rt6Vn8Mc",
            "340282366920938463463374607431768211456",
        ] {
            assert!(!is_guessable(strong), "{strong}");
        }
        for weak in [
            "",
            "a",
            "sk-test-inference",
            &hexadecimal[1..],
            &format!("sk-gw-{}", &hexadecimal[8..]),
            "12345678901234567890123456789012345678",
            &"a".repeat(1000),
            &"abcdefg".repeat(100),
            "b7Qz0Yp4Lk9Xw2Rt6Vn8M",
        ] {
            assert!(is_guessable(weak), "{weak}");
        }
    }
}
