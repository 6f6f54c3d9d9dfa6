//! Tests of the adapter against fixtures of requests and responses, known pitfalls and the table of errors.

mod requests;
mod responses;
mod streams;

use bytes::Bytes;
use gw_wire::request::chat::parse_chat;
use gw_wire::request::{ChatRequest, CompletionRequest, EmbeddingsRequest, RequestLimits};

use super::adapter;
use crate::adapter::{ChoiceRange, Encoded, Target};

fn chat(json: &str) -> ChatRequest {
    parse_chat(Bytes::copy_from_slice(json.as_bytes()), &RequestLimits::default()).unwrap()
}

fn target(upstream_model: &str) -> Target<'_> {
    Target {
        upstream_model,
        id: "google/m",
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: None,
        context_length: None,
        rules: crate::model_rules::ModelRules::of(
            crate::settings::Api::GEMINI.rules,
            upstream_model,
            "google/m",
        ),
        issuer: None,
        breakpoints: None,
    }
}

/// The upstream model of a fixture: the part of its name behind the provider.
fn upstream_model(model: &str) -> &str {
    model.split_once('/').map_or(model, |(_, rest)| rest)
}

fn encode(json: &str) -> Result<Encoded, gw_wire::failure::Failure> {
    let request = chat(json);
    let share = ChoiceRange { n: request.n, prompts: 0..1, from: 0 };
    adapter().chat(&request, &share, &target(upstream_model(&request.model)))
}

fn body_of(encoded: &Encoded) -> serde_json::Value {
    serde_json::from_slice(&encoded.call.body).unwrap()
}

fn completion(json: &str) -> CompletionRequest {
    gw_wire::request::completion::parse_completion(
        Bytes::copy_from_slice(json.as_bytes()),
        &RequestLimits::default(),
    )
    .unwrap()
}

fn embeddings(json: &str) -> EmbeddingsRequest {
    gw_wire::request::embeddings::parse_embeddings(
        Bytes::copy_from_slice(json.as_bytes()),
        &RequestLimits::default(),
    )
    .unwrap()
}
