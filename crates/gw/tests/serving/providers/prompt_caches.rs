//! Prompt caches of providers: breakpoints for clients that send none, what the cache saved and cost, and why it was missed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use gw_store::ledger::Entry;
use gw_testkit::upstream::Recorded;
use gw_testkit::{Answer, Client, FakeUpstream, Gateway};
use serde_json::{Value, json};

use super::dialects::{bedrock_chunk, frame};
use crate::harness::ledger::{documents, rows, spans};
use crate::harness::{ADMIN, KEY, logged, serve, with};

const CLAUDE: &str = "claude/claude-opus-5-5";
const VERTEX: &str = "gcp/claude-opus-5-5";
const BEDROCK: &str = "aws/anthropic.claude-opus-5-5-v1:0";
const HOSTS: [&str; 3] = [CLAUDE, VERTEX, BEDROCK];

/// A text of more than 1,024 tokens.
fn long() -> String {
    "All work and no play. ".repeat(400)
}

/// The tokens that the upstream reads from its cache, and that it writes into it.
#[derive(Clone, Default)]
struct Tokens(Arc<(AtomicU64, AtomicU64)>);

impl Tokens {
    fn set(&self, read: u64, written: u64) {
        self.0.0.store(read, Ordering::SeqCst);
        self.0.1.store(written, Ordering::SeqCst);
    }

    fn get(&self) -> (u64, u64) {
        (self.0.0.load(Ordering::SeqCst), self.0.1.load(Ordering::SeqCst))
    }
}

/// A gateway with Claude at its three hosts, which one upstream plays.
async fn start(provider: &str, model: &str, more: &str) -> (Gateway, Client, FakeUpstream, Tokens) {
    let upstream = FakeUpstream::start().await;
    let tokens = Tokens::default();
    let known = tokens.clone();
    upstream.respond_with(move |request| answer(request, known.get()));
    let mut config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n\
         [[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n"
    );
    for (name, api, lines) in [
        ("claude", "anthropic", ""),
        ("gcp", "vertex", "project = \"p\"\nregion = \"europe-west4\"\n"),
        ("aws", "bedrock", "region = \"eu-west-1\"\n"),
    ] {
        config += &format!(
            "[[providers]]\nname = \"{name}\"\napi = \"{api}\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
             {lines}{provider}\n",
            upstream.addr
        );
    }
    for id in HOSTS {
        config += &format!(
            "[[models]]\nid = \"{id}\"\ncategory = [\"chat\"]\n{model}\npricing = {{ official_input_per_m = 4.0, \
             official_output_per_m = 20.0, cached_input_per_m = 0.4, cache_write_per_m = 5.0, currency = \"USD\" }}\n"
        );
    }
    let gateway = serve(&format!("{config}{more}")).await;
    let client = gateway.client().with_key(KEY).with_header("anthropic-version", "2023-06-01");
    (gateway, client, upstream, tokens)
}

/// Claude's answer in the host's form: 100 tokens of plain input, 10 of output, and those of the cache.
fn answer(request: &Recorded, (read, written): (u64, u64)) -> Answer {
    let usage = json!({"input_tokens": 100, "cache_creation_input_tokens": written, "cache_read_input_tokens": read, "output_tokens": 10});
    let converse = json!({"inputTokens": 100, "outputTokens": 10, "totalTokens": 110 + read + written,
        "cacheReadInputTokens": read, "cacheWriteInputTokens": written});
    let message = |content: Value| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": content,
        "stop_reason": "end_turn", "stop_sequence": null, "usage": usage})
    };
    let path = request.path.as_str();
    if path.ends_with("/converse") {
        let message = json!({"message": {"role": "assistant", "content": [{"text": "Hi"}]}});
        return Answer::json(
            200,
            &json!({"output": message, "stopReason": "end_turn", "usage": converse, "metrics": {"latencyMs": 5}}),
        );
    }
    if path.ends_with("/converse-stream") {
        let mut body = frame("messageStart", &json!({"role": "assistant"}));
        body.extend(frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": "Hi"}})));
        body.extend(frame("contentBlockStop", &json!({"contentBlockIndex": 0})));
        body.extend(frame("messageStop", &json!({"stopReason": "end_turn"})));
        body.extend(frame("metadata", &json!({"usage": converse, "metrics": {"latencyMs": 5}})));
        return Answer::full(200, &[("content-type", "application/vnd.amazon.eventstream")], body);
    }
    if !path.to_lowercase().contains("stream") && request.json()["stream"] != true {
        return Answer::json(200, &message(json!([{"type": "text", "text": "Hi"}])));
    }
    let mut begun = message(json!([]));
    begun["stop_reason"] = Value::Null;
    let events = [
        json!({"type": "message_start", "message": begun}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 10}}),
        json!({"type": "message_stop"}),
    ];
    if path.contains("/invoke") {
        let body: Vec<u8> = events.iter().flat_map(bedrock_chunk).collect();
        return Answer::full(200, &[("content-type", "application/vnd.amazon.eventstream")], body);
    }
    let text =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"));
    Answer::sse().chunk(events.iter().map(text).collect::<String>()).end()
}

/// A request with tools, a system prompt and two turns, on each surface.
fn requests(model: &str) -> [(&'static str, Value); 3] {
    let schema = json!({"type": "object", "properties": {"cache_control": {"type": "string"}}});
    let function = json!({"name": "look", "description": "Looks.", "parameters": schema});
    let turns = json!([{"role": "user", "content": "What does \"cache_control\" mean?"},
        {"role": "assistant", "content": "Much."}, {"role": "user", "content": "More."}]);
    let mut chat_turns = turns.as_array().expect("turns").clone();
    chat_turns.insert(0, json!({"role": "system", "content": long()}));
    let chat = json!({"model": model, "messages": chat_turns, "tools": [{"type": "function", "function": function}]});
    let messages = json!({"model": model, "max_tokens": 64, "system": long(), "messages": turns,
        "tools": [{"name": "look", "input_schema": schema}]});
    let responses = json!({"model": model, "instructions": long(), "input": turns,
        "tools": [with(function, json!({"type": "function"}))]});
    [("/v1/chat/completions", chat), ("/v1/messages", messages), ("/v1/responses", responses)]
}

/// The markers of a request at its host.
fn markers(request: &Recorded) -> Vec<String> {
    let body = request.json();
    let mut found = Vec::new();
    find(&body, "", &mut found);
    found
}

fn find(value: &Value, path: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if (name == "cache_control" && !path.contains("properties")) || name == "cachePoint" {
                    found.push(format!("{path} {value}"));
                } else {
                    find(value, &format!("{path}/{name}"), found);
                }
            }
        }
        Value::Array(values) => {
            for (at, value) in values.iter().enumerate() {
                find(value, &format!("{path}/{at}"), found);
            }
        }
        _ => {}
    }
}

async fn object(client: &Client, path: &str, body: &Value) -> Value {
    let answer = client.post_json(path, body).await.ok().json();
    answer["gateway"]["prompt_cache"].clone()
}

#[tokio::test]
async fn requests_without_a_marker_get_four_on_every_surface_at_every_host() {
    let (_gateway, client, upstream, tokens) = start("prompt_cache = \"auto\"", "", "").await;
    tokens.set(0, 1_000);
    for model in HOSTS {
        for (path, body) in requests(model) {
            let label = format!("{model} {path}");
            for stream in [false, true] {
                let body = with(body.clone(), json!({"stream": stream}));
                if stream {
                    client.stream(path, &body).await.rest().await;
                } else {
                    let used = object(&client, path, &body).await;
                    let expected = json!({"inserted": true, "read_tokens": 0, "write_tokens": 1_000, "saved_usd": 0,
                        "surcharge_usd": 0.001, "reason": null, "miss": null});
                    assert_eq!(used, expected, "{label}");
                }
                let found = markers(&upstream.last());
                let is_converse = model == BEDROCK && path != "/v1/messages";
                let marker = if is_converse { r#"{"type":"default"}"# } else { r#"{"type":"ephemeral"}"# };
                let marked = found.iter().filter(|place| place.ends_with(marker)).count();
                assert_eq!((found.len(), marked), (4, 4), "{label}: {found:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_forwarded_body_keeps_all_other_bytes() {
    let (_gateway, client, upstream, _) =
        start("prompt_cache = { ttl = \"1h\", min_tokens = 1 }", "", "").await;
    let body = r#"{ "model":"claude/claude-opus-5-5" ,"max_tokens": 64,  "metadata":{"user_id":"\u0061"},
        "messages": [{"role":"user","content":"1\u00e9"},{"role":"assistant","content":"2"},{"content":[{"type":"text", "text":"3"}],"role":"user"}] }"#;
    client.post_bytes("/v1/messages", body.as_bytes()).await.ok();
    let sent = String::from_utf8(upstream.last().body.to_vec()).expect("text");
    let marker = r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#;
    let expected = body
        .replace("claude/claude-opus-5-5", "claude-opus-5-5")
        .replace(r#""1\u00e9""#, &format!(r#"[{{"type":"text","text":"1\u00e9"{marker}}}]"#))
        .replace(r#""text":"3"}"#, &format!(r#""text":"3"{marker}}}"#));
    assert_eq!(sent, expected);
}

#[tokio::test]
async fn a_marker_of_the_client_a_short_prompt_or_the_narrower_setting_keeps_the_body_as_it_is() {
    let aliases = "[[aliases]]\nname = \"on\"\ntargets = [\"claude/claude-opus-5-5\"]\nprompt_cache = \"auto\"\n\
        [[aliases]]\nname = \"off\"\ntargets = [\"claude/claude-opus-5-5\"]\nprompt_cache = { mode = \"off\" }\n";
    let (_gateway, client, upstream, _) =
        start("prompt_cache = \"auto\"", "prompt_cache = { min_tokens = 100000 }", aliases).await;
    let ask = async |path: &str, body: &Value| {
        let used = object(&client, path, body).await;
        (markers(&upstream.last()).len(), used["inserted"].clone())
    };
    for (path, body) in requests("on") {
        assert_eq!(ask(path, &body).await, (4, json!(true)), "{path}");
        // The narrowest setting counts: that of the model is narrower than that of the provider.
        for model in ["off", CLAUDE] {
            let body = with(body.clone(), json!({"model": model}));
            assert_eq!(ask(path, &body).await, (0, Value::Null), "{path} {model}");
        }
    }
    let marked = json!([{"type": "text", "text": long(), "cache_control": {"type": "ephemeral"}}]);
    for path in ["/v1/chat/completions", "/v1/messages"] {
        let body = json!({"model": "on", "max_tokens": 9, "messages": [{"role": "user", "content": marked}]});
        assert_eq!(ask(path, &body).await, (1, Value::Null), "{path}");
    }
    let top = json!({"model": "on", "max_tokens": 9, "cache_control": {"type": "ephemeral"},
        "messages": [{"role": "user", "content": long()}]});
    assert_eq!(ask("/v1/messages", &top).await, (1, Value::Null));
    let short = json!({"model": "on", "messages": [{"role": "user", "content": "Hi"}]});
    assert_eq!(ask("/v1/chat/completions", &short).await, (0, Value::Null));
}

#[tokio::test]
async fn nothing_is_put_in_by_default() {
    let (_gateway, client, upstream, _) = start("", "", "").await;
    for model in HOSTS {
        for (path, body) in requests(model) {
            assert_eq!(object(&client, path, &body).await, Value::Null, "{model} {path}");
            assert_eq!(markers(&upstream.last()), [""; 0], "{model} {path}");
        }
    }
}

/// The sums of a session's requests: those that used the cache, and those that missed it.
fn amounts(rows: &[&Entry]) -> [Value; 3] {
    let is_miss = |row: &&&Entry| row.prompt_cache.as_ref().is_some_and(|used| used.miss.is_some());
    let misses = rows.iter().filter(is_miss).count();
    let hits = rows.len() - misses;
    [hits * 36, hits * 20, misses * 108].map(|sum| if sum == 0 { json!(0) } else { json!(sum as f64 / 1e4) })
}

#[tokio::test]
async fn the_answer_the_record_and_the_report_say_what_the_cache_saved_and_cost() {
    let (gateway, client, _upstream, tokens) = start("prompt_cache = \"auto\"", "", "").await;
    let admin = gateway.client().with_key(ADMIN);
    let mut asked = 0;
    for (path, body) in requests(CLAUDE) {
        for stream in [false, true] {
            let label = format!("{path} {stream}");
            tokens.set(1_000, 2_000);
            let client = client.with_header("x-gateway-session", &label);
            let body = with(body.clone(), json!({"stream": stream}));
            let expected = json!({"inserted": true, "read_tokens": 1_000, "write_tokens": 2_000,
                "saved_usd": 0.0036, "surcharge_usd": 0.002, "reason": null, "miss": null});
            let gateway_object = if stream {
                let frames = client.stream(path, &body).await.rest().await;
                let of = |document: &Value| {
                    [&document["gateway"], &document["response"]["gateway"]].map(Clone::clone)
                };
                let found = documents(&frames);
                found.iter().flat_map(of).rfind(Value::is_object).expect("a gateway object")
            } else {
                client.post_json(path, &body).await.ok().json()["gateway"].clone()
            };
            assert_eq!(gateway_object["prompt_cache"], expected, "{label}");
            asked += 1;
            rows(&gateway, asked).await;
            let id = gateway_object["request_id"].as_str().expect("an id");
            assert_eq!(logged(&admin, id).await["prompt_cache"], expected, "{label}");
            // The session's next request finds none of it.
            tokens.set(0, 0);
            let missed = client.post_json(path, &with(body.clone(), json!({"stream": false}))).await.ok();
            let missed = missed.json()["gateway"].clone();
            asked += 1;
            rows(&gateway, asked).await;
            let id = missed["request_id"].as_str().expect("an id");
            let miss = &missed["prompt_cache"]["miss"];
            assert_eq!(
                (&miss["cause"], &miss["lost_tokens"], &miss["lost_usd"], &miss["ttl_seconds"]),
                (&json!("provider"), &json!(3_000), &json!(0.0108), &json!(300)),
                "{label}"
            );
            assert_eq!(logged(&admin, id).await["prompt_cache"], missed["prompt_cache"], "{label}");
        }
    }
    let sums = |row: &Value| {
        ["cache_saved_usd", "cache_surcharge_usd", "cache_lost_usd"].map(|name| row[name].clone())
    };
    let recorded = rows(&gateway, asked).await;
    for by in ["key", "team", "model", "provider", "surface", "session", "day", "hour"] {
        let report = admin.get(&format!("/admin/v1/usage?by={by}")).await.ok().json();
        let all = [json!(0.0216), json!(0.012), json!(0.0648)];
        assert_eq!(sums(&report["total"]), all, "by {by}");
        let rows = report["data"].as_array().expect("rows");
        if by == "session" {
            assert_eq!(rows.len(), 6, "{rows:?}");
            assert!(
                rows.iter().all(|row| sums(row) == [json!(0.0036), json!(0.002), json!(0.0108)]),
                "{rows:?}"
            );
        } else if by == "day" || by == "hour" {
            let span_ms = if by == "day" { 86_400_000 } else { 3_600_000 };
            let found: Vec<_> = rows.iter().map(sums).collect();
            let expected: Vec<_> = spans(&recorded, span_ms).iter().map(|rows| amounts(rows)).collect();
            assert_eq!(found, expected, "by {by}");
        } else if by != "surface" {
            assert_eq!((rows.len(), sums(&rows[0])), (1, all), "by {by}");
        }
    }
    let csv = admin.get("/admin/v1/usage?by=key&format=csv").await.ok().text();
    assert!(csv.contains(",cache_saved_usd,cache_surcharge_usd,cache_lost_usd"), "{csv}");
    assert!(csv.contains(",0.0216,0.012,0.0648"), "{csv}");
    // No request has a tag, so the row of those without one has all amounts.
    let by_tag = admin.get("/admin/v1/usage?by=tag").await.ok().json();
    assert_eq!(sums(&by_tag["data"][0]), [json!(0.0216), json!(0.012), json!(0.0648)], "{by_tag}");
    assert_eq!(sums(&by_tag["total"]), sums(&by_tag["data"][0]), "{by_tag}");
}

/// A conversation of one session on a surface.
struct Session {
    client: Client,
    path: &'static str,
    body: Value,
}

impl Session {
    /// The miss of the next request.
    async fn miss(&self, tokens: &Tokens, read: u64, written: u64) -> Value {
        tokens.set(read, written);
        object(&self.client, self.path, &self.body).await["miss"].clone()
    }
}

#[tokio::test]
async fn a_miss_names_its_first_cause() {
    let (_gateway, client, _upstream, tokens) = start("", "", "").await;
    for (path, body) in requests(CLAUDE) {
        let client = client.with_header("x-gateway-session", path);
        let mut session = Session { client, path, body };
        assert_eq!(session.miss(&tokens, 0, 5_000).await, Value::Null, "{path}");
        // A longer prompt that finds all of the one before is no miss.
        let list = if path == "/v1/responses" { "input" } else { "messages" };
        let push = |session: &mut Session, text: &str| {
            let turns = session.body[list].as_array_mut().expect("turns");
            turns.push(json!({"role": "user", "content": text}));
        };
        push(&mut session, "Go on.");
        assert_eq!(session.miss(&tokens, 5_000, 200).await, Value::Null, "{path}");
        let expected = |cause: &str, index: Value, lost: u64, usd: f64| json!({"cause": cause, "index": index, "age_seconds": 0, "ttl_seconds": 300, "lost_tokens": lost, "lost_usd": usd});
        let without_age = |mut miss: Value| {
            miss["age_seconds"] = json!(0);
            miss
        };
        // The first message that changed is the last one of the request before.
        let place = session.body[list].as_array().expect("turns").len() - 1;
        session.body[list][place]["content"] = json!("Go on!");
        let index = if path == "/v1/chat/completions" { place - 1 } else { place };
        let miss = without_age(session.miss(&tokens, 5_000, 300).await);
        assert_eq!(miss, expected("message", json!(index), 200, 0.00072), "{path}");
        match path {
            "/v1/chat/completions" => session.body["messages"][0]["content"] = json!("Be brief."),
            "/v1/messages" => session.body["system"] = json!("Be brief."),
            _ => session.body["instructions"] = json!("Be brief."),
        }
        session.body[list][place]["content"] = json!("Go on?");
        let miss = without_age(session.miss(&tokens, 0, 5_300).await);
        assert_eq!(miss, expected("system", Value::Null, 5_300, 0.01908), "{path}");
        let tool = session.body["tools"][0].clone();
        session.body["tools"].as_array_mut().expect("tools").push(tool);
        session.body["tools"][1][if path == "/v1/chat/completions" { "function" } else { "name" }] =
            if path == "/v1/chat/completions" { json!({"name": "see"}) } else { json!("see") };
        let miss = without_age(session.miss(&tokens, 0, 5_300).await);
        assert_eq!(miss, expected("tools", Value::Null, 5_300, 0.01908), "{path}");
        let miss = without_age(session.miss(&tokens, 300, 5_000).await);
        assert_eq!(miss, expected("provider", Value::Null, 5_000, 0.018), "{path}");
        session.body["model"] = json!(VERTEX);
        session.body["tools"] = json!([]);
        let miss = without_age(session.miss(&tokens, 0, 10).await);
        assert_eq!(miss, expected("target", Value::Null, 5_300, 0.01908), "{path}");
    }
}

#[tokio::test]
async fn a_prompt_that_is_older_than_its_lifetime_has_expired_and_sessions_are_apart() {
    let (_gateway, client, _upstream, tokens) =
        start("prompt_cache = { mode = \"off\", lifetime_seconds = 1 }", "", "").await;
    let [(path, body), ..] = requests(CLAUDE);
    let session = |name: &str| {
        let client = client.with_header("x-gateway-session", name);
        Session { client, path, body: body.clone() }
    };
    let (one, other) = (session("one"), session("other"));
    assert_eq!(one.miss(&tokens, 0, 5_000).await, Value::Null);
    assert_eq!(other.miss(&tokens, 0, 5_000).await, Value::Null);
    // Sleeps: the entry of the prompt cache is valid for a second.
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let miss = one.miss(&tokens, 0, 5_000).await;
    assert_eq!((&miss["cause"], &miss["ttl_seconds"]), (&json!("expired"), &json!(1)), "{miss}");
    assert!(miss["age_seconds"].as_u64().is_some_and(|age| age >= 1), "{miss}");
    // A request without a session has no miss.
    let none = Session { client, path, body };
    assert_eq!(none.miss(&tokens, 1, 0).await, Value::Null);
    assert_eq!(none.miss(&tokens, 0, 1).await, Value::Null);
}

#[tokio::test]
async fn breakpoints_that_cost_more_than_they_save_are_held_back() {
    let (_gateway, client, upstream, tokens) = start("prompt_cache = \"auto\"", "", "").await;
    let [(path, body), ..] = requests(CLAUDE);
    tokens.set(0, 1_000);
    for number in 0..20 {
        assert_eq!(object(&client, path, &body).await["inserted"], json!(true), "{number}");
    }
    tokens.set(0, 0);
    for (path, body) in requests(CLAUDE) {
        let expected = json!({"inserted": false, "read_tokens": 0, "write_tokens": 0, "saved_usd": 0,
            "surcharge_usd": 0, "reason": "below_break_even", "miss": null});
        assert_eq!(object(&client, path, &body).await, expected, "{path}");
        assert_eq!(markers(&upstream.last()), [""; 0], "{path}");
    }
    // Another target of the key still gets them.
    let body = with(body, json!({"model": VERTEX}));
    assert_eq!(object(&client, path, &body).await["inserted"], json!(true));
}

#[tokio::test]
async fn the_record_of_a_stream_that_breaks_off_has_what_its_start_reported() {
    let (gateway, client, upstream, _) = start("prompt_cache = \"auto\"", "", "").await;
    let admin = gateway.client().with_key(ADMIN);
    let usage = json!({"input_tokens": 100, "cache_creation_input_tokens": 2_000, "cache_read_input_tokens": 1_000, "output_tokens": 1});
    let begun = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "model": "up", "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage}});
    let events = [
        begun,
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}),
    ];
    let text =
        |event: &Value| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().expect("a type"));
    let half: String = events.iter().map(text).collect();
    for (asked, (path, body)) in (1..).zip(requests(CLAUDE)) {
        upstream.enqueue(Answer::sse().chunk(half.clone()).end());
        client.stream(path, &with(body, json!({"stream": true}))).await.rest().await;
        let row = rows(&gateway, asked).await.into_iter().max_by_key(|row| row.at).expect("a row");
        assert_ne!(row.status, "ok", "{path}");
        let expected = json!({"inserted": true, "read_tokens": 1_000, "write_tokens": 2_000, "saved_usd": 0.0036,
            "surcharge_usd": 0.002, "reason": null, "miss": null});
        assert_eq!(logged(&admin, &row.request_id).await["prompt_cache"], expected, "{path}");
    }
}

#[tokio::test]
async fn the_worst_case_has_the_price_of_writes_for_an_hour() {
    let alias = |name: &str, setting: &str| {
        format!("[[aliases]]\nname = \"{name}\"\ntargets = [\"{CLAUDE}\"]\nprompt_cache = {setting}\n")
    };
    let aliases =
        alias("off", "\"off\"") + &alias("minutes", "\"auto\"") + &alias("hour", "{ ttl = \"1h\" }");
    let (gateway, _, _, _) = start("", "", &aliases).await;
    let admin = gateway.client().with_key(ADMIN);
    let worst = async |model: &str| {
        let body =
            json!({"model": model, "max_tokens": 1, "messages": [{"role": "user", "content": long()}]});
        let answer = admin.post_json("/admin/v1/routing/explain", &body).await.ok().json();
        answer["worst_case"]["cost_usd"].as_f64().unwrap_or_else(|| panic!("a cost: {answer}"))
    };
    let [off, minutes, hour] = [worst("off").await, worst("minutes").await, worst("hour").await];
    // A write for five minutes costs 5 USD per million and is always reserved; one for an hour costs 8.
    assert!((off - minutes).abs() < 1e-12 && hour > 1.5 * minutes, "{off} {minutes} {hour}");
}
