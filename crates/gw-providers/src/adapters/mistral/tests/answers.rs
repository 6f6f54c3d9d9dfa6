//! Answers and streams.

use std::time::Duration;

use gw_wire::event::Event;
use gw_wire::failure::FailureKind::{self, *};
use gw_wire::reply::{Finish, Vector};
use http::HeaderMap;
use proptest::prelude::*;

use super::{fixture, mistral};
use crate::adapter::Reading;

/// The events of a stream. Adjacent pieces of one kind are joined.
fn stream_events(pieces: &[&[u8]]) -> Vec<String> {
    let mut decoder = mistral().stream(&Reading::default());
    let mut told: Vec<(String, String)> = Vec::new();
    let mut sink = |event: Event<'_>| {
        let (head, piece) = match event {
            Event::Text { text, .. } => ("text".to_owned(), text.into_owned()),
            Event::Reasoning { text, .. } => ("reasoning".to_owned(), text.into_owned()),
            Event::ToolArgs { call, fragment, .. } => (format!("args {call}"), fragment.into_owned()),
            other => (format!("{other:?}"), String::new()),
        };
        match told.last_mut() {
            Some((last, text)) if *last == head && !piece.is_empty() => text.push_str(&piece),
            _ => told.push((head, piece)),
        }
    };
    for piece in pieces {
        decoder.feed(piece, &mut sink);
    }
    decoder.eof(&mut sink);
    told.into_iter().map(|(head, text)| format!("{head} {text}").trim().to_owned()).collect()
}

#[test]
fn a_stream_holds_thoughts_text_calls_and_usage() {
    let expected = [
        r#"Start { model: Some("magistral-medium-2509"), fingerprint: None }"#,
        "reasoning Hm, 考え中 🤔",
        "text So 天気は☀️",
        r#"ToolStart { choice: 0, call: 0, id: "VvvODy9mT", name: "weather" }"#,
        r#"args 0 {"city": "東京"}"#,
        r#"ToolStart { choice: 0, call: 1, id: "a1B2c3D4e", name: "time" }"#,
        "Finish { choice: 0, reason: ToolCalls }",
        "Usage(Usage { prompt: 94, completion: 30, cached: Some(64), cache_write: None, cache_write_1h: None, reasoning: None, audio_prompt: None, image_prompt: None, audio_completion: None, image_completion: None, accepted_prediction: None, rejected_prediction: None, hosted: HostedCalls { web_search: 0, web_fetch: 0, file_search: 0, code_interpreter: 0, code_runs: 0, search_answers: 0, search_low: 0, search_medium: 0, search_high: 0 }, unread_calls: 0, has_unpriced: false, estimated: false, is_total: false, units: Units { counted: None, form: ImageForm { size: None, quality: None } }, stated_cost: None })",
        "End",
    ];
    assert_eq!(stream_events(&[fixture!("all.stream.txt").as_bytes()]), expected);
}

#[test]
fn the_events_do_not_depend_on_the_cuts() {
    let stream = fixture!("all.stream.txt").as_bytes();
    let uncut = stream_events(&[stream]);
    for at in 0..=stream.len() {
        let (begin, end) = stream.split_at(at);
        assert_eq!(stream_events(&[begin, end]), uncut, "cut at {at}");
    }
    let bytes: Vec<&[u8]> = stream.chunks(1).collect();
    assert_eq!(stream_events(&bytes), uncut);
    let windows = fixture!("all.stream.txt").replace('\n', "\r\n");
    assert_eq!(stream_events(&[windows.as_bytes()]), uncut);
}

proptest! {
    #[test]
    fn any_two_cuts_give_equal_events(cuts in any::<[prop::sample::Index; 2]>()) {
        let stream = fixture!("all.stream.txt").as_bytes();
        let [a, b] = cuts.map(|cut| cut.index(stream.len()));
        let (first, last) = (a.min(b), a.max(b));
        prop_assert_eq!(stream_events(&[&stream[..first], &stream[first..last], &stream[last..]]), stream_events(&[stream]));
    }

    #[test]
    fn any_bytes_never_panic_the_decoder(pieces in prop::collection::vec(any::<Vec<u8>>(), 0..8)) {
        stream_events(&pieces.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }

    #[test]
    fn any_content_never_panics_the_decoder(content in r#"(\[|\]|\{|\}|,|:|"type"|"text"|"thinking"|"a"|1){0,24}"#) {
        let event = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":{content}}}}}]}}\n\n");
        stream_events(&[event.as_bytes()]);
    }
}

#[test]
fn thoughts_of_a_reply_are_its_reasoning() {
    let mistral = mistral();
    let reply =
        mistral.decode_chat(fixture!("thinking.response.json").as_bytes(), &Reading::default()).unwrap();
    let choice = &reply.choices[0];
    assert_eq!(choice.reasoning.as_deref(), Some("Let me think: 東京"));
    // Trap 24: every text counts.
    assert_eq!(choice.content.as_deref(), Some("The answer 🎉 is 4."));
    assert_eq!((choice.finish, choice.tool_calls.len()), (Some(Finish::Stop), 0));
    let usage = reply.usage.unwrap();
    assert_eq!((usage.prompt, usage.completion, usage.cached), (16, 34, Some(8)));
}

#[test]
fn the_order_of_thoughts_and_texts_is_reported_whole_and_streamed() {
    let content = r#"[{"type":"thinking","thinking":[{"type":"text","text":"ä"}]},{"type":"text","text":"b"},{"type":"thinking","thinking":"cc"},{"type":"text","text":"d"}]"#;
    let order = r#"[{"index":0,"order":"r2 t1 r2 t1","type":"gateway.order"}]"#;
    let body = format!(
        r#"{{"choices":[{{"index":0,"message":{{"role":"assistant","content":{content}}},"finish_reason":"stop"}}]}}"#
    );
    let mistral = mistral();
    let reply = mistral.decode_chat(body.as_bytes(), &Reading::default()).unwrap();
    assert_eq!(reply.choices[0].extras[0].1.get(), order);
    // Everything comes in one chunk.
    let stream = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{content}}},\"finish_reason\":\"stop\"}}]}}\n\n"
    );
    let told = stream_events(&[stream.as_bytes()]);
    assert_eq!(told[..4], ["reasoning ä", "text b", "reasoning cc", "text d"]);
    assert!(told[4].contains("r2 t1 r2 t1"), "{told:?}");
}

#[test]
fn calls_of_a_reply_may_lack_an_id_and_have_objects_as_arguments() {
    let mistral = mistral();
    let reply = mistral.decode_chat(fixture!("tools.response.json").as_bytes(), &Reading::default()).unwrap();
    let calls: Vec<_> =
        reply.choices[0].tool_calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
    assert_eq!(calls, [("VvvODy9mT", "weather", r#"{"city": "Paris"}"#), ("", "time", "{}")]);
    assert_eq!(reply.choices[0].finish, Some(Finish::ToolCalls));
    let chunk = |calls: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":{calls}}},\"finish_reason\":null}}]}}\n\n"
        )
    };
    let stream = chunk(r#"[{"id":"VvvODy9mT","index":0,"function":{"name":"f","arguments":"{\"a\":"}}]"#)
        + &chunk(r#"[{"id":"null","index":0,"function":{"name":"","arguments":"1}"}}]"#);
    assert_eq!(
        stream_events(&[stream.as_bytes()]),
        [r#"ToolStart { choice: 0, call: 0, id: "VvvODy9mT", name: "f" }"#, r#"args 0 {"a":1}"#]
    );
}

#[test]
fn every_finish_reason_has_its_meaning() {
    for (reason, finish) in [
        ("stop", Some(Finish::Stop)),
        ("length", Some(Finish::Length)),
        ("model_length", Some(Finish::Length)),
        ("tool_calls", Some(Finish::ToolCalls)),
        ("content_filter", Some(Finish::ContentFilter)),
        ("whatever", None),
    ] {
        let body = format!(
            r#"{{"choices":[{{"index":0,"message":{{"content":"a"}},"finish_reason":"{reason}"}}]}}"#
        );
        let mistral = mistral();
        let reply = mistral.decode_chat(body.as_bytes(), &Reading::default()).unwrap();
        assert_eq!(reply.choices[0].finish, finish, "{reason}");
    }
    let failed = r#"{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"error"}]}"#;
    assert_eq!(mistral().decode_chat(failed.as_bytes(), &Reading::default()).unwrap_err().kind, StreamBroken);
}

#[test]
fn references_are_annotations_whole_and_streamed() {
    let parts = r#"[{"type":"text","text":"Größe: 7 m"},{"type":"reference","reference_ids":[1,"b"]},{"type":"text","text":"."}]"#;
    let annotations = |at: u64| {
        let one = |id: &str| {
            format!(
                r#"{{"type":"url_citation","url_citation":{{"end_index":{at},"id":"{id}","start_index":{at},"title":"","url":""}}}}"#
            )
        };
        format!("[{},{}]", one("1"), one("b"))
    };
    let body =
        format!(r#"{{"choices":[{{"index":0,"message":{{"content":{parts}}},"finish_reason":"stop"}}]}}"#);
    let mistral = mistral();
    let reply = mistral.decode_chat(body.as_bytes(), &Reading::default()).unwrap();
    let (name, value) = &reply.choices[0].extras[0];
    assert_eq!((&**name, value.get()), ("annotations", &*annotations(10)));
    assert_eq!(reply.choices[0].content.as_deref(), Some("Größe: 7 m."));
    let chunk = |content: &str, finish: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{content}}},\"finish_reason\":{finish}}}]}}\n\n"
        )
    };
    let stream = [
        chunk("\"Well. \"", "null"),
        chunk(parts, "null"),
        chunk("\"\"", "\"stop\""),
        "data: [DONE]\n\n".to_owned(),
    ];
    let told = stream_events(&[stream.concat().as_bytes()]);
    assert_eq!(told[0], "text Well. Größe: 7 m.");
    assert!(told[1].contains("annotations") && told[1].contains(&annotations(16)), "{told:?}");
    assert!(told[2].starts_with("Finish"), "{told:?}");
}

#[test]
fn a_failure_in_a_stream_is_an_error() {
    for event in [
        r#"{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"error"}]}"#,
        r#"{"object":"error","message":"Internal server error","type":"internal_server_error","code":"1000"}"#,
        r#"{"error":{"message":"x"}}"#,
    ] {
        let stream = format!("data: {event}\n\ndata: [DONE]\n\n");
        let told = stream_events(&[stream.as_bytes()]);
        assert!(told.last().is_some_and(|last| last.starts_with("Error(")), "{told:?}");
    }
    let cut = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"},\"finish_reason\":null}]}\n\n";
    assert_eq!(stream_events(&[cut.as_bytes()]), ["text a"], "neither a finish nor an end is made up");
}

#[test]
fn completions_are_read_as_texts() {
    let (mistral, echo) = (mistral(), Reading { echo: Some("def f(".to_owned()), ..Reading::default() });
    let reply = mistral.decode_completion(fixture!("fim.response.json").as_bytes(), &echo).unwrap();
    assert_eq!(
        (&*reply.choices[0].text, reply.choices[0].finish),
        ("def f(a, b):\n    ", Some(Finish::Length))
    );
    assert_eq!(reply.usage.map(|usage| usage.total()), Some(99));
    let mut decoder = mistral.stream(&Reading::default());
    let mut text = String::new();
    decoder.feed(fixture!("fim.stream.txt").as_bytes(), &mut |event| {
        if let Event::Text { text: piece, .. } = event {
            text.push_str(&piece);
        }
    });
    assert_eq!(text, "a, b):");
}

#[test]
fn vectors_come_in_order() {
    let mistral = mistral();
    let reply = mistral.decode_embeddings(fixture!("embeddings.response.json").as_bytes(), 2).unwrap();
    assert!(matches!(reply.vectors[0], Vector::Json { text: "[0.1,0.2]", len: 2 }));
    assert_eq!(reply.usage.map(|usage| usage.prompt), Some(15));
    let body = fixture!("embeddings.response.json").as_bytes();
    assert_eq!(mistral.decode_embeddings(body, 3).unwrap_err().kind, InvalidResponse);
}

#[test]
fn every_error_has_its_kind() {
    let kind = |status, body: &str| -> FailureKind {
        mistral().classify(status, &HeaderMap::new(), body.as_bytes()).kind
    };
    for (status, body, expected) in [
        (401, r#"{"detail":"Unauthorized"}"#, Auth),
        (401, r#"{"message":"Unauthorized","request_id":"x"}"#, Auth),
        (402, r#"{"detail":"You cannot use this API until payment is set up."}"#, Billing),
        (403, r#"{"object":"error","message":"Forbidden","type":"forbidden"}"#, Auth),
        (404, r#"{"detail":"Not Found"}"#, ModelMissing),
        (
            400,
            r#"{"object":"error","message":"Invalid model: x","type":"invalid_model","param":null,"code":"1500"}"#,
            ModelMissing,
        ),
        (
            400,
            r#"{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","param":null,"code":"3230"}"#,
            BadRequest,
        ),
        (
            400,
            r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","code":"3051"}"#,
            ContextLength,
        ),
        (
            422,
            r#"{"detail":[{"type":"missing","loc":["body","messages"],"msg":"Field required"}]}"#,
            BadRequest,
        ),
        (
            422,
            r#"{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","x"],"msg":"Extra inputs are not permitted"}]},"type":"invalid_request_error","code":null}"#,
            BadRequest,
        ),
        (429, r#"{"message":"Requests rate limit exceeded"}"#, RateLimited),
        (
            429,
            r#"{"object":"error","message":"Service tier capacity exceeded for this model.","type":"service_tier_capacity_exceeded","code":"3505"}"#,
            RateLimited,
        ),
        (
            500,
            r#"{"object":"error","message":"Internal Server Error","type":"internal_server_error","code":"1000"}"#,
            Server,
        ),
        (
            503,
            r#"{"object":"error","message":"Service unavailable.","type":"unreachable_backend","code":"1100"}"#,
            Overloaded,
        ),
        (504, "", Timeout),
        (500, "<html>", Server),
    ] {
        assert_eq!(kind(status, body), expected, "{status} {body}");
    }
    let bad = mistral().classify(
        422,
        &HeaderMap::new(),
        br#"{"detail":[{"loc":["body","messages"],"msg":"Field required"}]}"#,
    );
    assert_eq!(bad.message, "messages: Field required");
    let bad = mistral().classify(400, &HeaderMap::new(), br#"{"object":"error","message":"x","code":3230}"#);
    assert_eq!(bad.code.as_deref(), Some("3230"));
}

#[test]
fn retry_after_is_kept() {
    let headers: HeaderMap = [("retry-after".parse().unwrap(), "3".parse().unwrap())].into_iter().collect();
    assert_eq!(mistral().classify(429, &headers, b"{}").retry_after, Some(Duration::from_secs(3)));
}

#[test]
fn a_repeated_finish_reports_the_order_once() {
    let content =
        r#"[{"type":"text","text":"a"},{"type":"thinking","thinking":"b"},{"type":"text","text":"c"}]"#;
    let chunk = |delta: &str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":\"stop\"}}]}}\n\n")
    };
    let stream = [chunk(&format!("{{\"content\":{content}}}")), chunk("{}"), chunk("{\"content\":\"\"}")];
    let told = stream_events(&[stream.concat().as_bytes()]);
    assert_eq!(told.iter().filter(|line| line.contains("gateway.order")).count(), 1, "{told:?}");
}
