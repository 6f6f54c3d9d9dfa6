//! `gw-bench overload`: how the gateway answers when it gets more requests than it can serve.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use crate::contention::{self, OTHER_KEY};
use crate::error::{Error, Result};
use crate::load::Kind;
use crate::open_loop::{Outcome, Outcomes, Phase, quantile, send};
use crate::process::{Process, gateway_config};
use crate::upstream;

/// The first rate of the search for the peak, in requests per second.
const FIRST_RATE: f64 = 100.0;
/// The factor from one rate to the next.
const STEP: f64 = 1.25;
/// A rate is beyond the peak when a smaller share of its requests is answered.
const MIN_ANSWERED: f64 = 0.9;
/// The highest rate of the search.
const MAX_RATE: f64 = 100_000.0;
/// The pause between two requests for `/healthz`.
const PROBE_EVERY: Duration = Duration::from_millis(25);
/// The pause between two requests that test whether the gateway has recovered.
const RECOVERY_TEST_EVERY: Duration = Duration::from_millis(20);
/// This many quick answers in a row count as a recovery.
const IN_A_ROW: usize = 5;
/// The gateway must recover within this time.
const MAX_RECOVERY: Duration = Duration::from_secs(60);
/// The pause between two phases.
const REST: Duration = Duration::from_secs(2);

/// Options of `gw-bench overload`.
#[derive(Args, Debug)]
#[command(
    long_about = "Measures the gateway under more requests than it can serve. Requests leave at a fixed rate whether or not answers come \
(an open loop), each on a new connection, and each client sends its whole body before it reads. The gateway runs with its defaults in its \
own process; upstream and load are threads of this process, all on loopback. First the rate rises until less than nine tenths of the \
requests are answered: the highest number of good answers per second is the peak. Then follow 0.8 times the peak, whose p99 is the reference \
for the recovery, and the given multiples.\n\n\
Columns: requests sent per second (the load has one thread and skips what it cannot send, so this can be less than the multiple), good \
answers per second within the phase and their share of the peak, the cores that the gateway used (load and upstream use the rest) and its \
good answers per second of CPU, times of good answers, number of 503s with retry-after and their times, other outcomes, p99 of /healthz on \
new connections, and the time from the end of the load until five requests in a row are answered as fast as at 0.8 times the peak (p99, at \
least 50 ms).\n\n\
Three more tables follow. Clients that keep their connections and ask again at once: no answer may be lost, whatever their number. The gateway's \
CPU time of an answer (all its threads) shows whether the gateway or the load slows down. \
Clients that come together to an idle gateway. A key that floods the gateway over many connections beside another key with five requests a \
second. To measure one core, pass a script that starts the gateway under `taskset` as the program."
)]
pub(crate) struct OverloadOptions {
    /// Path of the gateway's program.
    #[arg(long, default_value = "target/dist/model-gateway")]
    binary: std::path::PathBuf,
    /// Multiples of the peak to measure.
    #[arg(long, value_delimiter = ',', default_value = "1,2,10")]
    times: Vec<f64>,
    /// Duration of each phase in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Size of a request's body in KiB.
    #[arg(long, default_value_t = 81)]
    body_kib: usize,
    /// Measure only `open-loop` or only `contention`: kept connections, bursts, and a flood beside another key.
    #[arg(long, value_parser = ["open-loop", "contention"])]
    only: Option<String>,
    /// The peak in requests per second. Default: it is measured.
    #[arg(long)]
    peak: Option<f64>,
}

/// Runs all phases and returns a table.
pub(crate) async fn run(options: &OverloadOptions, key: &str) -> Result<String> {
    let dir = tempfile::tempdir()?;
    let upstream = start_upstream_thread()?;
    let gateway = Process::configured(&options.binary, dir.path(), |port| {
        let keys = format!("\n[[keys]]\nname = \"other\"\nkey = \"{OTHER_KEY}\"\nmodels = [\"bench/*\"]\n");
        gateway_config(port, upstream, key, dir.path(), &[Kind::Chat]) + &keys
    })?;
    let request = request(options.body_kib, gateway.port, key);
    let duration = Duration::from_secs(options.seconds.clamp(1, 600));
    // Warms up connections, buffers and code.
    phase(&gateway, &request, FIRST_RATE, Duration::from_secs(1)).await?;
    let contention = match options.only.as_deref() {
        Some("open-loop") => String::new(),
        _ => contention::report(&gateway, key, duration).await?,
    };
    if options.only.as_deref() == Some("contention") {
        return Ok(contention);
    }
    let peak = match options.peak {
        Some(peak) => peak,
        None => find_peak(&gateway, &request, duration.min(Duration::from_secs(3))).await?,
    };
    let mut report = format!(
        "{}: bodies of {} KiB, a new connection each, {} s per phase; peak {peak:.0} good answers/s\n\n\
         | load | sent/s | good/s | % of peak | cores | good per CPU s | p50 / p99 ms | 503s | p50 / p99 ms to a 503 | other outcomes | healthz p99 ms | recovered after ms | RSS MiB |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        name(&options.binary),
        options.body_kib,
        duration.as_secs()
    );
    let reference = measure(&gateway, &request, 0.8, peak, duration, None).await?;
    report.push_str(&reference.row);
    for times in &options.times {
        let measured = measure(&gateway, &request, *times, peak, duration, Some(reference.p99)).await?;
        report.push_str(&measured.row);
    }
    Ok(report + &contention)
}

fn name(binary: &Path) -> String {
    binary.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Starts the upstream on its own thread, so that the load cannot slow it down.
fn start_upstream_thread() -> Result<u16> {
    let (sender, receiver) = std::sync::mpsc::channel();
    let serve = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let _ = sender.send(upstream::start(upstream::EVENTS, Some(upstream::PACE)).await);
            std::future::pending::<()>().await;
        });
    };
    std::thread::Builder::new().name("upstream".to_owned()).spawn(serve)?;
    Ok(receiver.recv().map_err(|_| Error::Thread("upstream"))??)
}

/// A chat request with a body of this size.
fn request(body_kib: usize, port: u16, key: &str) -> Arc<[u8]> {
    let sentence = "A fox and a dog meet in a field and talk. ";
    let prompt = sentence.repeat((body_kib << 10) / sentence.len());
    let body = serde_json::json!({
        "model": "bench/chat", "max_tokens": 256, "messages": [{"role": "user", "content": prompt}]
    });
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\n\
         content-type: application/json\r\nuser-agent: gw-bench\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes().into()
}

async fn phase(gateway: &Process, request: &Arc<[u8]>, rate: f64, duration: Duration) -> Result<Outcomes> {
    let outcomes = Phase::start(gateway.port, Arc::clone(request), rate, duration)?.finish().await;
    tokio::time::sleep(REST).await;
    outcomes
}

/// The highest number of good answers per second while the rate rises until too few requests are answered.
async fn find_peak(gateway: &Process, request: &Arc<[u8]>, duration: Duration) -> Result<f64> {
    let (mut peak, mut rate, mut beyond) = (0.0_f64, FIRST_RATE, 0);
    while beyond < 2 && rate < MAX_RATE {
        let outcomes = phase(gateway, request, rate, duration).await?;
        let good = outcomes.good_in_time as f64 / duration.as_secs_f64();
        peak = peak.max(good);
        beyond = if good < rate * MIN_ANSWERED { beyond + 1 } else { 0 };
        rate *= STEP;
    }
    Ok(peak)
}

/// A row of the table, and the p99 that later rows are compared with.
struct MeasuredPhase {
    row: String,
    p99: Duration,
}

async fn measure(
    gateway: &Process,
    request: &Arc<[u8]>,
    times: f64,
    peak: f64,
    duration: Duration,
    reference: Option<Duration>,
) -> Result<MeasuredPhase> {
    let cpu_before = gateway.cpu();
    let load = Phase::start(gateway.port, Arc::clone(request), peak * times, duration)?;
    let probes = probe(gateway.port, duration).await;
    let cpu = gateway.cpu().saturating_sub(cpu_before).as_secs_f64();
    let recovered = match reference {
        Some(reference) => recovery(gateway.port, request, reference.max(Duration::from_millis(50))).await,
        None => Some(Duration::ZERO),
    };
    let rss = gateway.rss_mib();
    let outcomes = load.finish().await?;
    tokio::time::sleep(REST).await;
    let millis = |sorted: &[Duration], share: f64| quantile(sorted, share).as_secs_f64() * 1e3;
    let seconds = duration.as_secs_f64();
    let good = outcomes.good_in_time as f64 / seconds;
    let mut row = String::new();
    let mut others: Vec<_> = outcomes.failed.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if others.is_empty() {
        others.push("0".to_owned());
    }
    // Writing to a string cannot fail.
    let _ = writeln!(
        row,
        "| {times} × | {:.0} | {good:.0} | {:.0} | {:.1} | {:.0} | {:.1} / {:.1} | {} | {:.1} / {:.1} | {} | {:.1} | {} | {rss:.0} |",
        outcomes.sent as f64 / seconds,
        good / peak * 100.0,
        cpu / seconds,
        outcomes.good_in_time as f64 / cpu.max(0.01),
        millis(&outcomes.good, 0.5),
        millis(&outcomes.good, 0.99),
        outcomes.refused.len(),
        millis(&outcomes.refused, 0.5),
        millis(&outcomes.refused, 0.99),
        others.join(", "),
        millis(&probes, 0.99),
        recovered.map_or("never".to_owned(), |time| format!("{:.0}", time.as_secs_f64() * 1e3)),
    );
    Ok(MeasuredPhase { row, p99: quantile(&outcomes.good, 0.99) })
}

/// Requests `/healthz` while the load runs and returns the sorted times.
async fn probe(port: u16, duration: Duration) -> Vec<Duration> {
    let request = format!("GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
    let started = Instant::now();
    let mut times = Vec::new();
    while started.elapsed() < duration {
        let asked = Instant::now();
        let _ = send(port, request.as_bytes()).await;
        times.push(asked.elapsed());
        tokio::time::sleep(PROBE_EVERY.min(duration.saturating_sub(started.elapsed()))).await;
    }
    times.sort_unstable();
    times
}

/// The time until requests are answered within `reference` again; None when that takes too long.
async fn recovery(port: u16, request: &[u8], reference: Duration) -> Option<Duration> {
    let started = Instant::now();
    let (mut in_a_row, mut since) = (0, Duration::ZERO);
    while started.elapsed() < MAX_RECOVERY {
        let asked = Instant::now();
        let is_good = matches!(send(port, request).await, Outcome::Good) && asked.elapsed() <= reference;
        if !is_good {
            (in_a_row, since) = (0, started.elapsed());
        } else if in_a_row + 1 == IN_A_ROW {
            return Some(since);
        } else {
            in_a_row += 1;
        }
        tokio::time::sleep(RECOVERY_TEST_EVERY).await;
    }
    None
}
