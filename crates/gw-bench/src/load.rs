//! The closed-loop load: a fixed number of requests over keep-alive connections. Each connection waits for its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::{Error, Result};

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Chat,
    /// A chat answered from the response cache.
    Cached,
    /// A chat that skips the lookup and is written to the cache: the cost that a cache hit saves.
    Missed,
    Stream,
    /// A stream from an upstream that speaks Anthropic's dialect.
    Translated,
    /// A stream on `/v1/messages`, from an upstream that speaks OpenAI's chat dialect.
    Messages,
    /// A stream on `/v1/responses`, from an upstream that speaks OpenAI's chat dialect.
    Responses,
    Embeddings,
    /// One entry of `/v1/models`: the check of the key, and a short answer without a call.
    Key,
    /// A chat with a wrong key.
    Refused,
    /// `/healthz`: a fixed text without a key.
    Health,
}

impl Kind {
    /// Number of the first kinds of `ALL` that nginx can pass on: the others never reach an upstream.
    const PROXIED: usize = 8;
    pub(crate) const ALL: [Self; 11] = [
        Self::Chat,
        Self::Cached,
        Self::Missed,
        Self::Stream,
        Self::Translated,
        Self::Messages,
        Self::Responses,
        Self::Embeddings,
        Self::Key,
        Self::Refused,
        Self::Health,
    ];

    /// The kinds that a proxy can be compared in.
    pub(crate) fn proxied() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().take(Self::PROXIED)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Cached => "cached",
            Self::Missed => "missed",
            Self::Stream => "stream",
            Self::Translated => "anthropic",
            Self::Messages => "messages",
            Self::Responses => "responses",
            Self::Embeddings => "embeddings",
            Self::Key => "key",
            Self::Refused => "refused",
            Self::Health => "health",
        }
    }

    /// The beginning of the expected answer.
    fn expected(self) -> &'static [u8] {
        if self == Self::Refused { b"HTTP/1.1 401" } else { b"HTTP/1.1 200" }
    }

    /// Whether the answer is an event stream.
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Self::Stream | Self::Translated | Self::Messages | Self::Responses)
    }

    /// The whole request, head and body.
    fn request(self, port: u16, key: &str) -> Vec<u8> {
        let prompt = "Write a short story about a fox and a dog who meet in a field. ".repeat(8);
        let key = if self == Self::Refused { "sk-wrong-key" } else { key };
        let (path, body) = match self {
            Self::Key | Self::Health => return self.page(port, key),
            Self::Chat | Self::Refused => ("/v1/chat/completions", chat("bench/chat", &prompt, false)),
            Self::Cached | Self::Missed => {
                let mode = if self == Self::Cached { "read_write" } else { "write" };
                let mut body = chat("bench/chat", &prompt, false);
                if let Some(members) = body.as_object_mut() {
                    members.insert("cache".to_owned(), serde_json::json!({"enabled": true, "mode": mode}));
                }
                ("/v1/chat/completions", body)
            }
            Self::Stream => ("/v1/chat/completions", chat("bench/chat", &prompt, true)),
            Self::Translated => ("/v1/chat/completions", chat("bench-claude/chat", &prompt, true)),
            Self::Messages => ("/v1/messages", chat("bench/chat", &prompt, true)),
            Self::Responses => (
                "/v1/responses",
                serde_json::json!({"model": "bench/chat", "stream": true, "store": false, "temperature": 0.7,
                    "max_output_tokens": 256, "instructions": "You are a story teller.", "input": prompt}),
            ),
            Self::Embeddings => (
                "/v1/embeddings",
                serde_json::json!({"model": "bench/embed", "input": "A fox and a dog meet in a field.", "encoding_format": "float"}),
            ),
        };
        let body = body.to_string();
        format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\ncontent-type: application/json\r\naccept: application/json\r\nuser-agent: gw-bench\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    }

    /// A request without a body.
    fn page(self, port: u16, key: &str) -> Vec<u8> {
        let (path, key) = match self {
            Self::Health => ("/healthz", String::new()),
            _ => ("/v1/models/bench/chat", format!("authorization: Bearer {key}\r\n")),
        };
        format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n{key}accept: */*\r\nuser-agent: gw-bench\r\n\r\n")
            .into_bytes()
    }
}

fn chat(model: &str, prompt: &str, stream: bool) -> serde_json::Value {
    serde_json::json!({
        "model": model, "stream": stream, "temperature": 0.7, "max_tokens": 256,
        "messages": [{"role": "system", "content": "You are a story teller."}, {"role": "user", "content": prompt}]
    })
}

/// The latencies of one run.
#[derive(Debug)]
pub(crate) struct Latencies {
    sorted: Vec<Duration>,
}

impl Latencies {
    /// The latency that this share of the requests did not exceed.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let last = self.sorted.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.sorted.get(at).copied().unwrap_or_default()
    }
}

/// Runs `total` requests over `connections` connections. Every answer must have the expected status and end.
pub(crate) async fn run(
    kind: Kind,
    port: u16,
    key: &str,
    connections: usize,
    total: usize,
) -> Result<Latencies> {
    let request: Arc<[u8]> = kind.request(port, key).into();
    let left = Arc::new(AtomicUsize::new(total));
    let mut workers = Vec::new();
    for _ in 0..connections {
        let (request, left) = (Arc::clone(&request), Arc::clone(&left));
        workers.push(tokio::spawn(async move { worker(kind, port, &request, &left).await }));
    }
    let mut sorted = Vec::with_capacity(total);
    for worker in workers {
        sorted.extend(worker.await??);
    }
    sorted.sort_unstable();
    Ok(Latencies { sorted })
}

async fn worker(kind: Kind, port: u16, request: &[u8], left: &AtomicUsize) -> Result<Vec<Duration>> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await?;
    socket.set_nodelay(true)?;
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut latencies = Vec::new();
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let started = Instant::now();
        socket.write_all(request).await?;
        read_answer(&mut socket, &mut buffer, kind).await?;
        latencies.push(started.elapsed());
    }
    Ok(latencies)
}

async fn read_answer(socket: &mut TcpStream, buffer: &mut Vec<u8>, kind: Kind) -> Result<()> {
    buffer.clear();
    let mut expected = None;
    loop {
        if socket.read_buf(buffer).await? == 0 {
            return Err(Error::Closed);
        }
        if expected.is_none() {
            expected = answer_length(buffer);
        }
        match expected {
            Some(Some(length)) if buffer.len() >= length => break,
            Some(None) if buffer.ends_with(b"\r\n0\r\n\r\n") => break,
            _ => {}
        }
    }
    let is_complete = !kind.is_stream() || has_end_marker(buffer);
    if buffer.starts_with(kind.expected()) && is_complete {
        return Ok(());
    }
    Err(Error::UnexpectedAnswer(String::from_utf8_lossy(buffer).into_owned()))
}

/// Whether the answer ends with the end marker of either dialect. nginx does not translate, so it passes on the upstream's.
fn has_end_marker(buffer: &[u8]) -> bool {
    let tail = buffer.get(buffer.len().saturating_sub(96)..).unwrap_or_default();
    let has = |marker: &[u8]| tail.windows(marker.len()).any(|window| window == marker);
    has(b"[DONE]") || has(b"message_stop") || ends_response(buffer)
}

/// Whether the stream holds the last event of `/v1/responses`, which repeats the whole answer.
fn ends_response(buffer: &[u8]) -> bool {
    let marker = b"event: response.completed";
    buffer.windows(marker.len()).any(|window| window == marker)
}

/// The total length of the answer once its head has arrived; the inner None stands for a chunked answer.
pub(crate) fn answer_length(buffer: &[u8]) -> Option<Option<usize>> {
    let end = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(buffer.get(..end)?).to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    Some(length.map(|length| end + 4 + length))
}
