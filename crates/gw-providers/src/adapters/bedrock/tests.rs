//! Tests of the adapter against the files in `fixtures/bedrock`.

mod embeddings;
mod errors;
mod requests;
mod responses;
mod rules;
mod settings;
mod sigv4;
mod streams;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use gw_wire::failure::Failure;
use gw_wire::request::{ChatRequest, RequestLimits, parse_chat};
use serde_json::{Value, json};

use super::Bedrock;
use crate::adapter::{Adapter, ChoiceRange, Encoded, Target};
use crate::adapters::native::Native;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/bedrock").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

fn json_of(name: &str) -> Value {
    serde_json::from_slice(&bytes(name)).unwrap()
}

fn request(body: &Value) -> ChatRequest {
    parse_chat(Bytes::from(body.to_string()), &RequestLimits::default()).unwrap()
}

fn target(model: &str) -> Target<'_> {
    Target {
        upstream_model: model,
        id: "amazon/a-model",
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: None,
        context_length: None,
        rules: crate::model_rules::ModelRules::of(
            crate::settings::Api::BEDROCK.rules,
            model,
            "amazon/a-model",
        ),
        issuer: None,
        breakpoints: None,
    }
}

/// Encodes a body for its own model, or for a Claude model that does not think.
fn encode(body: Value) -> Result<Encoded, Failure> {
    let mut body = body;
    if body.get("model").is_none() {
        body["model"] = json!("anthropic.claude-3-haiku-20240307-v1:0");
    }
    if body.get("messages").is_none() {
        body["messages"] = json!([{"role": "user", "content": "Hi"}]);
    }
    let request = request(&body);
    let model = body["model"].as_str().unwrap();
    Native(Bedrock).chat(&request, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &target(model))
}

fn body(encoded: &Encoded) -> Value {
    serde_json::from_slice(&encoded.call.body).unwrap()
}

fn sent(body: Value) -> Value {
    self::body(&encode(body).unwrap())
}
