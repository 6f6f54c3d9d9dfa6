//! The instructions of one request, counted by valgrind's callgrind over all threads of the gateway.
//!
//! A count is repeatable to a few parts in a thousand, on a busy machine too. It says nothing about the kernel's work.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;

use crate::budgets::{self, Budgets, Counted, Functions};
use crate::callgrind::{self, Counts};
use crate::error::{Error, Result};
use crate::load::{self, Kind};
use crate::process::Process;
use crate::{system_calls, unused_features, upstream};

/// Number of texts of a stream. The upstream sends the whole stream in one write, so that the count is repeatable.
pub(crate) const EVENTS: usize = 64;
/// Number of connections of the load.
pub(crate) const CONNECTIONS: usize = 8;
/// Number of requests before the count begins.
const WARM_UP: usize = 400;
/// So many times as many counts are made at most while a kind is above its budget.
const MOST_COUNTS: usize = 4;

/// The options of `./bench instructions`.
#[derive(Debug, Args)]
pub(crate) struct InstructionOptions {
    /// Kinds of requests to count: chat, cached, missed, stream, anthropic, messages, responses, embeddings, key, refused, health
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<String>,
    /// Number of requests of a count
    #[arg(long, default_value_t = 1_000)]
    requests: usize,
    /// Number of counts of each kind, one after the other, of which the smallest is reported
    #[arg(long, default_value_t = 1)]
    counts: usize,
    /// Directory for callgrind's files, which `callgrind_annotate` reads
    #[arg(long, default_value = "target/callgrind")]
    out: PathBuf,
    /// Count the system calls, too, with strace
    #[arg(long)]
    system_calls: bool,
    /// File of budgets to compare the counts with
    #[arg(long)]
    budgets: Option<PathBuf>,
    /// Percent by which the instructions of the connection's task may exceed their budget
    #[arg(long, default_value_t = 1.0)]
    tolerance: f64,
    /// Write the counts to the file of budgets instead of comparing them
    #[arg(long, requires = "budgets")]
    record: bool,
    /// Why a budget rises or is new, with `--record`
    #[arg(long, requires = "record")]
    reason: Option<String>,
}

/// Counts each kind of request in a gateway of its own.
pub(crate) async fn run(options: &InstructionOptions, binary: &Path, key: &str) -> Result<String> {
    let mut report = String::from(
        "| kind | instructions | allocations | copies | clock readings |\n|---|---|---|---|---|\n",
    );
    let (mut kinds, mut functions, mut traced) = (Vec::new(), Functions::new(), String::from("\n"));
    let mut unused = String::new();
    let budgets = match &options.budgets {
        Some(path) if path.exists() || !options.record => Some(Budgets::read(path)?),
        _ => None,
    };
    for kind in Kind::ALL {
        if !options.kinds.is_empty() && !options.kinds.iter().any(|name| name == kind.name()) {
            continue;
        }
        let limit = budgets.as_ref().filter(|_| !options.record);
        let limit = limit.and_then(|budgets| budgets.most_of_path(kind.name(), options.tolerance));
        let sizes = [options.counts, options.requests];
        let (counts, smallest) = count(kind, sizes, limit, &options.out, binary, key).await?;
        let Counts { instructions, allocations, copies, clocks } = counts;
        report.push_str(&format!(
            "| {} | {instructions} | {allocations} | {copies} | {clocks} |\n",
            kind.name()
        ));
        if options.system_calls {
            let (calls, names) = system_calls::count(kind, binary, key).await?;
            traced.push_str(&format!("- {}: {calls:.1} system calls: {names}\n", kind.name()));
        }
        kinds.push((kind.name(), instructions));
        if options.budgets.is_some() {
            let list = callgrind::functions(&smallest, options.requests as u64)?;
            functions.insert(kind.name().to_owned(), list);
            if kind == Kind::Chat {
                unused = unused_features::check(&smallest, options.requests as u64, instructions)?;
            }
        }
    }
    report.push_str(traced.trim_end());
    let Some(path) = &options.budgets else { return Ok(report) };
    let counted = Counted { kinds, functions };
    if options.record {
        budgets.unwrap_or_default().record(path, &counted, options.reason.as_deref())?;
        return Ok(report);
    }
    let compared = budgets.unwrap_or_default().check(path, &counted, options.tolerance)?;
    Ok(format!("{report}\n{compared}{unused}"))
}

/// Counts one kind of request several times, and returns the one in which the connection's task
/// needs least, with its file. What makes a count larger is work that
/// does not come with each request: a statement of SQLite that is prepared for the first time, memory that the allocator gets.
///
/// While the instructions of the connection's task are above `limit`, the number of counts grows to [`MOST_COUNTS`] times `counts`.
/// Work that each request needs is in every count, so more counts never hide it.
pub(crate) async fn count(
    kind: Kind,
    [counts, requests]: [usize; 2],
    limit: Option<u64>,
    directory: &Path,
    binary: &Path,
    key: &str,
) -> Result<(Counts, PathBuf)> {
    std::fs::create_dir_all(directory)?;
    let upstream = upstream::start(EVENTS, None).await?;
    let data = tempfile::tempdir()?;
    let out = directory.join(kind.name());
    let mut valgrind = Command::new("valgrind");
    valgrind.arg("--tool=callgrind").arg(format!("--callgrind-out-file={}", out.display()));
    let gateway = Process::under(valgrind, binary, data.path(), upstream, key, kind)?;
    load::run(kind, gateway.port, key, CONNECTIONS, WARM_UP).await?;
    settle().await;
    dump(gateway.pid())?;
    // Each dump has a file of its own, and begins a new count. The first one holds the start and the requests before the counts.
    let mut smallest: Option<(u64, Counts, PathBuf)> = None;
    for number in 0..counts * MOST_COUNTS {
        if number >= counts
            && smallest.as_ref().is_none_or(|(path, ..)| limit.is_none_or(|limit| *path <= limit))
        {
            break;
        }
        load::run(kind, gateway.port, key, CONNECTIONS, requests).await?;
        settle().await;
        dump(gateway.pid())?;
        let file = out.with_extension((number + 2).to_string());
        let counted = callgrind::read(&file, requests as u64)?;
        let path = budgets::path_of(&callgrind::functions(&file, requests as u64)?);
        if smallest.as_ref().is_none_or(|(known, ..)| path < *known) {
            smallest = Some((path, counted, file));
        }
    }
    let smallest = smallest.ok_or_else(|| Error::Budgets("--counts is 0".to_owned()))?;
    Ok((smallest.1, smallest.2))
}

/// Rows and metrics are written after the answer.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1_500)).await;
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
