//! Upstreams that speak the Messages API: the spliced request, frames and documents.

use std::borrow::Cow;

use bytes::Bytes;
use serde_json::{Value, json};

use super::{frames, meta, opening, raw, text, usage};
use crate::dialects::messages::native::{NativeHost, Signature, request_body, write_native};
use crate::dialects::messages::{MessagesContext, MessagesEncoder};
use crate::dialects::{AnswerEncoder, ClientDialect};
use crate::event::Event;
use crate::money::Money;
use crate::render::Envelope;
use crate::reply::{ChatChoice, ChatReply, Finish};
use crate::stream::Closing;

fn named(model: &str) -> NativeHost<'_> {
    NativeHost { model: Some(model), ..NativeHost::default() }
}

fn spliced(body: &str, signature: impl FnMut(&str) -> Signature) -> String {
    String::from_utf8(
        request_body(&Bytes::from(body.to_owned()), &named("up/\"m\""), signature, |_| None).body,
    )
    .unwrap()
}

#[test]
fn a_body_changes_only_where_it_must() {
    let body = r#" { "routing": {"strategy":"x"}, "model" : "claude",  "max_tokens":5 ,"cache":{"enabled":true},
        "messages" : [ {"role":"user","content":"h\u0069"} ], "unknown":{ "a" : 1.50 }, "stream" : true } "#;
    let expected = r#" { "model" : "up/\"m\"",  "max_tokens":5,
        "messages" : [ {"role":"user","content":"h\u0069"} ], "unknown":{ "a" : 1.50 }, "stream" : true } "#;
    assert_eq!(spliced(body, |_| Signature::Keep), expected);
}

#[test]
fn a_host_that_names_the_model_in_the_url_gets_its_own_members() {
    let hosted = |body: &str| {
        let members = [("anthropic_version", "\"v1\""), ("anthropic_beta", "[\"b\"]")];
        let host = NativeHost { model: None, drops_stream: true, members: &members };
        let made = request_body(&Bytes::from(body.to_owned()), &host, |_| Signature::Keep, |_| None).body;
        String::from_utf8(made).unwrap()
    };
    assert_eq!(
        hosted(r#"{ "model":"m", "max_tokens" : 5, "stream": true, "odd":[ 1.50 ] }"#),
        r#"{ "max_tokens" : 5, "odd":[ 1.50 ] ,"anthropic_version":"v1","anthropic_beta":["b"]}"#
    );
    assert_eq!(
        hosted(r#"{"model":"m","anthropic_version":"own","a":1}"#),
        r#"{"anthropic_version":"own","a":1,"anthropic_beta":["b"]}"#
    );
}

/// A tool loop with one thought.
fn tool_loop(thinking: Value, blocks: &[Value], id: &str) -> Value {
    let mut content = blocks.to_vec();
    content.push(json!({"type": "tool_use", "id": id, "name": "f", "input": {}}));
    let mut body = json!({"model": "m", "messages": [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": content},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": "x"}]},
    ]});
    body["thinking"] = thinking;
    body
}

#[test]
fn signatures_are_kept_replaced_or_dropped_with_their_block() {
    let thought = json!({"type": "thinking", "thinking": "a", "signature": "sealed"});
    let redacted = json!({"type": "redacted_thinking", "data": "foreign"});
    let request =
        tool_loop(json!({"type": "enabled", "budget_tokens": 1024}), &[thought, redacted], "toolu_1")
            .to_string();
    let decide = |seal: &str| match seal {
        "sealed" => Signature::Replace("own".to_owned()),
        _ => Signature::Drop,
    };
    let got = request_body(&Bytes::from(request), &named("m"), decide, |_| None);
    assert_eq!((got.dropped, got.is_thinking_off), (1, false));
    let body: Value = serde_json::from_slice(&got.body).unwrap();
    let blocks = body["messages"][1]["content"].as_array().unwrap();
    assert_eq!(blocks.len(), 2);
    assert_eq!(blocks[0], json!({"type": "thinking", "thinking": "a", "signature": "own"}));
}

#[test]
fn a_budget_is_turned_off_where_the_thinking_of_the_tool_loop_is_lost() {
    let thought = json!({"type": "thinking", "thinking": "a", "signature": "foreign"});
    let enabled = json!({"type": "enabled", "budget_tokens": 1024});
    let run = |thinking: &Value, blocks: &[Value], id: &str| {
        let request = tool_loop(thinking.clone(), blocks, id).to_string();
        let got = request_body(&Bytes::from(request), &named("m"), |_| Signature::Drop, |_| None);
        let body: Value = serde_json::from_slice(&got.body).unwrap();
        (got.is_thinking_off, body["thinking"].clone())
    };
    let off = json!({"type": "disabled"});
    assert_eq!(run(&enabled, std::slice::from_ref(&thought), "toolu_1"), (true, off.clone()));
    assert_eq!(run(&enabled, &[], "call_1"), (true, off), "a call of another provider");
    assert_eq!(run(&enabled, &[], "toolu_1"), (false, enabled.clone()), "the client's own body");
    let adaptive = json!({"type": "adaptive"});
    assert_eq!(run(&adaptive, &[thought], "toolu_1"), (false, adaptive.clone()));
}

#[test]
fn a_message_of_foreign_thinking_alone_is_left_out() {
    let body = r#"{"model":"m","messages":[{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"s"}]},{"role":"user","content":"b"}]}"#;
    let expected =
        r#"{"model":"up/\"m\"","messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}]}"#;
    assert_eq!(spliced(body, |_| Signature::Drop), expected);
}

#[test]
fn ids_of_calls_are_sent_as_the_caller_decides() {
    let sent = |id: &str| {
        let request = tool_loop(Value::Null, &[], id).to_string();
        let call_id = |id: &str| id.split_once("__thought__").map(|(proper, _)| proper.to_owned());
        let body = request_body(&Bytes::from(request), &named("m"), |_| Signature::Keep, call_id).body;
        let body: Value = serde_json::from_slice(&body).unwrap();
        let [call, result] = [(1, "id"), (2, "tool_use_id")].map(|(message, name)| {
            body["messages"][message]["content"][0][name].as_str().unwrap().to_owned()
        });
        assert_eq!(call, result);
        call
    };
    assert_eq!(sent("call_1__thought__gw1-abc"), "call_1");
    assert!(!sent("call.1__thought__gw1-abc").contains('.'), "the API refuses the rest");
    assert_eq!(sent("toolu_1"), "toolu_1");
}

#[test]
fn ids_and_citations_that_the_api_refuses_are_replaced() {
    let id = "call_1__thought__ab+/=";
    let cited = json!({"type": "text", "text": "a", "citations": [{"type": "web_search_result_location", "url": "u", "encrypted_index": ""}]});
    let request = tool_loop(Value::Null, &[cited], id).to_string();
    let body: Value = serde_json::from_str(&spliced(&request, |_| Signature::Keep)).unwrap();
    let new = body["messages"][1]["content"][1]["id"].as_str().unwrap();
    assert!(new.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{new}");
    assert_eq!(body["messages"][2]["content"][0]["tool_use_id"], new);
    assert_eq!(body["messages"][1]["content"][0], json!({"type": "text", "text": "a"}));
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_up","type":"message","role":"assistant","model":"claude","content":[],"usage":{"input_tokens":3}}}"#;

fn frame<'a>(name: &'a str, data: &'a str) -> Event<'a> {
    Event::Frame { dialect: ClientDialect::Messages, name, data }
}

fn closing(gateway: &crate::gateway::GatewayMeta) -> Closing<'_> {
    Closing { usage: usage(), cost: Some(Money::from_femtos(5_000_000_000)), gateway }
}

/// The stream of a native upstream; `is_sealed`: the events have sealed signatures.
fn native_stream(is_sealed: bool, plain: bool) -> String {
    let sealed = raw(&json!([{"type": "reasoning.text", "text": "Hm", "signature": "gw1.a"}]));
    let encrypted = raw(&json!([{"type": "reasoning.encrypted", "data": "gw1.b"}]));
    let mut events = vec![
        frame("message_start", START),
        Event::Start { model: Some("claude".into()), fingerprint: None },
        frame("ping", r#"{"type":"ping"}"#),
        frame(
            "content_block_start",
            r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        ),
        frame(
            "content_block_delta",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"signature_delta"}}"#,
        ),
        Event::Reasoning { choice: 0, text: "Hm".into() },
        frame(
            "content_block_delta",
            r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"up1"}}"#,
        ),
        frame("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
    ];
    if is_sealed {
        events.push(Event::Extra { choice: 0, name: "reasoning_details", value: &sealed });
    }
    events.push(frame("content_block_start", r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"up2"}}"#));
    if is_sealed {
        events.push(Event::Extra { choice: 0, name: "reasoning_details", value: &encrypted });
    }
    events.extend([
        frame("content_block_stop", r#"{"type":"content_block_stop","index":1}"#),
        frame("content_block_start", r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#),
        frame("content_block_delta", r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Hi"}}"#),
        text("Hi"),
        frame("content_block_stop", r#"{"type":"content_block_stop","index":2}"#),
        frame("message_delta", r#"{"type":"message_delta","delta":{"stop_reason":"pause_turn","stop_sequence":null},"usage":{"output_tokens":9}}"#),
        frame("message_stop", r#"{"type":"message_stop"}"#),
    ]);
    let mut encoder = MessagesEncoder::new(MessagesContext::default().with_plain(plain), opening());
    let mut out = Vec::new();
    for event in &events {
        encoder.accept(event, &mut out);
    }
    encoder.finish(Some(Finish::Stop), &closing(&meta()), &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn native_frames_go_through_with_sealed_signatures() {
    insta::assert_snapshot!("native_frames", native_stream(true, false));
}

#[test]
fn a_plain_native_stream_is_the_upstreams_own() {
    let got = frames(&native_stream(false, true));
    assert_eq!(got.len(), 12);
    assert_eq!(got[3].1["delta"]["signature"], "up1");
    assert_eq!(got[5].1["content_block"]["data"], "up2");
    assert_eq!(
        got[10].1,
        json!({"type": "message_delta", "delta": {"stop_reason": "pause_turn", "stop_sequence": null}, "usage": {"output_tokens": 9}})
    );
}

#[test]
fn frames_wait_for_a_seal_that_comes_with_the_next_text() {
    let mut encoder = MessagesEncoder::new(MessagesContext::default(), opening());
    let sealed = raw(&json!([{"type": "reasoning.text", "signature": "gw1.a"}]));
    let start = r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}"#;
    let delta = r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Hi"}}"#;
    let run = |encoder: &mut MessagesEncoder, event: &Event<'_>| {
        let mut out = Vec::new();
        encoder.accept(event, &mut out);
        frames(&String::from_utf8(out).unwrap()).into_iter().map(|(_, data)| data).collect::<Vec<_>>()
    };
    let signature =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"up1"}}"#;
    let begin = |encoder: &mut MessagesEncoder| {
        encoder.open(&mut Vec::new());
        for (name, data) in [
            ("content_block_delta", signature),
            ("content_block_stop", r#"{"type":"content_block_stop","index":0}"#),
            ("content_block_start", start),
            ("content_block_delta", delta),
        ] {
            assert_eq!(run(encoder, &frame(name, data)), Vec::<Value>::new());
        }
        assert!(encoder.held_bytes() > 300);
    };
    begin(&mut encoder);
    let got = run(&mut encoder, &Event::Extra { choice: 0, name: "reasoning_details", value: &sealed });
    assert_eq!((got.len(), &got[0]["delta"]["signature"]), (4, &json!("gw1.a")));
    assert_eq!(run(&mut encoder, &text("Hi")), Vec::<Value>::new());
    begin(&mut encoder);
    let got = run(&mut encoder, &text("Hi"));
    assert_eq!((got.len(), &got[0]["delta"]["signature"]), (4, &json!("up1")), "no seal came");
}

#[test]
fn nothing_is_written_before_the_first_content() {
    let mut encoder = MessagesEncoder::new(MessagesContext::default(), opening());
    let mut out = Vec::new();
    encoder.accept(&frame("message_start", START), &mut out);
    encoder.accept(&frame("ping", "{}"), &mut out);
    let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
    encoder.accept(&frame("content_block_start", start), &mut out);
    assert_eq!(out, b"");
    let mut copy = encoder.clone();
    let mut called = Vec::new();
    copy.accept(&super::call(0, "t", "f"), &mut called);
    let names: Vec<String> =
        frames(&String::from_utf8(called).unwrap()).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["message_start", "content_block_start"]);
    encoder.open(&mut out);
    assert_eq!(String::from_utf8(out).unwrap(), format!("event: message_start\ndata: {START}\n\n"));
}

#[test]
fn another_upstream_continues_a_native_text() {
    let mut encoder = MessagesEncoder::new(MessagesContext::default(), opening());
    let mut out = Vec::new();
    encoder.accept(&frame("message_start", START), &mut out);
    let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
    encoder.accept(&frame("content_block_start", start), &mut out);
    encoder.accept(&text("some"), &mut out);
    let begun = out.len();
    let mut copy = encoder.boxed_clone();
    copy.accept(&frame("message_start", START), &mut out);
    copy.accept(&frame("content_block_start", start), &mut out);
    copy.accept(&text("more"), &mut out);
    copy.finish(Some(Finish::Stop), &closing(&meta()), &mut out);
    let rest = String::from_utf8(out.split_off(begun)).unwrap();
    let names: Vec<String> = frames(&rest).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["content_block_delta", "content_block_stop", "message_delta", "message_stop"]);
    assert_eq!(frames(&rest)[0].1["index"], 0);
}

#[test]
fn a_native_document_gets_the_gateways_members_and_sealed_signatures() {
    let document = r#"{"id":"msg_up", "content":[{"type":"thinking","thinking":"a","signature":"up1"},{"type":"text","text":"b"},{"type":"redacted_thinking","data":"up2"}],"usage":{"input_tokens":3 }, "extra":1}"#;
    let details = json!([{"type": "reasoning.text", "text": "a", "signature": "gw1.a"}, {"type": "reasoning.encrypted", "data": "gw1.b"}, {"type": "gateway.order", "order": "d t1 d"}]);
    let choice = ChatChoice {
        extras: vec![("reasoning_details".into(), Cow::Owned(raw(&details)))],
        ..ChatChoice::default()
    };
    let reply = ChatReply { choices: vec![choice], ..ChatReply::default() };
    let gateway = meta();
    let envelope = Envelope {
        id: "msg_1",
        created: 1,
        model: "m",
        fingerprint: "",
        usage: usage(),
        cost: Some(Money::ZERO),
        gateway: &gateway,
    };
    let got = write_native(document, &reply, &envelope, &MessagesContext::default());
    insta::assert_snapshot!("native_document", String::from_utf8(got).unwrap());
    let plain = write_native(
        document,
        &ChatReply::default(),
        &envelope,
        &MessagesContext::default().with_plain(true),
    );
    assert_eq!(String::from_utf8(plain).unwrap(), document);
}

/// The estimate of `usage()` as the API writes it, with the members `more` behind the counts.
fn told(more: &Value) -> Value {
    let mut told = json!({"input_tokens": 12, "cache_creation_input_tokens": 3, "cache_read_input_tokens": 5,
        "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 0}});
    let more = more.as_object().expect("an object").clone();
    told.as_object_mut().expect("an object").extend(more);
    told
}

#[test]
fn a_native_document_without_usage_tells_the_usage_that_is_charged() {
    let gateway = meta();
    let cost = Some(Money::from_femtos(5_000_000_000));
    let envelope = Envelope {
        id: "msg_1",
        created: 1,
        model: "m",
        fingerprint: "",
        usage: usage(),
        cost,
        gateway: &gateway,
    };
    let lifetimes = json!({"ephemeral_5m_input_tokens": 3, "ephemeral_1h_input_tokens": 0});
    for usage in ["", r#","usage":null"#, r#","usage":{}"#, r#","usage":"none""#] {
        for plain in [false, true] {
            let document = format!(r#"{{"id":"msg_up","content":[]{usage},"extra":1}}"#);
            let context = MessagesContext::default().with_plain(plain);
            let got = write_native(&document, &ChatReply::default(), &envelope, &context);
            let got: Value = serde_json::from_slice(&got).unwrap();
            let mut expected = told(&json!({"cache_creation": lifetimes, "service_tier": "standard"}));
            if !plain {
                expected["cost_usd"] = json!(0.000005);
            }
            assert_eq!(got["usage"], expected, "{document}");
            assert_eq!((&got["extra"], got.get("gateway").is_some()), (&json!(1), !plain), "{document}");
        }
    }
}

#[test]
fn a_native_stream_without_usage_tells_the_estimate_first_and_the_charged_usage_last() {
    for (usage, plain) in [("", false), (r#","usage":null"#, false), (r#","usage":{}"#, false), ("", true)] {
        let start = format!(r#"{{"type":"message_start","message":{{"id":"msg_up","content":[]{usage}}}}}"#);
        let end = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"end_turn"}}{usage}}}"#);
        let mut encoder = MessagesEncoder::new(MessagesContext::default().with_plain(plain), opening());
        let mut out = Vec::new();
        let block = r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#;
        for event in [
            frame("message_start", &start),
            frame("content_block_start", block),
            text("Hi"),
            frame("message_delta", &end),
            frame("message_stop", r#"{"type":"message_stop"}"#),
        ] {
            encoder.accept(&event, &mut out);
        }
        encoder.finish(Some(Finish::Stop), &closing(&meta()), &mut out);
        let got = frames(&String::from_utf8(out).unwrap());
        assert_eq!(
            got[0].1["message"],
            json!({"id": "msg_up", "content": [], "usage": {"input_tokens": 12,
                "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 1}}),
            "{start}"
        );
        let cost = if plain { json!({}) } else { json!({"cost_usd": 0.000005}) };
        assert_eq!(got[2].1["usage"], told(&cost), "{end}");
        assert_eq!(got[2].1["delta"], json!({"stop_reason": "end_turn"}));
    }
}

#[test]
fn a_native_stream_with_a_torn_call_has_the_fault_of_a_translated_one() {
    let fault = |pieces: &[&str], finish: Finish| {
        let mut encoder = MessagesEncoder::new(MessagesContext::default(), opening());
        let mut out = Vec::new();
        let start = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}"#;
        encoder.accept(&frame("message_start", START), &mut out);
        encoder.accept(&frame("content_block_start", start), &mut out);
        encoder.accept(&super::call(0, "t", "f"), &mut out);
        for piece in pieces {
            let delta = json!({"type": "content_block_delta", "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": piece}});
            encoder.accept(&frame("content_block_delta", &delta.to_string()), &mut out);
            encoder.accept(&super::arguments(0, piece), &mut out);
        }
        encoder.accept(&frame("content_block_stop", r#"{"type":"content_block_stop","index":0}"#), &mut out);
        encoder.fault(Some(finish))
    };
    let message = Some("The upstream's answer has a tool call whose arguments are not valid JSON.");
    for torn in [&[r#"{"path": "/et"#][..], &["{", r#""path""#], &["{path}"]] {
        for finish in [Finish::ToolCalls, Finish::Stop] {
            assert_eq!(fault(torn, finish), message, "{torn:?}");
        }
        for finish in [Finish::Length, Finish::ContentFilter] {
            assert_eq!(fault(torn, finish), None, "{torn:?}");
        }
    }
    assert_eq!(fault(&[r#"{"path": "#, r#""/etc"}"#], Finish::ToolCalls), None);
    assert_eq!(fault(&[], Finish::ToolCalls), None);
}
