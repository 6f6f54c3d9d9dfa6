//! The open-loop load: requests leave at a given rate without waiting for answers, each on its own connection.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::{Error, Result};

/// A client gives up after this time.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of requests in flight, because the process has a limited number of file descriptors.
const MAX_IN_FLIGHT: usize = 6_000;
/// Requests sent before the client polls for answers again, so that its own queue stays short.
const BATCH: usize = 16;
/// A client that is late by more than this skips requests; they count as unsent.
const MAX_DELAY: Duration = Duration::from_millis(50);
/// The pause of a client that is on time.
const PAUSE: Duration = Duration::from_millis(1);
/// Maximum size of an answer.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The outcome of one request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// A complete 200.
    Good,
    /// A 503 with `retry-after`.
    Refused,
    /// Anything else, with its description.
    Failed(String),
}

/// The outcomes of the requests of one phase.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    /// Number of requests sent.
    pub(crate) sent: usize,
    /// Number of requests that the client was too slow to send.
    pub(crate) unsent: usize,
    /// Number of good answers before the end of the phase.
    pub(crate) good_in_time: usize,
    /// Times of all good answers.
    pub(crate) good: Vec<Duration>,
    /// Times of all refusals.
    pub(crate) refused: Vec<Duration>,
    /// Numbers of all other outcomes, by description.
    pub(crate) failed: BTreeMap<String, usize>,
}

impl Outcomes {
    /// Sorts the times, as [`quantile`] requires.
    pub(crate) fn sorted(mut self) -> Self {
        self.good.sort_unstable();
        self.refused.sort_unstable();
        self
    }
}

/// The time that this share of sorted times does not exceed; zero without times.
pub(crate) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

/// A phase of load that runs on its own thread.
#[derive(Debug)]
pub(crate) struct Phase {
    thread: std::thread::JoinHandle<Outcomes>,
}

impl Phase {
    /// Sends `request` to `port` at `rate` per second for this duration.
    pub(crate) fn start(port: u16, request: Arc<[u8]>, rate: f64, duration: Duration) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let run = move || runtime.block_on(run(port, request, rate, duration));
        let thread = std::thread::Builder::new().name("load".to_owned()).spawn(run)?;
        Ok(Self { thread })
    }

    /// Waits for the last answer, at most for a client's timeout.
    pub(crate) async fn finish(self) -> Result<Outcomes> {
        let joined = tokio::task::spawn_blocking(move || self.thread.join()).await?;
        joined.map_err(|_| Error::Thread("load"))
    }
}

async fn run(port: u16, request: Arc<[u8]>, rate: f64, duration: Duration) -> Outcomes {
    let outcomes = Arc::new(Mutex::new(Outcomes::default()));
    let in_flight = Arc::new(AtomicUsize::new(0));
    let mut clients = tokio::task::JoinSet::new();
    let started = Instant::now();
    let mut due_before = 0;
    let (mut sent, mut unsent) = (0, 0);
    while started.elapsed() < duration {
        let due = (started.elapsed().as_secs_f64() * rate) as usize;
        let late = (due - due_before).saturating_sub((MAX_DELAY.as_secs_f64() * rate) as usize + 1);
        unsent += late;
        due_before += late;
        for _ in 0..BATCH.min(due - due_before) {
            due_before += 1;
            if in_flight.load(Ordering::Relaxed) >= MAX_IN_FLIGHT {
                unsent += 1;
                continue;
            }
            sent += 1;
            in_flight.fetch_add(1, Ordering::Relaxed);
            let (request, outcomes, in_flight) =
                (Arc::clone(&request), Arc::clone(&outcomes), Arc::clone(&in_flight));
            clients.spawn(async move {
                let asked = Instant::now();
                let outcome = send(port, &request).await;
                in_flight.fetch_sub(1, Ordering::Relaxed);
                let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                match outcome {
                    Outcome::Good => {
                        outcomes.good_in_time += usize::from(started.elapsed() < duration);
                        outcomes.good.push(asked.elapsed());
                    }
                    Outcome::Refused => outcomes.refused.push(asked.elapsed()),
                    Outcome::Failed(name) => *outcomes.failed.entry(name).or_default() += 1,
                }
            });
        }
        while clients.try_join_next().is_some() {}
        if due_before == due {
            tokio::time::sleep(PAUSE).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
    clients.join_all().await;
    let mut outcomes = std::mem::take(&mut *outcomes.lock().unwrap_or_else(PoisonError::into_inner));
    (outcomes.sent, outcomes.unsent) = (sent, unsent);
    outcomes.sorted()
}

/// Sends one request on a new connection and writes all of it before reading, as most clients do.
pub(crate) async fn send(port: u16, request: &[u8]) -> Outcome {
    let mut answer = Vec::with_capacity(2 << 10);
    let sent = tokio::time::timeout(TIMEOUT, exchange(port, request, &mut answer)).await;
    match sent {
        Err(_) => Outcome::Failed("no answer in 30 s".to_owned()),
        Ok(Err(error)) => Outcome::Failed(format!("{:?}", error.kind())),
        Ok(Ok(())) if answer.starts_with(b"HTTP/1.1 200") => Outcome::Good,
        Ok(Ok(())) if answer.starts_with(b"HTTP/1.1 503") && has_retry_after(&answer) => Outcome::Refused,
        Ok(Ok(())) => {
            let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
            Outcome::Failed(String::from_utf8_lossy(line).into_owned())
        }
    }
}

async fn exchange(port: u16, request: &[u8], answer: &mut Vec<u8>) -> std::io::Result<()> {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).await?;
    socket.set_nodelay(true)?;
    socket.write_all(request).await?;
    loop {
        if socket.read_buf(answer).await? == 0 || answer.len() > MAX_ANSWER_BYTES {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if crate::load::answer_length(answer).flatten().is_some_and(|length| answer.len() >= length) {
            return Ok(());
        }
    }
}

fn has_retry_after(answer: &[u8]) -> bool {
    String::from_utf8_lossy(answer).to_ascii_lowercase().contains("\r\nretry-after: ")
}
