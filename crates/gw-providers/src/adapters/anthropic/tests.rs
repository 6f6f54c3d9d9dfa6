//! Tests of the adapter against its fixtures and against known pitfalls.

mod errors;
mod requests;
mod responses;
mod rules;
mod streams;

use std::path::PathBuf;

use bytes::Bytes;
use gw_wire::failure::Failure;
use gw_wire::request::{RequestLimits, chat::parse_chat};
use serde_json::{Value, json};

use crate::adapter::{ChoiceRange, Encoded, Target};

fn fixture(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "fixtures", "anthropic", name].iter().collect()
}

fn target(upstream_model: &str) -> Target<'_> {
    Target {
        upstream_model,
        id: "anthropic/x",
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: None,
        context_length: None,
        rules: crate::model_rules::ModelRules::of(
            crate::settings::Api::ANTHROPIC.rules,
            upstream_model,
            "anthropic/x",
        ),
        issuer: None,
        breakpoints: None,
    }
}

fn encode_text(request: &str) -> Result<Encoded, Failure> {
    let model: Value = serde_json::from_str(request).unwrap();
    let model = model["model"].as_str().unwrap().split_once('/').unwrap().1;
    let request = parse_chat(Bytes::from(request.to_owned()), &RequestLimits::default()).unwrap();
    super::adapter().chat(&request, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &target(model))
}

fn encode(mut request: Value) -> Result<Encoded, Failure> {
    if request["model"].is_null() {
        request["model"] = json!("anthropic/claude-sonnet-4-5");
    }
    encode_text(&request.to_string())
}

fn body(encoded: &Encoded) -> Value {
    serde_json::from_slice(&encoded.call.body).unwrap()
}

/// Encodes a request with additional members; returns the body and the warnings.
fn sent(model: &str, members: Value) -> (Value, Vec<String>) {
    let mut request =
        json!({"model": format!("anthropic/{model}"), "messages": [{"role": "user", "content": "x"}]});
    let Value::Object(members) = members else { panic!() };
    request.as_object_mut().unwrap().extend(members);
    let encoded = encode(request).unwrap();
    (body(&encoded), encoded.warnings.iter().map(ToString::to_string).collect())
}
