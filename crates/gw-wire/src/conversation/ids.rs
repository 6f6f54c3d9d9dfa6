//! Tool call ids: providers accept different forms, and some need a signature back along with the id.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Separates a call's id from the provider's signature. Clients send back only the id of a tool call, so Gemini's
/// thought signatures travel inside it.
pub const THOUGHT_MARK: &str = "__thought__";

/// Splits an id into the id proper and the signature that it carries.
#[must_use]
pub fn split_thought(id: &str) -> (&str, Option<&str>) {
    match id.split_once(THOUGHT_MARK) {
        Some((id, signature)) if !signature.is_empty() => (id, Some(signature)),
        Some((id, _)) => (id, None),
        None => (id, None),
    }
}

/// An id of 1 to 64 letters, digits, `_` and `-` (Claude). An id of that form stays as it is; any other id is replaced by a
/// digest, always the same one.
#[must_use]
pub fn word_id(id: &str) -> Cow<'_, str> {
    id_of(id, b"_-")
}

/// Like [`word_id`], for ids that may also hold `.` and `:`: `ToolUseId` of Bedrock's Converse (botocore 1.44.5, November 2026).
#[must_use]
pub fn converse_id(id: &str) -> Cow<'_, str> {
    id_of(id, b"_-.:")
}

fn id_of<'a>(id: &'a str, marks: &[u8]) -> Cow<'a, str> {
    let id = split_thought(id).0;
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || marks.contains(&byte);
    if !id.is_empty() && id.len() <= 64 && id.bytes().all(fits) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(format!("call_{}", digest(id, 24)))
}

/// An id of exactly nine letters and digits (Mistral), replaced like [`word_id`].
#[must_use]
pub fn alphanumeric_id(id: &str) -> Cow<'_, str> {
    let id = split_thought(id).0;
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(digest(id, 9))
}

/// A digest of eight letters and digits, for places where a text is too long.
#[must_use]
pub fn short_id(text: &str) -> String {
    digest(text, 8)
}

/// A digest of `len` letters and digits that depends only on the text.
fn digest(text: &str, len: usize) -> String {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let mut out = String::with_capacity(len);
    let mut round = 0_u32;
    while out.len() < len {
        let mut hasher = DefaultHasher::new();
        (round, text).hash(&mut hasher);
        let mut rest = hasher.finish();
        for _ in 0..10.min(len - out.len()) {
            let letter = ALPHABET.get((rest % 62) as usize).copied().unwrap_or(b'0');
            out.push(char::from(letter));
            rest /= 62;
        }
        round += 1;
    }
    out
}
