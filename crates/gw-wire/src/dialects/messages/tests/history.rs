//! The history of a conversation as chat messages.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{body, chat, fault};
use crate::dialects::messages::translate;
use crate::request::{RequestLimits, parse_chat};

fn messages(value: Value) -> Value {
    chat(&body(value))["messages"].take()
}

#[test]
fn a_tool_loop_keeps_thoughts_calls_and_results() {
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    let history = json!([
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "Two cities.", "signature": "sig1"},
            {"type": "redacted_thinking", "data": "enc1"},
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "toolu_1", "name": "get", "input": {"city": "Oslo"}},
            {"type": "tool_use", "id": "toolu_2", "name": "get", "input": {}}]},
        {"role": "user", "content": [
            {"type": "text", "text": "And?"},
            {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "Rain"}, image]},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "No city", "is_error": true, "cache_control": {"type": "ephemeral"}}]},
    ]);
    insta::assert_json_snapshot!("tool_loop", messages(history));
}

#[test]
fn an_unusual_order_of_blocks_is_kept() {
    let history = json!([
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": [
            {"type": "thinking", "thinking": "a", "signature": "s1"},
            {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
            {"type": "thinking", "thinking": "b", "signature": "s2"},
            {"type": "text", "text": "Äh"}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]},
    ]);
    let assistant = &messages(history)[1];
    assert_eq!(assistant["reasoning_content"], "ab");
    let details = assistant["reasoning_details"].as_array().unwrap();
    assert_eq!(details.len(), 3);
    assert_eq!(details[2]["order"], "r1 s c r1 s t3");
    let plain = json!([{"role": "assistant", "content": [{"type": "thinking", "thinking": "a", "signature": ""}, {"type": "text", "text": "b"}]}]);
    let order = json!([{"type": "gateway.order", "order": "r1 t1"}]);
    assert_eq!(
        messages(plain),
        json!([{"role": "assistant", "content": "b", "reasoning_content": "a", "reasoning_details": order}])
    );
}

#[test]
fn messages_with_the_same_role_are_merged_and_a_prefill_stays_last() {
    let history = json!([
        {"role": "user", "content": "a"},
        {"role": "user", "content": [{"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c"},
        {"role": "assistant", "content": "d"},
    ]);
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let expected = json!([{"role": "user", "content": parts}, {"role": "assistant", "content": "c\n\nd"}]);
    assert_eq!(messages(history), expected);
}

#[test]
fn system_texts_inside_a_conversation_stay_in_place() {
    let history = json!([
        {"role": "user", "content": [
            {"type": "text", "text": "a"},
            {"type": "mid_conv_system", "content": [{"type": "text", "text": "s"}]},
            {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c"},
        {"role": "system", "content": "t"},
        {"role": "user", "content": "d"},
    ]);
    let roles: Vec<(Value, Value)> = messages(history)
        .as_array()
        .unwrap()
        .iter()
        .map(|message| (message["role"].clone(), message["content"].clone()))
        .collect();
    let expected =
        [("user", "a"), ("system", "s"), ("user", "b"), ("assistant", "c"), ("system", "t"), ("user", "d")];
    assert_eq!(roles, expected.map(|(role, text)| (json!(role), json!(text))));
}

#[test]
fn calls_and_results_must_match() {
    let use_of = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {}});
    let result = |id: &str| json!({"type": "tool_result", "tool_use_id": id, "content": "x"});
    let with = |calls: Value, results: Value| {
        body(
            json!([{"role": "user", "content": "Hi"}, {"role": "assistant", "content": calls}, {"role": "user", "content": results}]),
        )
    };
    let text = json!({"type": "text", "text": "a"});
    assert_eq!(
        fault(&body(json!([{"role": "user", "content": [text, result("t9")]}]))),
        "messages.0.content.1: unexpected `tool_use_id` found in `tool_result` blocks: t9. Each `tool_result` block must \
         have a corresponding `tool_use` block in the previous message."
    );
    assert_eq!(
        fault(&with(json!([use_of("t1"), use_of("t2")]), json!([result("t1")]))),
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t2. Each `tool_use` block \
         must have a corresponding `tool_result` block in the next message."
    );
    assert!(
        fault(&with(json!([use_of("t1")]), json!([result("t1"), result("t1")])))
            .starts_with("messages.2.content.1: each tool_use must have a single result.")
    );
    let wrong = json!([{"type": "tool_use", "id": "t1", "name": "f", "input": "x"}]);
    assert_eq!(
        fault(&with(wrong, json!([]))),
        "messages.1.content.0.tool_use.input: Input should be a valid dictionary"
    );
}

#[test]
fn a_generated_image_goes_back_as_one() {
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "YQ=="}});
    let got =
        messages(json!([{"role": "assistant", "content": [image]}, {"role": "user", "content": "Bluer"}]));
    assert_eq!(got[0]["images"][0]["image_url"]["url"], "data:image/png;base64,YQ==");
}

/// One turn of each side.
fn turn() -> impl Strategy<Value = Vec<Value>> {
    let word = "[a-z\\n\"é]{1,6}";
    let user = prop_oneof![
        word.prop_map(|text| json!(text)),
        (word, word).prop_map(|(one, two)| json!([{"type": "text", "text": one}, {"type": "text", "text": two}])),
        word.prop_map(|text| json!([{"type": "image", "source": {"type": "url", "url": format!("https://x/{}", text.len())}}])),
    ];
    let assistant = prop_oneof![
        word.prop_map(|text| json!(text)),
        (word, word).prop_map(|(thought, text)| json!([
            {"type": "thinking", "thinking": thought, "signature": "s"}, {"type": "text", "text": text}])),
        word.prop_map(|text| json!([{"type": "redacted_thinking", "data": text}, {"type": "text", "text": "x"}])),
        word.prop_map(|text| json!([{"type": "text", "text": text}, {"type": "tool_use", "id": "t", "name": "f", "input": {"a": text}}])),
    ];
    (user, assistant, any::<bool>()).prop_map(|(user, assistant, is_error)| {
        let calls = assistant.to_string().contains("tool_use");
        let mut turn = vec![json!({"role": "user", "content": user}), json!({"role": "assistant", "content": assistant})];
        if calls {
            turn.push(json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "r", "is_error": is_error}]}));
            turn.push(json!({"role": "assistant", "content": "Done."}));
        }
        turn
    })
}

fn chat_messages(messages: &[Value]) -> String {
    let body = body(Value::from(messages.to_vec())).to_string();
    let request = translate(Bytes::from(body), &RequestLimits::default()).unwrap();
    parse_chat(Bytes::from(request.chat.clone()), &RequestLimits::default()).unwrap();
    let chat = String::from_utf8(request.chat).unwrap();
    let start = chat.find("\"messages\":[").unwrap() + "\"messages\":[".len();
    let end = chat.find("],\"max_completion_tokens\"").unwrap();
    chat[start..end].to_owned()
}

proptest! {
    #[test]
    fn a_longer_history_begins_with_the_bytes_of_the_shorter_one(turns in prop::collection::vec(turn(), 1..6)) {
        let mut messages = Vec::new();
        let mut former = String::new();
        for turn in turns {
            messages.extend(turn);
            let now = chat_messages(&messages);
            prop_assert!(now.starts_with(&former), "{former}\n{now}");
            prop_assert_eq!(chat_messages(&messages), now.clone());
            former = now;
        }
    }
}
