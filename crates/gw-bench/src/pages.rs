//! `gw-bench pages`: how long the pages of the console wait for the gateway when its store is large.
//!
//! It fills a store, starts the gateway on it and sends the calls that the pages make, one at a time over a kept connection.

mod content;
mod views;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use gw_store::Store;
use gw_wire::calendar::unix_seconds;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::error::{Error, Result};
use crate::load::answer_length;
use crate::open_loop::quantile;
use crate::process::Process;
use content::Content;
use views::{NAME_VIEWS, VIEWS};

/// Options of `gw-bench pages`.
#[derive(Debug, Args)]
pub(crate) struct PageOptions {
    /// Path of the gateway's program.
    #[arg(long, default_value = "target/release/model-gateway")]
    binary: PathBuf,
    /// Folder of the store. A store that is there already is measured as it is. Default: a temporary folder.
    #[arg(long)]
    folder: Option<PathBuf>,
    /// URL of an empty PostgreSQL database, or of one that was filled with this folder before. Default: a SQLite file in the folder.
    #[arg(long)]
    store: Option<String>,
    /// Number of rows of the request log, over the 90 days before now.
    #[arg(long, default_value_t = 10_000_000)]
    rows: u64,
    /// Number of kept payloads, those of the newest rows.
    #[arg(long, default_value_t = 1_000_000)]
    payloads: u64,
    /// Number of distinct end users that the rows name. Without it, the rows name none.
    #[arg(long, default_value_t = 0)]
    end_users: u64,
    /// Number of calls of each view.
    #[arg(long, default_value_t = 40)]
    rounds: u64,
}

/// The aim for 95 % of the calls of each view.
const AIM: Duration = Duration::from_millis(300);
/// The memory that may be added by all views, in MiB: the caches of three connections to the store, and the largest answers.
const MOST_GROWTH_MIB: f64 = 64.0;

/// Fills the store, measures the views and reports them.
///
/// # Errors
/// The store or the gateway fails, or the answer to a view is no success.
pub(crate) async fn run(options: &PageOptions, key: &str) -> Result<String> {
    let temporary = tempfile::tempdir()?;
    let folder = options.folder.as_deref().unwrap_or(temporary.path());
    std::fs::create_dir_all(folder)?;
    let file = || format!("sqlite://{}", folder.join("pages.db").display());
    let url = options.store.clone().unwrap_or_else(file);
    let end = unix_seconds().saturating_mul(1000);
    let content = Content::new(options.rows, options.payloads, options.end_users, end);
    let (content, mut report) = filled(&url, folder, content).await?;
    let gateway = Process::configured(&options.binary, folder, |port| config(port, key, &url, folder))?;
    let before = gateway.rss_mib();
    report.push_str("| page | call | p50 ms | p95 ms | slowest ms | KiB |\n|---|---|---|---|---|---|\n");
    let mut slow = 0;
    let views = || VIEWS.iter().chain(NAME_VIEWS.iter().filter(|_| content.has_names()));
    for view in views() {
        let mut client = PageClient::connect(gateway.port, key).await?;
        let mut times = Vec::new();
        let mut bytes = 0;
        for round in 0..options.rounds {
            let (took, length) = client.get(&(view.path)(&content, round)).await?;
            times.push(took);
            bytes = bytes.max(length);
        }
        times.sort_unstable();
        slow += usize::from(quantile(&times, 0.95) >= AIM);
        let millis = |share| quantile(&times, share).as_secs_f64() * 1e3;
        let _ = writeln!(
            report,
            "| {} | {} | {:.1} | {:.1} | {:.1} | {} |",
            view.page,
            view.what,
            millis(0.5),
            millis(0.95),
            millis(1.0),
            bytes.div_ceil(1024)
        );
    }
    let after = gateway.rss_mib();
    let verdict = |is_met| if is_met { "met" } else { "NOT met" };
    let _ = writeln!(
        report,
        "\np95 below {} ms: {} ({slow} of {} views are slower). Memory: {before:.1} MiB before, {after:.1} MiB after: {}.",
        AIM.as_millis(),
        verdict(slow == 0),
        views().count(),
        verdict(after - before <= MOST_GROWTH_MIB)
    );
    Ok(report)
}

/// Fills the store, or uses an existing one. The file `content` in the folder records its size.
async fn filled(url: &str, folder: &Path, new: Content) -> Result<(Content, String)> {
    let note = folder.join("content");
    if let Some(known) = std::fs::read_to_string(&note).ok().and_then(|text| Content::parse(&text)) {
        return Ok((known, format!("the store of before: {known}\n\n")));
    }
    let begun = Instant::now();
    let store = Store::open_url(url).await?;
    content::fill(&store, &new).await?;
    store.close().await;
    std::fs::write(&note, new.to_text()).map_err(|error| Error::write(&note, error))?;
    Ok((new, format!("{new}, filled in {:.0} s\n\n", begun.elapsed().as_secs_f64())))
}

fn config(port: u16, key: &str, store: &str, folder: &Path) -> String {
    format!(
        r#"[server]
listen = "127.0.0.1:{port}"
data_dir = "{}"

[store]
url = "{store}"
retention_days = 0

[store.payloads]
retention_days = 3650

[[providers]]
name = "demo"
api = "demo"

[[keys]]
name = "operator"
key = "{key}"
role = "admin"
"#,
        folder.join("data").display()
    )
}

/// A kept connection of a browser.
struct PageClient {
    socket: TcpStream,
    head: String,
    buffer: Vec<u8>,
}

impl PageClient {
    async fn connect(port: u16, key: &str) -> Result<Self> {
        let socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.set_nodelay(true)?;
        let head = format!(" HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\nauthorization: Bearer {key}\r\n\r\n");
        Ok(Self { socket, head, buffer: Vec::new() })
    }

    /// The time to the whole answer, and its length.
    async fn get(&mut self, path: &str) -> Result<(Duration, usize)> {
        let begun = Instant::now();
        self.socket.write_all(format!("GET {path}{}", self.head).as_bytes()).await?;
        self.buffer.clear();
        let mut length = None;
        while length.is_none_or(|length| self.buffer.len() < length) {
            if self.socket.read_buf(&mut self.buffer).await? == 0 {
                return Err(Error::Closed);
            }
            length = length.or_else(|| answer_length(&self.buffer).flatten());
        }
        let took = begun.elapsed();
        // The gateway refuses a search after two seconds. Such a refusal counts with its time.
        let is_late = self.buffer.starts_with(b"HTTP/1.1 503") && took >= AIM;
        if !self.buffer.starts_with(b"HTTP/1.1 200") && !is_late {
            let answer = String::from_utf8_lossy(&self.buffer);
            return Err(Error::UnexpectedAnswer(format!("{path}: {answer}")));
        }
        Ok((took, self.buffer.len()))
    }
}
