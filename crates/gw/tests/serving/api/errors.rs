//! Every row of the error table in docs/errors.md, produced over a socket and compared byte for byte. This file has the
//! faults in the body of a request.

mod gateway;
mod upstream;

use serde_json::{Value, json};

use crate::harness::{World, assert_invalid, chat, chat_with, with, world};

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
    for path in [
        "/v1/models/compare",
        "/v1/models/compare?models=",
        "/v1/models/compare?models=,%20,",
        "/v1/models/compare%2F",
        "/v1/models/compare//",
    ] {
        // No other API has a comparison, so its errors have one shape.
        for client in [&world.client, &world.client.with_header("anthropic-version", "2023-06-01")] {
            assert_invalid(path, &client.get(path).await, "missing_required_parameter");
        }
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
        (CHAT, fast(json!({ "tools": vec![tool; 4097] }))),
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
