//! A load that does not wait for answers: requests leave at a given rate, each on a connection of its own.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A client gives up after this time.
const PATIENCE: Duration = Duration::from_secs(30);
/// Requests that may wait for an answer at one time; the descriptors of a process are limited.
const MOST_OPEN: usize = 6_000;
/// Requests that leave before the client looks for answers again: its own queue must stay short.
const BATCH: usize = 16;
/// A client that is later than this leaves requests out: they count as not sent.
const LATEST: Duration = Duration::from_millis(50);
/// The pause of a client that is on time.
const PAUSE: Duration = Duration::from_millis(1);
/// The largest answer that is read.
const LARGEST_ANSWER: usize = 1 << 20;

/// The outcome of one request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// 200, whole.
    Good,
    /// 503 with `retry-after`.
    Refused,
    /// Anything else, in words.
    Failed(String),
}

/// The outcomes of the requests of one phase.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Requests that left.
    pub(crate) sent: usize,
    /// Requests that the client was too slow to send.
    pub(crate) unsent: usize,
    /// Good answers before the phase was over.
    pub(crate) good_in_time: usize,
    /// Times of all good answers.
    pub(crate) good: Vec<Duration>,
    /// Times of all refusals.
    pub(crate) refused: Vec<Duration>,
    /// Numbers of all other ends, by their names.
    pub(crate) failed: BTreeMap<String, usize>,
}

impl Tally {
    /// In order, so that [`quantile`] can be asked.
    pub(crate) fn sorted(mut self) -> Self {
        self.good.sort_unstable();
        self.refused.sort_unstable();
        self
    }
}

/// The time below which this share of sorted times lies; zero if there is none.
pub(crate) fn quantile(sorted: &[Duration], share: f64) -> Duration {
    let at = (sorted.len().saturating_sub(1) as f64 * share).round() as usize;
    sorted.get(at).copied().unwrap_or_default()
}

/// A phase of load that runs on a thread of its own.
#[derive(Debug)]
pub(crate) struct Phase {
    thread: std::thread::JoinHandle<Result<Tally, String>>,
}

impl Phase {
    /// Sends `request` to `port` at `rate` per second for `lasting`.
    pub(crate) fn start(port: u16, request: Arc<[u8]>, rate: f64, lasting: Duration) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| error.to_string())?;
        let run = move || runtime.block_on(run(port, request, rate, lasting));
        let thread = std::thread::Builder::new().name("load".to_owned()).spawn(run);
        Ok(Self { thread: thread.map_err(|error| error.to_string())? })
    }

    /// Waits for the last answer, at most as long as a client waits.
    pub(crate) async fn finish(self) -> Result<Tally, String> {
        let joined = tokio::task::spawn_blocking(move || self.thread.join()).await;
        joined.map_err(|error| error.to_string())?.map_err(|_| "the load's thread panicked".to_owned())?
    }
}

async fn run(port: u16, request: Arc<[u8]>, rate: f64, lasting: Duration) -> Result<Tally, String> {
    let tally = Arc::new(Mutex::new(Tally::default()));
    let open = Arc::new(AtomicUsize::new(0));
    let mut clients = tokio::task::JoinSet::new();
    let begun = Instant::now();
    let mut due_before = 0;
    let (mut sent, mut unsent) = (0, 0);
    while begun.elapsed() < lasting {
        let due = (begun.elapsed().as_secs_f64() * rate) as usize;
        let late = (due - due_before).saturating_sub((LATEST.as_secs_f64() * rate) as usize + 1);
        unsent += late;
        due_before += late;
        for _ in 0..BATCH.min(due - due_before) {
            due_before += 1;
            if open.load(Ordering::Relaxed) >= MOST_OPEN {
                unsent += 1;
                continue;
            }
            sent += 1;
            open.fetch_add(1, Ordering::Relaxed);
            let (request, tally, open) = (Arc::clone(&request), Arc::clone(&tally), Arc::clone(&open));
            clients.spawn(async move {
                let asked = Instant::now();
                let outcome = ask(port, &request).await;
                open.fetch_sub(1, Ordering::Relaxed);
                let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                match outcome {
                    Outcome::Good => {
                        tally.good_in_time += usize::from(begun.elapsed() < lasting);
                        tally.good.push(asked.elapsed());
                    }
                    Outcome::Refused => tally.refused.push(asked.elapsed()),
                    Outcome::Failed(name) => *tally.failed.entry(name).or_default() += 1,
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
    let mut tally = std::mem::take(&mut *tally.lock().unwrap_or_else(PoisonError::into_inner));
    (tally.sent, tally.unsent) = (sent, unsent);
    Ok(tally.sorted())
}

/// Sends one request over a connection of its own, all of it before it reads, as most clients do.
pub(crate) async fn ask(port: u16, request: &[u8]) -> Outcome {
    let mut answer = Vec::with_capacity(2 << 10);
    let asked = tokio::time::timeout(PATIENCE, exchange(port, request, &mut answer)).await;
    match asked {
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
        if socket.read_buf(answer).await? == 0 || answer.len() > LARGEST_ANSWER {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
        if crate::load::announced(answer).flatten().is_some_and(|length| answer.len() >= length) {
            return Ok(());
        }
    }
}

fn has_retry_after(answer: &[u8]) -> bool {
    String::from_utf8_lossy(answer).to_ascii_lowercase().contains("\r\nretry-after: ")
}
