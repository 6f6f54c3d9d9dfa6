//! The services that the steps of a call use.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use gw_limits::Limiter;
use gw_providers::seal::Sealer;
use gw_store::journal::Journal;

use crate::auth::Caller;
use crate::call::Call;
use crate::cpu_pool::CpuPool;
use crate::metrics::Metrics;
use crate::plan::snapshot::Snapshot;
use crate::request::context::RequestContext;
use crate::response::disconnect::{DisconnectDrain, DrainPlaces};
use crate::response_cache::caching::ResponseCache;
use crate::rules::RequestRules;
use crate::shutdown::{CutoffWatch, StreamCutoff};
use crate::stored_responses::{BackgroundResponses, StoredResponses};

/// Everything that the steps of all calls share.
#[derive(Debug)]
pub(crate) struct Services {
    /// The configuration as new calls see it.
    pub(crate) snapshot: ArcSwap<Snapshot>,
    pub(crate) metrics: Arc<Metrics>,
    /// The ledger's journal; None = requests are not recorded.
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) limiter: Limiter,
    /// None = requests may not use a response cache.
    pub(crate) response_cache: ArcSwapOption<ResponseCache>,
    pub(crate) stored_responses: Arc<StoredResponses>,
    pub(crate) background_responses: BackgroundResponses,
    /// Seals the summaries of compacted conversations.
    pub(crate) sealer: Sealer,
    pub(crate) cpu_pool: CpuPool,
    /// Takes over calls whose client disconnects, if the configuration says so.
    pub(crate) drain_places: DrainPlaces,
    pub(crate) stream_cutoff: Arc<StreamCutoff>,
    pub(crate) draining: AtomicBool,
}

impl Services {
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// The rules that apply to a request.
    pub(crate) fn rules_of(&self, snapshot: &Snapshot, client: &RequestContext) -> Option<Arc<RequestRules>> {
        if snapshot.rules.is_empty() {
            return None;
        }
        snapshot.rules.of(&self.limiter, client.asker())
    }

    /// Whether the gateway is shutting down.
    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    /// A new stream's view of the end of the drain.
    pub(crate) fn cutoff_watch(&self) -> CutoffWatch {
        CutoffWatch::new(Arc::clone(&self.stream_cutoff))
    }

    /// Takes over the call if its client disconnects; None = the call is cancelled then.
    pub(crate) fn disconnect_drain_of(&self, call: &Call) -> Option<DisconnectDrain> {
        let drains = call.context.snapshot.routing.drain_on_disconnect;
        drains.then(|| self.drain_places.of(call.context.client.caller.key_id()))
    }

    /// The CPU pool as the caller uses it: the requests of a key share one turn.
    pub(crate) fn cpu_of(&self, caller: &Caller) -> CpuPool {
        self.cpu_pool.of(caller.key_id())
    }
}
