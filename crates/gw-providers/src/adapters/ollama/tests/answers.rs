//! Complete answers, embeddings, model lists and errors.

use gw_wire::failure::FailureKind;
use gw_wire::reply::{Finish, Vector};
use http::HeaderMap;
use serde_json::{Value, json};

use super::adapter;
use crate::adapter::Reading;
use crate::adapters::trial::names;

#[test]
fn call_arguments_become_strings_and_ids_are_unique() {
    let body = include_bytes!("../../../../fixtures/ollama/tools.response.json");
    let adapter = adapter();
    let reply = adapter.decode_chat(body, &Reading::default()).unwrap();
    let choice = &reply.choices[0];
    let calls: Vec<_> = choice
        .tool_calls
        .iter()
        .map(|call| {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap();
            (&*call.id, &*call.name, arguments)
        })
        .collect();
    // The writer of the answer adds a missing id.
    assert_eq!(
        calls,
        [
            ("", "get_current_weather", json!({"format": "celsius", "location": "Paris, FR"})),
            ("call_x", "now", json!({})),
            ("", "text", json!({"a": 1})),
        ]
    );
    assert_eq!((choice.finish, choice.reasoning.as_deref()), (Some(Finish::ToolCalls), Some("Two.")));
    assert_eq!(reply.model.as_deref(), Some("llama3.2"));
    let usage = reply.usage.unwrap();
    assert_eq!((usage.prompt, usage.completion, usage.estimated), (122, 33, false));
}

#[test]
fn a_suffix_completion_is_read() {
    let body = include_bytes!("../../../../fixtures/ollama/suffix.response.json");
    let adapter = adapter();
    let reply = adapter.decode_completion(body, &Reading::default()).unwrap();
    assert_eq!(&*reply.choices[0].text, "\n  if a == 0:\n    return b\n");
    assert_eq!(reply.choices[0].finish, Some(Finish::Stop));
    assert_eq!(reply.usage.map(|usage| usage.total()), Some(80));
}

#[test]
fn finish_reasons_are_mapped() {
    for (reason, finish) in [
        (json!("stop"), Finish::Stop),
        (json!("length"), Finish::Length),
        (json!("load"), Finish::Stop),
        (json!("unload"), Finish::Stop),
        (json!("new"), Finish::Stop),
        (json!(null), Finish::Stop),
    ] {
        let body = json!({"message": {"content": "a"}, "done": true, "done_reason": reason}).to_string();
        let adapter = adapter();
        let reply = adapter.decode_chat(body.as_bytes(), &Reading::default()).unwrap();
        assert_eq!(reply.choices[0].finish, Some(finish), "{reason}");
    }
}

#[test]
fn an_answer_that_failed_is_a_failure() {
    let body = json!({"message": {"content": "a"}, "done": true, "done_reason": "error"}).to_string();
    let failure = adapter().decode_chat(body.as_bytes(), &Reading::default()).unwrap_err();
    assert_eq!(failure.kind, FailureKind::StreamBroken);
}

#[test]
fn a_missing_token_count_is_left_to_the_estimate() {
    let used = |counts: Value| {
        let mut body = json!({"message": {"content": "a"}, "done": true});
        body.as_object_mut().unwrap().extend(counts.as_object().unwrap().clone());
        let usage = adapter().decode_chat(body.to_string().as_bytes(), &Reading::default()).unwrap().usage;
        usage.map(|usage| (usage.prompt, usage.completion, usage.estimated))
    };
    assert_eq!(used(json!({"prompt_eval_count": 3, "eval_count": 4})), Some((3, 4, false)));
    assert_eq!(used(json!({"eval_count": 4})), Some((0, 4, true)));
    assert_eq!(used(json!({"prompt_eval_count": 3})), Some((3, 0, true)));
    assert_eq!(used(json!({"prompt_eval_count": -3, "eval_count": 4})), Some((0, 4, true)));
    assert_eq!(used(json!({})), None);
}

#[test]
fn an_error_inside_a_200_is_a_failure() {
    let kind = |body: &str| adapter().decode_chat(body.as_bytes(), &Reading::default()).unwrap_err().kind;
    assert_eq!(kind("{\"error\":\"llama runner process has terminated\"}"), FailureKind::Server);
    let nested = json!({"error": json!({"error": {"code": 400, "message": "request (8889 tokens) exceeds the available context size (4096 tokens), try increasing it", "type": "exceed_context_size_error"}}).to_string()});
    assert_eq!(kind(&nested.to_string()), FailureKind::ContextLength);
    for body in [
        "",
        "null",
        "[]",
        "{}",
        "<html>",
        "{\"message\":5}",
        "{\"message\":{\"content\":\"a\"},\"done\":false}",
        "{\"message\":{\"content\":\"a\"}}",
        "{\"message\":{\"con",
    ] {
        assert_eq!(kind(body), FailureKind::InvalidResponse, "{body}");
    }
}

#[test]
fn vectors_come_in_input_order() {
    let body = include_bytes!("../../../../fixtures/ollama/embeddings.response.json");
    let adapter = adapter();
    let reply = adapter.decode_embeddings(body, 2).unwrap();
    assert_eq!(reply.vectors.iter().map(Vector::dimensions).collect::<Vec<_>>(), [2, 2]);
    assert_eq!(reply.model.as_deref(), Some("all-minilm"));
    assert_eq!(reply.usage.map(|usage| (usage.prompt, usage.estimated)), Some((8, false)));
    for (body, expected) in [
        (json!({"embeddings": [[1]]}), 2),
        (json!({"embeddings": [[1], [1, 2]]}), 2),
        (json!({"embeddings": [[null]]}), 1),
        (json!({"embedding": [1]}), 1),
        (json!({}), 1),
    ] {
        let failure = adapter.decode_embeddings(body.to_string().as_bytes(), expected).unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidResponse, "{body}");
    }
    assert_eq!(adapter.decode_embeddings(b"{\"error\":\"x\"}", 1).unwrap_err().kind, FailureKind::Server);
}

#[test]
fn each_model_of_the_server_is_listed_once() {
    let call = (adapter().traits().models.unwrap().call)();
    assert_eq!((call.method.as_str(), call.path.as_str()), ("GET", "/api/tags"));
    let body = include_bytes!("../../../../fixtures/ollama/models.response.json");
    assert_eq!(
        names((adapter().traits().models.unwrap().read)(body)),
        ["deepseek-r1:latest", "llama3.2:latest", "only-model"]
    );
    assert!((adapter().traits().models.unwrap().read)(b"{\"models\":[]}").unwrap().is_empty());
    assert!(
        (adapter().traits().models.unwrap().read)(b"{}").is_err()
            && (adapter().traits().models.unwrap().read)(b"<").is_err()
    );
}

#[test]
fn every_documented_error_has_its_kind() {
    let nested = json!({"error": {"code": 400, "message": "request (8889 tokens) exceeds the available context size (4096 tokens), try increasing it", "type": "exceed_context_size_error"}}).to_string();
    for (status, message, kind) in [
        (400, "registry.ollama.ai/library/llama2:latest does not support tools", FailureKind::BadRequest),
        (400, "\"llama3.2\" does not support thinking", FailureKind::BadRequest),
        (400, "the input length exceeds the context length", FailureKind::ContextLength),
        (400, &nested, FailureKind::ContextLength),
        (
            400,
            "the prompt is longer than the context length currently available to the model",
            FailureKind::ContextLength,
        ),
        (401, "unauthorized", FailureKind::Auth),
        (404, "model \"x\" not found, try pulling it first", FailureKind::ModelMissing),
        (429, "too many requests", FailureKind::RateLimited),
        (500, "model requires more system memory (8.0 GiB) than is available (4.0 GiB)", FailureKind::Server),
        (500, "llama runner process has terminated: exit status 2", FailureKind::Server),
        (502, "bad gateway", FailureKind::Server),
        (503, "server busy, please try again.  maximum pending requests exceeded", FailureKind::Overloaded),
    ] {
        let body = json!({"error": message}).to_string();
        let failure = adapter().classify(status, &HeaderMap::new(), body.as_bytes());
        assert_eq!((failure.kind, failure.status), (kind, Some(status)), "{status} {message}");
        assert!(!failure.message.contains('{'), "{}", failure.message);
    }
    for body in ["", "404 page not found", "<html>"] {
        let failure = adapter().classify(404, &HeaderMap::new(), body.as_bytes());
        assert_eq!(failure.kind, FailureKind::ModelMissing);
    }
}

#[test]
fn log_probabilities_have_openais_shape() {
    let body = r#"{"message":{"content":"é"},"done":true,"logprobs":[{"token":"é","logprob":-0.5,"top_logprobs":[{"token":"e","logprob":-1}]}]}"#;
    let expected = json!({"content": [{"token": "é", "logprob": -0.5, "bytes": [195, 169],
        "top_logprobs": [{"token": "e", "logprob": -1.0, "bytes": [101]}]}], "refusal": null});
    let adapter = adapter();
    let reply = adapter.decode_chat(body.as_bytes(), &Reading::default()).unwrap();
    let read: Value = serde_json::from_str(reply.choices[0].logprobs.as_ref().unwrap().get()).unwrap();
    assert_eq!(read, expected);
    let mut told = Vec::new();
    let mut stream = adapter.stream(&Reading::default());
    stream.feed(format!("{body}\n").as_bytes(), &mut |event| {
        if let gw_wire::event::Event::Text { logprobs: Some(logprobs), .. } = event {
            told.push(serde_json::from_str::<Value>(logprobs.get()).unwrap());
        }
    });
    assert_eq!(told, [expected]);
    let none = r#"{"message":{"content":"a"},"done":true,"logprobs":"odd"}"#;
    assert!(adapter.decode_chat(none.as_bytes(), &Reading::default()).unwrap().choices[0].logprobs.is_none());
}
