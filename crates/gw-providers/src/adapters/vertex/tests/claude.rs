//! Claude: Anthropic's bodies at Google's addresses.

use bytes::Bytes;
use gw_wire::failure::{Failure, FailureKind};
use gw_wire::request::embeddings::parse_embeddings;
use gw_wire::request::{RequestLimits, chat::parse_chat};
use serde_json::{Value, json};

use super::{body, built, target};
use crate::adapter::{Adapter, ChoiceRange, Encoded, Reading};
use crate::adapters::anthropic;

const ONE: ChoiceRange = ChoiceRange { n: 1, prompts: 0..1, from: 0 };

fn encode(adapter: &dyn Adapter, model: &str, more: &Value) -> Result<Encoded, Failure> {
    let mut json = json!({"model": "gcp/m", "messages": [{"role": "user", "content": "x"}]});
    json.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let request = parse_chat(Bytes::from(json.to_string()), &RequestLimits::default()).unwrap();
    adapter.chat(&request, &ONE, &target(model))
}

#[test]
fn every_claude_name_uses_the_publisher_path() {
    let place = "/v1/projects/my-project/locations/europe-west4/publishers/anthropic/models";
    for (model, stream, path) in [
        ("claude-opus-4-5@20251101", false, format!("{place}/claude-opus-4-5@20251101:rawPredict")),
        ("claude-opus-5-5", true, format!("{place}/claude-opus-5-5:streamRawPredict")),
        ("anthropic/claude-sonnet-5-5", false, format!("{place}/claude-sonnet-5-5:rawPredict")),
        (
            "publishers/anthropic/models/claude-haiku-5-5",
            true,
            format!("{place}/claude-haiku-5-5:streamRawPredict"),
        ),
        (
            "projects/q/locations/global/publishers/anthropic/models/claude-opus-9",
            false,
            "/v1/projects/q/locations/global/publishers/anthropic/models/claude-opus-9:rawPredict".to_owned(),
        ),
    ] {
        let encoded = encode(&*built().adapter, model, &json!({"stream": stream})).unwrap();
        assert_eq!(encoded.call.path, path);
        assert!(encoded.reading.is_claude && !encoded.call.headers.contains_key("anthropic-version"));
        let accept = if stream { "text/event-stream" } else { "application/json" };
        assert_eq!(encoded.call.headers["accept"], accept);
    }
    let gemini = encode(&*built().adapter, "gemini-2.5-pro", &json!({})).unwrap();
    assert!(!gemini.reading.is_claude && gemini.call.path.ends_with(":generateContent"));
}

#[test]
fn the_body_is_anthropics_except_model_and_version() {
    let schema = json!({"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false}}});
    let tools = json!([{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}]);
    for model in
        ["claude-3-5-haiku", "claude-opus-4-5", "claude-sonnet-4-6", "claude-sonnet-5-5", "claude-opus-5-5"]
    {
        for more in [
            json!({"temperature": 0.5, "top_p": 0.5, "stop": ["a"], "user": "u"}),
            json!({"reasoning_effort": "high", "max_tokens": 9000, "stream": true}),
            json!({"response_format": schema}),
            json!({"tools": tools, "tool_choice": "required"}),
            json!({"messages": [{"role": "user", "content": "Count."}, {"role": "assistant", "content": "1, 2"}]}),
        ] {
            let own = encode(&*anthropic::adapter(), model, &more).unwrap();
            let vertex = encode(&*built().adapter, &format!("{model}@20261101"), &more).unwrap();
            assert_eq!(own.warnings, vertex.warnings, "{model} {more}");
            let (mut own, mut vertex) = (body(&own.call), body(&vertex.call));
            assert_eq!(own.as_object_mut().unwrap().remove("model"), Some(json!(model)));
            let version = vertex.as_object_mut().unwrap().remove("anthropic_version");
            assert_eq!(version, Some(json!("vertex-2023-10-16")));
            assert_eq!(own, vertex, "{model} {more}");
        }
    }
}

#[test]
fn images_and_files_at_an_address_are_refused() {
    for (part, kind) in [
        (
            json!({"type": "image_url", "image_url": {"url": "https://x.example/y.png"}}),
            FailureKind::ImageAddress,
        ),
        (json!({"type": "file", "file": {"file_data": "https://x.example/y.pdf"}}), FailureKind::Unsupported),
    ] {
        let more = json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, part]}]});
        let Err(failure) = encode(&*built().adapter, "claude-opus-5-5", &more) else { panic!("{more}") };
        assert_eq!(failure.kind, kind, "{more}");
    }
    let data = json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}});
    let more = json!({"messages": [{"role": "user", "content": [data]}]});
    assert!(encode(&*built().adapter, "claude-opus-5-5", &more).is_ok());
}

#[test]
fn answers_and_streams_are_read_as_anthropic() {
    let adapter = built().adapter;
    let reading = Reading { is_claude: true, ..Reading::default() };
    let message = json!({"type": "message", "model": "claude-opus-5-5", "content": [{"type": "text", "text": "x"}], "stop_reason": "end_turn",
        "usage": {"input_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 2, "output_tokens": 1}});
    let text = message.to_string();
    let reply = adapter.decode_chat(text.as_bytes(), &reading).unwrap();
    assert_eq!(reply.choices[0].content.as_deref(), Some("x"));
    assert_eq!(reply.usage.map(|usage| usage.prompt), Some(10));
    assert!(adapter.decode_chat(text.as_bytes(), &Reading::default()).is_err());
    let (mut events, mut stream) = (0, adapter.stream(&reading));
    stream.feed(b"event: message_start\ndata: {\"type\":\"message_start\",\"message\":{}}\n\nevent: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", &mut |_| events += 1);
    assert_eq!(events, 1);
}

#[test]
fn errors_of_google_and_of_anthropic_are_both_understood() {
    let adapter = built().adapter;
    let google =
        |status: u16, class: &str| json!({"error": {"code": status, "message": "no", "status": class}});
    let anthropic = |class: &str, message: &str| json!({"type": "error", "error": {"type": class, "message": message}, "request_id": "req_vrtx_1"});
    for (status, body, kind) in [
        (401, google(401, "UNAUTHENTICATED"), FailureKind::Auth),
        (403, google(403, "PERMISSION_DENIED"), FailureKind::Auth),
        (404, google(404, "NOT_FOUND"), FailureKind::ModelMissing),
        (429, google(429, "RESOURCE_EXHAUSTED"), FailureKind::RateLimited),
        (429, json!([google(429, "RESOURCE_EXHAUSTED")]), FailureKind::RateLimited),
        (400, google(400, "FAILED_PRECONDITION"), FailureKind::BadRequest),
        (
            400,
            anthropic("invalid_request_error", "prompt is too long: 5 tokens > 4 maximum"),
            FailureKind::ContextLength,
        ),
        (
            400,
            anthropic("invalid_request_error", "output_config.format: Extra inputs are not permitted"),
            FailureKind::BadRequest,
        ),
        (429, anthropic("rate_limit_error", "slow"), FailureKind::RateLimited),
        (529, anthropic("overloaded_error", "Overloaded"), FailureKind::Overloaded),
    ] {
        let failure = adapter.classify(status, &http::HeaderMap::new(), body.to_string().as_bytes());
        assert_eq!(failure.kind, kind, "{body}");
    }
}

#[test]
fn claude_has_no_embeddings() {
    let json = json!({"model": "gcp/m", "input": "a"});
    let request = parse_embeddings(Bytes::from(json.to_string()), &RequestLimits::default()).unwrap();
    let failure = built().adapter.embeddings(&request, 0..1, &target("claude-opus-5-5")).unwrap_err();
    assert_eq!(
        (failure.kind, failure.code.as_deref()),
        (FailureKind::Unsupported, Some("unsupported_model"))
    );
}
