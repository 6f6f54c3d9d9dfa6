//! `model-gateway reconcile`: compares the ledger with a provider's own reports of usage and costs.
//!
//! [`reconcile`] reads the provider's reports (`reports`), sums the ledger's rows (`own`), and explains each difference of a day and a
//! model (`causes`). No model is called. [`NightlyTargets`] does so each day inside the gateway.

mod args;
mod bill;
mod causes;
mod fetch;
mod nightly;
mod own;
mod rates;
mod reconciliation;
mod report;
mod reports;

use std::collections::{BTreeMap, BTreeSet};

use gw_command::CommandError;
use gw_command::table::clean;
use gw_config::setup::Setup;
use gw_config::{Config, ReconcileSettings, ReportApi};
use gw_engine::catalog::Catalog;
use gw_providers::settings::ProviderSettings;
use gw_store::Store;
use gw_wire::money::Money;

pub use self::args::{DayRange, OutputFormat, ReconcileArgs};
use self::bill::{Bill, BilledDay};
pub use self::nightly::{NightlyResult, NightlyTargets};
use self::own::OwnBill;
pub use self::reconciliation::Reconciliation;
use self::reconciliation::{DayRow, ModelNames};

/// Reads the reports of the provider and compares them with the ledger.
///
/// # Errors
/// Exit code 2 when the provider has no `[[reconcile]]`, 1 when a report or the store cannot be read.
pub async fn reconcile(
    setup: &Setup,
    store: &Store,
    args: &ReconcileArgs,
) -> Result<Reconciliation, CommandError> {
    let settings = settings(&setup.config, &args.provider)?;
    let range = args.range()?;
    let provider = setup.config.providers.iter().find(|provider| provider.name == settings.provider);
    let provider = provider.ok_or_else(|| unknown(&settings.provider))?;
    let catalog = setup.catalog(false).map_err(|problems| CommandError::problems(&problems))?;
    compare_days(&catalog, store, (provider, settings), range).await
}

/// Reads the reports of these days, and compares them with the ledger.
async fn compare_days(
    catalog: &Catalog,
    store: &Store,
    (provider, settings): (&ProviderSettings, &ReconcileSettings),
    range: DayRange,
) -> Result<Reconciliation, CommandError> {
    let api = ReportApi::of(provider).ok_or_else(|| {
        let message = "has no reports that the gateway can read; OpenAI, Anthropic and OpenRouter have";
        CommandError::Usage(format!("provider '{}' {message}", clean(&settings.provider)))
    })?;
    let bill = reports::read(api, provider, settings, range).await.map_err(CommandError::runtime)?;
    compare(catalog, store, &settings.provider, range, bill).await
}

fn settings<'c>(config: &'c Config, provider: &str) -> Result<&'c ReconcileSettings, CommandError> {
    let found = config.reconcile.iter().find(|settings| settings.provider == provider);
    found.ok_or_else(|| {
        let name = clean(provider);
        CommandError::Usage(format!(
            "no [[reconcile]] has provider = \"{name}\"; add one with the provider's admin_key to gateway.toml"
        ))
    })
}

fn unknown(provider: &str) -> CommandError {
    CommandError::Usage(format!("no provider has the name '{}'", clean(provider)))
}

/// A day, as days since 1970, and the id of a model. None: the provider names no model.
type RowKey = (i64, Option<String>);

async fn compare(
    catalog: &Catalog,
    store: &Store,
    provider: &str,
    range: DayRange,
    bill: Bill,
) -> Result<Reconciliation, CommandError> {
    let names = ModelNames::new(catalog, provider);
    let own = OwnBill::read(store, provider, &names, range).await.map_err(CommandError::runtime)?;
    let mut billed: BTreeMap<RowKey, BilledDay> = BTreeMap::new();
    for ((day, model), line) in bill.days {
        let model = model.map(|model| names.id_of(&model, provider));
        billed.entry((day, model)).or_default().add(&line);
    }
    share_out(catalog, &mut billed);
    share_tools((store, catalog), &own, &mut billed).await.map_err(CommandError::runtime)?;
    let keys: BTreeSet<RowKey> = billed.keys().cloned().chain(own.keys()).collect();
    let models: BTreeSet<&str> = keys.iter().filter_map(|(_, model)| model.as_deref()).collect();
    let mut rows = Vec::with_capacity(keys.len());
    for model in models {
        let days: Vec<(i64, Option<&BilledDay>)> = range
            .days()
            .map(|day| (day, billed.get(&(day, Some(model.to_owned())))))
            .filter(|(day, bill)| bill.is_some() || own.has(*day, model))
            .collect();
        let of_model = own.rows_of((store, catalog), model, &days, range).await;
        rows.extend(of_model.map_err(CommandError::runtime)?);
    }
    rows.extend(
        billed
            .iter()
            .filter(|((_, model), _)| model.is_none())
            .map(|((day, _), line)| DayRow::without_model(*day, line)),
    );
    Ok(Reconciliation::new(provider, range, rows))
}

/// Moves a day's cost of tools that names no model to the models for which the ledger charged tools.
async fn share_tools(
    places: (&Store, &Catalog),
    own: &OwnBill,
    billed: &mut BTreeMap<RowKey, BilledDay>,
) -> gw_store::Result<()> {
    let days: Vec<i64> = billed.keys().filter(|(_, model)| model.is_none()).map(|(day, _)| *day).collect();
    for day in days {
        for model in own.models_of(day) {
            let left = billed.get(&(day, None)).map(|line| line.tool_cost).unwrap_or_default();
            if left <= Money::ZERO {
                break;
            }
            let part = own.tools_of(places, model, day).await?.min(left);
            if part > Money::ZERO {
                billed.entry((day, Some(model.to_owned()))).or_default().tool_cost += part;
                billed.entry((day, None)).or_default().tool_cost = left - part;
            }
        }
    }
    billed
        .retain(|(_, model), line| model.is_some() || line.cost() != Money::ZERO || !line.foreign.is_empty());
    Ok(())
}

/// Shares a day's cost of tokens that names no model out to the models of the day's usage: to each the catalogue's price of its tokens,
/// and the rest to the dearest.
fn share_out(catalog: &Catalog, billed: &mut BTreeMap<RowKey, BilledDay>) {
    let days: Vec<i64> = billed.keys().filter(|(_, model)| model.is_none()).map(|(day, _)| *day).collect();
    for day in days {
        let mut left = match billed.get(&(day, None)) {
            Some(line) if line.token_cost != Money::ZERO && line.tokens.is_none() => line.token_cost,
            _ => continue,
        };
        let cost = |model: &Option<String>, line: &BilledDay| {
            let rates = rates::TokenRates::of(catalog.get(model.as_deref()?)?)?;
            Some(rates.cost(&line.all_tokens()?))
        };
        let of_day = billed.iter().filter(|((of, model), line)| {
            *of == day && model.is_some() && line.cost() == Money::ZERO && line.all_tokens().is_some()
        });
        let mut shares: Vec<(RowKey, Money)> =
            of_day.map(|(key, line)| (key.clone(), cost(&key.1, line).unwrap_or_default())).collect();
        shares.sort_by_key(|(_, share)| *share);
        let Some((dearest, _)) = shares.pop() else { continue };
        for (key, share) in shares {
            left = left - share;
            billed.entry(key).or_default().token_cost = share;
        }
        billed.entry(dearest).or_default().token_cost = left;
        if let Some(line) = billed.get_mut(&(day, None)) {
            line.token_cost = Money::ZERO;
        }
    }
    billed.retain(|(_, model), line| model.is_some() || *line != BilledDay::default());
}
