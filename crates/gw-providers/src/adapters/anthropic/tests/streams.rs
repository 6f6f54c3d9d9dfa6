//! Streams event by event, and broken streams.

use gw_wire::event::Event;
use gw_wire::failure::FailureKind;
use gw_wire::reply::Finish;
use gw_wire::stream::{Normaliser, Opening, Shape};
use gw_wire::usage::Usage;
use proptest::prelude::*;

use super::fixture;
use crate::adapter::{Reading, StreamDecoder};
use crate::adapters::anthropic::adapter;

/// Formats the events as lines and joins the pieces of a text, because their borders do not matter.
#[derive(Clone, Debug, Default, PartialEq)]
struct Heard {
    lines: Vec<(String, String)>,
    failures: Vec<FailureKind>,
}

impl Heard {
    fn hear(&mut self, event: Event<'_>) {
        let (head, tail) = match event {
            Event::Text { text, .. } => ("text".to_owned(), text.into_owned()),
            Event::Reasoning { text, .. } => ("thought".to_owned(), text.into_owned()),
            Event::ToolArgs { call, fragment, .. } => (format!("args {call}"), fragment.into_owned()),
            Event::Error(failure) => {
                self.failures.push(failure.kind);
                (format!("error {:?}", failure.kind), String::new())
            }
            other => (format!("{other:?}"), String::new()),
        };
        match self.lines.last_mut() {
            Some((last, text)) if *last == head && !tail.is_empty() => text.push_str(&tail),
            _ => self.lines.push((head, tail)),
        }
    }

    fn has(&self, start: &str) -> bool {
        self.lines.iter().any(|(head, _)| head.starts_with(start))
    }
}

fn play<'c>(chunks: impl IntoIterator<Item = &'c [u8]>) -> Heard {
    let mut decoder: Box<dyn StreamDecoder> = adapter().stream(&Reading::default());
    let mut heard = Heard::default();
    for chunk in chunks {
        decoder.feed(chunk, &mut |event| heard.hear(event));
    }
    decoder.eof(&mut |event| heard.hear(event));
    heard
}

fn whole(stream: &str) -> Heard {
    play([stream.as_bytes()])
}

/// The sizes of the texts that no other event holds.
fn written(stream: &str) -> Vec<u64> {
    let mut decoder: Box<dyn StreamDecoder> = adapter().stream(&Reading::default());
    let mut seen = Vec::new();
    decoder.feed(stream.as_bytes(), &mut |event| {
        if let Event::Written { bytes } = event {
            seen.push(bytes);
        }
    });
    seen
}

#[test]
fn blocks_without_events_of_their_own_count_once() {
    let start = |index: u32, block: &str| {
        format!("data: {{\"type\":\"content_block_start\",\"index\":{index},\"content_block\":{block}}}\n\n")
    };
    let piece = |index: u32, delta: &str| {
        format!("data: {{\"type\":\"content_block_delta\",\"index\":{index},\"delta\":{delta}}}\n\n")
    };
    let call = start(0, r#"{"type":"mcp_tool_use","id":"m","name":"ask","server_name":"s","input":{}}"#);
    let input = piece(0, r#"{"type":"input_json_delta","partial_json":"{\"q\":1}"}"#);
    let whole = start(0, r#"{"type":"mcp_tool_use","id":"m","name":"ask","input":{"q":1}}"#);
    let result =
        start(1, r#"{"type":"mcp_tool_result","tool_use_id":"m","content":[{"type":"text","text":"four"}]}"#);
    let summary = start(2, r#"{"type":"compaction","content":null}"#);
    let words = piece(2, r#"{"type":"compaction_delta","content":"short"}"#);
    let hidden = start(3, r#"{"type":"redacted_thinking","data":"QUJD"}"#);
    assert_eq!(written(&[&*call, &input, &result].concat()), [3, 7]);
    assert_eq!(written(&[&*whole, &input].concat()), [3, 7], "the pieces repeat the input");
    assert_eq!(written(&result), [4], "a result of no call");
    assert_eq!(written(&[&*summary, &words, &words].concat()), [5, 5]);
    assert_eq!(written(&hidden), Vec::<u64>::new());
}

fn full() -> String {
    std::fs::read_to_string(fixture("full.stream.txt")).unwrap()
}

/// Builds a stream of these events.
fn stream(events: &[&str]) -> String {
    events.iter().map(|event| format!("event: x\ndata: {event}\n\n")).collect()
}

const START: &str =
    r#"{"type":"message_start","message":{"model":"m","usage":{"input_tokens":5,"output_tokens":1}}}"#;
const TEXT: &str = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a"}}"#;
const DONE: &str =
    r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":3}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

#[test]
fn a_recorded_stream_becomes_events() {
    let usage = |completion, reasoning, estimated| {
        let usage = Usage {
            prompt: 135,
            completion,
            cached: Some(100),
            cache_write: Some(10),
            reasoning,
            estimated,
            ..Usage::default()
        };
        format!("{:?}", Event::Usage(usage))
    };
    let line = |head: &str, text: &str| (head.to_owned(), text.to_owned());
    let details =
        |json: &str| format!("Extra {{ choice: 0, name: \"reasoning_details\", value: RawValue({json}) }}");
    let call = |call: u32, id: &str, name: &str| {
        format!("{:?}", Event::ToolStart { choice: 0, call, id: id.into(), name: name.into() })
    };
    let expected = vec![
        line(
            &format!(
                "{:?}",
                Event::Start { model: Some("claude-sonnet-4-5-20250929".into()), fingerprint: None }
            ),
            "",
        ),
        line(&usage(0, None, true), ""),
        // The block begins, and a ping comes while the model thinks.
        line("thought", ""),
        line("thought", "Let me see… 考える。"),
        line(
            &details(
                r#"[{"type":"reasoning.text","text":"Let me see… 考える。","signature":"EqQBCgIYAhIM","format":"anthropic-claude-v1","index":0}]"#,
            ),
            "",
        ),
        line(
            &details(
                r#"[{"type":"reasoning.encrypted","data":"EmwKAhgB","format":"anthropic-claude-v1","index":1}]"#,
            ),
            "",
        ),
        line("text", "Okay 👍, 漢字\n\"quoted\" 😀"),
        line(&call(0, "toolu_01", "get_weather"), ""),
        line("args 0", r#"{"city": "San Francisco 橋"}"#),
        line(&call(1, "toolu_02", "get_time"), ""),
        line("args 1", "{}"),
        line(&format!("{:?}", Event::Finish { choice: 0, reason: Finish::ToolCalls }), ""),
        line(&usage(89, Some(30), false), ""),
        line("End", ""),
    ];
    assert_eq!(whole(&full()).lines, expected);
}

#[test]
fn the_events_do_not_depend_on_the_cuts() {
    let stream = full();
    let uncut = whole(&stream);
    let bytes = stream.as_bytes();
    for at in 0..=bytes.len() {
        let (left, right) = bytes.split_at(at);
        assert_eq!(play([left, right]), uncut, "cut at {at}");
    }
    assert_eq!(play(bytes.chunks(1)), uncut);
    assert_eq!(whole(&stream.replace('\n', "\r\n")), uncut);
    assert_eq!(whole(&stream.replace('\n', "\r")), uncut);
    assert_eq!(whole(stream.trim_end()), uncut);
}

#[test]
fn a_call_without_arguments_is_an_empty_object_once() {
    let block = |input: &str| {
        format!(
            r#"{{"type":"content_block_start","index":1,"content_block":{{"type":"tool_use","id":"t","name":"f","input":{input}}}}}"#
        )
    };
    let delta = |json: &str| {
        format!(
            r#"{{"type":"content_block_delta","index":1,"delta":{{"type":"input_json_delta","partial_json":"{json}"}}}}"#
        )
    };
    let stop = r#"{"type":"content_block_stop","index":1}"#;
    let args = |events: &[&str]| {
        let heard = whole(&stream(events));
        heard
            .lines
            .iter()
            .filter(|(head, _)| head == "args 0")
            .map(|(_, text)| text.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(args(&[START, &block("{}"), stop, DONE, STOP]), ["{}"]);
    assert_eq!(args(&[START, &block("{}"), &delta(""), stop, DONE, STOP]), ["{}"]);
    assert_eq!(args(&[START, &block("{}"), &delta(r#"{\"a\":1}"#), stop, DONE, STOP]), [r#"{"a":1}"#]);
    assert_eq!(args(&[START, &block("{}"), DONE, STOP]), ["{}"], "never stopped");
    assert_eq!(args(&[START, &block(r#"{"a":1}"#), stop, DONE, STOP]), [r#"{"a":1}"#], "all at once");
    assert_eq!(args(&[START, &block("null"), stop, DONE, STOP]), ["{}"]);
}

#[test]
fn calls_are_numbered_from_zero_regardless_of_their_block() {
    let heard = whole(&full());
    assert!(heard.has("ToolStart { choice: 0, call: 0") && heard.has("ToolStart { choice: 0, call: 1"));
    assert!(!heard.has("ToolStart { choice: 0, call: 3"));
}

#[test]
fn an_error_in_the_stream_is_an_error() {
    let heard = whole(&std::fs::read_to_string(fixture("error_mid.stream.txt")).unwrap());
    assert_eq!(heard.failures, [FailureKind::Overloaded]);
    assert!(!heard.has("Finish") && !heard.has("End") && heard.has("text"));
    for (kind, expected) in [
        ("overloaded_error", FailureKind::Overloaded),
        ("api_error", FailureKind::Server),
        ("rate_limit_error", FailureKind::RateLimited),
        ("timeout_error", FailureKind::Timeout),
        ("authentication_error", FailureKind::Auth),
        ("permission_error", FailureKind::Auth),
        ("billing_error", FailureKind::Billing),
        ("not_found_error", FailureKind::ModelMissing),
        ("invalid_request_error", FailureKind::BadRequest),
        // The provider has refused the request: nothing came before.
        ("something_new", FailureKind::Server),
    ] {
        let error = format!(r#"{{"type":"error","error":{{"type":"{kind}","message":"m"}}}}"#);
        let heard = whole(&stream(&[&error, START, STOP]));
        assert_eq!((heard.failures, heard.lines.len()), (vec![expected], 1), "{kind}");
    }
    let unknown = r#"{"type":"error","error":{"type":"something_new","message":"m"}}"#;
    assert_eq!(whole(&stream(&[START, unknown])).failures, [FailureKind::StreamBroken]);
    assert_eq!(whole("event: error\ndata: gone\n\n").failures, [FailureKind::Server]);
    assert_eq!(whole("event: error\ndata: {\"message\":\"gone\"}\n\n").failures, [FailureKind::Server]);
    assert_eq!(whole("data: {\"error\":{\"type\":\"api_error\"}}\n\n").failures, [FailureKind::Server]);
}

#[test]
fn a_stream_may_end_without_message_stop_only_after_its_stop_reason() {
    let cut = whole(&stream(&[START, TEXT]));
    assert!(!cut.has("End") && !cut.has("Finish") && cut.failures.is_empty());
    let done = whole(&stream(&[START, TEXT, DONE]));
    assert!(done.has("Finish") && !done.has("End") && done.failures.is_empty());
    let torn = whole(&(stream(&[START, TEXT, DONE]) + "event: message_stop\ndata: {\"type\":\"mess"));
    assert!(torn.has("Finish") && torn.failures.is_empty(), "{torn:?}");
    let complete = |text: &str| {
        let opening = Opening {
            shape: Shape::Chat,
            id: "chatcmpl-1".to_owned(),
            created: 0,
            model: "m".to_owned(),
            choices: 1,
            include_usage: false,
            form: None,
            prompt_tokens: 0,
        };
        let mut normaliser = Normaliser::new(opening);
        let mut out = Vec::new();
        let mut decoder = adapter().stream(&Reading::default());
        decoder.feed(text.as_bytes(), &mut |event| normaliser.accept(event, &mut out));
        decoder.eof(&mut |event| normaliser.accept(event, &mut out));
        normaliser.eof();
        normaliser.is_complete()
    };
    assert!(complete(&full()) && complete(&stream(&[START, TEXT, DONE])));
    assert!(complete(&stream(&[START, DONE, STOP])), "an answer without content");
    assert!(!complete(&stream(&[START, TEXT])) && !complete(&stream(&[START, TEXT, STOP])));
    let early = whole(&(stream(&[START, TEXT]) + "data: {\"type\":\"mess"));
    assert_eq!(early.failures, [FailureKind::StreamBroken]);
}

#[test]
fn sources_and_refusals_are_reported_before_the_end() {
    let heard = whole(&stream(&[
        START,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Größe: "}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"text","text":"","citations":[]}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"citations_delta","citation":{"type":"web_search_result_location","url":"https://b.example","title":"B"}}}"#,
        r#"{"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"7 m"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"type":"refusal","category":null,"explanation":"Not that."}},"usage":{"output_tokens":3}}"#,
        STOP,
    ]));
    let heads: Vec<&str> = heard.lines.iter().map(|(head, _)| head.as_str()).collect();
    let at = |begin: &str| heads.iter().position(|head| head.starts_with(begin)).unwrap();
    let annotations = r#"[{"type":"url_citation","url_citation":{"end_index":10,"start_index":7,"title":"B","url":"https://b.example"}}]"#;
    let extra = heads.iter().position(|head| head.contains("\"annotations\"")).unwrap();
    assert!(heads[extra].contains(annotations), "{heads:?}");
    assert!(heads[at("Refusal")].contains("Not that."), "{heads:?}");
    assert!(extra < at("Finish") && at("Refusal") < at("Finish"), "{heads:?}");
}

#[test]
fn every_stop_reason_finishes_once() {
    for (reason, finish) in [
        ("end_turn", Finish::Stop),
        ("stop_sequence", Finish::Stop),
        ("pause_turn", Finish::Stop),
        ("max_tokens", Finish::Length),
        ("model_context_window_exceeded", Finish::Length),
        ("tool_use", Finish::ToolCalls),
        ("refusal", Finish::ContentFilter),
        ("something_new", Finish::Stop),
    ] {
        let delta = format!(r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}"}}}}"#);
        let heard = whole(&stream(&[START, TEXT, &delta, &delta, STOP]));
        let finishes: Vec<_> = heard.lines.iter().filter(|(head, _)| head.starts_with("Finish")).collect();
        assert_eq!(finishes.len(), 1, "{reason}");
        assert!(finishes[0].0.contains(&format!("{finish:?}")), "{reason}");
    }
}

#[test]
fn a_delta_without_input_tokens_keeps_those_of_the_start() {
    let heard = whole(&stream(&[START, TEXT, DONE, STOP]));
    let last = heard.lines.iter().rev().find(|(head, _)| head.starts_with("Usage")).unwrap();
    assert!(last.0.contains("prompt: 5, completion: 3") && last.0.contains("estimated: false"), "{}", last.0);
}

#[test]
fn a_body_that_is_no_event_stream_is_an_invalid_response() {
    for body in [
        "",
        " \n",
        "<html>",
        "null",
        "[]",
        "{}",
        "{\"a\":",
        ": only\n\n: comments\n\n",
        "data: <x>\n\n",
        "data: 5\n\n",
    ] {
        let heard = whole(body);
        assert_eq!((heard.failures, heard.lines.len()), (vec![FailureKind::InvalidResponse], 1), "{body}");
    }
    let error = r#"{"type":"error","error":{"type":"overloaded_error","message":"x"}}"#;
    assert_eq!(whole(error).failures, [FailureKind::Overloaded]);
    let document = std::fs::read_to_string(fixture("full.response.json")).unwrap();
    let heard = whole(&document);
    assert!(heard.failures.is_empty() && heard.has("Finish") && heard.has("End") && heard.has("Extra"));
}

#[test]
fn endless_events_and_blocks_are_errors() {
    let mut decoder = adapter().stream(&Reading::default());
    let mut heard = Heard::default();
    for _ in 0..300 {
        decoder.feed(&[b'x'; 1 << 16], &mut |event| heard.hear(event));
    }
    assert_eq!(heard.failures, [FailureKind::InvalidResponse]);
    let blocks: Vec<String> = (0..1000)
        .map(|index| format!(r#"{{"type":"content_block_start","index":{index},"content_block":{{"type":"tool_use","id":"t","name":"f"}}}}"#))
        .collect();
    let blocks: Vec<&str> = blocks.iter().map(String::as_str).collect();
    assert_eq!(whole(&stream(&blocks)).failures, [FailureKind::InvalidResponse]);
}

#[test]
fn long_or_unsigned_thoughts_are_streamed_and_not_kept() {
    let open =
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#;
    let piece = format!(
        r#"{{"type":"content_block_delta","index":0,"delta":{{"type":"thinking_delta","thinking":"{}"}}}}"#,
        "x".repeat(1 << 19)
    );
    let signed =
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"s"}}"#;
    let stop = r#"{"type":"content_block_stop","index":0}"#;
    let mut events = vec![START, open];
    events.extend([&*piece; 9]);
    events.extend([signed, stop, DONE, STOP]);
    let heard = whole(&stream(&events));
    assert!(!heard.has("Extra") && heard.failures.is_empty());
    assert_eq!(heard.lines.iter().find(|(head, _)| head == "thought").unwrap().1.len(), 9 << 19);
    assert!(!whole(&stream(&[START, open, &piece, stop, DONE, STOP])).has("Extra"));
    // Hidden thoughts have a signature and no text.
    assert!(whole(&stream(&[START, open, signed, stop, DONE, STOP])).has("Extra"));
}

#[test]
fn a_common_delta_borrows_its_text() {
    let chunk = stream(&[TEXT]);
    let inside = chunk.as_bytes().as_ptr_range();
    let mut borrowed = 0;
    adapter().stream(&Reading::default()).feed(chunk.as_bytes(), &mut |event| {
        if let Event::Text { text, .. } = event {
            borrowed += usize::from(inside.contains(&text.as_ptr()));
        }
    });
    assert_eq!(borrowed, 1);
}

proptest! {
    #[test]
    fn pairs_of_cuts_give_equal_events(first in 0..4000_usize, second in 0..4000_usize) {
        let stream = full();
        let bytes = stream.as_bytes();
        let (first, second) = (first.min(second).min(bytes.len()), first.max(second).min(bytes.len()));
        prop_assert_eq!(play([&bytes[..first], &bytes[first..second], &bytes[second..]]), whole(&stream));
    }

    #[test]
    fn any_bytes_never_panic(chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..64), 0..8)) {
        play(chunks.iter().map(Vec::as_slice));
    }

    #[test]
    fn any_events_never_panic(
        events in proptest::collection::vec((0..9_usize, 0..4_u32, 0..5_usize), 0..24),
        broken in "[{}\\[\\]\",:a-z0-9 ]{0,20}",
    ) {
        let kinds = ["message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta", "message_stop", "ping", "error", "new"];
        let inner = ["text", "tool_use", "thinking", "redacted_thinking", "new"];
        let deltas = ["text_delta", "input_json_delta", "thinking_delta", "signature_delta", "new"];
        let mut text = String::new();
        for (kind, index, what) in events {
            let delta = format!(r#"{{"type":"{}","text":"t","partial_json":"{{}}","thinking":"h","signature":"s"}}"#, deltas[what]);
            text.push_str(&format!(
                "data: {{\"type\":\"{}\",\"index\":{index},\"content_block\":{{\"type\":\"{}\",\"data\":\"d\"}},\"delta\":{delta}}}\n\n",
                kinds[kind], inner[what]
            ));
        }
        let heard = whole(&text);
        prop_assert!(heard.failures.len() <= 1);
        whole(&format!("{text}data: {broken}\n\n"));
    }
}
