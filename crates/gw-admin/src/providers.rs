//! The configured providers, with the state of their keys and models.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use gw_engine::Engine;
use gw_engine::catalog::Model;
use gw_engine::engine::Deployed;
use gw_providers::provider::KeyState;
use gw_routing::health::{BreakerSettings, HealthStatus};
use serde_json::{Value, json};

/// `GET /admin/v1/providers`: the providers in the order of the configuration. A key is named by its position there, never
/// by its secret.
#[must_use]
pub fn list_providers(engine: &Engine) -> Bytes {
    let breaker = engine.breaker_settings();
    let configured = engine.configured();
    let data: Vec<Value> =
        configured.deployed.iter().map(|deployed| provider_object(engine, deployed, &breaker)).collect();
    Bytes::from(json!({"object": "list", "data": data}).to_string())
}

fn provider_object(
    engine: &Engine,
    Deployed { provider, .. }: &Deployed,
    breaker: &BreakerSettings,
) -> Value {
    let models = engine.models_of(provider.name());
    let now = Instant::now();
    let keys = provider.keys().into_iter().enumerate().map(|(index, (state, retry_after))| {
        let status = if let KeyState::Dead(status) = state { status } else { None };
        let seconds = retry_after.map(|time| time.as_secs_f64().ceil());
        json!({"key": index + 1, "state": state.as_str(), "status": status, "tried_again_in_seconds": seconds})
    });
    json!({
        "name": &**provider.name(),
        "api": provider.api().as_str(),
        "models": models.len(),
        "keys": keys.collect::<Vec<_>>(),
        "targets": models.iter().filter_map(|model| model_object(model, breaker, now)).collect::<Vec<_>>(),
    })
}

/// The state of a model; `None` if the gateway has not called the model lately and nothing keeps it from a call.
fn model_object(model: &Arc<Model>, breaker: &BreakerSettings, now: Instant) -> Option<Value> {
    let (window, seen) = (model.measured.window(), model.measured.averages(now));
    let standing = model.health.status(breaker, now);
    if window.samples == 0 && seen.in_flight == 0 && standing == HealthStatus::Able {
        return None;
    }
    let left = match standing {
        HealthStatus::Resting { left } | HealthStatus::Open { left } => Some(left.as_secs_f64().ceil()),
        _ => None,
    };
    Some(json!({
        "model": &*model.id,
        "standing": standing_name(standing),
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

/// The name of a model's standing in answers.
pub(crate) fn standing_name(standing: HealthStatus) -> &'static str {
    match standing {
        HealthStatus::Able => "able",
        HealthStatus::Ramping { .. } => "ramping",
        HealthStatus::Resting { .. } => "resting",
        HealthStatus::Open { .. } => "open",
        HealthStatus::Probing => "probing",
        HealthStatus::Ready => "ready_for_probe",
    }
}
