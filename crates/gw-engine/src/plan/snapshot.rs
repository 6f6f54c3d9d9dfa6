//! The configuration as one call sees it.

use std::collections::HashMap;
use std::sync::Arc;

use gw_providers::provider::Provider;
use gw_wire::request::RequestLimits;

use crate::catalog::Catalog;
use crate::plan::routing_state::RoutingState;
use crate::settings::RoutingSettings;

/// Everything a call needs to know of the configuration: taken once at its start, held to its end.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) catalog: Catalog,
    pub(crate) providers: HashMap<Arc<str>, Arc<Provider>>,
    pub(crate) routing: RoutingSettings,
    pub(crate) request_limits: RequestLimits,
    /// What calls tell each other about routes; outlives the configuration.
    pub(crate) state: Arc<RoutingState>,
}
