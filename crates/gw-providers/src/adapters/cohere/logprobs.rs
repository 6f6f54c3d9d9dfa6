//! Cohere's log probabilities in OpenAI's shape.

use std::borrow::Cow;

use gw_wire::json::write_str;
use serde_json::value::RawValue;

use super::shape::OneOrMany;
use crate::adapters::openai::lenient::{LenientText, lenient_members};

lenient_members! {
    /// `LogprobItem`: a piece of text, and the probabilities of the tokens that it was made of.
    LogprobItem<'de> {
        text: LenientText<'de> = "text",
        logprobs: Vec<f64> = "logprobs",
    }
}

/// Each piece becomes one token of OpenAI's. Where a piece was made of several tokens (a character may be), the text of each
/// is not told; the probability of the piece is the product of theirs, so the logarithms are added. None when there is
/// nothing that can be read: probabilities are not worth an answer.
pub(super) fn convert(raw: &RawValue) -> Option<Box<RawValue>> {
    let items: OneOrMany<LogprobItem<'_>> = serde_json::from_str(raw.get()).ok()?;
    let mut out = b"{\"content\":[".to_vec();
    let begin = out.len();
    items.each(|item| {
        let Some(logprobs) = item.logprobs.filter(|logprobs| !logprobs.is_empty()) else { return };
        let text = item.text.map_or(Cow::Borrowed(""), |text| text.0);
        if out.len() > begin {
            out.push(b',');
        }
        entry(&mut out, &text, logprobs.iter().sum());
    });
    if out.len() == begin {
        return None;
    }
    out.extend_from_slice(b"],\"refusal\":null}");
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}

fn entry(out: &mut Vec<u8>, token: &str, logprob: f64) {
    out.extend_from_slice(b"{\"token\":");
    write_str(out, token);
    out.extend_from_slice(b",\"logprob\":");
    // Writing a number into memory cannot fail; one that is not finite would be null.
    let _ = serde_json::to_writer(&mut *out, &logprob);
    out.extend_from_slice(b",\"bytes\":");
    let _ = serde_json::to_writer(&mut *out, token.as_bytes());
    out.extend_from_slice(b",\"top_logprobs\":[]}");
}
