//! `TokenUsage`. `inputTokens` excludes the tokens read from and written to the cache.

use gw_wire::usage::{MAX_BELIEVABLE, Usage};
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TokenUsage {
    input_tokens: Value,
    output_tokens: Value,
    cache_read_input_tokens: Value,
    cache_write_input_tokens: Value,
}

/// Reads the counts; None if none is reported. An unbelievable count is clamped and marked as an estimate.
pub(super) fn read(raw: &RawValue) -> Option<Usage> {
    let counts: TokenUsage = serde_json::from_str(raw.get()).ok()?;
    let mut is_odd = false;
    let (input, output) =
        (count(&counts.input_tokens, &mut is_odd), count(&counts.output_tokens, &mut is_odd));
    let cached = count(&counts.cache_read_input_tokens, &mut is_odd);
    let written = count(&counts.cache_write_input_tokens, &mut is_odd);
    if input.is_none() && output.is_none() && !is_odd {
        return None;
    }
    Some(Usage {
        prompt: input.unwrap_or(0) + cached.unwrap_or(0) + written.unwrap_or(0),
        completion: output.unwrap_or(0),
        cached,
        cache_write: written,
        estimated: is_odd || input.is_none() || output.is_none(),
        ..Usage::default()
    })
}

/// Reads the only count of an embeddings response (`inputTextTokenCount`).
pub(super) fn prompt(raw: &RawValue) -> Option<Usage> {
    let mut is_odd = false;
    let prompt = count(&serde_json::from_str(raw.get()).ok()?, &mut is_odd);
    (prompt.is_some() || is_odd).then(|| Usage {
        prompt: prompt.unwrap_or(0),
        estimated: is_odd,
        ..Usage::default()
    })
}

fn count(value: &Value, is_odd: &mut bool) -> Option<u64> {
    if value.is_null() {
        return None;
    }
    let exact = value.as_u64().filter(|count| *count <= MAX_BELIEVABLE);
    if exact.is_some() {
        return exact;
    }
    *is_odd = true;
    let number = value.as_f64().filter(|number| !number.is_nan())?;
    Some(number.clamp(0.0, MAX_BELIEVABLE as f64) as u64)
}
