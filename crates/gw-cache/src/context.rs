//! The context of a last turn: everything that two chat requests must have in common before their last turns are
//! compared.
//!
//! Similar words alone do not make a similar question. The system prompt, the tools, all parameters and all earlier
//! turns must be equal. The figures in the last turn must be equal too, because embeddings hardly distinguish "refund order
//! 4711" from "refund order 4712".

use gw_wire::json::{Kind, View};

use crate::canonical;
use crate::hasher::Hasher;
use crate::key::{Key, Question, Scope};

/// Everything around the last turn, as a key, and the words of the last turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Context {
    /// Requests with the same key may be compared. It is not the key of an answer.
    pub key: Key,
    /// The words of the last turn, to be embedded.
    pub text: String,
}

impl Context {
    /// The context of a chat request, for vectors of this embedding model. None if the last message is not a user's, or
    /// contains more than text.
    #[must_use]
    pub fn of(scope: &Scope, question: &Question<'_>, embedder: &str) -> Option<Self> {
        let messages = question.body.view("messages")?;
        let last = messages.elements().last()?;
        let member = |name: &str| {
            let mut members = last.members().filter(|(key, _)| key.string().as_deref() == Some(name));
            let first = members.next().map(|(_, value)| value);
            // With two members of one name it is unclear which one counts.
            first.filter(|_| members.next().is_none())
        };
        if member("role")?.string()? != "user" {
            return None;
        }
        let text = words(member("content")?)?;
        let mut rest = Hasher::new();
        canonical::feed_text(embedder, &mut rest);
        feed_figures(&text, &mut rest);
        // The earlier messages, then the other members of the last one (such as `name`).
        let count = messages.elements().count();
        rest.number(b'c', count as u64);
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
        Some(Self { key: Key::of_context(scope, question, rest)?, text })
    }
}

/// The text of a content: a string, or text parts joined by line breaks. None for other content, and for an empty text.
fn words(content: View<'_>) -> Option<String> {
    let text = match content.kind() {
        Kind::String => content.string()?.into_owned(),
        Kind::Array => {
            let parts = content.elements().map(|part| {
                // A part with a third member, such as a mark for a provider's cache, is not compared: the member would
                // be lost.
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

/// Feeds the words that vectors hardly distinguish, in their order: words with a digit (`4711`, `-5`, `1.5`, `AB12`,
/// `5mg`) or with a sign of arithmetic, comparison or addresses (`>`, `a/b`, `x@y`). Punctuation around them is left
/// out.
fn feed_figures(text: &str, out: &mut Hasher) {
    let is_figure_sign = |c: char| c.is_numeric() || "<>=+*/\\^%@#$€£¥≠≤≥±~|&".contains(c);
    for word in text.split_whitespace().filter(|word| word.chars().any(is_figure_sign)) {
        let word = word.trim_start_matches(['(', '[', '"', '\'']);
        let word = word.trim_end_matches(['.', ',', ';', ':', '!', '?', ')', ']', '"', '\'']);
        canonical::feed_text(&word.to_lowercase(), out);
    }
    out.update([b'e']);
}

#[cfg(test)]
mod tests;
