//! `model-gateway probe`: a conformance report of a live endpoint.
//!
//! The probe calls the provider with the gateway's own adapters. It makes few, small calls, and asks before the first one.

mod answer;
mod catalogue_entry;
mod checks;
mod endpoint;
mod finding;
mod plan;
mod report;
mod subject;

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::{Duration, Instant};

use clap::Args;

use self::endpoint::Endpoint;
use self::finding::Findings;
use self::plan::ProbePlan;
use self::report::ProbeReport;
use self::subject::ProbeTarget;
use crate::admin_client;
use crate::command::{CommandError, Common, print};
use crate::models::table::clean;

/// The options of `probe`.
#[derive(Debug, Args)]
pub struct ProbeArgs {
    /// Provider of gateway.toml; with --base-url any name
    #[arg(value_name = "PROVIDER")]
    provider: String,
    /// Model, by its id or by its name at the provider [default: the provider's cheapest chat model]
    #[arg(value_name = "MODEL")]
    model: Option<String>,
    /// Probe this address instead of a configured provider
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// API of --base-url: openai, azure, anthropic, gemini, vertex, bedrock, cohere, mistral or ollama [default: openai]
    #[arg(long, value_name = "API")]
    api: Option<String>,
    /// Environment variable with the key for --base-url
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// Make the calls without asking
    #[arg(long, short = 'y')]
    yes: bool,
    /// Make only this step; may be given several times
    #[arg(long, value_name = "STEP", value_parser = clap::builder::PossibleValuesParser::new(plan::names()))]
    only: Vec<String>,
    /// Treat the model as an embedding model
    #[arg(long)]
    embeddings: bool,
    /// Seconds that a call may take
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=3600))]
    timeout: u64,
    /// Most tokens of an answer; reasoning models need more
    #[arg(long, value_name = "TOKENS", default_value_t = 256, value_parser = clap::value_parser!(u64).range(16..=65536))]
    max_tokens: u64,
    /// Also send a prompt that exceeds a context of more than 6,500 tokens, which a wrong endpoint may bill
    #[arg(long)]
    oversize: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "catalogue")]
    json: bool,
    /// Print a [[models]] entry for gateway.toml with the measured abilities
    #[arg(long)]
    catalogue: bool,
}

/// Asks for consent, makes the calls and prints the report.
///
/// # Errors
/// Exit code 1 when a check fails, 2 when the provider or the model is not known or nobody agreed to the calls.
pub fn run(common: &Common, args: &ProbeArgs) -> Result<(), CommandError> {
    let target = ProbeTarget::find(common, args)?;
    let provider = target.provider()?;
    let plan = ProbePlan::new(&target.subject, &args.only, args.max_tokens, args.oversize);
    if plan.steps.is_empty() {
        return Err(CommandError::Usage("the chosen steps do not fit this kind of model".to_owned()));
    }
    consent(&target, &plan, args.yes)?;
    let limit = Duration::from_secs(args.timeout);
    let mut endpoint = Endpoint::new(target.subject.clone(), provider, limit, target.secrets());
    let mut findings = Findings::new(target.secrets());
    let began = Instant::now();
    let work = checks::run(&mut endpoint, &target, &plan, args.max_tokens, &mut findings);
    admin_client::runtime()?.block_on(Box::pin(work));
    let report = ProbeReport::new(&endpoint, findings, began.elapsed());
    let text = match (args.json, args.catalogue) {
        (true, _) => format!("{:#}\n", report.json()),
        (_, true) => catalogue_entry::write(&endpoint.subject, &report),
        _ => report.table(),
    };
    print(&text)?;
    match report.failed() {
        0 => Ok(()),
        failed => Err(CommandError::Runtime(format!("{failed} of {} checks failed", report.checks()))),
    }
}

/// Says what the probe costs, and waits for the operator's consent.
fn consent(target: &ProbeTarget, plan: &ProbePlan, yes: bool) -> Result<(), CommandError> {
    let model = clean(&target.subject.id);
    let mut err = io::stderr();
    let _ = writeln!(err, "probe of {model}: {}", plan.sentence());
    if yes {
        return Ok(());
    }
    let refused = |why: &str| CommandError::Usage(format!("no call was made: {why}"));
    if !io::stdin().is_terminal() || !err.is_terminal() {
        return Err(refused("--yes agrees to these calls"));
    }
    let _ = write!(err, "Make these calls? [y/N] ");
    let _ = err.flush();
    let mut answer = String::new();
    let read = io::stdin().lock().read_line(&mut answer);
    match (read, answer.trim().to_ascii_lowercase().as_str()) {
        (Ok(_), "y" | "yes") => Ok(()),
        _ => Err(refused("the answer was not yes")),
    }
}
