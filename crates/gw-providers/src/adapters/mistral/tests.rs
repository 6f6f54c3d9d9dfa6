//! Mistral's dialect against the fixtures of `fixtures/mistral`.

mod answers;
mod requests;

use bytes::Bytes;
use gw_wire::conversation::alphanumeric_id;
use gw_wire::request::{RequestLimits, parse_chat, parse_completion};
use serde_json::Value;

use crate::adapter::{Adapter, ChoiceRange, Encoded, Target};
use crate::registry;
use crate::settings::{Api, ProviderSettings};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../../fixtures/mistral/", $name))
    };
}
use fixture;

fn mistral() -> Box<dyn Adapter> {
    let settings =
        ProviderSettings { allow_private_network: false, ..ProviderSettings::plain("mistral", Api::MISTRAL) };
    registry::build(&settings).unwrap().adapter
}

fn target(upstream_model: &str) -> Target<'_> {
    Target {
        upstream_model,
        id: "mistral/m",
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: None,
        context_length: None,
        rules: crate::model_rules::ModelRules::of(Api::MISTRAL.rules, upstream_model, "mistral/m"),
        issuer: None,
        breakpoints: None,
    }
}

fn json(text: impl AsRef<[u8]>) -> Value {
    serde_json::from_slice(text.as_ref()).unwrap()
}

/// A fixture of a request. `CALL_A` stands for the id that `call_a` becomes.
fn sent(text: &str) -> Value {
    json(text.replace("CALL_A", &alphanumeric_id("call_a")))
}

/// Encodes a chat for all its choices in one call.
fn chat(request: impl Into<String>, model: &str) -> Encoded {
    let request = parse_chat(Bytes::from(request.into()), &RequestLimits::default()).unwrap();
    mistral().chat(&request, &ChoiceRange { n: request.n, prompts: 0..1, from: 0 }, &target(model)).unwrap()
}

fn completion(request: impl Into<String>, model: &str) -> Encoded {
    let request = parse_completion(Bytes::from(request.into()), &RequestLimits::default()).unwrap();
    mistral().completion(&request, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &target(model)).unwrap()
}
