//! Bytes as text. Bodies are checked 32 bytes at a time.

use std::str::Utf8Error;

/// The bytes as text.
///
/// # Errors
/// The bytes are not UTF-8. The error has the place of the first byte that is part of no character.
pub fn text(bytes: &[u8]) -> Result<&str, Utf8Error> {
    // Only the slower check finds the place, and few bodies are wrong.
    simdutf8::basic::from_utf8(bytes).or_else(|_| std::str::from_utf8(bytes))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_result_is_that_of_the_standard_library(
            start in ".{0,80}",
            damage in prop::collection::vec(any::<u8>(), 0..4),
            end in ".{0,80}",
        ) {
            let bytes = [start.as_bytes(), &damage, end.as_bytes()].concat();
            prop_assert_eq!(text(&bytes), std::str::from_utf8(&bytes));
        }
    }
}
