//! The load: a fixed number of requests over a fixed number of keep-alive connections, each waiting for its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Chat,
    /// The same out of the response cache.
    Cached,
    /// The same, asked anew each time, and kept: what a hit saves.
    Missed,
    Stream,
    /// The same from an upstream that speaks Anthropic's dialect.
    Translated,
    Embeddings,
}

impl Kind {
    pub(crate) const ALL: [Self; 6] =
        [Self::Chat, Self::Cached, Self::Missed, Self::Stream, Self::Translated, Self::Embeddings];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Cached => "cached",
            Self::Missed => "missed",
            Self::Stream => "stream",
            Self::Translated => "anthropic",
            Self::Embeddings => "embeddings",
        }
    }

    /// Whether it is answered event by event.
    pub(crate) fn streams(self) -> bool {
        matches!(self, Self::Stream | Self::Translated)
    }

    /// The whole request, head and body.
    fn request(self, port: u16, key: &str) -> Vec<u8> {
        let prompt = "Write a short story about a fox and a dog who meet in a field. ".repeat(8);
        let (path, body) = match self {
            Self::Chat => ("/v1/chat/completions", chat("bench/chat", &prompt, false)),
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
}

fn chat(model: &str, prompt: &str, stream: bool) -> serde_json::Value {
    serde_json::json!({
        "model": model, "stream": stream, "temperature": 0.7, "max_tokens": 256,
        "messages": [{"role": "system", "content": "You are a story teller."}, {"role": "user", "content": prompt}]
    })
}

/// Latencies of one run.
#[derive(Debug)]
pub(crate) struct Measured {
    sorted: Vec<Duration>,
}

impl Measured {
    /// The latency below which this share of the requests lay.
    pub(crate) fn quantile(&self, share: f64) -> Duration {
        let last = self.sorted.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.sorted.get(at).copied().unwrap_or_default()
    }
}

/// Runs `total` requests over `connections` connections. Every answer must be a 200 with the expected end.
pub(crate) async fn run(
    kind: Kind,
    port: u16,
    key: &str,
    connections: usize,
    total: usize,
) -> Result<Measured, String> {
    let request: Arc<[u8]> = kind.request(port, key).into();
    let left = Arc::new(AtomicUsize::new(total));
    let mut workers = Vec::new();
    for _ in 0..connections {
        let (request, left) = (Arc::clone(&request), Arc::clone(&left));
        workers.push(tokio::spawn(async move { worker(kind, port, &request, &left).await }));
    }
    let mut sorted = Vec::with_capacity(total);
    for worker in workers {
        sorted.extend(worker.await.map_err(|error| error.to_string())??);
    }
    sorted.sort_unstable();
    Ok(Measured { sorted })
}

async fn worker(kind: Kind, port: u16, request: &[u8], left: &AtomicUsize) -> Result<Vec<Duration>, String> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await.map_err(|error| error.to_string())?;
    socket.set_nodelay(true).map_err(|error| error.to_string())?;
    let mut buffer = Vec::with_capacity(64 << 10);
    let mut latencies = Vec::new();
    while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_ok() {
        let started = Instant::now();
        socket.write_all(request).await.map_err(|error| error.to_string())?;
        read_answer(&mut socket, &mut buffer, kind).await?;
        latencies.push(started.elapsed());
    }
    Ok(latencies)
}

async fn read_answer(socket: &mut TcpStream, buffer: &mut Vec<u8>, kind: Kind) -> Result<(), String> {
    buffer.clear();
    let mut expected = None;
    loop {
        if socket.read_buf(buffer).await.map_err(|error| error.to_string())? == 0 {
            return Err("the connection was closed in the middle of an answer".to_owned());
        }
        if expected.is_none() {
            expected = announced(buffer);
        }
        match expected {
            Some(Some(length)) if buffer.len() >= length => break,
            Some(None) if buffer.ends_with(b"\r\n0\r\n\r\n") => break,
            _ => {}
        }
    }
    let right = buffer.starts_with(b"HTTP/1.1 200") && (!kind.streams() || tail_has_end(buffer));
    if right { Ok(()) } else { Err(format!("not the expected answer: {}", String::from_utf8_lossy(buffer))) }
}

/// The end marker of either dialect: nginx passes on what the upstream says.
fn tail_has_end(buffer: &[u8]) -> bool {
    let tail = buffer.get(buffer.len().saturating_sub(96)..).unwrap_or_default();
    let has = |marker: &[u8]| tail.windows(marker.len()).any(|window| window == marker);
    has(b"[DONE]") || has(b"message_stop")
}

/// Once the head is there: the whole length of the answer, or None for a chunked one.
pub(crate) fn announced(buffer: &[u8]) -> Option<Option<usize>> {
    let end = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(buffer.get(..end)?).to_ascii_lowercase();
    let length =
        head.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    Some(length.map(|length| end + 4 + length))
}
