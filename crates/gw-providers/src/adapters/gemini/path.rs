//! Model names as segments of a path.

use std::fmt::Write as _;

/// Percent-encodes each segment of a path; the slashes between segments stay.
pub(in crate::adapters) fn encoded_path(path: &str) -> String {
    let mut out = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'@' => out.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            // Writing into a String cannot fail.
            _ => drop(write!(out, "%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::encoded_path;

    #[test]
    fn a_model_name_cannot_change_the_path() {
        assert_eq!(encoded_path("a b?c#d%e:f/é@1"), "a%20b%3Fc%23d%25e%3Af/%C3%A9@1");
    }
}
