//! `model-gateway doctor`: examines this machine, the configuration and the services that the gateway needs. It changes
//! nothing, and it works beside a running gateway.

mod address;
mod finding;
mod machine;
mod provider_check;
mod storage;

use clap::Args;
use gw_command::{CommandError, Common, print};
use gw_config::Source;
use gw_config::setup::{self, Setup};
use gw_config::{encryption_key, paths};

use finding::{DoctorFinding, DoctorReport};

/// The options of `doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Also call each provider once with each of its keys, for its list of models
    #[arg(long)]
    providers: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the findings.
///
/// # Errors
/// Exit code 1 when a finding has failed.
pub fn run(common: &Common, args: &DoctorArgs) -> Result<(), CommandError> {
    let report = gw_command::runtime()?.block_on(Box::pin(examine(common, args)));
    print(&if args.json { report.to_json() } else { report.to_table() })?;
    match report.failures() {
        0 => Ok(()),
        1 => Err(CommandError::Runtime("1 finding has failed".to_owned())),
        count => Err(CommandError::Runtime(format!("{count} findings have failed"))),
    }
}

async fn examine(common: &Common, args: &DoctorArgs) -> DoctorReport {
    let mut report = DoctorReport::default();
    let Some(setup) = configuration(common, &mut report) else { return report };
    address::check(&setup, &mut report).await;
    machine::check(&setup, &mut report);
    let mut clocks = storage::check(&setup, &mut report).await;
    clocks.extend(provider_check::check(&setup, args.providers, &mut report).await);
    storage::compare_clocks(&clocks, &mut report);
    report
}

/// Checks the configuration. None: it cannot be used, so the other checks would not fit it.
fn configuration(common: &Common, report: &mut DoctorReport) -> Option<Setup> {
    let source = paths::config_source(common.config.as_deref());
    let name = match &source {
        Source::File(path) => path.display().to_string(),
        Source::Nothing => "no file".to_owned(),
    };
    let (setup, mut problems) = match gw_config::load(source) {
        Ok(loaded) => {
            let (setup, problems) = setup::offline(loaded);
            (Some(setup), problems)
        }
        Err(refused) => setup::refused_offline(refused),
    };
    problems.extend(encryption_key::of_environment().err());
    problems.extend(encryption_key::previous_of_environment().err());
    if problems.is_empty() {
        report.add(DoctorFinding::ok("configuration", &name, "no problems"));
        for note in setup.iter().flat_map(|setup| &setup.notes) {
            let remedy = "correct the setting, or ignore this if it is meant so";
            report.add(DoctorFinding::warning("configuration", &name, note).remedy(remedy));
        }
        return setup;
    }
    for problem in problems {
        let remedy = "correct the configuration; `model-gateway check` lists its problems alone";
        report.add(DoctorFinding::failed("configuration", &name, &problem).remedy(remedy));
    }
    None
}
