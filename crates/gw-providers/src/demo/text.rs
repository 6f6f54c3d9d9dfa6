//! The text of a message, and its length in tokens.

use serde_json::Value;

/// The number of words. The demo counts words as tokens.
pub(super) fn words(text: &str) -> u64 {
    text.split_whitespace().count() as u64
}

/// The text of a message: its string or its text parts.
pub(super) fn text_of(message: &Value) -> String {
    match message.get("content") {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(parts)) => {
            let texts: Vec<&str> = parts.iter().filter_map(|part| part.get("text")?.as_str()).collect();
            texts.join(" ")
        }
        _ => String::new(),
    }
}
