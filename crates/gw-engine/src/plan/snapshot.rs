//! The configuration as one call sees it.

use std::sync::Arc;

use gw_providers::provider::Provider;
use gw_routing::hedge::HedgeBudget;
use gw_wire::request::RequestLimits;

use crate::auth::Caller;
use crate::catalog::Catalog;
use crate::error::Result;
use crate::names_map::NamesMap;
use crate::passthrough_routes::PassthroughRoutes;
use crate::plan::routing_state::RoutingState;
use crate::presets::{AppliedPreset, PresetRequest, Presets};
use crate::rules::Rules;
use crate::session_guard::SessionGuards;
use crate::settings::RoutingSettings;

/// The configuration that a call takes at its start and keeps to its end.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) providers: NamesMap<Arc<str>, Arc<Provider>>,
    pub(crate) routing: RoutingSettings,
    pub(crate) request_limits: RequestLimits,
    /// The budget of hedges; None = no hedges.
    pub(crate) hedges: Option<Arc<HedgeBudget>>,
    pub(crate) session_guards: Arc<SessionGuards>,
    pub(crate) passthrough: Arc<PassthroughRoutes>,
    pub(crate) presets: Arc<Presets>,
    /// The rules of budgets.
    pub(crate) rules: Arc<Rules>,
    /// The routing state, which outlives the configuration.
    pub(crate) state: Arc<RoutingState>,
}

impl Snapshot {
    /// Applies the preset that a request names. None: it names none, or its body cannot be read.
    ///
    /// # Errors
    /// `model_not_found` for a preset that does not exist or whose models the key may not use, `invalid_type`.
    pub(crate) fn apply_preset(
        &self,
        caller: &Caller,
        request: PresetRequest<'_>,
    ) -> Result<Option<AppliedPreset>> {
        let may_use = |alias: &str| {
            let resolved = self.catalog.resolve(alias);
            resolved.is_some_and(|resolved| resolved.models.iter().any(|model| caller.may_use(model)))
        };
        self.presets.apply(request, may_use)
    }
}
