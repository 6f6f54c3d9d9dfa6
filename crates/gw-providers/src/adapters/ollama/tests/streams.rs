//! Streams, line by line, and their failures.

use gw_wire::event::Event;
use gw_wire::failure::FailureKind;
use serde_json::{Value, json};

use super::adapter;
use crate::adapter::{Reading, StreamDecoder};
use crate::adapters::trial::{cut_everywhere, events, failures};

const ALL: &str = include_str!("../../../../fixtures/ollama/all.stream.ndjson");
const SUFFIX: &str = include_str!("../../../../fixtures/ollama/suffix.stream.ndjson");

fn decoder() -> Box<dyn StreamDecoder> {
    adapter().stream(&Reading::default())
}

fn whole(stream: &str) -> Vec<String> {
    events(decoder(), [stream.as_bytes()])
}

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

fn text(text: &str) -> Value {
    json!({"model": "m", "message": {"role": "assistant", "content": text}, "done": false})
}

const START: &str = "Start { model: Some(\"m\"), fingerprint: None }";

#[test]
fn calls_are_numbered_regardless_of_their_index() {
    let expected = [
        "Start { model: Some(\"qwen3\"), fingerprint: None }",
        "reasoning: Two 都市, so two calls.",
        "text: I see 漢字 👨‍👩‍👧 \\ \"q\"",
        "call 0  get_weather",
        "args 0: {\"city\":\"Madrid\"}",
        "call 1  get_weather",
        "args 1: {\"city\":\"Brasília\",\"n\":1.5}",
        "usage 26 + 282",
        "finish tool_calls",
        "end",
    ];
    assert_eq!(whole(ALL), expected);
    // Both calls come in one line, or in the last line.
    let calls: Vec<Value> = ["Paris", "Rome"]
        .iter()
        .map(|city| json!({"function": {"index": 0, "name": "f", "arguments": {"city": city}}}))
        .collect();
    let last = json!({"model": "m", "message": {"content": "", "tool_calls": calls}, "done": true, "done_reason": "stop"});
    assert_eq!(
        whole(&lines(&[last])),
        [
            START,
            "call 0  f",
            "args 0: {\"city\":\"Paris\"}",
            "call 1  f",
            "args 1: {\"city\":\"Rome\"}",
            "finish tool_calls",
            "end"
        ]
    );
}

#[test]
fn the_events_do_not_depend_on_the_cuts_or_the_line_ends() {
    cut_everywhere(&decoder, ALL.as_bytes());
    cut_everywhere(&decoder, SUFFIX.as_bytes());
    assert_eq!(whole(&ALL.replace('\n', "\r\n")), whole(ALL));
    assert_eq!(whole(ALL.trim_end()), whole(ALL), "the last line without its end");
}

#[test]
fn a_suffix_completion_is_streamed() {
    let expected = [
        "Start { model: Some(\"codellama:code\"), fingerprint: None }",
        "text: \n  if é漢",
        "usage 0 + 5 estimated",
        "finish length",
        "end",
    ];
    let decoder = adapter().stream(&Reading::default());
    assert_eq!(events(decoder, [SUFFIX.as_bytes()]), expected);
}

#[test]
fn a_call_without_arguments_has_an_empty_object_once() {
    for arguments in [json!({}), json!(null), json!("")] {
        let call = json!({"function": {"name": "now", "arguments": arguments}});
        let line = json!({"model": "m", "message": {"content": "", "tool_calls": [call]}, "done": true});
        assert_eq!(whole(&lines(&[line])), [START, "call 0  now", "args 0: {}", "finish tool_calls", "end"]);
    }
}

#[test]
fn every_broken_stream_is_an_error() {
    // The body ends without a finish and without an end. The normaliser handles that.
    assert_eq!(whole(&lines(&[text("a")])), [START, "text: a"]);
    let cut = format!("{}{{\"model\":\"m\",\"mess", lines(&[text("a")]));
    assert_eq!(failures(decoder(), cut.as_bytes()), (vec![FailureKind::StreamBroken], 2));
    let done = json!({"model": "m", "done": true});
    for (error, kind) in [
        (
            json!("an error was encountered while running the model: unexpected EOF"),
            FailureKind::StreamBroken,
        ),
        (json!("the input length exceeds the context length"), FailureKind::ContextLength),
        (json!({"code": 503, "message": "busy"}), FailureKind::Overloaded),
        (
            json!(
                "{\"error\":{\"code\":400,\"message\":\"exceeds the available context size\",\"type\":\"exceed_context_size_error\"}}"
            ),
            FailureKind::ContextLength,
        ),
        (json!(""), FailureKind::StreamBroken),
    ] {
        let stream = lines(&[text("a"), json!({"error": error, "message": {"content": "b"}}), done.clone()]);
        assert_eq!(failures(decoder(), stream.as_bytes()), (vec![kind], 2), "{error}");
    }
    for body in ["", " \n", "<html>\n</html>\n", "null\n", "[]\n", "5\n", "{\"message\":5}\n", "{\"mess"] {
        assert_eq!(failures(decoder(), body.as_bytes()), (vec![FailureKind::InvalidResponse], 0), "{body:?}");
    }
    assert_eq!(failures(decoder(), b"{\"model\":\"\xff\"}\n"), (vec![FailureKind::InvalidResponse], 0));
    // The decoder ignores everything after the end.
    assert_eq!(whole(&lines(&[done, text("late")])), [START, "finish stop", "end"]);
}

#[test]
fn u13_endless_streams_are_bounded() {
    let mut decoder_of_one = decoder();
    let mut seen = Vec::new();
    for _ in 0..300 {
        decoder_of_one.feed(&vec![b'x'; 1 << 16], &mut |event| seen.push(format!("{event:?}")));
    }
    assert!(matches!(&seen[..], [only] if only.contains("InvalidResponse")));
    let call = json!({"function": {"name": "f", "arguments": {}}});
    let line = json!({"message": {"tool_calls": vec![call; 3000]}, "done": true});
    let (kinds, others) = failures(decoder(), lines(&[line]).as_bytes());
    assert_eq!((kinds, others), (vec![FailureKind::InvalidResponse], 2 * 2048));
}

#[test]
fn u25_broken_characters_become_the_replacement_character() {
    let stream = "{\"model\":\"m\",\"message\":{\"content\":\"a\\ud83d\"}}\n";
    assert_eq!(whole(stream), [START, "text: a\u{fffd}"]);
}

#[test]
fn the_common_line_borrows_its_text() {
    let stream = lines(&[text("hello")]);
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
        let frames: Vec<&str> = ALL.split_inclusive('\n').chain(SUFFIX.split_inclusive('\n')).collect();
        let mut stream: Vec<u8> = order.iter().flat_map(|at| frames[at % frames.len()].bytes()).collect();
        if let Some(byte) = stream.get_mut(broken * 7) {
            *byte = b'}';
        }
        events(decoder(), [&stream[..]]);
        let _ = adapter().decode_chat(&stream, &Reading::default());
        let _ = adapter().decode_embeddings(&stream, 1);
    }
}
