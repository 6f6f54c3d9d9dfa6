//! Complete answers.

use std::borrow::Cow;

use serde_json::{Value, json};

use super::{meta, raw, usage};
use crate::dialects::AnswerForm;
use crate::dialects::messages::{MessagesContext, ThinkingDisplay};
use crate::money::Money;
use crate::render::Envelope;
use crate::reply::{ChatChoice, ChatReply, Finish, Image, ToolCall};

/// The answer with this choice.
pub(super) fn written(choice: ChatChoice<'_>, context: &MessagesContext) -> Value {
    let reply = ChatReply { model: Some("m-1".into()), choices: vec![choice], ..ChatReply::default() };
    let gateway = meta();
    let envelope = Envelope {
        id: "msg_1",
        created: 1,
        model: "m-0",
        fingerprint: "",
        usage: usage(),
        cost: Some(Money::from_femtos(5)),
        gateway: &gateway,
    };
    let body = context.write(&reply, &envelope);
    serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&body)))
}

fn tool_call<'a>(id: &'a str, arguments: &'a str) -> ToolCall<'a> {
    ToolCall { id: id.into(), name: "f".into(), arguments: arguments.into(), custom: false }
}

#[test]
fn every_part_of_an_answer_has_its_block() {
    let details = json!([{"type": "reasoning.text", "text": "ab", "signature": "s", "format": "x", "index": 0},
                         {"type": "reasoning.encrypted", "data": "e", "index": 1}]);
    let annotations = json!([{"type": "url_citation", "url_citation": {"url": "https://a", "title": "A", "start_index": 0, "end_index": 2, "content": "q"}}]);
    let choice = ChatChoice {
        content: Some("Hi \"you\"\n".into()),
        reasoning: Some("ab".into()),
        tool_calls: vec![tool_call("toolu_1", "{\"a\":\n1}"), tool_call("", ""), tool_call("c", "no json")],
        images: vec![Image { media_type: "image/png".into(), base64: "YQ==".into(), tokens: 1 }],
        extras: vec![
            ("reasoning_details".into(), Cow::Owned(raw(&details))),
            ("annotations".into(), Cow::Owned(raw(&annotations))),
        ],
        finish: Some(Finish::ToolCalls),
        ..ChatChoice::default()
    };
    insta::assert_json_snapshot!("complete_answer", written(choice, &MessagesContext::default()));
}

#[test]
fn citations_belong_to_the_last_text() {
    let annotations = json!([{"type": "url_citation", "url_citation": {"url": "https://a", "title": "A"}}, {"type": "url_citation", "url_citation": {"id": "0"}}]);
    let choice = ChatChoice {
        content: Some("Hi".into()),
        extras: vec![("annotations".into(), Cow::Owned(raw(&annotations)))],
        ..ChatChoice::default()
    };
    let expected = json!([{"type": "text", "text": "Hi", "citations": [
        {"type": "web_search_result_location", "url": "https://a", "title": "A", "cited_text": "", "encrypted_index": ""}]}]);
    assert_eq!(written(choice, &MessagesContext::default())["content"], expected);
}

#[test]
fn stop_reasons_follow_the_answer() {
    let reason = |finish: Option<Finish>, calls: usize, refusal: Option<&'static str>| {
        let choice = ChatChoice {
            content: Some("x".into()),
            refusal: refusal.map(Cow::Borrowed),
            tool_calls: (0..calls).map(|_| tool_call("t", "{}")).collect(),
            finish,
            ..ChatChoice::default()
        };
        let got = written(choice, &MessagesContext::default());
        (got["stop_reason"].as_str().unwrap().to_owned(), got["stop_details"].clone())
    };
    let plain = |word: &str| (word.to_owned(), Value::Null);
    assert_eq!(reason(Some(Finish::Stop), 0, None), plain("end_turn"));
    assert_eq!(reason(None, 0, None), plain("end_turn"));
    assert_eq!(reason(Some(Finish::Stop), 1, None), plain("tool_use"));
    assert_eq!(reason(Some(Finish::ToolCalls), 0, None), plain("end_turn"));
    assert_eq!(reason(Some(Finish::Length), 1, None), plain("max_tokens"));
    let details = |text: Value| json!({"type": "refusal", "category": null, "explanation": text});
    assert_eq!(reason(Some(Finish::ContentFilter), 0, None), ("refusal".into(), details(Value::Null)));
    assert_eq!(reason(Some(Finish::Stop), 0, Some("No.")), ("refusal".into(), details(json!("No."))));
}

#[test]
fn a_refusal_is_a_text_block() {
    let choice =
        ChatChoice { refusal: Some("No.".into()), finish: Some(Finish::Stop), ..ChatChoice::default() };
    assert_eq!(
        written(choice, &MessagesContext::default())["content"],
        json!([{"type": "text", "text": "No."}])
    );
    assert_eq!(written(ChatChoice::default(), &MessagesContext::default())["content"], json!([]));
}

#[test]
fn the_recorded_order_of_blocks_is_used() {
    let content = |order: &str| {
        let details = json!([{"type": "reasoning.text", "text": "a", "signature": "s1"}, {"type": "reasoning.text", "text": "b", "signature": "s2"},
                             {"type": "gateway.order", "order": order}]);
        let choice = ChatChoice {
            content: Some("xyz".into()),
            reasoning: Some("ab".into()),
            tool_calls: vec![tool_call("t", "{}")],
            extras: vec![("reasoning_details".into(), Cow::Owned(raw(&details)))],
            ..ChatChoice::default()
        };
        let got = written(choice, &MessagesContext::default());
        let blocks = got["content"].as_array().unwrap().iter();
        let kinds: Vec<String> = blocks
            .map(|block| match block["type"].as_str().unwrap() {
                "text" => block["text"].as_str().unwrap().to_owned(),
                "thinking" => block["signature"].as_str().unwrap().to_owned(),
                other => other.to_owned(),
            })
            .collect();
        kinds.join(" ")
    };
    assert_eq!(content("d c t1 d t2"), "s1 tool_use x s2 yz");
    assert_eq!(content("d c t1"), "s1 s2 xyz tool_use", "an order that does not fit");
}

#[test]
fn thinking_is_shown_as_the_client_asked() {
    let choice = || {
        let details = json!([{"type": "reasoning.text", "text": "ab", "signature": "s"}]);
        ChatChoice {
            content: Some("x".into()),
            reasoning: Some("ab".into()),
            extras: vec![("reasoning_details".into(), Cow::Owned(raw(&details)))],
            ..ChatChoice::default()
        }
    };
    let with =
        |thinking| written(choice(), &MessagesContext { thinking, ..Default::default() })["content"].take();
    let text = json!({"type": "text", "text": "x"});
    let thought = |text: &str| json!({"type": "thinking", "thinking": text, "signature": "s"});
    assert_eq!(with(ThinkingDisplay::Shown), json!([thought("ab"), text]));
    assert_eq!(with(ThinkingDisplay::Omitted), json!([thought(""), text]));
    assert_eq!(with(ThinkingDisplay::Hidden), json!([text]));
}

#[test]
fn a_plain_answer_has_no_members_of_the_gateway() {
    let got = written(ChatChoice::default(), &MessagesContext::default().with_plain(true));
    assert_eq!((got.get("gateway"), got["usage"].get("cost_usd")), (None, None));
}

#[test]
fn an_answer_is_cut_at_a_further_stop_sequence() {
    let context = MessagesContext { extra_stops: ["END".to_owned()].into(), ..Default::default() };
    let choice = ChatChoice {
        content: Some("one END two".into()),
        tool_calls: vec![tool_call("t", "{}")],
        ..ChatChoice::default()
    };
    let got = written(choice, &context);
    assert_eq!(got["content"], json!([{"type": "text", "text": "one "}]));
    assert_eq!((&got["stop_reason"], &got["stop_sequence"]), (&json!("stop_sequence"), &json!("END")));
}
