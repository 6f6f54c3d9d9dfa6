//! The canned upstream: a minimal HTTP/1.1 server that gives every request the same answer, as cheaply as it can.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};

/// Number of events of one stream, without the first (role) and the last (finish).
pub(crate) const EVENTS: usize = 100;
/// The pause between two events, so that each travels in its own packet, as tokens do.
pub(crate) const PACE: Duration = Duration::from_millis(4);
/// Number of bytes at the start and at the end of a body by which the upstream distinguishes requests.
const EDGE: usize = 1 << 10;
/// The most connections that wait to be accepted. A gateway with thousands of clients opens thousands of connections at once.
const BACKLOG: u32 = 4096;
/// Number of values of one embedding.
const DIMENSIONS: usize = 1536;

/// All answers of the upstream.
struct Canned {
    /// The pause between two events of a stream. None sends a stream in one write.
    pace: Option<Duration>,
    chat: Vec<u8>,
    embedding: Vec<u8>,
    stream_head: Vec<u8>,
    events: Vec<Vec<u8>>,
    /// The stream in Anthropic's dialect.
    anthropic: Vec<Vec<u8>>,
}

/// Starts the upstream and returns its port. A stream has `events` texts, with `pace` between two of them, or in one write.
pub(crate) async fn start(events: usize, pace: Option<Duration>) -> std::io::Result<u16> {
    let socket = TcpSocket::new_v4()?;
    socket.bind(([127, 0, 0, 1], 0).into())?;
    let listener = socket.listen(BACKLOG)?;
    let port = listener.local_addr()?.port();
    let canned = Arc::new(Canned::new(events, pace));
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let canned = Arc::clone(&canned);
            tokio::spawn(async move {
                let _ = serve(socket, &canned).await;
            });
        }
    });
    Ok(port)
}

async fn serve(mut socket: TcpStream, canned: &Canned) -> std::io::Result<()> {
    socket.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(16 << 10);
    loop {
        let Some((head, length)) = read_head(&mut socket, &mut buffer).await? else { return Ok(()) };
        while buffer.len() < head + length {
            if socket.read_buf(&mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let request = buffer.get(..head + length).unwrap_or_default();
        let is_embedding = contains(request.get(..head).unwrap_or_default(), b"/embeddings");
        // Searching all of a large body would make the upstream the slowest part of the benchmark.
        let (front, back) =
            (request.get(..request.len().min(head + EDGE)), request.len().saturating_sub(EDGE));
        let ends = [front.unwrap_or_default(), request.get(back..).unwrap_or_default()];
        let has = |needle: &[u8]| ends.iter().any(|end| contains(end, needle));
        let is_stream = has(b"\"stream\":true");
        // The gateway sends Anthropic's path; nginx passes on the client's path, so the model decides.
        let is_anthropic = has(b"/messages") || has(b"bench-claude");
        buffer.drain(..head + length);
        if is_stream {
            let events = if is_anthropic { &canned.anthropic } else { &canned.events };
            stream(&mut socket, canned, events).await?;
        } else {
            socket.write_all(if is_embedding { &canned.embedding } else { &canned.chat }).await?;
        }
    }
}

async fn stream(socket: &mut TcpStream, canned: &Canned, events: &[Vec<u8>]) -> std::io::Result<()> {
    let Some(pace) = canned.pace else {
        return socket
            .write_all(&[std::slice::from_ref(&canned.stream_head), events].concat().concat())
            .await;
    };
    socket.write_all(&canned.stream_head).await?;
    let mut tick = tokio::time::interval(pace);
    for event in events {
        tick.tick().await;
        socket.write_all(event).await?;
    }
    Ok(())
}

/// Reads a head and returns its length and that of the announced body; None at the connection's end.
async fn read_head(socket: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<Option<(usize, usize)>> {
    loop {
        if let Some(end) = find(buffer, b"\r\n\r\n") {
            let head = buffer.get(..end).unwrap_or_default().to_ascii_lowercase();
            let length = find(&head, b"content-length:").and_then(|at| {
                let rest = head.get(at + 15..)?;
                let line = rest.split(|byte| *byte == b'\r').next()?;
                std::str::from_utf8(line).ok()?.trim().parse().ok()
            });
            return Ok(Some((end + 4, length.unwrap_or(0))));
        }
        if socket.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).position(|window| window == needle)
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    find(haystack, needle).is_some()
}

impl Canned {
    fn new(texts: usize, pace: Option<Duration>) -> Self {
        let words =
            "The quick brown fox jumps over the lazy dog and keeps running through the field. ".repeat(6);
        let chat = serde_json::json!({
            "id": "chatcmpl-canned", "object": "chat.completion", "created": 1_700_000_000, "model": "canned-1",
            "choices": [{"index": 0, "message": {"role": "assistant", "content": words, "refusal": null},
                "logprobs": null, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 120, "completion_tokens": 100, "total_tokens": 220,
                "prompt_tokens_details": {"cached_tokens": 0}, "completion_tokens_details": {"reasoning_tokens": 0}},
            "system_fingerprint": "fp_canned"
        });
        let numbers: Vec<f64> =
            (0..DIMENSIONS).map(|n| ((n * 7919 % 20_011) as f64 / 20_011.0 - 0.5) / 10.0).collect();
        let embedding = serde_json::json!({
            "object": "list", "model": "canned-embed", "usage": {"prompt_tokens": 8, "total_tokens": 8},
            "data": [{"object": "embedding", "index": 0, "embedding": numbers}]
        });
        let mut events = vec![chunk(&serde_json::json!({"role": "assistant", "content": ""}), None)];
        for n in 0..texts {
            events.push(chunk(&serde_json::json!({ "content": format!(" token{n}") }), None));
        }
        events.push(chunk(&serde_json::json!({}), Some("stop")));
        events.push(framed(
            br#"data: {"id":"chatcmpl-canned","object":"chat.completion.chunk","created":1700000000,"model":"canned-1","choices":[],"usage":{"prompt_tokens":120,"completion_tokens":100,"total_tokens":220}}

data: [DONE]

"#,
        ));
        if let Some(last) = events.last_mut() {
            last.extend_from_slice(b"0\r\n\r\n");
        }
        Self {
            pace,
            chat: answer(chat.to_string().as_bytes()),
            embedding: answer(embedding.to_string().as_bytes()),
            stream_head:
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
                    .to_vec(),
            events,
            anthropic: anthropic(texts),
        }
    }
}

fn anthropic(texts: usize) -> Vec<Vec<u8>> {
    let event = |value: serde_json::Value| {
        let name = value.get("type").and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
        framed(format!("event: {name}\ndata: {value}\n\n").as_bytes())
    };
    let message = serde_json::json!({
        "id": "msg_canned", "type": "message", "role": "assistant", "model": "canned-1", "content": [],
        "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 120, "output_tokens": 1}
    });
    let mut events = vec![event(serde_json::json!({"type": "message_start", "message": message}))];
    // As many frames as the stream in OpenAI's dialect has.
    if let Some(first) = events.first_mut() {
        first.extend(event(serde_json::json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}})));
    }
    for n in 0..texts {
        let delta = serde_json::json!({"type": "text_delta", "text": format!(" token{n}")});
        events.push(event(serde_json::json!({"type": "content_block_delta", "index": 0, "delta": delta})));
    }
    events.push(event(serde_json::json!({"type": "content_block_stop", "index": 0})));
    let mut last = event(
        serde_json::json!({"type": "message_delta", "delta": {"stop_reason": "end_turn", "stop_sequence": null}, "usage": {"output_tokens": 100}}),
    );
    last.extend(event(serde_json::json!({"type": "message_stop"})));
    last.extend_from_slice(b"0\r\n\r\n");
    events.push(last);
    events
}

fn answer(body: &[u8]) -> Vec<u8> {
    let mut out = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    out.extend_from_slice(body);
    out
}

fn chunk(delta: &serde_json::Value, finish: Option<&str>) -> Vec<u8> {
    let event = serde_json::json!({
        "id": "chatcmpl-canned", "object": "chat.completion.chunk", "created": 1_700_000_000, "model": "canned-1",
        "system_fingerprint": "fp_canned",
        "choices": [{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]
    });
    framed(format!("data: {event}\n\n").as_bytes())
}

/// Wraps bytes as one chunk of the chunked transfer encoding.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let mut out = format!("{:x}\r\n", bytes.len()).into_bytes();
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
    out
}
