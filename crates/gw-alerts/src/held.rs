//! Messages that the store did not take: they wait in memory until it takes them. A message about the store itself cannot wait for it,
//! so it is sent at once, and claimed later.

use gw_store::alerts::{AlertClaim, QueueResult, QueuedAlert};
use gw_wire::calendar::{unix_millis, unix_seconds};
use parking_lot::Mutex;

use crate::alerts::Alerts;
use crate::metrics::DeliveryOutcome;
use crate::schedule::delay;

/// The most messages that wait in memory.
const MAX_HELD: usize = 1_000;

#[derive(Clone, Debug)]
struct HeldMessage {
    claim: AlertClaim,
    message: QueuedAlert,
    /// Whether it is sent before the store has it.
    is_urgent: bool,
    is_delivered: bool,
    /// The unix millisecond of the next attempt.
    due_at: i64,
}

/// The messages that wait for the store, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct HeldMessages(Mutex<Vec<HeldMessage>>);

impl HeldMessages {
    /// Whether a message of this claim waits.
    pub(crate) fn has(&self, claim: &AlertClaim) -> bool {
        self.0.lock().iter().any(|held| held.claim.claim == claim.claim)
    }

    /// Keeps a message. False: too many wait.
    pub(crate) fn hold(&self, claim: AlertClaim, message: QueuedAlert, is_urgent: bool) -> bool {
        let mut all = self.0.lock();
        // Few messages are urgent: one for each claim. They are those about the fault that fills the list.
        let has_room = all.len() < MAX_HELD || is_urgent;
        if has_room {
            all.push(HeldMessage { claim, message, is_urgent, is_delivered: false, due_at: 0 });
        }
        has_room
    }

    fn all(&self) -> Vec<HeldMessage> {
        self.0.lock().clone()
    }

    fn remove(&self, id: &str) {
        self.0.lock().retain(|held| held.message.id != id);
    }

    fn update(&self, id: &str, change: impl FnOnce(&mut HeldMessage)) {
        if let Some(held) = self.0.lock().iter_mut().find(|held| held.message.id == id) {
            change(held);
        }
    }
}

/// Sends the urgent messages that are due, and gives all messages to the store if it takes them again.
pub(crate) async fn look(alerts: &Alerts) {
    send_urgent(alerts).await;
    for held in alerts.held().all() {
        let message = &held.message;
        match alerts.store().queue_alert(&held.claim, message).await {
            Ok(QueueResult::Full) => {
                alerts.count(&message.alert, DeliveryOutcome::Full);
                alerts.held().remove(&message.id);
            }
            Ok(result) => {
                if result == QueueResult::Queued && held.is_delivered {
                    let _ = alerts.store().remove_alert(&message.id).await;
                }
                alerts.held().remove(&message.id);
                tracing::info!(
                    alert = message.alert,
                    id = message.id,
                    "the store has an alert that waited for it"
                );
            }
            // The others would fail, too.
            Err(_) => return,
        }
    }
}

async fn send_urgent(alerts: &Alerts) {
    let now = unix_millis();
    let is_due = |held: &HeldMessage| held.is_urgent && !held.is_delivered && held.due_at <= now;
    for held in alerts.held().all().into_iter().filter(is_due) {
        let (message, destinations) = (&held.message, alerts.destinations());
        let found = destinations.iter().find(|alert| alert.settings.name == message.alert);
        let Some(destination) = found else { continue };
        let attempt = destination.send(&message.id, &message.body, unix_seconds()).await;
        let outcome = match &attempt.error {
            None => DeliveryOutcome::Delivered,
            Some(error) => {
                tracing::warn!(alert = message.alert, id = message.id, error, "an alert is not delivered");
                DeliveryOutcome::Failed
            }
        };
        alerts.count(&message.alert, outcome);
        alerts.held().update(&message.id, |held| {
            held.is_delivered = outcome == DeliveryOutcome::Delivered;
            held.message.attempts += 1;
            let wait = i64::try_from(delay(held.message.attempts).as_millis()).unwrap_or(i64::MAX);
            held.due_at = unix_millis().saturating_add(wait);
        });
    }
}
