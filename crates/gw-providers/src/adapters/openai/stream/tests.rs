//! Streams of real upstreams, event by event, and the ways in which they go wrong.

use gw_wire::event::Event;
use gw_wire::failure::FailureKind;

use super::OpenAiStream;
use crate::adapter::StreamDecoder;

/// The events of a stream that arrives in chunks of this size, one per line.
fn decode(stream: &[u8], step: usize) -> Vec<String> {
    let mut decoder = OpenAiStream::default();
    let mut lines = Vec::new();
    let mut sink = |event: Event<'_>| lines.push(format!("{event:?}"));
    stream.chunks(step).for_each(|chunk| decoder.feed(chunk, &mut sink));
    decoder.eof(&mut sink);
    lines
}

fn whole(stream: &str) -> Vec<String> {
    decode(stream.as_bytes(), usize::MAX)
}

/// The kinds of the failures that a stream reports, and whether anything else came.
fn failures(stream: &str) -> (Vec<FailureKind>, usize) {
    let mut decoder = OpenAiStream::default();
    let (mut kinds, mut others) = (Vec::new(), 0);
    let mut sink = |event: Event<'_>| match event {
        Event::Error(failure) => kinds.push(failure.kind),
        _ => others += 1,
    };
    decoder.feed(stream.as_bytes(), &mut sink);
    decoder.eof(&mut sink);
    (kinds, others)
}

macro_rules! golden {
    ($($name:ident,)+) => {
        const STREAMS: &[&str] = &[$(include_str!(concat!("../../../../fixtures/openai/streams/", stringify!($name), ".sse")),)+];

        $(#[test]
        fn $name() {
            let stream = include_str!(concat!("../../../../fixtures/openai/streams/", stringify!($name), ".sse"));
            insta::assert_snapshot!(stringify!($name), whole(stream).join("\n"));
        })+
    };
}

golden! {
    openai, azure, tools, tools_all_numbered_zero, tools_without_numbers, reasoning, odds_and_ends, text, error_mid,
}

#[test]
fn u11_the_events_do_not_depend_on_the_cuts() {
    for stream in STREAMS {
        let uncut = whole(stream);
        for step in [1, 2, 3, 7, 64] {
            assert_eq!(decode(stream.as_bytes(), step), uncut, "step {step}");
        }
        let windows = stream.replace('\n', "\r\n");
        assert_eq!(whole(&windows), uncut);
    }
}

#[test]
fn u08_a_stream_without_an_end_marker_has_no_end_event() {
    let cut = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n";
    assert_eq!(whole(cut).len(), 1);
}

#[test]
fn u10_a_body_that_is_no_event_stream_is_an_invalid_response() {
    for body in [
        "",
        "<html>\n<body>no</body>\n",
        "null",
        "[]",
        "{}",
        "{\"a\":",
        "not json\n\n",
        ": only\n\n: comments\n\n",
    ] {
        assert_eq!(failures(body), (vec![FailureKind::InvalidResponse], 0), "{body}");
    }
    for event in
        ["<html>", "1e999", "[1]", "\"x\"", "{\"choices\":5}", "{\"choices\":[{\"delta\":{\"content\":5}}]}"]
    {
        assert_eq!(
            failures(&format!("data: {event}\n\n")),
            (vec![FailureKind::InvalidResponse], 0),
            "{event}"
        );
    }
    let latin1 = b"data: {\"choices\":[{\"delta\":{\"content\":\"\xe4\"}}]}\n\n";
    assert!(decode(latin1, 1000)[0].contains("InvalidResponse"));
}

#[test]
fn a_document_instead_of_a_stream_is_read() {
    let document = r#"{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"all"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;
    let events = whole(document).join("\n");
    assert!(
        events.contains("Text { choice: 0, text: \"all\"")
            && events.contains("Finish")
            && events.ends_with("End")
    );
    assert_eq!(failures("{\"error\":{\"message\":\"x\",\"code\":503}}"), (vec![FailureKind::Overloaded], 0));
}

#[test]
fn u15_an_error_as_first_event_is_the_only_event() {
    for (event, kind) in [
        (r#"{"error":{"message":"busy","type":"overloaded_error"}}"#, FailureKind::Overloaded),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
            FailureKind::Overloaded,
        ),
        (
            r#"{"error":{"message":"slow down","code":429},"choices":[{"delta":{"content":"x"}}]}"#,
            FailureKind::RateLimited,
        ),
        (r#"{"error":{"code":"insufficient_quota","message":"x"}}"#, FailureKind::Billing),
        (r#"{"error":{"code":"context_length_exceeded","message":"x"}}"#, FailureKind::ContextLength),
        (r#"{"error":{"type":"invalid_request_error","message":"x"}}"#, FailureKind::BadRequest),
        (r#"{"error":"something"}"#, FailureKind::Server),
        (r#"{"error":{}}"#, FailureKind::Server),
        (
            r#"{"object":"error","message":"boom","type":"InternalServerError","code":500}"#,
            FailureKind::Server,
        ),
        (r#"{"choices":[{"delta":{},"finish_reason":"error"}]}"#, FailureKind::StreamBroken),
    ] {
        let stream = format!("data: {event}\n\ndata: {{\"choices\":[]}}\n\ndata: [DONE]\n\n");
        assert_eq!(failures(&stream), (vec![kind], 0), "{event}");
    }
    let named = "event: error\ndata: {\"message\":\"gone\",\"code\":\"502\"}\n\n";
    assert_eq!(failures(named), (vec![FailureKind::Server], 0));
    assert_eq!(failures("data: {\"error\":null,\"choices\":[]}\n\ndata: [DONE]\n\n"), (vec![], 1));
}

#[test]
fn members_of_the_answer_are_reported() {
    let chunk = |more: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"a\"}}}}],\"service_tier\":\"default\"{more}}}\n\n"
        )
    };
    let lines = whole(&(chunk("") + &chunk(",\"moderation\":{\"flagged\":false}")));
    let members: Vec<_> = lines.iter().filter(|line| line.starts_with("Member")).collect();
    assert_eq!(
        members,
        [
            "Member { name: \"service_tier\", value: RawValue(\"default\") }",
            "Member { name: \"moderation\", value: RawValue({\"flagged\":false}) }",
        ]
    );
}

#[test]
fn an_event_cut_off_by_the_end_is_a_broken_stream() {
    let cut =
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"choices\":[{\"ind";
    assert_eq!(failures(cut), (vec![FailureKind::StreamBroken], 1));
}

#[test]
fn u13_an_endless_event_is_an_error() {
    let mut decoder = OpenAiStream::default();
    let mut events = Vec::new();
    let chunk = vec![b'x'; 1 << 16];
    for _ in 0..300 {
        decoder.feed(&chunk, &mut |event| events.push(format!("{event:?}")));
    }
    assert!(matches!(&events[..], [only] if only.contains("InvalidResponse")));
}

#[test]
fn tool_calls_without_end_are_an_error() {
    let call = |index: usize| format!(r#"{{"index":{index},"id":"c{index}","function":{{"name":"f"}}}}"#);
    let calls: Vec<_> = (0..20_000).map(call).collect();
    let event = format!(
        "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{}]}}}}]}}\n\n",
        calls.join(",")
    );
    let (kinds, others) = failures(&event);
    assert_eq!(kinds, [FailureKind::InvalidResponse]);
    assert!(others < 3000, "{others}");
}

#[test]
fn u24_invalid_usage_does_not_break_a_stream() {
    for odd in ["-1", "NaN", "-Infinity", "9223372036854775808", "\"7\"", "null", "[]", "1e999"] {
        for usage in [odd.to_owned(), format!("{{\"prompt_tokens\":{odd},\"completion_tokens\":1}}")] {
            let stream = format!(
                "data: {{\"choices\":[{{\"delta\":{{\"content\":\"a\"}},\"finish_reason\":\"stop\"}}],\"usage\":{usage},\"usage\":{usage}}}\n\ndata: [DONE]\n\n"
            );
            let (kinds, others) = failures(&stream);
            assert!(kinds.is_empty() && others >= 3, "{usage}: {kinds:?}");
        }
    }
}

#[test]
fn u25_and_c16_unusual_characters_stay_inside_their_event() {
    let stream = r#"data: {"id":"a\u0000\n","model":"m\u2028\ud800","choices":[{"delta":{"content":"\n\ndata: [DONE]\n\n\u0000\u2028"}}]}"#;
    let expected = [
        format!("{:?}", Event::Start { model: Some("m\u{2028}\u{fffd}".into()), fingerprint: None }),
        format!(
            "{:?}",
            Event::Text { choice: 0, text: "\n\ndata: [DONE]\n\n\0\u{2028}".into(), logprobs: None }
        ),
    ];
    assert_eq!(whole(stream), expected);
}

#[test]
fn the_common_chunk_borrows_its_text() {
    let chunk = b"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"hello\"},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
    let inside = chunk.as_ptr_range();
    let mut decoder = OpenAiStream::default();
    let mut texts = 0;
    decoder.feed(chunk, &mut |event| {
        if let Event::Text { text, .. } = event {
            texts += usize::from(inside.contains(&text.as_ptr()));
        }
    });
    assert_eq!(texts, 1);
}

/// The meaning of one event alone, which the template cannot shorten.
fn alone(event: &str) -> Vec<String> {
    let mut decoder = OpenAiStream::default();
    let mut lines = Vec::new();
    decoder.feed(format!("data: {event}\n\n").as_bytes(), &mut |event| lines.push(format!("{event:?}")));
    lines
}

proptest::proptest! {
    #[test]
    fn the_template_shortcut_equals_a_full_parse(
        texts in proptest::collection::vec("[ -~é漢👍\"\\\\\n\u{7f}]{0,12}", 1..12),
        raw in proptest::collection::vec("[a\"\\\\\n\\[{,:é]{0,6}", 0..4),
        tail in proptest::sample::select(vec!["", ",\"logprobs\":null", ",\"finish_reason\":null", ",\"logprobs\":{\"a\":1}"]),
    ) {
        // Texts as JSON writes them, and some that are no JSON at all.
        let written = texts.iter().map(|text| serde_json::to_string(text).unwrap());
        let broken = raw.iter().map(|text| format!("\"{text}\""));
        let events: Vec<String> = written
            .chain(broken)
            .map(|text| format!("{{\"id\":\"a\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{text}}}{tail}}}]}}"))
            .filter(|event| !event.contains('\n'))
            .collect();
        let mut expected = Vec::new();
        for event in &events {
            expected.extend(alone(event));
            if expected.last().is_some_and(|line| line.starts_with("Error")) {
                break;
            }
        }
        let stream: String = events.iter().map(|event| format!("data: {event}\n\n")).collect();
        let mut decoder = OpenAiStream::default();
        let mut got = Vec::new();
        decoder.feed(stream.as_bytes(), &mut |event| got.push(format!("{event:?}")));
        // Alone, an empty text is no event; between others it may be given, and means nothing.
        let said = |lines: Vec<String>| -> Vec<String> {
            lines.into_iter().filter(|line| !line.contains("text: \"\", logprobs: None")).collect()
        };
        proptest::prop_assert_eq!(said(got), said(expected));
    }
}

#[test]
fn a_chunk_with_thoughts_and_texts_keeps_its_log_probabilities() {
    let parts =
        r#"[{"type":"thinking","thinking":"t"},{"type":"text","text":"a"},{"type":"text","text":"b"}]"#;
    let chunk = |more: &str| {
        format!(
            "data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{parts}{more}}},\"logprobs\":{{\"content\":[]}}}}]}}\n\n"
        )
    };
    let said = |more: &str| {
        let mut decoder = OpenAiStream::default();
        let mut said = Vec::new();
        decoder.feed(chunk(more).as_bytes(), &mut |event| match event {
            Event::Reasoning { text, .. } => said.push(format!("thought {text}")),
            Event::Text { text, logprobs, .. } => {
                let logprobs = logprobs.map_or("", |value| value.get());
                said.push(format!("text {text} {logprobs}").trim().to_owned());
            }
            other => panic!("{other:?}"),
        });
        said
    };
    assert_eq!(said(""), ["thought t", "text a {\"content\":[]}", "text b"]);
    for name in ["reasoning", "reasoning_content"] {
        let named = said(&format!(",\"{name}\":\"t\""));
        assert_eq!(named, ["thought t", "text ab {\"content\":[]}"], "{name}");
        assert_eq!(said(&format!(",\"{name}\":\"\"")), said(""), "{name} is empty");
    }
}

/// The events of the pieces of one tool call, and of the finish.
fn call_in_pieces(pieces: &[&str]) -> Vec<String> {
    let chunk = |piece: &&str| {
        format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{piece}]}}}}]}}\n\n")
    };
    let stream: String = pieces.iter().map(chunk).collect();
    let finish = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n";
    let events = whole(&format!("{stream}{finish}data: [DONE]\n\n"));
    events.into_iter().filter(|event| event.starts_with("Tool")).collect()
}

#[test]
fn arguments_before_the_name_wait_for_the_name() {
    let pieces = [
        r#"{"index":0,"id":"a","function":{"arguments":"{\"x\""}}"#,
        r#"{"index":0,"function":{"name":"f","arguments":":1"}}"#,
        r#"{"index":0,"function":{"arguments":"}"}}"#,
    ];
    let expected = [
        r#"ToolStart { choice: 0, call: 0, id: "a", name: "f" }"#,
        r#"ToolArgs { choice: 0, call: 0, fragment: "{\"x\"" }"#,
        r#"ToolArgs { choice: 0, call: 0, fragment: ":1" }"#,
        r#"ToolArgs { choice: 0, call: 0, fragment: "}" }"#,
    ];
    assert_eq!(call_in_pieces(&pieces), expected);
}

#[test]
fn a_call_without_a_name_starts_at_the_finish() {
    let pieces = [
        r#"{"index":0,"id":"a","function":{"arguments":"{"}}"#,
        r#"{"index":0,"function":{"arguments":"}"}}"#,
    ];
    let expected = [
        r#"ToolStart { choice: 0, call: 0, id: "a", name: "" }"#,
        r#"ToolArgs { choice: 0, call: 0, fragment: "{}" }"#,
    ];
    assert_eq!(call_in_pieces(&pieces), expected);
}

/// The texts and the reasoning of a stream.
fn said(stream: &str) -> String {
    let mut decoder = OpenAiStream::default();
    let mut all = String::new();
    let mut sink = |event: Event<'_>| match event {
        Event::Text { text, .. } | Event::Reasoning { text, .. } => all.push_str(&text),
        _ => {}
    };
    decoder.feed(stream.as_bytes(), &mut sink);
    decoder.eof(&mut sink);
    all
}

#[test]
fn a_character_that_was_cut_between_its_halves_is_joined() {
    let event = |(index, member, text): &(u32, &str, &str)| {
        let choice = format!(r#"{{"index":{index},"delta":{{"{member}":"{text}"}}}}"#);
        format!("data: {{\"choices\":[{choice}]}}\n\n")
    };
    for (pieces, expected) in [
        (&[(0, "content", "p"), (0, "content", r"a\ud83d"), (0, "content", r"\ude00b")][..], "pa\u{1f600}b"),
        (&[(0, "reasoning_content", r"\ud83d"), (0, "reasoning_content", r"\ude00")], "\u{1f600}"),
        (
            &[(0, "content", r"\ud83d"), (0, "content", r"\ude00\ud83d"), (0, "content", r"\ude42")],
            "\u{1f600}\u{1f642}",
        ),
        (&[(0, "content", "p"), (0, "content", r"\ud83d"), (0, "content", "x")], "p\u{fffd}x"),
        (&[(0, "content", r"\ud83d"), (1, "content", r"\ude00")], "\u{fffd}\u{fffd}"),
        (&[(0, "content", r"\ud83d"), (0, "reasoning_content", r"\ude00")], "\u{fffd}\u{fffd}"),
        (&[(0, "content", r"a\ud83d")], "a\u{fffd}"),
    ] {
        let stream: String = pieces.iter().map(event).collect();
        assert_eq!(said(&stream), expected, "{pieces:?}");
        assert_eq!(said(&format!("{stream}data: [DONE]\n\n")), expected, "{pieces:?}");
    }
}
