//! `model-gateway drill`: what clients would see when a provider fails, tried out on the configuration's own routing.
//!
//! The engine is the real one; the providers are replaced by a scripted upstream on loopback (`upstream.rs`). For every
//! route, every provider in its plan and every fault, a gateway that has seen nothing yet is asked as a client would.

mod client;
mod fault;
mod report;
mod routes;
mod script;
mod stage;
mod upstream;

use std::sync::Arc;

use clap::Args;
use serde_json::Value;
use tokio::task::JoinSet;

use self::client::{Ask, End, Seen};
use self::fault::Fault;
use self::report::Report;
use self::routes::Route;
use self::stage::Stage;
use crate::cli::{Common, Stop, print};
use crate::{operator, setup};

/// Cases under way at one time. Their clocks are real: on a busy machine more of them would run late.
const AT_ONCE: usize = 8;

/// Which routes, and how the report is shown.
#[derive(Debug, Args)]
pub struct DrillArgs {
    /// As JSON
    #[arg(long)]
    json: bool,
    /// Only this name: an alias, a model name or an id; may be given several times
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
    /// Every model by its id, too
    #[arg(long)]
    all: bool,
    /// What the clients send as 'routing', such as '{"fallback": ["acme/spare"]}'
    #[arg(long, value_name = "JSON", value_parser = routing)]
    routing: Option<Value>,
}

fn routing(text: &str) -> Result<Value, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if value.is_object() { Ok(value) } else { Err("expected a JSON object".to_owned()) }
}

/// Runs the drill and prints its report.
///
/// # Errors
/// Exit code 1 when a route does not survive, 2 when there is nothing to drill.
pub fn run(common: &Common, args: &DrillArgs) -> Result<(), Stop> {
    let mut setup = setup::load(common)?;
    setup.demo_if_alone();
    let report = operator::runtime()?.block_on(Box::pin(drill(&setup, args)))?;
    print(&if args.json { format!("{:#}\n", report.json()) } else { report.table() })?;
    match report.lost() {
        0 => Ok(()),
        lost => Err(Stop::Runtime(format!("{lost} of {} routes do not survive", report.routes.len()))),
    }
}

/// A fault of a provider, as the clients of a route see it.
#[derive(Debug)]
pub struct Case {
    /// Which of the routes.
    pub route: usize,
    /// Who fails.
    pub provider: Arc<str>,
    /// How.
    pub fault: Fault,
    /// An answer at once; of a storm, the worst.
    pub plain: Option<Seen>,
    /// A streamed answer.
    pub stream: Option<Seen>,
}

impl Case {
    /// Whether all clients were served, or told of what could not be helped.
    #[must_use]
    pub fn survives(&self) -> bool {
        let well = |seen: &Seen| match seen.end {
            End::Whole => true,
            End::Told(_) => self.fault.is_mid_stream(),
            End::Refused(..) | End::Silent | End::Wrong | End::Hung => false,
        };
        self.plain.iter().chain(&self.stream).all(well)
    }
}

async fn drill(setup: &setup::Setup, args: &DrillArgs) -> Result<Report, Stop> {
    let stage = Arc::new(Stage::build(setup).await?);
    let (routes, skipped) = routes::find(&stage, &args.only, args.all, args.routing.as_ref())?;
    let routes: Arc<[Route]> = routes.into();
    let routing = args.routing.clone().map(Arc::new);
    let mut waiting = all_cases(&routes).into_iter();
    let (mut running, mut cases) = (JoinSet::new(), Vec::new());
    loop {
        while running.len() < AT_ONCE
            && let Some((place, case)) = waiting.next()
        {
            let (stage, routes, routing) = (Arc::clone(&stage), Arc::clone(&routes), routing.clone());
            running.spawn(async move {
                let done = Box::pin(rehearse(&stage, &routes, case, routing.as_deref())).await;
                done.map(|case| (place, case))
            });
        }
        match running.join_next().await {
            Some(Ok(case)) => cases.push(case?),
            Some(Err(error)) => return Err(Stop::Runtime(format!("a case of the drill failed: {error}"))),
            None => break,
        }
    }
    cases.sort_by_key(|(place, _)| *place);
    let cases = cases.into_iter().map(|(_, case)| case).collect();
    Ok(Report { routes, skipped, cases, factor: stage.factor })
}

/// What is to be tried, in the order of the report.
fn all_cases(routes: &[Route]) -> Vec<(usize, Case)> {
    let mut cases = Vec::new();
    for (route, facts) in routes.iter().enumerate() {
        for provider in facts.providers() {
            for fault in Fault::ALL.into_iter().filter(|fault| facts.can_have(*fault, &provider)) {
                let provider = Arc::clone(&provider);
                cases.push((cases.len(), Case { route, provider, fault, plain: None, stream: None }));
            }
        }
    }
    cases
}

async fn rehearse(
    stage: &Stage,
    routes: &[Route],
    mut case: Case,
    routing: Option<&Value>,
) -> Result<Case, Stop> {
    let Some(route) = routes.get(case.route) else { return Ok(case) };
    let tools = case.fault == Fault::ToolIndex;
    let ask = |stream| if route.embeds { Ask::Embeddings } else { Ask::Chat { stream, tools } };
    case.plain = Some(worst(stage, route, &case, ask(false), routing).await?);
    if !route.embeds {
        case.stream = Some(worst(stage, route, &case, ask(true), routing).await?);
    }
    Ok(case)
}

/// Asks once, or in a storm until it is over: the first request that was not served, else the slowest.
async fn worst(
    stage: &Stage,
    route: &Route,
    case: &Case,
    ask: Ask,
    routing: Option<&Value>,
) -> Result<Seen, Stop> {
    let engine = stage.engine(Some((&case.provider, case.fault)))?;
    let body = ask.body(&route.name, routing);
    let mut worst = client::send(&engine, ask, body.clone(), stage.patience).await;
    let more = if case.fault == Fault::Storm { stage.storm().saturating_sub(1) } else { 0 };
    for _ in 0..more {
        if worst.end != End::Whole {
            break;
        }
        let seen = client::send(&engine, ask, body.clone(), stage.patience).await;
        if seen.end != End::Whole || seen.took > worst.took {
            worst = seen;
        }
    }
    Ok(worst)
}
