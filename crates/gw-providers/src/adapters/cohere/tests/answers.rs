//! Complete answers, embeddings, model lists and errors.

use std::time::Duration;

use gw_wire::failure::FailureKind;
use gw_wire::reply::{Finish, Vector};
use http::HeaderMap;
use serde_json::{Value, json};

use crate::adapter::Reading;
use crate::adapters::cohere::adapter;

fn read(body: &Value) -> Result<(Option<Finish>, usize), FailureKind> {
    let body = body.to_string();
    let reply = adapter().decode_chat(body.as_bytes(), &Reading::default()).map(|reply| {
        let choice = &reply.choices[0];
        (choice.finish, choice.tool_calls.len())
    });
    reply.map_err(|failure| failure.kind)
}

#[test]
fn citations_are_annotations_whole_and_streamed() {
    let citation = json!({"start": 7, "end": 10, "text": "7 m", "type": "TEXT_CONTENT", "sources": [
        {"type": "document", "id": "doc:0", "document": {"id": "doc:0", "title": "Plan", "url": "https://b.example", "snippet": "7 metres"}},
        {"type": "tool", "id": "look:0", "tool_output": {"height": 7}},
    ]});
    let plan =
        json!({"start": 0, "end": 1, "text": "x", "type": "PLAN", "sources": [{"type": "tool", "id": "y"}]});
    let expected = json!([
        {"type": "url_citation", "url_citation": {"url": "https://b.example", "title": "Plan", "start_index": 7, "end_index": 10, "content": "7 metres", "id": "doc:0"}},
        {"type": "url_citation", "url_citation": {"url": "", "title": "", "start_index": 7, "end_index": 10, "id": "look:0"}},
    ]);
    let body = json!({"message": {"content": [{"type": "text", "text": "Größe: 7 m"}], "citations": [citation, plan]}, "finish_reason": "COMPLETE"}).to_string();
    let adapter = adapter();
    let reply = adapter.decode_chat(body.as_bytes(), &Reading::default()).unwrap();
    let (name, value) = &reply.choices[0].extras[0];
    let value: Value = serde_json::from_str(value.get()).unwrap();
    assert_eq!((&**name, &value), ("annotations", &expected));
    let events = [
        json!({"type": "citation-start", "index": 0, "delta": {"message": {"citations": plan}}}),
        json!({"type": "citation-start", "index": 1, "delta": {"message": {"citations": citation}}}),
        json!({"type": "message-end", "delta": {"finish_reason": "COMPLETE"}}),
    ];
    let mut seen = Vec::new();
    let mut decoder = adapter.stream(&Reading::default());
    for event in events {
        decoder.feed(format!("data: {event}\n\n").as_bytes(), &mut |event| {
            if let gw_wire::event::Event::Extra { name, value, .. } = event {
                seen.push((name.to_owned(), serde_json::from_str::<Value>(value.get()).unwrap()));
            }
        });
    }
    assert_eq!(seen, [("annotations".to_owned(), expected)]);
}

#[test]
fn all_blocks_of_an_answer_are_joined() {
    let body = include_bytes!("../../../../fixtures/cohere/text.response.json");
    let adapter = adapter();
    let reply = adapter.decode_chat(body, &Reading::default()).unwrap();
    let [choice] = &reply.choices[..] else { panic!("one choice") };
    assert_eq!(choice.content.as_deref(), Some("LLMs stand for 漢字 👍"));
    assert_eq!(choice.reasoning.as_deref(), Some("Hm, well."));
    assert_eq!((choice.finish, choice.index), (Some(Finish::Stop), 0));
    let logprobs: Value = serde_json::from_str(choice.logprobs.as_ref().unwrap().get()).unwrap();
    assert_eq!(
        logprobs,
        json!({"content": [
            {"token": "LLM", "logprob": -0.5, "bytes": [76, 76, 77], "top_logprobs": []},
            {"token": "漢", "logprob": -0.75, "bytes": [230, 188, 162], "top_logprobs": []},
        ], "refusal": null})
    );
    let usage = reply.usage.unwrap();
    assert_eq!((usage.prompt, usage.completion, usage.cached, usage.estimated), (71, 418, Some(64), false));
    assert!(reply.model.is_none());
}

#[test]
fn calls_come_with_their_plan() {
    let body = include_bytes!("../../../../fixtures/cohere/tools.response.json");
    let adapter = adapter();
    let reply = adapter.decode_chat(body, &Reading::default()).unwrap();
    let choice = &reply.choices[0];
    let calls: Vec<_> =
        choice.tool_calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
    assert_eq!(
        calls,
        [
            ("get_weather_p1t92w7gfgq7", "get_weather", "{\n    \"location\": \"Madrid\"\n}"),
            // The writer of the answer adds `{}`.
            ("now_1", "now", ""),
        ]
    );
    // A plan is text, not reasoning.
    assert_eq!(choice.reasoning, None);
    let plan = Some("I will look at the weather.");
    assert_eq!((choice.finish, choice.content.as_deref()), (Some(Finish::ToolCalls), plan));
    let both = json!({"finish_reason": "TOOL_CALL", "message": {"content": [{"type": "thinking", "thinking": "Hm."}], "tool_plan": "I look.",
        "tool_calls": [{"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}})
    .to_string();
    let reply = adapter.decode_chat(both.as_bytes(), &Reading::default()).unwrap();
    let choice = &reply.choices[0];
    assert_eq!((choice.reasoning.as_deref(), choice.content.as_deref()), (Some("Hm."), Some("I look.")));
}

#[test]
fn every_finish_reason_is_mapped_or_a_failure() {
    let answer =
        |reason: &str| json!({"finish_reason": reason, "message": {"role": "assistant", "content": []}});
    for (reason, finish) in [
        ("COMPLETE", Finish::Stop),
        ("STOP_SEQUENCE", Finish::Stop),
        ("MAX_TOKENS", Finish::Length),
        ("ERROR_LIMIT", Finish::Length),
        ("ERROR_TOXIC", Finish::ContentFilter),
        ("SOMETHING_NEW", Finish::Stop),
    ] {
        assert_eq!(read(&answer(reason)), Ok((Some(finish), 0)), "{reason}");
    }
    for (reason, kind) in [
        ("ERROR", FailureKind::StreamBroken),
        ("ERROR_UNHEARD_OF", FailureKind::StreamBroken),
        ("USER_CANCEL", FailureKind::StreamBroken),
        ("TIMEOUT", FailureKind::Timeout),
    ] {
        assert_eq!(read(&answer(reason)), Err(kind), "{reason}");
    }
    let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    for reason in ["TOOL_CALL", "COMPLETE", "SOMETHING_NEW"] {
        let body = json!({"finish_reason": reason, "message": {"content": null, "tool_calls": [call]}});
        assert_eq!(read(&body), Ok((Some(Finish::ToolCalls), 1)), "{reason}");
    }
    assert_eq!(read(&json!({"message": {"content": [{"type": "text", "text": "a"}]}})), Ok((None, 0)));
}

#[test]
fn the_billed_units_are_not_the_tokens() {
    let used = |usage: Value| {
        let body =
            json!({"message": {"content": []}, "finish_reason": "COMPLETE", "usage": usage}).to_string();
        let usage = adapter().decode_chat(body.as_bytes(), &Reading::default()).unwrap().usage;
        usage.map(|usage| (usage.prompt, usage.completion, usage.cached, usage.estimated))
    };
    let billed = json!({"input_tokens": 5, "output_tokens": 6});
    let tokens = json!({"input_tokens": 50, "output_tokens": 60});
    assert_eq!(used(json!({"billed_units": billed, "tokens": tokens})), Some((50, 60, None, false)));
    assert_eq!(used(json!({"billed_units": billed})), Some((5, 6, None, true)));
    assert_eq!(used(json!({"tokens": tokens, "cached_tokens": 80})), Some((50, 60, Some(50), true)));
    assert_eq!(used(json!({"tokens": {"output_tokens": 6}})), Some((0, 6, None, true)));
    assert_eq!(
        used(json!({"tokens": {"input_tokens": -3, "output_tokens": 1e300}})).map(|used| used.3),
        Some(true)
    );
    assert_eq!(used(json!({})), None);
    assert_eq!(used(json!(null)), None);
}

#[test]
fn an_error_inside_a_200_is_a_failure() {
    assert_eq!(read(&json!({"id": "x", "message": "internal server error"})), Err(FailureKind::Server));
    assert_eq!(read(&json!({"error": {"code": 429, "message": "slow"}})), Err(FailureKind::RateLimited));
    for body in
        ["", "null", "[]", "{}", "<html>", "{\"message\":{\"content\":5}}", "{\"message\":", "\u{feff}"]
    {
        let failure = adapter().decode_chat(body.as_bytes(), &Reading::default()).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidResponse, "{body}");
    }
    assert!(adapter().decode_chat(b"{\"message\":\"\xff\"}", &Reading::default()).is_err());
}

#[test]
fn vectors_come_in_input_order() {
    let body = include_bytes!("../../../../fixtures/cohere/embeddings.response.json");
    let adapter = adapter();
    let reply = adapter.decode_embeddings(body, 2).unwrap();
    let lengths: Vec<usize> = reply.vectors.iter().map(Vector::dimensions).collect();
    assert_eq!(lengths, [2, 2]);
    assert_eq!(
        reply.usage.map(|usage| (usage.prompt, usage.completion, usage.estimated)),
        Some((2, 0, false))
    );
    for (body, expected) in [
        (json!({"embeddings": {"float": [[1]]}}), 2),
        (json!({"embeddings": {"float": [[1], [1, 2]]}}), 2),
        (json!({"embeddings": {"float": [["a"]]}}), 1),
        (json!({"embeddings": {"float": [[]]}}), 1),
        (json!({"embeddings": {"int8": [[1]]}}), 1),
        (json!({"embeddings": [[1]]}), 1),
        (json!({}), 1),
    ] {
        let failure = adapter.decode_embeddings(body.to_string().as_bytes(), expected).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidResponse, "{body}");
    }
    let failure = adapter.decode_embeddings(b"{\"message\":\"x\"}", 1).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Server);
}

#[test]
fn models_that_cannot_be_called_are_not_listed() {
    let call = (adapter().traits().models.unwrap().call)();
    assert_eq!((call.method.as_str(), call.path.as_str()), ("GET", "/v1/models?page_size=1000"));
    let body = include_bytes!("../../../../fixtures/cohere/models.response.json");
    let listed = (adapter().traits().models.unwrap().read)(body).unwrap();
    let listed: Vec<_> = listed.iter().map(|model| (&*model.name, model.only_category)).collect();
    let expected = [
        ("command-a-03-2025", None),
        ("embed-v4.0", Some("embedding")),
        ("rerank-v3.5", Some("rerank")),
        ("tuned", None),
    ];
    assert_eq!(listed, expected);
    assert!(
        (adapter().traits().models.unwrap().read)(b"{}").is_err()
            && (adapter().traits().models.unwrap().read)(b"<").is_err()
    );
}

#[test]
fn every_documented_error_has_its_kind() {
    let trial = "You are using a Trial key, which is limited to 1000 API calls / month. You can upgrade at …";
    for (status, message, kind) in [
        (400, "invalid request: model 'nope' not found", FailureKind::ModelMissing),
        (
            400,
            "too many tokens: size limit exceeded by 11326 tokens. Try using shorter or fewer inputs.",
            FailureKind::ContextLength,
        ),
        (400, "text at index 0 is too long", FailureKind::ContextLength),
        (400, "invalid request: at least one message must be provided", FailureKind::BadRequest),
        (401, "invalid api token", FailureKind::Auth),
        (402, "please add a payment method", FailureKind::Billing),
        (403, "forbidden", FailureKind::Auth),
        (404, "model 'x' not found, make sure the correct model ID was used", FailureKind::ModelMissing),
        (413, "request entity too large", FailureKind::BadRequest),
        (422, "unprocessable", FailureKind::BadRequest),
        (
            429,
            "You are using a Trial key, which is limited to 10 API calls / minute.",
            FailureKind::RateLimited,
        ),
        (429, trial, FailureKind::Billing),
        (498, "blocked output: please provide another prompt", FailureKind::ContentFilter),
        (499, "request cancelled", FailureKind::Server),
        (500, "internal server error", FailureKind::Server),
        (501, "not implemented", FailureKind::Server),
        (503, "unavailable", FailureKind::Overloaded),
        (504, "gateway timeout", FailureKind::Timeout),
    ] {
        let body = json!({"id": "e", "message": message}).to_string();
        let failure = adapter().classify(status, &HeaderMap::new(), body.as_bytes());
        assert_eq!((failure.kind, failure.status), (kind, Some(status)), "{status} {message}");
        let shows = matches!(kind, FailureKind::BadRequest | FailureKind::ContextLength) || status == 501;
        assert_eq!(failure.message == message, shows, "{}", failure.message);
    }
    for body in ["", "<html>no</html>", "\u{0}"] {
        let failure = adapter().classify(502, &HeaderMap::new(), body.as_bytes());
        assert_eq!(failure.kind, FailureKind::Server);
        assert!(!failure.message.is_empty());
    }
}

#[test]
fn retry_after_is_kept() {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", "7".parse().unwrap());
    let failure = adapter().classify(429, &headers, b"{\"message\":\"x\"}");
    assert_eq!(failure.retry_after, Some(Duration::from_secs(7)));
}
