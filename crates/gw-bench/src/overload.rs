//! `gw-bench overload`: what is left of the gateway's answers when more is asked than it can do.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Args;

use crate::open_loop::{Outcome, Phase, Tally, ask, quantile};
use crate::process::Process;
use crate::upstream;

/// The first rate that is tried on the way to the peak, per second.
const FIRST_RATE: f64 = 100.0;
/// From one rate to the next.
const STEP: f64 = 1.25;
/// A rate of which less than this share is answered is beyond the peak.
const KEPT: f64 = 0.9;
/// No rate above it is tried.
const HIGHEST_RATE: f64 = 100_000.0;
/// Between two questions for `/healthz`.
const PROBE_EVERY: Duration = Duration::from_millis(25);
/// Between two requests that look whether the gateway has recovered.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// So many quick answers in a row are a recovery.
const IN_A_ROW: usize = 5;
/// A gateway that has not recovered by then has not recovered.
const LONGEST_RECOVERY: Duration = Duration::from_secs(60);
/// Between two phases.
const REST: Duration = Duration::from_secs(2);

/// How much is asked.
#[derive(Args, Debug)]
#[command(
    long_about = "Requests leave at a fixed rate whether or not answers come (an open loop), each on a new connection, and each \
client sends its whole body before it reads. The gateway runs with its defaults, in a process of its own; upstream and load are threads \
of this one, all on loopback. First the rate rises until less than nine tenths of it are answered: the most good answers per second \
are the peak. Then come 0.8 times the peak (its p99 is what later ones are compared with) and the multiples that are asked for.\n\n\
Columns: sent (the load has one thread; what it could not send is left out, so 'sent' can be less than the multiple), good answers per \
second within the phase and their share of the peak, the cores that the gateway used (load and upstream take the rest) and its good answers per \
second of CPU, times of good answers, number of 503s with retry-after and the times until they came, \
other ends, p99 of /healthz on new connections, and the time from the end of the load until five requests in a row are answered as fast as \
at 0.8 times the peak (p99, at least 50 ms)."
)]
pub(crate) struct OverloadOptions {
    /// The gateway's program.
    #[arg(long, default_value = "target/dist/model-gateway")]
    binary: std::path::PathBuf,
    /// Multiples of the peak.
    #[arg(long, value_delimiter = ',', default_value = "1,2,10")]
    times: Vec<f64>,
    /// Length of each phase, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Size of a request's body, in KiB.
    #[arg(long, default_value_t = 81)]
    body_kib: usize,
    /// The peak in requests per second, if it is known; else it is looked for.
    #[arg(long)]
    peak: Option<f64>,
}

/// Runs all phases; gives a table.
pub(crate) async fn run(options: &OverloadOptions, key: &str) -> Result<String, String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let upstream = own_thread_upstream()?;
    let gateway = Process::gateway(&options.binary, dir.path(), upstream, key)?;
    let request = request(options.body_kib, gateway.port, key);
    let lasting = Duration::from_secs(options.seconds.clamp(1, 600));
    // Warm: connections to the upstream, buffers, the code itself.
    phase(&gateway, &request, FIRST_RATE, Duration::from_secs(1)).await?;
    let peak = match options.peak {
        Some(peak) => peak,
        None => find_peak(&gateway, &request, lasting.min(Duration::from_secs(3))).await?,
    };
    let mut report = format!(
        "{}: bodies of {} KiB, a new connection each, {} s a phase; peak {peak:.0} good answers/s\n\n\
         | load | sent/s | good/s | % of peak | cores | good per CPU s | p50 / p99 ms | 503s | p50 / p99 ms to a 503 | other ends | healthz p99 ms | recovered after ms | RSS MiB |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        name(&options.binary),
        options.body_kib,
        lasting.as_secs()
    );
    let usual = measure(&gateway, &request, 0.8, peak, lasting, None).await?;
    report.push_str(&usual.row);
    for times in &options.times {
        report.push_str(&measure(&gateway, &request, *times, peak, lasting, Some(usual.p99)).await?.row);
    }
    Ok(report)
}

fn name(binary: &Path) -> String {
    binary.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// The upstream has a thread of its own, so that the load cannot keep it waiting.
fn own_thread_upstream() -> Result<u16, String> {
    let (tell, told) = std::sync::mpsc::channel();
    let serve = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            let _ = tell.send(upstream::start().await.map_err(|error| error.to_string()));
            std::future::pending::<()>().await;
        });
    };
    std::thread::Builder::new()
        .name("upstream".to_owned())
        .spawn(serve)
        .map_err(|error| error.to_string())?;
    told.recv().map_err(|error| error.to_string())?
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

async fn phase(
    gateway: &Process,
    request: &Arc<[u8]>,
    rate: f64,
    lasting: Duration,
) -> Result<Tally, String> {
    let tally = Phase::start(gateway.port, Arc::clone(request), rate, lasting)?.finish().await;
    tokio::time::sleep(REST).await;
    tally
}

/// The most good answers per second, over rates that rise until too little is answered.
async fn find_peak(gateway: &Process, request: &Arc<[u8]>, lasting: Duration) -> Result<f64, String> {
    let (mut peak, mut rate, mut beyond) = (0.0_f64, FIRST_RATE, 0);
    while beyond < 2 && rate < HIGHEST_RATE {
        let tally = phase(gateway, request, rate, lasting).await?;
        let good = tally.good_in_time as f64 / lasting.as_secs_f64();
        peak = peak.max(good);
        beyond = if good < rate * KEPT { beyond + 1 } else { 0 };
        rate *= STEP;
    }
    Ok(peak)
}

/// A row of the table, and what the rows after it are compared with.
struct Measured {
    row: String,
    p99: Duration,
}

async fn measure(
    gateway: &Process,
    request: &Arc<[u8]>,
    times: f64,
    peak: f64,
    lasting: Duration,
    usual: Option<Duration>,
) -> Result<Measured, String> {
    let cpu_before = gateway.cpu();
    let load = Phase::start(gateway.port, Arc::clone(request), peak * times, lasting)?;
    let probes = probe(gateway.port, lasting).await;
    let cpu = gateway.cpu().saturating_sub(cpu_before).as_secs_f64();
    let recovered = match usual {
        Some(usual) => recovery(gateway.port, request, usual.max(Duration::from_millis(50))).await,
        None => Some(Duration::ZERO),
    };
    let rss = gateway.rss_mib();
    let tally = load.finish().await?;
    tokio::time::sleep(REST).await;
    let millis = |sorted: &[Duration], share: f64| quantile(sorted, share).as_secs_f64() * 1e3;
    let seconds = lasting.as_secs_f64();
    let good = tally.good_in_time as f64 / seconds;
    let mut row = String::new();
    let mut others: Vec<_> = tally.failed.iter().map(|(name, count)| format!("{count} {name}")).collect();
    if others.is_empty() {
        others.push("0".to_owned());
    }
    // Writing to a string cannot fail.
    let _ = writeln!(
        row,
        "| {times} × | {:.0} | {good:.0} | {:.0} | {:.1} | {:.0} | {:.1} / {:.1} | {} | {:.1} / {:.1} | {} | {:.1} | {} | {rss:.0} |",
        tally.sent as f64 / seconds,
        good / peak * 100.0,
        cpu / seconds,
        tally.good_in_time as f64 / cpu.max(0.01),
        millis(&tally.good, 0.5),
        millis(&tally.good, 0.99),
        tally.refused.len(),
        millis(&tally.refused, 0.5),
        millis(&tally.refused, 0.99),
        others.join(", "),
        millis(&probes, 0.99),
        recovered.map_or("never".to_owned(), |time| format!("{:.0}", time.as_secs_f64() * 1e3)),
    );
    Ok(Measured { row, p99: quantile(&tally.good, 0.99) })
}

/// Asks `/healthz` while the load runs; gives the sorted times.
async fn probe(port: u16, lasting: Duration) -> Vec<Duration> {
    let request = format!("GET /healthz HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n\r\n");
    let begun = Instant::now();
    let mut times = Vec::new();
    while begun.elapsed() < lasting {
        let asked = Instant::now();
        let _ = ask(port, request.as_bytes()).await;
        times.push(asked.elapsed());
        tokio::time::sleep(PROBE_EVERY.min(lasting.saturating_sub(begun.elapsed()))).await;
    }
    times.sort_unstable();
    times
}

/// The time until requests are answered as fast as usual again.
async fn recovery(port: u16, request: &[u8], usual: Duration) -> Option<Duration> {
    let begun = Instant::now();
    let (mut in_a_row, mut since) = (0, Duration::ZERO);
    while begun.elapsed() < LONGEST_RECOVERY {
        let asked = Instant::now();
        let good = matches!(ask(port, request).await, Outcome::Good) && asked.elapsed() <= usual;
        if !good {
            (in_a_row, since) = (0, begun.elapsed());
        } else if in_a_row + 1 == IN_A_ROW {
            return Some(since);
        } else {
            in_a_row += 1;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    None
}
