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

pub use self::args::ProbeArgs;
use self::endpoint::ProbedEndpoint;
use self::finding::Findings;
use self::plan::ProbePlan;
use self::report::ProbeReport;
use self::subject::ProbeTarget;

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
    let provider = target.provider()?;
    let plan = ProbePlan::new(&target.subject, &args.only, args.max_tokens, args.oversize);
    if plan.steps.is_empty() {
        return Err(CommandError::Usage("the chosen steps do not fit this kind of model".to_owned()));
    }
    consent(&target, &plan, args.yes)?;
    let limit = Duration::from_secs(args.timeout);
    let mut endpoint = ProbedEndpoint::new(target.subject.clone(), provider, limit, target.secrets());
    let mut findings = Findings::new(target.secrets());
    let began = Instant::now();
    let request = checks::RequestMembers { max_tokens: args.max_tokens, others: args.with.clone() };
    let work = checks::run(&mut endpoint, &target, &plan, request, &mut findings);
    runtime()?.block_on(Box::pin(work));
    let report = ProbeReport::new(&endpoint, findings, began.elapsed());
    let text = match (args.json, args.catalogue) {
        (true, _) => format!("{:#}\n", report.json()),
        (_, true) => catalogue_entry::write(&endpoint.subject, &report),
        _ => report.table(),
    };
    Ok(ProbeResult { report: text, checks: report.checks(), failed: report.failed() })
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
