//! Answers that are converted back, complete and in pieces.

use std::borrow::Cow;

use gw_wire::event::Event;
use gw_wire::reply::{ChatChoice, ChatReply, Finish, ToolCall};
use proptest::prelude::*;

use super::{Fence, ShapingState, without_fence};
use crate::adapter::Reading;

/// The events of a stream as text.
fn played(reading: Reading, events: Vec<Event<'_>>) -> String {
    let mut shape = ShapingState { reading, ..ShapingState::default() };
    let mut out = String::new();
    for event in events {
        shape.event(event, &mut |event| {
            out.push_str(&match event {
                Event::Text { text, .. } => format!("t:{text} "),
                Event::ToolStart { call, name, .. } => format!("call{call}:{name} "),
                Event::ToolArgs { call, fragment, .. } => format!("args{call}:{fragment} "),
                Event::FunctionCall { name, arguments, .. } => format!("f:{name:?}{arguments:?} "),
                Event::Finish { reason, .. } => format!("end:{} ", reason.as_str()),
                other => format!("{other:?} "),
            });
        });
    }
    out
}

fn start(call: u32, name: &str) -> Event<'_> {
    Event::ToolStart { choice: 0, call, id: Cow::Borrowed("x"), name: Cow::Borrowed(name) }
}

fn args(call: u32, fragment: &str) -> Event<'_> {
    Event::ToolArgs { choice: 0, call, fragment: Cow::Borrowed(fragment) }
}

fn text(text: &str) -> Event<'_> {
    Event::Text { choice: 0, text: Cow::Borrowed(text), logprobs: None }
}

fn finish(reason: Finish) -> Event<'static> {
    Event::Finish { choice: 0, reason }
}

#[test]
fn text_before_a_json_tool_is_dropped() {
    let reading = Reading { json_tool: Some("out".to_owned()), ..Reading::default() };
    let call = vec![
        text("Let me "),
        text("see. "),
        start(0, "out"),
        args(0, "{}"),
        text("aside"),
        finish(Finish::ToolCalls),
    ];
    assert_eq!(played(reading.clone(), call), "t:{} end:stop ");
    let refusal = vec![text("I will "), text("not."), finish(Finish::ContentFilter)];
    assert_eq!(played(reading.clone(), refusal), "t:I will not. end:content_filter ");
    let other = vec![text("Hm."), start(0, "f"), args(0, "{}"), finish(Finish::ToolCalls)];
    assert_eq!(played(reading.clone(), other), "call0:f args0:{} t:Hm. end:tool_calls ");
    let long = "x".repeat(super::MAX_ASIDE_BYTES);
    let talk = vec![text(&long), text("y"), text("z"), finish(Finish::Stop)];
    assert_eq!(played(reading, talk), format!("t:{long}y t:z end:stop "));
}

#[test]
fn an_empty_answer_is_echoed_too() {
    let reading = Reading { echo: Some("Say".to_owned()), ..Reading::default() };
    assert_eq!(played(reading.clone(), vec![finish(Finish::Length)]), "t:Say end:length ");
    assert_eq!(played(reading, vec![text("it"), finish(Finish::Stop)]), "t:Say t:it end:stop ");
}

#[test]
fn the_input_of_a_json_tool_is_the_answer() {
    let reading = Reading { json_tool: Some("out".to_owned()), ..Reading::default() };
    let events =
        vec![start(0, "out"), args(0, "{\"a\":"), text("aside"), args(0, "1}"), finish(Finish::ToolCalls)];
    assert_eq!(played(reading.clone(), events), "t:{\"a\": t:1} end:stop ");
    let mut reply = ChatReply {
        choices: vec![ChatChoice {
            content: Some("aside".into()),
            tool_calls: vec![ToolCall {
                id: "".into(),
                name: "out".into(),
                arguments: "{\"a\":1}".into(),
                custom: false,
            }],
            finish: Some(Finish::ToolCalls),
            ..ChatChoice::default()
        }],
        ..ChatReply::default()
    };
    super::reply(&mut reply, &reading);
    assert_eq!(reply.choices[0].content.as_deref(), Some("{\"a\":1}"));
    assert_eq!(reply.choices[0].finish, Some(Finish::Stop));
    assert!(reply.choices[0].tool_calls.is_empty());
}

#[test]
fn the_first_call_of_a_json_tool_is_the_answer() {
    let reading = Reading { json_tool: Some("out".to_owned()), ..Reading::default() };
    let events =
        vec![start(0, "out"), args(0, "{}"), start(1, "out"), args(1, "[1]"), finish(Finish::ToolCalls)];
    assert!(played(reading.clone(), events).starts_with("t:{} "), "the second call is no text");
    let call = |arguments: &'static str| ToolCall {
        id: "".into(),
        name: "out".into(),
        arguments: arguments.into(),
        custom: false,
    };
    let mut reply = ChatReply {
        choices: vec![ChatChoice {
            tool_calls: vec![call("{}"), call("[1]")],
            finish: Some(Finish::ToolCalls),
            ..ChatChoice::default()
        }],
        ..ChatReply::default()
    };
    super::reply(&mut reply, &reading);
    let choice = &reply.choices[0];
    assert_eq!((choice.content.as_deref(), choice.finish), (Some("{}"), Some(Finish::Stop)));
    assert!(choice.tool_calls.is_empty());
}

#[test]
fn a_call_beside_a_json_tool_stays_a_call() {
    let reading = Reading { json_tool: Some("out".to_owned()), ..Reading::default() };
    let events = vec![start(1, "real"), args(1, "{}"), finish(Finish::ToolCalls)];
    assert_eq!(played(reading, events), "call1:real args1:{} end:tool_calls ");
}

#[test]
fn legacy_functions_are_answered_as_one_function_call() {
    let reading = Reading { function_call: true, ..Reading::default() };
    let events = vec![start(0, "f"), args(0, "{}"), start(1, "g"), args(1, "{}"), finish(Finish::ToolCalls)];
    assert_eq!(played(reading, events), "f:Some(\"f\")None f:NoneSome(\"{}\") end:function_call ");
}

#[test]
fn echo_comes_once_before_the_text() {
    let reading = Reading { echo: Some("Say ".to_owned()), ..Reading::default() };
    assert_eq!(
        played(reading, vec![text("hi"), text("!"), finish(Finish::Stop)]),
        "t:Say  t:hi t:! end:stop "
    );
}

#[test]
fn code_fences_are_removed() {
    assert_eq!(without_fence("```json\n{\"a\":1}\n```\n"), "{\"a\":1}");
    assert_eq!(without_fence("```\n[]\n```"), "[]");
    assert_eq!(without_fence("{\"a\":\"```\"}"), "{\"a\":\"```\"}");
    assert_eq!(without_fence("``` not a fence ```"), "``` not a fence ```");
    assert_eq!(without_fence("``` not a fence ```\nwith more"), "``` not a fence ```\nwith more");
    assert_eq!(without_fence("```json\n```"), "");
}

#[test]
fn text_behind_a_code_fence_is_left_out() {
    for (text, json) in [
        ("```json\n{\"a\":1}\n```\nDone.", "{\"a\":1}"),
        ("```json\n{\"a\":1}\n``` Done.", "{\"a\":1}"),
        ("```json\n{\"a\":1}```\nDone.", "{\"a\":1}"),
        ("```json\r\n{\"a\":1}\r\n  ```\r\nDone.\n```\nx\n```", "{\"a\":1}"),
        ("```json {\"a\":1} ```", "{\"a\":1}"),
        ("```json {\"a\":1} ```\nDone.", "{\"a\":1}"),
        ("```[1]```", "[1]"),
        ("```json\n{\"a\":\"```x\\n```\"}\n```\nDone.", "{\"a\":\"```x\\n```\"}"),
    ] {
        assert_eq!(without_fence(text), json, "{text}");
        let mut fence = Fence::default();
        let mut out: String =
            text.chars().map(|character| fence.push(character.encode_utf8(&mut [0; 4]))).collect();
        out.push_str(&fence.end());
        assert_eq!(out, json, "{text} in pieces");
    }
    let reading = Reading { fenced: true, ..Reading::default() };
    let pieces = vec![text("```json\n{\"a\":1}\n"), text("```\nDo"), text("ne."), finish(Finish::Stop)];
    assert_eq!(played(reading, pieces), "t:{\"a\":1} Written { bytes: 3 } end:stop ");
}

proptest! {
    /// The pieces of a text give the same result as the complete text, wherever it is cut.
    #[test]
    fn a_code_fence_is_removed_at_every_cut(cuts in proptest::collection::vec(0_usize..40, 0..6), which in 0_usize..7) {
        let (whole, inside) = [
            ("```json\n{\"a\":\"`x`\"}\n```\n", "{\"a\":\"`x`\"}"),
            ("{\"a\": 1}", "{\"a\": 1}"),
            ("  ```\n[1]\n```", "[1]"),
            ("``", "``"),
            ("```json and so on for a very long first line", "```json and so on for a very long first line"),
            ("```json\n{\"a\": 1}\n```\nDone, and more.", "{\"a\": 1}"),
            ("```json {\"a\": \"```\"} ```\nDone.", "{\"a\": \"```\"}"),
        ][which];
        let mut at: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
        at.extend([0, whole.len()]);
        at.sort_unstable();
        let mut fence = Fence::default();
        let mut out = String::new();
        for pair in at.windows(2) {
            out.push_str(&fence.push(&whole[pair[0]..pair[1]]));
        }
        out.push_str(&fence.end());
        prop_assert_eq!(out, inside);
    }
}
