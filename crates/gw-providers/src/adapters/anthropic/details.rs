//! Signed thoughts in `reasoning_details`, through clients of OpenAI's dialect. The format is OpenRouter's ("Preserving
//! reasoning blocks" at openrouter.ai/docs).
//!
//! A model needs its thoughts back unchanged, beside the calls that they led to.

use std::borrow::Cow;

use gw_wire::json::{ObjectWriter, View};
use serde_json::value::RawValue;

/// The name of the member.
pub(super) use crate::adapters::replay::DETAILS as MEMBER;

/// The `format` of entries with Anthropic's signatures. The API refuses signatures of other providers.
pub(in crate::adapters) const FORMAT: &str = "anthropic-claude-v1";

/// The usual order of an answer's blocks. An answer in this order needs no order entry.
pub(super) const USUAL_ORDER: &[(char, usize)] = &[('d', usize::MAX), ('t', 1), ('c', usize::MAX)];

/// One thought of the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Thought<'a> {
    /// The index of the content block in the answer.
    pub(super) index: u32,
    /// The content of the thought.
    pub(super) kind: ThoughtKind<'a>,
}

/// The content of a thought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ThoughtKind<'a> {
    /// Text, possibly empty, and its signature.
    Signed { text: Cow<'a, str>, signature: Cow<'a, str> },
    /// Encrypted content.
    Redacted { data: Cow<'a, str> },
}

/// Returns the value of the member.
pub(super) fn to_member(thoughts: &[Thought<'_>]) -> Option<Box<RawValue>> {
    let mut out = Vec::new();
    out.push(b'[');
    for (position, thought) in thoughts.iter().enumerate() {
        if position > 0 {
            out.push(b',');
        }
        write(thought, &mut out);
    }
    out.push(b']');
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}

fn write(thought: &Thought<'_>, out: &mut Vec<u8>) {
    let mut object = match &thought.kind {
        ThoughtKind::Signed { text, signature } => {
            let mut object = ObjectWriter::begin_typed(out, "reasoning.text");
            object.string("text", text);
            object.string("signature", signature);
            object
        }
        ThoughtKind::Redacted { data } => {
            let mut object = ObjectWriter::begin_typed(out, "reasoning.encrypted");
            object.string("data", data);
            object
        }
    };
    object.string("format", FORMAT);
    object.integer("index", u64::from(thought.index));
    object.finish();
}

/// Returns the string of a member, unless it is empty.
fn text(value: Option<View<'_>>) -> Option<Cow<'_, str>> {
    value.and_then(View::string).filter(|text| !text.is_empty())
}

/// Reads the thoughts that a client sent back, without unsigned ones and those of other providers.
pub(super) fn read_thoughts<'a>(details: &[View<'a>]) -> Vec<Thought<'a>> {
    details.iter().filter_map(|detail| read_thought(*detail)).collect()
}

/// Reads one thought.
pub(super) fn read_thought(detail: View<'_>) -> Option<Thought<'_>> {
    let [format, kind, words, signature, data, index] =
        detail.pick(["format", "type", "text", "signature", "data", "index"]);
    if text(format).is_some_and(|format| format != FORMAT) {
        return None;
    }
    let kind = match &*text(kind)? {
        "reasoning.text" => {
            ThoughtKind::Signed { text: text(words).unwrap_or_default(), signature: text(signature)? }
        }
        "reasoning.encrypted" => ThoughtKind::Redacted { data: text(data)? },
        _ => return None,
    };
    let index = index.and_then(|index| index.text().parse().ok()).unwrap_or(0);
    Some(Thought { index, kind })
}

#[cfg(test)]
mod tests {
    use gw_wire::json::View;

    use super::{Thought, ThoughtKind, read_thoughts, to_member};

    #[test]
    fn thoughts_round_trip() {
        let thoughts = vec![
            Thought {
                index: 0,
                kind: ThoughtKind::Signed { text: "ä\n\"漢".into(), signature: "Eq+/=".into() },
            },
            Thought { index: 1, kind: ThoughtKind::Redacted { data: "Em8=".into() } },
            Thought { index: 3, kind: ThoughtKind::Signed { text: "".into(), signature: "x".into() } },
        ];
        let written = to_member(&thoughts).unwrap();
        let views: Vec<_> = View::new(written.get()).elements().collect();
        assert_eq!(read_thoughts(&views), thoughts);
    }

    #[test]
    fn thoughts_of_other_providers_are_skipped() {
        for other in [
            r#"{"type":"reasoning.text","text":"x"}"#,
            r#"{"type":"reasoning.text","text":"x","signature":null}"#,
            r#"{"type":"reasoning.text","text":"x","signature":"s","format":"google-gemini-v1"}"#,
            r#"{"type":"reasoning.encrypted","data":"s","format":"openai-responses-v1"}"#,
            r#"{"type":"reasoning.summary","summary":"s"}"#,
            "5",
            "{}",
        ] {
            assert!(read_thoughts(&[View::new(other)]).is_empty(), "{other}");
        }
    }
}
