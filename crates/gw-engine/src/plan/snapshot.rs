//! The configuration as one call sees it.

use std::sync::Arc;

use gw_providers::provider::Provider;
use gw_routing::hedge::HedgeBudget;
use gw_wire::request::RequestLimits;

use crate::catalog::Catalog;
use crate::names_map::NamesMap;
use crate::passthrough_routes::PassthroughRoutes;
use crate::plan::routing_state::RoutingState;
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
    /// The rules of budgets.
    pub(crate) rules: Arc<Rules>,
    /// The routing state, which outlives the configuration.
    pub(crate) state: Arc<RoutingState>,
}
