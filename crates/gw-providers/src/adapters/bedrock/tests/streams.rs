//! Streams in chunks of any size.

use gw_wire::event::Event;
use gw_wire::failure::FailureKind;
use proptest::prelude::*;
use serde_json::Value;

use super::super::frames::MAX_FRAME_BYTES;
use super::super::stream::BedrockStream;
use super::bytes;
use crate::adapter::StreamDecoder;

/// Formats the events as lines and joins adjacent pieces of the same block.
#[derive(Default)]
struct Seen {
    events: Vec<(String, String)>,
}

impl Seen {
    fn note(&mut self, event: Event<'_>) {
        let (kind, text) = match event {
            Event::Start { .. } => ("start".to_owned(), String::new()),
            Event::Text { text, .. } => ("text".to_owned(), text.into_owned()),
            Event::Reasoning { text, .. } => ("reasoning".to_owned(), text.into_owned()),
            Event::ToolStart { call, id, name, .. } => (format!("tool {call}"), format!("{id} {name}")),
            Event::ToolArgs { call, fragment, .. } => (format!("args {call}"), fragment.into_owned()),
            Event::Image { image, .. } => {
                ("image".to_owned(), format!("{} {}", image.media_type, image.base64))
            }
            Event::Extra { name, value, .. } => (name.to_owned(), value.get().to_owned()),
            Event::Finish { reason, .. } => ("finish".to_owned(), reason.as_str().to_owned()),
            Event::Usage(usage) => {
                let counts = (usage.prompt, usage.completion, usage.cached, usage.cache_write);
                ("usage".to_owned(), format!("{counts:?}"))
            }
            Event::Error(failure) => ("error".to_owned(), format!("{:?}", failure.kind)),
            Event::End => ("end".to_owned(), String::new()),
            Event::Written { bytes } => ("written".to_owned(), bytes.to_string()),
            other => panic!("{other:?}"),
        };
        let joins = ["text", "reasoning"].contains(&kind.as_str()) || kind.starts_with("args");
        match self.events.last_mut().filter(|last| joins && last.0 == kind) {
            Some(last) => last.1.push_str(&text),
            None => self.events.push((kind, text)),
        }
    }
}

fn decode<'c>(pieces: impl IntoIterator<Item = &'c [u8]>) -> Vec<(String, String)> {
    let mut seen = Seen::default();
    let mut stream = BedrockStream::default();
    for piece in pieces {
        stream.feed(piece, &mut |event| seen.note(event));
    }
    stream.eof(&mut |event| seen.note(event));
    seen.events
}

fn last(stream: &[u8]) -> (String, String) {
    decode([stream]).pop().unwrap()
}

fn frame(kind: &str, name: &str, payload: &str) -> Vec<u8> {
    use aws_smithy_types::event_stream::{Header, HeaderValue, Message};
    let header =
        |name: &'static str, value: &str| Header::new(name, HeaderValue::String(value.to_owned().into()));
    let type_header = match kind {
        "event" => ":event-type",
        "exception" => ":exception-type",
        _ => ":error-code",
    };
    let message = Message::new(payload.as_bytes().to_vec())
        .add_header(header(":message-type", kind))
        .add_header(header(type_header, name));
    let mut out = Vec::new();
    aws_smithy_eventstream::frame::write_message_to(&message, &mut out).unwrap();
    out
}

fn stream(events: &[(&str, &str)]) -> Vec<u8> {
    events.iter().flat_map(|(name, payload)| frame("event", name, payload)).collect()
}

const STOP: (&str, &str) = ("messageStop", r#"{"stopReason":"end_turn"}"#);

#[test]
fn a_recorded_stream_is_decoded() {
    let events = decode([&bytes("transcript.stream.bin")[..]]);
    let words: Vec<(&str, &str)> = events.iter().map(|(kind, text)| (kind.as_str(), text.as_str())).collect();
    let details = words.iter().find(|(kind, _)| *kind == "reasoning_details").unwrap().1;
    let details: Value = serde_json::from_str(details).unwrap();
    assert_eq!(details[0]["text"], "The user asks for 天気 twice 🤔.");
    assert_eq!((&details[0]["signature"], &details[0]["index"]), (&"RXVlQ3NJ".into(), &0.into()));
    let rest: Vec<_> = words.into_iter().filter(|(kind, _)| *kind != "reasoning_details").collect();
    assert_eq!(
        rest,
        [
            ("start", ""),
            ("reasoning", "The user asks for 天気 twice 🤔."),
            ("text", "東京と大阪 ☀️\n\"both\""),
            // Only tool calls are numbered, not blocks.
            ("tool 0", "tooluse_A1 get_weather"),
            ("args 0", "{\"city\": \"東京\"}"),
            ("tool 1", "tooluse_B2 now"),
            ("args 1", "{}"),
            ("finish", "tool_calls"),
            ("usage", "(1049, 74, Some(1000), Some(24))"),
            ("end", ""),
        ]
    );
}

#[test]
fn pictures_are_images() {
    let piece = |bytes: &str| {
        format!(r#"{{"contentBlockIndex":1,"delta":{{"image":{{"source":{{"bytes":"{bytes}"}}}}}}}}"#)
    };
    let (first, second) = (piece("AQ=="), piece("AgM="));
    let start = r#"{"contentBlockIndex":1,"start":{"image":{"format":"webp"}}}"#;
    for close in [&[("contentBlockStop", r#"{"contentBlockIndex":1}"#), STOP][..], &[STOP]] {
        let begun = [
            ("contentBlockStart", start),
            ("contentBlockDelta", first.as_str()),
            ("contentBlockDelta", second.as_str()),
        ];
        let events = decode([&stream(&[&begun[..], close].concat())[..]]);
        let words: Vec<_> = events.iter().map(|(kind, text)| (kind.as_str(), text.as_str())).collect();
        assert_eq!(words, [("image", "image/webp AQID"), ("finish", "stop")]);
    }
}

#[test]
fn citations_are_annotations() {
    let events = decode([&stream(&[
        ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"Größe: "}}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":1,"delta":{"text":"7 m"}}"#),
        (
            "contentBlockDelta",
            r#"{"contentBlockIndex":1,"delta":{"citation":{"title":"B","source":"https://b.example"}}}"#,
        ),
        STOP,
    ])[..]]);
    let annotations = r#"[{"type":"url_citation","url_citation":{"end_index":10,"start_index":7,"title":"B","url":"https://b.example"}}]"#;
    let order = r#"[{"index":0,"order":"t9 t3","type":"gateway.order"}]"#;
    let words: Vec<_> = events.iter().map(|(kind, text)| (kind.as_str(), text.as_str())).collect();
    assert_eq!(
        words,
        [
            ("text", "Größe: 7 m"),
            ("reasoning_details", order),
            ("annotations", annotations),
            ("finish", "stop")
        ]
    );
}

#[test]
fn an_incomplete_image_is_held() {
    let piece = r#"{"contentBlockIndex":0,"delta":{"image":{"source":{"bytes":"AAAA"}}}}"#;
    let bytes = stream(&[("contentBlockDelta", &piece.replace("AAAA", &"AAAA".repeat(50_000)))]);
    let mut decoder = BedrockStream::default();
    decoder.feed(&bytes, &mut |_| {});
    assert!(decoder.held_bytes() >= 200_000, "{}", decoder.held_bytes());
    decoder.feed(&stream(&[STOP]), &mut |_| {});
    assert!(decoder.held_bytes() < 200_000 + bytes.len(), "{}", decoder.held_bytes());
}

#[test]
fn a_model_that_gives_up_is_a_failure() {
    for reason in ["malformed_model_output", "malformed_tool_use"] {
        let stop = format!(r#"{{"stopReason":"{reason}"}}"#);
        assert_eq!(last(&stream(&[("messageStop", &stop)])), ("error".to_owned(), "StreamBroken".to_owned()));
    }
}

#[test]
fn the_events_do_not_depend_on_the_cuts() {
    let stream = bytes("transcript.stream.bin");
    let whole = decode([&stream[..]]);
    for cut in 0..=stream.len() {
        let (begin, end) = stream.split_at(cut);
        assert_eq!(decode([begin, end]), whole, "cut at {cut}");
    }
    assert_eq!(decode(stream.chunks(1)), whole);
}

#[test]
fn failures_in_a_stream_are_errors() {
    assert_eq!(last(&bytes("throttled.stream.bin")), ("error".to_owned(), "RateLimited".to_owned()));
    assert_eq!(last(&bytes("error.stream.bin")), ("error".to_owned(), "Server".to_owned()));
    for (name, message, kind) in [
        ("throttlingException", "slow down", FailureKind::RateLimited),
        ("validationException", "bad", FailureKind::BadRequest),
        ("validationException", "Input is too long for requested model.", FailureKind::ContextLength),
        ("modelStreamErrorException", "oops", FailureKind::Server),
        ("internalServerException", "oops", FailureKind::Server),
        ("serviceUnavailableException", "later", FailureKind::Overloaded),
        ("modelTimeoutException", "late", FailureKind::Timeout),
        ("somethingNewException", "x", FailureKind::StreamBroken),
    ] {
        let payload = serde_json::json!({"message": message}).to_string();
        let mut bytes = stream(&[("messageStart", r#"{"role":"assistant"}"#)]);
        bytes.extend(frame("exception", name, &payload));
        // Everything after a failure is ignored.
        bytes.extend(stream(&[STOP]));
        assert_eq!(last(&bytes), ("error".to_owned(), format!("{kind:?}")), "{name}");
    }
}

#[test]
fn a_stream_that_is_cut_or_damaged_is_broken() {
    let whole = bytes("transcript.stream.bin");
    let broken = ("error".to_owned(), "StreamBroken".to_owned());
    let invalid = ("error".to_owned(), "InvalidResponse".to_owned());
    let finish = whole.windows(11).position(|window| window == b"messageStop").unwrap();
    for cut in [0, 1, 100, finish - 40, finish] {
        assert_eq!(last(&whole[..cut]), broken, "cut at {cut}");
    }
    // After the finish reason only the usage is missing.
    assert_eq!(last(&whole[..whole.len() - 1]).0, "finish");
    // A change of any byte behind the length breaks a checksum.
    for at in (4..100).chain([whole.len() - 300]) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        assert_eq!(last(&damaged), invalid, "damaged at {at}");
    }
    let too_large = u32::try_from(MAX_FRAME_BYTES + 1).unwrap().to_be_bytes();
    for head in [&too_large[..], &[0, 0, 0, 15], b"{\"message\":\"not a stream\"}", b"<html></html>"] {
        assert_eq!(last(head), invalid);
    }
    let odd = stream(&[("contentBlockDelta", "{\"contentBlockIndex\":0,")]);
    assert_eq!(last(&odd), ("error".to_owned(), "InvalidResponse".to_owned()));
    let stray =
        stream(&[("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{"}}}"#)]);
    assert_eq!(last(&stray), ("error".to_owned(), "InvalidResponse".to_owned()));
}

#[test]
fn unusual_complete_streams_are_read() {
    let kinds = |events: &[(&str, &str)]| {
        let events = decode([&stream(events)[..]]);
        events.into_iter().map(|(kind, text)| format!("{kind}:{text}")).collect::<Vec<_>>().join(" ")
    };
    // Unclosed blocks, unknown events and members, nulls and unknown stop reasons.
    let call =
        ("contentBlockStart", r#"{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"a","name":"f"}}}"#);
    let news = ("messageStop", r#"{"stopReason":"news"}"#);
    assert_eq!(kinds(&[call, ("somethingNew", "{"), news]), "tool 0:a f args 0:{} finish:tool_calls");
    assert_eq!(kinds(&[news]), "finish:stop");
    assert_eq!(kinds(&[call, STOP]), "tool 0:a f args 0:{} finish:tool_calls");
    let nulls = (
        "contentBlockDelta",
        r#"{"delta":{"text":null,"toolUse":null,"reasoningContent":null,"citation":{}}}"#,
    );
    assert_eq!(
        kinds(&[nulls, ("contentBlockStop", "{}"), STOP, ("metadata", r#"{"usage":null}"#)]),
        "finish:stop end:"
    );
    // Redacted reasoning has no text, and clients do not see calls of the provider's own tools.
    let redacted = (
        "contentBlockDelta",
        r#"{"contentBlockIndex":0,"delta":{"reasoningContent":{"redactedContent":"QUJD"}}}"#,
    );
    assert_eq!(
        kinds(&[redacted, ("contentBlockStop", r#"{"contentBlockIndex":0}"#), STOP]),
        r#"reasoning_details:[{"data":"QUJD","format":"anthropic-claude-v1","index":0,"type":"reasoning.encrypted"}] finish:stop"#
    );
    let own = (
        "contentBlockStart",
        r#"{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"a","name":"s","type":"server_tool_use"}}}"#,
    );
    let input = ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{}"}}}"#);
    assert_eq!(kinds(&[own, input, STOP]), "written:1 written:2 finish:stop");
}

proptest! {
    #[test]
    fn random_pairs_of_cuts_give_equal_events(first in 0_usize..3202, second in 0_usize..3202) {
        let stream = bytes("transcript.stream.bin");
        let (first, second) = (first.min(second).min(stream.len()), first.max(second).min(stream.len()));
        let pieces = [&stream[..first], &stream[first..second], &stream[second..]];
        prop_assert_eq!(decode(pieces), decode([&stream[..]]));
    }

    #[test]
    fn any_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        decode([&bytes[..]]);
    }

    #[test]
    fn any_frame_never_panics(headers in proptest::collection::vec(any::<u8>(), 0..60), payload in "\\PC*", lie in 0_u32..80) {
        // Lengths and checksums are correct, so that the payload is read.
        let length = u32::try_from(16 + headers.len() + payload.len()).unwrap();
        let mut bytes = Vec::new();
        bytes.extend(length.to_be_bytes());
        bytes.extend(lie.to_be_bytes());
        bytes.extend(crc(&bytes).to_be_bytes());
        bytes.extend(&headers);
        bytes.extend(payload.as_bytes());
        bytes.extend(crc(&bytes).to_be_bytes());
        decode([&bytes[..]]);
    }

    #[test]
    fn any_event_never_panics(
        name in prop::sample::select(vec!["messageStart", "contentBlockStart", "contentBlockDelta", "contentBlockStop", "messageStop", "metadata"]),
        payload in r#"(\{"(contentBlockIndex|delta|start|usage|stopReason)":(\{\}|null|1|"x"|\[\]|\{"toolUse":\{"name":"f"\}\})\})|\PC{0,20}"#,
    ) {
        decode([&stream(&[(name, &payload), (name, &payload)])[..]]);
    }
}

/// CRC-32 of ISO-HDLC, computed bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(
            crc ^ u32::from(*byte),
            |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 },
        )
    })
}

#[test]
fn a_small_piece_beside_a_large_image_costs_little() {
    let piece = |base64: &str| {
        let delta =
            format!(r#"{{"contentBlockIndex":0,"delta":{{"image":{{"source":{{"bytes":"{base64}"}}}}}}}}"#);
        stream(&[("contentBlockDelta", &delta)])
    };
    let mut decoder = BedrockStream::default();
    let large = piece(&"AAAA".repeat(300_000));
    assert!(decoder.work_bytes(Some(&large)) >= 1_200_000, "its own size counts");
    decoder.feed(&large, &mut |_| {});
    let small = piece("AAAA");
    assert_eq!(decoder.work_bytes(Some(&small)), small.len());
    let text = stream(&[("contentBlockDelta", r#"{"contentBlockIndex":1,"delta":{"text":"a"}}"#)]);
    assert_eq!(decoder.work_bytes(Some(&text)), text.len());
    // The image is written when its block ends, wherever the chunks cut the event's name.
    for (name, payload) in [("contentBlockStop", r#"{"contentBlockIndex":0}"#), STOP] {
        let stop = stream(&[(name, payload)]);
        let at = stop.windows(4).position(|bytes| bytes == b"Stop").unwrap();
        for cut in [0, at, at + 1, at + 2, at + 3, at + 4, stop.len() - 1] {
            let (first, rest) = stop.split_at(cut);
            let mut decoder = BedrockStream::default();
            decoder.feed(&large, &mut |_| {});
            assert_eq!(decoder.work_bytes(Some(first)), 0, "{name} cut at {cut}");
            decoder.feed(first, &mut |_| {});
            assert!(decoder.work_bytes(Some(rest)) >= 1_200_000, "{name} cut at {cut}");
        }
    }
}

#[test]
fn the_buffer_of_a_large_frame_is_freed() {
    let text = "x".repeat(3 << 20);
    let large = format!(r#"{{"contentBlockIndex":0,"delta":{{"text":"{text}"}}}}"#);
    let bytes = stream(&[("contentBlockDelta", &large)]);
    let mut decoder = BedrockStream::default();
    for chunk in bytes.chunks(64 << 10) {
        decoder.feed(chunk, &mut |_| {});
        assert!(decoder.held_bytes() <= MAX_FRAME_BYTES + (64 << 10), "{}", decoder.held_bytes());
    }
    assert!(decoder.held_bytes() < 128 << 10, "{}", decoder.held_bytes());
    // Small frames continue in a small buffer.
    let small = stream(&[("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"a"}}"#)]);
    (0..1_000).for_each(|_| decoder.feed(&small, &mut |_| {}));
    assert!(decoder.held_bytes() < 128 << 10, "{}", decoder.held_bytes());
}
