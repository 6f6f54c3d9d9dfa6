//! Scripts of upstreams that report a hosted tool, or a prompt that their cache keeps for an hour, in the dialect of each request.

use gw_testkit::Answer;
use gw_testkit::upstream::{Recorded, sse_data};
use serde_json::{Value, json};

use crate::harness::dialects::{bedrock_chunk, exception, frame};
use crate::harness::with;

/// The answer to one request.
pub(super) struct Script {
    pub(super) streams: bool,
    /// The answer that is not streamed.
    pub(super) whole: Value,
    /// The encoded events of the stream.
    pub(super) frames: Vec<Vec<u8>>,
    /// The number of events up to the first word.
    pub(super) begun: usize,
    /// An error inside the stream.
    pub(super) error: Vec<u8>,
    is_amazon: bool,
}

impl Script {
    /// The head of the stream.
    pub(super) fn head(&self) -> Answer {
        if !self.is_amazon {
            return Answer::sse();
        }
        Answer::raw(
            "HTTP/1.1 200 OK\r\ncontent-type: application/vnd.amazon.eventstream\r\ntransfer-encoding: chunked\r\n\r\n",
        )
    }

    fn sse(streams: bool, whole: Value, events: &[Value], begun: usize, error: &Value) -> Self {
        let frames = events.iter().map(sse).collect();
        Self { streams, whole, frames, begun, error: sse(error), is_amazon: false }
    }
}

fn sse(event: &Value) -> Vec<u8> {
    let name = event["type"].as_str().map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {event}\n\n").into_bytes()
}

/// The answer in the dialect of the request. A request with a search makes two of them.
pub(super) fn script(request: &Recorded) -> Script {
    let path = request.path.as_str();
    let body = request.json();
    let streams = path.contains("tream") || body["stream"] == true;
    if path.contains("/converse") {
        return converse(streams);
    }
    if path.contains("generateContent") || path.contains("streamGenerateContent") {
        return gemini(streams);
    }
    if path.ends_with("/chat/completions") {
        return chat(streams, body["web_search_options"].is_null());
    }
    if path.ends_with("/responses") {
        return responses(streams);
    }
    let searches = body["tools"].is_array();
    let script = messages(streams, searches);
    if path.contains("/invoke") { of_amazon(streams, searches, script.whole) } else { script }
}

/// Claude's usage at the beginning and at the end.
fn claude_usage(searches: bool) -> [Value; 2] {
    if searches {
        let calls = json!({"web_search_requests": 2, "web_fetch_requests": 0});
        return [
            json!({"input_tokens": 1000, "output_tokens": 1}),
            json!({"input_tokens": 9000, "output_tokens": 50, "server_tool_use": calls}),
        ];
    }
    let of = |output: u64| {
        json!({"input_tokens": 100, "cache_creation_input_tokens": 100_000, "cache_read_input_tokens": 0, "output_tokens": output,
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 100_000}})
    };
    [of(1), of(10)]
}

fn claude_events(searches: bool) -> (Value, Vec<Value>) {
    let [first, last] = claude_usage(searches);
    let message = |content: Value, usage: &Value| {
        json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": content,
            "stop_reason": "end_turn", "stop_sequence": null, "usage": usage})
    };
    let mut begun = message(json!([]), &first);
    begun["stop_reason"] = Value::Null;
    let mut events = vec![json!({"type": "message_start", "message": begun})];
    let stop = |index: usize| json!({"type": "content_block_stop", "index": index});
    let mut index = 0;
    while searches && index < 2 {
        events.push(json!({"type": "content_block_start", "index": index,
            "content_block": {"type": "server_tool_use", "id": format!("srvtoolu_{index}"), "name": "web_search", "input": {}}}));
        events.push(stop(index));
        index += 1;
    }
    events.push(
        json!({"type": "content_block_start", "index": index, "content_block": {"type": "text", "text": ""}}),
    );
    events.push(
        json!({"type": "content_block_delta", "index": index, "delta": {"type": "text_delta", "text": "Hi all"}}),
    );
    events.push(stop(index));
    events.push(json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": last}));
    events.push(json!({"type": "message_stop"}));
    (message(json!([{"type": "text", "text": "Hi all"}]), &last), events)
}

fn messages(streams: bool, searches: bool) -> Script {
    let (whole, events) = claude_events(searches);
    let error = json!({"type": "error", "error": {"type": "overloaded_error", "message": "down"}});
    Script::sse(streams, whole, &events, events.len() - 3, &error)
}

/// Claude's events in the frames of Bedrock.
fn of_amazon(streams: bool, searches: bool, whole: Value) -> Script {
    let frames: Vec<_> = claude_events(searches).1.iter().map(bedrock_chunk).collect();
    let begun = frames.len() - 3;
    let error = exception("modelStreamErrorException", &json!({"message": "down"}));
    Script { streams, whole, frames, begun, error, is_amazon: true }
}

fn converse(streams: bool) -> Script {
    let usage = json!({"inputTokens": 100, "outputTokens": 10, "totalTokens": 100_110, "cacheWriteInputTokens": 100_000,
        "cacheDetails": [{"ttl": "1h", "inputTokens": 100_000}]});
    let message = json!({"message": {"role": "assistant", "content": [{"text": "Hi all"}]}});
    let whole =
        json!({"output": message, "stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 5}});
    let frames = vec![
        frame("messageStart", &json!({"role": "assistant"})),
        frame("contentBlockDelta", &json!({"contentBlockIndex": 0, "delta": {"text": "Hi all"}})),
        frame("contentBlockStop", &json!({"contentBlockIndex": 0})),
        frame("messageStop", &json!({"stopReason": "end_turn"})),
        frame("metadata", &json!({"usage": usage, "metrics": {"latencyMs": 5}})),
    ];
    let error = exception("modelStreamErrorException", &json!({"message": "down"}));
    Script { streams, whole, frames, begun: 2, error, is_amazon: true }
}

fn gemini(streams: bool) -> Script {
    let of = |output: u64, more: Value| {
        let candidate = json!({"index": 0, "content": {"role": "model", "parts": [{"text": "Hi all"}]}});
        json!({"candidates": [with(candidate, more)], "modelVersion": "m",
            "usageMetadata": {"promptTokenCount": 1000, "candidatesTokenCount": output, "totalTokenCount": 1000 + output}})
    };
    let grounding = json!({"webSearchQueries": ["a", "b"]});
    let whole = of(50, json!({"finishReason": "STOP", "groundingMetadata": grounding}));
    let events = [
        of(1, json!({"groundingMetadata": grounding})),
        of(50, json!({"finishReason": "STOP", "content": {"role": "model", "parts": []}})),
    ];
    let error = json!({"error": {"code": 503, "message": "down", "status": "UNAVAILABLE"}});
    Script::sse(streams, whole, &events, 1, &error)
}

/// `is_bare`: the request has no options of a search, and the model always searches.
fn chat(streams: bool, is_bare: bool) -> Script {
    let mut usage = json!({"prompt_tokens": 1000, "completion_tokens": 50, "total_tokens": 1050});
    if is_bare {
        usage["search_context_size"] = json!("medium");
    }
    let mut whole = gw_testkit::upstream::chat_body("m", "Hi all");
    whole["usage"] = usage.clone();
    let mut last = sse_data(&json!({}), Some("stop"));
    last["usage"] = usage;
    let events = [
        sse_data(&json!({"role": "assistant", "content": ""}), None),
        sse_data(&json!({"content": "Hi all"}), None),
        last,
    ];
    let mut script = Script::sse(
        streams,
        whole,
        &events,
        2,
        &json!({"error": {"message": "down", "type": "server_error"}}),
    );
    script.frames.push(b"data: [DONE]\n\n".to_vec());
    script
}

fn responses(streams: bool) -> Script {
    let search = |id: &str| json!({"type": "web_search_call", "id": id, "status": "completed", "action": {"type": "search", "query": "a"}});
    let message = json!({"type": "message", "id": "msg_up", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Hi all", "annotations": [], "logprobs": []}]});
    let whole = json!({"id": "resp_up", "object": "response", "created_at": 1, "status": "completed", "model": "m", "error": null,
        "incomplete_details": null, "output": [search("ws_1"), search("ws_2"), message],
        "usage": {"input_tokens": 9000, "output_tokens": 50, "total_tokens": 9050}});
    let mut created = whole.clone();
    (created["status"], created["usage"], created["output"]) = (json!("in_progress"), Value::Null, json!([]));
    let events = [
        json!({"type": "response.created", "sequence_number": 0, "response": created}),
        json!({"type": "response.output_item.done", "sequence_number": 1, "output_index": 0, "item": search("ws_1")}),
        json!({"type": "response.output_item.done", "sequence_number": 2, "output_index": 1, "item": search("ws_2")}),
        json!({"type": "response.output_text.delta", "sequence_number": 3, "output_index": 2, "item_id": "msg_up",
            "content_index": 0, "delta": "Hi all"}),
        json!({"type": "response.output_item.done", "sequence_number": 4, "output_index": 2, "item": message}),
        json!({"type": "response.completed", "sequence_number": 5, "response": whole}),
    ];
    let error = json!({"type": "error", "sequence_number": 4, "code": "server_error", "message": "down", "param": null});
    Script::sse(streams, whole, &events, 4, &error)
}
