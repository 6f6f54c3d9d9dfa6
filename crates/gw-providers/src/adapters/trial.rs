//! Helpers for the tests of several dialects: fixtures, and streams that are cut at every byte.

use bytes::Bytes;
use gw_wire::event::Event;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::request::{RequestLimits, parse_chat, parse_completion, parse_embeddings};
use serde_json::Value;

use crate::adapter::{Adapter, ChoiceRange, Encoded, HttpCall, ListedModel, StreamDecoder, Target};
use crate::model_rules::ModelRules;
use crate::settings::Api;

/// One choice of one prompt.
pub(super) const ONE: ChoiceRange = ChoiceRange { n: 1, prompts: 0..1, from: 0 };

/// A model whose context the catalogue knows.
pub(super) fn target(api: Api, upstream_model: &str, context_length: Option<u64>) -> Target<'_> {
    Target {
        upstream_model,
        id: "p/m",
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: None,
        context_length,
        rules: ModelRules::of(api.rules, upstream_model, "p/m"),
        issuer: None,
        breakpoints: None,
    }
}

/// The names on a provider's model list.
pub(super) fn names(listed: Result<Vec<ListedModel>, Failure>) -> Vec<String> {
    listed.unwrap().into_iter().map(|model| model.name).collect()
}

/// Encodes a chat, or a text completion if the request has a prompt. The upstream model follows the provider in
/// `model`.
pub(super) fn encode(
    api: Api,
    adapter: &dyn Adapter,
    request: &str,
    context_length: Option<u64>,
) -> Result<Encoded, Failure> {
    let body = Bytes::copy_from_slice(request.as_bytes());
    let value: Value = serde_json::from_str(request).unwrap();
    let model = value["model"].as_str().unwrap();
    let target = target(api, model.split_once('/').map_or(model, |(_, rest)| rest), context_length);
    if value.get("prompt").is_some() {
        return adapter.completion(
            &parse_completion(body, &RequestLimits::default()).unwrap(),
            &ONE,
            &target,
        );
    }
    adapter.chat(&parse_chat(body, &RequestLimits::default()).unwrap(), &ONE, &target)
}

/// Encodes a chat for the model `m`, which the catalogue declares to reason.
pub(super) fn encode_declared(api: Api, adapter: &dyn Adapter, request: &Value) -> Encoded {
    let body = Bytes::from(request.to_string());
    let plain = target(api, "m", None);
    let target = Target { rules: plain.rules.with_declared_reasoning(true), ..plain };
    adapter.chat(&parse_chat(body, &RequestLimits::default()).unwrap(), &ONE, &target).unwrap()
}

/// Encodes embeddings of all inputs.
pub(super) fn embed(
    api: Api,
    adapter: &dyn Adapter,
    request: &Value,
    context: Option<u64>,
) -> Result<HttpCall, Failure> {
    let request = parse_embeddings(Bytes::from(request.to_string()), &RequestLimits::default()).unwrap();
    adapter.embeddings(&request, 0..request.inputs.len(), &target(api, "m", context))
}

/// The body of a call.
pub(super) fn body(call: &HttpCall) -> Value {
    serde_json::from_slice(&call.body).unwrap()
}

/// The events of a stream that comes in these chunks, one per line. Adjacent pieces of one text are joined.
pub(super) fn events<'c>(
    mut decoder: Box<dyn StreamDecoder>,
    chunks: impl IntoIterator<Item = &'c [u8]>,
) -> Vec<String> {
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut sink = |event: Event<'_>| {
        let (kind, piece) = match event {
            Event::Text { text, logprobs: None, .. } => ("text".to_owned(), text.into_owned()),
            Event::Reasoning { text, .. } => ("reasoning".to_owned(), text.into_owned()),
            Event::ToolArgs { call, fragment, .. } => (format!("args {call}"), fragment.into_owned()),
            Event::ToolStart { call, id, name, .. } => (format!("call {call} {id} {name}"), String::new()),
            Event::Finish { reason, .. } => (format!("finish {}", reason.as_str()), String::new()),
            Event::Usage(usage) => {
                let odd = if usage.estimated { " estimated" } else { "" };
                let cached = usage.cached.map(|cached| format!(" ({cached} cached)")).unwrap_or_default();
                (format!("usage {}{cached} + {}{odd}", usage.prompt, usage.completion), String::new())
            }
            Event::Error(failure) => (format!("error {:?}", failure.kind), String::new()),
            Event::End => ("end".to_owned(), String::new()),
            other => (format!("{other:?}"), String::new()),
        };
        match lines.last_mut() {
            Some((last, whole)) if *last == kind && !piece.is_empty() => whole.push_str(&piece),
            _ => lines.push((kind, piece)),
        }
    };
    chunks.into_iter().for_each(|chunk| decoder.feed(chunk, &mut sink));
    decoder.eof(&mut sink);
    let line =
        |(kind, piece): (String, String)| if piece.is_empty() { kind } else { format!("{kind}: {piece}") };
    lines.into_iter().map(line).collect()
}

/// The kinds of failures that a stream reports, and the number of other events.
pub(super) fn failures(mut decoder: Box<dyn StreamDecoder>, stream: &[u8]) -> (Vec<FailureKind>, usize) {
    let (mut kinds, mut others) = (Vec::new(), 0);
    let mut sink = |event: Event<'_>| match event {
        Event::Error(failure) => kinds.push(failure.kind),
        _ => others += 1,
    };
    decoder.feed(stream, &mut sink);
    decoder.eof(&mut sink);
    (kinds, others)
}

/// Cuts a stream at every byte, at random pairs of bytes, and into single bytes. The events must not change.
pub(super) fn cut_everywhere(fresh: &dyn Fn() -> Box<dyn StreamDecoder>, stream: &[u8]) {
    let uncut = events(fresh(), [stream]);
    for at in 0..=stream.len() {
        let (one, two) = stream.split_at(at);
        assert_eq!(events(fresh(), [one, two]), uncut, "cut at {at}");
    }
    let mut seed = 1_u64;
    let mut random = || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(seed >> 33).unwrap() % (stream.len() + 1)
    };
    for _ in 0..500 {
        let mut cuts = [random(), random()];
        cuts.sort_unstable();
        let [first, second] = cuts;
        let chunks = [&stream[..first], &stream[first..second], &stream[second..]];
        assert_eq!(events(fresh(), chunks), uncut, "cuts at {cuts:?}");
    }
    assert_eq!(events(fresh(), stream.chunks(1)), uncut, "byte by byte");
}
