//! `TokenUsage`. `inputTokens` excludes the tokens read from and written to the cache.

use gw_wire::usage::{MAX_BELIEVABLE, Usage, small};
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
    /// The writes by lifetime (API Reference, `API_runtime_CacheDetail`): `{"ttl": "5m" or "1h", "inputTokens": n}`.
    cache_details: Value,
}

/// Reads the counts; None if none is reported. An unbelievable count is clamped and marked as an estimate.
pub(super) fn read(raw: &RawValue) -> Option<Usage> {
    let counts: TokenUsage = serde_json::from_str(raw.get()).ok()?;
    let mut is_odd = false;
    let (input, output) =
        (count(&counts.input_tokens, &mut is_odd), count(&counts.output_tokens, &mut is_odd));
    let cached = count(&counts.cache_read_input_tokens, &mut is_odd);
    let (written, long) = writes(&counts, &mut is_odd);
    if input.is_none() && output.is_none() && !is_odd {
        return None;
    }
    Some(Usage {
        prompt: input.unwrap_or(0) + cached.unwrap_or(0) + written.unwrap_or(0),
        completion: output.unwrap_or(0),
        cached,
        cache_write: written,
        cache_write_1h: long.map(small),
        estimated: is_odd || input.is_none() || output.is_none(),
        ..Usage::default()
    })
}

/// Reads the tokens written to the cache, and the part of them that is kept for an hour.
fn writes(counts: &TokenUsage, is_odd: &mut bool) -> (Option<u64>, Option<u64>) {
    let reported = count(&counts.cache_write_input_tokens, is_odd);
    let Some(details) = counts.cache_details.as_array().filter(|details| !details.is_empty()) else {
        return (reported, None);
    };
    let (mut all, mut long) = (0_u64, 0_u64);
    for detail in details {
        let tokens = detail.get("inputTokens").and_then(|tokens| count(tokens, is_odd)).unwrap_or(0);
        all = all.saturating_add(tokens);
        if detail.get("ttl").and_then(Value::as_str) == Some("1h") {
            long = long.saturating_add(tokens);
        }
    }
    let written = reported.unwrap_or(0).max(all.min(MAX_BELIEVABLE));
    (Some(written), Some(long.min(written)).filter(|long| *long > 0))
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

#[cfg(test)]
mod tests {
    use serde_json::value::RawValue;

    fn writes(json: &str) -> (u64, Option<u64>, Option<u32>) {
        let usage = super::read(&RawValue::from_string(json.to_owned()).unwrap()).unwrap();
        (usage.prompt, usage.cache_write, usage.cache_write_1h)
    }

    #[test]
    fn cache_writes_are_read_by_their_lifetime() {
        for (details, read) in [
            ("", (110, Some(100), None)),
            (r#","cacheDetails":[]"#, (110, Some(100), None)),
            (
                r#","cacheDetails":[{"ttl":"1h","inputTokens":60},{"ttl":"5m","inputTokens":40}]"#,
                (110, Some(100), Some(60)),
            ),
            (r#","cacheDetails":[{"ttl":"1h","inputTokens":900}]"#, (910, Some(900), Some(900))),
            (r#","cacheDetails":[{"ttl":"5m","inputTokens":100},7,{"ttl":"1h"}]"#, (110, Some(100), None)),
            (r#","cacheDetails":"none""#, (110, Some(100), None)),
        ] {
            let json =
                format!(r#"{{"inputTokens":10,"outputTokens":1,"cacheWriteInputTokens":100{details}}}"#);
            assert_eq!(writes(&json), read, "{details}");
        }
    }
}
