//! The requests of operators: the list of alerts, and a test.

use gw_admin::{AlertFuture, AlertService};
use gw_engine::error::{Error, Kind, Result};
use gw_store::alerts::AlertQueue;
use gw_wire::calendar::{unix_millis, unix_seconds};
use serde_json::{Value, json};

use crate::alerts::{Alerts, test_body};
use crate::destination::{Attempt, Destination};

impl AlertService for Alerts {
    fn list(&self) -> AlertFuture {
        let alerts = self.clone();
        Box::pin(async move { list(&alerts).await })
    }

    fn test(&self, name: String) -> AlertFuture {
        let alerts = self.clone();
        Box::pin(async move { test(&alerts, &name).await })
    }
}

async fn list(alerts: &Alerts) -> Result<Value> {
    let queues = alerts.store().alert_queues().await.map_err(|error| {
        tracing::warn!(%error, "the queue of alerts cannot be read");
        Error::new(Kind::StoreUnavailable, "The store is not available now.")
    })?;
    let destinations = alerts.destinations();
    let data: Vec<Value> = destinations.iter().map(|alert| object(alert, &queues)).collect();
    Ok(json!({ "object": "list", "data": data }))
}

fn object(alert: &Destination, queues: &[AlertQueue]) -> Value {
    let settings = &alert.settings;
    let queue = queues.iter().find(|queue| queue.alert == settings.name);
    json!({
        "name": settings.name,
        "on": settings.on,
        "format": settings.format.as_str(),
        "url": alert.shown_url(),
        "waiting": queue.map_or(0, |queue| queue.waiting),
        "last_error": queue.and_then(|queue| queue.last_error.as_deref()),
    })
}

/// Sends a test once.
async fn test(alerts: &Alerts, name: &str) -> Result<Value> {
    let destinations = alerts.destinations();
    let Some(alert) = destinations.iter().find(|alert| alert.settings.name == name) else {
        return Err(Error::new(Kind::NotFound, "There is no alert of this name."));
    };
    let now = unix_seconds();
    let id = format!("msg_test_{}", unix_millis());
    let Attempt { status, error, latency } = alert.send(&id, &test_body(name, now), now).await;
    let latency_ms = u64::try_from(latency.as_millis()).unwrap_or(u64::MAX);
    Ok(json!({ "delivered": error.is_none(), "status": status, "error": error, "latency_ms": latency_ms }))
}
