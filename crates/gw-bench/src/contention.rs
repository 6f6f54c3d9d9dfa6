//! The rows of `gw-bench overload` about clients that keep their connections, that come together, and that flood the gateway
//! with one key beside another one.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::error::Result;
use crate::open_loop::quantile;
use crate::process::Process;

/// The key beside a flood.
pub(crate) const OTHER_KEY: &str = "sk-bench-other";
/// The numbers of kept connections. The first one gives a usual load.
const KEPT: [usize; 4] = [32, 256, 1_024, 4_096];
/// The bursts: clients, and KiB of each body.
const BURSTS: [(usize, usize); 2] = [(300, 200), (2_000, 1)];
/// Each burst comes this many times.
const BURST_ROUNDS: usize = 3;
/// The pause between two requests of the other key.
const OTHER_EVERY: Duration = Duration::from_millis(200);
/// The pause between two measurements.
const REST: Duration = Duration::from_millis(1_500);
/// A client gives up after this time.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The answers that clients got.
#[derive(Debug, Default)]
struct Answers {
    good: Vec<Duration>,
    /// Good answers before the end of the load.
    in_time: usize,
    refused: usize,
    failed: usize,
    /// The status line or the error of the first failure.
    failure: Option<String>,
}

type Shared = Arc<Mutex<Answers>>;

fn taken(answers: &Shared) -> Answers {
    let mut taken = std::mem::take(&mut *answers.lock().unwrap_or_else(PoisonError::into_inner));
    taken.good.sort_unstable();
    taken
}

/// The text of the three tables.
pub(crate) async fn report(gateway: &Process, key: &str, duration: Duration) -> Result<String> {
    let (port, mut report) = (gateway.port, String::new());
    kept(gateway, key, duration, &mut report).await?;
    bursts(port, key, &mut report).await?;
    floods(port, key, duration, &mut report).await?;
    Ok(report)
}

async fn kept(gateway: &Process, key: &str, duration: Duration, report: &mut String) -> Result<()> {
    let port = gateway.port;
    let request = request(port, key, &chat("bench/chat", 1));
    let mut measured = Vec::new();
    for connections in KEPT {
        let answers = Shared::default();
        let load = Load::start(port, &request, connections, &answers).await?;
        // The time to open the connections does not count, except in the times of answers.
        let good_so_far = || answers.lock().unwrap_or_else(PoisonError::into_inner).in_time;
        let (good_before, cpu_before) = (good_so_far(), gateway.cpu());
        tokio::time::sleep(duration).await;
        let (good, cpu) = (good_so_far() - good_before, gateway.cpu().saturating_sub(cpu_before));
        load.end().await;
        measured.push((connections, good as f64, cpu, taken(&answers)));
        tokio::time::sleep(REST).await;
    }
    let peak = measured.iter().map(|(_, good, ..)| *good).fold(1.0, f64::max);
    report.push_str("\n| kept connections | good/s | % of peak | gateway: CPU µs an answer | p50 / p99 ms | 503s | other failures |\n|---|---|---|---|---|---|---|\n");
    for (connections, good, cpu, answers) in measured {
        // Writing to a string cannot fail.
        let _ = writeln!(
            report,
            "| {connections} | {:.0} | {:.0} | {:.1} | {} | {} | {} |",
            good / duration.as_secs_f64(),
            good / peak * 100.0,
            cpu.as_secs_f64() * 1e6 / good.max(1.0),
            times(&answers.good),
            answers.refused,
            failures(&answers),
        );
    }
    Ok(())
}

async fn bursts(port: u16, key: &str, report: &mut String) -> Result<()> {
    report.push_str("\n| burst | good | p50 / p99 ms | 503s | other failures |\n|---|---|---|---|---|\n");
    for (clients, kib) in BURSTS {
        let request = request(port, key, &chat("bench/chat", kib));
        let answers = Shared::default();
        for _ in 0..BURST_ROUNDS {
            let start = Arc::new(tokio::sync::Barrier::new(clients));
            let mut running = JoinSet::new();
            for _ in 0..clients {
                let (start, request, answers) =
                    (Arc::clone(&start), Arc::clone(&request), Arc::clone(&answers));
                running.spawn(async move {
                    start.wait().await;
                    let mut client = Client::default();
                    client.ask(port, &request, &answers, true).await;
                });
            }
            running.join_all().await;
            tokio::time::sleep(REST).await;
        }
        let answers = taken(&answers);
        let _ = writeln!(
            report,
            "| {BURST_ROUNDS} × {clients} × {kib} KiB | {} | {} | {} | {} |",
            answers.good.len(),
            times(&answers.good),
            answers.refused,
            failures(&answers)
        );
    }
    Ok(())
}

async fn floods(port: u16, key: &str, duration: Duration, report: &mut String) -> Result<()> {
    report.push_str(
        "\n| flood of one key | answered of the other key | p50 / p99 ms | its other outcomes | flood: good/s | 503s | other failures |\n|---|---|---|---|---|---|---|\n",
    );
    let kinds = [
        ("none", 0, chat("bench/chat", 1)),
        ("512, 1 KiB", 512, chat("bench/chat", 1)),
        ("2,000, 1 KiB", 2_000, chat("bench/chat", 1)),
        ("512, 15 KB", 512, chat("bench/chat", 15)),
        ("512, unknown model", 512, chat("bench/none", 1)),
        ("512, translation of 15 KB", 512, many_messages("bench-claude/chat", 300)),
    ];
    let other = request(port, OTHER_KEY, &chat("bench/chat", 1));
    for (name, connections, body) in kinds {
        let (answers, others) = (Shared::default(), Shared::default());
        let load = Load::start(port, &request(port, key, &body), connections, &answers).await?;
        let started = Instant::now();
        let mut client = Client::default();
        let mut asked = 0;
        while started.elapsed() < duration {
            client.ask(port, &other, &others, true).await;
            asked += 1;
            tokio::time::sleep((OTHER_EVERY * asked).saturating_sub(started.elapsed())).await;
        }
        load.end().await;
        let (answers, others) = (taken(&answers), taken(&others));
        let _ = writeln!(
            report,
            "| {name} | {} of {asked} | {} | {} 503s, {} | {:.0} | {} | {} |",
            others.good.len(),
            times(&others.good),
            others.refused,
            failures(&others),
            answers.in_time as f64 / started.elapsed().as_secs_f64(),
            answers.refused,
            failures(&answers)
        );
        tokio::time::sleep(REST).await;
    }
    Ok(())
}

fn times(sorted: &[Duration]) -> String {
    let millis = |share| quantile(sorted, share).as_secs_f64() * 1e3;
    format!("{:.1} / {:.1}", millis(0.5), millis(0.99))
}

fn failures(answers: &Answers) -> String {
    answers.failure.as_ref().map_or("0".to_owned(), |first| format!("{}: {first}", answers.failed))
}

/// Clients that ask again as soon as they have an answer.
struct Load {
    is_over: Arc<AtomicBool>,
    clients: JoinSet<()>,
}

impl Load {
    async fn start(port: u16, request: &Arc<[u8]>, connections: usize, answers: &Shared) -> Result<Self> {
        let is_over = Arc::new(AtomicBool::new(false));
        let mut clients = JoinSet::new();
        for _ in 0..connections {
            let mut client = Client { socket: Some(connect(port).await?), ..Client::default() };
            let (request, answers, is_over) =
                (Arc::clone(request), Arc::clone(answers), Arc::clone(&is_over));
            clients.spawn(async move {
                while !is_over.load(Ordering::Relaxed) {
                    client.ask(port, &request, &answers, !is_over.load(Ordering::Relaxed)).await;
                }
            });
        }
        Ok(Self { is_over, clients })
    }

    async fn end(self) {
        self.is_over.store(true, Ordering::Relaxed);
        self.clients.join_all().await;
    }
}

/// A client that keeps its connection while the gateway does.
#[derive(Default)]
struct Client {
    socket: Option<TcpStream>,
    answer: Vec<u8>,
}

impl Client {
    async fn ask(&mut self, port: u16, request: &[u8], answers: &Shared, is_in_time: bool) {
        let asked = Instant::now();
        let outcome = tokio::time::timeout(TIMEOUT, self.exchange(port, request)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let mut answers = answers.lock().unwrap_or_else(PoisonError::into_inner);
        match outcome {
            Ok(()) if self.answer.starts_with(b"HTTP/1.1 200") => {
                answers.good.push(asked.elapsed());
                answers.in_time += usize::from(is_in_time);
            }
            Ok(()) if self.answer.starts_with(b"HTTP/1.1 503") => answers.refused += 1,
            Ok(()) => {
                let line = self.answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
                answers.failed += 1;
                answers.failure.get_or_insert_with(|| String::from_utf8_lossy(line).into_owned());
            }
            Err(error) => {
                self.socket = None;
                answers.failed += 1;
                answers.failure.get_or_insert_with(|| format!("{:?}", error.kind()));
            }
        }
    }

    async fn exchange(&mut self, port: u16, request: &[u8]) -> std::io::Result<()> {
        self.answer.clear();
        let mut socket = match self.socket.take() {
            Some(socket) => socket,
            None => connect(port).await?,
        };
        socket.write_all(request).await?;
        loop {
            if socket.read_buf(&mut self.answer).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
            match crate::load::answer_length(&self.answer) {
                Some(Some(length)) if self.answer.len() >= length => break,
                // The last event of a stream arrives alone.
                Some(None) if self.answer.ends_with(b"\r\n0\r\n\r\n") => break,
                _ => {}
            }
        }
        let head = String::from_utf8_lossy(&self.answer).to_ascii_lowercase();
        if !head.contains("\r\nconnection: close") {
            self.socket = Some(socket);
        }
        Ok(())
    }
}

async fn connect(port: u16) -> std::io::Result<TcpStream> {
    let socket = TcpStream::connect(("127.0.0.1", port)).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// A chat whose prompt has this many KiB.
fn chat(model: &str, kib: usize) -> String {
    let sentence = "A fox and a dog meet in a field and talk. ";
    let prompt = sentence.repeat((kib << 10) / sentence.len());
    serde_json::json!({"model": model, "max_tokens": 256, "messages": [{"role": "user", "content": prompt}]})
        .to_string()
}

/// A streamed chat of this many messages, which are read and written one by one.
fn many_messages(model: &str, count: usize) -> String {
    let message = |at: usize| {
        let role = if at.is_multiple_of(2) { "user" } else { "assistant" };
        serde_json::json!({"role": role, "content": "A fox meets a dog."})
    };
    let messages: Vec<_> = (0..=count / 2 * 2).map(message).collect();
    serde_json::json!({"model": model, "stream": true, "max_tokens": 256, "messages": messages}).to_string()
}

fn request(port: u16, key: &str, body: &str) -> Arc<[u8]> {
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\nuser-agent: gw-bench\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + body).into_bytes().into()
}
