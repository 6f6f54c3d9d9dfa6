//! What a chat request must share with another one to be answered alike: everything but the words of the last turn.
//!
//! Similar words alone are not a similar question. The system prompt, the tools, all parameters and all turns before must be the same,
//! and so must the figures in the last turn: embeddings hardly tell "refund order 4711" from "refund order 4712".

use gw_wire::json::{Kind, View};
use sha2::{Digest, Sha256};

use crate::canonical;
use crate::key::{Key, Question, Scope};

/// The company in which a last turn stands, and its words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Requests with the same one may be compared. It is no answer's key.
    pub key: Key,
    /// The words of the last turn: what is to be embedded.
    pub text: String,
}

impl Context {
    /// Of a chat request, for vectors of this embedding model. None when the last message is no user's, or is more than text.
    #[must_use]
    pub fn of(scope: &Scope, question: &Question<'_>, embedder: &str) -> Option<Self> {
        let messages = question.body.view("messages")?;
        let last = messages.elements().last()?;
        let member = |name: &str| {
            let mut members = last.members().filter(|(key, _)| key.string().as_deref() == Some(name));
            let first = members.next().map(|(_, value)| value);
            // Of two the one that counts is anybody's guess.
            first.filter(|_| members.next().is_none())
        };
        if member("role")?.string()? != "user" {
            return None;
        }
        let text = words(member("content")?)?;
        let mut rest = Sha256::new();
        canonical::feed_text(embedder, &mut rest);
        figures(&text, &mut rest);
        // The other messages, one by one, and what the last one says besides its words, as a name.
        let count = messages.elements().count();
        rest.update((count as u64).to_le_bytes());
        for message in messages.elements().take(count.saturating_sub(1)) {
            canonical::feed(message.text(), &mut rest)?;
        }
        let mut others: Vec<_> =
            last.members().map(|(name, value)| Some((name.string()?, value))).collect::<Option<Vec<_>>>()?;
        others.retain(|(name, _)| name != "content");
        others.sort_by(|(one, _), (other, _)| one.cmp(other));
        for (name, value) in others {
            canonical::feed_text(&name, &mut rest);
            canonical::feed(value.text(), &mut rest)?;
        }
        Some(Self { key: Key::around(scope, question, rest)?, text })
    }
}

/// The text of a content: a string, or text parts, each on lines of its own. None for anything else, and for nothing.
fn words(content: View<'_>) -> Option<String> {
    let text = match content.kind() {
        Kind::String => content.string()?.into_owned(),
        Kind::Array => {
            let parts = content.elements().map(|part| {
                // A text part has these two members: one more, as a mark for a provider's cache, would be lost.
                let [(first, one), (second, two)] =
                    <[_; 2]>::try_from(part.members().collect::<Vec<_>>()).ok()?;
                let (first, second) = (first.string()?, second.string()?);
                let (kind, text) = match (&*first, &*second) {
                    ("type", "text") => (one, two),
                    ("text", "type") => (two, one),
                    _ => return None,
                };
                (kind.string()? == "text").then(|| text.string().map(String::from)).flatten()
            });
            parts.collect::<Option<Vec<_>>>()?.join("\n")
        }
        _ => return None,
    };
    (!text.trim().is_empty()).then_some(text)
}

/// Feeds what a vector hardly tells apart, in its order: each word with a digit in it (`4711`, `-5`, `1.5`, `AB12`, `5mg`) or with a
/// sign that computes, compares or addresses (`>`, `a/b`, `x@y`), without the punctuation around it.
fn figures(text: &str, out: &mut Sha256) {
    let is_about_figures = |c: char| c.is_numeric() || "<>=+*/\\^%@#$€£¥≠≤≥±~|&".contains(c);
    for word in text.split_whitespace().filter(|word| word.chars().any(is_about_figures)) {
        let word = word.trim_start_matches(['(', '[', '"', '\'']);
        let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '"', '\'']);
        canonical::feed_text(&word.to_lowercase(), out);
    }
    out.update([b'e']);
}

#[cfg(test)]
mod tests;
