//! The engine's answers to the management API.

use bytes::Bytes;
use gw_providers::provider::KeyState;
use serde_json::json;

use crate::auth::Caller;
use crate::catalog::query::Query;
use crate::engine::{Deployed, Engine};
use crate::error::Result;
use crate::explain;
use crate::response_cache::operate;

impl Engine {
    /// `GET /admin/v1/providers`: the providers in the order of the configuration and how their keys stand. Keys are
    /// named by their place there, never by what they are.
    #[must_use]
    pub fn providers(&self) -> Bytes {
        let snapshot = self.snapshot();
        let data: Vec<serde_json::Value> = self
            .deployed
            .iter()
            .map(|Deployed { provider, .. }| {
                let models = snapshot.catalog.count(provider.name());
                let keys = provider.keys().into_iter().enumerate().map(|(place, (state, back))| {
                    let status = if let KeyState::Dead(status) = state { status } else { None };
                    let seconds = back.map(|back| back.as_secs_f64().ceil());
                    json!({"key": place + 1, "state": state.as_str(), "status": status, "tried_again_in_seconds": seconds})
                });
                let targets = explain::targets(&snapshot, provider.name());
                json!({"name": &**provider.name(), "api": provider.api().as_str(), "models": models, "keys": keys.collect::<Vec<_>>(), "targets": targets})
            })
            .collect();
        Bytes::from(json!({"object": "list", "data": data}).to_string())
    }

    /// `POST /admin/v1/routing/explain`: where this request would go, and why. With `?key=ID` as if that key asked.
    ///
    /// # Errors
    /// What the request would be refused with; an unknown key.
    pub fn explain(&self, caller: &Caller, query: &str, body: Bytes) -> Result<Bytes> {
        let caller = match Query::parse(query).last("key") {
            None => caller.clone(),
            Some(id) => self.keys.find(id).ok_or_else(|| explain::no_such_key(id))?,
        };
        explain::explain(self, &caller, body)
    }

    /// `GET /admin/v1/config`: what is configured, secrets masked.
    #[must_use]
    pub fn configuration(&self) -> Bytes {
        let shown = if self.settings.shown.is_empty() { "{}" } else { &self.settings.shown };
        Bytes::from(format!("{{\"object\":\"config\",\"settings\":{shown}}}"))
    }

    /// `GET /admin/v1/cache`.
    #[must_use]
    pub fn cache_figures(&self) -> Bytes {
        operate::figures(self.response_cache())
    }

    /// `DELETE /admin/v1/cache` with its query.
    ///
    /// # Errors
    /// An unknown parameter or key; a shared store that did not hear of it.
    pub async fn purge_cache(&self, query: &str) -> Result<Bytes> {
        operate::purge(self, self.response_cache(), query).await
    }
}
