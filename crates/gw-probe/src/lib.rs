//! `model-gateway probe`: a conformance report of a live endpoint.
//!
//! The probe calls the provider with the gateway's own adapters. It makes few, small calls, and asks before the first one.

mod answer;
mod args;
mod catalogue_entry;
mod checks;
mod endpoint;
mod finding;
mod plan;
mod report;
mod subject;

use std::io::{self, BufRead, IsTerminal, Write};
use std::time::{Duration, Instant};

use gw_command::table::{clean, counted};
use gw_command::{CommandError, Common, print, runtime};
use gw_config::setup::Setup;
use serde_json::Value;

pub use self::args::ProbeArgs;
use self::endpoint::ProbedEndpoint;
use self::finding::Findings;
use self::plan::ProbePlan;
use self::report::ProbeReport;
use self::subject::{ProbeSubject, ProbeTarget};

/// The result of a probe.
#[derive(Debug)]
pub struct ProbeResult {
    /// The report in the form that the options ask for.
    pub report: String,
    /// The number of checks.
    pub checks: usize,
    /// The number of checks that failed.
    pub failed: usize,
}

/// Asks for consent, makes the calls and prints the report.
///
/// # Errors
/// Exit code 1 when a check fails, 2 when the provider or the model is not known or nobody agreed to the calls.
pub fn run(common: &Common, args: &ProbeArgs) -> Result<(), CommandError> {
    let result = probe(common, args)?;
    print(&result.report)?;
    match result.failed {
        0 => Ok(()),
        failed => Err(CommandError::Runtime(format!(
            "{failed} of {} failed",
            counted(result.checks as u64, "check")
        ))),
    }
}

/// Asks for consent and makes the calls.
///
/// # Errors
/// Exit code 2 when the provider or the model is not known or nobody agreed to the calls.
pub fn probe(common: &Common, args: &ProbeArgs) -> Result<ProbeResult, CommandError> {
    let target = ProbeTarget::find(common, args)?;
    let plan = plan(&target, args)?;
    consent(&target, &plan, args.yes)?;
    let (subject, report) = runtime()?.block_on(Box::pin(call(&target, plan, args)))?;
    let text = match (args.json, args.catalogue) {
        (true, _) => format!("{:#}\n", report.json()),
        (_, true) => catalogue_entry::write(&subject, &report),
        _ => report.table(),
    };
    Ok(ProbeResult { report: text, checks: report.checks(), failed: report.failed() })
}

/// Probes a provider of this configuration. Returns the report as JSON.
///
/// # Errors
/// Exit code 2 when the provider, the model or a step is not known.
pub async fn probe_configured(setup: Setup, args: &ProbeArgs) -> Result<Value, CommandError> {
    let target = ProbeTarget::of_setup(setup, args)?;
    let plan = plan(&target, args)?;
    let (_, report) = Box::pin(call(&target, plan, args)).await?;
    Ok(report.json())
}

/// The bounds of the calls that [`probe_configured`] would make, as JSON.
///
/// # Errors
/// Exit code 2 when the provider, the model or a step is not known.
pub fn plan_configured(setup: Setup, args: &ProbeArgs) -> Result<Value, CommandError> {
    let target = ProbeTarget::of_setup(setup, args)?;
    Ok(plan(&target, args)?.json(&target.subject.id))
}

fn plan(target: &ProbeTarget, args: &ProbeArgs) -> Result<ProbePlan, CommandError> {
    if let Some(unknown) = args.only.iter().find(|name| !plan::names().any(|known| known == *name)) {
        let known: Vec<&str> = plan::names().collect();
        return Err(CommandError::Usage(format!(
            "'{}' is not a step; the steps are {}",
            clean(unknown),
            known.join(", ")
        )));
    }
    let plan = ProbePlan::new(&target.subject, &args.only, args.max_tokens, args.oversize);
    if plan.steps.is_empty() {
        return Err(CommandError::Usage("the chosen steps do not fit this kind of model".to_owned()));
    }
    Ok(plan)
}

/// Makes the calls. Returns the model with the facts that the provider told, and the report.
async fn call(
    target: &ProbeTarget,
    plan: ProbePlan,
    args: &ProbeArgs,
) -> Result<(ProbeSubject, ProbeReport), CommandError> {
    let provider = target.provider()?;
    let limit = Duration::from_secs(args.timeout);
    let mut endpoint = ProbedEndpoint::new(target.subject.clone(), provider, limit, target.secrets());
    let mut findings = Findings::new(target.secrets());
    let began = Instant::now();
    let request = checks::RequestMembers { max_tokens: args.max_tokens, others: args.with.clone() };
    checks::run(&mut endpoint, target, &plan, request, &mut findings).await;
    let report = ProbeReport::new(&endpoint, findings, began.elapsed());
    Ok((endpoint.subject, report))
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
