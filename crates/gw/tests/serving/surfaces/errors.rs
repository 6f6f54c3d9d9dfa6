//! The form of errors on every path of both surfaces.

use gw_testkit::{Answer, Response};
use serde_json::{Value, json};

use super::{message, response};
use crate::harness::{Differences, EXPIRED, KEY, LIMITED, Setup, chat, with, world};

/// Checks Anthropic's envelope.
#[track_caller]
fn assert_envelope(label: &str, answer: &Response, status: u16, kind: &str) {
    let body = answer.json();
    assert_eq!(
        (answer.status, body["error"]["type"].as_str()),
        (status, Some(kind)),
        "{label}: {}",
        answer.text()
    );
    assert_eq!(body["type"], "error", "{label}");
    assert_eq!(body["request_id"].as_str(), answer.header("request-id"), "{label}");
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(3), "{label}");
    assert_eq!(body["error"].as_object().map(serde_json::Map::len), Some(2), "{label}");
}

/// Checks the four strings of the Responses API.
#[track_caller]
fn assert_four(label: &str, answer: &Response, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{label}: {}", answer.text());
    let body = answer.json();
    let error = body["error"].as_object().expect("an object");
    assert_eq!(error.keys().collect::<Vec<_>>().len(), 4, "{label}");
    assert!(error.values().all(Value::is_string), "{label}: {}", answer.text());
}

#[tokio::test]
async fn every_error_below_messages_has_anthropics_envelope() {
    let world = world().await;
    let keyless = world.gateway.client();
    let body = message("acme/fast").to_string();
    for (label, client, method, path, body, status, kind) in [
        ("no key", keyless.clone(), "POST", "/v1/messages", body.as_str(), 401, "authentication_error"),
        ("expired", keyless.with_key(EXPIRED), "POST", "/v1/messages", &body, 401, "authentication_error"),
        ("model", keyless.with_key(LIMITED), "POST", "/v1/messages", &body, 403, "permission_error"),
        ("method", keyless.with_key(KEY), "GET", "/v1/messages", "", 405, "invalid_request_error"),
        ("unknown", keyless.with_key(KEY), "POST", "/v1/messages/batches", "{}", 404, "not_found_error"),
        ("no JSON", keyless.with_key(KEY), "POST", "/v1/messages", "{", 400, "invalid_request_error"),
        ("empty", keyless.with_key(KEY), "POST", "/v1/messages", "{}", 400, "invalid_request_error"),
        (
            "count",
            keyless.with_key(KEY),
            "POST",
            "/v1/messages/count_tokens",
            "{}",
            400,
            "invalid_request_error",
        ),
    ] {
        let answer = client.send(method, path, Some("application/json"), Some(body.as_bytes())).await;
        assert_envelope(label, &answer, status, kind);
    }
}

#[tokio::test]
async fn overload_and_budgets_have_their_own_types() {
    let world = world().await;
    world.upstream.always(Answer::error(503, "overloaded", "busy"));
    world.second.always(Answer::error(503, "overloaded", "busy"));
    let answer = super::ask_messages(&world.client, &message("acme/fast")).await;
    assert_envelope("overload", &answer, 529, "overloaded_error");
}

#[tokio::test]
async fn every_error_below_responses_has_four_strings() {
    let world = world().await;
    let keyless = world.gateway.client();
    let client = keyless.with_key(KEY);
    let body = response("acme/fast").to_string();
    for (label, client, method, path, body, status, code) in [
        ("no key", &keyless, "POST", "/v1/responses", body.as_str(), 401, "invalid_api_key"),
        ("method", &client, "PUT", "/v1/responses", "{}", 405, "method_not_allowed"),
        ("unknown", &client, "GET", "/v1/responses/resp_1/nothing", "", 404, "unknown_url"),
        ("missing", &client, "GET", "/v1/responses/resp_1", "", 404, "not_found"),
        ("no JSON", &client, "POST", "/v1/responses", "[", 400, "invalid_json"),
        ("empty", &client, "POST", "/v1/responses", "{}", 400, "missing_required_parameter"),
    ] {
        let answer = client.send(method, path, Some("application/json"), Some(body.as_bytes())).await;
        assert_four(label, &answer, status, code);
    }
}

#[tokio::test]
async fn an_error_names_the_clients_own_member_and_not_that_of_a_chat() {
    let world = world().await;
    let stored = "gs://operator/secret.png";
    let image =
        json!({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": stored}]}]});
    let answer = super::ask_responses(&world.client, &with(response("acme/fast"), image)).await;
    assert_four("image", &answer, 400, "unsupported_value");
    assert_eq!(answer.json()["error"]["param"], "input", "{}", answer.text());
    let file = json!({"fileData": {"mimeType": "image/png", "fileUri": stored}});
    let body = json!({"contents": [{"role": "user", "parts": [file]}]});
    let answer = world.client.post_json("/v1beta/models/acme/fast:generateContent", &body).await;
    assert_eq!(answer.status, 400, "{}", answer.text());
    assert!(answer.message().starts_with("Invalid 'contents': it refers"), "{}", answer.text());
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn values_that_openai_does_not_know_are_refused_on_responses() {
    let world = world().await;
    for (members, param, code) in [
        (json!({"max_output_tokens": 15}), "max_output_tokens", "integer_below_min_value"),
        (json!({"max_output_tokens": 0}), "max_output_tokens", "integer_below_min_value"),
        (json!({"max_output_tokens": -1}), "max_output_tokens", "integer_below_min_value"),
        (json!({"truncation": "middle"}), "truncation", "invalid_value"),
        (json!({"truncation": ""}), "truncation", "invalid_value"),
        (json!({"truncation": true}), "truncation", "invalid_type"),
        (json!({"reasoning": {"effort": "extreme"}}), "reasoning.effort", "invalid_value"),
        (json!({"reasoning": {"effort": "HIGH"}}), "reasoning.effort", "invalid_value"),
        (json!({"reasoning": {"summary": "long"}}), "reasoning.summary", "invalid_value"),
        (json!({"reasoning": {"generate_summary": "long"}}), "reasoning.generate_summary", "invalid_value"),
        (json!({"reasoning": {"summary": 1}}), "reasoning.summary", "invalid_type"),
        (json!({"text": {"verbosity": "loud"}}), "text.verbosity", "invalid_value"),
    ] {
        let answer = super::ask_responses(&world.client, &with(response("acme/fast"), members)).await;
        assert_four(param, &answer, 400, code);
        assert_eq!(answer.json()["error"]["param"], param, "{}", answer.text());
    }
    assert_eq!(world.upstream.hits(), 0);
    for value in ["none", "minimal", "low", "medium", "high", "xhigh", "max"] {
        let members = json!({"reasoning": {"effort": value, "summary": null}, "truncation": null, "max_output_tokens": 16});
        super::ask_responses(&world.client, &with(response("acme/fast"), members)).await.ok();
    }
    for (summary, verbosity, truncation) in
        [("auto", "low", "auto"), ("concise", "medium", "disabled"), ("detailed", "high", "auto")]
    {
        let members = json!({"reasoning": {"summary": summary}, "text": {"verbosity": verbosity}, "truncation": truncation,
            "max_output_tokens": null});
        super::ask_responses(&world.client, &with(response("acme/fast"), members)).await.ok();
    }
}

#[tokio::test]
async fn two_different_keys_are_refused_on_both_surfaces() {
    let world = world().await;
    let client = world.client.with_header("x-api-key", LIMITED);
    assert_envelope(
        "messages",
        &super::ask_messages(&client, &message("acme/fast")).await,
        401,
        "authentication_error",
    );
    assert_four(
        "responses",
        &super::ask_responses(&client, &response("acme/fast")).await,
        401,
        "invalid_api_key",
    );
    let alone = world.gateway.client().with_header("x-api-key", KEY);
    super::ask_messages(&alone, &message("acme/fast")).await.ok();
    let both = alone.with_key(KEY);
    assert_eq!(super::ask_responses(&both, &json!({"model": "acme/fast", "input": "x"})).await.status, 200);
}

/// The body of a call for a model.
type BodyOf = fn(&str) -> Value;

/// The surfaces that call an upstream, each with a request of a model.
const CALLS: [(&str, BodyOf); 18] = [
    ("/v1/chat/completions", chat),
    ("/v1/completions", |model| json!({"model": model, "prompt": "Hello"})),
    ("/v1/embeddings", |model| json!({"model": model, "input": "Hello"})),
    ("/v1/score", |model| json!({"model": model, "text_1": "q", "text_2": "a"})),
    ("/v1/moderations", |model| json!({"model": model, "input": "Hello"})),
    ("/v1/images/generations", |model| json!({"model": model, "prompt": "Hello"})),
    ("/v1/audio/speech", |model| json!({"model": model, "input": "Hello", "voice": "v"})),
    ("/v1/rerank", |model| json!({"model": model, "query": "q", "documents": ["a", "b"]})),
    ("/v1beta/models/{id}:generateContent", |_| json!({"contents": [{"parts": [{"text": "Hello"}]}]})),
    ("/v1beta/models/{id}:streamGenerateContent", |_| json!({"contents": [{"parts": [{"text": "Hello"}]}]})),
    ("/v1beta/models/{id}:countTokens", |_| json!({"contents": [{"parts": [{"text": "Hello"}]}]})),
    ("/v1beta/models/{id}:embedContent", |_| json!({"content": {"parts": [{"text": "Hello"}]}})),
    (
        "/v1beta/models/{id}:batchEmbedContents",
        |_| json!({"requests": [{"content": {"parts": [{"text": "Hello"}]}}]}),
    ),
    ("/v1/messages", message),
    ("/v1/messages/count_tokens", message),
    ("/v1/responses", response),
    ("/v1/responses/input_tokens", response),
    ("/v1/responses/compact", response),
];

#[tokio::test]
async fn every_error_on_every_surface_tells_whether_a_retry_helps() {
    let world = Setup { acme: "responses = false".to_owned(), ..Setup::default() }.start().await;
    let mut differences = Differences::default();
    let told = |answer: &Response| (answer.status, answer.header("x-should-retry").map(str::to_owned));
    let expected = |status: u16, retry: &str| (status, Some(retry.to_owned()));
    let wrong = world.gateway.client().with_key("sk-wrong");
    let narrow = world.gateway.client().with_key(LIMITED);
    for (pattern, request) in CALLS {
        let model = match pattern {
            "/v1/embeddings" => "acme/embed",
            _ if pattern.contains("mbedContent") => "acme/embed",
            "/v1/rerank" | "/v1/score" => "acme/rerank",
            "/v1/moderations" => "acme/moderation",
            "/v1/images/generations" => "acme/paint",
            "/v1/audio/speech" => "acme/speak",
            _ => "acme/fast",
        };
        let (path, unknown) = (&*pattern.replace("{id}", model), &*pattern.replace("{id}", "acme/none"));
        let body = request(model);
        let mut check = |label: &str, answer: &Response, status, retry| {
            differences.check(format!("{path}: {label}"), told(answer), expected(status, retry));
        };
        check("wrong key", &wrong.post_json(path, &body).await, 401, "false");
        check("no key", &world.gateway.client().post_json(path, &body).await, 401, "false");
        check("no JSON", &world.client.post_bytes(path, b"{").await, 400, "false");
        check("no model", &world.client.post_json(unknown, &request("acme/none")).await, 404, "false");
        check("not its model", &narrow.post_json(path, &body).await, 403, "false");
        let text = world.client.send("POST", path, Some("text/plain"), Some(b"x")).await;
        check("media type", &text, 415, "false");
        check("method", &world.client.send("PUT", path, None, Some(b"{}")).await, 405, "false");
        let large = world.client.with_header("content-length", "99999999");
        check("too large", &large.send("POST", path, Some("application/json"), None).await, 413, "false");
        if path.contains("_tokens") || path.contains("countTokens") {
            continue;
        }
        let is_messages = path.starts_with("/v1/messages");
        for (theirs, ours, retry) in [
            (400, 400, "false"),
            (401, 502, "false"),
            (402, 502, "false"),
            (404, 502, "false"),
            (413, 413, "false"),
            (429, 429, "true"),
            (500, 502, "true"),
            (503, if is_messages { 529 } else { 503 }, "true"),
            (529, if is_messages { 529 } else { 503 }, "true"),
        ] {
            // Each status meets a target without a history.
            world.upstream.always(Answer::error(theirs, "code", "Broken."));
            check(&format!("upstream {theirs}"), &world.client.post_json(path, &body).await, ours, retry);
        }
    }
    differences.finish();
}

#[tokio::test]
async fn a_get_that_is_no_whole_handshake_is_refused_with_426_before_the_key_is_read() {
    let world = world().await;
    let plain = world.gateway.client();
    let upgrade = plain.with_header("connection", "Upgrade").with_header("upgrade", "websocket");
    let with_nonce = upgrade.with_header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    for (label, client) in [
        ("a GET", plain.clone()),
        ("a GET with a key", plain.with_key(KEY)),
        ("no version", with_nonce.clone()),
        ("another version", with_nonce.with_header("sec-websocket-version", "8").with_key(KEY)),
        ("no nonce", upgrade.with_header("sec-websocket-version", "13")),
    ] {
        let answer = client.get("/v1/responses").await;
        assert_four(label, &answer, 426, "upgrade_required");
        let told = ["upgrade", "sec-websocket-version", "x-should-retry"].map(|name| answer.header(name));
        assert_eq!(told, [Some("websocket"), Some("13"), Some("false")], "{label}");
    }
}
