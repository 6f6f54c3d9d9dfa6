//! `logprobsResult` in OpenAI's format: <https://ai.google.dev/api/generate-content#LogprobsResult>.

use serde::Serialize;
use serde_json::value::RawValue;

use super::candidate::{LogprobsResult, LogprobsToken};

#[derive(Serialize)]
struct ChoiceLogprobs<'a> {
    content: Vec<TokenLogprob<'a>>,
    refusal: Option<()>,
}

#[derive(Serialize)]
struct TokenLogprob<'a> {
    token: &'a str,
    logprob: f64,
    bytes: Option<&'a [u8]>,
    top_logprobs: Vec<TopLogprob<'a>>,
}

#[derive(Serialize)]
struct TopLogprob<'a> {
    token: &'a str,
    logprob: f64,
    bytes: Option<&'a [u8]>,
}

/// Returns the member `logprobs` of a choice; None without tokens.
pub(super) fn openai(result: &LogprobsResult<'_>) -> Option<Box<RawValue>> {
    let chosen = result.chosen_candidates.as_deref().unwrap_or_default();
    if chosen.is_empty() {
        return None;
    }
    let tops = result.top_candidates.as_deref().unwrap_or_default();
    let content = chosen.iter().enumerate().map(|(at, token)| {
        let top = tops.get(at).and_then(|top| top.candidates.as_deref()).unwrap_or_default();
        let entry = to_openai(token);
        TokenLogprob {
            token: entry.token,
            logprob: entry.logprob,
            bytes: entry.bytes,
            top_logprobs: top.iter().map(to_openai).collect(),
        }
    });
    serde_json::value::to_raw_value(&ChoiceLogprobs { content: content.collect(), refusal: None }).ok()
}

fn to_openai<'a>(token: &'a LogprobsToken<'_>) -> TopLogprob<'a> {
    let text = token.token.as_ref().map_or("", |text| &*text.0);
    // The bytes of a token that is a part of a character are unknown.
    let bytes = (!text.contains(char::REPLACEMENT_CHARACTER)).then_some(text.as_bytes());
    TopLogprob { token: text, logprob: token.log_probability.unwrap_or(0.0), bytes }
}
