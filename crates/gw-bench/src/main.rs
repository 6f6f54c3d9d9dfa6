//! `./bench`: the gateway against nginx as a plain reverse proxy, in one run, on one canned upstream.
//!
//! Reported per request (and per streamed event): CPU time from the scheduler's account, added latency against the
//! upstream without a proxy, memory; each as a ratio to nginx. Rounds alternate, so that a noisy machine hits both.
//! `./bench ledger` measures the store alone, `./bench route` a routing decision, `./bench worst` the most expensive bodies,
//! `./bench overload` more load than the gateway can serve.

mod ledger;
mod load;
mod open_loop;
mod overload;
mod process;
mod route;
mod upstream;
mod worst;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::load::{Kind, Measured};
use crate::process::Process;

/// Benchmark of the gateway against nginx.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    other: Option<Other>,
    /// The gateway's program.
    #[arg(long, default_value = "target/dist/model-gateway")]
    binary: PathBuf,
    /// Concurrent connections to measure at.
    #[arg(long, value_delimiter = ',', default_value = "1,32,256")]
    connections: Vec<usize>,
    /// Only this kind of request: chat, cached, missed, stream, anthropic or embeddings.
    #[arg(long)]
    only: Option<String>,
    /// Alternating rounds per figure.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Share of the usual number of requests.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
}

/// What is measured without nginx.
#[derive(Debug, Subcommand)]
enum Other {
    /// The ledger: rows a second, and answers over many rows.
    Ledger(ledger::LedgerOptions),
    /// A routing decision: time and memory.
    Route(route::RouteOptions),
    /// More requests than the gateway can serve: good answers, refusals, recovery.
    Overload(overload::OverloadOptions),
    /// The most expensive bodies that a client can send.
    Worst(worst::WorstOptions),
}

const KEY: &str = "sk-bench-key";

/// Sums of one subject over the rounds.
#[derive(Default)]
struct Sum {
    cpu: Duration,
    p50: Duration,
    p99: Duration,
    requests: usize,
    rss_mib: f64,
}

fn main() -> ExitCode {
    let options = Options::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&error.to_string()),
    };
    let measured = runtime.block_on(async {
        match &options.other {
            Some(Other::Ledger(options)) => ledger::run(options).await,
            Some(Other::Route(options)) => Ok(route::run(options)),
            Some(Other::Overload(options)) => overload::run(options, KEY).await,
            Some(Other::Worst(options)) => worst::run(options).await,
            None => bench(&options).await,
        }
    });
    match measured {
        Ok(report) => {
            print(&report);
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

#[expect(clippy::print_stdout, reason = "the report is what this program is for")]
fn print(report: &str) {
    println!("{report}");
}

#[expect(clippy::print_stderr, reason = "the program's own failure")]
fn failed(error: &str) -> ExitCode {
    eprintln!("gw-bench: {error}");
    ExitCode::FAILURE
}

async fn bench(options: &Options) -> Result<String, String> {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let upstream = upstream::start().await.map_err(|error| error.to_string())?;
    let nginx = Process::nginx(dir.path(), upstream)?;
    let gateway = Process::gateway(&options.binary, dir.path(), upstream, KEY)?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut report = format!(
        "gateway: ready {:.0} ms after exec, idle RSS {:.1} MiB; nginx: idle RSS {:.1} MiB\n\n",
        gateway.ready_after.as_secs_f64() * 1e3,
        gateway.rss_mib(),
        nginx.rss_mib()
    );
    report.push_str("| kind | connections | CPU µs nginx | CPU µs gateway | ratio | added p50 µs nginx / gateway | added p99 µs nginx / gateway | RSS MiB nginx / gateway |\n|---|---|---|---|---|---|---|---|\n");
    for kind in Kind::ALL {
        if options.only.as_deref().is_some_and(|only| only != kind.name()) {
            continue;
        }
        for connections in &options.connections {
            report.push_str(&row(options, kind, *connections, upstream, &nginx, &gateway).await?);
        }
    }
    Ok(report)
}

async fn row(
    options: &Options,
    kind: Kind,
    connections: usize,
    upstream: u16,
    nginx: &Process,
    gateway: &Process,
) -> Result<String, String> {
    let total = requests(kind, connections, options.scale);
    let mut direct = Sum::default();
    let mut sums = [Sum::default(), Sum::default()];
    for process in [nginx, gateway] {
        load::run(kind, process.port, KEY, connections, (total / 5).max(connections)).await?;
    }
    for _ in 0..options.rounds {
        add(&mut direct, &load::run(kind, upstream, KEY, connections, total).await?, total);
        for (process, sum) in [nginx, gateway].into_iter().zip(&mut sums) {
            let before = process.cpu();
            let measured = load::run(kind, process.port, KEY, connections, total).await?;
            sum.cpu += process.cpu().saturating_sub(before);
            sum.rss_mib = sum.rss_mib.max(process.rss_mib());
            add(sum, &measured, total);
        }
    }
    let per = if kind.streams() { upstream::EVENTS + 3 } else { 1 };
    let [nginx, gateway] = &sums;
    let cpu = |sum: &Sum| sum.cpu.as_secs_f64() * 1e6 / (sum.requests * per) as f64;
    let added = |sum: &Sum, pick: fn(&Sum) -> Duration| {
        (pick(sum).as_secs_f64() - pick(&direct).as_secs_f64()) * 1e6 / options.rounds as f64
    };
    let name = match kind {
        Kind::Stream => "stream (per event)",
        Kind::Translated => "anthropic stream (per event)",
        Kind::Chat | Kind::Cached | Kind::Missed | Kind::Embeddings => kind.name(),
    };
    Ok(format!(
        "| {name} | {connections} | {:.1} | {:.1} | {:.2} | {:.0} / {:.0} | {:.0} / {:.0} | {:.1} / {:.1} |\n",
        cpu(nginx),
        cpu(gateway),
        cpu(gateway) / cpu(nginx),
        added(nginx, |sum| sum.p50),
        added(gateway, |sum| sum.p50),
        added(nginx, |sum| sum.p99),
        added(gateway, |sum| sum.p99),
        nginx.rss_mib,
        gateway.rss_mib,
    ))
}

fn add(sum: &mut Sum, measured: &Measured, total: usize) {
    sum.p50 += measured.quantile(0.50);
    sum.p99 += measured.quantile(0.99);
    sum.requests += total;
}

/// Enough requests for some seconds of work in all.
fn requests(kind: Kind, connections: usize, scale: f64) -> usize {
    let base = match (kind, connections) {
        (Kind::Stream | Kind::Translated, 1) => 4.0,
        (Kind::Stream | Kind::Translated, many) => many as f64 * 4.0,
        (Kind::Embeddings, 1) => 2_000.0,
        (Kind::Embeddings, _) => 6_000.0,
        (Kind::Chat | Kind::Cached | Kind::Missed, 1) => 4_000.0,
        (Kind::Chat | Kind::Cached | Kind::Missed, _) => 20_000.0,
    };
    ((base * scale) as usize).max(connections)
}
