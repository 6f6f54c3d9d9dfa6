//! `model-gateway simulate`: the request log once more, with another strategy. What it would have cost and how fast it
//! would have been, beside what it did cost and how fast it was.
//!
//! The log is read twice: for what each model was like (`figures.rs`), and for the decisions (`replay.rs`), which
//! `gw_routing::score::order` makes as it does for a request. Nobody is called.

mod figures;
mod replay;
mod report;

use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use gw_admin::time::{format_millis, parse_moment};
use gw_routing::strategy::Strategy;
use gw_store::Store;
use gw_store::ledger::{Cursor, Entry, Filter};

use self::figures::Log;
use self::replay::Replay;
use crate::cli::{Common, Stop, print};
use crate::models::table::clean;
use crate::setup::{self, Setup};
use crate::{operator, serve};

/// Rows of a page of the log.
const PAGE: u32 = 1000;

/// Which strategy over which requests, and how the report is shown.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// The strategy that would have decided, by any of its names
    #[arg(long, value_parser = strategy)]
    strategy: Strategy,
    /// From here on: 7d, 24h, 2026-11-21, 2026-11-21T09:00:00Z
    #[arg(long, value_name = "TIME", default_value = "7d")]
    since: String,
    /// Before this time [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

fn strategy(name: &str) -> Result<Strategy, String> {
    match Strategy::named(name) {
        Some(Strategy::LeastBusy) => Err("the log does not tell how many requests were under way".to_owned()),
        Some(strategy) => Ok(strategy),
        None => {
            let names = Strategy::ALL.map(Strategy::as_str);
            Err(format!("expected one of {}", names.join(", ")))
        }
    }
}

/// Prints the report.
///
/// # Errors
/// Exit code 2 for what cannot be replayed, 1 when the store does not answer.
pub fn run(common: &Common, args: &SimulateArgs) -> Result<(), Stop> {
    let window = window(args)?;
    let mut setup = setup::load(common)?;
    setup.demo_if_alone();
    let replay = operator::runtime()?.block_on(Box::pin(replay(&setup, args.strategy, &window)))?;
    let (since, until) = (window.since.map(format_millis), window.until.map(format_millis));
    let span = [since.unwrap_or_default(), until.unwrap_or_default()];
    print(&if args.json { report::json(&replay, &span)? } else { report::table(&replay, &span) })
}

/// Both ends are fixed, so that both readings see the same rows while a gateway writes more.
fn window(args: &SimulateArgs) -> Result<Filter, Stop> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    let read = |name: &str, text: &str| {
        parse_moment(text, now).ok_or_else(|| {
            Stop::Usage(format!(
                "--{name}: expected a time (2026-11-21T09:00:00Z), a date or how long ago (7d, 24h), not '{}'",
                clean(text)
            ))
        })
    };
    let since = read("since", &args.since)?;
    let until = args.until.as_deref().map_or(Ok(now.saturating_mul(1000)), |text| read("until", text))?;
    if since >= until {
        return Err(Stop::Usage("--until must be later than --since".to_owned()));
    }
    Ok(Filter { since: Some(since), until: Some(until), ..Filter::default() })
}

async fn replay(setup: &Setup, strategy: Strategy, window: &Filter) -> Result<Replay, Stop> {
    let catalog = setup.catalog(false).map_err(|problems| Stop::Usage(problems.join("\n")))?;
    let store = operator::open_store(setup).await?;
    let mut log = Log::default();
    each(&store, window, |entry| log.take(entry)).await?;
    let mut replay = Replay::new(strategy, setup.config.engine.routing.weights, log);
    each(&store, window, |entry| replay.take(&catalog, entry)).await?;
    store.close().await;
    Ok(replay)
}

/// Every row of the window, the newest first, page by page.
async fn each(store: &Store, window: &Filter, mut take: impl FnMut(&Entry)) -> Result<(), Stop> {
    let mut after: Option<Cursor> = None;
    loop {
        let page = store.requests(window, after.as_ref(), PAGE).await.map_err(serve::runtime)?;
        page.iter().for_each(&mut take);
        match page.last() {
            Some(last) if page.len() == PAGE as usize => {
                after = Some(Cursor { at: last.at, request_id: last.request_id.clone() });
            }
            _ => return Ok(()),
        }
    }
}
