//! The model `rerank`: the score of a document is the share of the query's words that it has.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::response::DemoResponse;
use super::text::words;

pub(super) fn answer(request: &Value) -> DemoResponse {
    let query = request.get("query").and_then(Value::as_str).unwrap_or_default();
    let Some(documents) = request.get("documents").and_then(Value::as_array) else {
        return DemoResponse::error(400, "invalid_request_error", None, "'documents' is missing.");
    };
    let asked = vocabulary(query);
    let texts = || documents.iter().map(|document| document.as_str().unwrap_or_default());
    let score = |text: &str| {
        let has = vocabulary(text);
        let found = asked.iter().filter(|word| has.contains(*word)).count();
        found as f64 / asked.len().max(1) as f64
    };
    let mut ranked: Vec<(usize, f64)> = texts().map(score).enumerate().collect();
    ranked.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let most = request.get("top_n").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
    ranked.truncate(most.unwrap_or(usize::MAX));
    let results: Vec<Value> =
        ranked.iter().map(|(index, score)| json!({"index": index, "relevance_score": score})).collect();
    let tokens = texts().map(words).sum::<u64>() + words(query) * documents.len() as u64;
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    DemoResponse::json(200, &json!({"object": "list", "model": "rerank", "results": results, "usage": usage}))
}

/// The words in lower case, without signs.
fn vocabulary(text: &str) -> HashSet<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}
