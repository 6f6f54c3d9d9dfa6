//! Members of answers, as tests compare them.

use gw_testkit::Response;
use gw_testkit::sse::{chunks, parse};
use serde_json::{Value, json};

pub(crate) fn fallback(models: &[&str]) -> Value {
    json!({ "routing": { "fallback": models } })
}

pub(crate) fn attempts(body: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let attempts = body["gateway"]["attempts"].as_array().cloned().unwrap_or_default();
    attempts.iter().map(|attempt| (text(&attempt["model"]), text(&attempt["status"]))).collect()
}

pub(crate) fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
    expected.iter().map(|&(model, status)| (model.to_owned(), status.to_owned())).collect()
}

/// The cache's result in the headers of an answer: `HIT`, `MISS`, …
pub(crate) fn cache_result(answer: &Response) -> &str {
    answer.header("x-gateway-cache").unwrap_or("none")
}

/// Checks that the error event and `[DONE]` end the frames, and that no chunk has a finish reason.
#[track_caller]
pub(crate) fn assert_broken_off(frames: &[String], code: &str) {
    let [.., error, done] = frames else { panic!("too few frames: {frames:?}") };
    assert_eq!(done, "data: [DONE]\n\n");
    let error = parse(error).unwrap_or_else(|| panic!("{frames:?}"));
    let members = error["error"].as_object().unwrap_or_else(|| panic!("no error event: {frames:?}"));
    assert_eq!(error.as_object().map(serde_json::Map::len), Some(1), "{error}");
    assert_eq!(members.len(), 3, "{error}");
    assert!(members.values().all(Value::is_string), "{error}");
    assert_eq!((&error["error"]["type"], &error["error"]["code"]), (&json!("upstream_error"), &json!(code)));
    let claims = chunks(frames).iter().any(|chunk| chunk["choices"][0]["finish_reason"].is_string());
    assert!(!claims, "a cut answer must not have a finish_reason: {frames:?}");
}
