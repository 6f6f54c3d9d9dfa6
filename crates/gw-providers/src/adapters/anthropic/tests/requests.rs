//! Encoded requests.

use bytes::Bytes;
use gw_wire::failure::FailureKind;
use gw_wire::json::{Kind, View};
use gw_wire::request::{RequestLimits, completion::parse_completion};
use serde_json::{Value, json};

use super::{body, encode, encode_text, fixture, sent, target};
use crate::adapter::{ChoiceRange, Reading, Target};

/// Encodes a fixture's request and compares the body byte by byte.
fn golden(case: &str) -> (Reading, Vec<String>) {
    let read = |kind: &str| std::fs::read_to_string(fixture(&format!("{case}.{kind}.json")));
    let encoded = encode_text(&read("request").unwrap()).unwrap();
    let got = pretty(View::new(std::str::from_utf8(&encoded.call.body).unwrap()), 0) + "\n";
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(fixture(&format!("{case}.upstream.json")), &got).unwrap();
    }
    assert_eq!(got, read("upstream").unwrap(), "{case}");
    assert_eq!(encoded.reading.replay.as_ref().map(|target| target.name()), Some("anthropic/x"));
    let reading = Reading { replay: None, ..encoded.reading };
    (reading, encoded.warnings.iter().map(ToString::to_string).collect())
}

/// Splits a body into readable lines without changing the order of members or the spelling of numbers.
fn pretty(value: View<'_>, depth: usize) -> String {
    let members: Vec<String> = match value.kind() {
        Kind::Object => {
            let member = |(name, value): (View<'_>, View<'_>)| {
                format!("{}: {}", name.text(), pretty(value, depth + 1))
            };
            value.members().map(member).collect()
        }
        Kind::Array => value.elements().map(|element| pretty(element, depth + 1)).collect(),
        _ => return value.text().to_owned(),
    };
    let (open, close) = value.text().split_at(1);
    let (inner, outer) = ("  ".repeat(depth + 1), "  ".repeat(depth));
    match members.is_empty() {
        true => value.text().to_owned(),
        false => {
            let close = &close[close.len() - 1..];
            format!("{open}\n{inner}{}\n{outer}{close}", members.join(&format!(",\n{inner}")))
        }
    }
}

fn unread(case: &str) -> Vec<String> {
    let (reading, warnings) = golden(case);
    assert_eq!(reading, Reading::default());
    warnings
}

#[test]
fn the_shared_conversation_is_encoded_completely() {
    assert_eq!(
        unread("conversation"),
        ["parameter_dropped:stop"],
        "white space only is no stop sequence there"
    );
}

#[test]
fn cache_markers_keep_their_positions() {
    assert!(unread("cached").is_empty());
}

#[test]
fn images_documents_and_text_files_have_their_sources() {
    assert!(unread("media").is_empty());
}

#[test]
fn empty_texts_are_not_sent_and_every_call_has_its_result() {
    let warnings = unread("untidy");
    let expected = [
        "parameter_dropped:seed",
        "parameter_dropped:frequency_penalty",
        "parameter_dropped:logit_bias",
        "parameter_dropped:logprobs",
        "parameter_clamped:temperature",
        "parameter_dropped:top_p",
        "parameter_dropped:stop",
        "parameter_dropped:user",
    ];
    assert_eq!(warnings, expected);
}

#[test]
fn tool_choices_are_encoded() {
    assert_eq!(unread("named_tool"), ["parameter_dropped:strict", "parameter_dropped:reasoning_effort"]);
    assert!(unread("single_call").is_empty());
    assert!(unread("no_tool").is_empty());
    let expected = ["parameter_dropped:tool_choice", "parameter_dropped:temperature"];
    assert_eq!(unread("required_of_newest"), expected);
    assert!(unread("former_tools").is_empty());
}

#[test]
fn structured_output_uses_the_form_of_each_model() {
    assert!(unread("json_schema").is_empty());
    let (reading, warnings) = golden("json_schema_by_tool");
    assert_eq!((reading.json_tool.as_deref(), warnings.len()), (Some("structured_answer"), 0));
    let (reading, warnings) = golden("json_object");
    assert!(reading.fenced && reading.json_tool.is_none() && warnings.is_empty());
}

#[test]
fn efforts_become_budgets_or_efforts() {
    assert_eq!(unread("budget"), ["parameter_dropped:top_p"]);
    assert_eq!(unread("adaptive"), ["parameter_dropped:temperature"]);
    assert!(unread("not_thinking").is_empty());
}

#[test]
fn signed_thoughts_are_sent_back_in_their_positions() {
    assert_eq!(unread("thoughts"), ["reasoning_dropped"], "that of another vendor");
}

#[test]
fn the_call_is_a_post_with_the_version_and_no_key() {
    for (stream, accept) in [(true, "text/event-stream"), (false, "application/json")] {
        let encoded =
            encode(json!({"messages": [{"role": "user", "content": "x"}], "stream": stream})).unwrap();
        let call = encoded.call;
        assert_eq!((call.method.as_str(), call.path.as_str()), ("POST", "/v1/messages"));
        assert_eq!(call.headers["anthropic-version"], "2023-06-01");
        assert_eq!(call.headers["content-type"], "application/json");
        assert_eq!(call.headers["accept"], accept);
        assert!(!call.headers.contains_key("x-api-key"));
    }
    assert_eq!(
        crate::adapters::anthropic::adapter().traits().scheme,
        crate::adapter::Scheme::Header("x-api-key")
    );
}

#[test]
fn max_tokens_is_always_sent_and_temperature_excludes_top_p() {
    let request = |members: Value, target: Target<'_>| {
        let mut request = json!({"model": "a/b", "messages": [{"role": "user", "content": "x"}]});
        request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let request =
            gw_wire::request::chat::parse_chat(Bytes::from(request.to_string()), &RequestLimits::default())
                .unwrap();
        let encoded = crate::adapters::anthropic::adapter().chat(
            &request,
            &ChoiceRange { n: 1, prompts: 0..1, from: 0 },
            &target,
        );
        body(&encoded.unwrap())
    };
    let plain = target("claude-haiku-4-5");
    let known = Target { max_output_tokens: Some(64_000), ..plain };
    let bound = Target { clamp_max_tokens: Some(100), ..known };
    for (members, target, expected) in [
        (json!({}), plain, 4096),
        (json!({}), known, 64_000),
        (json!({"max_tokens": 7}), known, 7),
        (json!({"max_tokens": 7, "max_completion_tokens": 8}), known, 8),
        (json!({"max_tokens": 100_000}), known, 100_000),
        (json!({"max_tokens": 100_000}), bound, 100),
    ] {
        assert_eq!(request(members, target)["max_tokens"], json!(expected));
    }
    for (members, kept, warnings) in [
        (
            json!({"temperature": 0.2, "top_p": 0.9}),
            ("temperature", json!(0.2)),
            vec!["parameter_dropped:top_p"],
        ),
        (json!({"temperature": 1.5}), ("temperature", json!(1)), vec!["parameter_clamped:temperature"]),
        (json!({"top_p": 0.9}), ("top_p", json!(0.9)), vec![]),
        (json!({"temperature": 1, "top_p": 1}), ("temperature", json!(1)), vec![]),
    ] {
        let (body, warned) = sent("claude-sonnet-4-6", members);
        assert_eq!((&body[kept.0], warned), (&kept.1, warnings.into_iter().map(String::from).collect()));
        assert!(body["temperature"].is_null() != body["top_p"].is_null());
    }
    for members in [json!({"temperature": 0.2}), json!({"top_p": 0.2})] {
        let (body, warned) = sent("claude-opus-4-8", members);
        assert!(body["temperature"].is_null() && body["top_p"].is_null() && warned.len() == 1);
    }
    let (body, warned) = sent("claude-opus-4-8", json!({"temperature": 1, "top_p": 1}));
    assert!(body["temperature"].is_null() && warned.is_empty());
}

#[test]
fn parallel_results_are_one_user_turn() {
    let sent = std::fs::read_to_string(fixture("conversation.upstream.json")).unwrap();
    let sent: Value = serde_json::from_str(&sent).unwrap();
    let messages = sent["messages"].as_array().unwrap();
    let roles: Vec<_> = messages.iter().map(|message| message["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user"]);
    let ids: Vec<_> =
        messages[2]["content"].as_array().unwrap().iter().map(|block| &block["tool_use_id"]).collect();
    assert_eq!(ids, ["call_1", "call_2"]);
}

#[test]
fn ids_are_legal_unique_and_the_same_on_both_sides() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let round = |id: &str| {
        [
            json!({"role": "assistant", "tool_calls": [call(id), call("ok-1_A")]}),
            json!({"role": "tool", "tool_call_id": "ok-1_A", "content": "second"}),
            json!({"role": "tool", "tool_call_id": id, "content": "first"}),
        ]
    };
    let mut messages = vec![json!({"role": "user", "content": "x"})];
    let odd = "call:1.0/漢".repeat(20);
    messages.extend(round(&odd).into_iter().chain(round(&odd)));
    let sent = body(&encode(json!({"messages": messages})).unwrap());
    let mut seen = std::collections::HashSet::new();
    for turn in [1, 3] {
        let calls = sent["messages"][turn]["content"].as_array().unwrap();
        let results = sent["messages"][turn + 1]["content"].as_array().unwrap();
        for ((call, result), text) in calls.iter().zip(results).zip(["first", "second"]) {
            let id = call["id"].as_str().unwrap();
            assert_eq!((&call["id"], &result["content"]), (&result["tool_use_id"], &json!(text)));
            assert!(
                id.len() <= 64
                    && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
            );
            assert!(seen.insert(id.to_owned()), "{id} twice");
        }
    }
    // Equal requests give equal bodies, on which caches and signatures depend.
    assert_eq!(sent, body(&encode(json!({"messages": messages})).unwrap()));
}

#[test]
fn foreign_signatures_in_ids_are_removed() {
    let call = json!({"id": "call_1__thought__c2ln", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let (body, _) = sent(
        "claude-opus-5",
        json!({"messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_1__thought__c2ln", "content": "r"},
        ]}),
    );
    assert_eq!(body["messages"][1]["content"][0]["id"], json!("call_1"));
    assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], json!("call_1"));
}

#[test]
fn thoughts_never_stand_at_the_end_of_a_turn() {
    let thought = |index: u32| json!({"type": "reasoning.text", "text": "t", "signature": "s", "format": "anthropic-claude-v1", "index": index});
    let kinds = |content: &str, calls: usize, indices: &[u32]| {
        let call = |id| json!({"id": format!("c{id}"), "type": "function", "function": {"name": "f", "arguments": "{}"}});
        let details: Vec<_> = indices.iter().map(|index| thought(*index)).collect();
        let (body, _) = sent(
            "claude-opus-5-5",
            json!({"messages": [
                {"role": "user", "content": "x"},
                {"role": "assistant", "content": content, "tool_calls": (0..calls).map(call).collect::<Vec<_>>(), "reasoning_details": details},
                {"role": "user", "content": "y"},
            ]}),
        );
        let blocks = body["messages"][1]["content"].as_array().cloned().unwrap_or_default();
        blocks
            .iter()
            .map(|block| block["type"].as_str().unwrap()[..2].to_owned())
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(kinds("a", 2, &[0, 2, 4]), "th te th to th to");
    assert_eq!(kinds("ab", 1, &[0, 3]), "th te th to", "two pieces of text became one");
    assert_eq!(kinds("a", 0, &[0, 5]), "th th te");
    assert_eq!(kinds("", 0, &[0]), "", "nothing but thoughts: the turn is left out");
}

#[test]
fn unsupported_content_is_refused_with_its_field() {
    for content in [
        json!([{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]),
        json!([{"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AAAA"}}]),
        json!([{"type": "file", "file": {"file_id": "file-abc"}}]),
        json!([{"type": "file", "file": {"file_id": "file_011CNha8iCJcU1wXNR6q4V8w"}}]),
        json!([{"type": "file", "file": {"file_data": "data:application/zip;base64,UEsDBP//"}}]),
    ] {
        let failure = encode(json!({"messages": [{"role": "user", "content": content}]})).unwrap_err();
        assert_eq!(
            (failure.kind, failure.code.as_deref()),
            (FailureKind::Unsupported, Some("unsupported_value"))
        );
        assert!(failure.message.starts_with("Invalid 'messages': "), "{failure}");
    }
}

#[test]
fn legacy_functions_and_text_completions_are_chats() {
    let encoded = encode(json!({
        "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}}, {"role": "function", "name": "f", "content": "r"}],
        "functions": [{"name": "f", "parameters": {"type": "object"}}], "function_call": "auto",
    }))
    .unwrap();
    let sent = body(&encoded);
    assert!(encoded.reading.function_call);
    assert_eq!(sent["tool_choice"], json!({"type": "auto", "disable_parallel_tool_use": true}));
    assert_eq!(sent["messages"][1]["content"][0]["id"], sent["messages"][2]["content"][0]["tool_use_id"]);
    let request = json!({"model": "a/b", "prompt": ["one", "two"], "echo": true, "max_tokens": 3});
    let request = parse_completion(Bytes::from(request.to_string()), &RequestLimits::default()).unwrap();
    let share = ChoiceRange { n: 1, prompts: 1..2, from: 0 };
    let encoded =
        crate::adapters::anthropic::adapter().completion(&request, &share, &target("claude-opus-5")).unwrap();
    assert_eq!(
        body(&encoded)["messages"],
        json!([{"role": "user", "content": [{"type": "text", "text": "two"}]}])
    );
    assert_eq!(encoded.reading.echo.as_deref(), Some("two"));
}

proptest::proptest! {
    #[test]
    fn any_conversation_becomes_valid_messages(
        turns in proptest::collection::vec((0..4_u8, "[ a漢\n]{0,4}", 0..3_usize), 0..12),
    ) {
        let mut messages = Vec::new();
        for (role, text, calls) in turns {
            messages.push(match role {
                0 => json!({"role": "user", "content": text}),
                1 => json!({"role": "system", "content": text}),
                2 => json!({"role": "tool", "tool_call_id": format!("c{calls}"), "content": text}),
                _ => {
                    let call = |id| json!({"id": format!("c{id}"), "type": "function", "function": {"name": "f", "arguments": text}});
                    json!({"role": "assistant", "content": text, "tool_calls": (0..calls).map(call).collect::<Vec<_>>()})
                }
            });
        }
        messages.push(json!({"role": "user", "content": "end"}));
        let sent = body(&encode(json!({"messages": messages})).unwrap());
        let mut expected = "user";
        let mut open: Vec<Value> = Vec::new();
        for message in sent["messages"].as_array().unwrap() {
            proptest::prop_assert_eq!(message["role"].as_str(), Some(expected));
            expected = if expected == "user" { "assistant" } else { "user" };
            let blocks = message["content"].as_array().unwrap();
            proptest::prop_assert!(!blocks.is_empty());
            for block in blocks {
                proptest::prop_assert!(block["text"].as_str().is_none_or(|text| !text.trim().is_empty()));
            }
            let ids = |member: &str| blocks.iter().map(|block| block[member].clone()).filter(|id| !id.is_null()).collect::<Vec<_>>();
            proptest::prop_assert_eq!(&ids("tool_use_id"), &open);
            open = if message["role"] == "assistant" { ids("id") } else { Vec::new() };
        }
        proptest::prop_assert!(open.is_empty());
    }
}
