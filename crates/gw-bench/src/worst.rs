//! `gw-bench worst`: the most expensive bodies that a client can send, to every endpoint and in every dialect.
//!
//! Several clients send the same body at the same time while kept connections request `/healthz` without a pause. Each
//! row reports the gateway's answer, its CPU time per MiB of body, the time of the slowest answer, and the times of
//! `/healthz`.

mod shapes;

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::error::Result;
use crate::process::Process;
use shapes::{SHAPES, Shape};

/// Options of `gw-bench worst`.
#[derive(Debug, Args)]
pub(crate) struct WorstOptions {
    /// Path of the gateway's program.
    #[arg(long, default_value = "target/dist/model-gateway")]
    binary: PathBuf,
    /// Sizes of the bodies in MiB.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,31")]
    mib: Vec<usize>,
    /// Measure only these dialects.
    #[arg(long, value_delimiter = ',')]
    dialect: Vec<String>,
    /// Measure only shapes whose name contains one of these words.
    #[arg(long, value_delimiter = ',')]
    shape: Vec<String>,
    /// Number of clients that send the body at the same time.
    #[arg(long, default_value_t = 4)]
    together: usize,
    /// Number of kept connections that request /healthz.
    #[arg(long, default_value_t = 16)]
    probes: usize,
    /// Lines for the gateway's `[server]` table, for example to raise the limits on a request's structure.
    #[arg(long, default_value = "")]
    server: String,
}

const KEY: &str = "sk-bench-key";
/// The tested providers: `api`, further lines of the provider's table, model.
const DIALECTS: [(&str, &str, &str); 9] = [
    ("openai", "", "gpt-4o"),
    ("azure", "api_version = \"2024-10-21\"\ndeployments = { \"gpt-4o\" = \"my-gpt\" }", "gpt-4o"),
    ("mistral", "", "mistral-large-latest"),
    ("anthropic", "", "claude-sonnet-4-5"),
    ("gemini", "", "gemini-2.5-pro"),
    ("vertex", "project = \"p\"\nregion = \"europe-west4\"", "gemini-2.5-pro"),
    ("bedrock", "region = \"eu-west-1\"", "anthropic.claude-sonnet-4-5-20250929-v1:0"),
    ("cohere", "", "command-a-vision-07-2025"),
    ("ollama", "", "qwen3"),
];
/// The pause of a probe between two requests.
const PROBE_PAUSE: Duration = Duration::from_millis(1);
/// A client gives up after this time.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Runs all cases.
///
/// # Errors
/// The gateway does not start, or ends.
pub(crate) async fn run(options: &WorstOptions) -> Result<String> {
    let dir = tempfile::tempdir()?;
    let sink = sink().await?;
    let mut report = String::from(
        "| dialect | shape | MiB | answer | CPU ms/MiB | slowest answer ms | healthz p50 / p99 / longest ms |\n|---|---|---|---|---|---|---|\n",
    );
    for (api, lines, model) in DIALECTS {
        if !options.dialect.is_empty() && !options.dialect.iter().any(|only| only == api) {
            continue;
        }
        let folder = dir.path().join(api);
        std::fs::create_dir(&folder)?;
        let config = config(sink, api, lines, model, &options.server, &folder);
        let gateway = Process::configured(&options.binary, &folder, config)?;
        for shape in SHAPES {
            if !options.shape.is_empty()
                && !options.shape.iter().any(|only| shape.name.contains(only.as_str()))
            {
                continue;
            }
            for mib in &options.mib {
                report.push_str(&case(options, &gateway, api, model, shape, *mib).await?);
            }
        }
    }
    Ok(report)
}

async fn case(
    options: &WorstOptions,
    gateway: &Process,
    api: &str,
    model: &str,
    shape: &Shape,
    mib: usize,
) -> Result<String> {
    let body = (shape.body)(&format!("my-{api}/{model}"), mib << 20);
    let real_mib = body.len() as f64 / f64::from(1 << 20);
    let head = format!(
        "POST {} HTTP/1.1\r\nhost: gateway\r\nauthorization: Bearer {KEY}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        shape.path,
        body.len()
    );
    let request: Arc<[u8]> = [head.as_bytes(), body.as_bytes()].concat().into();
    drop(body);
    let (over, port) = (Arc::new(AtomicBool::new(false)), gateway.port);
    let probes: Vec<_> = (0..options.probes).map(|_| tokio::spawn(probe(port, Arc::clone(&over)))).collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let before = gateway.cpu();
    let mut senders = Vec::new();
    for _ in 0..options.together {
        senders.push(tokio::spawn(send(port, Arc::clone(&request))));
    }
    let (mut answers, mut slowest) = (Vec::new(), Duration::ZERO);
    for sender in senders {
        let (answer, took) = sender.await?;
        answers.push(answer);
        slowest = slowest.max(took);
    }
    let cpu = gateway.cpu().saturating_sub(before);
    over.store(true, Ordering::Release);
    let mut healthz = Vec::new();
    for probe in probes {
        healthz.extend(probe.await?);
    }
    healthz.sort_unstable();
    answers.sort();
    answers.dedup();
    let at = |share: f64| {
        let last = healthz.len().saturating_sub(1) as f64;
        healthz.get((last * share) as usize).map_or(0.0, |took| took.as_secs_f64() * 1e3)
    };
    let mut row = String::new();
    let _ = writeln!(
        row,
        "| {api} | {} | {real_mib:.1} | {} | {:.1} | {:.0} | {:.1} / {:.1} / {:.1} |",
        shape.name,
        answers.join(", "),
        cpu.as_secs_f64() * 1e3 / (real_mib * options.together as f64),
        slowest.as_secs_f64() * 1e3,
        at(0.5),
        at(0.99),
        at(1.0),
    );
    Ok(row)
}

/// Sends a request on a new connection. Returns the status and the error code of the answer, and the time it took.
async fn send(port: u16, request: Arc<[u8]>) -> (String, Duration) {
    let started = Instant::now();
    let sending = async {
        let mut socket = TcpStream::connect(("127.0.0.1", port)).await?;
        // An early refusal may close the connection after its answer.
        let _ = socket.write_all(&request).await;
        let mut answer = Vec::new();
        let mut piece = [0; 4096];
        while answer.len() < 64 << 10 {
            let count = socket.read(&mut piece).await?;
            answer.extend_from_slice(piece.get(..count).unwrap_or_default());
            let text = String::from_utf8_lossy(&answer);
            if count == 0 || text.contains("\"code\":\"") && text.ends_with('}') {
                break;
            }
        }
        Ok::<_, std::io::Error>(String::from_utf8_lossy(&answer).into_owned())
    };
    let answer = match tokio::time::timeout(TIMEOUT, sending).await {
        Err(_) => "none in time".to_owned(),
        Ok(Err(error)) => error.kind().to_string(),
        Ok(Ok(answer)) => {
            let status = answer.split(' ').nth(1).unwrap_or("closed").to_owned();
            let code = answer.split("\"code\":\"").nth(1).and_then(|rest| rest.split('"').next());
            format!("{status} {}", code.unwrap_or_default())
        }
    };
    (answer, started.elapsed())
}

/// Requests /healthz on a kept connection until `over` is set.
async fn probe(port: u16, over: Arc<AtomicBool>) -> Vec<Duration> {
    let mut times = Vec::new();
    let Ok(mut socket) = TcpStream::connect(("127.0.0.1", port)).await else { return times };
    let _ = socket.set_nodelay(true);
    let mut piece = [0; 4096];
    while !over.load(Ordering::Acquire) {
        let started = Instant::now();
        if socket.write_all(b"GET /healthz HTTP/1.1\r\nhost: gateway\r\n\r\n").await.is_err() {
            break;
        }
        match tokio::time::timeout(TIMEOUT, socket.read(&mut piece)).await {
            Ok(Ok(count)) if count > 0 => times.push(started.elapsed()),
            _ => {
                times.push(TIMEOUT);
                break;
            }
        }
        tokio::time::sleep(PROBE_PAUSE).await;
    }
    times
}

/// An upstream that reads every request and refuses it with a 400, so that the gateway does not retry.
async fn sink() -> std::io::Result<u16> {
    const ANSWER: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: 77\r\n\r\n{\"error\":{\"message\":\"seen\",\"type\":\"invalid_request_error\",\"code\":\"reached_up\"}}";
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    let port = listener.local_addr()?.port();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut piece = vec![0; 256 << 10];
                let (mut head, mut left): (Vec<u8>, Option<usize>) = (Vec::new(), None);
                while let Ok(count) = socket.read(&mut piece).await {
                    if count == 0 {
                        return;
                    }
                    let read = piece.get(..count).unwrap_or_default();
                    if let Some(more) = &mut left {
                        *more = more.saturating_sub(read.len());
                    } else {
                        head.extend_from_slice(read);
                        let text = String::from_utf8_lossy(&head).to_ascii_lowercase();
                        let Some(end) = text.find("\r\n\r\n") else { continue };
                        let length =
                            text.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
                        let length =
                            length.and_then(|length| length.trim().parse::<usize>().ok()).unwrap_or(0);
                        left = Some(length.saturating_sub(head.len() - end - 4));
                    }
                    if left == Some(0) {
                        if socket.write_all(ANSWER).await.is_err() {
                            return;
                        }
                        head.clear();
                        left = None;
                    }
                }
            });
        }
    });
    Ok(port)
}

fn config(
    sink: u16,
    api: &str,
    lines: &str,
    model: &str,
    server: &str,
    dir: &std::path::Path,
) -> impl Fn(u16) -> String {
    let rest = format!(
        r#"data_dir = "{}"
{server}

[routing]
max_attempts = 1
retries = 0

[[providers]]
name = "my-{api}"
api = "{api}"
base_url = "http://127.0.0.1:{sink}"
api_key = "sk-upstream-key-000"
{lines}

[[models]]
id = "my-{api}/{model}"
category = ["chat", "embedding"]

[[keys]]
name = "bench"
key = "{KEY}"
"#,
        dir.display()
    );
    move |port| format!("[server]\nlisten = \"127.0.0.1:{port}\"\n{rest}")
}
