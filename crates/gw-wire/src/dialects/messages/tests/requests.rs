//! The members of a request, and its content blocks.

use serde_json::{Value, json};

use super::{body, chat, fault, translated};
use crate::dialects::messages::ThinkingDisplay;

/// The chat messages of these messages.
fn messages(value: Value) -> Value {
    chat(&body(value))["messages"].take()
}

#[test]
fn parameters_have_their_chat_names() {
    let request = json!({
        "model": "acme/m-1", "max_tokens": 100, "stream": true, "temperature": 0.5, "top_p": 1, "top_k": 5,
        "stop_sequences": ["a", "b"], "metadata": {"user_id": "u1"}, "service_tier": "auto",
        "system": [{"type": "text", "text": "x-anthropic-billing-header: cc_version=2.1; cch=00000;"},
                   {"type": "text", "text": "One."}, {"type": "text", "text": "Two."}],
        "routing": {"strategy": "cheapest"}, "cache": {"enabled": true},
        "thinking": {"type": "enabled", "budget_tokens": 2048, "display": "omitted"}, "max_tokens": 4096,
        "output_format": {"type": "json_schema", "schema": {"type": "object"}},
        "container": "c", "unknown": 1,
        "messages": [{"role": "user", "content": "Hi"}],
    });
    let got = translated(&request);
    insta::assert_json_snapshot!("parameters", chat(&request));
    assert_eq!(got.warnings, ["parameter_dropped:container"]);
    assert!(got.native.only_native);
    assert_eq!(got.context.thinking, ThinkingDisplay::Omitted);
    assert_eq!(got.native.bytes, request.to_string());
}

#[test]
fn the_attribution_line_is_removed_from_the_chat() {
    let system = |system: Value| {
        let mut request = body(json!([{"role": "user", "content": "Hi"}]));
        request["system"] = system;
        chat(&request)["messages"].take()
    };
    let user = json!({"role": "user", "content": "Hi"});
    let line = "x-anthropic-billing-header: cc_version=2.1.9; cc_entrypoint=cli; cch=abcde;";
    assert_eq!(system(json!(line)), json!([user]));
    let rest = json!([{"role": "system", "content": "Be brief."}, user]);
    assert_eq!(system(json!(format!("{line}\n\nBe brief."))), rest);
    let blocks = json!([{"type": "text", "text": line}, {"type": "text", "text": "Be brief."}]);
    assert_eq!(system(blocks), rest);
    let marked = json!([{"type": "text", "text": "A", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": "B"}]);
    assert_eq!(system(marked.clone()), json!([{"role": "system", "content": marked}, user]));
}

#[test]
fn user_blocks_become_parts() {
    let content = json!([
        {"type": "text", "text": "Look:", "cache_control": {"type": "ephemeral"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {"type": "document", "title": "Report", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="}},
        {"type": "document", "title": "Notes", "context": "Of May.", "source": {"type": "text", "media_type": "text/plain", "data": "One."}},
        {"type": "document", "source": {"type": "content", "content": [{"type": "text", "text": "Two."}]}},
        {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}},
        {"type": "search_result", "source": "https://example.com", "title": "T", "content": [{"type": "text", "text": "Three."}]},
    ]);
    insta::assert_json_snapshot!("user_blocks", messages(json!([{"role": "user", "content": content}])));
}

#[test]
fn blocks_that_only_anthropic_has_are_left_out_with_a_warning() {
    let request = body(json!([
        {"role": "user", "content": [{"type": "container_upload", "file_id": "f"}, {"type": "text", "text": "Hi"},
                                     {"type": "image", "source": {"type": "file", "file_id": "f"}}]},
        {"role": "assistant", "content": [{"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}},
                                          {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
                                          {"type": "text", "text": "Yes."}]},
        {"role": "user", "content": "More"},
    ]));
    let expected = json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes."}, {"role": "user", "content": "More"}]);
    assert_eq!(chat(&request)["messages"], expected);
    let got = translated(&request);
    assert!(got.native.only_native);
    assert_eq!(
        got.warnings,
        [
            "content_dropped:container_upload",
            "content_dropped:image_file",
            "content_dropped:server_tool_use",
            "content_dropped:web_search_tool_result"
        ]
    );
}

#[test]
fn tools_and_the_choice_become_functions() {
    let tools = json!([
        {"name": "f", "description": "D", "input_schema": {"type": "object"}, "strict": true, "cache_control": {"type": "ephemeral"}},
        {"type": "custom", "name": "g", "input_schema": {}},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "mcp_toolset", "mcp_server_name": "x"},
    ]);
    let with = |choice: Value| {
        let mut request = body(json!([{"role": "user", "content": "Hi"}]));
        request["tools"] = tools.clone();
        request["tool_choice"] = choice;
        request
    };
    let request = with(json!({"type": "tool", "name": "g", "disable_parallel_tool_use": true}));
    insta::assert_json_snapshot!("tools", chat(&request));
    assert_eq!(translated(&request).warnings, ["tool_dropped:web_search", "tool_dropped:mcp_toolset"]);
    for (choice, expected) in [("auto", "auto"), ("any", "required"), ("none", "none")] {
        assert_eq!(chat(&with(json!({"type": choice})))["tool_choice"], expected);
    }
    let server_tool = with(json!({"type": "tool", "name": "web_search"}));
    assert_eq!(chat(&server_tool).get("tool_choice"), None);
    for (choice, message) in [
        (json!({"type": "tool", "name": "h"}), "tool_choice.tool.name: Tool 'h' not found in provided tools"),
        (json!({"type": "tool"}), "tool_choice.tool.name: Field required"),
        (
            json!({"type": "x"}),
            "tool_choice.type: Input should be 'any', 'auto', 'none' or 'tool', but got 'x'",
        ),
    ] {
        assert_eq!(fault(&with(choice)), message);
    }
}

#[test]
fn no_tool_is_left_out_and_their_number_is_bounded() {
    let tool = |at: usize| json!({"name": format!("t{at}"), "input_schema": {}, "defer_loading": at < 3});
    let with = |count: usize| {
        let mut request = body(json!([{"role": "user", "content": "Hi"}]));
        request["tools"] = (0..count).map(tool).collect();
        request
    };
    assert_eq!(chat(&with(4096))["tools"].as_array().map(Vec::len), Some(4096));
    let got = translated(&with(4096));
    assert_eq!((got.warnings.len(), got.native.only_native), (0, false));
    assert_eq!(
        fault(&with(4097)),
        "tools: Too many tools. At most 4096 are allowed (setting 'server.request_limits.max_tools')"
    );
}

#[test]
fn thinking_becomes_an_effort() {
    let rows = [
        (json!({"thinking": {"type": "enabled", "budget_tokens": 4096}}), Some("high")),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 4095}}), Some("medium")),
        (json!({"thinking": {"type": "enabled", "budget_tokens": 1024}}), Some("low")),
        (json!({"thinking": {"type": "adaptive"}}), Some("high")),
        (json!({"thinking": {"type": "disabled"}}), Some("none")),
        (json!({"thinking": {"type": "adaptive"}, "output_config": {"effort": "max"}}), Some("max")),
        (
            json!({"thinking": {"type": "enabled", "budget_tokens": 4096}, "output_config": {"effort": "low"}}),
            Some("low"),
        ),
        (json!({"output_config": {"effort": "xhigh"}}), Some("xhigh")),
        (json!({"thinking": {"type": "between_tools"}}), None),
        (json!({}), None),
    ];
    for (members, effort) in rows {
        let mut request = body(json!([{"role": "user", "content": "Hi"}]));
        request["max_tokens"] = json!(10_000);
        for (name, value) in members.as_object().unwrap() {
            request[name] = value.clone();
        }
        assert_eq!(chat(&request).get("reasoning_effort").and_then(Value::as_str), effort, "{members}");
    }
}

#[test]
fn further_stop_sequences_are_kept_for_the_answer() {
    let mut request = body(json!([{"role": "user", "content": "Hi"}]));
    request["stop_sequences"] = json!(["a", "b", "c", "d", "e", "f"]);
    assert_eq!(chat(&request)["stop"], json!(["a", "b", "c", "d"]));
    assert_eq!(*translated(&request).context.extra_stops, ["e".to_owned(), "f".to_owned()]);
    request["stop_sequences"] = json!([" "]);
    assert_eq!(fault(&request), "stop_sequences.0: each stop sequence must contain non-whitespace");
}

#[test]
fn a_long_user_id_is_replaced_by_a_digest() {
    let mut request = body(json!([{"role": "user", "content": "Hi"}]));
    let id = format!("user_{}_account__session_{}", "a".repeat(64), "b".repeat(36));
    request["metadata"] = json!({"user_id": id});
    let user = chat(&request)["user"].as_str().unwrap().to_owned();
    assert!(user.starts_with("user_") && user.len() == 13, "{user}");
    assert_eq!(translated(&request).context.user_id, Some(id));
}

#[test]
fn faults_have_the_words_of_the_api() {
    let user = |content: Value| body(json!([{"role": "user", "content": content}]));
    let with = |name: &str, value: Value| {
        let mut request = user(json!("Hi"));
        request[name] = value;
        request
    };
    let rows = [
        (json!({"max_tokens": 1, "messages": []}), "model: Field required"),
        (json!({"model": "", "max_tokens": 1}), "model: String should have at least 1 character"),
        (json!({"model": "m", "messages": []}), "max_tokens: Field required"),
        (json!({"model": "m", "max_tokens": 1}), "messages: Field required"),
        (body(json!([])), "messages: at least one message is required"),
        (body(json!([{"content": "Hi"}])), "messages.0.role: Field required"),
        (
            body(json!([{"role": "tool", "content": "Hi"}])),
            "messages.0.role: Input should be 'user', 'assistant' or 'system', but got 'tool'",
        ),
        (body(json!([{"role": "user"}])), "messages.0.content: Field required"),
        (user(json!(5)), "messages.0.content: Input should be a valid list"),
        (user(json!([{"text": "Hi"}])), "messages.0.content.0.type: Field required"),
        (user(json!([{"type": "text"}])), "messages.0.content.0.text.text: Field required"),
        (
            user(json!([{"type": "image", "source": {"type": "base64", "data": "x"}}])),
            "messages.0.content.0.image.source.base64.media_type: Field required",
        ),
        (
            user(json!([{"type": "image", "source": {"type": "x"}}])),
            "messages.0.content.0.image.source.type: Input should be 'base64', 'file' or 'url', but got 'x'",
        ),
        (
            user(json!([{"type": "image", "source": {"type": "url", "url": "ftp://x"}}])),
            "messages.0.content.0.image.source.url.url: Only HTTP and HTTPS URLs are supported",
        ),
        (
            user(json!([{"type": "text", "text": "Hi"}, {"type": "tool_result"}])),
            "messages.0.content.1.tool_result.tool_use_id: Field required",
        ),
        (with("max_tokens", json!(-1)), "max_tokens: Input should be greater than or equal to 0"),
        (with("max_tokens", json!(1.5)), "max_tokens: Input should be a valid integer"),
        (with("temperature", json!(1.5)), "temperature: Input should be less than or equal to 1"),
        (with("stream", json!("yes")), "stream: Input should be a valid boolean"),
        (with("tools", json!([{"name": "f"}])), "tools.0.custom.input_schema: Field required"),
        (with("tools", json!([{"input_schema": {}}])), "tools.0.custom.name: Field required"),
        (
            with("tools", json!([{"name": "f", "input_schema": {}}, {"name": "f", "input_schema": {}}])),
            "tools: Tool names must be unique.",
        ),
        (
            with("tool_choice", json!({"type": "any"})),
            "tool_choice: may only be specified while providing `tools`.",
        ),
        (with("thinking", json!({"type": "enabled"})), "thinking.enabled.budget_tokens: Field required"),
        (
            with("thinking", json!({"type": "enabled", "budget_tokens": 5})),
            "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024",
        ),
        (
            with("output_config", json!({"effort": "x"})),
            "output_config.effort: Input should be 'low', 'medium', 'high', 'xhigh' or 'max', but got 'x'",
        ),
        (with("metadata", json!([])), "metadata: Input should be a valid dictionary"),
    ];
    for (request, message) in rows {
        assert_eq!(fault(&request), message, "{request}");
    }
}

#[test]
fn a_request_that_only_warms_a_cache_is_marked() {
    let mut request = body(json!([{"role": "user", "content": "Hi"}]));
    request["max_tokens"] = json!(0);
    assert!(translated(&request).context.warms_cache);
    assert_eq!(chat(&request)["max_completion_tokens"], 0);
}

#[test]
fn a_count_needs_no_max_tokens() {
    let request = json!({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).to_string();
    let got =
        crate::dialects::messages::translate_count(request.into(), &crate::request::RequestLimits::default());
    let got: Value = serde_json::from_slice(&got.unwrap().chat).unwrap();
    assert_eq!(got.get("max_completion_tokens"), None);
    assert_eq!(crate::dialects::messages::count_tokens_body(7), br#"{"input_tokens":7}"#);
}

#[test]
fn the_limits_of_requests_hold() {
    let limits = crate::request::RequestLimits {
        max_messages: 2,
        max_content_parts: 3,
        max_tool_calls: 1,
        max_schema_depth: 2,
        ..Default::default()
    };
    let fault = |value: Value| {
        crate::dialects::messages::translate(value.to_string().into(), &limits).unwrap_err().message
    };
    let hi = json!({"role": "user", "content": "Hi"});
    let yes = json!({"role": "assistant", "content": "Yes"});
    assert!(fault(body(json!([hi, yes, hi]))).starts_with("messages: too many messages"));
    let text = json!({"type": "text", "text": "a"});
    assert!(
        fault(body(json!([{"role": "user", "content": [text, text, text, text]}])))
            .starts_with("messages.0.content.3: too many content blocks")
    );
    let mut long = body(json!([hi]));
    long["system"] = json!([text, text, text, text]);
    assert!(fault(long).starts_with("system.3: too many content blocks"));
    let call = json!({"type": "tool_use", "id": "a", "name": "f", "input": {}});
    assert!(
        fault(body(json!([{"role": "assistant", "content": [call, call]}])))
            .starts_with("messages.0.content.1: too many tool_use blocks")
    );
    let result = json!({"type": "tool_result", "tool_use_id": "a", "content": [text, text]});
    let turns = json!([{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]);
    assert!(
        fault(body(turns)).starts_with("messages.1.content.0.tool_result.content.1: too many content blocks")
    );
    let mut deep = body(json!([hi]));
    deep["tools"] = json!([{"name": "f", "input_schema": {"a": {"b": {"c": 1}}}}]);
    assert!(fault(deep).starts_with("tools.0.custom.input_schema: JSON schema is nested too deeply"));
}
