//! A stream that ends before its upstream tells its usage is charged for every reading of the prompt that was seen: one, and one
//! more for each call of a tool that the provider runs.

use gw_store::ledger::Entry;
use gw_testkit::{Answer, Client, FakeUpstream, Launch, Signal};
use serde_json::{Value, json};

use super::{message, response};
use crate::harness::ledger::{rows, rows_in};
use crate::harness::{KEY, Setup, binary, with};

const CLAUDE: &str = "claude/claude-opus-5-5";
const SEARCHING: &str = "acme/searching";

/// Models whose tokens cost 1 and 2 USD per million.
fn setup(claude: &FakeUpstream) -> Setup {
    let pricing = "context_length = 200000\nmax_output_tokens = 100\npricing = { official_input_per_m = 1.0, \
                   official_output_per_m = 2.0, tools = { web_search_per_call = 0.01, web_fetch_per_call = 0.0 } }";
    let extra = format!(
        "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"{CLAUDE}\"\n{pricing}\n[[models]]\nid = \"{SEARCHING}\"\n{pricing}\n",
        claude.addr
    );
    Setup { extra, acme: "responses = true".to_owned(), ..Setup::default() }
}

fn sse(frames: &[Value]) -> String {
    let name = |data: &Value| data["type"].as_str().unwrap_or_default().to_owned();
    frames.iter().map(|data| format!("event: {}\ndata: {data}\n\n", name(data))).collect()
}

/// Claude reads 1,000 tokens, calls these tools and writes a word. Its usage never comes.
fn messages_stream(start: &Value, tools: &[(&str, &str)]) -> String {
    let mut frames = vec![
        json!({"type": "message_start", "message": {"id": "msg_up", "type": "message", "role": "assistant",
        "model": "claude-opus-5-5", "content": [], "stop_reason": null, "usage": start}}),
    ];
    for (index, (kind, name)) in tools.iter().enumerate() {
        frames.push(json!({"type": "content_block_start", "index": index,
            "content_block": {"type": kind, "id": format!("srvtoolu_{index}"), "name": name, "input": {}}}));
        frames.push(json!({"type": "content_block_stop", "index": index}));
    }
    let last = tools.len();
    frames.push(
        json!({"type": "content_block_start", "index": last, "content_block": {"type": "text", "text": ""}}),
    );
    frames.push(
        json!({"type": "content_block_delta", "index": last, "delta": {"type": "text_delta", "text": "Hi"}}),
    );
    sse(&frames)
}

fn tools_of_messages() -> Value {
    json!({"stream": true, "tools": [{"type": "web_search_20250305", "name": "web_search"},
        {"type": "web_fetch_20250910", "name": "web_fetch"}]})
}

/// Reads the stream up to a piece of text, and leaves.
async fn leave(client: &Client, path: &str, body: &Value) {
    let mut stream = client.stream(path, body).await;
    while !stream.frame().await.expect("a frame").contains("\"Hi\"") {}
}

fn tokens(row: &Entry) -> (u64, u64, bool) {
    (row.tokens.prompt, row.tokens.cached, row.estimated)
}

#[tokio::test]
async fn a_left_stream_with_hosted_tools_costs_a_reading_for_each_call() {
    let claude = FakeUpstream::start().await;
    let world = setup(&claude).start().await;
    let never = Signal::new();
    let plain = json!({"input_tokens": 1000, "output_tokens": 1});
    let cached = json!({"input_tokens": 100, "cache_read_input_tokens": 900, "output_tokens": 1});
    let (search, fetch) = (("server_tool_use", "web_search"), ("server_tool_use", "web_fetch"));
    let body = with(message(CLAUDE), tools_of_messages());
    for (start, tools, expected) in [
        (&plain, &[][..], (1000, 0)),
        // Three readings, a page of 25,000 tokens and a search of 8,000.
        (&plain, &[search, fetch][..], (3 * 1000 + 33_000, 0)),
        // The later readings find the prompt in the cache.
        (&cached, &[search, search][..], (3 * 1000 + 16_000, 3 * 900)),
        // No reading is longer than the context of 200,000 tokens.
        (&json!({"input_tokens": 190_000, "output_tokens": 1}), &[fetch][..], (390_000, 0)),
    ] {
        let before = rows(&world.gateway, 0).await.len();
        claude.enqueue(Answer::sse().chunk(messages_stream(start, tools)).wait(&never));
        leave(&world.client, "/v1/messages", &body).await;
        let row = rows(&world.gateway, before + 1).await.remove(0);
        assert_eq!(tokens(&row), (expected.0, expected.1, true), "{tools:?}: {row:?}");
        assert!(!row.unpriced, "{row:?}");
    }
}

#[tokio::test]
async fn a_left_response_with_hosted_tools_costs_a_reading_for_each_call() {
    let claude = FakeUpstream::start().await;
    let world = setup(&claude).start().await;
    let never = Signal::new();
    let body = with(response(SEARCHING), json!({"stream": true, "tools": [{"type": "web_search"}]}));
    let stream = |items: &[Value]| {
        let mut frames =
            vec![json!({"type": "response.created", "sequence_number": 0, "response": {"id": "resp_up",
            "object": "response", "status": "in_progress", "model": "m", "output": []}})];
        for (at, item) in items.iter().enumerate() {
            frames.push(json!({"type": "response.output_item.done", "sequence_number": 1, "output_index": at, "item": item}));
        }
        frames.push(json!({"type": "response.output_text.delta", "sequence_number": 3, "output_index": 9, "item_id": "msg_1",
            "content_index": 0, "delta": "Hi"}));
        sse(&frames)
    };
    let search = json!({"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "a"}});
    let open = json!({"type": "web_search_call", "id": "ws_2", "status": "completed",
        "action": {"type": "open_page", "url": "https://a.example"}});
    let mut prompts = Vec::new();
    for items in [&[][..], &[search, open][..]] {
        world.upstream.enqueue(Answer::sse().chunk(stream(items)).wait(&never));
        leave(&world.client, "/v1/responses", &body).await;
        let row = rows(&world.gateway, prompts.len() + 1).await.remove(0);
        prompts.push(row.tokens.prompt);
    }
    // The page that the model opens costs no call, and another reading.
    assert_eq!(prompts[1], 3 * prompts[0] + 16_000, "{prompts:?}");
}

#[tokio::test]
async fn a_killed_process_is_charged_for_the_readings_that_it_saw() {
    let claude = FakeUpstream::start().await;
    let data = tempfile::tempdir().expect("a directory");
    let config = setup(&claude).config("http://127.0.0.1:9", "http://127.0.0.1:9");
    let start = || {
        let launch = Launch::new(binary()).file("gateway.toml", &config);
        launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().to_string_lossy()).start()
    };
    let gateway = start().await;
    let never = Signal::new();
    let usage = json!({"input_tokens": 1000, "output_tokens": 1});
    let tools = [("server_tool_use", "web_search"), ("server_tool_use", "web_search")];
    claude.enqueue(Answer::sse().chunk(messages_stream(&usage, &tools)).wait(&never));
    let body = with(message(CLAUDE), tools_of_messages());
    let client = gateway.client().with_key(KEY);
    let mut stream = client.stream("/v1/messages", &body).await;
    while !stream.frame().await.expect("a frame").contains("\"Hi\"") {}
    let _ = gateway.stop();
    let _gateway = start().await;
    let row = rows_in(&data.path().join("gateway.db"), 1).await.remove(0);
    assert_eq!((&*row.status, tokens(&row)), ("interrupted", (3 * 1000 + 16_000, 0, true)), "{row:?}");
}
