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

#[tokio::test]
async fn a_count_of_searches_that_no_answer_can_have_is_limited() {
    let (world, claude) = priced().await;
    for reported in [1_000, 1_001, 1_000_000_000_u64] {
        claude.enqueue(Answer::json(200, &claude_answer(json!({"web_search_requests": reported}))));
        let answer = ask_messages(&world.client, &with(message(CLAUDE), searches())).await.ok();
        let told = answer.json();
        // 0.002 for the tokens, and 1,000 searches.
        assert_eq!(told["usage"]["cost_usd"], json!(10.002), "{reported}");
        let is_believed = reported == 1_000;
        let warnings = told["gateway"]["warnings"].to_string();
        assert_eq!(warnings.contains("usage_not_believed"), !is_believed, "{reported}: {told}");
        let id = answer.header("x-request-id").expect("an id");
        let row = logged(&world.gateway.client().with_key(ADMIN), id).await;
        assert_eq!((&row["cost_usd"], &row["estimated"]), (&json!(10.002), &json!(!is_believed)), "{row}");
    }
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
        (0.039..0.0395).contains(&cost),
        "three prompts of 1,000 tokens, two results of 8,000, an estimate of the answer and two searches: {cost}"
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
        "provider": {"order": ["x"]}, "tags": "a", "speed": "fast", "search_parameters": {"mode": "on"}, "next_month": 1});
    let answer = world.chat_ok(&chat_with("demo/chat", everything)).await;
    assert_eq!(answer["gateway"]["warnings"], json!([]));
}

/// Providers of the shipped catalogue at one scripted upstream.
async fn shipped() -> (World, FakeUpstream) {
    let upstream = FakeUpstream::start().await;
    let of = |(name, api, more): (&str, &str, &str)| {
        let addr = upstream.addr;
        format!(
            "[[providers]]\nname = \"{name}\"\napi = \"{api}\"\nbase_url = \"http://{addr}\"\napi_key = \"sk-upstream-key-000\"\n{more}\n"
        )
    };
    let extra =
        [("perplexity", "openai", ""), ("xai", "openai", "responses = true"), ("google", "gemini", "")]
            .map(of)
            .concat();
    (Setup { extra, ..Setup::default() }.start().await, upstream)
}

/// A chat completion with the usage of 1,000 tokens and 500 tokens, and these members of the usage.
fn completion(usage: Value) -> Value {
    json!({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [{"index": 0, "finish_reason": "stop",
        "message": {"role": "assistant", "content": "Hi"}}],
        "usage": with(json!({"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500}), usage)})
}

#[tokio::test]
async fn perplexitys_requests_cost_the_fee_of_their_search_context() {
    let (world, perplexity) = shipped().await;
    // 1 USD per million of both kinds of tokens, and 0.005, 0.008 or 0.012 USD for the request.
    for (usage, sent, cost) in [
        (json!({"search_context_size": "low", "num_search_queries": null}), json!({}), json!(0.0065)),
        (json!({"search_context_size": "medium"}), json!({}), json!(0.0095)),
        (json!({"search_context_size": "high", "num_search_queries": 3}), json!({}), json!(0.0135)),
        // Without the upstream's word the size is the requested one, or the smallest.
        (json!({}), json!({}), json!(0.0065)),
        (json!({}), json!({"web_search_options": {"search_context_size": "high"}}), json!(0.0135)),
    ] {
        perplexity.enqueue(Answer::json(200, &completion(usage.clone())));
        let answer =
            world.client.post_json("/v1/chat/completions", &chat_with("perplexity/sonar", sent)).await.ok();
        assert_eq!(answer.json()["usage"]["cost_usd"], cost, "{usage}");
        assert_eq!(row_cost(&world, answer.header("x-request-id").expect("an id")).await, cost);
    }
}

#[tokio::test]
async fn xais_tools_are_charged_by_its_own_count() {
    let (world, xai) = shipped().await;
    let mut answer = response_answer(hosted_items());
    answer["usage"]["server_side_tool_usage_details"] = json!({"web_search_calls": 2, "x_search_calls": 1,
        "code_interpreter_calls": 4, "file_search_calls": 0, "mcp_calls": 0, "document_search_calls": 0});
    xai.enqueue(Answer::json(200, &answer));
    let tools =
        json!({"tools": [{"type": "web_search"}, {"type": "x_search"}, {"type": "code_interpreter"}]});
    xai.enqueue(Answer::json(200, &response_answer(json!([hosted_items()[5]]))));
    let charged = ask_responses(&world.client, &with(response("xai/grok-4.3"), tools.clone())).await.ok();
    let bare = ask_responses(&world.client, &with(response("xai/grok-4.3"), tools)).await.ok();
    let cost = |answer: &gw_testkit::Response| answer.json()["usage"]["cost_usd"].as_f64().expect("a cost");
    // 3 searches and 4 runs of code at 0.005 USD. The items of the answer show another number.
    assert!((cost(&charged) - cost(&bare) - 0.035).abs() < 1e-9, "{} {}", cost(&charged), cost(&bare));
}

#[tokio::test]
async fn geminis_grounding_is_charged_by_the_query_or_the_answer() {
    let (world, gemini) = shipped().await;
    let grounded = |grounding: Value| {
        json!({"candidates": [{"index": 0, "finishReason": "STOP", "content": {"role": "model", "parts": [{"text": "Hi"}]},
            "groundingMetadata": grounding}], "modelVersion": "m",
            "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": 500, "totalTokenCount": 1500}})
    };
    let searched = grounded(json!({"webSearchQueries": ["a", "b", "c", ""]}));
    let search = json!({"web_search_options": {}});
    for (model, extra) in [("google/gemini-3.5-flash", 0.042), ("google/gemini-2.5-flash", 0.035)] {
        let mut costs = Vec::new();
        for (answer, stream) in
            [(grounded(json!({})), false), (searched.clone(), false), (searched.clone(), true)]
        {
            let body =
                with(chat_with(model, search.clone()), json!({"stream": stream, "stream_options": null}));
            if stream {
                gemini.enqueue(Answer::sse().chunk(format!("data: {answer}\n\n")).end());
            } else {
                gemini.enqueue(Answer::json(200, &answer));
            }
            let answer = world.client.post_json("/v1/chat/completions", &body).await.ok();
            assert_eq!(gemini.last().json()["tools"], json!([{"googleSearch": {}}]), "{model}");
            let row = row_cost(&world, answer.header("x-request-id").expect("an id")).await;
            costs.push(row.as_f64().expect("a cost"));
        }
        assert!((costs[1] - costs[0] - extra).abs() < 1e-9, "{model} {costs:?}");
        assert!((costs[2] - costs[0] - extra).abs() < 1e-9, "{model} {costs:?}");
    }
}
