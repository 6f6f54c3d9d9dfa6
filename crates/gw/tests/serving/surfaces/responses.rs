//! `POST /v1/responses` over an upstream of OpenAI's dialect that has no Responses API.

use gw_testkit::Answer;
use gw_testkit::upstream::sse_data;
use serde_json::{Value, json};

use super::{ask_responses, events, names, response};
use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, METERED, Setup, World, with, world};

/// The members that strict clients need in every snapshot (Open Responses, 2026-04-24).
const MEMBERS: [&str; 31] = [
    "id",
    "object",
    "created_at",
    "completed_at",
    "status",
    "incomplete_details",
    "model",
    "previous_response_id",
    "instructions",
    "output",
    "error",
    "tools",
    "tool_choice",
    "truncation",
    "parallel_tool_calls",
    "text",
    "top_p",
    "presence_penalty",
    "frequency_penalty",
    "top_logprobs",
    "temperature",
    "reasoning",
    "usage",
    "max_output_tokens",
    "max_tool_calls",
    "store",
    "background",
    "service_tier",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
];

fn assert_complete(object: &Value) {
    let missing: Vec<_> = MEMBERS.iter().filter(|name| object.get(**name).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?} are missing in {object}");
}

#[tokio::test]
async fn an_answer_is_a_whole_response_object() {
    let world = world().await;
    let answer = ask_responses(&world.client, &response("acme/fast")).await.ok();
    let body = answer.json();
    assert_complete(&body);
    assert!(body["id"].as_str().is_some_and(|id| id.starts_with("resp_")), "{body}");
    assert_eq!(body["status"], "completed");
    assert_eq!(body["output"][0]["type"], "message");
    assert_eq!(body["output"][0]["content"][0]["text"], "Hello from upstream");
    assert_eq!(body["usage"]["input_tokens"], 10);
    assert_eq!(body["usage"]["output_tokens_details"]["reasoning_tokens"], 0);
    assert!(body["usage"]["cost_usd"].is_number());
    assert_eq!(body["gateway"]["model_used"], "acme/fast");
    assert!(answer.header("x-gateway-cost-usd").is_some());
}

#[tokio::test]
async fn an_unknown_provider_is_asked_once_for_its_responses_api() {
    let world = world().await;
    for _ in 0..2 {
        ask_responses(&world.client, &response("acme/fast")).await.ok();
    }
    let paths: Vec<_> = world.upstream.requests().iter().map(|request| request.path.clone()).collect();
    assert_eq!(paths, ["/v1/responses", "/v1/chat/completions", "/v1/chat/completions"]);
}

#[tokio::test]
async fn a_stream_numbers_its_events_and_repeats_the_whole_object() {
    let world = world().await;
    let body = with(response("acme/fast"), json!({"stream": true}));
    let events = events(&world.client, "/v1/responses", &body).await;
    assert_eq!(
        names(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed"
        ]
    );
    for (number, (name, data)) in events.iter().enumerate() {
        assert_eq!(data["type"], name.as_str());
        assert_eq!(data["sequence_number"].as_u64(), Some(number as u64));
        if let Some(object) = data.get("response") {
            assert_complete(object);
        }
    }
    let (_, last) = &events[10];
    assert_eq!(last["response"]["usage"]["total_tokens"], 15);
    assert_eq!(last["response"]["gateway"]["provider"], "acme");
}

#[tokio::test]
async fn custom_tools_and_namespaces_come_back_under_their_names() {
    let world = world().await;
    let call = |index: u64, id: &str, name: &str, arguments: &str| json!({"tool_calls": [{"index": index, "id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]});
    world.upstream.respond_with(move |request| {
        if request.path.ends_with("/responses") {
            return Answer::error(404, "unknown_url", "no such path");
        }
        Answer::sse()
            .all(&[
                sse_data(&call(0, "call_a", "mcp__git__log", "{\"n\":1}"), None),
                sse_data(&json!({}), Some("tool_calls")),
            ])
            .done()
    });
    let tools = json!([{"type": "namespace", "name": "mcp__git", "description": "Git",
        "tools": [{"type": "function", "name": "log", "parameters": {"type": "object"}}]}]);
    let body = with(response("acme/fast"), json!({"stream": true, "tools": tools}));
    let events = events(&world.client, "/v1/responses", &body).await;
    let (_, done) = events.iter().find(|(name, _)| name == "response.output_item.done").expect("an item");
    assert_eq!(done["item"]["type"], "function_call");
    assert_eq!((&done["item"]["namespace"], &done["item"]["name"]), (&json!("mcp__git"), &json!("log")));
    assert_eq!(done["item"]["call_id"], "call_a");
    assert_eq!(done["item"]["arguments"], "{\"n\":1}");
}

#[tokio::test]
async fn a_hosted_tool_is_left_out_with_a_warning_and_required_alone_it_is_refused() {
    let world = world().await;
    let body = with(response("acme/fast"), json!({"tools": [{"type": "web_search"}]}));
    let answer = ask_responses(&world.client, &body).await.ok().json();
    assert_eq!(answer["gateway"]["warnings"], json!(["tool_dropped:web_search"]));
    let body = with(body, json!({"tool_choice": "required"}));
    let refused = ask_responses(&world.client, &body).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "unsupported_parameter"),
        "{}",
        refused.text()
    );
}

#[tokio::test]
async fn a_stream_that_breaks_ends_with_an_error_and_a_failed_response() {
    let world: World = world().await;
    world.upstream.respond_with(|request| {
        if request.path.ends_with("/responses") {
            return Answer::error(404, "unknown_url", "no such path");
        }
        Answer::sse().all(&[sse_data(&json!({"content": "Hel"}), None)]).reset()
    });
    let body = with(response("acme/fast"), json!({"stream": true}));
    let events = events(&world.client, "/v1/responses", &body).await;
    let [.., (first, error), (second, failed)] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!((first.as_str(), second.as_str()), ("error", "response.failed"));
    assert_eq!(
        (&error["code"], &error["error"]["code"], &error["error"]["type"]),
        (&json!("server_error"), &json!("server_error"), &json!("upstream_error")),
        "{error}"
    );
    assert_eq!(failed["response"]["status"], "failed");
    assert_eq!(failed["response"]["output"][0]["content"][0]["text"], "Hel");
}

#[tokio::test]
async fn a_compaction_is_one_sealed_item_that_the_next_request_gives_back() {
    let world = world().await;
    let answer = world.client.post_json("/v1/responses/compact", &response("acme/fast")).await.ok().json();
    assert_eq!(answer["object"], "response.compaction");
    let item = answer["output"][0].clone();
    let sealed = item["encrypted_content"].as_str().expect("a string");
    assert!(sealed.starts_with("gw1.") && !sealed.contains("Hello"), "{sealed}");
    let question = json!({"role": "user", "content": "Go on"});
    let body = json!({"model": "acme/fast", "input": [item, question]});
    ask_responses(&world.client, &body).await.ok();
    assert!(world.upstream.last().json()["messages"].to_string().contains("Hello from upstream"));
    let other = world.gateway.client().with_key(METERED);
    let stolen = ask_responses(&other, &body).await;
    assert_eq!(stolen.status, 400, "the summary of another key: {}", stolen.text());
    let foreign = json!({"type": "compaction", "encrypted_content": "gw1.AAAA"});
    let refused = ask_responses(&world.client, &json!({"model": "acme/fast", "input": [foreign]})).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
}

#[tokio::test]
async fn a_summary_reaches_an_upstream_with_the_responses_api_and_is_counted() {
    let setup = Setup { acme: "responses = true".to_owned(), ..Setup::default() };
    let world = setup.start().await;
    let summary = "Ann likes blue. ".repeat(100);
    world.upstream.enqueue(Answer::json(200, &gw_testkit::upstream::chat_body("m", &summary)));
    let made = world.client.post_json("/v1/responses/compact", &response("acme/fast")).await.ok().json();
    let item = made["output"][0].clone();
    let done = json!({ "id": "resp_1", "object": "response", "status": "completed", "model": "m",
        "output": [{ "type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
            "content": [{ "type": "output_text", "text": "Blue.", "annotations": [] }] }],
        "usage": { "input_tokens": 9, "output_tokens": 2, "total_tokens": 11 } });
    world.upstream.always(Answer::json(200, &done));
    let question = json!({ "role": "user", "content": "What does Ann like?" });
    for more in [json!({}), json!({ "store": false })] {
        let body = with(json!({ "model": "acme/fast", "input": [item, question] }), more);
        let answer = ask_responses(&world.client, &body).await.ok().json();
        let sent = world.upstream.last();
        assert!(sent.path.ends_with("/responses"), "{}", sent.path);
        let input = sent.json()["input"].clone();
        assert_eq!(input[0]["role"], "user", "{input}");
        assert!(input[0]["content"].as_str().is_some_and(|text| text.contains(summary.trim())), "{input}");
        assert_eq!(input.as_array().map(Vec::len), Some(2), "{input}");
        assert_eq!(answer["gateway"]["warnings"], json!([]), "{answer}");
        let Some(id) = answer["id"].as_str().filter(|_| body["store"].is_null()) else { continue };
        // A continued response holds the summary, too.
        let next = json!({ "model": "acme/fast", "input": "Why?", "previous_response_id": id });
        ask_responses(&world.client, &next).await.ok();
        let input = world.upstream.last().json()["input"].to_string();
        assert!(input.contains("Ann likes blue") && !input.contains("encrypted_content"), "{input}");
    }
    let count = async |input: Value| {
        let body = json!({ "model": "beta/fast", "input": input });
        world.client.post_json("/v1/responses/input_tokens", &body).await.ok().json()["input_tokens"].as_u64()
    };
    let with_summary = count(json!([item, question])).await.expect("a count");
    let without = count(json!([question])).await.expect("a count");
    assert!(with_summary >= without + 500, "{with_summary} and {without}");
}

#[tokio::test]
async fn a_compaction_opens_for_the_team_that_got_it_and_for_nobody_else() {
    let world = world().await;
    let admin = world.client.with_key(ADMIN);
    for team in ["red", "blue"] {
        assert_eq!(ask(&admin, "PUT", &format!("/admin/v1/teams/{team}"), &json!({})).await.status, 201);
    }
    let mut clients = Vec::new();
    for (name, team) in [("r1", Some("red")), ("r2", Some("red")), ("b1", Some("blue")), ("alone", None)] {
        let (key, _) = create(&admin, json!({ "name": name, "team": team })).await;
        clients.push((name, world.gateway.client().with_key(&key)));
    }
    let opens: [(&str, &[&str]); 3] = [("r1", &["r1", "r2"]), ("b1", &["b1"]), ("alone", &["alone"])];
    for (owner, expected) in opens {
        let (_, client) = clients.iter().find(|(name, _)| *name == owner).expect("a client");
        let answer = client.post_json("/v1/responses/compact", &response("acme/fast")).await.ok().json();
        let question = json!({"role": "user", "content": "Go on"});
        let body = json!({"model": "acme/fast", "input": [answer["output"][0], question]});
        for (name, client) in &clients {
            let status = if expected.contains(name) { 200 } else { 400 };
            let answer = ask_responses(client, &body).await;
            assert_eq!(answer.status, status, "{name} and the summary of {owner}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn a_custom_tool_is_a_function_for_the_upstream_and_a_custom_call_for_the_client() {
    let world = world().await;
    world.upstream.respond_with(|request| {
        if request.path.ends_with("/responses") {
            return Answer::error(404, "unknown_url", "no such path");
        }
        let call = json!({"tool_calls": [{"index": 0, "id": "call_a", "type": "function",
            "function": {"name": "patch", "arguments": "{\"input\":\"*** Begin\\n\"}"}}]});
        Answer::sse().all(&[sse_data(&call, None), sse_data(&json!({}), Some("tool_calls"))]).done()
    });
    let tools = json!([{"type": "custom", "name": "patch", "description": "Patches", "format": {"type": "grammar",
        "syntax": "lark", "definition": "start: x"}}]);
    let past = json!([{"role": "user", "content": "Go"},
        {"type": "custom_tool_call", "call_id": "c0", "name": "patch", "input": "a \"b\""},
        {"type": "custom_tool_call_output", "call_id": "c0", "output": "done"}]);
    let body = json!({"model": "acme/fast", "stream": true, "tools": tools, "input": past});
    let events = events(&world.client, "/v1/responses", &body).await;
    let (_, done) = events.iter().find(|(name, _)| name == "response.output_item.done").expect("an item");
    assert_eq!(
        (&done["item"]["type"], &done["item"]["input"]),
        (&json!("custom_tool_call"), &json!("*** Begin\n"))
    );
    let sent = world.upstream.last().json();
    assert_eq!(sent["tools"][0]["type"], "function");
    assert_eq!(sent["tools"][0]["function"]["parameters"]["required"], json!(["input"]));
    assert_eq!(sent["messages"][1]["tool_calls"][0]["function"]["arguments"], "{\"input\":\"a \\\"b\\\"\"}");
}
