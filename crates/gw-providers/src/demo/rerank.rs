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
    let texts = || documents.iter().map(|document| document.as_str().unwrap_or_default());
    let mut ranked: Vec<(usize, f64)> = texts().map(|text| score(query, text)).enumerate().collect();
    ranked.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    let most = request.get("top_n").and_then(Value::as_u64).and_then(|most| usize::try_from(most).ok());
    ranked.truncate(most.unwrap_or(usize::MAX));
    let results: Vec<Value> =
        ranked.iter().map(|(index, score)| json!({"index": index, "relevance_score": score})).collect();
    let tokens = texts().map(words).sum::<u64>() + words(query) * documents.len() as u64;
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    DemoResponse::json(200, &json!({"object": "list", "model": "rerank", "results": results, "usage": usage}))
}

/// The score of each pair of texts.
pub(super) fn scores(request: &Value) -> DemoResponse {
    let texts = |name: &str| -> Vec<&str> {
        match request.get(name) {
            Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).collect(),
            other => other.and_then(Value::as_str).into_iter().collect(),
        }
    };
    let (first, second) = (texts("text_1"), texts("text_2"));
    let pairs = first.iter().cycle().zip(&second);
    let tokens: u64 = pairs.clone().map(|(one, other)| words(one) + words(other)).sum();
    let entry = |(index, (one, other)): (usize, (&&str, &&str))| json!({"index": index, "object": "score", "score": score(one, other)});
    let data: Vec<Value> = pairs.enumerate().map(entry).collect();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    DemoResponse::json(200, &json!({"object": "list", "model": "rerank", "data": data, "usage": usage}))
}

/// The share of the query's words that a text has.
fn score(query: &str, text: &str) -> f64 {
    let (asked, has) = (vocabulary(query), vocabulary(text));
    let found = asked.iter().filter(|word| has.contains(*word)).count();
    found as f64 / asked.len().max(1) as f64
}

/// The words in lower case, without signs.
fn vocabulary(text: &str) -> HashSet<String> {
    let words = text.split(|letter: char| !letter.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}
