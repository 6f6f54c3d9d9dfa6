//! `model-gateway simulate`: replays the request log with another strategy, and compares cost and speed.
//!
//! The log is read twice: for the figures of each model (`figures.rs`), and for the decisions (`replay.rs`), which
//! `gw_routing::score::order` makes as it does for a request. No provider is called.

mod figures;
mod replay;
mod report;

use std::sync::Arc;

use clap::Args;
use gw_admin::time::{format_millis, parse_moment};
use gw_command::table::clean;
use gw_command::{CommandError, Common, print};
use gw_config::setup::{self, Setup};
use gw_routing::strategy::Strategy;
use gw_store::Store;
use gw_store::ledger::{Cursor, Entry, Filter};
use gw_wire::calendar;

use self::figures::LogFigures;
use self::replay::Replay;
use crate::store;

/// The rows of a page of the log.
const PAGE_ROWS: u32 = 1000;

/// The options of `simulate`.
#[derive(Debug, Args)]
pub struct SimulateArgs {
    /// Routing strategy to simulate
    #[arg(long, value_parser = strategy)]
    strategy: Strategy,
    /// First time of the requests: 7d, 24h, 2026-11-21 or 2026-11-21T09:00:00Z
    #[arg(long, value_name = "TIME", default_value = "7d")]
    since: String,
    /// End of the requests, in the same forms as --since [default: now]
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// The reason why a strategy cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum StrategyError {
    #[error("the log does not hold the number of requests in flight, which this strategy needs")]
    NeedsLoad,
    #[error("write one of {0}")]
    Unknown(String),
}

fn strategy(name: &str) -> Result<Strategy, StrategyError> {
    match Strategy::named(name) {
        Some(Strategy::LeastBusy) => Err(StrategyError::NeedsLoad),
        Some(strategy) => Ok(strategy),
        None => {
            let names = Strategy::ALL.map(Strategy::as_str);
            Err(StrategyError::Unknown(names.join(", ")))
        }
    }
}

/// Prints the report.
///
/// # Errors
/// Exit code 2 for a wrong option, 1 when the store does not answer.
pub fn run(common: &Common, args: &SimulateArgs) -> Result<(), CommandError> {
    let window = window(args)?;
    let mut setup = setup::load(common)?;
    setup.demo_if_alone();
    let replay = gw_command::runtime()?.block_on(Box::pin(replay(&setup, args.strategy, &window)))?;
    let (since, until) = (window.since.map(format_millis), window.until.map(format_millis));
    let span = [since.unwrap_or_default(), until.unwrap_or_default()];
    print(&if args.json { report::json(&replay, &span)? } else { report::table(&replay, &span) })
}

/// The rows to read. Both ends are fixed, so that both readings see the same rows while a gateway writes more.
fn window(args: &SimulateArgs) -> Result<Filter, CommandError> {
    let now = calendar::unix_seconds();
    let read = |name: &str, text: &str| {
        parse_moment(text, now).ok_or_else(|| {
            CommandError::Usage(format!(
                "--{name}: write a time (2026-11-21T09:00:00Z), a date (2026-11-21) or an age (7d, 24h) instead of '{}'",
                clean(text)
            ))
        })
    };
    let since = read("since", &args.since)?;
    let until = args.until.as_deref().map_or(Ok(now.saturating_mul(1000)), |text| read("until", text))?;
    if since >= until {
        return Err(CommandError::Usage("--until must be later than --since".to_owned()));
    }
    Ok(Filter { since: Some(since), until: Some(until), ..Filter::default() })
}

async fn replay(setup: &Setup, strategy: Strategy, window: &Filter) -> Result<Replay, CommandError> {
    let catalog = setup.catalog(false).map_err(|problems| CommandError::problems(&problems))?;
    let store = store::open_shared(setup).await?;
    let mut log = LogFigures::default();
    for_each_row(&store, window, |entry| log.add(entry)).await?;
    let mut replay = Replay::new(strategy, setup.config.engine.routing.weights, log);
    for_each_row(&store, window, |entry| replay.add(&catalog, entry)).await?;
    store.close().await;
    Ok(replay)
}

/// Calls `visit` for every row of the window, the newest first.
async fn for_each_row(
    store: &Store,
    window: &Filter,
    mut visit: impl FnMut(&Entry),
) -> Result<(), CommandError> {
    let mut after: Option<Cursor> = None;
    loop {
        let page = store.requests(window, after.as_ref(), PAGE_ROWS).await.map_err(CommandError::runtime)?;
        page.iter().for_each(&mut visit);
        match page.last() {
            Some(last) if page.len() == PAGE_ROWS as usize => {
                after = Some(Cursor { at: last.at, request_id: Arc::clone(&last.request_id) });
            }
            _ => return Ok(()),
        }
    }
}
