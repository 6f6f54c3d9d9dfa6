//! Properties of the Messages and the Responses API for any bytes: nothing panics, a translation is a chat and the same one
//! each time, and a request that is forwarded in the client's own dialect keeps the client's members.
//!
//! These tests and the targets in `fuzz/`, which include this file, call the same functions.

use std::collections::BTreeMap;

use bytes::Bytes;
use gw_providers::adapter::{Adapter, ChoiceRange, Encoded, Target};
use gw_providers::settings::Api;
use gw_wire::dialects::{ClientRequest, messages, responses};
use gw_wire::request::{ChatRequest, Invalid, RequestLimits, parse_chat};
use serde_json::Value;
use serde_json::value::RawValue;

/// Models of the dialects that take requests as the client wrote them, and one of none.
const MODELS: [&str; 4] =
    ["claude-opus-4-5", "gpt-5-mini", "eu.anthropic.claude-sonnet-4-20250514-v1:0", "a-model"];

/// Members whose value the gateway or the host of a model decides.
const DECIDED: [&str; 10] = [
    "model",
    "store",
    "include",
    "input",
    "messages",
    "system",
    "tools",
    "thinking",
    "stream",
    "anthropic_version",
];

/// Members of the gateway's own, which no provider may see.
const OWN: [&str; 2] = ["routing", "cache"];

type Adapters = [(Api, Box<dyn Adapter>)];

/// Reads any bytes as a Messages request, and writes it for every provider.
pub(crate) fn messages(adapters: &Adapters, bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let limits = RequestLimits::default();
    let _any = messages::translate_count(bytes.clone(), &limits);
    let translate = || messages::translate(bytes.clone(), &limits).map(messages::MessagesRequest::into_parts);
    translated(adapters, &bytes, translate);
}

/// Reads any bytes as a Responses request, and writes it for every provider.
pub(crate) fn responses(adapters: &Adapters, bytes: &[u8]) {
    responses_after(adapters, bytes, &[]);
}

/// Reads any bytes as a request and the items before it (`{"history": […], "request": {…}}`), which may name each other and
/// themselves in any way.
pub(crate) fn items(adapters: &Adapters, bytes: &[u8]) {
    let Ok(parts) = serde_json::from_slice::<BTreeMap<&str, &RawValue>>(bytes) else { return };
    let history = parts.get("history").map_or("[]", |items| items.get());
    let history: Vec<&RawValue> = serde_json::from_str(history).unwrap_or_default();
    let history: Vec<&str> = history.into_iter().map(RawValue::get).collect();
    let request = parts.get("request").map_or("{}", |request| request.get());
    responses_after(adapters, request.as_bytes(), &history);
}

/// Reads any bytes as a request of either API, as it is forwarded to a provider that speaks it.
pub(crate) fn native(adapters: &Adapters, bytes: &[u8]) {
    messages(adapters, bytes);
    responses(adapters, bytes);
}

fn responses_after(adapters: &Adapters, bytes: &[u8], history: &[&str]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let limits = RequestLimits::default();
    let _any = responses::wanted_items(&bytes, &limits);
    let _any = responses::input_items::input_items(&bytes, history, 0);
    let earlier = || responses::EarlierItems { items: history, ..responses::EarlierItems::default() };
    let translate = || {
        let request = responses::translate_with(bytes.clone(), &limits, &earlier())?;
        let client = request.client(request.context.clone());
        Ok((request.chat, client))
    };
    translated(adapters, &bytes, translate);
}

/// Checks a translation, and writes its chat for every provider.
fn translated(
    adapters: &Adapters,
    bytes: &Bytes,
    translate: impl Fn() -> Result<(Vec<u8>, ClientRequest), Invalid>,
) {
    let (chat, client) = match translate() {
        Ok(parts) => parts,
        Err(fault) => return assert!(!fault.message.is_empty(), "a refusal without a word"),
    };
    let shown = || String::from_utf8_lossy(&chat).into_owned();
    assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&chat).is_ok(), "not JSON: {}", shown());
    assert!(translate().is_ok_and(|(again, _)| again == chat), "another chat than before: {}", shown());
    let Ok(mut request) = parse_chat(Bytes::from(chat), &RequestLimits::default()) else { return };
    request.client = Some(Box::new(client));
    for ((api, adapter), model) in adapters.iter().flat_map(|of| MODELS.map(|model| (of, model))) {
        let Some(encoded) = encode(*api, &**adapter, &request, model) else { continue };
        let body: Result<serde::de::IgnoredAny, _> = serde_json::from_slice(&encoded.call.body);
        assert!(body.is_ok(), "{model} is sent {}", String::from_utf8_lossy(&encoded.call.body));
        let again = encode(*api, &**adapter, &request, model);
        assert!(
            again.is_some_and(|again| again.call.body == encoded.call.body),
            "{model}: not the same again"
        );
        if encoded.reading.is_native {
            forwarded(bytes, &encoded.call.body, model);
        }
    }
}

fn encode(api: Api, adapter: &dyn Adapter, request: &ChatRequest, model: &str) -> Option<Encoded> {
    let target = Target {
        upstream_model: model,
        id: "any/a-model",
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: Some(8192),
        context_length: Some(128_000),
        rules: gw_providers::model_rules::ModelRules::of(api.rules, model, "any/a-model"),
        issuer: None,
        breakpoints: None,
    };
    let share =
        ChoiceRange { n: request.n.min(adapter.traits().capabilities.choices), prompts: 0..1, from: 0 };
    adapter.chat(request, &share, &target).ok()
}

/// Checks a request that a provider gets in the client's own dialect: a member of the client comes with its value, and no
/// member of the gateway comes.
fn forwarded(own: &[u8], sent: &[u8], model: &str) {
    let read = |bytes| serde_json::from_slice::<BTreeMap<String, Value>>(bytes).unwrap_or_default();
    let (own, sent) = (read(own), read(sent));
    for (name, value) in &sent {
        assert!(!OWN.contains(&name.as_str()), "{model} is sent '{name}'");
        let is_kept = own.get(name).is_none_or(|given| given == value);
        assert!(is_kept || DECIDED.contains(&name.as_str()), "{model}: '{name}' is {value}");
    }
}
