//! `gw-bench ledger`: how many rows a second a store takes, what a row costs, and how fast queries over many rows are.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use clap::Args;
use gw_store::Store;
use gw_store::ledger::{Attempt, Cursor, Entry, Filter, GroupBy, Spender, Tokens};

use crate::error::Result;
use crate::process::cpu_of;

/// Options of `gw-bench ledger`.
#[derive(Debug, Args)]
pub(crate) struct LedgerOptions {
    /// URL of an empty store: `sqlite:///path` or `postgres://…`. Default: a temporary SQLite file.
    #[arg(long)]
    url: Option<String>,
    /// Number of rows to write.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Rows per transaction.
    #[arg(long, default_value_t = 100)]
    batch: usize,
}

const HOUR: i64 = 3_600_000;
/// The rows are spread over this many hours: a month.
const HOURS: i64 = 720;
const NOW: i64 = 1_795_000_000_000;

/// Writes the rows, runs the queries and reports the times.
pub(crate) async fn run(options: &LedgerOptions) -> Result<String> {
    let directory = tempfile::tempdir()?;
    let file = format!("sqlite://{}", directory.path().join("bench.db").display());
    let url = options.url.as_deref().unwrap_or(&file);
    let store = Store::open_url(url).await?;
    let mut report = write(&store, options).await?;
    report.push_str(&query(&store, options.rows).await?);
    store.close().await;
    Ok(report)
}

async fn write(store: &Store, options: &LedgerOptions) -> Result<String> {
    let batch = options.batch.max(1) as u64;
    let (mut took, mut slowest) = (Duration::ZERO, Duration::ZERO);
    let mut cpu = Duration::ZERO;
    for first in (0..options.rows).step_by(options.batch.max(1)) {
        let entries: Vec<Entry> = (first..(first + batch).min(options.rows))
            .map(|n| entry(n, options.rows, (NOW, HOURS)))
            .collect();
        let (start, before) = (Instant::now(), cpu_of("self"));
        store.record(&entries).await?;
        cpu += cpu_of("self").saturating_sub(before);
        took += start.elapsed();
        slowest = slowest.max(start.elapsed());
    }
    let rows = options.rows as f64;
    Ok(format!(
        "{} rows in batches of {batch}: {:.0} rows/s, {:.2} µs of this process's CPU per row, slowest batch {:.1} ms\n\n",
        options.rows,
        rows / took.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / rows,
        slowest.as_secs_f64() * 1e3
    ))
}

/// The n-th of `rows` rows, which are spread over the `hours` before `end` (unix milliseconds). Keys, teams and models have very
/// different numbers of rows, and one of each is rare. A key uses two models.
pub(crate) fn entry(n: u64, rows: u64, (end, hours): (i64, i64)) -> Entry {
    let mixed = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
    let after = u128::from(n) * u128::from((hours * HOUR).unsigned_abs()) / u128::from(rows.max(1));
    let at = end - hours * HOUR + i64::try_from(after).unwrap_or(0);
    let rare = n % 100_000 == 77;
    let key = if rare {
        999
    } else if n % 1_000 == 500 {
        // One or two rows an hour: a page of this key's log spans days.
        998
    } else {
        (mixed % 50).min(mixed % 50 / 2)
    };
    Entry {
        request_id: format!("req_{:012x}-7{:03x}-8{:03x}-{:012x}", at, mixed % 4096, n % 4096, n).into(),
        at,
        key_id: format!("sk-gw-{key:06}").into(),
        key_name: format!("service {key}").into(),
        team: (key % 5 > 0).then(|| format!("team-{}", key % 5 + if rare { 90 } else { 0 }).into()),
        operation: "chat".into(),
        requested_model: "gpt-4o-mini".to_owned(),
        model: format!("acme/model-{}", if rare { 99 } else { (key + mixed % 2) % 7 }).into(),
        provider: if rare {
            "rare"
        } else if key.is_multiple_of(2) {
            "acme"
        } else {
            "other"
        }
        .into(),
        status: if n.is_multiple_of(997) { "upstream_error" } else { "ok" }.into(),
        strategy: "default".into(),
        stream: n.is_multiple_of(2),
        tokens: Tokens { prompt: 900 + mixed % 100, completion: 120, cached: 300, ..Tokens::default() },
        cost: i128::from(mixed % 1_000) * 1_234_567,
        ttft_ms: Some(210),
        latency_ms: 1_432,
        attempts: vec![Attempt {
            provider: "acme".into(),
            model: "acme/model-1".into(),
            status: "ok".into(),
            latency_ms: 1_432,
            cost: Some(0),
            started_ms: 0,
            image_fetch_ms: 0,
            known_part: 0,
            reason: None,
        }],
        user: Some(format!("user-{}", mixed % 1_000)),
        client: Some("203.0.113.7".to_owned()),
        ..Entry::default()
    }
}

async fn query(store: &Store, rows: u64) -> Result<String> {
    let mut report = "| query | ms | rows |\n|---|---|---|\n".to_owned();
    let mut line = |name: &str, start: Instant, found: usize| {
        let _ = writeln!(report, "| {name} | {:.1} | {found} |", start.elapsed().as_secs_f64() * 1e3);
    };
    let text = |text: &str| Some(text.to_owned());
    let week = Filter { since: Some(NOW - 7 * 24 * HOUR), ..Filter::default() };
    let key = Filter { key_id: text("sk-gw-000003"), ..Filter::default() };
    for (name, by) in GroupBy::ALL {
        let start = Instant::now();
        let found = store.usage(by, &Filter::default()).await?;
        line(&format!("usage by {name}"), start, found.len());
    }
    for (name, filter) in [("all", &Filter::default()), ("a week", &week), ("a key", &key)] {
        let start = Instant::now();
        store.total(filter).await?;
        line(&format!("total of {name}"), start, 1);
    }
    let since = (NOW - HOURS * HOUR) / 1_000;
    for (name, who) in [
        ("a key", Spender::Key("sk-gw-000003")),
        ("a team", Spender::Team("team-2")),
        ("nobody", Spender::Team("x")),
    ] {
        let start = Instant::now();
        store.spent(who, since, i64::MAX).await?;
        line(&format!("spent by {name}"), start, 1);
    }
    let logs = [
        ("log", Filter::default()),
        ("log of a key", key),
        ("log of a rare key", Filter { key_id: text("sk-gw-000999"), ..Filter::default() }),
        ("log of a seldom key", Filter { key_id: text("sk-gw-000998"), ..Filter::default() }),
        ("log of a team", Filter { team: text("team-2"), ..Filter::default() }),
        ("log of a rare team", Filter { team: text("team-94"), ..Filter::default() }),
        ("log of a model", Filter { model: text("acme/model-3"), ..Filter::default() }),
        ("log of a rare model", Filter { model: text("acme/model-99"), ..Filter::default() }),
        ("log of a model that is not there", Filter { model: text("acme/none"), ..Filter::default() }),
        ("log of a rare provider", Filter { provider: text("rare"), ..Filter::default() }),
        ("log of a rare status", Filter { status: text("upstream_error"), ..Filter::default() }),
        ("log of no status", Filter { status: text("none"), ..Filter::default() }),
        (
            "log of a rare key's errors",
            Filter { key_id: text("sk-gw-000999"), status: text("x"), ..Filter::default() },
        ),
        (
            "log of a model's errors",
            Filter { model: text("acme/model-3"), status: text("upstream_error"), ..Filter::default() },
        ),
        (
            "log of an hour of a month ago",
            Filter {
                since: Some(NOW - HOURS * HOUR),
                until: Some(NOW - (HOURS - 1) * HOUR),
                ..Filter::default()
            },
        ),
    ];
    let middle = entry(rows / 2, rows, (NOW, HOURS));
    let middle = Cursor { at: middle.at, request_id: middle.request_id };
    for (name, filter) in logs {
        for (page, after) in [("", None), (", from the middle", Some(&middle))] {
            let start = Instant::now();
            let found = store.requests(&filter, after, 100).await?;
            line(&format!("{name}{page}"), start, found.len());
        }
    }
    let start = Instant::now();
    let deleted = store.purge(NOW - (HOURS - 1) * HOUR, 1_000).await?;
    line("delete a thousand rows", start, usize::try_from(deleted).unwrap_or(0));
    Ok(report)
}
