//! Hexadecimal digits.

/// The two digits of a byte, in lower case.
pub fn digits(byte: u8) -> [char; 2] {
    [byte >> 4, byte & 15].map(|digit| char::from_digit(u32::from(digit), 16).unwrap_or_default())
}

/// The value of a digit in either case.
#[must_use]
pub fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Bytes as digits in lower case.
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    text.extend(bytes.iter().copied().flat_map(digits));
    text
}

/// The bytes of digits in either case. None: the text has another character, or an odd number of digits.
#[must_use]
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
        [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
        _ => None,
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_survive_being_written_as_digits() {
        let bytes: Vec<u8> = (0..=255).collect();
        let text = encode(&bytes);
        assert!(text.starts_with("000102") && text.ends_with("fdfeff"), "{text}");
        assert_eq!(decode(&text), Some(bytes.clone()));
        assert_eq!(decode(&text.to_ascii_uppercase()), Some(bytes));
        assert_eq!((encode(&[]), decode("")), (String::new(), Some(Vec::new())));
    }

    #[test]
    fn other_texts_are_not_digits() {
        for text in ["0", "000", "0g", "+f", "-1", " 0", "0x", "é", "٣٣"] {
            assert_eq!(decode(text), None, "{text}");
        }
    }
}
