//! Member names as a lenient reader takes them: without regard to case, `_` and `-`.

/// Buffer for a folded name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Folded {
    bytes: [u8; Self::MAX_BYTES],
}

impl Folded {
    /// Longer than every name that is searched for.
    const MAX_BYTES: usize = 48;
}

impl Default for Folded {
    fn default() -> Self {
        Self { bytes: [0; Self::MAX_BYTES] }
    }
}

/// The name in lower case without `_` and `-`. A long name is cut off. None if the name has characters that no searched
/// name has.
pub(super) fn folded<'b>(name: &str, buffer: &'b mut Folded) -> Option<&'b str> {
    let mut len = 0;
    for c in name.chars().filter(|c| !matches!(c, '_' | '-')) {
        let Some(slot) = buffer.bytes.get_mut(len) else { break };
        *slot = match c {
            // Two characters outside ASCII fold to ASCII letters, and Go's JSON reader folds them.
            '\u{17f}' => b's',
            '\u{212a}' => b'k',
            c if c.is_ascii() => u8::try_from(c).ok()?.to_ascii_lowercase(),
            _ => return None,
        };
        len += 1;
    }
    std::str::from_utf8(buffer.bytes.get(..len)?).ok()
}

/// The bytes of a known name without `_`.
pub(super) fn without_underscores(name: &str) -> impl Iterator<Item = u8> {
    name.bytes().filter(|byte| *byte != b'_')
}
