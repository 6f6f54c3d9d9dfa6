//! Whom a request is for and what it belongs to: on every surface, in rows, reports, metrics and exports, and never at an upstream.

use gw_testkit::{Answer, Client, Response};
use serde_json::{Value, json};

use super::rows;
use crate::harness::forms::{FORM, edit, recording};
use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, Setup, World, assert_error, chat, logged, with};

const TRUSTED: &str = "sk-trusted";
/// A provider that speaks the Messages API itself, at the second upstream.
const CLAUDE: &str = "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"<beta_url>\"\napi_key = \"k\"\n\
    [[models]]\nid = \"claude/m\"\ncategory = [\"chat\"]\n\
    pricing = { official_input_per_m = 1.0, official_output_per_m = 2.0, currency = \"USD\" }\n";

/// A route whose requests pass through to `acme`.
const PASS: &str = "[[passthrough]]\npath = \"/pass\"\nprovider = \"acme\"\nusage = \"openai\"\n";

/// A gateway whose key `trusted` is believed.
async fn world() -> World {
    let extra = format!(
        "{CLAUDE}{PASS}[[keys]]\nname = \"trusted\"\nkey = \"{TRUSTED}\"\ntrust_attribution = true\n"
    );
    Setup { extra, ..Setup::default() }.start().await
}

fn client(world: &World, key: &str) -> Client {
    let client = world.gateway.client().with_key(key);
    let names = [
        ("x-gateway-user", "ann"),
        ("x-litellm-end-user-id", "bob"),
        ("x-gateway-tags", "team:red, blue"),
        ("x-litellm-tags", "green"),
        ("x-gateway-repository", "acme/shop"),
        ("x-gateway-branch", "main"),
        ("x-gateway-pull-request", "12"),
    ];
    names.into_iter().fold(client, |client, (name, value)| client.with_header(name, value))
}

fn message(model: &str) -> Value {
    json!({"model": model, "max_tokens": 20, "messages": [{"role": "user", "content": "Hello"}]})
}

fn response(model: &str) -> Value {
    json!({"model": model, "input": "Hello"})
}

/// A request of each surface.
fn surfaces() -> Vec<(&'static str, Value)> {
    vec![
        ("/v1/chat/completions", chat("acme/fast")),
        ("/v1/chat/completions", with(chat("acme/fast"), json!({"stream": true}))),
        ("/v1/completions", json!({"model": "acme/fast", "prompt": "Hello", "max_tokens": 5})),
        ("/v1/embeddings", json!({"model": "acme/embed", "input": "Hello"})),
        ("/v1/rerank", json!({"model": "acme/rerank", "query": "q", "documents": ["a", "b"]})),
        ("/v1/score", json!({"model": "acme/rerank", "text_1": "q", "text_2": ["a", "b"]})),
        ("/v1/moderations", json!({"model": "acme/moderation", "input": "Hello"})),
        ("/v1/responses", response("acme/fast")),
        ("/v1/responses", with(response("acme/fast"), json!({"background": true, "store": true}))),
        ("/v1/responses/compact", response("acme/fast")),
        ("/v1/messages", message("acme/fast")),
        ("/v1/messages", message("claude/m")),
    ]
}

/// A request of each surface whose names come from headers alone: its path, its media type and its body.
fn surfaces_of_headers() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let json = |path, body: Value| (path, "application/json", body.to_string().into_bytes());
    let contents = || json!({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]});
    let heard = recording(&[("model", "acme/hear")]);
    vec![
        json("/v1/images/generations", json!({"model": "acme/paint", "prompt": "a cat"})),
        ("/v1/images/edits", FORM, edit()),
        json("/v1/audio/speech", json!({"model": "acme/speak", "input": "Hello", "voice": "alloy"})),
        ("/v1/audio/transcriptions", FORM, heard.clone()),
        ("/v1/audio/translations", FORM, heard),
        json("/v1beta/models/acme%2Ffast:generateContent", contents()),
        json("/v1beta/models/acme%2Ffast:streamGenerateContent?alt=sse", contents()),
        json("/v1beta/models/acme%2Fembed:embedContent", json!({"content": {"parts": [{"text": "Hello"}]}})),
        json("/pass/chat/completions", chat("fast-2026-01")),
    ]
}

/// The members that hold names, in every surface.
fn named(request: &Value) -> Value {
    with(request.clone(), json!({"tags": ["amber"], "metadata": {"tags": ["pink"], "user_id": "carl"}}))
}

fn id_of(answer: &Response) -> String {
    answer.header("x-request-id").expect("an id").to_owned()
}

fn names(row: &Value) -> Value {
    json!([row["end_user"], row["tags"], row["repository"], row["branch"], row["pull_request"]])
}

#[tokio::test]
async fn every_surface_has_the_names_and_no_upstream_gets_them() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (trusted, plain) = (client(&world, TRUSTED), client(&world, crate::harness::KEY));
    world.second.always(Answer::json(
        200,
        &json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
            "content": [{"type": "text", "text": "Hi"}], "usage": {"input_tokens": 9, "output_tokens": 3},
        }),
    ));
    for (path, request) in surfaces() {
        for (client, expected) in [
            (
                &trusted,
                json!(["ann", ["team:red", "blue", "green", "amber", "pink"], "acme/shop", "main", "12"]),
            ),
            (&plain, json!([null, [], "acme/shop", "main", "12"])),
        ] {
            let answer = client.post_json(path, &named(&request)).await.ok();
            let row = logged(&admin, &id_of(&answer)).await;
            assert_eq!(names(&row), expected, "{path} {row}");
        }
    }
    for (path, media, body) in surfaces_of_headers() {
        for (client, expected) in [
            (&trusted, json!(["ann", ["team:red", "blue", "green"], "acme/shop", "main", "12"])),
            (&plain, json!([null, [], "acme/shop", "main", "12"])),
        ] {
            let answer = client.send("POST", path, Some(media), Some(&body)).await.ok();
            let row = logged(&admin, &id_of(&answer)).await;
            assert_eq!(names(&row), expected, "{path} {row}");
        }
    }
    let sent = [world.upstream.requests(), world.second.requests()].concat();
    assert!(sent.len() >= 2 * (surfaces().len() + surfaces_of_headers().len()), "{}", sent.len());
    let native = sent.last().expect("a call").json();
    assert_eq!(native["metadata"], json!({"user_id": "carl"}), "the client's own member stays");
    for sent in sent {
        for (name, value) in &sent.headers {
            let text = format!("{name}: {value}").to_lowercase();
            assert!(!text.contains("x-gateway") && !text.contains("litellm"), "{text}");
        }
        let body = String::from_utf8_lossy(&sent.body);
        for name in ["amber", "pink", "tags", "blue", "green", "acme/shop"] {
            assert!(!body.contains(name), "{name}: {body}");
        }
    }
}

#[tokio::test]
async fn tags_beyond_the_bounds_are_left_out_with_a_warning() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let many: Vec<String> = (0..20).map(|number| format!("t{number}")).collect();
    let trusted = world.gateway.client().with_key(TRUSTED).with_header("x-gateway-tags", &many.join(","));
    let answer = trusted.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    assert_eq!(answer.json()["gateway"]["warnings"], json!(["tags_dropped"]));
    let row = logged(&admin, &id_of(&answer)).await;
    assert_eq!(row["tags"], json!(many[..16]));
    let one = admin.get(&format!("/admin/v1/requests/{}", id_of(&answer))).await.ok().json();
    assert_eq!(one["warnings"], json!(["tags_dropped"]));
    let fitting = world.gateway.client().with_key(TRUSTED).with_header("x-gateway-tags", "a, a,,b");
    let answer = fitting.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    assert_eq!(answer.json()["gateway"]["warnings"], json!([]));
    assert_eq!(logged(&admin, &id_of(&answer)).await["tags"], json!(["a", "b"]));
}

#[tokio::test]
async fn tags_of_metadata_that_are_no_list_are_left_out_with_a_warning() {
    let world = world().await;
    for secret in [TRUSTED, crate::harness::KEY] {
        let body = with(chat("acme/fast"), json!({"metadata": {"tags": "amber", "shop": "one"}}));
        let answer =
            world.gateway.client().with_key(secret).post_json("/v1/chat/completions", &body).await.ok();
        assert_eq!(answer.json()["gateway"]["warnings"], json!(["parameter_dropped:metadata.tags"]));
        assert_eq!(world.upstream.last().json()["metadata"], json!({"shop": "one"}));
        let row = logged(&world.gateway.client().with_key(ADMIN), &id_of(&answer)).await;
        assert_eq!(row["tags"], json!([]));
    }
}

#[tokio::test]
async fn the_switch_of_a_key_is_false_and_can_be_changed() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, key) = create(&admin, json!({"name": "app"})).await;
    assert_eq!(key["trust_attribution"], false);
    let path = format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id"));
    let refused = ask(&admin, "PATCH", &path, &json!({"trust_attribution": "yes"})).await;
    assert_error("not a switch", &refused, 400, "invalid_request_error", "invalid_type");
    for (trust, expected) in [(true, json!("ann")), (false, Value::Null)] {
        let changed = ask(&admin, "PATCH", &path, &json!({"trust_attribution": trust})).await.ok();
        assert_eq!(changed.json()["trust_attribution"], trust);
        let user = client(&world, &secret);
        let answer = user.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
        assert_eq!(logged(&admin, &id_of(&answer)).await["end_user"], expected);
    }
    let body = with(chat("acme/fast"), json!({"user": "u-1"}));
    let answer = world.client.post_json("/v1/chat/completions", &body).await.ok();
    let row = logged(&admin, &id_of(&answer)).await;
    assert_eq!((row["user"].as_str(), &row["end_user"]), (Some("u-1"), &Value::Null), "the row's user stays");
    assert_eq!(world.upstream.last().json()["user"], "u-1", "the client's own member goes upstream");
}

/// Three requests of ann, one of bob, and one without names. Each costs the same.
async fn spent(world: &World) -> Client {
    let post = async |names: &[(&str, &str)]| {
        let client = world.gateway.client().with_key(TRUSTED);
        let client = names.iter().fold(client, |client, (name, value)| client.with_header(name, value));
        client.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    };
    for _ in 0..3 {
        post(&[("x-gateway-user", "ann"), ("x-gateway-tags", "a,b"), ("x-gateway-branch", "main")]).await;
    }
    post(&[("x-gateway-user", "bob"), ("x-gateway-tags", "a")]).await;
    post(&[]).await;
    rows(&world.gateway, 5).await;
    world.gateway.client().with_key(ADMIN)
}

#[tokio::test]
async fn reports_count_each_name_and_the_total_once() {
    let world = world().await;
    let admin = spent(&world).await;
    let report = async |query: &str| admin.get(&format!("/admin/v1/usage?{query}")).await.ok().json();
    let shown = |report: &Value, by: &str| -> Vec<Value> {
        let rows = report["data"].as_array().expect("rows");
        rows.iter().map(|row| json!([row[by], row["requests"], row["other"]])).collect()
    };
    for (query, by, expected) in [
        (
            "by=end_user",
            "end_user",
            vec![json!(["ann", 3, null]), json!(["bob", 1, null]), json!([null, 1, null])],
        ),
        ("by=tag", "tag", vec![json!(["a", 4, null]), json!(["b", 3, null]), json!([null, 1, null])]),
        (
            "by=tag&limit=1",
            "tag",
            vec![json!(["a", 4, null]), json!([null, 3, true]), json!([null, 1, null])],
        ),
        ("by=branch&tag=a", "branch", vec![json!(["main", 3, null]), json!([null, 1, null])]),
        ("by=repository", "repository", vec![json!([null, 5, null])]),
        ("by=pull_request&since=1h", "pull_request", vec![json!([null, 5, null])]),
        ("by=model&end_user=ann&tag=b", "model", vec![json!(["acme/fast", 3, null])]),
        (
            "by=key&end_user=bob&since=2h",
            "key",
            vec![json!([gw_engine::auth::configured_id("trusted"), 1, null])],
        ),
        ("by=end_user&end_user=bob", "end_user", vec![json!(["bob", 1, null])]),
        ("by=model&tag=none", "model", vec![]),
        ("by=model&limit=1", "model", vec![json!(["acme/fast", 5, null])]),
    ] {
        assert_eq!(shown(&report(query).await, by), expected, "{query}");
    }
    let by_tag = report("by=tag").await;
    assert_eq!(by_tag["total"]["requests"], 5);
    let csv = admin.get("/admin/v1/usage?by=tag&limit=1&format=csv").await.ok().text();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("tag,other,requests,"), "{csv}");
    assert!(
        lines[1].starts_with("a,,4,") && lines[2].starts_with(",true,3,") && lines[3].starts_with(",,1,"),
        "{csv}"
    );
    for (query, code) in [
        ("by=tag&limit=0", "integer_below_min_value"),
        ("by=tag&limit=1001", "integer_above_max_value"),
        ("by=tag&limit=x", "invalid_type"),
        ("by=user", "invalid_value"),
        ("by=day&limit=0", "integer_below_min_value"),
    ] {
        let answer = admin.get(&format!("/admin/v1/usage?{query}")).await;
        assert_eq!((answer.status, answer.code()), (400, code.to_owned()), "{query}");
    }
    let listed = async |query: &str| {
        let page = admin.get(&format!("/admin/v1/requests?{query}")).await.ok().json();
        page["data"].as_array().expect("rows").len()
    };
    for (query, count) in
        [("end_user=ann", 3), ("tag=a", 4), ("tag=a&end_user=bob", 1), ("branch=main", 3), ("branch=mai", 0)]
    {
        assert_eq!(listed(query).await, count, "{query}");
    }
}

#[tokio::test]
async fn the_overview_has_the_hundred_most_expensive_names() {
    let world = world().await;
    let admin = spent(&world).await;
    let groups = async |by: &str| -> Vec<Value> {
        let overview = admin.get(&format!("/admin/v1/overview?by={by}")).await.ok().json();
        assert_eq!(overview["by"], by);
        let groups = overview["groups"].as_array().expect("groups");
        groups.iter().map(|group| json!([group["group"], group["requests"], group["other"]])).collect()
    };
    for (by, expected) in [
        ("end_user", vec![json!(["ann", 3, null]), json!(["bob", 1, null]), json!([null, 1, null])]),
        ("tag", vec![json!(["a", 4, null]), json!(["b", 3, null]), json!([null, 1, null])]),
        ("branch", vec![json!(["main", 3, null]), json!([null, 2, null])]),
        ("repository", vec![json!([null, 5, null])]),
        ("pull_request", vec![json!([null, 5, null])]),
    ] {
        assert_eq!(groups(by).await, expected, "{by}");
    }
    // Each of seven requests has 16 further tags, which is 114 tags with those above.
    for request in 0..7 {
        let tags: Vec<String> = (0..16).map(|tag| format!("{request}-{tag}")).collect();
        let client = world.gateway.client().with_key(TRUSTED).with_header("x-gateway-tags", &tags.join(","));
        client.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    }
    rows(&world.gateway, 12).await;
    let tags = groups("tag").await;
    assert_eq!(tags.len(), 102);
    assert_eq!(tags[100..], [json!([null, 14, true]), json!([null, 1, null])]);
    let answer = admin.get("/admin/v1/overview?by=session").await;
    assert_eq!((answer.status, answer.code()), (400, "invalid_value".to_owned()));
}

#[tokio::test]
async fn metrics_have_the_cost_of_each_name() {
    let world = world().await;
    let admin = spent(&world).await;
    let cost = admin.get("/admin/v1/usage?by=end_user").await.ok().json()["data"][0]["cost_usd"].to_string();
    let text = admin.get("/metrics").await.ok().text();
    let line = "gateway_attributed_cost_usd_total{kind=\"end_user\",name=\"ann\"}";
    let value = text.lines().find_map(|found| found.strip_prefix(line)).expect("a series");
    assert_eq!(value.trim().parse::<f64>(), cost.parse::<f64>());
}
