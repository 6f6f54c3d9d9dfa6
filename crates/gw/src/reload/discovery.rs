//! The tasks that keep the lists of discovered models up to date: one for each provider that lists its models.

use std::collections::HashMap;
use std::sync::Arc;

use gw_engine::Engine;
use gw_providers::provider::Provider;
use tokio::task::AbortHandle;

use crate::model_discovery;

/// The running tasks, by the name of their provider.
#[derive(Debug, Default)]
pub(super) struct DiscoveryTasks(HashMap<Arc<str>, (Arc<Provider>, AbortHandle)>);

impl DiscoveryTasks {
    /// Starts and stops tasks until each provider of the engine that lists its models has one.
    pub(super) fn follow(&mut self, engine: &Arc<Engine>) {
        let configured = engine.configured();
        let listing = || configured.deployed.iter().filter(|deployed| deployed.discovers);
        self.0.retain(|_, (provider, task)| {
            let is_kept = listing().any(|deployed| Arc::ptr_eq(&deployed.provider, provider));
            if !is_kept {
                task.abort();
            }
            is_kept
        });
        for deployed in listing() {
            let provider = &deployed.provider;
            self.0.entry(Arc::clone(provider.name())).or_insert_with(|| {
                let task = model_discovery::keep_up_to_date(Arc::clone(engine), Arc::clone(provider));
                (Arc::clone(provider), tokio::spawn(task).abort_handle())
            });
        }
    }
}
