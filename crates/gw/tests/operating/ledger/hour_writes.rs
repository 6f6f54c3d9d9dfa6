//! Prompts that a provider's cache keeps for an hour cost more than those that it keeps for five minutes: at every host of Claude,
//! on every surface, plain and streamed.

use gw_testkit::upstream::Recorded;
use gw_testkit::{Answer, Client, FakeUpstream, Gateway};
use serde_json::{Value, json};

use crate::harness::dialects::{bedrock_chunk, frame};
use crate::harness::ledger::{documents, rows};
use crate::harness::{KEY, serve};

const HOSTS: [&str; 3] =
    ["claude/claude-opus-5-5", "gcp/claude-opus-5-5", "aws/anthropic.claude-opus-5-5-v1:0"];
/// 100 tokens at 4, 10 at 20 and 100,000 at 8 USD per million.
const COST: f64 = 0.8006;
const COST_FEMTOS: i128 = 800_600_000_000_000;

/// A gateway with Claude at its three hosts, which one upstream plays.
async fn start() -> (Gateway, Client, FakeUpstream) {
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(answer);
    let mut config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n\
         [[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{0}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[providers]]\nname = \"gcp\"\napi = \"vertex\"\nbase_url = \"http://{0}\"\napi_key = \"sk-upstream-key-000\"\n\
         project = \"p\"\nregion = \"europe-west4\"\n\
         [[providers]]\nname = \"aws\"\napi = \"bedrock\"\nbase_url = \"http://{0}\"\napi_key = \"sk-upstream-key-000\"\n\
         region = \"eu-west-1\"\n",
        upstream.addr
    );
    for id in HOSTS {
        config += &format!(
            "[[models]]\nid = \"{id}\"\ncategory = [\"chat\"]\n\
             pricing = {{ official_input_per_m = 4.0, official_output_per_m = 20.0, cache_write_per_m = 5.0, currency = \"USD\" }}\n"
        );
    }
    let gateway = serve(&config).await;
    let client = gateway.client().with_key(KEY).with_header("anthropic-version", "2023-06-01");
    (gateway, client, upstream)
}

/// Claude's answer in the host's form: 100 tokens of input, 10 of output, and 100,000 that the cache keeps for an hour.
pub(super) fn answer(request: &Recorded) -> Answer {
    let usage = json!({"input_tokens": 100, "cache_creation_input_tokens": 100_000, "cache_read_input_tokens": 0, "output_tokens": 10,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 100_000}});
    let converse = json!({"inputTokens": 100, "outputTokens": 10, "totalTokens": 100_110, "cacheWriteInputTokens": 100_000,
        "cacheDetails": [{"ttl": "1h", "inputTokens": 100_000}]});
    let message = |content: Value| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": content,
        "stop_reason": "end_turn", "stop_sequence": null, "usage": usage})
    };
    let path = request.path.as_str();
    let streams = path.contains("stream") || request.json()["stream"] == true;
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
    if !streams {
        return Answer::json(200, &message(json!([{"type": "text", "text": "Hi"}])));
    }
    let mut begun = message(json!([]));
    begun["stop_reason"] = Value::Null;
    begun["usage"]["output_tokens"] = json!(1);
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

/// The requests of one host: path, body.
fn requests(model: &str) -> Vec<(&'static str, Value)> {
    let cached =
        json!([{"type": "text", "text": "Long.", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]);
    let messages =
        json!({"model": model, "max_tokens": 64, "messages": [{"role": "user", "content": cached}]});
    let chat = messages.clone();
    let responses = json!({"model": model, "input": "Long."});
    let mut all = Vec::new();
    for (path, body) in
        [("/v1/chat/completions", chat), ("/v1/messages", messages), ("/v1/responses", responses)]
    {
        for stream in [false, true] {
            let mut body = body.clone();
            body["stream"] = json!(stream);
            if stream && path.starts_with("/v1/chat") {
                body["stream_options"] = json!({"include_usage": true});
            }
            all.push((path, body));
        }
    }
    all
}

/// The last usage object that has a cost, in a document or in the data of frames.
fn usage_of(documents: &[Value]) -> Value {
    let of = |document: &Value| [&document["usage"], &document["response"]["usage"]].map(Clone::clone);
    let mut found = documents.iter().flat_map(of).filter(|usage| !usage["cost_usd"].is_null());
    found.next_back().expect("a usage with a cost")
}

#[tokio::test]
async fn s18_cache_writes_for_an_hour_have_their_own_price_on_every_surface() {
    let (gateway, client, _upstream) = start().await;
    let mut asked = 0;
    for model in HOSTS {
        for (path, body) in requests(model) {
            let label = format!("{model} {path} {}", body["stream"]);
            let documents = if body["stream"] == true {
                let frames = client.stream(path, &body).await.rest().await;
                documents(&frames)
            } else {
                vec![client.post_json(path, &body).await.ok().json()]
            };
            let usage = usage_of(&documents);
            assert_eq!(usage["cost_usd"].as_f64(), Some(COST), "{label}: {usage}");
            if path == "/v1/messages" && body["stream"] == false {
                let lifetimes = json!({"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 100_000});
                assert_eq!(usage["cache_creation"], lifetimes, "{label}");
            }
            asked += 1;
            let row = rows(&gateway, asked).await.into_iter().max_by_key(|row| row.at).expect("a row");
            assert_eq!((row.cost, row.unpriced), (COST_FEMTOS, false), "{label}: {row:?}");
            assert_eq!((row.tokens.cache_write, row.cache_write_1h), (100_000, 100_000), "{label}");
        }
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_charged_for_the_writes_that_its_start_reported() {
    let (gateway, client, upstream) = start().await;
    let usage = json!({"input_tokens": 100, "cache_creation_input_tokens": 100_000, "output_tokens": 1,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 100_000}});
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
    for (asked, path) in [(1, "/v1/chat/completions"), (2, "/v1/messages")] {
        upstream.enqueue(Answer::sse().chunk(half.clone()).end());
        let body = json!({"model": HOSTS[0], "max_tokens": 64, "stream": true, "messages": [{"role": "user", "content": "Long."}]});
        client.stream(path, &body).await.rest().await;
        let row = rows(&gateway, asked).await.into_iter().max_by_key(|row| row.at).expect("a row");
        // 100 tokens at 4, 100,000 at 8, and one token of text at 20 USD per million.
        assert_eq!(
            (&*row.status, row.cost),
            ("upstream_stream_error", 800_420_000_000_000),
            "{path}: {row:?}"
        );
    }
}
