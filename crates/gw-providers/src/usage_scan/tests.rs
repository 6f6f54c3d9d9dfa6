//! Tests of the scanner: each shape, plain and streamed, cut at every byte.

use aws_smithy_types::event_stream::{Header, HeaderValue as FrameValue, Message};
use gw_wire::usage::Usage;
use http::{HeaderMap, HeaderValue};

use super::*;

fn headers(media_type: &'static str) -> HeaderMap {
    HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static(media_type))])
}

fn scanned(shape: UsageShape, headers: &HeaderMap, pieces: &[&[u8]]) -> (Option<Usage>, u64) {
    let mut scanner = UsageScanner::new(shape, headers);
    pieces.iter().for_each(|piece| scanner.feed(piece));
    (scanner.usage(), scanner.text_bytes())
}

/// The usage of a body, which is the same at every cut.
fn usage(shape: UsageShape, media_type: &'static str, body: &[u8]) -> Option<Usage> {
    let headers = headers(media_type);
    let whole = scanned(shape, &headers, &[body]);
    for cut in 0..body.len() {
        let (one, other) = body.split_at(cut);
        assert_eq!(scanned(shape, &headers, &[one, other]), whole, "cut at {cut}");
    }
    whole.0
}

fn counts(usage: Option<Usage>) -> Option<(u64, u64, Option<u64>, bool)> {
    usage.map(|usage| (usage.prompt, usage.completion, usage.cached, usage.has_unpriced))
}

const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream; charset=utf-8";
const FRAMES: &str = "application/vnd.amazon.eventstream";

#[test]
fn documents_of_each_shape() {
    for (shape, body, wanted) in [
        (
            UsageShape::OpenAi,
            r#"{"id":"x","choices":[{"message":{"content":"{\"usage\":1}"}}],"usage":{"prompt_tokens":10,"completion_tokens":4,"prompt_tokens_details":{"cached_tokens":3}}}"#,
            Some((10, 4, Some(3), false)),
        ),
        (
            UsageShape::OpenAi,
            r#"{"object":"response","usage":{"input_tokens":7,"output_tokens":2},"service_tier":"priority"}"#,
            Some((7, 2, None, true)),
        ),
        (
            UsageShape::OpenAi,
            r#"{"data":[{"embedding":[0.1,-2e3]}],"usage":{"prompt_tokens":5,"total_tokens":5}}"#,
            Some((5, 0, None, false)),
        ),
        (UsageShape::OpenAi, r#"{"data":[{"usage":{"prompt_tokens":5}}]}"#, None),
        (
            UsageShape::Anthropic,
            r#"{"type":"message","content":[{"type":"text","text":"x"}],"usage":{"input_tokens":3,"cache_read_input_tokens":5,"output_tokens":9}}"#,
            Some((8, 9, Some(5), false)),
        ),
        (
            UsageShape::Gemini,
            r#"{"candidates":[],"usageMetadata":{"promptTokenCount":6,"candidatesTokenCount":2,"totalTokenCount":8}}"#,
            Some((6, 2, None, false)),
        ),
        (
            UsageShape::Gemini,
            r#"[{"usageMetadata":{"promptTokenCount":6}},{"usageMetadata":{"promptTokenCount":6,"candidatesTokenCount":3}}]"#,
            Some((6, 3, None, false)),
        ),
        (
            UsageShape::Bedrock,
            r#"{"output":{},"usage":{"inputTokens":4,"outputTokens":5,"totalTokens":9}}"#,
            Some((4, 5, None, false)),
        ),
        (
            UsageShape::Bedrock,
            r#"{"content":[],"usage":{"input_tokens":4,"output_tokens":5}}"#,
            Some((4, 5, None, false)),
        ),
        (UsageShape::Bedrock, r#"{"embedding":[1],"inputTextTokenCount":11}"#, Some((11, 0, None, false))),
    ] {
        assert_eq!(counts(usage(shape, JSON, body.as_bytes())), wanted, "{body}");
    }
}

#[test]
fn events_of_each_shape() {
    let openai = "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":8,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";
    assert_eq!(counts(usage(UsageShape::OpenAi, EVENTS, openai.as_bytes())), Some((8, 1, None, false)));
    assert_eq!(scanned(UsageShape::OpenAi, &headers(EVENTS), &[openai.as_bytes()]).1, 2);

    let responses = "event: response.completed\r\ndata: {\"type\":\"response.completed\",\"response\":{\"usage\":{\"input_tokens\":9,\"output_tokens\":3}}}\r\n\r\n";
    assert_eq!(counts(usage(UsageShape::OpenAi, EVENTS, responses.as_bytes())), Some((9, 3, None, false)));

    let gemini = "data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"abc\"}]}}],\"usageMetadata\":{\"promptTokenCount\":2}}\r\n\r\ndata: {\"usageMetadata\":{\"promptTokenCount\":2,\"candidatesTokenCount\":4}}\r\n\r\n";
    assert_eq!(counts(usage(UsageShape::Gemini, EVENTS, gemini.as_bytes())), Some((2, 4, None, false)));

    let start = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n";
    let end = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{},\"usage\":{\"output_tokens\":15}}\n\n";
    let torn = usage(UsageShape::Anthropic, EVENTS, start.as_bytes()).unwrap();
    assert_eq!(
        (torn.prompt, torn.completion, torn.estimated),
        (25, 0, true),
        "the answer is to be estimated"
    );
    let whole = usage(UsageShape::Anthropic, EVENTS, [start, end].concat().as_bytes()).unwrap();
    assert_eq!((whole.prompt, whole.completion, whole.estimated), (25, 15, false));
}

#[test]
fn texts_of_each_shape_count_once() {
    let events = |documents: &[&str]| {
        documents.iter().map(|document| format!("data: {document}\n\n")).collect::<String>()
    };
    let size = |shape, documents: &[&str]| {
        let body = events(documents);
        let whole = scanned(shape, &headers(EVENTS), &[body.as_bytes()]).1;
        let bytes: Vec<&[u8]> = body.as_bytes().chunks(1).collect();
        assert_eq!(scanned(shape, &headers(EVENTS), &bytes).1, whole, "{body}");
        whole
    };
    let responses = |documents: &[&str]| size(UsageShape::OpenAi, documents);
    let delta = r#"{"type":"response.code_interpreter_call_code.delta","output_index":0,"delta":"12345"}"#;
    let part = r#"{"type":"response.code_interpreter_call_code.done","output_index":0,"code":"1234512345"}"#;
    let code = r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"code_interpreter_call","code":"1234512345"}}"#;
    assert_eq!(responses(&[delta, delta, part, code]), 10);
    assert_eq!(responses(&[code]), 10);
    let shell = r#"{"type":"response.output_item.done","item":{"type":"shell_call","status":"completed","action":{"commands":["123","45"]}}}"#;
    let patch = r#"{"type":"response.output_item.done","item":{"type":"apply_patch_call","operation":{"type":"update_file","diff":"12345"}}}"#;
    assert_eq!(responses(&[shell, patch, code]), 20);
    let answer = r#"{"type":"response.completed","response":{"output":[{"content":[{"type":"output_text","text":"12345"}]}]}}"#;
    assert_eq!(responses(&[answer]), 5);
    assert_eq!(
        responses(&[
            r#"{"choices":[{"delta":{"audio":{"transcript":"12345"}}}]}"#,
            r#"{"choices":[{"delta":{"refusal":"12"}}]}"#
        ]),
        7
    );
    let anthropic = |documents: &[&str]| size(UsageShape::Anthropic, documents);
    assert_eq!(
        anthropic(&[
            r#"{"type":"content_block_delta","delta":{"type":"compaction_delta","content":"12345"}}"#
        ]),
        5
    );
    let gemini = r#"{"candidates":[{"content":{"parts":[{"executableCode":{"language":"PYTHON","code":"12345"}},{"functionCall":{"name":"f","args":{"q":["12",{"r":"345"}]}}}]}}]}"#;
    assert_eq!(size(UsageShape::Gemini, &[gemini]), 10);
}

fn frame(event: &str, payload: &str) -> Vec<u8> {
    let message = Message::new(payload.as_bytes().to_vec())
        .add_header(Header::new(":event-type", FrameValue::String(event.to_owned().into())));
    let mut out = Vec::new();
    aws_smithy_eventstream::frame::write_message_to(&message, &mut out).unwrap();
    out
}

#[test]
fn frames_of_bedrock() {
    let converse = [
        frame("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"text":"Hello"}}"#),
        frame(
            "metadata",
            r#"{"metrics":{"latencyMs":3},"usage":{"inputTokens":12,"outputTokens":6,"totalTokens":18}}"#,
        ),
    ]
    .concat();
    assert_eq!(counts(usage(UsageShape::Bedrock, FRAMES, &converse)), Some((12, 6, None, false)));
    assert_eq!(scanned(UsageShape::Bedrock, &headers(FRAMES), &[&converse]).1, 5);

    let chunk =
        |document: &str| frame("chunk", &format!(r#"{{"bytes":"{}","p":"ab"}}"#, STANDARD.encode(document)));
    let claude = [
        chunk(r#"{"type":"message_start","message":{"usage":{"input_tokens":20,"output_tokens":1}}}"#),
        chunk(r#"{"type":"content_block_delta","delta":{"type":"text_delta","text":"abcd"}}"#),
        chunk(r#"{"type":"message_delta","usage":{"output_tokens":7}}"#),
    ]
    .concat();
    assert_eq!(counts(usage(UsageShape::Bedrock, FRAMES, &claude)), Some((20, 7, None, false)));
    assert_eq!(scanned(UsageShape::Bedrock, &headers(FRAMES), &[&claude]).1, 4);
    let nova = chunk(r#"{"amazon-bedrock-invocationMetrics":{"inputTokenCount":3,"outputTokenCount":4}}"#);
    assert_eq!(counts(usage(UsageShape::Bedrock, FRAMES, &nova)), Some((3, 4, None, false)));
}

#[test]
fn the_placeholder_of_a_streams_start_is_no_count_of_its_end() {
    let start = "data: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n";
    for unreadable in ["null", "\"50\"", "-3", "{}"] {
        let end =
            format!("data: {{\"type\":\"message_delta\",\"usage\":{{\"output_tokens\":{unreadable}}}}}\n\n");
        let read = usage(UsageShape::Anthropic, EVENTS, [start, &end].concat().as_bytes());
        assert_eq!(read.map(|usage| (usage.prompt, usage.completion)), Some((25, 0)), "{unreadable}");
    }
}

#[test]
fn headers_of_bedrock_count_where_the_body_has_nothing() {
    let mut headers = headers(JSON);
    headers.insert("x-amzn-bedrock-input-token-count", HeaderValue::from_static("21"));
    headers.insert("x-amzn-bedrock-output-token-count", HeaderValue::from_static("5"));
    let read = |shape, body: &str| counts(scanned(shape, &headers, &[body.as_bytes()]).0);
    assert_eq!(read(UsageShape::Bedrock, "{}"), Some((21, 5, None, false)));
    assert_eq!(
        read(UsageShape::Bedrock, r#"{"usage":{"input_tokens":1,"output_tokens":2}}"#),
        Some((1, 2, None, false))
    );
    assert_eq!(read(UsageShape::OpenAi, "{}"), None);
}

#[test]
fn damage_and_other_media_are_no_usage() {
    for media_type in ["audio/mpeg", EVENTS, FRAMES, JSON] {
        let noise: Vec<u8> = (0..4096_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for shape in [UsageShape::OpenAi, UsageShape::Anthropic, UsageShape::Gemini, UsageShape::Bedrock] {
            assert_eq!(scanned(shape, &headers(media_type), &[&noise]).0, None);
        }
    }
}
