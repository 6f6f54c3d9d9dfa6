//! Documents and streams of a Responses upstream.

use gw_wire::event::Event;
use gw_wire::failure::FailureKind;
use gw_wire::reply::Finish;

use super::{ResponsesStream, decode as chat};
use crate::adapter::StreamDecoder;

const DOCUMENT: &str = r#"{"id":"resp_1","status":"completed","model":"gpt-x","error":null,"incomplete_details":null,
"output":[{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Think."}],"encrypted_content":"abc"},
{"type":"message","id":"msg_1","content":[{"type":"output_text","text":"Os"},{"type":"output_text","text":"lo."}]},
{"type":"function_call","call_id":"call_1","namespace":"mcp","name":"f","arguments":"{}"},
{"type":"custom_tool_call","call_id":"call_2","name":"patch","input":"*** Begin"}],
"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":16}}"#;

#[test]
fn a_document_is_a_chat_reply_with_the_providers_own_text() {
    let reply = chat(DOCUMENT.as_bytes()).unwrap();
    let choice = &reply.choices[0];
    assert_eq!(choice.content.as_deref(), Some("Oslo."));
    assert_eq!(choice.reasoning.as_deref(), Some("Think."));
    assert_eq!(choice.finish, Some(Finish::ToolCalls));
    let calls: Vec<_> =
        choice.tool_calls.iter().map(|call| (&*call.id, &*call.name, &*call.arguments)).collect();
    assert_eq!(calls, [("call_1", "mcp__f", "{}"), ("call_2", "patch", "*** Begin")]);
    assert!(choice.tool_calls[1].custom);
    let details = choice.extras[0].1.get();
    assert_eq!(
        details,
        r#"[{"type":"reasoning.encrypted","data":"abc","id":"rs_1","format":"openai-responses-v1"}]"#
    );
    let usage = reply.usage.unwrap();
    assert_eq!((usage.prompt, usage.cached, usage.completion, usage.reasoning), (10, Some(4), 6, Some(2)));
    assert_eq!(reply.native.as_deref(), Some(DOCUMENT));
}

#[test]
fn the_reason_of_an_incomplete_response_is_its_finish() {
    let cut = |reason: &str| {
        let body =
            format!(r#"{{"status":"incomplete","incomplete_details":{{"reason":"{reason}"}},"output":[]}}"#);
        chat(body.as_bytes()).unwrap().choices[0].finish
    };
    assert_eq!(cut("max_output_tokens"), Some(Finish::Length));
    assert_eq!(cut("content_filter"), Some(Finish::ContentFilter));
}

#[test]
fn a_failed_or_unfinished_response_is_a_failure() {
    let failed = r#"{"status":"failed","error":{"code":"server_error","message":"no"},"output":[]}"#;
    assert!(chat(failed.as_bytes()).is_err());
    assert!(chat(br#"{"status":"in_progress","output":[]}"#).is_err());
    assert!(chat(br#"{"id":"chatcmpl-1","choices":[]}"#).is_err());
}

#[test]
fn a_complete_response_without_a_list_of_items_is_no_answer() {
    let read = |status: &str, output: &str| {
        let body = format!(
            r#"{{"id":"x","object":"response","created_at":1,"status":"{status}","model":"m",{output}"usage":{{}}}}"#
        );
        chat(body.as_bytes()).map(|reply| reply.choices.len())
    };
    for status in ["completed", "incomplete"] {
        for output in ["", r#""output":null,"#] {
            let failure = read(status, output).unwrap_err();
            assert_eq!(failure.kind, FailureKind::InvalidResponse, "{status} {output}");
            assert_eq!(failure.detail.as_deref(), Some("the response has no output"), "{status} {output}");
        }
        assert_eq!(read(status, r#""output":[],"#).unwrap(), 1, "{status}");
    }
}

/// The events of a stream, without the frames.
fn events(stream: &str) -> (Vec<String>, usize) {
    let mut decoder = ResponsesStream::default();
    let (mut seen, mut frames) = (Vec::new(), 0);
    let mut sink = |event: Event<'_>| match event {
        Event::Frame { .. } => frames += 1,
        Event::Text { text, .. } => seen.push(format!("text {text}")),
        Event::Reasoning { text, .. } => seen.push(format!("reasoning {text}")),
        Event::ToolStart { id, name, .. } => seen.push(format!("call {id} {name}")),
        Event::CustomStart { id, name, .. } => seen.push(format!("custom {id} {name}")),
        Event::ToolArgs { fragment, .. } => seen.push(format!("args {fragment}")),
        Event::Extra { value, .. } => seen.push(format!("extra {value}")),
        Event::Finish { reason, .. } => seen.push(format!("finish {}", reason.as_str())),
        Event::Usage(usage) => seen.push(format!("usage {} {}", usage.prompt, usage.completion)),
        Event::Error(failure) => seen.push(format!("error {}", failure.message)),
        Event::End => seen.push("end".to_owned()),
        _ => {}
    };
    decoder.feed(stream.as_bytes(), &mut sink);
    decoder.eof(&mut sink);
    (seen, frames)
}

fn frames(list: &[&str]) -> String {
    list.iter().map(|data| format!("data: {data}\n\n")).collect()
}

#[test]
fn a_stream_is_reported_with_its_frames() {
    let (seen, frames) = events(&frames(&[
        r#"{"type":"response.created","response":{"model":"gpt-x","status":"in_progress","output":[]}}"#,
        r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[]}}"#,
        r#"{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"Hm"}"#,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"e"}}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"delta":"Oslo"}"#,
        r#"{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","call_id":"c1","name":"f","arguments":""}}"#,
        r#"{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{}"}"#,
        r#"{"type":"response.output_item.done","output_index":2,"item":{"type":"function_call","call_id":"c1","name":"f","arguments":"{}"}}"#,
        r#"{"type":"response.output_item.done","output_index":3,"item":{"type":"custom_tool_call","call_id":"c2","name":"p","input":"x"}}"#,
        r#"{"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":3,"output_tokens":2,"total_tokens":5}}}"#,
    ]));
    assert_eq!(
        seen,
        [
            // The item begins.
            "reasoning ",
            "reasoning Hm",
            r#"extra [{"type":"reasoning.encrypted","data":"e","id":"rs_1","format":"openai-responses-v1"}]"#,
            "text Oslo",
            "call c1 f",
            "args {}",
            "custom c2 p",
            "args x",
            "usage 3 2",
            "finish tool_calls",
            "end"
        ]
    );
    assert_eq!(frames, 10);
}

/// The sizes of the texts that no other event holds.
fn written(list: &[&str]) -> Vec<u64> {
    let mut decoder = ResponsesStream::default();
    let mut seen = Vec::new();
    decoder.feed(frames(list).as_bytes(), &mut |event| {
        if let Event::Written { bytes } = event {
            seen.push(bytes);
        }
    });
    seen
}

#[test]
fn items_that_come_only_with_the_end_count_if_it_has_no_usage() {
    let end = |usage: &str| {
        format!(
            r#"{{"type":"response.completed","response":{{"status":"completed","output":[
            {{"type":"message","content":[{{"type":"output_text","text":"Oslo"}}]}},
            {{"type":"shell_call","action":{{"commands":["ls"]}}}},
            {{"type":"function_call","call_id":"c1","name":"f","arguments":"{{}}"}}],"usage":{usage}}}}}"#
        )
        .replace('\n', " ")
    };
    let call = r#"{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","call_id":"c1","name":"f","arguments":""}}"#;
    let text = r#"{"type":"response.output_text.delta","output_index":0,"delta":"Oslo"}"#;
    assert_eq!(written(&[&end("null")]), [4, 2, 3]);
    assert_eq!(written(&[text, call, &end("null")]), [2]);
    assert_eq!(written(&[&end(r#"{"input_tokens":3,"output_tokens":2}"#)]), Vec::<u64>::new());
}

#[test]
fn pieces_of_audio_count_by_their_length_and_arguments_of_no_call_as_text() {
    let audio = format!(r#"{{"type":"response.audio.delta","delta":"{}"}}"#, "A".repeat(700));
    let words = r#"{"type":"response.audio.transcript.delta","delta":"Hello"}"#;
    let lost = r#"{"type":"response.function_call_arguments.delta","output_index":4,"delta":"{}"}"#;
    assert_eq!(written(&[&audio, words, lost]), [2, 5, 2]);
}

#[test]
fn a_stream_that_fails_or_stops_early_is_no_answer() {
    let (seen, count) = events(&frames(&[
        r#"{"type":"response.output_text.delta","delta":"Os"}"#,
        r#"{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"no"}}}"#,
    ]));
    assert!(seen.last().is_some_and(|last| last.starts_with("error ")), "{seen:?}");
    assert_eq!(count, 1);
    let (seen, _) = events("data: {\"type\":\"response.output_text.delta\",\"delta\":\"Os\"}\n\n");
    assert_eq!(seen, ["text Os"], "the normaliser reports the missing end");
    let (seen, _) = events("data: [DONE]\n\n");
    assert!(seen[0].starts_with("error "), "{seen:?}");
    for status in ["queued", "in_progress", "cancelled"] {
        let last = format!(
            r#"{{"type":"response.completed","response":{{"status":"{status}","output":[],"usage":{{"input_tokens":3,"output_tokens":2}}}}}}"#
        );
        let (seen, count) = events(&frames(&[&last]));
        assert!(seen[0] == "usage 3 2" && seen[1].starts_with("error "), "{status}: {seen:?}");
        assert_eq!((seen.len(), count), (2, 0), "{status}: the client gets no end");
    }
    let (seen, _) = events("{\"error\":{\"message\":\"no\"}}");
    assert_eq!(seen, ["error The upstream provider failed."]);
}
