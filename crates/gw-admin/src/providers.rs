//! The configured providers: how their keys and their models stand.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use gw_engine::Engine;
use gw_engine::catalog::Model;
use gw_engine::engine::Deployed;
use gw_providers::provider::KeyState;
use gw_routing::health::{BreakerSettings, Standing};
use serde_json::{Value, json};

use crate::write::standing;

/// `GET /admin/v1/providers`: the providers in the order of the configuration. A key is named by its place there, never by
/// its secret.
#[must_use]
pub fn list(engine: &Engine) -> Bytes {
    let breaker = engine.breaker_settings();
    let data: Vec<Value> = engine.deployed().iter().map(|deployed| row(engine, deployed, &breaker)).collect();
    Bytes::from(json!({"object": "list", "data": data}).to_string())
}

fn row(engine: &Engine, Deployed { provider, .. }: &Deployed, breaker: &BreakerSettings) -> Value {
    let models = engine.models_of(provider.name());
    let now = Instant::now();
    let keys = provider.keys().into_iter().enumerate().map(|(place, (state, back))| {
        let status = if let KeyState::Dead(status) = state { status } else { None };
        let seconds = back.map(|back| back.as_secs_f64().ceil());
        json!({"key": place + 1, "state": state.as_str(), "status": status, "tried_again_in_seconds": seconds})
    });
    json!({
        "name": &**provider.name(),
        "api": provider.api().as_str(),
        "models": models.len(),
        "keys": keys.collect::<Vec<_>>(),
        "targets": models.iter().filter_map(|model| target(model, breaker, now)).collect::<Vec<_>>(),
    })
}

/// The state of a model; `None` if the gateway has not called it lately and may call it.
fn target(model: &Arc<Model>, breaker: &BreakerSettings, now: Instant) -> Option<Value> {
    let (window, seen) = (model.measured.window(), model.measured.seen(now));
    let stands = model.health.standing(breaker, now);
    if window.samples == 0 && seen.in_flight == 0 && stands == Standing::Able {
        return None;
    }
    let left = match stands {
        Standing::Resting { left } | Standing::Open { left } => Some(left.as_secs_f64().ceil()),
        _ => None,
    };
    Some(json!({
        "model": &*model.id,
        "standing": standing(stands),
        "asked_again_in_seconds": left,
        "in_flight": seen.in_flight,
        "samples": window.samples,
        "availability": window.availability,
        "latency_p50_ms": window.p50_ms,
        "latency_p99_ms": window.p99_ms,
        "first_token_ms": seen.ttft_ms,
        "tokens_per_second": seen.tokens_per_second,
        "error_rate": seen.error_rate,
    }))
}
