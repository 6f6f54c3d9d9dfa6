//! Requests: every item, part, tool and choice.

use super::*;
use crate::dialects::responses::request::{EarlierItems, WantedItems, translate_with, wanted_items};

/// A snapshot of the chat request.
macro_rules! translates {
    ($name:ident, $body:tt) => {
        #[test]
        fn $name() {
            let request = translated(&json!($body));
            let shown = json!({
                "chat": chat(&request),
                "warnings": request.warnings,
                "only_native": request.native.only_native,
                "requires_native": request.requires_native,
                "hosted_tools": request.hosted_tools,
            });
            insta::assert_json_snapshot!(stringify!($name), shown);
        }
    };
}

translates!(a_string_is_a_users_message, {"model": "m", "input": "hi", "instructions": "Be short.", "stream": true});

translates!(all_parameters, {
    "model": "m", "input": "hi", "max_output_tokens": 20, "temperature": 0.5, "top_p": 0.9, "top_logprobs": 2,
    "include": ["message.output_text.logprobs", "reasoning.encrypted_content"], "metadata": {"a": "b"},
    "parallel_tool_calls": false, "reasoning": {"effort": "low", "summary": "auto"}, "service_tier": "flex",
    "prompt_cache_key": "k", "safety_identifier": "s", "user": "u", "store": false, "max_tool_calls": 0,
    "text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": true, "description": "d"}, "verbosity": "low"},
    "truncation": "auto", "top_k": 5, "routing": {"strategy": "cheapest"}, "cache": {"enabled": true},
    "context_management": [{"type": "compaction", "compact_threshold": 5}], "stream_options": {"include_obfuscation": false}
});

translates!(messages_of_every_role, {"model": "m", "input": [
    {"role": "system", "content": "s"},
    {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "d"}]},
    {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
    {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "phase": "commentary",
     "content": [{"type": "output_text", "text": "x", "annotations": []}, {"type": "refusal", "refusal": "no"}]},
    {"role": "assistant", "content": "y"},
    {"role": "user", "content": "c"}
]});

translates!(parts_of_every_type, {"model": "m", "input": [{"role": "user", "content": [
    {"type": "input_text", "text": "t"},
    {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "high"},
    {"type": "input_image", "file_id": "file_1", "detail": "auto"},
    {"type": "input_file", "file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"},
    {"type": "input_file", "file_url": "https://example.com/a.pdf"},
    {"type": "input_file", "file_id": "file_2"},
    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
    {"type": "hologram", "data": 1}
]}]});

translates!(reasoning_and_calls_make_one_message, {"model": "m", "input": [
    {"role": "user", "content": "q"},
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "think"}], "encrypted_content": "gw1.x"},
    {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "looking"}]},
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{\"a\":1}", "id": "fc_1", "status": "completed"},
    {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin"},
    {"type": "function_call_output", "call_id": "c1", "output": "one"},
    {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "two"}, {"type": "input_image", "image_url": "https://example.com/a.png"}]},
    {"type": "reasoning", "id": "rs_2", "summary": [], "content": [{"type": "reasoning_text", "text": "raw"}]},
    {"role": "assistant", "content": "done"},
    {"role": "user", "content": "next"}
]});

translates!(outputs_move_behind_their_calls, {"model": "m", "input": [
    {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
    {"type": "function_call", "call_id": "c2", "name": "f", "arguments": ""},
    {"type": "function_call", "call_id": "c3", "name": "f", "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c2", "output": "two"},
    {"role": "user", "content": "meanwhile"},
    {"type": "function_call_output", "call_id": "c1", "output": {"any": ["json"]}}
]});

translates!(hosted_items_are_pairs_or_left_out, {"model": "m", "input": [
    {"role": "user", "content": "q"},
    {"type": "local_shell_call", "id": "lsh_1", "call_id": "s1", "status": "completed", "action": {"type": "exec", "command": ["ls"]}},
    {"type": "local_shell_call_output", "id": "s1", "call_id": "s1", "output": "a.txt"},
    {"type": "mcp_call", "id": "mcp_1", "server_label": "l", "name": "t", "arguments": "{}", "output": "42"},
    {"type": "computer_call", "call_id": "k1", "id": "cu_1", "action": {"type": "click"}},
    {"type": "web_search_call", "id": "ws_1", "status": "completed"},
    {"type": "shell_call_output", "call_id": "gone", "output": []},
    {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "AAAA"},
    {"type": "brand_new", "x": 1},
    {"type": "compaction", "id": "cmp_1", "encrypted_content": "theirs"}
]});

translates!(tools_of_every_kind, {"model": "m", "input": [
    {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "late", "parameters": {}}]},
    {"role": "user", "content": "q"},
    {"type": "function_call", "call_id": "c", "namespace": "mcp__git", "name": "log", "arguments": "{}"}
], "tools": [
    {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true},
    {"type": "function", "name": "f", "parameters": null, "strict": null},
    {"type": "custom", "name": "patch", "description": "p", "format": {"type": "grammar", "syntax": "lark", "definition": "start: x"}},
    {"type": "custom", "name": "free", "format": {"type": "text"}},
    {"type": "namespace", "name": "mcp__git", "description": "g", "tools": [
        {"type": "function", "name": "log", "parameters": {}},
        {"type": "function", "name": "a_function_with_a_very_long_name_that_does_not_fit_into_the_limit", "parameters": {}}
    ]},
    {"type": "web_search"}, {"type": "mcp", "server_label": "x"}
], "tool_choice": "auto"});

fn choice(choice: &Value) -> Value {
    let tools = json!([
        {"type": "function", "name": "f"}, {"type": "custom", "name": "p"}, {"type": "web_search"},
        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "g"}]}
    ]);
    let request = translated(&json!({"model": "m", "input": "q", "tools": tools, "tool_choice": choice}));
    let chat = chat(&request);
    let names: Vec<Value> = chat["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|tool| tool["function"]["name"].as_str().or(tool["custom"]["name"].as_str()).into())
        .collect();
    json!([chat["tool_choice"], names, request.requires_native])
}

#[test]
fn a_tool_choice_of_every_form_is_translated() {
    let all = json!(["f", "p", "n__g"]);
    for word in ["none", "auto", "required"] {
        assert_eq!(choice(&json!(word)), json!([word, all, null]));
    }
    let named = |kind: &str, name: &str| json!({"type": kind, kind: {"name": name}});
    assert_eq!(choice(&json!({"type": "function", "name": "f"})), json!([named("function", "f"), all, null]));
    assert_eq!(
        choice(&json!({"type": "function", "name": "g"})),
        json!([named("function", "n__g"), all, null])
    );
    assert_eq!(choice(&json!({"type": "custom", "name": "p"})), json!([named("function", "p"), all, null]));
    let allowed = json!({"type": "allowed_tools", "mode": "required", "tools": [
        {"type": "function", "name": "g", "namespace": "n"}, {"type": "web_search"}]});
    assert_eq!(choice(&allowed), json!(["required", ["n__g"], null]));
    let hosted = json!({"type": "allowed_tools", "mode": "required", "tools": [{"type": "web_search"}]});
    assert_eq!(choice(&hosted), json!([null, [], "tools"]));
    assert_eq!(choice(&json!({"type": "web_search"})), json!([null, all, "tools"]));
}

#[test]
fn a_fault_names_the_field_of_this_api() {
    for (body, code, message) in [
        (json!({"model": "m"}), "missing_required_parameter", "'input'"),
        (json!({"input": "x", "model": "m", "conversation": "c"}), "unsupported_parameter", "'conversation'"),
        (json!({"model": "m", "input": 5}), "invalid_type", "'input'"),
        (json!({"model": "m", "input": [5]}), "invalid_type", "'input[0]'"),
        (json!({"model": "m", "input": [{"role": "x", "content": ""}]}), "invalid_value", "'input[0].role'"),
        (
            json!({"model": "m", "input": [{"role": "user"}]}),
            "missing_required_parameter",
            "'input[0].content'",
        ),
        (
            json!({"model": "m", "input": [{"role": "user", "content": [{"type": "input_image", "image_url": "ftp://x"}]}]}),
            "invalid_value",
            "'input[0].content[0].image_url'",
        ),
        (
            json!({"model": "m", "input": [{"type": "function_call_output", "call_id": "c", "output": ""}]}),
            "invalid_value",
            "'input[0].call_id'",
        ),
        (
            json!({"model": "m", "input": [{"type": "function_call", "call_id": "c", "name": "f"}]}),
            "missing_required_parameter",
            "'input[0].arguments'",
        ),
        (
            json!({"model": "m", "input": [{"type": "item_reference", "id": "msg_9"}]}),
            "invalid_value",
            "'input[0].id'",
        ),
        (
            json!({"model": "m", "input": "q", "tools": [{"type": "function"}]}),
            "missing_required_parameter",
            "'tools[0].name'",
        ),
        (json!({"model": "m", "input": "q", "tool_choice": "required"}), "invalid_value", "'tool_choice'"),
        (
            json!({"model": "m", "input": "q", "tool_choice": {"type": "function", "name": "g"}}),
            "invalid_value",
            "'tool_choice'",
        ),
        (
            json!({"model": "m", "input": "q", "text": {"format": {"type": "xml"}}}),
            "invalid_value",
            "'text.format.type'",
        ),
        (
            json!({"model": "m", "input": "q", "max_output_tokens": -1}),
            "integer_below_min_value",
            "'max_output_tokens'",
        ),
        (json!({"model": "m", "input": "q", "store": 1}), "invalid_type", "'store'"),
        (json!({"model": "m", "input": "q", "metadata": []}), "invalid_type", "'metadata'"),
    ] {
        let fault = fault(&body);
        assert_eq!(fault.code, code, "{body}: {fault}");
        assert!(fault.message.contains(message), "{body}: {fault}");
    }
}

#[test]
fn tools_of_one_flat_name_are_both_offered_and_called_by_their_own_names() {
    let request = json!({"model": "m",
        "tools": [{"type": "function", "name": "ns__g", "description": "flat"},
            {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "g", "description": "inner"}]}],
        "tool_choice": {"type": "function", "name": "g", "namespace": "ns"},
        "input": [{"role": "user", "content": "q"},
            {"type": "function_call", "call_id": "a", "name": "ns__g", "arguments": "{}"},
            {"type": "function_call", "call_id": "b", "namespace": "ns", "name": "g", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "a", "output": "one"},
            {"type": "function_call_output", "call_id": "b", "output": "two"}]});
    let request = translated(&request);
    let chat = chat(&request);
    let offered = chat["tools"].as_array().unwrap();
    let [first, second] = offered.as_slice() else { panic!("{chat}") };
    assert_eq!(
        (&first["function"]["name"], &first["function"]["description"]),
        (&json!("ns__g"), &json!("flat"))
    );
    assert_eq!(second["function"]["description"], "inner");
    let renamed = second["function"]["name"].as_str().unwrap();
    assert!(renamed.starts_with("ns__g_"), "{renamed}");
    assert_eq!(chat["tool_choice"]["function"]["name"], renamed);
    let calls = &chat["messages"][1]["tool_calls"];
    assert_eq!(
        (&calls[0]["function"]["name"], &calls[1]["function"]["name"]),
        (&json!("ns__g"), &json!(renamed))
    );
    let (stream, _) =
        encoded(&request.context, &[call(0, "c1", renamed), arguments(0, "{}")], Finish::ToolCalls);
    let added = frames(&stream).into_iter().find(|event| event["type"] == "response.output_item.added");
    let item = added.unwrap()["item"].clone();
    assert_eq!((&item["namespace"], &item["name"]), (&json!("ns"), &json!("g")), "{item}");
}

#[test]
fn a_second_output_of_a_call_is_left_out_with_a_warning() {
    let request = json!({"model": "m", "input": [{"role": "user", "content": "q"},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "one"},
        {"type": "function_call_output", "call_id": "c", "output": "two"}]});
    let request = translated(&request);
    let messages = &chat(&request)["messages"];
    assert_eq!((&messages[2]["content"], messages.get(3)), (&json!("one"), None), "{messages}");
    assert_eq!(request.warnings, ["item_dropped:function_call_output"]);
}

#[test]
fn a_member_given_twice_is_refused() {
    let body =
        Bytes::from_static(br#"{"model":"m","input":[{"role":"user","role":"system","content":"x"}]}"#);
    let fault = translate(body, &RequestLimits::default(), &[]).unwrap_err();
    assert_eq!(fault.code, "invalid_json");
}

#[test]
fn too_many_items_are_refused() {
    let limits = RequestLimits { max_messages: 2, ..RequestLimits::default() };
    let item = json!({"role": "user", "content": "x"});
    let fault = translate(body(&json!({"model": "m", "input": [item, item, item]})), &limits, &[]);
    assert_eq!(fault.unwrap_err().code, "array_above_max_length");
}

#[test]
fn earlier_items_come_first_and_references_are_resolved() {
    let history = [
        r#"{"id":"msg_1","type":"message","role":"user","content":[{"type":"input_text","text":"one"}]}"#,
        r#"{"id":"msg_2","type":"message","role":"assistant","content":[{"type":"output_text","text":"two"}]}"#,
    ];
    let next = json!({"model": "m", "previous_response_id": "resp_0", "input": "three", "instructions": "i"});
    let expected = json!([
        {"role": "system", "content": "i"}, {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"}, {"role": "user", "content": "three"}
    ]);
    assert_eq!(chat(&followed(&next, &history))["messages"], expected);
    let refer = json!({"model": "m", "input": [
        {"type": "item_reference", "id": "msg_1"}, {"id": "msg_2"}, {"role": "user", "content": "three"}]});
    assert_eq!(chat(&followed(&refer, &history))["messages"], json!(expected.as_array().unwrap()[1..]));
    let wanted = wanted_items(&body(&refer), &RequestLimits::default());
    assert_eq!(wanted.items, ["msg_1", "msg_2"]);
    let wanted = wanted_items(&body(&next), &RequestLimits::default());
    assert_eq!(
        wanted,
        WantedItems {
            previous_response_id: Some("resp_0".into()),
            store: true,
            values: 1,
            ..WantedItems::default()
        }
    );
}

#[test]
fn outputs_of_earlier_calls_are_told_before_the_translation() {
    let call = |id: &str| json!({"type": "function_call", "call_id": id, "name": "f", "arguments": "{}"});
    let output = |kind: &str, id: &str| json!({"type": kind, "call_id": id, "output": "x"});
    let input = json!([
        output("function_call_output", "a"), output("custom_tool_call_output", "b"), {"role": "user", "content": "x"},
        call("own"), output("function_call_output", "own"), output("computer_call_output", "screen"),
        {"type": "function_call_output", "output": "without an id"},
    ]);
    let more = json!({"model": "m", "previous_response_id": "resp_0", "input": input});
    let wanted = |request: &Value| wanted_items(&body(request), &RequestLimits::default()).answered_calls;
    assert_eq!(wanted(&more), ["a", "b"]);
    assert_eq!(wanted(&json!({"model": "m", "input": input})), [""; 0]);
}

#[test]
fn items_that_a_request_refers_to_pass_the_policy() {
    let history = [
        r#"{"type":"tool_search_output","id":"tso_1","call_id":"c","tools":[{"type":"mcp","server_label":"x"}]}"#,
    ];
    for reference in [
        json!({"type": "item_reference", "id": "tso_1"}),
        json!({"id": "tso_1"}),
        json!({"type": null, "id": "tso_1"}),
    ] {
        let refer = json!({"model": "m", "input": [reference, {"role": "user", "content": "x"}]});
        let policy = followed(&refer, &history).native.policy;
        let types: Vec<&str> = policy.types.iter().map(|guarded| &*guarded.kind).collect();
        assert_eq!(types, ["mcp"], "{refer}");
    }
}

#[test]
fn a_compaction_of_this_gateway_is_opened() {
    let request = json!({"model": "m", "input": [
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "gw1.s"}, {"role": "user", "content": "go on"}]});
    let open = |sealed: &str| sealed.strip_prefix("gw1.").map(|rest| format!("opened {rest}"));
    let earlier = EarlierItems { open_compaction: Some(&open), ..EarlierItems::default() };
    let request = translate_with(body(&request), &RequestLimits::default(), &earlier).unwrap();
    assert!(!request.native.only_native && request.warnings.is_empty());
    let first = &chat(&request)["messages"][0]["content"];
    assert_eq!(first, "Summary of the conversation so far:\n\nopened s");
}

#[test]
fn a_longer_conversation_begins_like_the_shorter_one() {
    let turn = |n: usize| {
        vec![
            json!({"role": "user", "content": format!("q{n}")}),
            json!({"type": "reasoning", "id": format!("rs_{n}"), "summary": [{"type": "summary_text", "text": "t"}], "encrypted_content": "e"}),
            json!({"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}),
            json!({"type": "function_call_output", "call_id": "c", "output": n.to_string()}),
            json!({"role": "assistant", "content": "a"}),
        ]
    };
    let mut items: Vec<Value> = Vec::new();
    let mut before = String::new();
    for n in 0..5 {
        items.extend(turn(n));
        let now = messages(&json!(items)).to_string();
        assert!(now.starts_with(before.trim_end_matches(']')), "{before}\n{now}");
        assert_eq!(now, messages(&json!(items)).to_string());
        before = now;
    }
}
