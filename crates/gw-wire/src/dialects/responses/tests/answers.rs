//! Complete answers, and the members of the response object.

use serde_json::value::RawValue;

use super::*;
use crate::dialects::AnswerForm;
use crate::render::Envelope;
use crate::reply::{ChatChoice, ChatReply, ToolCall};

pub(super) fn written(context: &ResponsesContext, reply: &ChatReply<'_>) -> Value {
    let gateway = meta();
    let envelope = Envelope {
        id: "resp_01",
        created: 1_790_000_000,
        model: "m",
        fingerprint: "",
        usage: usage(),
        cost: Some(Money::ZERO),
        gateway: &gateway,
    };
    serde_json::from_slice(&context.write(reply, &envelope)).unwrap()
}

fn reply(choice: ChatChoice<'_>) -> ChatReply<'_> {
    ChatReply { choices: vec![choice], ..ChatReply::default() }
}

#[test]
fn an_answer_of_every_part() {
    let details = json!([
        {"type": "reasoning.text", "text": "a", "signature": "s1"},
        {"type": "reasoning.text", "text": "b", "signature": "s2"}
    ]);
    let details = RawValue::from_string(details.to_string()).unwrap();
    let choice = ChatChoice {
        content: Some("x".into()),
        reasoning: Some("a\nb".into()),
        refusal: Some("no".into()),
        tool_calls: vec![
            ToolCall { id: "c".into(), name: "f".into(), arguments: "".into(), custom: false },
            ToolCall { id: "d".into(), name: "p".into(), arguments: "in".into(), custom: true },
        ],
        extras: vec![("reasoning_details".into(), Cow::Owned(details))],
        finish: Some(Finish::ToolCalls),
        ..ChatChoice::default()
    };
    insta::assert_json_snapshot!(
        "an_answer_of_every_part",
        written(&plain_context(), &reply(choice))["output"]
    );
}

#[test]
fn a_plain_answer_has_no_member_of_the_gateway() {
    let choice =
        ChatChoice { content: Some("x".into()), finish: Some(Finish::Stop), ..ChatChoice::default() };
    let own = written(&plain_context(), &reply(choice.clone()));
    assert_eq!(own["gateway"]["provider"], "acme");
    assert!(own["usage"].get("cost_usd").is_some());
    let plain = written(&plain_context().with_plain(true).with_stored(false), &reply(choice));
    assert!(plain.get("gateway").is_none() && plain["usage"].get("cost_usd").is_none());
    assert_eq!(plain["store"], false);
    assert_eq!(plain["completed_at"], 1_790_000_002);
}

#[test]
fn the_response_repeats_the_request() {
    let request = json!({
        "model": "m", "input": "q", "instructions": "i\nj", "max_output_tokens": 20, "max_tool_calls": 3, "temperature": 0.5,
        "top_p": 0.9, "top_logprobs": 2, "metadata": {"a": "b"}, "parallel_tool_calls": false, "truncation": "auto",
        "reasoning": {"effort": "low", "generate_summary": "auto"}, "service_tier": "auto", "prompt_cache_key": "k",
        "safety_identifier": "s", "user": "u", "store": false, "text": {"format": {"type": "json_object"}},
        "tools": [{"type": "function", "name": "f"}, {"type": "web_search"}], "tool_choice": {"type": "function", "name": "f"}
    });
    let context = context(&request);
    let empty = reply(ChatChoice { finish: Some(Finish::Stop), ..ChatChoice::default() });
    insta::assert_json_snapshot!("the_response_repeats_the_request", written(&context, &empty));
    let pending: Value = serde_json::from_slice(&context.write_pending(&opening(), "queued")).unwrap();
    assert_eq!((&pending["status"], &pending["output"]), (&json!("queued"), &json!([])));
}

#[test]
fn a_response_has_every_member_that_strict_clients_need() {
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
    let (stream, _) = encoded(&plain_context(), &[text("x")], Finish::Stop);
    for frame in frames(&stream).iter().filter(|frame| frame.get("response").is_some()) {
        let response = frame["response"].as_object().unwrap();
        assert!(MEMBERS.iter().all(|name| response.contains_key(*name)), "{frame}");
    }
}
