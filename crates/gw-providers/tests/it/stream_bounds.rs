//! An upstream starts elements without end. The stream's decoder keeps at most 32 MiB, reports its memory, and ends
//! with an error.

use gw_providers::adapter::Reading;
use gw_providers::settings::Api;
use gw_wire::event::Event;
use gw_wire::failure::FailureKind;

use crate::dialects::property::{adapter, frames};

const MIB: usize = 1 << 20;

/// The bound, one event beside it, and the copies that reading this event needs.
const PEAK_BYTES: u64 = 48 << 20;

/// An event that starts one more element of 1 MiB.
type Opens = fn(usize) -> String;

fn filler() -> String {
    "x".repeat(MIB)
}

fn openai_id(at: usize) -> String {
    let call =
        format!(r#"{{"index":{at},"id":"{at}{}","function":{{"name":"f","arguments":""}}}}"#, filler());
    format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"tool_calls\":[{call}]}}}}]}}\n\n")
}

fn anthropic_signature(at: usize) -> String {
    let block = format!(r#"{{"type":"thinking","thinking":"","signature":"{}"}}"#, filler());
    format!("data: {{\"type\":\"content_block_start\",\"index\":{at},\"content_block\":{block}}}\n\n")
}

fn bedrock_image(at: usize) -> String {
    let image = format!(r#"{{"source":{{"bytes":"{}"}}}}"#, "AAAA".repeat(MIB / 4));
    format!(r#"contentBlockDelta {{"contentBlockIndex":{at},"delta":{{"image":{image}}}}}"#)
}

fn gemini_reason(at: usize) -> String {
    format!("data: {{\"candidates\":[{{\"index\":{at},\"finishReason\":\"{}\"}}]}}\n\n", filler())
}

fn gemini_words(at: usize) -> String {
    // Shorter than the text that is held for one choice.
    let words = filler().split_off(8);
    let content = format!(r#"{{"parts":[{{"text":"{words}"}}]}}"#);
    format!("data: {{\"candidates\":[{{\"index\":{at},\"content\":{content}}}]}}\n\n")
}

fn cohere_input(at: usize) -> String {
    let arguments = filler().split_off(8);
    let call = format!(r#"{{"id":"c{at}","function":{{"name":"f","arguments":"{arguments}"}}}}"#);
    let delta = format!(r#"{{"message":{{"tool_calls":{call}}}}}"#);
    format!("data: {{\"type\":\"tool-call-start\",\"index\":{at},\"delta\":{delta}}}\n\n")
}

fn ollama_id(at: usize) -> String {
    let call = format!(r#"{{"id":"{at}{}","function":{{"name":"f","arguments":{{}}}}}}"#, filler());
    format!("{{\"message\":{{\"content\":\"\",\"tool_calls\":[{call}]}},\"done\":false}}\n")
}

fn bytes(api: Api, event: String) -> Vec<u8> {
    if api == Api::BEDROCK { frames(event.as_bytes()) } else { event.into_bytes() }
}

#[test]
fn endless_blocks_end_the_stream_with_an_error() {
    let json = || Reading { json_tool: Some("answer".to_owned()), ..Reading::default() };
    let custom = || Reading { custom_tools: vec!["f".to_owned()], ..Reading::default() };
    let cases: [(&str, Api, Reading, Opens); 10] = [
        ("ids of calls", Api::OPENAI, Reading::default(), openai_id),
        ("ids of calls", Api::AZURE, Reading::default(), openai_id),
        ("ids of calls", Api::MISTRAL, Reading::default(), openai_id),
        ("signatures", Api::ANTHROPIC, Reading::default(), anthropic_signature),
        ("pictures", Api::BEDROCK, Reading::default(), bedrock_image),
        ("reasons", Api::GEMINI, Reading::default(), gemini_reason),
        ("reasons", Api::VERTEX, Reading::default(), gemini_reason),
        ("words before a tool", Api::GEMINI, json(), gemini_words),
        ("inputs of custom tools", Api::COHERE, custom(), cohere_input),
        ("ids of calls", Api::OLLAMA, Reading::default(), ollama_id),
    ];
    for (what, api, reading, opens) in cases {
        let case = format!("{what}, {}", api.as_str());
        let mut decoder = adapter(api).stream(&reading);
        let (mut largest, mut failure) = (0, None);
        let used = allocation_counter::measure(|| {
            for at in 0..64 {
                let event = bytes(api, opens(at));
                decoder.feed(&event, &mut |event| {
                    if let Event::Error(fault) = event {
                        failure = Some(fault.kind);
                    }
                });
                largest = largest.max(decoder.held_bytes());
            }
            decoder.eof(&mut |event| assert!(!matches!(event, Event::Error(_)), "{case}: two errors"));
        });
        assert_eq!(failure, Some(FailureKind::InvalidResponse), "{case}");
        assert!(largest > 16 * MIB, "{case}: {largest} bytes were told");
        assert_eq!(decoder.held_bytes(), 0, "{case}: nothing is kept after the error");
        assert!(used.bytes_max < PEAK_BYTES, "{case}: {} bytes", used.bytes_max);
    }
}

#[test]
fn unsigned_thoughts_are_streamed_and_not_kept() {
    let anthropic: Opens = |at| {
        let block = format!(r#"{{"type":"thinking","thinking":"{}"}}"#, filler());
        format!("data: {{\"type\":\"content_block_start\",\"index\":{at},\"content_block\":{block}}}\n\n")
    };
    let bedrock: Opens = |at| {
        let delta = format!(r#"{{"reasoningContent":{{"text":"{}"}}}}"#, filler());
        format!(r#"contentBlockDelta {{"contentBlockIndex":{at},"delta":{delta}}}"#)
    };
    for (api, opens) in [(Api::ANTHROPIC, anthropic), (Api::BEDROCK, bedrock)] {
        let mut decoder = adapter(api).stream(&Reading::default());
        let (mut shown, mut largest) = (0, 0);
        let used = allocation_counter::measure(|| {
            for at in 0..60 {
                decoder.feed(&bytes(api, opens(at)), &mut |event| match event {
                    Event::Reasoning { text, .. } => shown += text.len(),
                    Event::Error(fault) => panic!("{}: {fault:?}", api.as_str()),
                    _ => {}
                });
                largest = largest.max(decoder.held_bytes());
            }
        });
        assert_eq!(shown, 60 * MIB, "{}", api.as_str());
        assert!((2 * MIB..8 * MIB).contains(&largest), "{}: {largest}", api.as_str());
        assert!(used.bytes_max < 24 << 20, "{}: {} bytes", api.as_str(), used.bytes_max);
    }
}

/// Sources of Gemini are kept for each choice until the stream ends.
#[test]
fn held_bytes_include_sources_and_orders() {
    let text = "é a ".repeat(2_000);
    let chunk =
        |at: usize| format!(r#"{{"web":{{"uri":"https://{at}.example/{}","title":"t"}}}}"#, "x".repeat(900));
    let chunks: Vec<_> = (0..128).map(chunk).collect();
    let mut decoder = adapter(Api::GEMINI).stream(&Reading::default());
    let mut before = 0;
    for at in 0..128 {
        let grounding = format!(r#"{{"groundingChunks":[{}]}}"#, chunks.join(","));
        let content = format!(r#"{{"parts":[{{"text":"{text}"}}]}}"#);
        let event = format!(
            "data: {{\"candidates\":[{{\"index\":{at},\"content\":{content},\"groundingMetadata\":{grounding}}}]}}\n\n"
        );
        decoder.feed(event.as_bytes(), &mut |event| assert!(!matches!(event, Event::Error(_))));
        let held = decoder.held_bytes();
        assert!(held > before + 128 * 900, "choice {at}: {before}, then {held}");
        before = held;
    }
}
