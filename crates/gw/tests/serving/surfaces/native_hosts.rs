//! Claude on Vertex AI and on Bedrock gets the own bytes of clients that speak the Messages API.

use gw_testkit::{Client, FakeUpstream, Gateway};
use serde_json::{Value, json};

use super::{event, names};
use crate::harness::dialects::{self, Say, WORDS};
use crate::harness::{KEY, serve, with};

const VERTEX: &str = "gcp/claude-opus-4-5@20251101";
const VERTEX_PATH: &str =
    "/v1/projects/p/locations/europe-west4/publishers/anthropic/models/claude-opus-4-5@20251101";
const BEDROCK: &str = "aws/eu.anthropic.claude-sonnet-4-5-20250929-v1:0";
const BEDROCK_PATH: &str = "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0";

/// A gateway with Claude at both hosts, which one upstream plays.
async fn start() -> (Gateway, Client, FakeUpstream) {
    let upstream = FakeUpstream::start().await;
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n\
         [[providers]]\nname = \"gcp\"\napi = \"vertex\"\nbase_url = \"http://{0}\"\napi_key = \"sk-upstream-key-000\"\n\
         project = \"p\"\nregion = \"europe-west4\"\n\
         [[providers]]\nname = \"aws\"\napi = \"bedrock\"\nbase_url = \"http://{0}\"\napi_key = \"sk-upstream-key-000\"\n\
         region = \"eu-west-1\"\n\
         [[models]]\nid = \"{VERTEX}\"\n[[models]]\nid = \"{BEDROCK}\"\n",
        upstream.addr
    );
    let gateway = serve(&config).await;
    let client = gateway.client().with_key(KEY).with_header("anthropic-version", "2023-06-01");
    (gateway, client, upstream)
}

/// A body with spaces, escapes, unknown members and the gateway's own.
fn odd_body(model: &str) -> String {
    format!(
        r#"{{ "model" : "{model}", "max_tokens":64, "routing":{{"strategy":"default"}},
        "system":[{{"type":"text","text":"x-anthropic-billing-header: cc_version=1;"}}],
        "messages":[{{"role":"user","content":[{{"type":"text","text":"H\u00e9","cache_control":{{"type":"ephemeral"}}}}]}}],"context_management":{{"b":[ 1.50 ]}} }}"#
    )
}

/// The odd body as a host gets it: without the model and the gateway's members, and with the host's.
fn expected(model: &str, added: &str) -> String {
    let body = odd_body(model)
        .replace(&format!("\"model\" : \"{model}\", "), "")
        .replace(", \"routing\":{\"strategy\":\"default\"}", "");
    let end = body.len() - 1;
    format!("{},{added}}}", &body[..end])
}

#[tokio::test]
async fn vertex_gets_the_clients_body_and_its_known_betas() {
    let (_gateway, client, upstream) = start().await;
    upstream.always(dialects::anthropic(Say::Words, false));
    let client = client.with_header("anthropic-beta", "claude-code-20250219,context-1m-2025-08-07");
    let answer = client.post_bytes("/v1/messages", odd_body(VERTEX).as_bytes()).await.ok().json();
    let sent = upstream.last();
    assert_eq!(sent.path, format!("{VERTEX_PATH}:rawPredict"));
    let body = expected(VERTEX, r#""anthropic_version":"vertex-2023-10-16""#);
    assert_eq!(String::from_utf8_lossy(&sent.body), body);
    assert_eq!(sent.header("anthropic-beta"), Some("context-1m-2025-08-07"));
    assert_eq!(answer["content"], json!([{"type": "text", "text": WORDS}]));
    assert_eq!(answer["id"], "msg_1", "the host's own document");
    assert_eq!(answer["gateway"]["warnings"], json!(["beta_dropped:claude-code-20250219", "price_unknown"]));
}

#[tokio::test]
async fn bedrock_gets_the_clients_body_and_its_known_betas() {
    let (_gateway, client, upstream) = start().await;
    upstream.always(dialects::bedrock_invoke(Say::Words, false));
    let client = client.with_header("anthropic-beta", "context-1m-2025-08-07,made-up-2026-01-01");
    let answer = client.post_bytes("/v1/messages", odd_body(BEDROCK).as_bytes()).await.ok().json();
    let sent = upstream.last();
    assert_eq!(sent.path, format!("{BEDROCK_PATH}/invoke"));
    let added = r#""anthropic_version":"bedrock-2023-05-31","anthropic_beta":["context-1m-2025-08-07"]"#;
    assert_eq!(String::from_utf8_lossy(&sent.body), expected(BEDROCK, added));
    assert_eq!(sent.header("anthropic-beta"), None);
    assert_eq!((&answer["id"], &answer["content"][0]["text"]), (&json!("msg_1"), &json!(WORDS)));
    assert_eq!(answer["gateway"]["warnings"], json!(["beta_dropped:made-up-2026-01-01", "price_unknown"]));
}

#[tokio::test]
async fn the_events_of_both_hosts_are_handed_on() {
    let (_gateway, client, upstream) = start().await;
    for (model, path, answer) in [
        (VERTEX, format!("{VERTEX_PATH}:streamRawPredict"), dialects::anthropic(Say::Calls, true)),
        (
            BEDROCK,
            format!("{BEDROCK_PATH}/invoke-with-response-stream"),
            dialects::bedrock_invoke(Say::Calls, true),
        ),
    ] {
        upstream.always(answer);
        let body = with(super::message(model), json!({"stream": true}));
        let frames = client.stream("/v1/messages", &body).await.rest().await;
        let events: Vec<(String, Value)> = frames.iter().filter_map(|frame| event(frame)).collect();
        assert_eq!(upstream.last().path, path);
        let sent = upstream.last().json();
        assert_eq!(sent.get("stream").is_some(), model == VERTEX, "{sent}");
        assert_eq!(events[0].1["message"]["id"], "msg_1", "{model}");
        let listed = names(&events);
        assert_eq!(listed.iter().filter(|name| **name == "content_block_start").count(), 2, "{listed:?}");
        assert_eq!(listed.last(), Some(&"message_stop"));
        let (_, delta) = &events[events.len() - 2];
        assert_eq!(
            (&delta["delta"]["stop_reason"], &delta["gateway"]["model_used"]),
            (&json!("tool_use"), &json!(model))
        );
        assert_eq!(delta["usage"]["output_tokens"], 20);
    }
}

#[tokio::test]
async fn an_image_by_its_address_is_sent_as_a_translated_chat_or_refused() {
    let (_gateway, client, upstream) = start().await;
    upstream.always(dialects::bedrock(Say::Words, false));
    let image = json!({"type": "image", "source": {"type": "url", "url": "https://images.example/cat.png"}});
    let messages = json!([{"role": "user", "content": [image]}]);
    for model in [VERTEX, BEDROCK] {
        let body = with(super::message(model), json!({"messages": messages}));
        let answer = client.post_json("/v1/messages", &body).await;
        assert_eq!((answer.status, upstream.hits()), (400, 0), "{model}: {}", answer.text());
    }
}

#[tokio::test]
async fn an_exception_inside_bedrocks_stream_ends_it_with_an_error() {
    let (_gateway, client, upstream) = start().await;
    let start = json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "model": "up", "content": [], "usage": {"input_tokens": 5, "output_tokens": 1}}});
    let begun =
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}});
    let text =
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Once"}});
    let failed = json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}});
    let body = [start, begun, text, failed].iter().flat_map(dialects::bedrock_chunk).collect::<Vec<u8>>();
    upstream.always(gw_testkit::Answer::full(
        200,
        &[("content-type", "application/vnd.amazon.eventstream")],
        body,
    ));
    let body = with(super::message(BEDROCK), json!({"stream": true}));
    let frames = client.stream("/v1/messages", &body).await.rest().await;
    let (name, last) = frames.iter().filter_map(|frame| event(frame)).next_back().expect("an event");
    assert_eq!((name.as_str(), &last["error"]["type"]), ("error", &json!("overloaded_error")), "{frames:?}");
}
