//! Requests that an upstream gets as the client wrote them pass the policy of members first (C27, C28, C37).

use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use super::{ask_messages, ask_responses, message, response};
use crate::harness::{LIMITED, Setup, World, with};

const CLAUDE: &str = "claude/claude-opus-5-5";
const PRICING: &str = "pricing = { official_input_per_m = 1.0, official_output_per_m = 2.0 }";

/// A gateway with a provider of Anthropic's dialect, with these lines in its entry. `acme` has a Responses API.
async fn native(lines: &str) -> (World, FakeUpstream) {
    let upstream = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         {lines}\n[[models]]\nid = \"{CLAUDE}\"\n{PRICING}\n",
        upstream.addr
    );
    let acme = format!("responses = true\n{}", lines.replace("deny_betas", "# deny_betas"));
    let world = Setup { extra, acme, ..Setup::default() }.start().await;
    world.upstream.always(Answer::json(200, &response_answer()));
    upstream.always(Answer::json(200, &claude_answer()));
    (world, upstream)
}

fn claude_answer() -> Value {
    json!({"id": "msg_up", "type": "message", "role": "assistant", "model": "claude-opus-5-5",
        "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 7, "output_tokens": 3}})
}

fn response_answer() -> Value {
    json!({"id": "resp_up", "object": "response", "created_at": 1, "status": "completed", "model": "fast-2026-01", "error": null,
        "incomplete_details": null, "output": [{"type": "message", "id": "msg_up", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}]}],
        "usage": {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}})
}

#[expect(clippy::needless_pass_by_value, reason = "each caller makes the value in place")]
fn user_block(block: Value) -> Value {
    json!({"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}, block]}]})
}

#[expect(clippy::needless_pass_by_value, reason = "each caller makes the value in place")]
fn user_part(part: Value) -> Value {
    json!({"input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}, part]}]})
}

#[expect(clippy::needless_pass_by_value, reason = "each caller makes the value in place")]
fn tool(tool: Value) -> Value {
    json!({"tools": [tool]})
}

#[tokio::test]
async fn c28_members_that_only_change_the_price_or_are_unknown_are_left_out_of_native_forwards() {
    let (world, claude) = native("").await;
    for (more, warning) in [
        (json!({"speed": "fast"}), "parameter_dropped:speed"),
        (json!({"inference_geo": "us"}), "parameter_dropped:inference_geo"),
        (json!({"service_tier": "priority"}), "parameter_dropped:service_tier"),
        (
            json!({"billing_policy": {"type": "billing_policy", "bill_to": "x"}}),
            "parameter_dropped:billing_policy",
        ),
        (json!({"provider": {"order": ["dear"]}}), "parameter_dropped:provider"),
        (json!({"plugins": [{"id": "web"}]}), "parameter_dropped:plugins"),
        (json!({"tags": ["a"]}), "parameter_dropped:tags"),
        (json!({"metadata": {"tags": ["a"]}}), "parameter_dropped:metadata"),
        (json!({"next_month": {"model": "dear"}}), "member_dropped:next_month"),
        (json!({"Max_Tokens": 100_000}), "member_dropped:Max_Tokens"),
    ] {
        let answer = ask_messages(&world.client, &with(message(CLAUDE), more.clone())).await.ok().json();
        assert_eq!(answer["gateway"]["warnings"], json!([warning]), "{more}");
        assert_eq!(claude.last().json(), with(message("claude-opus-5-5"), json!({})), "{more}");
        if more.get("metadata").is_some()
            || more.get("speed").is_some()
            || more.get("billing_policy").is_some()
        {
            continue;
        }
        let more = if more.get("Max_Tokens").is_some() { json!({"Max_Output_Tokens": 5}) } else { more };
        let warning = warning.replace("Max_Tokens", "Max_Output_Tokens");
        let answer =
            ask_responses(&world.client, &with(response("acme/fast"), more.clone())).await.ok().json();
        let warnings = answer["gateway"]["warnings"].as_array().expect("warnings");
        assert_eq!(warnings, &[json!(warning)].to_vec(), "{more}");
        let name = more.as_object().expect("members").keys().next().expect("a name").clone();
        assert_eq!(world.upstream.last().json().get(&name), None, "{more}");
    }
}

#[tokio::test]
async fn c28_members_tools_and_parts_that_steer_native_forwards_are_refused() {
    let (world, claude) = native("").await;
    for more in [
        json!({"api_base": "https://dear.example"}),
        json!({"workspace_id": "wrkspc_1"}),
        json!({"user_profile_id": "u"}),
        json!({"mcp_servers": [{"type": "url", "url": "https://x.example", "name": "x"}]}),
        json!({"extra_body": {"model": "dear"}}),
        tool(json!({"type": "mcp_toolset", "mcp_server_name": "x"})),
        tool(json!({"type": "advisor_20260301", "name": "advisor", "model": "dear"})),
        tool(json!({"type": "code_execution_20250825", "name": "code_execution"})),
        tool(json!({"type": "web_search_20250305", "name": "web_search"})),
        tool(json!({"type": "next_month_20991231", "name": "x"})),
        user_block(json!({"type": "next_month"})),
        user_block(
            json!({"type": "tool_addition", "tool": {"type": "tool_definition", "definition": {"type": "mcp_toolset"}}}),
        ),
    ] {
        let answer = ask_messages(&world.client, &with(message(CLAUDE), more.clone())).await;
        assert_eq!(answer.status, 400, "{more}: {}", answer.text());
        assert_eq!(answer.json()["error"]["type"], "invalid_request_error", "{more}");
        let is_new = more.to_string().contains("next_month");
        let reason = if is_new { "does not know the type" } else { "allow_members = [" };
        assert!(answer.message().contains(reason), "{more}: {}", answer.message());
    }
    assert_eq!(claude.hits(), 0);
    for more in [
        json!({"api_base": "https://dear.example"}),
        json!({"search_parameters": {"mode": "on"}}),
        tool(json!({"type": "mcp", "server_label": "x", "server_url": "https://x.example"})),
        tool(json!({"type": "image_generation"})),
        tool(json!({"type": "web_search"})),
        tool(json!({"type": "code_interpreter", "container": {"type": "auto"}})),
        tool(json!({"type": "shell", "environment": {"type": "container_auto"}})),
        tool(
            json!({"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "mcp", "server_url": "https://x.example"}]}),
        ),
        tool(json!({"type": "next_month"})),
        json!({"input": [{"role": "user", "content": "x"}, {"type": "additional_tools", "role": "developer", "tools": [{"type": "mcp"}]}]}),
        json!({"input": [{"role": "user", "content": "x"}, {"type": "next_month", "id": "n"}]}),
        user_part(json!({"type": "input_next_month"})),
    ] {
        let answer = ask_responses(&world.client, &with(response("acme/fast"), more.clone())).await;
        assert_eq!((answer.status, &*answer.code()), (400, "unsupported_value"), "{more}: {}", answer.text());
        let is_new = more.to_string().contains("next_month");
        let reason = if is_new { "does not know the type" } else { "allow_members = [" };
        assert!(answer.message().contains(reason), "{more}: {}", answer.message());
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn c28_an_operator_opens_members_and_tools_of_native_forwards() {
    let lines = "allow_members = [\"speed\", \"mcp_servers\", \"mcp_toolset\", \"code_execution_20250825\"]";
    let upstream = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         {lines}\n[[models]]\nid = \"{CLAUDE}\"\n{PRICING}\n",
        upstream.addr
    );
    let acme =
        "responses = true\nallow_members = [\"mcp\", \"service_tier\", \"image_generation\"]".to_owned();
    let world = Setup { extra, acme, ..Setup::default() }.start().await;
    upstream.always(Answer::json(200, &claude_answer()));
    world.upstream.always(Answer::json(200, &response_answer()));
    let more = json!({"speed": "fast", "mcp_servers": [{"type": "url", "url": "https://x.example", "name": "x"}],
        "tools": [{"type": "mcp_toolset", "mcp_server_name": "x"}, {"type": "code_execution_20250825", "name": "code_execution"}]});
    let answer = ask_messages(&world.client, &with(message(CLAUDE), more.clone())).await.ok().json();
    assert_eq!(answer["gateway"]["warnings"], json!(["price_unknown"]));
    assert_eq!(upstream.last().json(), with(message("claude-opus-5-5"), more.clone()));
    for (name, has_price) in [("speed", false), ("mcp_servers", true), ("tools", false)] {
        let answer =
            ask_messages(&world.client, &with(message(CLAUDE), json!({name: more[name]}))).await.ok().json();
        let warnings = if has_price { json!([]) } else { json!(["price_unknown"]) };
        assert_eq!(answer["gateway"]["warnings"], warnings, "{name}");
    }
    let more = json!({"service_tier": "priority",
        "tools": [{"type": "mcp", "server_label": "x", "server_url": "https://x.example"}, {"type": "image_generation"}]});
    let answer = ask_responses(&world.client, &with(response("acme/fast"), more.clone())).await.ok().json();
    assert_eq!(answer["gateway"]["warnings"], json!(["price_unknown"]));
    let sent = world.upstream.last().json();
    assert_eq!((&sent["tools"], &sent["service_tier"]), (&more["tools"], &more["service_tier"]));
    // A remote MCP server costs no more than its tokens.
    let remote = with(response("acme/fast"), json!({"tools": [more["tools"][0]]}));
    let answer = ask_responses(&world.client, &remote).await.ok().json();
    assert_eq!(answer["gateway"]["warnings"], json!([]));
    // What was not opened stays closed.
    let closed = with(response("acme/fast"), tool(json!({"type": "next_month"})));
    assert_eq!(ask_responses(&world.client, &closed).await.status, 400);
}

/// Requests that name resources of the operator's account.
fn stored() -> (Vec<Value>, Vec<Value>) {
    let messages = vec![
        user_block(json!({"type": "document", "source": {"type": "file", "file_id": "file_1"}})),
        user_block(json!({"type": "image", "source": {"type": "file", "file_id": "file_1"}})),
        user_block(json!({"type": "container_upload", "file_id": "file_1"})),
        json!({"container": "container_1"}),
        json!({"container": {"skills": [{"type": "custom", "skill_id": "skill_1"}]}}),
    ];
    let responses = vec![
        user_part(
            json!({"type": "input_file", "file_id": "file-1", "file_data": "data:application/pdf;base64,QQ=="}),
        ),
        user_part(
            json!({"type": "input_image", "file_id": "file-1", "image_url": "data:image/png;base64,QQ=="}),
        ),
        user_part(json!({"type": "input_file", "file_id": "file-1"})),
        json!({"input": [{"role": "user", "content": "x"}, {"type": "computer_call", "call_id": "c", "id": "cu", "status": "completed"},
            {"type": "computer_call_output", "call_id": "c", "output": {"type": "computer_screenshot", "file_id": "file-1"}}]}),
        json!({"prompt": {"id": "pmpt_1"}}),
        json!({"prompt_cache_options": {"comparison_response_id": "resp_other"}}),
        tool(json!({"type": "file_search", "vector_store_ids": ["vs_1"]})),
        tool(json!({"type": "code_interpreter", "container": {"type": "auto", "file_ids": ["file-1"]}})),
        tool(json!({"type": "code_interpreter", "container": "cntr_1"})),
    ];
    (messages, responses)
}

#[tokio::test]
async fn c27_resources_of_the_operators_account_need_file_ids_on_native_forwards() {
    let (messages, responses) = stored();
    let (world, claude) = native("allow_members = [\"tools\"]").await;
    for more in &messages {
        let answer = ask_messages(&world.client, &with(message(CLAUDE), more.clone())).await;
        assert_eq!(answer.status, 400, "{more}: {}", answer.text());
        assert!(answer.message().contains("file_ids = true"), "{more}: {}", answer.message());
    }
    for more in &responses {
        let answer = ask_responses(&world.client, &with(response("acme/fast"), more.clone())).await;
        assert_eq!((answer.status, &*answer.code()), (400, "unsupported_value"), "{more}: {}", answer.text());
        assert!(answer.message().contains("file_ids = true"), "{more}: {}", answer.message());
    }
    assert_eq!((world.upstream.hits(), claude.hits()), (0, 0));
    let (world, claude) = native("allow_members = [\"tools\"]\nfile_ids = true").await;
    for more in &messages {
        ask_messages(&world.client, &with(message(CLAUDE), more.clone())).await.ok();
        assert_eq!(claude.last().json(), with(message("claude-opus-5-5"), more.clone()));
    }
    for more in &responses {
        ask_responses(&world.client, &with(response("acme/fast"), more.clone())).await.ok();
        let sent = world.upstream.last().json();
        for (name, value) in more.as_object().expect("members") {
            assert_eq!(&sent[name], value);
        }
    }
}

#[tokio::test]
async fn c28_fallbacks_of_native_requests_stay_within_the_keys_models() {
    let (world, claude) = native("").await;
    claude.always(Answer::error(500, "broken", "Broken."));
    for more in [
        json!({"fallbacks": [{"model": "beta/fast", "max_tokens": 5}]}),
        json!({"fallbacks": ["beta/fast"]}),
        json!({"models": [CLAUDE, "beta/fast"]}),
        json!({"fallback_model": "beta/fast"}),
    ] {
        let answer = ask_messages(&world.client, &with(message(CLAUDE), more.clone())).await.ok().json();
        assert_eq!(answer["gateway"]["model_used"], "beta/fast", "{more}");
        assert_eq!(claude.last().json(), message("claude-opus-5-5"), "{more}");
        let limited = world.gateway.client().with_key(LIMITED);
        let answer = ask_messages(&limited, &with(message("acme/plain"), more.clone())).await;
        assert_eq!(answer.status, 403, "{more}: {}", answer.text());
    }
    let body = with(response("acme/fast"), json!({"fallback_model": "beta/fast"}));
    let answer = ask_responses(&world.client, &body).await.ok().json();
    assert_eq!(answer["gateway"]["model_used"], "acme/fast");
    assert_eq!(world.upstream.last().json().get("fallback_model"), None);
}

#[tokio::test]
async fn c28_only_three_headers_of_anthropic_are_forwarded_and_denied_betas_are_not() {
    let (world, claude) = native("deny_betas = [\"dear-2026-01-01\", \"dearer-2026-01-01\"]").await;
    let client = world
        .client
        .with_header("anthropic-version", "2023-06-01")
        .with_header("anthropic-dangerous-direct-browser-access", "true")
        .with_header("anthropic-workspace-id", "wrkspc_1")
        .with_header("anthropic-beta", "dear-2026-01-01, fine-2026-01-01,dearer-2026-01-01");
    let answer = ask_messages(&client, &message(CLAUDE)).await.ok().json();
    let warnings = [
        "beta_dropped:dear-2026-01-01",
        "beta_dropped:dearer-2026-01-01",
        "header_dropped:anthropic-workspace-id",
    ];
    let mut got: Vec<&str> =
        answer["gateway"]["warnings"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    got.sort_unstable();
    assert_eq!(got, warnings);
    let sent = claude.last();
    assert_eq!(sent.header("anthropic-beta"), Some("fine-2026-01-01"));
    assert_eq!(sent.header("anthropic-dangerous-direct-browser-access"), Some("true"));
    assert_eq!(sent.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(sent.header("anthropic-workspace-id"), None);
}

#[tokio::test]
async fn c09_a_doubled_member_inside_a_message_is_refused_on_every_surface() {
    let (world, claude) = native("").await;
    for (path, body) in [
        (
            "/v1/messages",
            r#"{"model":"MODEL","max_tokens":9,"messages":[{"role":"user","role":"assistant","content":"x"}]}"#,
        ),
        (
            "/v1/messages",
            r#"{"model":"MODEL","max_tokens":9,"messages":[{"role":"user","content":[{"type":"text","type":"container_upload","text":"x"}]}]}"#,
        ),
        (
            "/v1/messages",
            r#"{"model":"MODEL","max_tokens":9,"messages":[{"role":"user","content":"x"}],"tools":[{"name":"a","input_schema":{},"name":"b"}]}"#,
        ),
        ("/v1/responses", r#"{"model":"acme/fast","input":[{"role":"user","role":"system","content":"x"}]}"#),
        (
            "/v1/responses",
            r#"{"model":"acme/fast","input":[{"role":"user","content":[{"type":"input_text","text":"x","type":"input_file"}]}]}"#,
        ),
        (
            "/v1/chat/completions",
            r#"{"model":"acme/fast","messages":[{"role":"user","role":"system","content":"x"}]}"#,
        ),
    ] {
        let answer = world.client.post_bytes(path, body.replace("MODEL", CLAUDE).as_bytes()).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        assert!(answer.message().contains("more than once"), "{body}: {}", answer.message());
    }
    assert_eq!((world.upstream.hits(), claude.hits()), (0, 0));
}

#[tokio::test]
async fn t1_the_cache_key_covers_what_a_native_upstream_gets() {
    let (world, claude) = native("").await;
    let base = with(
        message(CLAUDE),
        json!({"cache": {"enabled": true}, "top_k": 4, "stop_sequences": ["a", "b", "c", "d", "e", "f"]}),
    );
    let beta = |value| world.client.with_header("anthropic-beta", value);
    let ask = async |client: &gw_testkit::Client, body: &Value| {
        let before = claude.hits() + world.upstream.hits();
        let path = if body.get("input").is_some() { "/v1/responses" } else { "/v1/messages" };
        let answer = client.post_json(path, body).await.ok();
        (
            answer.header("x-gateway-cache").unwrap_or("none").to_owned(),
            claude.hits() + world.upstream.hits() - before,
        )
    };
    let (miss, hit) = (("MISS".to_owned(), 1), ("HIT".to_owned(), 0));
    assert_eq!(ask(&world.client, &base).await, miss);
    assert_eq!(ask(&world.client, &base).await, hit);
    for more in [
        json!({"top_k": 5}),
        json!({"stop_sequences": ["a", "b", "c", "d", "e", "g"]}),
        json!({"output_config": {"effort": "low", "task_budget": {"type": "tokens", "total": 9}}}),
        json!({"cache_control": {"type": "ephemeral"}}),
        json!({"system": [{"type": "text", "text": "x", "citations": []}]}),
        json!({"temperature": 0.5}),
        json!({"thinking": {"type": "adaptive", "block_binding": {}}}),
    ] {
        let other = with(base.clone(), more);
        assert_eq!(ask(&world.client, &other).await, miss, "{other}");
        assert_eq!(ask(&world.client, &other).await, hit, "{other}");
    }
    assert_eq!(ask(&beta("some-2026-01-01"), &base).await, miss);
    assert_eq!(ask(&beta("some-2026-01-01"), &base).await, hit);
    assert_eq!(ask(&beta("other-2026-01-01"), &base).await, miss);
    for same in [json!({"metadata": {"user_id": "u"}}), json!({"routing": {"strategy": "cheapest"}})] {
        assert_eq!(ask(&world.client, &with(base.clone(), same)).await, hit);
    }
    let base = with(response("acme/fast"), json!({"cache": {"enabled": true}, "store": false}));
    assert_eq!(ask(&world.client, &base).await, miss);
    assert_eq!(ask(&world.client, &base).await, hit);
    for more in [
        json!({"top_k": 5}),
        json!({"truncation": "auto"}),
        json!({"include": ["message.output_text.logprobs"]}),
        json!({"max_tool_calls": 3}),
        json!({"moderation": {"model": "x"}}),
    ] {
        let other = with(base.clone(), more);
        assert_eq!(ask(&world.client, &other).await, miss, "{other}");
        assert_eq!(ask(&world.client, &other).await, hit, "{other}");
    }
}

#[tokio::test]
async fn t1_an_answer_with_parts_of_its_own_dialect_is_whole_or_not_kept() {
    let (world, claude) = native("").await;
    let cache = json!({"cache": {"enabled": true}});
    let without_ids = |answer: &gw_testkit::Response| {
        let mut body = answer.json();
        for item in body["output"].as_array_mut().into_iter().flatten() {
            item.as_object_mut().unwrap().remove("id");
        }
        ["content", "stop_reason", "stop_sequence", "output", "status"].map(|name| body[name].clone())
    };
    let cited = json!([{"type": "text", "text": "Hi", "citations": [{"type": "char_location", "cited_text": "x",
        "document_index": 0, "document_title": "t", "start_char_index": 0, "end_char_index": 1}]}]);
    for (own, expected) in [
        (json!({"stop_reason": "stop_sequence", "stop_sequence": "END"}), "HIT"),
        (json!({"stop_reason": "end_turn"}), "HIT"),
        (json!({"stop_reason": "max_tokens"}), "HIT"),
        (json!({"stop_reason": "model_context_window_exceeded"}), "MISS"),
        (json!({"content": cited}), "MISS"),
    ] {
        claude.always(Answer::json(200, &with(claude_answer(), own.clone())));
        let more = json!({"stop_sequences": ["END"], "system": own.to_string()});
        let body = with(with(message(CLAUDE), cache.clone()), more);
        let first = ask_messages(&world.client, &body).await.ok();
        let again = ask_messages(&world.client, &body).await.ok();
        assert_eq!(
            (first.header("x-gateway-cache"), again.header("x-gateway-cache")),
            (Some("MISS"), Some(expected))
        );
        assert_eq!(without_ids(&first), without_ids(&again), "{own}");
    }
    let text = json!({"type": "message", "id": "m", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}]});
    let note =
        json!({"type": "url_citation", "url": "http://x", "title": "t", "start_index": 0, "end_index": 1});
    let noted = json!([{"type": "output_text", "text": "Hi", "annotations": [note], "logprobs": []}]);
    for (output, expected) in [
        (json!([text]), "HIT"),
        (json!([with(text.clone(), json!({"phase": "commentary"})), text]), "MISS"),
        (
            json!([{"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "s"}],
            "content": [{"type": "reasoning_text", "text": "raw"}]}, text]),
            "MISS",
        ),
        (json!([with(text.clone(), json!({"content": noted}))]), "MISS"),
    ] {
        world.upstream.always(Answer::json(200, &with(response_answer(), json!({"output": output}))));
        let more = json!({"store": false, "instructions": output.to_string()});
        let body = with(with(response("acme/fast"), cache.clone()), more);
        let first = ask_responses(&world.client, &body).await.ok();
        let again = ask_responses(&world.client, &body).await.ok();
        assert_eq!(
            (first.header("x-gateway-cache"), again.header("x-gateway-cache")),
            (Some("MISS"), Some(expected)),
            "{output}"
        );
        assert_eq!(without_ids(&first), without_ids(&again), "{output}");
    }
}

#[tokio::test]
async fn t1_a_stream_with_parts_of_its_own_dialect_does_not_depend_on_the_cache() {
    let (world, claude) = native("").await;
    let events = [
        json!({"type": "message_start", "message": with(claude_answer(), json!({"content": [], "stop_reason": null}))}),
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}}),
        json!({"type": "content_block_stop", "index": 0}),
        json!({"type": "message_delta", "delta": {"stop_reason": "stop_sequence", "stop_sequence": "END"},
            "usage": {"output_tokens": 3}}),
        json!({"type": "message_stop"}),
    ];
    let stream = events.iter().fold(Answer::sse(), |stream, event| {
        stream.chunk(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap()))
    });
    claude.always(stream.end());
    let body =
        with(message(CLAUDE), json!({"stream": true, "stop_sequences": ["END"], "cache": {"enabled": true}}));
    for expected in ["MISS", "HIT"] {
        let answer = ask_messages(&world.client, &body).await.ok();
        assert_eq!(answer.header("x-gateway-cache"), Some(expected));
        assert!(answer.text().contains(r#""stop_sequence":"END""#), "{expected}: {}", answer.text());
        assert!(answer.text().contains(r#""input_tokens":7"#), "{expected}: {}", answer.text());
    }
    let document = json!({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "x"},
        "citations": {"enabled": true}});
    let answer = ask_messages(&world.client, &with(body, user_block(document))).await.ok();
    assert_eq!(answer.header("x-gateway-cache"), Some("BYPASS"));
    let body = with(
        response("acme/fast"),
        json!({"stream": true, "store": false, "include": ["message.output_text.logprobs"], "cache": {"enabled": true}}),
    );
    let answer = ask_responses(&world.client, &body).await;
    assert_eq!(answer.header("x-gateway-cache"), Some("BYPASS"), "{}", answer.text());
}
