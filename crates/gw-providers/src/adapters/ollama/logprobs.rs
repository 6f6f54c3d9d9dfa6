//! Ollama's log probabilities in OpenAI's format. The entries are equal, but some lack `bytes` (ollama-python 0.6.3,
//! `Logprob`, `TokenLogprob`).

use std::borrow::Cow;

use gw_wire::json::write_str;
use serde_json::value::RawValue;

use crate::adapters::openai::lenient::{LenientText, lenient_members};

lenient_members! {
    /// A token and its alternatives.
    LogprobEntry<'de> {
        token: LenientText<'de> = "token",
        logprob: &'de RawValue = "logprob",
        top_logprobs: Vec<LogprobEntry<'de>> = "top_logprobs",
    }
}

/// None when nothing can be read, because missing probabilities should not fail an answer.
pub(super) fn convert(raw: &RawValue) -> Option<Box<RawValue>> {
    let entries: Vec<LogprobEntry<'_>> = serde_json::from_str(raw.get()).ok()?;
    if entries.is_empty() {
        return None;
    }
    let mut out = b"{\"content\":".to_vec();
    list(&mut out, entries, true);
    out.extend_from_slice(b",\"refusal\":null}");
    RawValue::from_string(String::from_utf8(out).ok()?).ok()
}

fn list(out: &mut Vec<u8>, entries: Vec<LogprobEntry<'_>>, with_alternatives: bool) {
    out.push(b'[');
    for (at, entry) in entries.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        let token = entry.token.map_or(Cow::Borrowed(""), |token| token.0);
        out.extend_from_slice(b"{\"token\":");
        write_str(out, &token);
        out.extend_from_slice(b",\"logprob\":");
        // Writing a number into memory cannot fail. A number that is not finite becomes null.
        let logprob: Option<f64> = entry.logprob.and_then(|number| number.get().parse().ok());
        let _ = serde_json::to_writer(&mut *out, &logprob.unwrap_or_default());
        out.extend_from_slice(b",\"bytes\":");
        let _ = serde_json::to_writer(&mut *out, token.as_bytes());
        if with_alternatives {
            out.extend_from_slice(b",\"top_logprobs\":");
            list(out, entry.top_logprobs.unwrap_or_default(), false);
        }
        out.push(b'}');
    }
    out.push(b']');
}
