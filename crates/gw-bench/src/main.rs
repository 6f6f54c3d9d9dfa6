//! `./bench`: measures the gateway against nginx as a plain reverse proxy, in one run, with one canned upstream.
//!
//! It reports per request (and per streamed event) the CPU time from the scheduler's accounting, the latency added to
//! that of the upstream without a proxy, and memory, each with the ratio to nginx. Rounds alternate between the two, so
//! that a noisy machine affects both. `./bench ledger` measures the store alone, `./bench pages` the calls of the console with a
//! large store, `./bench route` a routing decision,
//! `./bench encoders` a streamed event in each dialect of clients,
//! `./bench worst` the most expensive bodies, `./bench overload` more load than the gateway can serve. `gw-bench train` serves the
//! requests of which `deploy/build-dist` makes a profile.

mod budgets;
mod callgrind;
mod contention;
mod encoders;
mod error;
mod instructions;
mod ledger;
mod load;
mod open_loop;
mod overload;
mod overview;
mod pages;
mod process;
mod route;
mod system_calls;
mod train;
mod unused_features;
mod upstream;
mod worst;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};

use crate::error::{Error, Result};
use crate::load::{Kind, Latencies};
use crate::process::Process;

/// Benchmarks the gateway against nginx.
#[derive(Debug, Parser)]
struct Options {
    #[command(subcommand)]
    benchmark: Option<Benchmark>,
    /// Path of the gateway's program.
    #[arg(long, default_value = "target/dist/model-gateway")]
    binary: PathBuf,
    /// Numbers of concurrent connections to measure with.
    #[arg(long, value_delimiter = ',', default_value = "1,32,256")]
    connections: Vec<usize>,
    /// Measure only this kind of request: chat, cached, missed, stream, anthropic or embeddings.
    #[arg(long)]
    only: Option<String>,
    /// Number of alternating rounds per figure.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Leave out the counts of instructions, allocations and system calls, which need valgrind and strace.
    #[arg(long)]
    no_counts: bool,
    /// Factor for the number of requests.
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
}

/// Benchmarks without nginx.
#[derive(Debug, Subcommand)]
enum Benchmark {
    /// Measures the ledger: rows per second, and queries over many rows
    Ledger(ledger::LedgerOptions),
    /// Measures what the pages of the console wait for with a large store: every call that a page makes
    Pages(pages::PageOptions),
    /// Measures a routing decision: time and memory
    Route(route::RouteOptions),
    /// Measures a streamed event in each dialect of clients: time and memory, as a ratio to a chat's event
    Encoders(encoders::EncoderOptions),
    /// Measures the gateway under more requests than it can serve: answers, refusals, recovery
    Overload(overload::OverloadOptions),
    /// Measures the most expensive bodies that a client can send
    Worst(worst::WorstOptions),
    /// Counts the instructions of a request under valgrind
    Instructions(instructions::InstructionOptions),
    /// Serves requests of each kind and ends the gateway in order, so that an instrumented program writes its profile
    Train,
}

const KEY: &str = "sk-bench-key";

/// Sums over the rounds, for the gateway, nginx or the upstream.
#[derive(Default)]
struct Sums {
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
        Err(error) => return failed(&error.into()),
    };
    let report = runtime.block_on(async {
        match &options.benchmark {
            Some(Benchmark::Ledger(options)) => ledger::run(options).await,
            Some(Benchmark::Pages(options)) => pages::run(options, KEY).await,
            Some(Benchmark::Route(options)) => Ok(route::run(options)),
            Some(Benchmark::Encoders(options)) => encoders::run(options),
            Some(Benchmark::Overload(options)) => overload::run(options, KEY).await,
            Some(Benchmark::Worst(options)) => worst::run(options).await,
            Some(Benchmark::Instructions(counted)) => instructions::run(counted, &options.binary, KEY).await,
            Some(Benchmark::Train) => train::run(&options.binary, KEY).await,
            None => compare_with_nginx(&options).await,
        }
    });
    match report {
        Ok(report) => {
            print(&report);
            ExitCode::SUCCESS
        }
        Err(error) => failed(&error),
    }
}

#[expect(clippy::print_stdout, reason = "the program prints its report")]
fn print(report: &str) {
    println!("{report}");
}

#[expect(clippy::print_stderr, reason = "the program reports its own failure")]
fn failed(error: &Error) -> ExitCode {
    eprintln!("gw-bench: {error}");
    ExitCode::FAILURE
}

async fn compare_with_nginx(options: &Options) -> Result<String> {
    let dir = tempfile::tempdir()?;
    let upstream = upstream::start(upstream::EVENTS, Some(upstream::PACE)).await?;
    let nginx = Process::nginx(dir.path(), upstream)?;
    let is_asked = |kind: &Kind| options.only.as_deref().is_none_or(|only| only == kind.name());
    let kinds: Vec<_> = Kind::proxied().filter(is_asked).collect();
    let gateway = Process::gateway(&options.binary, dir.path(), upstream, KEY, &kinds)?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut report = format!(
        "gateway: ready {:.0} ms after its start, idle RSS {:.1} MiB; nginx: idle RSS {:.1} MiB\n\n",
        gateway.ready_after.as_secs_f64() * 1e3,
        gateway.rss_mib(),
        nginx.rss_mib()
    );
    let mut compared = Vec::new();
    report.push_str("| kind | connections | CPU µs nginx | CPU µs gateway | ratio | added p50 µs nginx / gateway | added p99 µs nginx / gateway | RSS MiB nginx / gateway |\n|---|---|---|---|---|---|---|---|\n");
    for kind in kinds {
        for connections in &options.connections {
            let row = row(options, kind, *connections, upstream, &nginx, &gateway).await?;
            report.push_str(&row.text);
            if *connections == overview::CONNECTIONS {
                compared.push(row);
            }
        }
    }
    drop((gateway, nginx));
    if !options.no_counts {
        report.push_str(&overview::table(&compared, &options.binary, KEY).await?);
    }
    Ok(report)
}

/// The figures of a kind at one number of connections.
struct Row {
    kind: Kind,
    /// CPU time divided by that of nginx.
    ratio: f64,
    /// Resident memory of the gateway.
    rss_mib: f64,
    /// The line of the first table.
    text: String,
}

async fn row(
    options: &Options,
    kind: Kind,
    connections: usize,
    upstream: u16,
    nginx: &Process,
    gateway: &Process,
) -> Result<Row> {
    let total = requests(kind, connections, options.scale);
    let mut direct = Sums::default();
    let mut proxied = [Sums::default(), Sums::default()];
    for process in [nginx, gateway] {
        load::run(kind, process.port, KEY, connections, (total / 5).max(connections)).await?;
    }
    for _ in 0..options.rounds {
        add(&mut direct, &load::run(kind, upstream, KEY, connections, total).await?, total);
        for (process, sums) in [nginx, gateway].into_iter().zip(&mut proxied) {
            let before = process.cpu();
            let latencies = load::run(kind, process.port, KEY, connections, total).await?;
            sums.cpu += process.cpu().saturating_sub(before);
            sums.rss_mib = sums.rss_mib.max(process.rss_mib());
            add(sums, &latencies, total);
        }
    }
    let per_request = if kind.is_stream() { upstream::EVENTS + 3 } else { 1 };
    let [nginx, gateway] = &proxied;
    let cpu = |sums: &Sums| sums.cpu.as_secs_f64() * 1e6 / (sums.requests * per_request) as f64;
    let added = |sums: &Sums, pick: fn(&Sums) -> Duration| {
        (pick(sums).as_secs_f64() - pick(&direct).as_secs_f64()) * 1e6 / options.rounds as f64
    };
    let name = match kind {
        Kind::Stream => "stream (per event)",
        Kind::Translated => "anthropic stream (per event)",
        Kind::Messages => "stream on /v1/messages (per event)",
        Kind::Responses => "stream on /v1/responses (per event)",
        _ => kind.name(),
    };
    let ratio = cpu(gateway) / cpu(nginx);
    let text = format!(
        "| {name} | {connections} | {:.1} | {:.1} | {ratio:.2} | {:.0} / {:.0} | {:.0} / {:.0} | {:.1} / {:.1} |\n",
        cpu(nginx),
        cpu(gateway),
        added(nginx, |sum| sum.p50),
        added(gateway, |sum| sum.p50),
        added(nginx, |sum| sum.p99),
        added(gateway, |sum| sum.p99),
        nginx.rss_mib,
        gateway.rss_mib,
    );
    Ok(Row { kind, ratio, rss_mib: gateway.rss_mib, text })
}

fn add(sums: &mut Sums, latencies: &Latencies, total: usize) {
    sums.p50 += latencies.quantile(0.50);
    sums.p99 += latencies.quantile(0.99);
    sums.requests += total;
}

/// The number of requests of a round: enough for some seconds of work.
fn requests(kind: Kind, connections: usize, scale: f64) -> usize {
    let base = match (kind, connections) {
        (kind, 1) if kind.is_stream() => 4.0,
        (kind, many) if kind.is_stream() => many as f64 * 4.0,
        (Kind::Embeddings, 1) => 2_000.0,
        (Kind::Embeddings, _) => 6_000.0,
        (_, 1) => 4_000.0,
        (_, _) => 20_000.0,
    };
    ((base * scale) as usize).max(connections)
}
