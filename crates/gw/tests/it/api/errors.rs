//! Every row of the error table in docs/errors.md, produced over a socket and compared byte for byte.

use std::time::Duration;

use gw_testkit::upstream::refused_address;
use gw_testkit::{Answer, Response, Signal};
use serde_json::{Value, json};

use crate::harness::{
    EXPIRED, LIMITED, METERED, Setup, UPSTREAM_KEY, World, assert_error, assert_invalid, chat, chat_with,
    with, world,
};

const CHAT: &str = "/v1/chat/completions";
const TEXT: &str = "/v1/completions";
const EMBED: &str = "/v1/embeddings";

fn text(more: Value) -> Value {
    with(json!({ "model": "acme/fast", "prompt": "Once" }), more)
}

fn embed(more: Value) -> Value {
    with(json!({ "model": "acme/embed", "input": "text" }), more)
}

fn fast(more: Value) -> Value {
    chat_with("acme/fast", more)
}

/// Sends each request, expects this code, and that no upstream was called.
async fn refuses(world: &World, code: &str, requests: &[(&str, Value)]) {
    for (path, body) in requests {
        let answer = world.client.post_json(path, body).await;
        let shown: String = body.to_string().chars().take(160).collect();
        assert_invalid(&format!("{path} {shown}"), &answer, code);
    }
    assert_eq!(
        world.upstream.hits() + world.second.hits(),
        0,
        "nothing goes upstream before the checks are over"
    );
}

#[tokio::test]
async fn a_body_that_is_no_json_object_is_invalid_json() {
    let world = world().await;
    let bodies: [&[u8]; 9] = [
        b"",
        b"{",
        b"[]",
        b"\"text\"",
        b"null",
        b"17",
        b"{\"model\":}",
        b"{} {}",
        b"{\"model\":\"\xff\xfe\"}",
    ];
    for path in [CHAT, TEXT, EMBED] {
        for body in bodies {
            let answer = world.client.post_bytes(path, body).await;
            assert_invalid(&format!("{path} {}", String::from_utf8_lossy(body)), &answer, "invalid_json");
        }
    }
}

#[tokio::test]
async fn faults_in_members_that_nobody_reads_are_invalid_json_too() {
    let world = world().await;
    let values = [
        "NaN",
        "Infinity",
        "tru",
        "nul",
        "01",
        "+1",
        "1.",
        ".5",
        "1e",
        "0x1",
        "'x'",
        "x",
        "[1,]",
        "[,1]",
        "{\"a\":}",
        "{a:1}",
        "{\"a\" 1}",
        "\"\\x\"",
        "\"\\u12g4\"",
        "\"a\nb\"",
        "\"\u{1}\"",
        "[1 2]",
        "[1}",
        "1 // no",
        "/* no */ 1",
        "",
    ];
    for value in values {
        for place in ["ignored", "metadata", "temperature"] {
            let messages = r#""messages":[{"role":"user","content":"x"}]"#;
            let body = format!(r#"{{"model":"acme/fast",{messages},"{place}":{value}}}"#);
            let answer = world.client.post_bytes(CHAT, body.as_bytes()).await;
            assert_invalid(&body, &answer, "invalid_json");
        }
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_required_member_that_is_absent_is_missing_required_parameter() {
    let world = world().await;
    let requests = [
        (CHAT, json!({ "messages": [{ "role": "user", "content": "x" }] })),
        (CHAT, json!({ "model": "acme/fast" })),
        (CHAT, json!({})),
        (TEXT, json!({ "prompt": "x" })),
        (TEXT, json!({ "model": "acme/fast" })),
        (EMBED, json!({ "input": "x" })),
        (EMBED, json!({ "model": "acme/embed" })),
    ];
    refuses(&world, "missing_required_parameter", &requests).await;
    for path in ["/v1/models/compare", "/v1/models/compare?models=", "/v1/models/compare?models=,%20,"] {
        assert_invalid(path, &world.client.get(path).await, "missing_required_parameter");
    }
    let answer = world.client.post_json(CHAT, &json!({ "model": "acme/fast" })).await;
    assert!(answer.message().contains("messages"), "the message names the field: {}", answer.message());
}

#[tokio::test]
async fn a_member_of_another_json_type_is_invalid_type() {
    let world = world().await;
    let mut requests = vec![
        (CHAT, fast(json!({ "model": 5 }))),
        (CHAT, fast(json!({ "messages": "Hello" }))),
        (CHAT, fast(json!({ "messages": [5] }))),
        (CHAT, fast(json!({ "messages": [{ "role": "user", "content": 5 }] }))),
        (CHAT, fast(json!({ "temperature": "0.7" }))),
        (CHAT, fast(json!({ "n": 1.5 }))),
        (CHAT, fast(json!({ "max_tokens": true }))),
        (CHAT, fast(json!({ "stream": "yes" }))),
        (CHAT, fast(json!({ "seed": "1" }))),
        (CHAT, fast(json!({ "logit_bias": [] }))),
        (CHAT, fast(json!({ "logit_bias": { "50256": "x" } }))),
        (CHAT, fast(json!({ "stop": 5 }))),
        (CHAT, fast(json!({ "stop": ["a", 5] }))),
        (CHAT, fast(json!({ "tools": {} }))),
        (CHAT, fast(json!({ "response_format": "json" }))),
        (CHAT, fast(json!({ "user": 5 }))),
        (CHAT, fast(json!({ "routing": "cheapest" }))),
        (CHAT, fast(json!({ "routing": { "fallback": "acme/plain" } }))),
        (CHAT, fast(json!({ "routing": { "allow_upgrade": "no" } }))),
        (CHAT, fast(json!({ "cache": true }))),
        (CHAT, fast(json!({ "cache": { "enabled": "yes" } }))),
        (CHAT, fast(json!({ "cache": { "ttl": 1.5 } }))),
        (CHAT, fast(json!({ "stream_options": { "include_usage": 1 } }))),
        (TEXT, text(json!({ "prompt": 5 }))),
        (TEXT, text(json!({ "suffix": 5 }))),
        (EMBED, embed(json!({ "input": 5 }))),
        (EMBED, embed(json!({ "input": { "a": 1 } }))),
        (EMBED, embed(json!({ "dimensions": "8" }))),
        (EMBED, embed(json!({ "dimensions": 1.5 }))),
    ];
    for field in ["top_p", "frequency_penalty", "presence_penalty"] {
        requests.push((CHAT, fast(json!({ field: [] }))));
        requests.push((TEXT, text(json!({ field: "1" }))));
    }
    refuses(&world, "invalid_type", &requests).await;
}

#[tokio::test]
async fn a_number_out_of_its_range_has_a_code_for_each_side_and_kind() {
    let world = world().await;
    let too_big = [
        (CHAT, fast(json!({ "temperature": 2.1 }))),
        (CHAT, fast(json!({ "temperature": 3 }))),
        (CHAT, fast(json!({ "top_p": 1.01 }))),
        (CHAT, fast(json!({ "frequency_penalty": 2.5 }))),
        (CHAT, fast(json!({ "presence_penalty": 2.5 }))),
        (TEXT, text(json!({ "temperature": 2.1 }))),
        (TEXT, text(json!({ "presence_penalty": 9 }))),
    ];
    refuses(&world, "decimal_above_max_value", &too_big).await;
    let too_small = [
        (CHAT, fast(json!({ "temperature": -0.1 }))),
        (CHAT, fast(json!({ "top_p": -1 }))),
        (CHAT, fast(json!({ "frequency_penalty": -2.01 }))),
        (TEXT, text(json!({ "frequency_penalty": -3 }))),
    ];
    refuses(&world, "decimal_below_min_value", &too_small).await;
    let too_many = [
        (CHAT, fast(json!({ "n": 129 }))),
        (CHAT, fast(json!({ "logprobs": true, "top_logprobs": 21 }))),
        (CHAT, fast(json!({ "cache": { "enabled": false, "ttl": 2_592_001 } }))),
        (TEXT, text(json!({ "n": 129 }))),
        (TEXT, text(json!({ "logprobs": 6 }))),
        (TEXT, text(json!({ "best_of": 21 }))),
    ];
    refuses(&world, "integer_above_max_value", &too_many).await;
    let too_few = [
        (CHAT, fast(json!({ "n": 0 }))),
        (CHAT, fast(json!({ "max_tokens": -1 }))),
        (CHAT, fast(json!({ "max_completion_tokens": -1 }))),
        (CHAT, fast(json!({ "cache": { "ttl": 0 } }))),
        (TEXT, text(json!({ "max_tokens": -5 }))),
        (EMBED, embed(json!({ "dimensions": 0 }))),
    ];
    refuses(&world, "integer_below_min_value", &too_few).await;
    let answer = world.chat(&fast(json!({ "temperature": 3 }))).await;
    assert!(answer.message().contains("temperature"), "the message names the field: {}", answer.message());
    for bias in [101, -101] {
        let answer = world.chat(&fast(json!({ "logit_bias": { "50256": bias } }))).await;
        assert_eq!(answer.status, 400);
        assert!(answer.code().ends_with("_value"), "{}", answer.text());
    }
    for query in ["limit=0", "limit=1001", "offset=-1"] {
        let answer = world.client.get(&format!("/v1/models?{query}")).await;
        assert_eq!(answer.status, 400, "{query}");
        assert!(answer.code().starts_with("integer_"), "{query}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_value_outside_its_set_is_invalid_value() {
    let world = world().await;
    let requests = [
        (CHAT, fast(json!({ "messages": [{ "role": "robot", "content": "x" }] }))),
        (CHAT, fast(json!({ "routing": { "strategy": "astrology" } }))),
        (CHAT, fast(json!({ "tool_choice": "sometimes" }))),
        (CHAT, fast(json!({ "tool_choice": "required" }))),
        (CHAT, fast(json!({ "response_format": { "type": "xml" } }))),
        (TEXT, text(json!({ "routing": { "strategy": "" } }))),
        (EMBED, embed(json!({ "encoding_format": "hex" }))),
    ];
    refuses(&world, "invalid_value", &requests).await;
    let answer = world.chat(&fast(json!({ "routing": { "strategy": "astrology" } }))).await;
    for name in ["default", "cheapest", "balanced", "round_robin"] {
        assert!(answer.message().contains(name), "the message lists the set: {}", answer.message());
    }
    for query in ["?models=acme/fast", "?models=acme/fast,acme/fast", "?models=a/1,a/2,a/3,a/4,a/5"] {
        let answer = world.client.get(&format!("/v1/models/compare{query}")).await;
        assert_invalid(query, &answer, "invalid_value");
    }
}

#[tokio::test]
async fn arrays_and_strings_of_wrong_length_have_codes_of_their_own() {
    let world = world().await;
    let empty_arrays = [
        (CHAT, fast(json!({ "messages": [] }))),
        (TEXT, text(json!({ "prompt": [] }))),
        (EMBED, embed(json!({ "input": [] }))),
    ];
    refuses(&world, "empty_array", &empty_arrays).await;
    let five_stops = json!({ "stop": ["a", "b", "c", "d", "e"] });
    let many = |count: usize| vec!["x"; count];
    let tool = json!({ "type": "function", "function": { "name": "f" } });
    let long_arrays = [
        (CHAT, fast(five_stops.clone())),
        (TEXT, text(five_stops)),
        (CHAT, fast(json!({ "tools": vec![tool; 129] }))),
        (CHAT, fast(json!({ "routing": { "fallback": many(11) } }))),
        (TEXT, text(json!({ "prompt": many(2049) }))),
        (EMBED, embed(json!({ "input": many(2049) }))),
    ];
    refuses(&world, "array_above_max_length", &long_arrays).await;
    let empty_strings = [
        (CHAT, fast(json!({ "model": "" }))),
        (CHAT, fast(json!({ "tools": [{ "type": "function", "function": { "name": "" } }] }))),
        (EMBED, embed(json!({ "input": "" }))),
        (EMBED, embed(json!({ "input": ["text", ""] }))),
    ];
    refuses(&world, "empty_string", &empty_strings).await;
    let long = "m".repeat(100_000);
    refuses(&world, "string_above_max_length", &[(CHAT, fast(json!({ "model": long })))]).await;
}

#[tokio::test]
async fn what_the_model_or_provider_cannot_do_is_unsupported() {
    let world = world().await;
    let parameters = [(EMBED, json!({ "model": "beta/embed-fixed", "input": "x", "dimensions": 8 }))];
    refuses(&world, "unsupported_parameter", &parameters).await;
    let values = [(EMBED, embed(json!({ "dimensions": 1 }))), (EMBED, embed(json!({ "dimensions": 9 })))];
    refuses(&world, "unsupported_value", &values).await;
}

#[tokio::test]
async fn a_model_of_the_other_kind_is_unsupported_model() {
    let world = world().await;
    let requests = [
        (CHAT, chat("acme/embed")),
        (TEXT, text(json!({ "model": "acme/embed" }))),
        (EMBED, embed(json!({ "model": "acme/fast" }))),
    ];
    refuses(&world, "unsupported_model", &requests).await;
}

/// One attempt only: a retry would hide the first answer.
async fn single_attempt() -> World {
    Setup { routing: "retries = 0", ..Setup::default() }.start().await
}

async fn answered_by(world: &World, answer: Answer) -> Response {
    world.upstream.enqueue(answer);
    world.chat(&chat("acme/fast")).await
}

#[tokio::test]
async fn an_upstream_400_is_the_clients_400_with_the_upstreams_code() {
    let world = single_attempt().await;
    let error = |code: Value| json!({ "error": { "message": "No.", "type": "x", "code": code } });
    let table = [
        (400, error(json!("context_length_exceeded")), "context_length_exceeded"),
        (400, error(json!("content_filter")), "content_filter"),
        (400, error(json!("strange_code")), "strange_code"),
        (400, error(json!(4711)), "4711"),
        (400, error(Value::Null), "invalid_request"),
        (422, error(json!("unprocessable")), "unprocessable"),
        (422, json!({ "detail": [{ "msg": "no" }] }), "invalid_request"),
        (400, json!("not an object"), "invalid_request"),
    ];
    for (status, body, code) in table {
        let answer = answered_by(&world, Answer::json(status, &body)).await;
        assert_invalid(&format!("{status} {body}"), &answer, code);
    }
}

#[tokio::test]
async fn keys_that_do_not_open_are_401_with_one_code() {
    let world = world().await;
    let anonymous = world.client.without_key();
    let clients = [
        ("no header", anonymous.clone()),
        ("wrong key", anonymous.with_key("sk-wrong")),
        ("expired", anonymous.with_key(EXPIRED)),
        ("other scheme", anonymous.with_header("authorization", "Basic c2s6eA==")),
        ("empty key", anonymous.with_header("authorization", "Bearer ")),
        ("no scheme", anonymous.with_header("authorization", crate::harness::KEY)),
    ];
    for (label, client) in clients {
        let answers = [
            client.post_json(CHAT, &chat("acme/fast")).await,
            client.post_json(TEXT, &text(json!({}))).await,
            client.post_json(EMBED, &embed(json!({}))).await,
            client.get("/v1/models").await,
            client.get("/v1/models/acme/fast").await,
            client.get("/v1/models/compare?models=acme/fast,acme/plain").await,
            client.get("/v1/unknown").await,
        ];
        for answer in answers {
            assert_error(label, &answer, 401, "authentication_error", "invalid_api_key");
        }
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_model_outside_the_keys_list_is_403_and_unknown_to_its_catalogue() {
    let world = world().await;
    let limited = world.client.with_key(LIMITED);
    for body in
        [chat("acme/fast"), chat_with("acme/plain", json!({ "routing": { "fallback": ["beta/spare"] } }))]
    {
        let answer = limited.post_json(CHAT, &body).await;
        assert_error("limited", &answer, 403, "permission_error", "model_not_allowed");
    }
    limited.post_json(CHAT, &chat("acme/plain")).await.ok();
    let answer = limited.get("/v1/models/acme/fast").await;
    assert_error("retrieve", &answer, 404, "invalid_request_error", "model_not_found");
}

#[tokio::test]
async fn an_unknown_model_is_404_wherever_it_is_named() {
    let world = world().await;
    let not_found = |label: &str, answer: &Response| {
        assert_error(label, answer, 404, "invalid_request_error", "model_not_found")
    };
    for model in ["acme/none", "none", "ACME/fast", "nobody/fast"] {
        not_found(model, &world.chat(&chat(model)).await);
        not_found(model, &world.client.post_json(TEXT, &text(json!({ "model": model }))).await);
        not_found(model, &world.client.post_json(EMBED, &embed(json!({ "model": model }))).await);
        not_found(model, &world.client.get(&format!("/v1/models/{model}")).await);
        let answer = world.client.get(&format!("/v1/models/compare?models=acme/fast,{model}")).await;
        not_found(model, &answer);
        assert!(answer.message().contains(model), "{}", answer.message());
        let routed = chat_with("acme/fast", json!({ "routing": { "fallback": ["acme/plain", model] } }));
        not_found(model, &world.chat(&routed).await);
    }
    assert_eq!(world.upstream.hits(), 0, "a typo is not served by something else");
}

#[tokio::test]
async fn unknown_urls_are_404_and_wrong_methods_405() {
    let world = world().await;
    for path in ["/v1", "/v1/", "/v1/unknown", "/v1/chat", "/v1/chat/completions/x", "/v1/engines"] {
        let answer = world.client.get(path).await;
        assert_error(path, &answer, 404, "invalid_request_error", "unknown_url");
    }
    let wrong = [
        ("GET", CHAT, "POST"),
        ("DELETE", CHAT, "POST"),
        ("GET", TEXT, "POST"),
        ("PUT", EMBED, "POST"),
        ("POST", "/v1/models", "GET"),
        ("DELETE", "/v1/models/acme/fast", "GET"),
        ("POST", "/v1/models/compare", "GET"),
    ];
    for (method, path, allowed) in wrong {
        let answer = world.client.send(method, path, None, None).await;
        assert_error(
            &format!("{method} {path}"),
            &answer,
            405,
            "invalid_request_error",
            "method_not_allowed",
        );
        assert!(answer.header("allow").is_some_and(|allow| allow.contains(allowed)), "{method} {path}");
    }
}

#[tokio::test]
async fn a_client_that_stops_sending_its_body_gets_408() {
    let world = Setup { server: "body_timeout_ms = 200", ..Setup::default() }.start().await;
    let head = world.client.head("POST", CHAT, Some("application/json"), Some(100));
    let mut wire = gw_testkit::wire::RawClient::connect(world.gateway.addr).await;
    wire.send(head).await;
    wire.send("{\"model\":").await;
    let answer = wire.response().await.expect("an answer before the connection is closed");
    assert_error("slow body", &answer, 408, "invalid_request_error", "request_timeout");
    wire.until_closed().await;
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_and_another_media_type_415() {
    let world = Setup { server: "body_limit_mib = 1", ..Setup::default() }.start().await;
    let big = format!("{{\"model\":\"acme/fast\",\"x\":\"{}\"}}", "y".repeat(1 << 20));
    let answer = world.client.post_bytes(CHAT, big.as_bytes()).await;
    assert_error("too large", &answer, 413, "invalid_request_error", "request_too_large");
    for kind in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json"]
    {
        let body = chat("acme/fast").to_string();
        let answer = world.client.send("POST", CHAT, Some(kind), Some(body.as_bytes())).await;
        assert_error(kind, &answer, 415, "invalid_request_error", "unsupported_media_type");
    }
}

#[tokio::test]
async fn a_key_over_its_requests_per_minute_gets_429_with_the_limits_in_headers() {
    let world = world().await;
    let metered = world.client.with_key(METERED);
    let first = metered.post_json(CHAT, &chat("acme/fast")).await.ok();
    assert_eq!(first.header("x-ratelimit-limit-requests"), Some("2"));
    assert_eq!(first.header("x-ratelimit-remaining-requests"), Some("1"));
    assert!(first.header("x-ratelimit-reset-requests").is_some_and(|reset| reset.ends_with('s')));
    // Catalogue requests do not count against the limit.
    metered.get("/v1/models").await.ok();
    metered.post_json(EMBED, &embed(json!({}))).await.ok();
    let third = metered.post_json(TEXT, &text(json!({}))).await;
    assert_error("third", &third, 429, "rate_limit_error", "rate_limit_exceeded");
    assert_eq!(third.header("x-ratelimit-remaining-requests"), Some("0"));
    // Other keys are unaffected, and keys without a limit get no rate limit headers.
    let other = world.client.post_json(CHAT, &chat("acme/fast")).await.ok();
    assert_eq!(other.header("x-ratelimit-limit-requests"), None);
}

#[tokio::test]
async fn when_every_upstream_says_429_so_do_we() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let limited = |seconds: &str| {
        Answer::json_with(429, &[("retry-after", seconds)], &json!({ "error": { "message": "slow down" } }))
    };
    world.upstream.enqueue(limited("30"));
    world.second.enqueue(limited("7"));
    let answer =
        world.chat(&chat_with("acme/fast", json!({ "routing": { "fallback": ["beta/spare"] } }))).await;
    assert_error("both 429", &answer, 429, "rate_limit_error", "upstream_rate_limited");
    assert_eq!(answer.header("retry-after"), Some("7"), "the smallest wait");
}

#[tokio::test]
async fn a_client_that_goes_away_is_499_in_the_log_only() {
    let world = world().await;
    world.upstream.always(Answer::default().hang());
    let body = chat("acme/fast").to_string();
    let wire = world.client.open("POST", CHAT, Some("application/json"), Some(body.as_bytes())).await;
    let upstream = world.upstream.request(0).await;
    drop(wire);
    upstream.until_closed().await;
    let line = world.gateway.log_with("client_closed_request").await.to_string();
    assert!(line.contains("499"), "{line}");
}

#[tokio::test]
async fn a_bug_in_the_gateway_is_500() {
    let world = world().await;
    let answer = world.chat(&chat("demo/panic")).await;
    assert_error("panic", &answer, 500, "server_error", "internal_error");
    world.chat_ok(&chat("acme/fast")).await;
}

#[tokio::test]
async fn upstream_failures_are_502_with_a_code_that_says_whose_fault_it_is() {
    let world = single_attempt().await;
    let echo = format!("Incorrect API key provided: {UPSTREAM_KEY} at http://127.0.0.1/v1");
    let table = [
        (Answer::error(500, "server_error", "boom"), "upstream_error"),
        (Answer::error(502, "bad_gateway", "boom"), "upstream_error"),
        (Answer::full(500, &[("content-type", "text/html")], "<h1>Oops</h1>"), "upstream_error"),
        (Answer::error(401, "invalid_api_key", &echo), "upstream_auth_error"),
        (Answer::error(403, "forbidden", &echo), "upstream_auth_error"),
        (Answer::error(402, "billing", "pay"), "upstream_billing_error"),
        (Answer::error(429, "insufficient_quota", "quota"), "upstream_billing_error"),
        (Answer::error(404, "model_not_found", "no such model"), "upstream_model_missing"),
        (Answer::full(200, &[("content-type", "text/html")], "<h1>Hi</h1>"), "upstream_invalid_response"),
    ];
    for (scripted, code) in table {
        let label = format!("{code}: {scripted:?}").chars().take(80).collect::<String>();
        let answer = answered_by(&world, scripted).await;
        assert_error(&label, &answer, 502, "upstream_error", code);
        // A provider key that is disabled or cooling down must not hide the next row of the table.
        drop(label);
    }
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_is_502() {
    let gone = refused_address().await;
    let setup =
        Setup { routing: "retries = 0", acme_url: Some(format!("http://{gone}/v1")), ..Setup::default() };
    let world = setup.start().await;
    let answer = world.chat(&chat("acme/fast")).await;
    assert_error("refused", &answer, 502, "upstream_error", "upstream_unreachable");
    let setup = Setup {
        routing: "retries = 0",
        acme_url: Some("http://no-such-host.invalid/v1".to_owned()),
        ..Setup::default()
    };
    let world = setup.start().await;
    let answer = world.chat(&chat("acme/fast")).await;
    assert_error("no such name", &answer, 502, "upstream_error", "upstream_unreachable");
}

#[tokio::test]
async fn an_overloaded_upstream_is_503_with_its_wait() {
    let world = single_attempt().await;
    for status in [503, 529] {
        let overloaded =
            Answer::json_with(status, &[("retry-after", "9")], &json!({ "error": { "message": "busy" } }));
        let answer = answered_by(&world, overloaded).await;
        assert_error(&status.to_string(), &answer, 503, "upstream_error", "upstream_overloaded");
        assert_eq!(answer.header("retry-after"), Some("9"));
    }
    let answer = answered_by(&world, Answer::error(503, "overloaded", "busy")).await;
    assert_error("without a wait", &answer, 503, "upstream_error", "upstream_overloaded");
}

#[tokio::test]
async fn beyond_max_in_flight_it_is_503_at_once() {
    let world = Setup { server: "max_in_flight = 1", ..Setup::default() }.start().await;
    let release = Signal::new();
    let body = gw_testkit::upstream::chat_body("fast-2026-01", "late");
    let whole = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.to_string().len()
    );
    world.upstream.enqueue(Answer::default().wait(&release).bytes(whole));
    let bytes = chat("acme/fast").to_string();
    let mut first = world.client.open("POST", CHAT, Some("application/json"), Some(bytes.as_bytes())).await;
    world.upstream.request(0).await;
    let answer = world.chat(&chat("acme/fast")).await;
    assert_error("second", &answer, 503, "upstream_error", "no_available_provider");
    release.fire();
    first.response().await.expect("the first is answered").ok();
    world.chat_ok(&chat("acme/fast")).await;
}

#[tokio::test]
async fn an_upstream_that_says_nothing_is_504() {
    let setup = Setup { routing: "retries = 0", timeouts: "first_token_ms = 200", ..Setup::default() };
    let world = setup.start().await;
    let start = std::time::Instant::now();
    let answer = answered_by(&world, Answer::default().hang()).await;
    assert_error("silent", &answer, 504, "upstream_error", "upstream_timeout");
    assert!(start.elapsed() < Duration::from_secs(5));
    world.upstream.last().until_closed().await;
}
