//! `model-gateway reconcile`: compares the ledger with a provider's bill.

use gw_command::{CommandError, Common, print};
use gw_config::setup;
use gw_reconcile::{OutputFormat, ReconcileArgs, reconcile};

use crate::store;

/// Prints the comparison.
///
/// # Errors
/// Exit code 2 for a wrong option or a provider without `[[reconcile]]`, 1 when a report or the store cannot be read, 3 when the totals
/// differ by more than the threshold.
pub(crate) fn run(common: &Common, args: &ReconcileArgs) -> Result<(), CommandError> {
    let setup = setup::load(common)?;
    let reconciliation = gw_command::runtime()?.block_on(Box::pin(async {
        let store = store::open_shared(&setup).await?;
        let reconciliation = reconcile(&setup, &store, args).await;
        store.close().await;
        reconciliation
    }))?;
    match args.format {
        OutputFormat::Json => {
            print(&format!("{}\n", reconciliation.json().map_err(CommandError::runtime)?))?;
        }
        OutputFormat::Table => print(&reconciliation.table())?,
    }
    if reconciliation.is_above(args.threshold_percent) {
        let percent = args.threshold_percent;
        return Err(CommandError::Threshold(format!(
            "the totals differ by more than {percent} % of the provider's"
        )));
    }
    Ok(())
}
