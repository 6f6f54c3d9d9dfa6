//! `model-gateway drill`: shows the answers that clients get when a provider fails, with the routing of the configuration.
//!
//! The engine is the real one. A scripted upstream on loopback (`upstream.rs`) replaces the providers. For every route, every
//! provider in its plan and every fault, a client sends requests to a new gateway without measurements.

mod case;
mod client;
mod fault;
mod gateway;
mod report;
mod routes;
mod script;
mod upstream;

use std::sync::Arc;

use clap::Args;
use gw_admin::DrillRequest;
use gw_command::{CommandError, Common, print};
use gw_config::setup;
use serde_json::Value;
use tokio::task::JoinSet;

use self::case::DrillCase;
use self::client::{ClientView, Outcome, RequestKind};
use self::fault::Fault;
use self::gateway::DrillGateway;
use self::report::DrillReport;
use self::routes::{Route, Skipped};

/// The most cases that run at the same time. Their timeouts are real, and more cases would be late on a busy machine.
const MAX_PARALLEL_CASES: usize = 8;

/// The most cases of a drill in a running gateway. A case takes some seconds.
const MAX_CASES: usize = 400;

/// The options of `drill`.
#[derive(Debug, Args)]
pub struct DrillArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Drill only this alias, model name or id; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Also drill every model by its id
    #[arg(long)]
    all: bool,
    /// Value of 'routing' in the requests, such as '{"fallback": ["acme/spare"]}'
    #[arg(long, value_name = "JSON", value_parser = routing)]
    routing: Option<Value>,
}

/// The reason why the value of `--routing` cannot be used.
#[derive(Debug, thiserror::Error)]
enum RoutingError {
    #[error("write a JSON object: {0}")]
    Invalid(#[from] serde_json::Error),
    #[error("write a JSON object, such as {{\"fallback\": [\"acme/spare\"]}}")]
    NotAnObject,
}

fn routing(text: &str) -> Result<Value, RoutingError> {
    let value: Value = serde_json::from_str(text)?;
    if value.is_object() { Ok(value) } else { Err(RoutingError::NotAnObject) }
}

/// Runs the drill and prints its report.
///
/// # Errors
/// Exit code 1 when a route does not survive, 2 when the configuration has no route to drill.
pub fn run(common: &Common, args: &DrillArgs) -> Result<(), CommandError> {
    let mut setup = setup::load(common)?;
    setup.demo_if_alone();
    let scope = DrillScope { only: &args.only, is_all: args.all, routing: args.routing.as_ref() };
    let report = gw_command::runtime()?.block_on(Box::pin(drill(&setup, scope)))?;
    print(&if args.json { format!("{:#}\n", report.json()) } else { report.table() })?;
    match report.lost() {
        0 => Ok(()),
        lost => {
            Err(CommandError::Runtime(format!("{lost} of {} routes do not survive", report.routes.len())))
        }
    }
}

/// The part of a configuration that is drilled.
#[derive(Clone, Copy, Debug)]
struct DrillScope<'a> {
    only: &'a [String],
    is_all: bool,
    routing: Option<&'a Value>,
}

/// Runs the drill of a running gateway with its configuration. Returns the report as JSON.
///
/// # Errors
/// Exit code 2 when there is no route to drill, or when the drill has more than [`MAX_CASES`] cases.
pub(crate) async fn report(setup: &setup::Setup, request: &DrillRequest) -> Result<Value, CommandError> {
    let DrillRequest { only, routing } = request;
    let scope = DrillScope { only, is_all: false, routing: routing.as_ref() };
    let prepared = prepare(setup, scope).await?;
    let cases = all_cases(&prepared.routes).len();
    if cases > MAX_CASES {
        return Err(CommandError::Usage(format!(
            "this drill has {cases} cases, and a running gateway drills at most {MAX_CASES}; name fewer models in 'only'"
        )));
    }
    Ok(play(prepared).await?.json())
}

async fn drill(setup: &setup::Setup, scope: DrillScope<'_>) -> Result<DrillReport, CommandError> {
    play(prepare(setup, scope).await?).await
}

/// A drill before its first request.
struct PreparedDrill {
    gateway: Arc<DrillGateway>,
    routes: Arc<[Route]>,
    skipped: Vec<Skipped>,
    routing: Option<Arc<Value>>,
}

async fn prepare(setup: &setup::Setup, scope: DrillScope<'_>) -> Result<PreparedDrill, CommandError> {
    let gateway = Arc::new(DrillGateway::build(setup).await?);
    let (routes, skipped) = routes::find(&gateway, scope.only, scope.is_all, scope.routing)?;
    let routing = scope.routing.cloned().map(Arc::new);
    Ok(PreparedDrill { gateway, routes: routes.into(), skipped, routing })
}

/// Runs all cases.
async fn play(prepared: PreparedDrill) -> Result<DrillReport, CommandError> {
    let PreparedDrill { gateway, routes, skipped, routing } = prepared;
    let mut waiting = all_cases(&routes).into_iter();
    let (mut running, mut cases) = (JoinSet::new(), Vec::new());
    loop {
        while running.len() < MAX_PARALLEL_CASES
            && let Some((place, case)) = waiting.next()
        {
            let (gateway, routes, routing) = (Arc::clone(&gateway), Arc::clone(&routes), routing.clone());
            running.spawn(async move {
                let done = Box::pin(run_case(&gateway, &routes, case, routing.as_deref())).await;
                done.map(|case| (place, case))
            });
        }
        match running.join_next().await {
            Some(Ok(case)) => cases.push(case?),
            Some(Err(error)) => {
                return Err(CommandError::Runtime(format!("a case of the drill failed: {error}")));
            }
            None => break,
        }
    }
    cases.sort_by_key(|(place, _)| *place);
    let cases = cases.into_iter().map(|(_, case)| case).collect();
    Ok(DrillReport { routes, skipped, cases, factor: gateway.factor })
}

/// All cases, in the order of the report.
fn all_cases(routes: &[Route]) -> Vec<(usize, DrillCase)> {
    let mut cases = Vec::new();
    for (route, facts) in routes.iter().enumerate() {
        for provider in facts.providers() {
            for fault in Fault::ALL.into_iter().filter(|fault| facts.can_have(*fault, &provider)) {
                let provider = Arc::clone(&provider);
                cases.push((cases.len(), DrillCase { route, provider, fault, plain: None, stream: None }));
            }
        }
    }
    cases
}

async fn run_case(
    gateway: &DrillGateway,
    routes: &[Route],
    mut case: DrillCase,
    routing: Option<&Value>,
) -> Result<DrillCase, CommandError> {
    let Some(route) = routes.get(case.route) else { return Ok(case) };
    let tools = case.fault == Fault::ToolIndex;
    let ask =
        |stream| if route.embeds { RequestKind::Embeddings } else { RequestKind::Chat { stream, tools } };
    case.plain = Some(worst(gateway, route, &case, ask(false), routing).await?);
    if !route.embeds {
        case.stream = Some(worst(gateway, route, &case, ask(true), routing).await?);
    }
    Ok(case)
}

/// Sends one request, or in a storm all of them. Returns the first request that failed, else the slowest one.
async fn worst(
    gateway: &DrillGateway,
    route: &Route,
    case: &DrillCase,
    ask: RequestKind,
    routing: Option<&Value>,
) -> Result<ClientView, CommandError> {
    let engine = gateway.engine(Some((&case.provider, case.fault)))?;
    let body = ask.body(&route.name, routing);
    let mut worst = client::send(&engine, ask, body.clone(), gateway.timeout).await;
    let more = if case.fault == Fault::Storm { gateway.storm().saturating_sub(1) } else { 0 };
    for _ in 0..more {
        if worst.outcome != Outcome::Complete {
            break;
        }
        let seen = client::send(&engine, ask, body.clone(), gateway.timeout).await;
        if seen.outcome != Outcome::Complete || seen.duration > worst.duration {
            worst = seen;
        }
    }
    Ok(worst)
}
