//! The delivery: sends what waits in the queue, each alert by itself, until the receiver takes it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use gw_store::Result;
use gw_store::alerts::AlertQueue;
use gw_wire::calendar::{unix_millis, unix_seconds};
use tokio::task::JoinHandle;

use crate::alerts::Alerts;
use crate::destination::Destination;
use crate::held;
use crate::metrics::DeliveryOutcome;
use crate::schedule::{LIFETIME, delay};

/// The time between two looks at the queue.
const INTERVAL: Duration = Duration::from_millis(500);
/// The looks between two purges.
const PURGE_EVERY: u32 = 600;
/// The time beyond its timeout for which a process keeps a message that it sends.
const LEASE: Duration = Duration::from_secs(2);

/// Delivers for as long as the program runs.
pub async fn run(alerts: Alerts) {
    if !alerts.store().is_server()
        && let Err(error) = alerts.store().release_alerts(unix_millis()).await
    {
        tracing::debug!(%error, "alerts that were under way wait for their lease");
    }
    let mut running: HashMap<String, JoinHandle<()>> = HashMap::new();
    let mut looks = 0_u32;
    loop {
        if !alerts.is_empty() {
            if looks.is_multiple_of(PURGE_EVERY) {
                purge(&alerts).await;
            }
            looks = looks.wrapping_add(1);
            held::look(&alerts).await;
            match alerts.store().alert_queues().await {
                Ok(queues) => start_due(&alerts, queues, &mut running),
                Err(error) => tracing::debug!(%error, "the queue of alerts cannot be read"),
            }
        }
        let _ = tokio::time::timeout(INTERVAL, alerts.queued()).await;
    }
}

/// Starts the delivery of each queue that has a message due, unless it runs already.
fn start_due(alerts: &Alerts, queues: Vec<AlertQueue>, running: &mut HashMap<String, JoinHandle<()>>) {
    running.retain(|_, task| !task.is_finished());
    let now = unix_millis();
    for queue in queues.into_iter().filter(|queue| queue.due_at <= now) {
        let destinations = alerts.destinations();
        let found = destinations.iter().find(|alert| alert.settings.name == queue.alert);
        let Some(destination) = found.filter(|_| !running.contains_key(&queue.alert)) else { continue };
        let (alerts, destination) = (alerts.clone(), Arc::clone(destination));
        running.insert(queue.alert, tokio::spawn(async move { deliver_due(&alerts, &destination).await }));
    }
}

/// Sends the messages of an alert that are due, one after another.
async fn deliver_due(alerts: &Alerts, destination: &Destination) {
    loop {
        match deliver_one(alerts, destination).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::warn!(alert = destination.settings.name, %error, "the queue of alerts cannot be used");
                return;
            }
        }
    }
}

/// Sends the first message that is due. Returns whether there was one.
async fn deliver_one(alerts: &Alerts, destination: &Destination) -> Result<bool> {
    let (store, settings) = (alerts.store(), &destination.settings);
    let now = unix_millis();
    let lease = millis(settings.timeout.saturating_add(LEASE));
    let Some(message) = store.take_alert(&settings.name, now, now.saturating_add(lease)).await? else {
        return Ok(false);
    };
    let alert = &*settings.name;
    if now.saturating_sub(message.created_at) > millis(LIFETIME) {
        tracing::warn!(alert, id = message.id, "an alert was not delivered for a day and is given up");
        alerts.count(alert, DeliveryOutcome::GivenUp);
        store.remove_alert(&message.id).await?;
        return Ok(true);
    }
    let attempt = destination.send(&message.id, &message.body, unix_seconds()).await;
    match attempt.error {
        None => {
            tracing::info!(alert, id = message.id, "an alert is delivered");
            alerts.count(alert, DeliveryOutcome::Delivered);
            store.remove_alert(&message.id).await?;
        }
        Some(error) => {
            alerts.count(alert, DeliveryOutcome::Failed);
            tracing::warn!(
                alert,
                id = message.id,
                attempts = message.attempts,
                error,
                "an alert is not delivered"
            );
            let due_at = unix_millis().saturating_add(millis(delay(message.attempts)));
            store.delay_alert(&message.id, due_at, &error).await?;
        }
    }
    Ok(true)
}

/// Gives up what is older than a day, also of alerts that the configuration does not have any more.
async fn purge(alerts: &Alerts) {
    let oldest = unix_millis().saturating_sub(millis(LIFETIME));
    match alerts.store().purge_alerts(oldest, unix_seconds()).await {
        Ok(0) => {}
        Ok(count) => tracing::warn!(count, "alerts were not delivered for a day and are given up"),
        Err(error) => tracing::debug!(%error, "the queue of alerts cannot be purged"),
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
