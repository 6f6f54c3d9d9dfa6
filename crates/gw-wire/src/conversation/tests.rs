//! Reading conversations: turns, parts, ids.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::json;

use super::{
    Content, Conversation, Format, Role, Source, ToolChoice, Turn, UserItem, alphanumeric_id, converse_id,
    split_thought, word_id,
};
use crate::request::{ChatRequest, RequestLimits, parse_chat};

fn request(mut body: serde_json::Value) -> ChatRequest {
    body["model"] = json!("m");
    parse_chat(Bytes::from(body.to_string()), &RequestLimits::default()).unwrap()
}

fn shape(turns: &[Turn<'_, '_>]) -> String {
    let item = |item: &UserItem<'_, '_>| match item {
        UserItem::Result { id, name, message } => {
            format!("{name}#{id}={}", message.map_or_else(|| "?".to_owned(), |message| message.text()))
        }
        UserItem::Part(part) => match &part.content {
            Content::Text(text) => text.to_string(),
            other => format!("{other:?}"),
        },
    };
    let turn = |turn: &Turn<'_, '_>| match turn {
        Turn::User(items) => format!("U[{}]", items.iter().map(item).collect::<Vec<_>>().join(" ")),
        Turn::Assistant(messages) => format!("A{}", messages.len()),
    };
    turns.iter().map(turn).collect::<Vec<_>>().join(" ")
}

#[test]
fn turns_alternate_and_results_stand_first_in_the_order_of_the_calls() {
    let call = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let request = request(json!({ "messages": [
        {"role": "system", "content": "S1"},
        {"role": "user", "content": "hi"},
        {"role": "developer", "content": [{"type": "text", "text": "S2"}]},
        {"role": "user", "content": "you"},
        {"role": "assistant", "content": null, "tool_calls": [call("a", "f"), call("b", "g"), call("c", "h")]},
        {"role": "tool", "tool_call_id": "b", "content": "2"},
        {"role": "tool", "tool_call_id": "zzz", "content": "stray"},
        {"role": "tool", "tool_call_id": "a", "content": [{"type": "text", "text": "1"}]},
        {"role": "user", "content": "go on"},
        {"role": "assistant", "content": "x"},
        {"role": "assistant", "content": "y", "tool_calls": [call("d", "f")]},
    ] }));
    let conversation = Conversation::of_chat(&request, 1);
    let system: Vec<_> = conversation.system().map(|(text, _)| text).collect();
    assert_eq!(system, ["S1", "S2"]);
    assert_eq!(shape(&conversation.turns()), "U[hi you] A1 U[f#a=1 g#b=2 h#c=? stray go on] A2 U[f#d=?]");
    let named = conversation.messages.iter().find(|message| message.tool_call_id == "b").unwrap();
    assert_eq!(named.name.as_deref(), Some("g"));
}

#[test]
fn content_parts_formats_choices_and_limits_are_read() {
    let request = request(json!({
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}},
            {"type": "image_url", "image_url": {"url": "data:image/PNG;x=y;base64,AAAA"}},
            {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
            {"type": "file", "file": {"file_data": "data:application/pdf;base64,QUJD", "filename": "a.pdf"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "input_audio", "input_audio": {"data": "AA==", "format": "wav"}},
        ]}],
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}, "strict": true}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": false,
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        "stop": "END", "seed": -9_007_199_254_740_991_i64, "temperature": 0.5, "top_p": 1,
        "logprobs": true, "top_logprobs": 3, "max_tokens": 5, "max_completion_tokens": 7, "user": "u",
    }));
    let conversation = Conversation::of_chat(&request, 2);
    let parts = &conversation.messages[0].parts;
    assert_eq!(parts[0].cache_control.unwrap().text(), r#"{"type":"ephemeral"}"#);
    let Content::Image(Source::Data { media_type, base64 }) = &parts[1].content else { panic!() };
    assert_eq!((media_type.as_str(), &**base64), ("image/png", "AAAA"));
    assert!(matches!(&parts[2].content, Content::Image(Source::Url(url)) if url == "https://x/y.png"));
    assert!(matches!(&parts[3].content, Content::File { name: Some(name), .. } if name == "a.pdf"));
    assert!(matches!(&parts[4].content, Content::File { source: Source::Id(id), .. } if id == "file-1"));
    assert!(matches!(&parts[5].content, Content::Audio { format, .. } if format == "wav"));
    assert_eq!(conversation.tool_choice, ToolChoice::Named("f".into()));
    assert_eq!((conversation.parallel_tool_calls, conversation.n), (Some(false), 2));
    assert!(matches!(&conversation.format, Format::Schema { name, .. } if name == "n"));
    assert_eq!((conversation.stop.len(), conversation.seed), (1, Some(-9_007_199_254_740_991)));
    assert_eq!((conversation.logprobs, conversation.max_tokens), (Some(3), Some(7)));
    assert_eq!((conversation.temperature, conversation.top_p), (Some(0.5), Some(1.0)));
}

#[test]
fn a_data_url_without_base64_is_decoded() {
    for (url, expected) in [
        ("data:image/svg+xml,%3Csvg%2F%3E", ("image/svg+xml", "PHN2Zy8+")),
        ("data:image/png,%89PNG", ("image/png", "iVBORw==")),
        ("data:,a%", ("", "YSU=")),
        ("data:image/png;BASE64,iVBORw==", ("image/png", "iVBORw==")),
    ] {
        let part = json!({"type": "image_url", "image_url": {"url": url}});
        let request = request(json!({ "messages": [{"role": "user", "content": [part]}] }));
        let conversation = Conversation::of_chat(&request, 1);
        let Content::Image(Source::Data { media_type, base64 }) = &conversation.messages[0].parts[0].content
        else {
            panic!("{url}")
        };
        assert_eq!((media_type.as_str(), &**base64), expected, "{url}");
    }
}

#[test]
fn legacy_functions_become_tools_with_matched_results() {
    let request = request(json!({
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "[1"}},
            {"role": "function", "name": "f", "content": "r"},
        ],
        "functions": [{"name": "f"}], "function_call": {"name": "f"},
    }));
    let conversation = Conversation::of_chat(&request, 1);
    assert!(conversation.legacy_functions);
    assert_eq!(conversation.tool_choice, ToolChoice::Named("f".into()));
    assert_eq!(conversation.messages[2].role, Role::Tool);
    assert_eq!(shape(&conversation.turns()), "U[x] A1 U[f#call_function_1=r]");
    let arguments = conversation.messages[1].tool_calls[0].arguments_object();
    assert_eq!(arguments, r#"{"input":"[1"}"#);
}

#[test]
fn custom_tools_become_functions_with_one_string() {
    let request = request(json!({
        "messages": [
            {"role": "user", "content": "x"},
            {"role": "assistant", "tool_calls": [{"id": "a", "type": "custom", "custom": {"name": "run", "input": "\"1\"\n"}}]},
        ],
        "tools": [
            {"type": "custom", "custom": {"name": "run", "description": "Runs.", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "a+"}}}},
            {"type": "custom", "custom": {"name": "plain", "format": {"type": "text"}}},
        ],
        "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [{"type": "custom", "custom": {"name": "run"}}]}},
    }));
    assert_eq!(request.needs.openai_only, None);
    let conversation = Conversation::of_chat(&request, 1);
    let [run, plain] = &conversation.tools[..] else { panic!() };
    assert!(run.custom && plain.custom && plain.description.is_none());
    assert_eq!(run.description.as_deref(), Some("Runs.\n\nThe input must match this regex grammar:\na+"));
    assert!(run.parameters.unwrap().text().contains(r#""required":["input"]"#));
    assert_eq!(conversation.messages[1].tool_calls[0].arguments, r#"{"input":"\"1\"\n"}"#);
    assert_eq!(conversation.tool_choice, ToolChoice::Required);
    assert_eq!(conversation.allowed_tools, Some(vec!["run".into()]));
}

#[test]
fn valid_ids_lose_only_their_signature() {
    assert_eq!(word_id("call_abc-1"), "call_abc-1");
    assert_eq!(word_id("call_1__thought__c2ln"), "call_1");
    assert_eq!(converse_id("functions.look:0"), "functions.look:0");
    assert!(word_id("functions.look:0").starts_with("call_") && converse_id("a b").starts_with("call_"));
    assert_eq!(alphanumeric_id("abc123XYZ"), "abc123XYZ");
    assert_eq!(split_thought("a__thought__s/+="), ("a", Some("s/+=")));
    assert_eq!(split_thought("a"), ("a", None));
}

proptest! {
    #[test]
    fn ids_are_mapped_to_legal_ones_deterministically(id in any::<String>()) {
        let word = word_id(&id);
        prop_assert!(!word.is_empty() && word.len() <= 64);
        prop_assert!(word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'));
        let nine = alphanumeric_id(&id);
        prop_assert!(nine.len() == 9 && nine.bytes().all(|byte| byte.is_ascii_alphanumeric()));
        prop_assert_eq!(&word, &word_id(&id));
        prop_assert_eq!(&nine, &alphanumeric_id(&id));
    }
}

#[test]
fn a_result_stands_behind_each_call_and_messages_in_order_stay() {
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": id, "arguments": "{}"}});
    let result = |id: &str| json!({"role": "tool", "tool_call_id": id, "content": id});
    let story = |messages: serde_json::Value| {
        let request = request(json!({ "messages": messages }));
        let mut conversation = Conversation::of_chat(&request, 1);
        conversation.answer_calls();
        let line = |message: &super::Message<'_>| match message.tool_calls.len() {
            0 => format!("{}={}", message.tool_call_id, message.text()),
            calls => format!("calls {calls}"),
        };
        conversation.messages.iter().map(line).collect::<Vec<_>>()
    };
    let user = json!({"role": "user", "content": "go"});
    let calling = |ids: &[&str]| json!({"role": "assistant", "tool_calls": ids.iter().map(|id| call(id)).collect::<Vec<_>>()});
    let kept = story(json!([calling(&["a", "b"]), result("b"), result("x"), result("a"), user]));
    assert_eq!(kept, ["calls 2", "b=b", "x=x", "a=a", "=go"]);
    // Two messages of the assistant, doubled ids, and a result behind the user's message.
    let mended = story(json!([calling(&["a", "a"]), calling(&["b"]), result("a"), user, result("b")]));
    assert_eq!(mended, ["calls 2", "a=a", "a=(no result)", "calls 1", "b=b", "=go"]);
    assert_eq!(story(json!([user, calling(&["a"])])), ["=go", "calls 1", "a=(no result)"]);
}
