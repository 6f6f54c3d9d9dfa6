//! Streams in one chunk and in chunks of every other size.

use gw_wire::event::Event;
use gw_wire::failure::FailureKind;
use proptest::prelude::*;

use super::adapter;
use crate::adapter::Reading;

const STREAM: &str = include_str!("../../../../fixtures/gemini/generate_content.stream.txt");
const LIST: &str = include_str!("../../../../fixtures/gemini/generate_content.list.stream.txt");

/// Formats the events of a stream as lines and joins adjacent pieces of the same kind.
fn decode<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<String> {
    let mut decoder = adapter().stream(&Reading::default());
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut sink = |event: Event<'_>| {
        let (kind, text) = match &event {
            Event::Text { choice, text, logprobs: None } => (format!("text {choice}"), text.to_string()),
            Event::Reasoning { choice, text } => (format!("reasoning {choice}"), text.to_string()),
            Event::ToolArgs { choice, call, fragment } => {
                (format!("args {choice} {call}"), fragment.to_string())
            }
            Event::Error(failure) => (format!("error {:?}", failure.kind), String::new()),
            other => (format!("{other:?}"), String::new()),
        };
        match lines.last_mut() {
            Some((last, joined)) if *last == kind && !text.is_empty() => joined.push_str(&text),
            _ => lines.push((kind, text)),
        }
    };
    for piece in pieces {
        decoder.feed(piece, &mut sink);
    }
    decoder.eof(&mut sink);
    lines
        .into_iter()
        .map(|(kind, text)| if text.is_empty() { kind } else { format!("{kind}: {text}") })
        .collect()
}

fn whole(stream: &str) -> Vec<String> {
    decode([stream.as_bytes()])
}

fn without_blanks(lines: &[String]) -> Vec<String> {
    lines.iter().map(|line| line.replace(": ", ":").replace(", ", ",")).collect()
}

fn expected() -> Vec<String> {
    let usage = |prompt, completion, cached: &str, reasoning: &str| {
        format!(
            "Usage(Usage {{ prompt: {prompt}, completion: {completion}, cached: {cached}, cache_write: None, cache_write_1h: None, reasoning: {reasoning}, audio_prompt: None, image_prompt: None, audio_completion: None, image_completion: None, accepted_prediction: None, rejected_prediction: None, hosted: HostedCalls {{ web_search: 0, web_fetch: 0, file_search: 0, code_interpreter: 0, code_runs: 0, search_answers: 0, search_low: 0, search_medium: 0, search_high: 0 }}, unread_calls: 0, has_unpriced: false, estimated: false, is_total: false, units: Units {{ counted: None, form: ImageForm {{ size: None, quality: None }} }}, stated_cost: None }})"
        )
    };
    let start = |call, id: &str, name: &str| {
        format!("ToolStart {{ choice: 0, call: {call}, id: \"{id}\", name: \"{name}\" }}")
    };
    vec![
        "Start { model: Some(\"gemini-3-flash-preview\"), fingerprint: None }".to_owned(),
        "reasoning 0: 考え中… 🤔".to_owned(),
        usage(20, 4, "None", "Some(4)"),
        "text 0: 東京の\n天気 ☀️ \"q\" \\ }{".to_owned(),
        start(0, "fc-1__thought__c2ln", "get_weather"),
        "args 0 0: {\"city\": \"東京\",\"b\": [1,{\"c\": \"}\"}]}".to_owned(),
        start(1, "fc-2", "now"),
        "args 0 1: {}".to_owned(),
        "Extra { choice: 0, name: \"reasoning_details\", value: RawValue([{\"data\":\"dGV4dA==\",\"format\":\"google-gemini-v1\",\"id\":\"text_0\",\"index\":0,\"type\":\"reasoning.encrypted\"}]) }".to_owned(),
        usage(20, 20, "Some(4)", "Some(8)"),
        "Extra { choice: 0, name: \"reasoning_details\", value: RawValue([{\"index\":1,\"order\":\"r17 t32 c c t0 s\",\"type\":\"gateway.order\"}]) }".to_owned(),
        "Finish { choice: 0, reason: ToolCalls }".to_owned(),
    ]
}

#[test]
fn half_a_surrogate_pair_does_not_end_the_stream() {
    let event = |parts: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{parts}]}},\"finishReason\":\"STOP\"}}]}}\n\n"
        )
    };
    let stream = [
        event(r#"{"text":"Up \ud83d"}"#),
        event(r#"{"text":"\ude42 and"},{"text":" down","thoughtSignature":"\ud83d"}"#),
        event(r#"{"functionCall":{"id":"c","name":"f\udc00","args":{"a":"\ud83d"}}}"#),
    ];
    let lines = whole(&stream.concat());
    assert!(!lines.iter().any(|line| line.starts_with("error")), "{lines:?}");
    assert_eq!(lines[0], "text 0: Up \u{fffd}\u{fffd} and down");
    assert!(lines.iter().any(|line| line.contains("name: \"f\u{fffd}\"")), "{lines:?}");
}

#[test]
fn a_stream_becomes_events() {
    assert_eq!(whole(STREAM), expected());
}

#[test]
fn a_json_array_is_read_as_a_stream() {
    assert_eq!(without_blanks(&whole(LIST)), without_blanks(&expected()));
}

#[test]
fn the_events_do_not_depend_on_the_cuts() {
    for stream in [STREAM, LIST] {
        let uncut = whole(stream);
        let bytes = stream.as_bytes();
        for cut in 0..=bytes.len() {
            let (before, after) = bytes.split_at(cut);
            assert_eq!(decode([before, after]), uncut, "cut at {cut}");
        }
        assert_eq!(decode(bytes.chunks(1)), uncut, "byte by byte");
        assert_eq!(whole(&stream.replace("\r\n", "\n")), uncut, "line feeds alone");
    }
}

#[test]
fn the_finish_reason_of_a_call_may_come_later_or_on_every_event() {
    let call = r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","args":{}}}]},"finishReason":"STOP"}]}"#;
    let text = r#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}"#;
    let last = r#"{"candidates":[{"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":1,"candidatesTokenCount":2}}"#;
    let lines = whole(&format!("data: {text}\n\ndata: {call}\n\ndata: {text}\n\ndata: {last}\n\n"));
    let finishes: Vec<_> = lines.iter().filter(|line| line.starts_with("Finish")).collect();
    assert_eq!(finishes, ["Finish { choice: 0, reason: ToolCalls }"]);
    assert_eq!(lines.last(), finishes.first().copied());
    let cut = r#"{"candidates":[{"finishReason":"MAX_TOKENS"}]}"#;
    let lines = whole(&format!("data: {text}\n\ndata: {cut}\n\n"));
    assert_eq!(lines.last().unwrap(), "Finish { choice: 0, reason: Length }");
}

#[test]
fn a_call_without_arguments_has_no_fragment() {
    let lines = whole(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\"}}]},\"finishReason\":\"STOP\"}]}\n\n",
    );
    assert_eq!(
        lines,
        [
            "ToolStart { choice: 0, call: 0, id: \"\", name: \"f\" }",
            "Finish { choice: 0, reason: ToolCalls }"
        ]
    );
}

#[test]
fn only_calls_are_numbered() {
    let text = r#"{"text":"x"}"#;
    let call = r#"{"functionCall":{"id":"a","name":"f"}}"#;
    let event =
        |parts: &str| format!("data: {{\"candidates\":[{{\"content\":{{\"parts\":[{parts}]}}}}]}}\n\n");
    let stream = event(&format!("{text},{call},{text}")) + &event(&format!("{text},{call}"));
    let lines = whole(&stream);
    let starts: Vec<_> = lines.iter().filter(|line| line.starts_with("ToolStart")).collect();
    assert!(starts[0].contains("call: 0") && starts[1].contains("call: 1"), "{starts:?}");
}

#[test]
fn a_call_without_an_id_has_an_empty_one() {
    let lines = whole(
        "[{\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"name\":\"f\",\"args\":{\"a\":1}}}]}}]}]",
    );
    assert_eq!(lines, ["ToolStart { choice: 0, call: 0, id: \"\", name: \"f\" }", "args 0 0: {\"a\":1}"]);
}

#[test]
fn a_signed_call_without_an_id_gets_a_unique_one() {
    let body = |response: &str| {
        format!(
            "data: {{{response}\"candidates\":[{{\"content\":{{\"parts\":[{{\"functionCall\":{{\"name\":\"f\"}},\"thoughtSignature\":\"cw==\"}},{{\"functionCall\":{{\"name\":\"f\"}},\"thoughtSignature\":\"cw==\"}}]}}}}]}}\n\n"
        )
    };
    let known = whole(&body("\"responseId\":\"r1\","));
    assert!(
        known[0].contains("__thought__cw==") && known[0] != known[1].replace("call: 1", "call: 0"),
        "{known:?}"
    );
    assert_eq!(known, whole(&body("\"responseId\":\"r1\",")));
    assert_ne!(known, whole(&body("\"responseId\":\"r2\",")));
    assert_ne!(whole(&body("")), whole(&body("")));
}

#[test]
fn a_refused_prompt_ends_every_stream() {
    let lines = whole(
        "data: {\"promptFeedback\":{\"blockReason\":\"SAFETY\"},\"usageMetadata\":{\"promptTokenCount\":4,\"totalTokenCount\":4}}\n\n",
    );
    assert_eq!(lines[1..], ["Finish { choice: 0, reason: ContentFilter }", "End"]);
}

#[test]
fn a_stream_without_a_candidate_or_a_reason_for_it_is_a_failure() {
    let lines = whole("data: {\"usageMetadata\":{\"promptTokenCount\":4,\"totalTokenCount\":4}}\n\n");
    assert_eq!(lines[1..], ["error StreamBroken"]);
    assert_eq!(whole("data: {\"promptFeedback\":{}}\n\n"), ["error StreamBroken"]);
}

#[test]
fn a_model_that_gives_up_is_a_failure() {
    let event = |reason: &str| {
        format!(
            "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"x\"}}]}},\"finishReason\":\"{reason}\"}}]}}\n\n"
        )
    };
    for reason in ["MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MISSING_THOUGHT_SIGNATURE"] {
        assert_eq!(whole(&event(reason)), ["text 0: x", "error StreamBroken"], "{reason}");
    }
}

#[test]
fn pictures_are_images() {
    let stream = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"thought\":true,\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"eA==\"}},{\"inlineData\":{\"mimeType\":\"image/png\",\"data\":\"Y2F0\"},\"thoughtSignature\":\"cGlj\"}]},\"finishReason\":\"STOP\"}]}\n\n";
    assert_eq!(
        whole(stream),
        [
            "Image { choice: 0, image: Image { media_type: \"image/png\", base64: \"Y2F0\", tokens: 1290 } }",
            "Extra { choice: 0, name: \"reasoning_details\", value: RawValue([{\"data\":\"cGlj\",\"format\":\"google-gemini-v1\",\"id\":\"image_0\",\"index\":0,\"type\":\"reasoning.encrypted\"}]) }",
            "Extra { choice: 0, name: \"reasoning_details\", value: RawValue([{\"index\":1,\"order\":\"i s\",\"type\":\"gateway.order\"}]) }",
            "Finish { choice: 0, reason: Stop }",
        ]
    );
}

#[test]
fn several_candidates_finish_each() {
    let lines = whole(
        "data: {\"candidates\":[{\"index\":1,\"content\":{\"parts\":[{\"text\":\"b\"}]},\"finishReason\":\"STOP\"},{\"content\":{\"parts\":[{\"text\":\"a\"}]},\"finishReason\":\"STOP\",\"index\":0}]}\n\n",
    );
    assert_eq!(
        lines,
        [
            "text 1: b",
            "text 0: a",
            "Finish { choice: 0, reason: Stop }",
            "Finish { choice: 1, reason: Stop }"
        ]
    );
}

#[test]
fn a_broken_stream_is_an_error() {
    let text = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]}}]}\n\n";
    // Without a finish reason the decoder emits no finish, and the caller reports a broken stream.
    assert_eq!(whole(text), ["text 0: x"]);
    let error = r#"{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}"#;
    assert_eq!(whole(&format!("{text}data: {error}\n\n{text}")), ["text 0: x", "error Overloaded"]);
    assert_eq!(whole(&format!("{text}data: [{error}]\n\n")), ["text 0: x", "error Overloaded"]);
    assert_eq!(whole(&format!("[{error}]")), ["error Overloaded"]);
    assert_eq!(whole(error), ["error Overloaded"]);
    assert_eq!(whole(&format!("{text}data: {{\"candidates\":[")), ["text 0: x", "error StreamBroken"]);
    assert_eq!(whole("[{\"candidates\":[{\"content\""), ["error StreamBroken"]);
    let nameless = r#"{"error":{"message":"?"}}"#;
    assert_eq!(whole(nameless), ["error Server"]);
    assert_eq!(whole(&format!("{text}data: {nameless}\n\n")), ["text 0: x", "error StreamBroken"]);
}

#[test]
fn a_body_that_is_no_stream_is_an_invalid_response() {
    for body in [
        "",
        " \r\n",
        "<html>\n\n",
        "data: x\n\n",
        "data: 5\n\n",
        "[]",
        ": only\n\n: comments\n\n",
        "data: {\"candidates\":[{\"index\":4000000000}]}\n\n",
        "data: {\"candidates\":[{\"index\":-1}]}\n\n",
    ] {
        assert_eq!(whole(body), ["error InvalidResponse"], "{body}");
    }
    let huge = format!("[{{\"a\":\"{}", "x".repeat(16 << 20));
    assert_eq!(whole(&huge), ["error InvalidResponse"]);
    assert_eq!(whole(&format!("data: {}", "x".repeat(16 << 20))), ["error InvalidResponse"]);
}

#[test]
fn logprobs_go_with_their_text() {
    let lines = whole(
        "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"H\"}]},\"logprobsResult\":{\"chosenCandidates\":[{\"token\":\"H\",\"logProbability\":-0.5}]},\"finishReason\":\"STOP\"}]}\n\n",
    );
    assert!(lines[0].contains("\"H\"") && lines[0].contains("\"logprob\":-0.5"), "{lines:?}");
}

proptest! {
    #[test]
    fn two_cuts_give_equal_events(a in 0..STREAM.len(), b in 0..STREAM.len()) {
        let (first, second) = (a.min(b), a.max(b));
        let bytes = STREAM.as_bytes();
        prop_assert_eq!(decode([&bytes[..first], &bytes[first..second], &bytes[second..]]), whole(STREAM));
    }

    #[test]
    fn any_bytes_never_panic(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..64), 0..8)) {
        decode(chunks.iter().map(Vec::as_slice));
    }

    #[test]
    fn damaged_streams_never_panic(at in 0..STREAM.len(), byte in any::<u8>(), is_list in any::<bool>()) {
        let mut bytes = if is_list { LIST } else { STREAM }.as_bytes().to_vec();
        if let Some(place) = bytes.get_mut(at) {
            *place = byte;
        }
        let lines = decode([bytes.as_slice()]);
        prop_assert!(!lines.is_empty());
        let _ = adapter().decode_chat(&bytes, &Reading::default()).map(|reply| reply.choices.len());
    }
}

#[test]
fn the_code_of_an_error_decides_its_kind() {
    let mut decoder = adapter().stream(&Reading::default());
    let mut kinds = Vec::new();
    let stream = "data: {\"error\":{\"code\":429,\"status\":\"RESOURCE_EXHAUSTED\",\"message\":\"x\",\"details\":[{\"retryDelay\":\"9s\"}]}}\n\n";
    decoder.feed(stream.as_bytes(), &mut |event| {
        if let Event::Error(failure) = event {
            kinds.push((failure.kind, failure.retry_after.map(|wait| wait.as_secs())));
        }
    });
    assert_eq!(kinds, [(FailureKind::RateLimited, Some(9))]);
}
