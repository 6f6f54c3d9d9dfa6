//! The cache key (I21): members of a chat that are part of it, members that are not, and the scope. The providers' settings are
//! tested in `redis.rs`.

use std::collections::BTreeSet;

use gw_testkit::Client;
use serde_json::{Value, json};

use crate::harness::tenants::{Tenants, tenants};
use crate::harness::{Setup, World, with, world};

const PATH: &str = "/v1/chat/completions";

/// A chat with a value for every kind of member.
fn base() -> Value {
    let function =
        json!({ "name": "f", "description": "d", "parameters": { "type": "object" }, "strict": false });
    json!({
        "model": "acme/fast",
        "messages": [
            { "role": "system", "content": "Be brief." },
            { "role": "user", "name": "ann", "content": "Hi" },
            { "role": "assistant", "content": null, "tool_calls": [
                { "id": "call_1", "type": "function", "function": { "name": "f", "arguments": "{\"a\":1}" } }] },
            { "role": "tool", "tool_call_id": "call_1", "content": "2" },
            { "role": "user", "content": [
                { "type": "text", "text": "What is this?" },
                { "type": "image_url", "image_url": { "url": "https://x.test/1.png", "detail": "low" } }] }
        ],
        "temperature": 0.5,
        "seed": 7,
        "stop": ["a", "b"],
        "logit_bias": { "50256": -10 },
        "tools": [{ "type": "function", "function": function }],
        "response_format": { "type": "json_schema",
            "json_schema": { "name": "s", "strict": true, "schema": { "type": "object", "properties": {} } } },
        "top_k": 40,
        "extra_body": { "guided": [1, 2, { "x": null }] },
        "cache": { "enabled": true }
    })
}

/// `base` with another value at this path.
fn at(path: &str, value: Value) -> Value {
    let mut body = base();
    *body.pointer_mut(path).unwrap_or_else(|| panic!("{path} is no part of the question")) = value;
    body
}

/// Chats whose keys differ from that of `base` and from each other.
fn others() -> Vec<Value> {
    let member = |name: &str, value: Value| with(base(), json!({ name: value }));
    let mut others = Vec::new();
    for (name, values) in [
        (
            "model",
            vec![
                json!("fast"),
                json!("smart"),
                json!("beta/fast"),
                json!("acme/fast:floor"),
                json!("acme/unpriced"),
            ],
        ),
        ("temperature", vec![json!(0.50001), json!(0), json!(1), Value::Null]),
        ("top_p", vec![json!(0.5), json!(1)]),
        ("n", vec![json!(1), json!(2)]),
        (
            "seed",
            vec![
                json!(-7),
                json!(0),
                json!(9_007_199_254_740_993_i64),
                json!(9_007_199_254_740_992_i64),
                Value::Null,
            ],
        ),
        ("stop", vec![json!("a"), json!(["a"]), json!(["b", "a"]), json!(["ab"]), Value::Null]),
        ("max_tokens", vec![json!(16), json!(17)]),
        ("max_completion_tokens", vec![json!(16)]),
        ("presence_penalty", vec![json!(0), json!(0.1)]),
        ("frequency_penalty", vec![json!(0.1)]),
        ("logit_bias", vec![json!({ "50256": 10 }), json!({ "50257": -10 }), json!({}), Value::Null]),
        ("logprobs", vec![json!(false), json!(true)]),
        ("top_logprobs", vec![json!(0), json!(3)]),
        (
            "tool_choice",
            vec![json!("auto"), json!("none"), json!({ "type": "function", "function": { "name": "f" } })],
        ),
        ("parallel_tool_calls", vec![json!(true), json!(false)]),
        ("response_format", vec![json!({ "type": "text" }), json!({ "type": "json_object" }), Value::Null]),
        ("reasoning_effort", vec![json!("low"), json!("high")]),
        ("verbosity", vec![json!("low")]),
        ("service_tier", vec![json!("flex")]),
        ("store", vec![json!(false), json!(true)]),
        ("modalities", vec![json!(["text"])]),
        ("prediction", vec![json!({ "type": "content", "content": "x" })]),
        ("web_search_options", vec![json!({}), json!({ "search_context_size": "low" })]),
        ("audio", vec![json!({ "voice": "a", "format": "mp3" })]),
        ("moderation", vec![json!({ "level": "low" })]),
        ("prompt_cache_key", vec![json!("k")]),
        ("prompt_cache_options", vec![json!({ "mode": "x" })]),
        ("prompt_cache_retention", vec![json!("24h")]),
        ("safety_identifier", vec![json!("s")]),
        ("tools", vec![Value::Null]),
        // Members of other endpoints, of other servers, and unknown ones.
        ("best_of", vec![json!(1)]),
        ("dimensions", vec![json!(3)]),
        ("echo", vec![json!(true)]),
        ("encoding_format", vec![json!("float")]),
        ("input", vec![json!("x")]),
        ("prompt", vec![json!("x")]),
        ("suffix", vec![json!("x")]),
        ("function_call", vec![json!("none")]),
        ("functions", vec![json!([{ "name": "g", "parameters": {} }])]),
        ("min_p", vec![json!(0.1)]),
        ("top_k", vec![json!(41), json!("40"), json!([40]), json!(true), Value::Null]),
        ("guided_json", vec![json!({ "user": "a" }), json!({ "user": "b" }), json!({ "stream": true })]),
        ("chat_template_kwargs", vec![json!({ "enable_thinking": false })]),
    ] {
        others.extend(values.into_iter().map(|value| member(name, value)));
    }
    others.extend(others_inside());
    others
}

fn others_inside() -> Vec<Value> {
    let mut others: Vec<Value> = [
        ("/messages/0/role", json!("developer")),
        ("/messages/0/content", json!("Be brief. ")),
        ("/messages/0/content", json!([{ "type": "text", "text": "Be brief." }])),
        ("/messages/0", json!({ "role": "system", "name": "x", "content": "Be brief." })),
        ("/messages/1/content", json!("hi")),
        ("/messages/1/content", json!("Hi\u{301}")),
        ("/messages/1/content", json!("H\u{ed}")),
        ("/messages/1/name", json!("bob")),
        ("/messages/2/content", json!("")),
        ("/messages/2/tool_calls/0/id", json!("call_2")),
        ("/messages/2/tool_calls/0/function/name", json!("g")),
        ("/messages/2/tool_calls/0/function/arguments", json!("{\"a\": 1}")),
        ("/messages/3/tool_call_id", json!("call_2")),
        ("/messages/3/content", json!("3")),
        ("/messages/4/content/0/text", json!("What is that?")),
        ("/messages/4/content/1/image_url/url", json!("https://x.test/2.png")),
        ("/messages/4/content/1/image_url/detail", json!("high")),
        ("/tools/0/function/name", json!("g")),
        ("/tools/0/function/description", json!("e")),
        ("/tools/0/function/strict", json!(true)),
        ("/tools/0/function/parameters", json!({ "type": "object", "properties": {} })),
        ("/response_format/json_schema/name", json!("t")),
        ("/response_format/json_schema/strict", json!(false)),
        ("/response_format/json_schema/schema/type", json!("array")),
        ("/extra_body/guided/0", json!(2)),
        ("/extra_body/guided/2", json!({ "x": 0 })),
        ("/extra_body/guided/2", json!({})),
        ("/extra_body/guided", json!([2, 1, { "x": null }])),
    ]
    .into_iter()
    .map(|(path, value)| at(path, value))
    .collect();
    // More messages, fewer messages, and another order.
    let messages = base()["messages"].as_array().cloned().expect("messages");
    let mut swapped = messages.clone();
    swapped.swap(0, 1);
    for messages in [&messages[1..], &messages[..4], &swapped, &[&messages[..], &messages[4..]].concat()] {
        others.push(at("/messages", json!(messages)));
    }
    let part = &messages[4]["content"];
    others.push(at("/messages/4/content", json!([part[1], part[0]])));
    let tool = base()["tools"][0].clone();
    others.push(at("/tools", json!([tool, tool])));
    others
}

/// Chats with the key of `base`: the changed members are not part of it.
fn same() -> Vec<Value> {
    [
        json!({ "user": "ann" }),
        json!({ "user": "bob" }),
        json!({ "metadata": { "a": "b" } }),
        json!({ "stream": true }),
        json!({ "stream": false }),
        json!({ "stream": true, "stream_options": { "include_usage": true } }),
        json!({ "cache": { "enabled": true, "ttl": 77 } }),
        json!({ "cache": { "enabled": true, "mode": "read" } }),
        json!({ "routing": { "strategy": "cheapest" } }),
        json!({ "routing": { "fallback": ["beta/spare"], "allow_upgrade": true } }),
        json!({ "fallbacks": ["beta/spare"] }),
        json!({ "fallback_model": "beta/spare" }),
        json!({ "models": ["acme/fast", "beta/spare"] }),
        json!({ "top_p": null, "n": null, "unheard_of": null }),
        // A misspelled gateway member is sent to no upstream.
        json!({ "Seed": 1, "STOP": "x" }),
    ]
    .map(|more| with(base(), more))
    .into()
}

/// Sends a chat; gives the cache's result and the number of upstream calls.
async fn ask_and_count(world: &World, client: &Client, body: &[u8]) -> (String, usize) {
    let before = world.upstream.hits() + world.second.hits();
    let answer = client.post_bytes(PATH, body).await;
    assert_eq!(answer.status, 200, "{}: {}", answer.text(), String::from_utf8_lossy(body));
    (
        answer.header("x-gateway-cache").unwrap_or("none").to_owned(),
        world.upstream.hits() + world.second.hits() - before,
    )
}

fn miss() -> (String, usize) {
    ("MISS".to_owned(), 1)
}

fn hit() -> (String, usize) {
    ("HIT".to_owned(), 0)
}

#[tokio::test]
async fn i21_every_member_that_matters_is_another_question_and_no_other_member_is() {
    // A member with its own price passes only where the operator allows it.
    let acme = "allow_members = [\"web_search_options\"]".to_owned();
    let world = Setup { acme, ..Setup::default() }.start().await;
    let client = &world.client;
    let body = base().to_string();
    assert_eq!(ask_and_count(&world, client, body.as_bytes()).await, miss());
    for other in others() {
        // A miss, and then stored.
        let bytes = other.to_string().into_bytes();
        assert_eq!(ask_and_count(&world, client, &bytes).await, miss(), "{other}");
        // From the third hit on the gateway knows the question by its bytes.
        for _ in 0..3 {
            assert_eq!(ask_and_count(&world, client, &bytes).await, hit(), "{other}");
        }
    }
    for same in same() {
        assert_eq!(ask_and_count(&world, client, same.to_string().as_bytes()).await, hit(), "{same}");
    }
    for respelled in respelled(&body) {
        assert_ne!(respelled, body);
        assert_eq!(ask_and_count(&world, client, respelled.as_bytes()).await, hit(), "{respelled}");
    }
}

#[tokio::test]
async fn an_empty_list_of_stops_or_tools_is_as_good_as_none() {
    let world = world().await;
    let without = with(base(), json!({ "stop": null, "tools": null })).to_string();
    assert_eq!(ask_and_count(&world, &world.client, without.as_bytes()).await, miss());
    for lists in [json!({ "stop": [] }), json!({ "tools": [] }), json!({ "stop": [], "tools": [] })] {
        let body = with(serde_json::from_str(&without).expect("JSON"), lists).to_string();
        assert_eq!(ask_and_count(&world, &world.client, body.as_bytes()).await, hit(), "{body}");
    }
}

/// Equal JSON with different bytes.
fn respelled(body: &str) -> [String; 5] {
    let replaced = |pairs: &[(&str, &str)]| {
        pairs.iter().fold(body.to_owned(), |body, (from, to)| {
            assert!(body.contains(from), "{from} is not in {body}");
            body.replace(from, to)
        })
    };
    [
        replaced(&[("0.5,", "5e-1,"), ("40", "0.4E+2"), ("-10", "-1.0e1")]),
        replaced(&[
            ("Be brief.", "\\u0042e\\u0020brief."),
            ("\"seed\"", "\"s\\u0065ed\""),
            ("/1.png", "\\/1.png"),
        ]),
        serde_json::to_string_pretty(&base()).expect("JSON"),
        backwards(&base()),
        format!(" \r\n\t{body}\n "),
    ]
}

/// With the members of every object in the opposite order.
fn backwards(value: &Value) -> String {
    match value {
        Value::Object(members) => {
            let members = members.iter().rev();
            let members: Vec<String> =
                members.map(|(name, value)| format!("{}:{}", json!(name), backwards(value))).collect();
            format!("{{{}}}", members.join(","))
        }
        Value::Array(elements) => {
            format!("[{}]", elements.iter().map(backwards).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

/// A new known member must be added to one of the two tables above.
#[test]
fn i21_every_member_that_is_known_is_in_a_table() {
    let source = include_str!("../../../../gw-wire/src/request/body.rs");
    let list = source
        .split_once("static KNOWN: [&[&str]; 23] = [")
        .and_then(|(_, rest)| rest.split_once("];"))
        .expect("the list")
        .0;
    let known: BTreeSet<&str> = list.split('"').skip(1).step_by(2).collect();
    assert!(known.len() > 40, "{known:?}");
    let base = base();
    // A null counts as an absent member.
    let differs = |body: &Value, name: &str| body[name] != base[name];
    for name in known {
        let matters = others().iter().any(|other| differs(other, name));
        let does_not = same().iter().any(|same| differs(same, name));
        assert!(matters != does_not, "{name}: in {}", if matters { "both" } else { "neither" });
    }
}

#[tokio::test]
async fn i21_a_question_of_one_key_is_a_miss_for_every_other() {
    let world = world().await;
    let Tenants { a, others, .. } = tenants(&world).await;
    let body = base().to_string();
    assert_eq!(ask_and_count(&world, &a, body.as_bytes()).await, miss());
    for (who, other) in &others {
        assert_eq!(ask_and_count(&world, other, body.as_bytes()).await, miss(), "{who}");
        assert_eq!(ask_and_count(&world, other, body.as_bytes()).await, hit(), "{who}");
    }
    assert_eq!(ask_and_count(&world, &a, body.as_bytes()).await, hit());
}
