//! Answers of upstreams that speak the client's own dialect and leave out what the client needs.

use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use super::{ask_messages, ask_responses, event, events, message, names, response};
use crate::harness::ledger::rows;
use crate::harness::{ADMIN, Setup, World, logged, with};

const CLAUDE: &str = "claude/claude-opus-5-5";

/// A gateway with a Responses API at `acme`, and with a provider of Anthropic's dialect whose tokens cost 1 and 2 USD per
/// million.
async fn native() -> (World, FakeUpstream) {
    let claude = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"{CLAUDE}\"\ncontext_length = 100000\nmax_output_tokens = 100\n\
         pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0 }}\n",
        claude.addr
    );
    let (acme, routing) = ("responses = true".to_owned(), "retries = 0");
    (Setup { acme, extra, routing, ..Setup::default() }.start().await, claude)
}

/// An upstream's stream of these events.
fn stream(events: &[Value]) -> Answer {
    let text: String = events
        .iter()
        .map(|data| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default()))
        .collect();
    Answer::sse().chunk(text).end()
}

/// A response object with the members `more`.
fn object(status: &str, more: Value) -> Value {
    let object = json!({"id": "resp_up", "object": "response", "created_at": 1, "status": status, "model": "m",
        "error": null, "incomplete_details": null});
    with(object, more)
}

fn item() -> Value {
    json!({"type": "message", "id": "msg_up", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Bergen", "annotations": [], "logprobs": []}]})
}

/// The events of a response whose last object has the members `last`.
fn response_events(last: Value) -> Vec<Value> {
    let place = json!({"item_id": "msg_up", "output_index": 0, "content_index": 0});
    let delta = json!({"type": "response.output_text.delta", "sequence_number": 2, "delta": "Bergen", "logprobs": []});
    vec![
        json!({"type": "response.created", "sequence_number": 0,
            "response": object("in_progress", json!({"output": [], "usage": null}))}),
        json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0,
            "item": with(item(), json!({"content": [], "status": "in_progress"}))}),
        with(delta, place),
        json!({"type": "response.output_item.done", "sequence_number": 3, "output_index": 0, "item": item()}),
        json!({"type": "response.completed", "sequence_number": 4, "response": object("completed", last)}),
    ]
}

#[tokio::test]
async fn a_response_whose_last_event_lacks_its_items_is_told_and_stored_with_them() {
    let (world, _) = native().await;
    let usage = json!({"input_tokens": 8, "output_tokens": 2, "total_tokens": 10});
    for last in [json!({"output": [], "usage": usage}), json!({"usage": usage})] {
        world.upstream.enqueue(stream(&response_events(last.clone())));
        let body = with(response("acme/fast"), json!({"stream": true}));
        let seen = events(&world.client, "/v1/responses", &body).await;
        let (name, ended) = seen.last().expect("an event");
        assert_eq!((name.as_str(), &ended["response"]["output"]), ("response.completed", &json!([item()])));
        let id = ended["response"]["id"].as_str().expect("an id");
        let stored = world.client.get(&format!("/v1/responses/{id}")).await.ok().json();
        assert_eq!(stored["output"], json!([item()]), "{last}");
        let whole = object("completed", json!({"output": [item()], "usage": usage}));
        world.upstream.enqueue(Answer::json(200, &whole));
        let more = with(response("acme/fast"), json!({"previous_response_id": id}));
        ask_responses(&world.client, &more).await.ok();
        let sent = world.upstream.last().json();
        let turns = sent["input"].as_array().expect("items");
        let roles: Vec<&Value> = turns.iter().map(|turn| &turn["role"]).collect();
        assert_eq!(roles, ["user", "assistant", "user"], "{sent}");
        assert_eq!(turns[1]["content"][0]["text"], "Bergen", "{sent}");
    }
}

#[tokio::test]
async fn a_torn_response_has_its_open_call_or_reasoning_as_far_as_it_came() {
    let (world, _) = native().await;
    let call = json!({"type": "function_call", "id": "up", "call_id": "c", "name": "look", "arguments": "", "status": "in_progress"});
    let custom =
        json!({"type": "custom_tool_call", "id": "up", "call_id": "c", "name": "patch", "input": ""});
    let thought = json!({"type": "reasoning", "id": "up", "summary": []});
    let part = json!({"type": "summary_text", "text": ""});
    let incomplete = |more: Value| with(json!({"status": "incomplete"}), more);
    for (added, kind, begin, whole) in [
        (call, "function_call_arguments", None, incomplete(json!({"arguments": "{\"at\":\"thé"}))),
        (custom, "custom_tool_call_input", None, incomplete(json!({"input": "{\"at\":\"thé"}))),
        (
            thought,
            "reasoning_summary_text",
            Some(json!({"type": "response.reasoning_summary_part.added", "summary_index": 0, "part": part})),
            incomplete(json!({"summary": [{"type": "summary_text", "text": "{\"at\":\"thé"}]})),
        ),
    ] {
        let place = json!({"item_id": "up", "output_index": 1, "summary_index": 0});
        let delta = |text: &str| json!({"type": format!("response.{kind}.delta"), "delta": text});
        // The message before it has ended.
        let mut torn = response_events(json!({}));
        torn.pop();
        torn.push(json!({"type": "response.output_item.added", "output_index": 1, "item": added}));
        torn.extend(
            begin.into_iter().chain(["{\"at\":", "\"thé"].map(delta)).map(|event| with(event, place.clone())),
        );
        world.upstream.enqueue(stream(&torn));
        let body = with(response("acme/fast"), json!({"stream": true}));
        let seen = events(&world.client, "/v1/responses", &body).await;
        let (name, last) = seen.last().expect("an event");
        let output = json!([item(), with(added, whole)]);
        assert_eq!((name.as_str(), &last["response"]["output"]), ("response.failed", &output), "{kind}");
        // The conversation goes on without a call that nobody answers.
        world.upstream.enqueue(Answer::json(200, &object("completed", json!({"output": [item()]}))));
        let more = with(response("acme/fast"), json!({"previous_response_id": last["response"]["id"]}));
        ask_responses(&world.client, &more).await.ok();
        assert_eq!(sent_kinds(&world), ["message", "message", "message"], "{kind}");
    }
}

/// The types of the items that the upstream got last.
fn sent_kinds(world: &World) -> Vec<String> {
    let sent = world.upstream.last().json();
    let items = sent["input"].as_array().expect("items").iter();
    items.map(|item| item["type"].as_str().unwrap_or("message").to_owned()).collect()
}

#[tokio::test]
async fn a_call_that_broke_off_stays_in_the_conversation_if_the_client_answers_it() {
    for store in ["memory", "database"] {
        let (acme, extra) = ("responses = true".to_owned(), format!("[responses]\nstore = \"{store}\"\n"));
        let world = Setup { acme, extra, routing: "retries = 0", ..Setup::default() }.start().await;
        let call = json!({"type": "function_call", "id": "up", "call_id": "c", "name": "look", "arguments": "", "status": "in_progress"});
        let mut torn = response_events(json!({}));
        torn.pop();
        torn.push(json!({"type": "response.output_item.added", "output_index": 1, "item": call}));
        torn.push(json!({"type": "response.function_call_arguments.delta", "item_id": "up", "output_index": 1, "delta": "{\"at\":"}));
        world.upstream.enqueue(stream(&torn));
        let body = with(response("acme/fast"), json!({"stream": true}));
        let seen = events(&world.client, "/v1/responses", &body).await;
        let (name, last) = seen.last().expect("an event");
        assert_eq!(name, "response.failed", "{store}");
        let ask = async |previous: &Value, input: Value, id: &str| {
            let answer = object("completed", json!({"id": id, "output": [item()]}));
            world.upstream.enqueue(Answer::json(200, &answer));
            let more = json!({"model": "acme/fast", "previous_response_id": previous, "input": input});
            ask_responses(&world.client, &more).await.ok().json()["id"].clone()
        };
        let output =
            json!([{"type": "function_call_output", "call_id": "c", "output": "The arguments broke off."}]);
        let second = ask(&last["response"]["id"], output, "resp_second").await;
        let answered = ["message", "message", "function_call", "function_call_output"];
        assert_eq!(sent_kinds(&world), answered, "{store}");
        let sent = world.upstream.last().json();
        assert_eq!(sent["input"][2]["arguments"], "{\"at\":", "{store}");
        // So it does in all later turns.
        ask(&second, json!("Go on"), "resp_third").await;
        assert_eq!(sent_kinds(&world), [&answered[..], &["message"; 2]].concat(), "{store}");
    }
}

#[tokio::test]
async fn a_plain_response_without_a_list_of_items_is_no_answer() {
    let (world, _) = native().await;
    for status in ["completed", "incomplete"] {
        let body = json!({"id": "x", "object": "response", "created_at": 1, "status": status, "model": "m", "usage": {}});
        world.upstream.enqueue(Answer::json(200, &body));
        let answer = ask_responses(&world.client, &response("acme/fast")).await;
        let told = (answer.status, answer.code());
        assert_eq!(told, (502, "upstream_invalid_response".to_owned()), "{status}: {}", answer.text());
    }
}

/// Checks that the client was told the tokens and the cost of its row, which are estimated.
async fn assert_estimated(world: &World, id: &str, usage: &Value) {
    let row = logged(&world.gateway.client().with_key(ADMIN), id).await;
    let told = ["input_tokens", "output_tokens", "cost_usd"].map(|name| &usage[name]);
    let charged = ["prompt_tokens", "completion_tokens", "cost_usd"].map(|name| &row[name]);
    assert_eq!((told, &row["estimated"]), (charged, &json!(true)), "{usage} {row}");
    assert!(told.iter().all(|count| count.as_f64() > Some(0.0)), "{usage}");
}

#[tokio::test]
async fn a_response_without_usage_tells_the_estimate_that_is_charged() {
    let (world, _) = native().await;
    for usage in [json!({"usage": null}), json!({}), json!({"usage": {}})] {
        let last = with(usage, json!({"output": [item()]}));
        world.upstream.enqueue(Answer::json(200, &object("completed", last.clone())));
        let answer = ask_responses(&world.client, &response("acme/fast")).await.ok();
        let id = answer.header("x-request-id").expect("an id");
        assert_estimated(&world, id, &answer.json()["usage"]).await;
        world.upstream.enqueue(stream(&response_events(last)));
        let body = with(response("acme/fast"), json!({"stream": true}));
        let mut told = world.client.stream("/v1/responses", &body).await;
        let id = told.head.header("x-request-id").expect("an id").to_owned();
        let seen: Vec<_> = told.rest().await.iter().filter_map(|frame| event(frame)).collect();
        assert_estimated(&world, &id, &seen.last().expect("an event").1["response"]["usage"]).await;
    }
}

/// The events of a message with these blocks' events in it, and with the members `usage` of its first and its last event.
fn message_events(blocks: &[Value], reason: &str, usage: [Value; 2]) -> Vec<Value> {
    let [first, last] = usage;
    let begun = json!({"id": "msg_up", "type": "message", "role": "assistant", "model": "m", "content": [],
        "stop_reason": null, "stop_sequence": null});
    let mut events = vec![json!({"type": "message_start", "message": with(begun, first)})];
    events.extend_from_slice(blocks);
    let end = json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null}});
    events.extend([with(end, last), json!({"type": "message_stop"})]);
    events
}

#[tokio::test]
async fn a_message_without_usage_tells_the_estimate_that_is_charged() {
    let (world, claude) = native().await;
    let words = [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Bergen"}}),
        json!({"type": "content_block_stop", "index": 0}),
    ];
    for usage in [json!({}), json!({"usage": null})] {
        let whole = json!({"id": "msg_up", "type": "message", "role": "assistant", "model": "m",
            "content": [{"type": "text", "text": "Bergen"}], "stop_reason": "end_turn", "stop_sequence": null});
        claude.enqueue(Answer::json(200, &with(whole, usage.clone())));
        let answer = ask_messages(&world.client, &message(CLAUDE)).await.ok();
        let id = answer.header("x-request-id").expect("an id");
        assert_estimated(&world, id, &answer.json()["usage"]).await;
        claude.enqueue(stream(&message_events(&words, "end_turn", [usage.clone(), usage])));
        let body = with(message(CLAUDE), json!({"stream": true}));
        let mut told = world.client.stream("/v1/messages", &body).await;
        let id = told.head.header("x-request-id").expect("an id").to_owned();
        let seen: Vec<_> = told.rest().await.iter().filter_map(|frame| event(frame)).collect();
        let [(_, start), .., (_, end), (last, _)] = seen.as_slice() else { panic!("{seen:?}") };
        assert_eq!(last, "message_stop", "{seen:?}");
        let first = &start["message"]["usage"];
        assert!(first["input_tokens"].as_u64() > Some(0), "{first}");
        assert_eq!(first["output_tokens"], 1, "{first}");
        assert_estimated(&world, &id, &end["usage"]).await;
    }
}

/// The events of a message that calls a tool with these pieces of arguments, as a client gets them.
async fn told_call(
    (world, claude): (&World, &FakeUpstream),
    pieces: &[&str],
    reason: &str,
) -> Vec<(String, Value)> {
    let tool = json!({"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}});
    let mut blocks = vec![json!({"type": "content_block_start", "index": 0, "content_block": tool})];
    blocks.extend(pieces.iter().map(|piece| {
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "input_json_delta", "partial_json": piece}})
    }));
    blocks.push(json!({"type": "content_block_stop", "index": 0}));
    let usage =
        [json!({"usage": {"input_tokens": 7, "output_tokens": 1}}), json!({"usage": {"output_tokens": 3}})];
    claude.enqueue(stream(&message_events(&blocks, reason, usage)));
    let tools = json!([{"name": "read", "input_schema": {"type": "object"}}]);
    let body = with(message(CLAUDE), json!({"stream": true, "tools": tools}));
    let frames = world.client.stream("/v1/messages", &body).await.rest().await;
    frames.iter().filter_map(|frame| event(frame)).collect()
}

#[tokio::test]
async fn a_native_stream_with_a_call_that_is_no_json_ends_with_an_error_and_is_charged() {
    let (world, claude) = native().await;
    let mut asked = 0;
    for pieces in [&[r#"{"path": "/et"#][..], &["{", r#""path": "#], &["{path: 1}"], &[r#"{"path": 1,}"#]] {
        let seen = told_call((&world, &claude), pieces, "tool_use").await;
        let deltas = pieces.iter().map(|_| "content_block_delta");
        let expected: Vec<&str> = ["message_start", "content_block_start"]
            .into_iter()
            .chain(deltas)
            .chain(["content_block_stop", "error"])
            .collect();
        assert_eq!(names(&seen), expected, "{seen:?}");
        let error = &seen.last().expect("an event").1["error"];
        let message = "The upstream's answer has a tool call whose arguments are not valid JSON.";
        assert_eq!(error, &json!({"type": "api_error", "message": message}), "{seen:?}");
        asked += 1;
        for row in rows(&world.gateway, asked).await {
            assert_eq!((&*row.status, row.cost), ("upstream_stream_error", 13_000_000_000), "{row:?}");
        }
    }
}

#[tokio::test]
async fn a_native_stream_that_says_why_it_is_not_whole_ends_as_it_did() {
    let (world, claude) = native().await;
    for (pieces, reason) in [
        (&[r#"{"path": "/et"#][..], "max_tokens"),
        (&[r#"{"path": "/et"#], "model_context_window_exceeded"),
        (&[r#"{"path": "/et"#], "refusal"),
        (&[r#"{"path": "#, r#""/etc"}"#], "tool_use"),
        (&[""], "tool_use"),
        (&[], "tool_use"),
    ] {
        let seen = told_call((&world, &claude), pieces, reason).await;
        let [.., (_, end), (last, _)] = seen.as_slice() else { panic!("{seen:?}") };
        assert_eq!(
            (last.as_str(), &end["delta"]["stop_reason"]),
            ("message_stop", &json!(reason)),
            "{seen:?}"
        );
    }
}
