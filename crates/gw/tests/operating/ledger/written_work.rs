//! Streams in which a model writes 600 bytes: most of them for something that the client's dialect has no usual member for.

use serde_json::{Value, json};

use crate::harness::dialects::{bedrock_chunk, frame};

/// The bytes that a model writes beside the words at the end of each stream.
pub(super) const BYTES: usize = 594;
/// The words at the end, six bytes.
pub(super) const WORDS: &str = "Hi all";

/// What a model writes.
pub(super) struct Work {
    pub(super) name: &'static str,
    /// The tokens of all that it wrote.
    pub(super) tokens: u64,
    events: Vec<Value>,
}

fn work(name: &'static str, tokens: u64, events: Vec<Value>) -> Work {
    Work { name, tokens, events }
}

fn text() -> String {
    "x".repeat(BYTES)
}

/// Arguments of this many bytes.
fn arguments() -> String {
    json!({"q": "x".repeat(BYTES - 8)}).to_string()
}

fn sse(event: &Value) -> Vec<u8> {
    let name = event["type"].as_str().map(|name| format!("event: {name}\n")).unwrap_or_default();
    format!("{name}data: {event}\n\n").into_bytes()
}

/// The blocks of Claude's messages.
pub(super) fn claude() -> Vec<Work> {
    let start = |block: Value| json!({"type": "content_block_start", "index": 0, "content_block": block});
    let delta = |delta: Value| json!({"type": "content_block_delta", "index": 0, "delta": delta});
    let call = |input: Value| {
        start(
            json!({"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "ask", "server_name": "s", "input": input}),
        )
    };
    let result = |index: u32| {
        json!({"type": "content_block_start", "index": index, "content_block": {"type": "mcp_tool_result",
            "tool_use_id": "mcptoolu_1", "is_error": false, "content": [{"type": "text", "text": text()}]}})
    };
    let arguments = arguments();
    let (first, second) = arguments.split_at(100);
    let piece = |piece: &str| delta(json!({"type": "input_json_delta", "partial_json": piece}));
    let summary = |content: Value| start(json!({"type": "compaction", "content": content}));
    vec![
        // The name has three bytes.
        work("mcp-pieces", 201, vec![call(json!({})), piece(first), piece(second)]),
        work("mcp-whole", 201, vec![call(serde_json::from_str(&arguments).expect("JSON"))]),
        work(
            "compaction-pieces",
            200,
            vec![summary(Value::Null), delta(json!({"type": "compaction_delta", "content": text()}))],
        ),
        work("compaction-whole", 200, vec![summary(json!(text()))]),
        // The result of a call is part of the next prompt.
        work("mcp-result", 3, vec![call(json!({})), result(1)]),
        work("lone-result", 200, vec![result(0)]),
        // The signature is no text, and what goes back with it has counted.
        work(
            "signed-thought",
            200,
            vec![
                start(json!({"type": "thinking", "thinking": "", "signature": ""})),
                delta(json!({"type": "thinking_delta", "thinking": text()})),
                delta(json!({"type": "signature_delta", "signature": "EqQB".repeat(40)})),
            ],
        ),
        work("unknown-block", 200, vec![start(json!({"type": "news", "content": [{"text": text()}]}))]),
    ]
}

/// The frames of one of them, with the words at the end.
pub(super) fn claude_frames(work: &Work, is_amazon: bool) -> Vec<u8> {
    let message = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": [],
        "stop_reason": null, "stop_sequence": null});
    let mut events = vec![json!({"type": "message_start", "message": message})];
    events.extend(work.events.iter().cloned());
    events.push(json!({"type": "content_block_stop", "index": 0}));
    events.push(
        json!({"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}}),
    );
    events.push(
        json!({"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": WORDS}}),
    );
    events
        .iter()
        .map(|event| if is_amazon { bedrock_chunk(event) } else { sse(event) })
        .collect::<Vec<_>>()
        .concat()
}

fn item(kind: &str, more: Value) -> Value {
    crate::harness::with(json!({"type": kind, "id": "it_1", "status": "completed"}), more)
}

fn added(item: &Value) -> Value {
    json!({"type": "response.output_item.added", "sequence_number": 1, "output_index": 0, "item": item})
}

fn done(item: &Value) -> Value {
    json!({"type": "response.output_item.done", "sequence_number": 3, "output_index": 0, "item": item})
}

fn piece(kind: &str, piece: &str) -> Value {
    json!({"type": format!("response.{kind}.delta"), "sequence_number": 2, "output_index": 0, "item_id": "it_1", "delta": piece})
}

fn part(kind: &str, name: &str, text: &str) -> Value {
    let mut part = json!({"type": format!("response.{kind}.done"), "sequence_number": 2, "output_index": 0, "item_id": "it_1"});
    part[name] = json!(text);
    part
}

/// The items of the Responses API, without pieces, with pieces, and with both.
pub(super) fn responses() -> Vec<Work> {
    [codes(), calls_of_clients(), searches(), answers()].into_iter().flatten().collect()
}

fn codes() -> Vec<Work> {
    const KIND: &str = "code_interpreter_call_code";
    let words = text();
    let (first, second) = words.split_at(100);
    let logs = json!([{"type": "logs", "logs": words}]);
    let code = |code: &str| {
        item("code_interpreter_call", json!({"container_id": "cntr_1", "code": code, "outputs": logs}))
    };
    let (empty, whole) = (code(""), code(&words));
    vec![
        work("code-whole", 200, vec![added(&empty), done(&whole)]),
        work("code-pieces", 200, vec![added(&empty), piece(KIND, first), piece(KIND, second)]),
        work(
            "code-both",
            200,
            vec![added(&empty), piece(KIND, &words), part(KIND, "code", &words), done(&whole)],
        ),
        work("code-part", 200, vec![added(&empty), part(KIND, "code", &words)]),
    ]
}

fn calls_of_clients() -> Vec<Work> {
    let words = text();
    let (first, second) = words.split_at(100);
    let call = |kind: &str, name: &str, value: Value| item(kind, json!({"call_id": "call_1", name: value}));
    let patch = |diff: &str| {
        call("apply_patch_call", "operation", json!({"type": "update_file", "path": "a.b", "diff": diff}))
    };
    let shell = call("shell_call", "action", json!({"commands": [words], "timeout_ms": 5}));
    let output = item("shell_call_output", json!({"output": [{"stdout": words, "stderr": ""}]}));
    let local = json!({"type": "exec", "command": [first, second], "env": {}});
    let mut custom = call("custom_tool_call", "input", json!(words));
    custom["name"] = json!("ask");
    vec![
        work("shell-added", 200, vec![added(&shell)]),
        work("shell-done", 200, vec![added(&shell), done(&shell)]),
        work("shell-output", 2, vec![done(&output)]),
        work("local-shell", 200, vec![done(&call("local_shell_call", "action", local))]),
        // The path has three bytes.
        work(
            "patch-both",
            201,
            vec![added(&patch("")), piece("apply_patch_call_operation_diff", &words), done(&patch(&words))],
        ),
        work("patch-whole", 201, vec![done(&patch(&words))]),
        work(
            "computer",
            200,
            vec![done(&call("computer_call", "action", json!({"type": "type", "text": words})))],
        ),
        work("custom-whole", 201, vec![done(&custom)]),
        work("unknown-item", 200, vec![done(&call("news_call", "plan", json!({"steps": [first, second]})))]),
    ]
}

fn searches() -> Vec<Work> {
    let (words, sent) = (text(), arguments());
    let (first, second) = words.split_at(100);
    let asked = |arguments: &str| {
        item("mcp_call", json!({"server_label": "s", "name": "ask", "arguments": arguments, "output": words}))
    };
    let approval =
        item("mcp_approval_request", json!({"server_label": "s", "name": "ask", "arguments": sent}));
    let action = json!({"type": "search", "query": words, "sources": [{"type": "url", "url": words}]});
    let files = json!({"queries": [first, second], "results": [{"text": words}]});
    let image = json!({"revised_prompt": words, "result": "aGk="});
    vec![
        work("image-prompt", 200, vec![done(&item("image_generation_call", image))]),
        work("web-search", 200, vec![done(&item("web_search_call", json!({"action": action})))]),
        work("file-search", 200, vec![done(&item("file_search_call", files))]),
        work(
            "mcp-both",
            201,
            vec![added(&asked("")), piece("mcp_call_arguments", &sent), done(&asked(&sent))],
        ),
        work("mcp-approval", 201, vec![done(&approval)]),
    ]
}

fn answers() -> Vec<Work> {
    let words = text();
    let (first, second) = words.split_at(100);
    let content = json!([{"type": "output_text", "text": words, "annotations": [], "logprobs": []}]);
    let message = |content: &Value| item("message", json!({"role": "assistant", "content": content}));
    let (empty, whole) = (message(&json!([])), message(&content));
    let summary = json!([{"type": "summary_text", "text": words}]);
    let thought = item("reasoning", json!({"summary": summary, "encrypted_content": null}));
    vec![
        work("message-whole", 200, vec![added(&empty), done(&whole)]),
        work(
            "message-both",
            200,
            vec![
                piece("output_text", first),
                piece("output_text", second),
                part("output_text", "text", &words),
                done(&whole),
            ],
        ),
        work("thought-whole", 200, vec![done(&thought)]),
    ]
}

/// The frames of one of them, with the words at the end.
pub(super) fn response_frames(work: &Work) -> Vec<u8> {
    let created = json!({"id": "resp_up", "object": "response", "created_at": 1, "status": "in_progress", "model": "m", "error": null,
        "incomplete_details": null, "output": [], "usage": null});
    let mut events = vec![json!({"type": "response.created", "sequence_number": 0, "response": created})];
    events.extend(work.events.iter().cloned());
    events.push(json!({"type": "response.output_text.delta", "sequence_number": 9, "output_index": 7, "item_id": "msg_up",
        "content_index": 0, "delta": WORDS}));
    events.iter().flat_map(sse).collect()
}

/// The members of a chat's deltas.
pub(super) fn chats() -> Vec<Work> {
    let delta = |delta: Value| gw_testkit::upstream::sse_data(&delta, None);
    vec![
        work(
            "spoken-words",
            200,
            vec![delta(json!({"audio": {"id": "audio_1"}})), delta(json!({"audio": {"transcript": text()}}))],
        ),
        // 700 characters of sound count as two bytes.
        work("sound", 3, vec![delta(json!({"audio": {"id": "audio_1", "data": "A".repeat(700)}}))]),
        work(
            "thoughts-twice",
            200,
            vec![delta(
                json!({"reasoning": text(), "reasoning_details": [{"type": "reasoning.text", "text": text(), "index": 0}]}),
            )],
        ),
        work(
            "thoughts-in-list",
            200,
            vec![delta(
                json!({"reasoning_details": [{"type": "reasoning.text", "text": text(), "format": "f", "index": 0}]}),
            )],
        ),
        work("refusal", 200, vec![delta(json!({"refusal": text()}))]),
    ]
}

/// The frames of one of them, with the words at the end.
pub(super) fn chat_frames(work: &Work) -> Vec<u8> {
    let words = gw_testkit::upstream::sse_data(&json!({"content": WORDS}), None);
    work.events.iter().chain([&words]).flat_map(sse).collect()
}

/// The parts of Gemini's answers.
pub(super) fn parts() -> Vec<Work> {
    vec![
        work("code", 200, vec![json!({"executableCode": {"language": "PYTHON", "code": text()}})]),
        work(
            "code-result",
            2,
            vec![json!({"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": text()}})],
        ),
        work(
            "tool-call",
            198,
            vec![
                json!({"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "c", "args": {"q": "x".repeat(BYTES - 14)}}}),
            ],
        ),
    ]
}

/// The frames of one of them, with the words at the end.
pub(super) fn gemini_frames(work: &Work) -> Vec<u8> {
    let event = |part: &Value| {
        sse(
            &json!({"candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}}], "modelVersion": "m"}),
        )
    };
    work.events.iter().chain([&json!({"text": WORDS})]).flat_map(event).collect()
}

/// The events of Converse.
pub(super) fn conversed() -> Vec<Work> {
    let call = json!({"contentBlockIndex": 0, "start": {"toolUse": {"type": "server_tool_use", "toolUseId": "t", "name": "ask"}}});
    let piece = json!({"contentBlockIndex": 0, "delta": {"toolUse": {"input": arguments()}}});
    vec![work("server-tool", 201, vec![call, piece])]
}

/// The frames of one of them, with the words at the end.
pub(super) fn converse_frames(work: &Work) -> Vec<u8> {
    let mut frames = frame("messageStart", &json!({"role": "assistant"}));
    for event in &work.events {
        let kind = if event["start"].is_null() { "contentBlockDelta" } else { "contentBlockStart" };
        frames.extend(frame(kind, event));
    }
    frames.extend(frame("contentBlockStop", &json!({"contentBlockIndex": 0})));
    frames.extend(frame("contentBlockDelta", &json!({"contentBlockIndex": 1, "delta": {"text": WORDS}})));
    frames
}
