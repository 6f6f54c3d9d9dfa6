//! Cohere's log probabilities in OpenAI's format.

use std::borrow::Cow;

use gw_wire::json::write_str;
use serde_json::value::RawValue;

use super::wire::OneOrMany;
use crate::adapters::openai::lenient::{LenientText, lenient_members};

lenient_members! {
    /// `LogprobItem`: a piece of text with the log probabilities of its tokens.
    LogprobItem<'de> {
        text: LenientText<'de> = "text",
        logprobs: Vec<f64> = "logprobs",
    }
}

/// Converts each piece into one token of OpenAI's. Cohere does not give the texts of the single tokens. The probability
/// of a piece is the product of its tokens' probabilities, so the logarithms are added. None when nothing can be read,
/// because missing probabilities should not fail an answer.
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
    // Writing a number into memory cannot fail. A number that is not finite becomes null.
    let _ = serde_json::to_writer(&mut *out, &logprob);
    out.extend_from_slice(b",\"bytes\":");
    let _ = serde_json::to_writer(&mut *out, token.as_bytes());
    out.extend_from_slice(b",\"top_logprobs\":[]}");
}
