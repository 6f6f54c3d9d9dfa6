//! The gateway calls its providers and nobody else: no address of a request, and no proxy of the environment.

use gw_testkit::{FakeUpstream, Launch};
use serde_json::{Value, json};

use crate::harness::{KEY, Setup, binary, chat, chat_with};

const CHAT: &str = "/v1/chat/completions";

/// Requests with an address in 50 different places. Some are valid, and some are refused.
fn requests(address: &str) -> Vec<(&'static str, Value)> {
    let mut requests = Vec::new();
    for name in [
        "base_url",
        "api_base",
        "url",
        "endpoint",
        "host",
        "proxy",
        "webhook",
        "webhook_url",
        "callback",
        "callback_url",
        "redirect_uri",
        "image_url",
        "file_url",
        "audio_url",
        "video_url",
        "schema_url",
        "openai_base_url",
        "api_url",
        "target",
        "upstream",
        "server_url",
        "notify_url",
        "success_callback",
        "user",
    ] {
        requests.push((CHAT, chat_with("acme/fast", json!({ name: address }))));
    }
    for name in ["extra_body", "metadata", "routing", "cache", "headers", "web_search_options"] {
        requests
            .push((CHAT, chat_with("acme/fast", json!({ name: { "base_url": address, "url": address } }))));
    }
    let parts = [
        json!({ "type": "image_url", "image_url": { "url": address } }),
        json!({ "type": "image_url", "image_url": address }),
        json!({ "type": "input_image", "image_url": address }),
        json!({ "type": "file", "file": { "file_id": address } }),
        json!({ "type": "file", "file": { "file_data": address, "filename": "a.pdf" } }),
        json!({ "type": "input_audio", "input_audio": { "data": address, "format": "wav" } }),
        json!({ "type": "video_url", "video_url": { "url": address } }),
        json!({ "type": "text", "text": address }),
    ];
    for part in parts {
        let messages = json!([{ "role": "user", "content": [part] }]);
        requests.push((CHAT, chat_with("acme/fast", json!({ "messages": messages }))));
    }
    requests.extend(schemas(address).map(|members| (CHAT, chat_with("acme/fast", members))));
    for part in [
        json!({ "type": "input_image", "image_url": address }),
        json!({ "type": "input_file", "file_url": address }),
    ] {
        let input = json!([{ "role": "user", "content": [part] }]);
        requests.push(("/v1/responses", json!({ "model": "acme/fast", "input": input })));
    }
    let tool = json!({ "type": "mcp", "server_label": "x", "server_url": address });
    requests.push(("/v1/responses", json!({ "model": "acme/fast", "input": "Hello", "tools": [tool] })));
    for kind in ["image", "document"] {
        let part = json!({ "type": kind, "source": { "type": "url", "url": address } });
        let messages = json!([{ "role": "user", "content": [part] }]);
        requests
            .push(("/v1/messages", json!({ "model": "acme/fast", "max_tokens": 8, "messages": messages })));
    }
    let servers = json!([{ "type": "url", "name": "x", "url": address }]);
    let body = json!({ "model": "acme/fast", "max_tokens": 8, "messages": chat("m")["messages"], "mcp_servers": servers });
    requests.push(("/v1/messages", body));
    requests.extend(["image/png", "application/pdf"].map(|kind| {
        let part = json!({ "fileData": { "mimeType": kind, "fileUri": address } });
        ("/v1beta/models/acme/fast:generateContent", json!({ "contents": [{ "parts": [part] }] }))
    }));
    for input in [json!(address), json!([address, address])] {
        requests.push(("/v1/embeddings", json!({ "model": "acme/embed", "input": input })));
    }
    let ranked = json!({ "model": "acme/rerank", "query": address, "documents": [address] });
    requests.push(("/v1/completions", json!({ "model": "acme/fast", "prompt": address })));
    requests.extend([("/v1/rerank", ranked), ("/v1/moderations", judged(address)), (CHAT, chat(address))]);
    requests
}

/// The members of chats with an address in a JSON schema.
fn schemas(address: &str) -> [Value; 2] {
    let schema = json!({ "$ref": address, "$schema": address });
    let function = json!({ "name": "f", "parameters": schema });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "s", "schema": schema } });
    [json!({ "tools": [{ "type": "function", "function": function }] }), json!({ "response_format": format })]
}

fn judged(address: &str) -> Value {
    json!({ "model": "acme/moderation", "input": [{ "type": "image_url", "image_url": { "url": address } }] })
}

#[tokio::test]
async fn x02_no_address_of_a_request_is_fetched() {
    // The operator allows the most that can be allowed.
    let setup = Setup { acme: "file_ids = true".to_owned(), ..Setup::default() };
    let world = setup.start().await;
    let listener = FakeUpstream::start().await;
    let address = format!("http://{}/secret.png", listener.addr);
    let requests = requests(&address);
    assert_eq!(requests.len(), 54);
    for (path, body) in requests {
        let answer = world.client.post_json(path, &body).await;
        assert!(answer.status < 500, "{path} {body}: {}", answer.text());
        assert_eq!(listener.connections(), 0, "{path} {body}");
    }
    // In each of the four dialects and in a moderation, the address of an image reaches the provider, which may fetch it.
    let sent = world.upstream.requests();
    let sent =
        sent.iter().filter(|request| String::from_utf8_lossy(&request.body).contains("image_url\":{\"url\""));
    assert_eq!(sent.count(), 5);
}

#[tokio::test]
async fn x03_proxies_of_the_environment_are_ignored() {
    let (upstream, second) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let attacker = FakeUpstream::start().await;
    let config = Setup::default().config(&upstream.base_url(), &second.base_url());
    let proxy = format!("http://{}", attacker.addr);
    let names = ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];
    let launch = Launch::new(binary()).file("gateway.toml", config).env("NO_PROXY", "").env("no_proxy", "");
    let launch = names.iter().fold(launch, |launch, name| launch.env(name, &proxy));
    let gateway = launch.start().await;
    let client = gateway.client().with_key(KEY);
    client.post_json(CHAT, &chat("acme/fast")).await.ok();
    client.post_json("/v1/embeddings", &json!({ "model": "acme/embed", "input": "Hello" })).await.ok();
    assert_eq!((upstream.hits(), attacker.connections()), (2, 0));
}
