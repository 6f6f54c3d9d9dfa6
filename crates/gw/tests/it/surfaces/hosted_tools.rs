//! Tools that the provider runs are charged by the upstream's own counts, on every surface.

use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use super::{ask_messages, ask_responses, events, message, response};
use crate::harness::{ADMIN, Setup, World, assert_error, chat_with, logged, with};

const CLAUDE: &str = "claude/claude-opus-5-5";
const SEARCHING: &str = "acme/searching";

/// Models whose tokens cost 1 and 2 USD per million, with prices of hosted tools.
async fn priced() -> (World, FakeUpstream) {
    let upstream = FakeUpstream::start().await;
    let pricing = "context_length = 100000\nmax_output_tokens = 100\npricing = { official_input_per_m = 1.0, \
                   official_output_per_m = 2.0, tools = { web_search_per_call = 0.01, web_fetch_per_call = 0.0, \
                   file_search_per_call = 0.0025, code_interpreter_per_container = 0.03 } }";
    let extra = format!(
        "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"{CLAUDE}\"\n{pricing}\n[[models]]\nid = \"{SEARCHING}\"\n{pricing}\n\
         [[keys]]\nname = \"poor\"\nkey = \"sk-poor\"\nbudget_usd = 0.05\n",
        upstream.addr
    );
    let acme = "responses = true".to_owned();
    (Setup { extra, acme, ..Setup::default() }.start().await, upstream)
}

/// The cost in the answer, and the row's.
async fn row_cost(world: &World, id: &str) -> Value {
    logged(&world.gateway.client().with_key(ADMIN), id).await["cost_usd"].clone()
}

#[expect(clippy::needless_pass_by_value, reason = "each caller makes the value in place")]
fn claude_answer(server_tool_use: Value) -> Value {
    json!({"id": "msg_up", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 1000, "output_tokens": 500, "server_tool_use": server_tool_use}})
}

fn searches() -> Value {
    json!({"tools": [{"type": "web_search_20250305", "name": "web_search", "max_uses": 2},
        {"type": "web_fetch_20250910", "name": "web_fetch", "max_uses": 2, "max_content_tokens": 2000}]})
}

#[tokio::test]
async fn anthropics_searches_are_charged_by_its_own_count() {
    let (world, claude) = priced().await;
    claude.enqueue(Answer::json(
        200,
        &claude_answer(json!({"web_search_requests": 3, "web_fetch_requests": 5})),
    ));
    let answer = ask_messages(&world.client, &with(message(CLAUDE), searches())).await.ok();
    assert_eq!(
        answer.json()["usage"]["cost_usd"],
        json!(0.032),
        "0.002 for the tokens of all calls inside the answer, 3 searches"
    );
    assert_eq!(answer.json()["usage"]["server_tool_use"]["web_search_requests"], 3);
    assert_eq!(row_cost(&world, answer.header("x-request-id").expect("an id")).await, json!(0.032));
}

fn frames(ends: bool) -> String {
    let start = json!({"type": "message_start", "message": {"id": "msg_up", "type": "message", "role": "assistant",
        "model": "claude-opus-5-5", "content": [], "stop_reason": null, "usage": {"input_tokens": 1000, "output_tokens": 1}}});
    let search = |index: u64| {
        json!({"type": "content_block_start", "index": index,
            "content_block": {"type": "server_tool_use", "id": format!("srvtoolu_{index}"), "name": "web_search", "input": {}}})
    };
    let stop = |index: u64| json!({"type": "content_block_stop", "index": index});
    let mut frames = vec![start, search(0), stop(0), search(1), stop(1)];
    if ends {
        frames.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"},
            "usage": {"output_tokens": 50, "server_tool_use": {"web_search_requests": 2}}}));
        frames.push(json!({"type": "message_stop"}));
    }
    frames
        .iter()
        .map(|data| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()))
        .collect()
}

#[tokio::test]
async fn a_streams_searches_are_charged_and_a_torn_streams_too() {
    let (world, claude) = priced().await;
    claude.enqueue(Answer::sse().chunk(frames(true)).end());
    let body = with(with(message(CLAUDE), searches()), json!({"stream": true}));
    let seen = events(&world.client, "/v1/messages", &body).await;
    let delta = seen.iter().find(|(name, _)| name == "message_delta").expect("a delta");
    assert_eq!(delta.1["usage"]["cost_usd"], json!(0.0211));
    claude.enqueue(Answer::sse().chunk(frames(false)).reset());
    let mut stream = world.client.stream("/v1/messages", &body).await;
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    let text = stream.rest().await.concat();
    assert!(text.contains("\"type\":\"error\""), "{text}");
    let cost = row_cost(&world, &id).await.as_f64().expect("a cost");
    assert!(
        (0.021..0.0215).contains(&cost),
        "the prompt, an estimate of the answer and two searches: {cost}"
    );
}

#[expect(clippy::needless_pass_by_value, reason = "each caller makes the value in place")]
fn response_answer(output: Value) -> Value {
    json!({"id": "resp_up", "object": "response", "created_at": 1, "status": "completed", "model": "searching", "error": null,
        "incomplete_details": null, "output": output, "usage": {"input_tokens": 1000, "output_tokens": 50, "total_tokens": 1050}})
}

fn hosted_items() -> Value {
    json!([
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "a"}},
        {"type": "web_search_call", "id": "ws_2", "status": "completed", "action": {"type": "open_page", "url": "https://a.example"}},
        {"type": "file_search_call", "id": "fs_1", "status": "completed", "queries": ["a"]},
        {"type": "code_interpreter_call", "id": "ci_1", "status": "completed", "container_id": "cntr_1", "code": "1"},
        {"type": "code_interpreter_call", "id": "ci_2", "status": "completed", "container_id": "cntr_1", "code": "2"},
        {"type": "message", "id": "msg_up", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}]}
    ])
}

#[tokio::test]
async fn openais_hosted_calls_are_charged_by_its_items() {
    let (world, _) = priced().await;
    let tools = json!({"tools": [{"type": "web_search"}, {"type": "code_interpreter", "container": {"type": "auto"}}]});
    world.upstream.enqueue(Answer::json(200, &response_answer(hosted_items())));
    let answer = ask_responses(&world.client, &with(response(SEARCHING), tools.clone())).await.ok();
    // 0.001 + 0.0001 for the tokens, 0.01 for the search, 0.0025 for the files, 0.03 for the container.
    assert_eq!(answer.json()["usage"]["cost_usd"], json!(0.0436));
    assert_eq!(row_cost(&world, answer.header("x-request-id").expect("an id")).await, json!(0.0436));
    let mut frames = vec![json!({"type": "response.created", "sequence_number": 0,
        "response": with(response_answer(json!([])), json!({"status": "in_progress", "usage": null}))})];
    for (at, item) in hosted_items().as_array().expect("items").iter().enumerate() {
        frames.push(json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": at, "item": item}));
        frames.push(json!({"type": "response.output_item.done", "sequence_number": 1, "output_index": at, "item": item}));
    }
    frames.push(json!({"type": "response.completed", "sequence_number": 9, "response": response_answer(hosted_items())}));
    let text: String = frames
        .iter()
        .map(|data| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()))
        .collect();
    world.upstream.enqueue(Answer::sse().chunk(text).end());
    let body = with(with(response(SEARCHING), tools), json!({"stream": true}));
    let seen = events(&world.client, "/v1/responses", &body).await;
    let (_, last) = seen.last().expect("an event");
    assert_eq!(last["response"]["usage"]["cost_usd"], json!(0.0436));
}

#[tokio::test]
async fn a_budget_reserves_the_calls_that_a_request_may_make() {
    let (world, claude) = priced().await;
    let poor = world.gateway.client().with_key("sk-poor");
    claude.always(Answer::json(200, &claude_answer(json!({"web_search_requests": 1}))));
    let unbounded = json!({"tools": [{"type": "web_search_20250305", "name": "web_search"}]});
    let refused = ask_messages(&poor, &with(message(CLAUDE), unbounded)).await;
    assert_eq!(refused.status, 429, "ten searches are 0.10 USD: {}", refused.text());
    assert_eq!(refused.json()["error"]["type"], "billing_error");
    assert_eq!(claude.hits(), 0);
    ask_messages(&poor, &with(message(CLAUDE), searches())).await.ok();
    world.upstream.always(Answer::json(200, &response_answer(json!([]))));
    let many = json!({"tools": [{"type": "web_search"}]});
    let refused = ask_responses(&poor, &with(response(SEARCHING), many.clone())).await;
    assert_eq!((refused.status, &*refused.code()), (429, "insufficient_quota"), "{}", refused.text());
    ask_responses(&poor, &with(response(SEARCHING), with(many, json!({"max_tool_calls": 1})))).await.ok();
}

#[tokio::test]
async fn a_chats_search_is_charged_where_the_model_has_its_price() {
    let (world, _) = priced().await;
    let search = json!({"web_search_options": {"search_context_size": "low"}, "max_tokens": 50});
    let answer =
        world.client.post_json("/v1/chat/completions", &chat_with(SEARCHING, search.clone())).await.ok();
    assert_eq!(world.upstream.last().json()["web_search_options"], search["web_search_options"]);
    let plain = world
        .client
        .post_json("/v1/chat/completions", &chat_with(SEARCHING, json!({"max_tokens": 50})))
        .await
        .ok();
    let cost = |answer: &gw_testkit::Response| answer.json()["usage"]["cost_usd"].as_f64().expect("a cost");
    assert!((cost(&answer) - cost(&plain) - 0.01).abs() < 1e-9, "{} {}", cost(&answer), cost(&plain));
    let row = row_cost(&world, answer.header("x-request-id").expect("an id")).await;
    assert_eq!(row, answer.json()["usage"]["cost_usd"]);
    let refused = world.client.post_json("/v1/chat/completions", &chat_with("acme/fast", search)).await;
    assert_error("no price", &refused, 400, "invalid_request_error", "unsupported_value");
}

#[tokio::test]
async fn the_demo_takes_everything() {
    let (world, _) = priced().await;
    let everything = json!({"web_search_options": {}, "service_tier": "priority", "store": true, "plugins": [{"id": "web"}],
        "provider": {"order": ["x"]}, "tags": ["a"], "speed": "fast", "search_parameters": {"mode": "on"}, "next_month": 1});
    let answer = world.chat_ok(&chat_with("demo/chat", everything)).await;
    assert_eq!(answer["gateway"]["warnings"], json!([]));
}
