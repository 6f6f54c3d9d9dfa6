//! The instructions of one request, counted by valgrind's callgrind over all threads of the gateway.
//!
//! A count is repeatable to a few parts in a thousand, on a busy machine too. It says nothing about the kernel's work.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;

use crate::error::{Error, Result};
use crate::load::{self, Kind};
use crate::process::Process;
use crate::upstream;

/// Number of texts of a stream. The upstream sends the whole stream in one write, so that the count is repeatable.
const EVENTS: usize = 64;
/// Number of connections of the load.
const CONNECTIONS: usize = 8;
/// Number of requests before the count begins.
const WARM_UP: usize = 200;

/// The options of `./bench instructions`.
#[derive(Debug, Args)]
pub(crate) struct InstructionOptions {
    /// Kinds of requests to count: chat, cached, missed, stream, anthropic, messages, responses, embeddings
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<String>,
    /// Number of counted requests of each kind
    #[arg(long, default_value_t = 1_000)]
    requests: usize,
    /// Directory for callgrind's files, which `callgrind_annotate` reads
    #[arg(long, default_value = "target/callgrind")]
    out: PathBuf,
}

/// Counts each kind of request in a gateway of its own.
pub(crate) async fn run(options: &InstructionOptions, binary: &Path, key: &str) -> Result<String> {
    std::fs::create_dir_all(&options.out)?;
    let upstream = upstream::start(EVENTS, None).await?;
    let mut report = String::from("| kind | instructions |\n|---|---|\n");
    for kind in Kind::ALL {
        if !options.kinds.is_empty() && !options.kinds.iter().any(|name| name == kind.name()) {
            continue;
        }
        let counted = count(options, kind, upstream, binary, key).await?;
        report.push_str(&format!("| {} | {counted} |\n", kind.name()));
    }
    Ok(report)
}

async fn count(
    options: &InstructionOptions,
    kind: Kind,
    upstream: u16,
    binary: &Path,
    key: &str,
) -> Result<u64> {
    let dir = tempfile::tempdir()?;
    let out = options.out.join(kind.name());
    let gateway = Process::under_callgrind(binary, dir.path(), upstream, key, &out)?;
    load::run(kind, gateway.port, key, CONNECTIONS, WARM_UP).await?;
    settle().await;
    dump(gateway.pid())?;
    load::run(kind, gateway.port, key, CONNECTIONS, options.requests).await?;
    settle().await;
    dump(gateway.pid())?;
    // Each dump has a file of its own, and begins a new count. The second one holds the counted requests.
    let text = std::fs::read_to_string(out.with_extension("2"))?;
    let total = text.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse::<u64>().ok());
    Ok(total.unwrap_or_default() / options.requests as u64)
}

/// Rows and metrics are written after the answer.
async fn settle() {
    tokio::time::sleep(Duration::from_secs(2)).await;
}

fn dump(pid: u32) -> Result<()> {
    let mut command = Command::new("callgrind_control");
    command.arg("--dump").arg(pid.to_string()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(|error| Error::start(&command, error))?;
    if status.success() {
        return Ok(());
    }
    Err(Error::Ended { command: format!("{command:?}"), status })
}
