//! Requests to and answers of upstreams that speak this dialect.

use super::*;
use crate::dialects::responses::native::{EncryptedContent, Forwarding, for_upstream, seal_items};
use crate::reply::ChatReply;

/// The id without its signature.
fn sent_id(id: &str) -> Option<String> {
    id.split_once("__thought__").map(|(proper, _)| proper.to_owned())
}

fn forwarded(body: &str, forwarding: &Forwarding<'_>) -> String {
    let request =
        translate(Bytes::from(body.to_owned()), &RequestLimits::default(), forwarding.history).unwrap();
    let open = |sealed: Option<&str>| match sealed {
        Some("keep") => EncryptedContent::Keep,
        Some("drop") | None => EncryptedContent::DropItem,
        Some(sealed) => EncryptedContent::Replace(sealed.to_uppercase()),
    };
    String::from_utf8(for_upstream(&request.native, forwarding, open, sent_id)).unwrap()
}

const TO: Forwarding<'_> = Forwarding {
    model: "gpt",
    store: false,
    wants_encrypted: false,
    streams: false,
    history: &[],
    candidates: 0,
};

#[test]
fn a_body_goes_on_byte_by_byte() {
    let body = r#"{ "model":"m", "routing":{}, "input" : [ {"role":"user","content":"\u0041"} ], "new_member": [1.0,{}],
 "store":true,"cache":{"enabled":true} }"#;
    let expected = r#"{ "model":"gpt", "input" : [ {"role":"user","content":"\u0041"} ], "new_member": [1.0,{}],
 "store":false }"#;
    assert_eq!(forwarded(body, &TO), expected);
}

#[test]
fn opaque_strings_are_opened_and_foreign_items_left_out() {
    let body = r#"{"model":"m","store":false,"input":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"keep"},{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"seal"},{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":""},{"type":"reasoning","id":"rs_3","summary":[],"encrypted_content":"drop"},{"type":"message","id":"msg_1","role":"assistant","content":"x"}]}"#;
    let expected = r#"{"model":"gpt","store":false,"input":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"keep"},{"type":"reasoning","id":"rs_2","summary":[],"encrypted_content":"SEAL"},{"type":"function_call","id":"fc_1","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":""},{"type":"message","role":"assistant","content":"x"}]}"#;
    assert_eq!(forwarded(body, &TO), expected);
}

#[test]
fn ids_of_calls_are_sent_as_the_caller_decides() {
    let history = [
        r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"drop"}"#,
        r#"{"id":"fc_1","type":"function_call","call_id":"a__thought__x","name":"f","arguments":"{}"}"#,
    ];
    let to = Forwarding { history: &history, ..TO };
    let body = r#"{"model":"m","previous_response_id":"resp_0","input":[{"type":"function_call_output","call_id":"a__thought__x","output":"b__thought__y"},{"type":"function_call","call_id":"plain","name":"f","arguments":"{}"}]}"#;
    let expected = r#"{"model":"gpt","input":[{"type":"function_call","call_id":"a","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"a","output":"b__thought__y"},{"type":"function_call","call_id":"plain","name":"f","arguments":"{}"}],"store":false}"#;
    assert_eq!(forwarded(body, &to), expected);
}

#[test]
fn the_conversation_so_far_comes_before_the_input() {
    let history = [r#"{"id":"msg_1","type":"message","role":"user","content":"one"}"#];
    let to = Forwarding { history: &history, wants_encrypted: true, ..TO };
    let body = r#"{"model":"m","previous_response_id":"resp_0","input":"two","background":true}"#;
    let expected = r#"{"model":"gpt","input":[{"id":"msg_1","type":"message","role":"user","content":"one"},{"role":"user","content":"two"}],"store":false,"include":["reasoning.encrypted_content"]}"#;
    assert_eq!(forwarded(body, &to), expected);
    let body = r#"{"model":"m","include":["x"],"input":[{"type":"item_reference","id":"msg_1"}]}"#;
    let expected = r#"{"model":"gpt","include":["x","reasoning.encrypted_content"],"input":[{"id":"msg_1","type":"message","role":"user","content":"one"}],"store":false}"#;
    assert_eq!(forwarded(body, &to), expected);
}

#[test]
fn an_item_that_is_referred_to_is_judged_like_one_that_is_sent() {
    let history = [
        r#"{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"seal"}"#,
        r#"{"id":"fc_1","type":"function_call","call_id":"c","name":"f","arguments":"{}"}"#,
        r#"{"id":"rs_2","type":"reasoning","summary":[]}"#,
        r#"{"id":"fc_2","type":"function_call","call_id":"d","name":"f","arguments":"{}"}"#,
    ];
    let to = Forwarding { history: &history, candidates: 4, ..TO };
    let body = r#"{"model":"m","input":[{"id":"rs_1","type":"item_reference"},{"id":"fc_1"},{"id":"rs_2"},{"id":"fc_2"},{"role":"user","content":"x"}]}"#;
    let expected = r#"{"model":"gpt","input":[{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"SEAL"},{"id":"fc_1","type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call","call_id":"d","name":"f","arguments":"{}"},{"role":"user","content":"x"}],"store":false}"#;
    assert_eq!(forwarded(body, &to), expected);
}

fn native_stream() -> (String, Value) {
    let context = context(&json!({"model": "m", "input": "q", "previous_response_id": "resp_0"}));
    let mut encoder = context.stream(opening());
    let mut out = Vec::new();
    let object = |status: &str| {
        format!(
            r#"{{"id":"resp_up","object":"response","created_at":5,"status":"{status}","model":"gpt-up","previous_response_id":null,"store":false,"output":[],"usage":{{"input_tokens":1}}}}"#
        )
    };
    encoder.native_frame(
        "response.created",
        &format!(r#"{{"type":"response.created","sequence_number":0,"response":{}}}"#, object("in_progress")),
        &mut out,
    );
    assert!(out.is_empty(), "the opening waits for content");
    encoder.native_frame(
        "response.web_search_call.in_progress",
        r#"{"type":"response.web_search_call.in_progress","sequence_number": 7 ,"item_id":"ws_1"}"#,
        &mut out,
    );
    encoder.accept(&text("not written"), &mut out);
    encoder.native_frame("response.output_item.done", r#"{"type":"response.output_item.done","sequence_number":8,"output_index":0,"item":{"type":"web_search_call","id":"ws_1"}}"#, &mut out);
    let copy = encoder.clone();
    encoder.native_frame(
        "response.completed",
        &format!(r#"{{"type":"response.completed","sequence_number":9,"response":{}}}"#, object("completed")),
        &mut out,
    );
    let gateway = meta();
    encoder.finish(
        Some(Finish::Stop),
        &Closing { usage: usage(), cost: Some(Money::ZERO), gateway: &gateway },
        &mut out,
    );
    let mut failed = Vec::new();
    let mut copy = copy;
    copy.fail(&crate::dialects::StreamError::new("Broke.", "upstream_error", "c"), &mut failed);
    (String::from_utf8(out).unwrap(), final_object(&String::from_utf8(failed).unwrap()))
}

#[test]
fn native_events_get_new_numbers_and_the_gateways_members() {
    let (stream, failed) = native_stream();
    insta::assert_snapshot!("native_events", stream);
    assert_eq!(failed["id"], "resp_01");
    assert_eq!(failed["output"], json!([{"type": "web_search_call", "id": "ws_1"}]));
}

#[test]
fn a_native_answer_keeps_its_bytes() {
    let gateway = meta();
    let closing = Closing { usage: usage(), cost: Some(Money::ZERO), gateway: &gateway };
    let document = r#"{"id":"resp_up","store":false,"usage":{"input_tokens":1 },"odd": 1.50}"#;
    let plain =
        plain_context().with_plain(true).write_native("resp_own", document, &ChatReply::default(), &closing);
    assert_eq!(
        String::from_utf8(plain).unwrap(),
        document.replace("false", "true").replace("resp_up", "resp_own")
    );
    let own: Value = serde_json::from_slice(&plain_context().write_native(
        "resp_own",
        document,
        &ChatReply::default(),
        &closing,
    ))
    .unwrap();
    assert_eq!(own["gateway"]["provider"], "acme");
    assert!(own["usage"].get("cost_usd").is_some());
}

#[test]
fn opaque_strings_of_answers_are_sealed() {
    let seal = |raw: &str| Some(format!("gw1.{raw}"));
    let frame =
        r#"{"type":"response.output_item.done","item":{"type":"reasoning","encrypted_content": "a"}}"#;
    assert_eq!(seal_items(frame, seal), frame.replace("\"a\"", "\"gw1.a\""));
    let frame = r#"{"response":{"output":[{"encrypted_content":"a"},{"encrypted_content":null},{"encrypted_content":"b"}]}}"#;
    assert_eq!(seal_items(frame, seal), frame.replace("\"a\"", "\"gw1.a\"").replace("\"b\"", "\"gw1.b\""));
    assert_eq!(seal_items("{", seal), "{");
}

const REASONING: &str = r#"{"type":"response.output_item.done","sequence_number":3,"output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[],"encrypted_content":"raw"}}"#;

fn sealed() -> Box<serde_json::value::RawValue> {
    let entry = json!([{"type": "reasoning.encrypted", "data": "gw1.s", "id": "rs_1"}]).to_string();
    serde_json::value::RawValue::from_string(entry).unwrap()
}

#[test]
fn the_end_of_a_thought_waits_for_its_seal() {
    let mut encoder = plain_context().stream(opening());
    let mut out = Vec::new();
    let added = REASONING.replace("done", "added");
    encoder.native_frame("response.output_item.added", &added, &mut out);
    assert!(!String::from_utf8_lossy(&out).contains("raw"));
    let before = out.len();
    encoder.native_frame("response.output_item.done", REASONING, &mut out);
    assert_eq!(out.len(), before);
    let value = sealed();
    encoder.accept(&Event::Extra { choice: 0, name: "reasoning_details", value: &value }, &mut out);
    let response = r#"{"type":"response.completed","response":{"id":"r","output":[{"id":"rs_1","type":"reasoning","encrypted_content":"raw"}]}}"#;
    encoder.native_frame("response.completed", response, &mut out);
    let gateway = meta();
    let closing = Closing { usage: usage(), cost: Some(Money::ZERO), gateway: &gateway };
    encoder.finish(Some(Finish::Stop), &closing, &mut out);
    let events = frames(std::str::from_utf8(&out).unwrap());
    assert_eq!(events[1]["item"]["encrypted_content"], "gw1.s");
    assert_eq!(events[2]["response"]["output"][0]["encrypted_content"], "gw1.s");
    let choice = crate::reply::ChatChoice {
        extras: vec![("reasoning_details".into(), Cow::Owned(sealed()))],
        ..Default::default()
    };
    let reply = ChatReply { choices: vec![choice], ..ChatReply::default() };
    let document = r#"{"output":[{"id":"rs_1","encrypted_content":"raw"}]}"#;
    let written: Value =
        serde_json::from_slice(&plain_context().write_native("resp_own", document, &reply, &closing))
            .unwrap();
    assert_eq!(written["output"][0]["encrypted_content"], "gw1.s");
}

#[test]
fn a_thought_without_a_seal_keeps_its_string() {
    let mut encoder = plain_context().stream(opening());
    let mut out = Vec::new();
    encoder.native_frame("response.output_item.done", REASONING, &mut out);
    encoder.native_frame(
        "response.output_item.added",
        r#"{"output_index":1,"item":{"type":"message","id":"msg_1"}}"#,
        &mut out,
    );
    assert!(String::from_utf8_lossy(&out).contains("\"raw\""));
}

#[test]
fn a_native_stream_is_continued_by_another_upstream() {
    let mut encoder = plain_context().stream(opening());
    let mut out = Vec::new();
    let created =
        r#"{"type":"response.created","response":{"id":"resp_up","created_at":5,"model":"up","output":[]}}"#;
    let frames_in = [
        ("response.created", created.to_owned()),
        ("response.output_item.added", r#"{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_u","type":"message","role":"assistant","status":"in_progress","content":[]}}"#.to_owned()),
        ("response.content_part.added", r#"{"type":"response.content_part.added","item_id":"msg_u","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[],"logprobs":[]}}"#.to_owned()),
        ("response.output_text.delta", r#"{"type":"response.output_text.delta","item_id":"msg_u","output_index":0,"content_index":0,"delta":"one \"","logprobs":[]}"#.to_owned()),
    ];
    frames_in.iter().for_each(|(name, data)| encoder.native_frame(name, data, &mut out));
    let mut next = encoder.boxed_clone();
    let frame = Event::Frame {
        dialect: crate::dialects::ClientDialect::Responses,
        name: "response.output_text.delta",
        data: &frames_in[3].1,
    };
    next.accept(&frame, &mut out);
    next.accept(&text("two"), &mut out);
    next.accept(&call(0, "c", "f"), &mut out);
    let gateway = meta();
    next.finish(
        Some(Finish::Stop),
        &Closing { usage: usage(), cost: Some(Money::ZERO), gateway: &gateway },
        &mut out,
    );
    let response = fold::checked(&frames(std::str::from_utf8(&out).unwrap()));
    assert_eq!(response["id"], "resp_01");
    assert_eq!(response["output"][0]["content"][0]["text"], "one \"two");
    assert_eq!(response["output"][1]["type"], "function_call");
}

/// The last object of a stream of these frames, whose upstream ends it with `last`.
fn ended(context: &ResponsesContext, frames_in: &[(&str, &str)], last: &str) -> Value {
    let mut encoder = context.stream(opening());
    let mut out = Vec::new();
    frames_in.iter().for_each(|(name, data)| encoder.native_frame(name, data, &mut out));
    encoder.native_frame("response.completed", last, &mut out);
    let gateway = meta();
    let closing = Closing { usage: usage(), cost: Some(Money::ZERO), gateway: &gateway };
    encoder.finish(Some(Finish::Stop), &closing, &mut out);
    final_object(&String::from_utf8(out).unwrap())
}

#[test]
fn the_last_object_of_a_native_stream_has_all_items_that_ended() {
    let items = [
        json!({"type": "web_search_call", "id": "ws_1"}),
        json!({"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "Fjord"}]}),
    ];
    let done: Vec<String> = (0..)
        .zip(&items)
        .map(|(index, item): (u32, _)| {
            json!({"type": "response.output_item.done", "output_index": index, "item": item}).to_string()
        })
        .collect();
    let done: Vec<(&str, &str)> =
        done.iter().map(|data| ("response.output_item.done", data.as_str())).collect();
    let last = |output: &str| {
        format!(r#"{{"type":"response.completed","response":{{"id":"r","status":"completed"{output}}}}}"#)
    };
    let first = format!(r#","output":[{}]"#, items[0]);
    for output in ["", r#","output":null"#, r#","output":[]"#, &first] {
        let object = ended(&plain_context(), &done, &last(output));
        assert_eq!((&object["id"], &object["status"]), (&json!("resp_01"), &json!("completed")), "{output}");
        assert_eq!(object["output"], json!(items), "{output}");
    }
    // An object with as many items is the upstream's own.
    let own = r#","output":[{"id":"ws_1"},{"id":"msg_1"}]"#;
    let object = ended(&plain_context(), &done, &last(own));
    assert_eq!(object["output"], json!([{"id": "ws_1"}, {"id": "msg_1"}]));
    assert_eq!(ended(&plain_context(), &[], &last(""))["output"], json!([]));
    // The last frame may lack the object itself.
    let object = ended(&plain_context(), &done, r#"{"type":"response.completed"}"#);
    assert_eq!((&object["status"], &object["output"]), (&json!("completed"), &json!(items)));
}

#[test]
fn a_native_answer_without_usage_tells_the_usage_that_is_charged() {
    let expected = json!({"input_tokens": 12, "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 0},
        "output_tokens": 3, "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 15});
    let gateway = meta();
    let closing = Closing { usage: usage(), cost: Some(Money::ZERO), gateway: &gateway };
    for is_plain in [false, true] {
        let context = plain_context().with_plain(is_plain);
        let mut expected = expected.clone();
        if !is_plain {
            expected["cost_usd"] = json!(0);
        }
        for usage in ["", r#","usage":null"#, r#","usage":{}"#, r#","usage":[1]"#] {
            let document = format!(r#"{{"id":"r","status":"completed","output":[]{usage}}}"#);
            let written = context.write_native("resp_own", &document, &ChatReply::default(), &closing);
            let plain: Value = serde_json::from_slice(&written).unwrap();
            assert_eq!(plain["usage"], expected, "{document}");
            let last = format!(r#"{{"type":"response.completed","response":{document}}}"#);
            assert_eq!(ended(&context, &[], &last)["usage"], expected, "{last}");
        }
    }
}
