//! The instructions of one request, counted by valgrind's callgrind over all threads of the gateway.
//!
//! A count is repeatable to a few parts in a thousand, on a busy machine too. It says nothing about the kernel's work.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;

use crate::budgets::{Budgets, Counted, Functions};
use crate::callgrind::{self, Counts};
use crate::error::{Error, Result};
use crate::load::{self, Kind};
use crate::process::Process;
use crate::{system_calls, upstream};

/// Number of texts of a stream. The upstream sends the whole stream in one write, so that the count is repeatable.
pub(crate) const EVENTS: usize = 64;
/// Number of connections of the load.
pub(crate) const CONNECTIONS: usize = 8;
/// Number of requests before the count begins.
const WARM_UP: usize = 200;

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
    /// Percent by which a count may exceed its budget
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
    for kind in Kind::ALL {
        if !options.kinds.is_empty() && !options.kinds.iter().any(|name| name == kind.name()) {
            continue;
        }
        let (counts, smallest) =
            count(kind, [options.counts, options.requests], &options.out, binary, key).await?;
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
        }
    }
    report.push_str(traced.trim_end());
    let Some(path) = &options.budgets else { return Ok(report) };
    let counted = Counted { kinds, functions };
    if options.record {
        let budgets = if path.exists() { Budgets::read(path)? } else { Budgets::default() };
        budgets.record(path, &counted, options.reason.as_deref())?;
        return Ok(report);
    }
    let compared = Budgets::read(path)?.check(path, &counted, options.tolerance)?;
    Ok(format!("{report}\n{compared}"))
}

/// Counts one kind of request several times, and returns the smallest count with its file. What makes a count larger is work that
/// does not come with each request: a statement of SQLite that is prepared for the first time, memory that the allocator gets.
pub(crate) async fn count(
    kind: Kind,
    [counts, requests]: [usize; 2],
    directory: &Path,
    binary: &Path,
    key: &str,
) -> Result<(Counts, PathBuf)> {
    std::fs::create_dir_all(directory)?;
    let upstream = upstream::start(EVENTS, None).await?;
    let data = tempfile::tempdir()?;
    let out = directory.join(kind.name());
    let gateway = Process::under_callgrind(binary, data.path(), upstream, key, &out)?;
    load::run(kind, gateway.port, key, CONNECTIONS, WARM_UP).await?;
    settle().await;
    dump(gateway.pid())?;
    // Each dump has a file of its own, and begins a new count. The first one holds the start and the requests before the counts.
    let mut smallest: Option<(Counts, PathBuf)> = None;
    for number in 2..counts + 2 {
        load::run(kind, gateway.port, key, CONNECTIONS, requests).await?;
        settle().await;
        dump(gateway.pid())?;
        let file = out.with_extension(number.to_string());
        let counted = callgrind::read(&file, requests as u64)?;
        if smallest.as_ref().is_none_or(|(known, _)| counted.instructions < known.instructions) {
            smallest = Some((counted, file));
        }
    }
    smallest.ok_or_else(|| Error::Budgets("--counts is 0".to_owned()))
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
