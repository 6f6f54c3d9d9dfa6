//! Tool call ids: what providers take differs, and some must get back more than an id.

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Stands between a call's id and the provider's signature that travels with it. Clients send ids back untouched, and
/// nothing else of a tool call; so Gemini's thought signatures survive in them.
pub const THOUGHT_MARK: &str = "__thought__";

/// The id proper and the signature it carries.
#[must_use]
pub fn split_thought(id: &str) -> (&str, Option<&str>) {
    match id.split_once(THOUGHT_MARK) {
        Some((id, signature)) if !signature.is_empty() => (id, Some(signature)),
        Some((id, _)) => (id, None),
        None => (id, None),
    }
}

/// An id of letters, digits, `_` and `-`, at most 64 of them (Claude). One that is so already stays; another becomes the
/// same one each time.
#[must_use]
pub fn word_id(id: &str) -> Cow<'_, str> {
    id_of(id, b"_-")
}

/// The same where `.` and `:` are taken, too: `ToolUseId` of Bedrock's Converse (botocore 1.44.5, November 2026).
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

/// An id of exactly nine letters and digits (Mistral).
#[must_use]
pub fn alphanumeric_id(id: &str) -> Cow<'_, str> {
    let id = split_thought(id).0;
    if id.len() == 9 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Cow::Borrowed(id);
    }
    Cow::Owned(digest(id, 9))
}

/// Eight letters and digits that stand for a text where there is no room for it.
#[must_use]
pub fn short_id(text: &str) -> String {
    digest(text, 8)
}

/// So many letters and digits that depend on the text alone.
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
