//! Streams, event by event, and their failures.

use gw_wire::event::Event;
use gw_wire::failure::FailureKind;
use serde_json::{Value, json};

use crate::adapter::{Reading, StreamDecoder};
use crate::adapters::cohere::adapter;
use crate::adapters::trial::{cut_everywhere, events, failures};

const ALL: &str = include_str!("../../../../fixtures/cohere/all.stream.txt");

fn decoder() -> Box<dyn StreamDecoder> {
    adapter().stream(&Reading::default())
}

fn whole(stream: &str) -> Vec<String> {
    events(decoder(), [stream.as_bytes()])
}

fn sse(events: &[Value]) -> String {
    events
        .iter()
        .map(|event| format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or("x")))
        .collect()
}

fn text(text: &str) -> Value {
    json!({"type": "content-delta", "index": 0, "delta": {"message": {"content": {"text": text}}}})
}

fn end(reason: &str) -> Value {
    json!({"type": "message-end", "delta": {"finish_reason": reason}})
}

#[test]
fn indexes_name_content_and_calls_and_not_choices() {
    let expected = [
        "reasoning: Two 都市, so two calls.",
        "text: I see 漢字 👨‍👩‍👧 \\ \"q\"\nI will look",
        "call 0 get_weather_p1t92w7gfgq7 get_weather",
        "args 0: {\n    \"location\": \"Madrid\"\n}",
        "call 1 get_weather_zs5m3w56q3 get_weather",
        "args 1: {\n    \"location\": \"Brasília\"\n}",
        "usage 905 (832 cached) + 83",
        "Extra { choice: 0, name: \"reasoning_details\", value: RawValue([{\"index\":0,\"order\":\"r25 t37 p12 c c\",\"type\":\"gateway.order\"}]) }",
        "Extra { choice: 0, name: \"annotations\", value: RawValue([{\"type\":\"url_citation\",\"url_citation\":{\"content\":\"t\",\"end_index\":29,\"id\":\"doc:1\",\"start_index\":14,\"title\":\"\",\"url\":\"\"}}]) }",
        "finish tool_calls",
        "end",
    ];
    assert_eq!(whole(ALL), expected);
}

#[test]
fn a_plan_stands_in_front_of_the_text_plain_and_streamed() {
    let order = r#"[{"index":0,"order":"p7 t6 c","type":"gateway.order"}]"#;
    let citations = r#"[{"type":"url_citation","url_citation":{"end_index":13,"id":"d","start_index":8,"title":"","url":""}}]"#;
    let call = json!({"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let citation = json!({"start": 0, "end": 5, "text": "Look.", "type": "TEXT_CONTENT", "sources": [{"type": "document", "id": "d"}]});
    let plan = |text: &str| json!({"type": "tool-plan-delta", "delta": {"message": {"tool_plan": text}}});
    let stream = sse(&[
        plan("I "),
        plan("plan."),
        json!({"type": "content-start", "index": 0, "delta": {"message": {"content": {"type": "text", "text": ""}}}}),
        text("Lo"),
        text("ok."),
        json!({"type": "citation-start", "index": 0, "delta": {"message": {"citations": citation}}}),
        json!({"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": call}}}),
        end("TOOL_CALL"),
    ]);
    let extra = |name: &str, value: &str| {
        format!("Extra {{ choice: 0, name: \"{name}\", value: RawValue({value}) }}")
    };
    let expected = [
        "text: I plan.\nLook.".to_owned(),
        "call 0 a f".to_owned(),
        "args 0: {}".to_owned(),
        extra("reasoning_details", order),
        extra("annotations", citations),
        "finish tool_calls".to_owned(),
        "end".to_owned(),
    ];
    assert_eq!(whole(&stream), expected);
    let message = json!({"content": [{"type": "text", "text": "Look."}], "tool_plan": "I plan.", "tool_calls": [call], "citations": [citation]});
    let body = json!({"finish_reason": "TOOL_CALL", "message": message}).to_string();
    let adapter = adapter();
    let reply = adapter.decode_chat(body.as_bytes(), &Reading::default()).unwrap();
    let choice = &reply.choices[0];
    let extras: Vec<_> = choice.extras.iter().map(|(name, value)| (&**name, value.get())).collect();
    assert_eq!(choice.content.as_deref(), Some("I plan.\nLook."));
    assert_eq!(extras, [("reasoning_details", order), ("annotations", citations)]);
}

#[test]
fn the_events_do_not_depend_on_the_cuts_or_the_line_ends() {
    cut_everywhere(&decoder, ALL.as_bytes());
    let uncut = whole(ALL);
    assert_eq!(whole(&ALL.replace('\n', "\r\n")), uncut);
    assert_eq!(whole(&ALL.replace('\n', "\r")), uncut);
    // Cohere sends one JSON document per line to clients that do not ask for an event stream.
    let lines: String =
        ALL.lines().filter_map(|line| line.strip_prefix("data: ")).map(|line| format!("{line}\n")).collect();
    assert_eq!(whole(&lines), uncut);
    cut_everywhere(&decoder, lines.as_bytes());
}

#[test]
fn a_call_without_arguments_has_none() {
    let call = json!({"id": "a", "type": "function", "function": {"name": "now", "arguments": ""}});
    let stream = sse(&[
        json!({"type": "tool-call-start", "index": 0, "delta": {"message": {"tool_calls": call}}}),
        json!({"type": "tool-call-end", "index": 0}),
        end("TOOL_CALL"),
    ]);
    assert_eq!(whole(&stream), ["call 0 a now", "finish tool_calls", "end"]);
}

#[test]
fn argument_pieces_go_to_their_call() {
    let start = |index: Value, id: &str| json!({"type": "tool-call-start", "index": index, "delta": {"message": {"tool_calls": [{"id": id, "function": {"name": "f", "arguments": "{"}}]}}});
    let piece = |index: Value, text: &str| json!({"type": "tool-call-delta", "index": index, "delta": {"message": {"tool_calls": {"function": {"arguments": text}}}}});
    let stream = sse(&[
        start(json!(3), "a"),
        start(json!(7), "b"),
        piece(json!(3), "1"),
        piece(json!(7), "2"),
        piece(json!(null), "}"),
        piece(json!(99), " "),
        piece(json!(3), "}"),
        end("COMPLETE"),
    ]);
    assert_eq!(
        whole(&stream),
        [
            "call 0 a f",
            "args 0: {",
            "call 1 b f",
            "args 1: {",
            "args 0: 1",
            "args 1: 2} ",
            "args 0: }",
            "finish tool_calls",
            "end"
        ]
    );
    assert_eq!(
        failures(decoder(), sse(&[piece(json!(0), "{}")]).as_bytes()),
        (vec![FailureKind::InvalidResponse], 0)
    );
}

#[test]
fn finish_reasons_are_mapped() {
    for (reason, last) in [
        ("COMPLETE", "finish stop"),
        ("STOP_SEQUENCE", "finish stop"),
        ("MAX_TOKENS", "finish length"),
        ("ERROR_TOXIC", "finish content_filter"),
        ("NEW", "finish stop"),
    ] {
        assert_eq!(whole(&sse(&[text("a"), end(reason)])), ["text: a", last, "end"], "{reason}");
    }
    for (reason, kind) in [("ERROR", FailureKind::StreamBroken), ("TIMEOUT", FailureKind::Timeout)] {
        assert_eq!(
            failures(decoder(), sse(&[text("a"), end(reason)]).as_bytes()),
            (vec![kind], 1),
            "{reason}"
        );
    }
    let said = json!({"type": "message-end", "delta": {"finish_reason": "COMPLETE", "error": "boom"}});
    assert_eq!(failures(decoder(), sse(&[said]).as_bytes()), (vec![FailureKind::StreamBroken], 0));
}

#[test]
fn every_broken_stream_is_an_error() {
    // The body ends without a finish and without an end. The normaliser handles that.
    assert_eq!(whole(&sse(&[text("a")])), ["text: a"]);
    let cut = format!("{}data: {{\"type\":\"content-del", sse(&[text("a")]));
    assert_eq!(failures(decoder(), cut.as_bytes()), (vec![FailureKind::StreamBroken], 1));
    for (event, kind) in [
        (json!({"message": "too many requests", "type": "error"}), FailureKind::StreamBroken),
        (json!({"message": "gone"}), FailureKind::StreamBroken),
        (json!({"error": {"code": 503, "message": "x"}}), FailureKind::Overloaded),
    ] {
        let stream = format!("{}{}", sse(&[text("a"), event.clone()]), sse(&[end("COMPLETE")]));
        assert_eq!(failures(decoder(), stream.as_bytes()), (vec![kind], 1), "{event}");
        // An error at the beginning refuses the request.
        let first = if kind == FailureKind::StreamBroken { FailureKind::Server } else { kind };
        assert_eq!(failures(decoder(), format!("{event}\n").as_bytes()), (vec![first], 0), "{event}");
    }
    assert_eq!(failures(decoder(), b"event: error\ndata: oops\n\n"), (vec![FailureKind::Server], 0));
    for body in [
        "",
        " \n",
        "<html>\n</html>\n",
        ": only\n\n",
        "data: [1]\n\n",
        "data: {\"delta\":5}\n\n",
        "{\"delta\":5}\n",
    ] {
        assert_eq!(failures(decoder(), body.as_bytes()), (vec![FailureKind::InvalidResponse], 0), "{body:?}");
    }
    assert_eq!(
        failures(decoder(), b"data: {\"type\":\"\xff\"}\n\n"),
        (vec![FailureKind::InvalidResponse], 0)
    );
    // A server with this dialect sends the mark without a finish.
    assert_eq!(whole("data: [DONE]\n\n"), ["end"]);
    assert_eq!(whole(&format!("{}data: [DONE]\n\n", sse(&[end("COMPLETE")]))), ["finish stop", "end"]);
}

#[test]
fn probabilities_come_in_openais_shape() {
    let mut event = text("漢");
    event["logprobs"] = json!({"token_ids": [1, 2], "text": "漢", "logprobs": [-0.25, -0.5]});
    let stream = sse(&[event, end("COMPLETE")]);
    let mut seen = Vec::new();
    decoder().feed(stream.as_bytes(), &mut |event| {
        if let Event::Text { text, logprobs, .. } = event {
            let logprobs: Value = serde_json::from_str(logprobs.unwrap().get()).unwrap();
            seen.push((text.into_owned(), logprobs["content"][0]["logprob"].as_f64()));
        }
    });
    assert_eq!(seen, [("漢".to_owned(), Some(-0.75))]);
    for odd in [json!(5), json!({}), json!({"logprobs": []}), json!({"logprobs": "x"})] {
        let mut event = text("a");
        event["logprobs"] = odd;
        assert_eq!(whole(&sse(&[event])), ["text: a"]);
    }
}

#[test]
fn u13_endless_streams_are_bounded() {
    for begin in ["data: ", "{"] {
        let mut decoder = decoder();
        let mut seen = Vec::new();
        decoder.feed(begin.as_bytes(), &mut |event| seen.push(format!("{event:?}")));
        for _ in 0..300 {
            decoder.feed(&vec![b'x'; 1 << 16], &mut |event| seen.push(format!("{event:?}")));
        }
        assert!(matches!(&seen[..], [only] if only.contains("InvalidResponse")), "{begin}");
    }
    let call = json!({"type": "tool-call-start", "delta": {"message": {"tool_calls": {"id": "a", "function": {"name": "f"}}}}});
    let (kinds, others) = failures(decoder(), sse(&vec![call; 3000]).as_bytes());
    assert_eq!((kinds, others), (vec![FailureKind::InvalidResponse], 2048));
}

#[test]
fn u25_broken_characters_become_the_replacement_character() {
    let stream = "data: {\"type\":\"content-delta\",\"delta\":{\"message\":{\"content\":{\"text\":\"a\\ud83d\"}}}}\n\n";
    assert_eq!(whole(stream), ["text: a\u{fffd}"]);
}

#[test]
fn the_common_event_borrows_its_text() {
    let stream = sse(&[text("hello")]);
    let inside = stream.as_bytes().as_ptr_range();
    let mut borrowed = 0;
    decoder().feed(stream.as_bytes(), &mut |event| {
        if let Event::Text { text, .. } = event {
            borrowed += usize::from(inside.contains(&text.as_ptr()));
        }
    });
    assert_eq!(borrowed, 1);
}

proptest::proptest! {
    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..400), step in 1_usize..40) {
        events(decoder(), bytes.chunks(step));
    }

    #[test]
    fn events_in_any_order_never_panic(order in proptest::collection::vec(0_usize..40, 0..60), broken in 0_usize..60) {
        let frames: Vec<&str> = ALL.split_inclusive("\n\n").collect();
        let mut stream: Vec<u8> = order.iter().flat_map(|at| frames[at % frames.len()].bytes()).collect();
        if let Some(byte) = stream.get_mut(broken * 7) {
            *byte = b'}';
        }
        events(decoder(), [&stream[..]]);
        let _ = adapter().decode_chat(&stream, &Reading::default());
        let _ = adapter().decode_embeddings(&stream, 1);
    }
}
