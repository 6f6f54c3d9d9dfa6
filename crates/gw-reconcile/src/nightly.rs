//! The comparison that a gateway makes each day by itself.

use std::fmt;

use gw_config::ReconcileSettings;
use gw_config::setup::Setup;
use gw_engine::catalog::Catalog;
use gw_providers::settings::ProviderSettings;
use gw_store::Store;
use gw_store::reconciliations::ComparedTotals;
use gw_wire::money::Money;

use super::args::{DAY_SECONDS, DayRange, date};
use super::{Reconciliation, compare_days};

/// The days from a day to its comparison: the reports of a day are complete a day after its end.
const DELAY_DAYS: i64 = 2;
/// How long one process has the right to compare a day. A comparison that failed is repeated after it.
const LEASE_SECONDS: i64 = 900;
/// Femto-USD of a nano-USD: a number of per cent is held like an amount.
const FEMTOS_OF_NANO: i128 = 1_000_000;
/// The most causes of a line in the log.
const MAX_CAUSES: usize = 20;

/// The comparison of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NightlyResult {
    /// Both totals.
    pub totals: ComparedTotals,
    /// The difference is above the threshold.
    pub is_above: bool,
}

/// The providers whose bills are compared each day, and the catalogue that values their tokens.
pub struct NightlyTargets {
    catalog: Catalog,
    targets: Vec<(ProviderSettings, ReconcileSettings)>,
}

impl fmt::Debug for NightlyTargets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NightlyTargets").field("targets", &self.targets.len()).finish_non_exhaustive()
    }
}

impl NightlyTargets {
    /// The targets of a configuration.
    ///
    /// # Errors
    /// The problems of the catalogue.
    pub fn of(setup: &Setup) -> Result<Self, Vec<String>> {
        let nightly = setup.config.reconcile.iter().filter(|settings| settings.nightly);
        let target = |settings: &ReconcileSettings| {
            let provider = setup.config.providers.iter().find(|known| known.name == settings.provider)?;
            Some((provider.clone(), settings.clone()))
        };
        let targets: Vec<_> = nightly.filter_map(target).collect();
        // A catalogue is large, so a gateway without such a comparison has none.
        let catalog = if targets.is_empty() { Catalog::default() } else { setup.catalog(false)? };
        Ok(Self { catalog, targets })
    }

    /// Whether no provider's bill is compared.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Whether the bill of this provider is compared.
    #[must_use]
    pub fn has(&self, provider: &str) -> bool {
        self.targets.iter().any(|(_, settings)| settings.provider == provider)
    }

    /// Compares the days that are due. The caller tells of those above their thresholds, and then keeps the totals: a process that dies in
    /// between compares and tells again. `now` is the unix second.
    pub async fn compare_due(&self, store: &Store, now: i64) -> Vec<NightlyResult> {
        let day = now.div_euclid(DAY_SECONDS) - DELAY_DAYS;
        let mut results = Vec::new();
        for (provider, settings) in &self.targets {
            let name = &*settings.provider;
            match store.lease_reconciliation(name, day, now, now + LEASE_SECONDS).await {
                Ok(true) => {}
                Ok(false) => continue,
                Err(error) => {
                    tracing::warn!(provider = name, %error, "the comparison with the provider's bill cannot begin");
                    continue;
                }
            }
            let range = DayRange { first: day, last: day };
            match compare_days(&self.catalog, store, (provider, settings), range).await {
                Ok(compared) => results.push(result_of(&compared, settings, day)),
                Err(error) => tracing::warn!(
                    provider = name,
                    day = date(day),
                    %error,
                    "the provider's bill is not compared; the gateway tries again in a quarter of an hour"
                ),
            }
        }
        results
    }
}

/// Logs a comparison, and returns its totals.
fn result_of(compared: &Reconciliation, settings: &ReconcileSettings, day: i64) -> NightlyResult {
    let (ours, theirs) = (compared.ours(), compared.theirs());
    let threshold = Money::from_femtos(i128::from(settings.threshold_percent.nanos()) * FEMTOS_OF_NANO);
    let is_above = compared.is_above(threshold);
    let causes: Vec<String> = compared
        .rows
        .iter()
        .flat_map(|row| row.causes.iter().map(|cause| (row.model.as_deref().unwrap_or("-"), cause)))
        .take(MAX_CAUSES)
        .map(|(model, cause)| {
            format!("{model}: {} {} USD ({})", cause.kind.as_str(), cause.usd, cause.detail)
        })
        .collect();
    let (provider, causes) = (&*settings.provider, causes.join("; "));
    if is_above {
        tracing::warn!(
            provider,
            day = date(day),
            %ours,
            %theirs,
            causes,
            "the provider's bill differs from the ledger by more than the threshold"
        );
    } else {
        tracing::info!(provider, day = date(day), %ours, %theirs, causes, "the provider's bill agrees with the ledger");
    }
    let totals =
        ComparedTotals { provider: provider.to_owned(), day, ours: ours.femtos(), theirs: theirs.femtos() };
    NightlyResult { totals, is_above }
}
