//! The configuration of the engine, and the snapshot that is built of it.

use std::sync::Arc;

use gw_providers::provider::Provider;
use gw_routing::hedge::HedgeBudget;
use gw_wire::money::Price;

use crate::catalog::{Catalog, Discovered, ProviderFacts};
use crate::names_map::NamesMap;
use crate::passthrough_routes::PassthroughRoutes;
use crate::plan::routing_state::RoutingState;
use crate::plan::snapshot::Snapshot;
use crate::presets::Presets;
use crate::rules::Rules;
use crate::session_guard::SessionGuards;
use crate::settings::EngineSettings;

/// A configured provider and its terms.
#[derive(Clone, Debug)]
pub struct Deployed {
    /// The provider.
    pub provider: Arc<Provider>,
    /// The factor from a model's official price to its gateway price.
    pub price_multiplier: Price,
    /// The gateway asks the provider for its model list (`discover = true`).
    pub discovers: bool,
}

/// The configuration of the engine.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    /// The settings.
    pub settings: EngineSettings,
    /// The providers, in the order of the configuration.
    pub deployed: Vec<Deployed>,
    /// The catalogue documents, in the order of their entries.
    pub documents: Vec<Arc<str>>,
}

impl Configured {
    /// Whether the gateway asks the provider of this name for its model list.
    pub(super) fn discovers(&self, provider: &str) -> bool {
        self.deployed.iter().any(|deployed| deployed.discovers && **deployed.provider.name() == *provider)
    }
}

/// The snapshot of a configuration. Models of each provider that `earlier` has as the same [`Arc`] keep their measurements and
/// their circuits.
///
/// # Errors
/// Every problem of the catalogue.
pub(super) fn snapshot(
    earlier: Option<&Snapshot>,
    configured: &Configured,
    discovered: &[Discovered],
) -> Result<Snapshot, Vec<String>> {
    let by_name =
        |deployed: &Deployed| (Arc::clone(deployed.provider.name()), Arc::clone(&deployed.provider));
    let providers: NamesMap<_, _> = configured.deployed.iter().map(by_name).collect();
    let is_same =
        |name: &str| match (earlier.and_then(|earlier| earlier.providers.get(name)), providers.get(name)) {
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            _ => false,
        };
    let nothing = Catalog::default();
    let measured = earlier.map_or(&nothing, |earlier| &earlier.catalog);
    let catalog = catalog((measured, &is_same), configured, discovered)?;
    let find = |name: &str| {
        let deployed = configured.deployed.iter().find(|deployed| **deployed.provider.name() == *name)?;
        Some((Arc::clone(&deployed.provider), deployed.price_multiplier))
    };
    let passthrough = PassthroughRoutes::build(&configured.settings.passthrough, find)?;
    let EngineSettings { routing, request_limits, guards, codex_instructions, .. } = &configured.settings;
    let new_hedges = || routing.hedge.as_ref().map(|settings| Arc::new(HedgeBudget::new(settings)));
    let same_hedges = earlier.filter(|earlier| earlier.routing.hedge == routing.hedge);
    let state = earlier.map(|earlier| Arc::clone(&earlier.state));
    Ok(Snapshot {
        catalog: Arc::new(catalog.with_codex_instructions(codex_instructions.clone())),
        providers,
        routing: *routing,
        request_limits: *request_limits,
        hedges: same_hedges.map_or_else(new_hedges, |earlier| earlier.hedges.clone()),
        session_guards: Arc::new(SessionGuards::new(guards)),
        passthrough: Arc::new(passthrough),
        presets: Arc::new(Presets::new(&configured.settings.aliases)),
        rules: Arc::new(Rules::new(earlier.map(|earlier| &*earlier.rules), &configured.settings)),
        state: state.unwrap_or_else(|| Arc::new(RoutingState::new(&configured.settings))),
    })
}

/// The catalogue of a configuration, with the measurements of an earlier catalogue for the models of the providers that the
/// function names.
///
/// # Errors
/// Every problem of the catalogue.
pub(super) fn catalog(
    earlier: (&Catalog, &dyn Fn(&str) -> bool),
    configured: &Configured,
    discovered: &[Discovered],
) -> Result<Catalog, Vec<String>> {
    let Configured { settings, deployed, documents } = configured;
    let documents: Vec<&str> = documents.iter().map(|document| &**document).collect();
    let mut facts = Vec::with_capacity(deployed.len());
    for Deployed { provider, price_multiplier, discovers } in deployed {
        facts.push(ProviderFacts {
            name: provider.name(),
            api: provider.api(),
            price_multiplier: *price_multiplier,
            discovers: *discovers,
        });
    }
    Catalog::build_after(earlier, &documents, &settings.models, &settings.aliases, &facts, discovered)
        .map_err(|problems| problems.into_iter().map(|problem| problem.message).collect())
}
