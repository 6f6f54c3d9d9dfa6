//! The model `moderation`: a text with the word "violence" is flagged, and nothing else is.

use serde_json::{Value, json};

use super::response::DemoResponse;
use super::text::words;

/// The word that is flagged. It is the name of its category, too.
const FLAGGED: &str = "violence";

/// The categories of OpenAI (platform.openai.com/docs/guides/moderation, November 2026). Its packages want all of them.
const CATEGORIES: [&str; 13] = [
    "harassment",
    "harassment/threatening",
    "hate",
    "hate/threatening",
    "illicit",
    "illicit/violent",
    "self-harm",
    "self-harm/intent",
    "self-harm/instructions",
    "sexual",
    "sexual/minors",
    FLAGGED,
    "violence/graphic",
];

pub(super) fn answer(request: &Value) -> DemoResponse {
    let inputs = match request.get("input") {
        Some(Value::Array(list)) if list.first().is_some_and(Value::is_object) => {
            let texts = list.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
            vec![texts.collect::<Vec<_>>().join(" ")]
        }
        Some(Value::Array(list)) => list.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(text)) => vec![text.clone()],
        _ => return DemoResponse::error(400, "invalid_request_error", None, "'input' is missing."),
    };
    let results: Vec<Value> = inputs.iter().map(|text| result(text)).collect();
    let tokens: u64 = inputs.iter().map(|text| words(text)).sum();
    let usage = json!({"prompt_tokens": tokens, "total_tokens": tokens});
    DemoResponse::json(200, &json!({"model": "moderation", "results": results, "usage": usage}))
}

fn result(text: &str) -> Value {
    let is_flagged = text.to_lowercase().contains(FLAGGED);
    let of_each = |value: &dyn Fn(bool) -> Value| -> Value {
        CATEGORIES.iter().map(|name| ((*name).to_owned(), value(is_flagged && *name == FLAGGED))).collect()
    };
    json!({
        "flagged": is_flagged,
        "categories": of_each(&|is_found| json!(is_found)),
        "category_scores": of_each(&|is_found| json!(if is_found { 1.0 } else { 0.0 })),
        "category_applied_input_types": of_each(&|_| json!(["text"])),
    })
}
