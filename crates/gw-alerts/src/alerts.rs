//! The alerts in force: which events they want, and the queue of their messages.

use std::collections::HashSet;
use std::sync::Arc;

use gw_store::Store;
use gw_store::alerts::{AlertClaim, QueueResult, QueuedAlert};
use gw_wire::calendar::unix_millis;
use gw_wire::hex;
use parking_lot::{Mutex, RwLock};
use prometheus_client::registry::Registry;
use sha2::{Digest, Sha256};
use tokio::sync::Notify;

use crate::destination::{AlertError, Destination};
use crate::event::{BudgetSpending, EventData};
use crate::held::HeldMessages;
use crate::metrics::{DeliveryMetrics, DeliveryOutcome};
use crate::settings::AlertSettings;
use crate::trigger::{LEDGER_LAG, threshold};

/// The most claims that this process remembers, so that it need not ask the store.
const MAX_KNOWN: usize = 10_000;
/// The seconds of a day.
const DAY: i64 = 86_400;
/// The bytes of a hash in an id.
const ID_BYTES: usize = 16;
/// How long the claim of a budget that never begins anew is kept.
const FOREVER: i64 = i64::MAX;

/// The alerts. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Alerts(Arc<Shared>);

/// Alerts of a configuration that is not in force yet.
#[derive(Debug)]
pub struct PreparedAlerts(Arc<[Arc<Destination>]>);

impl PreparedAlerts {
    /// Prepares the alerts of a configuration.
    ///
    /// # Errors
    /// An alert cannot be used.
    pub fn new(settings: &[AlertSettings]) -> Result<Self, AlertError> {
        let all = settings.iter().map(|settings| Destination::new(settings.clone()).map(Arc::new));
        Ok(Self(all.collect::<Result<_, _>>()?))
    }
}

#[derive(Debug)]
struct Shared {
    store: Store,
    metrics: DeliveryMetrics,
    destinations: RwLock<Arc<[Arc<Destination>]>>,
    /// Claims that some process has made, with their ends.
    known: Mutex<HashSet<String>>,
    /// Messages that the store did not take.
    held: HeldMessages,
    /// Wakes the delivery.
    queued: Notify,
}

impl Alerts {
    /// The alerts of a gateway that starts.
    #[must_use]
    pub fn new(store: Store, first: PreparedAlerts, registry: &mut Registry) -> Self {
        let metrics = DeliveryMetrics::register(registry);
        let destinations = RwLock::new(first.0);
        let (known, held, queued) = (Mutex::default(), HeldMessages::default(), Notify::new());
        Self(Arc::new(Shared { store, metrics, destinations, known, held, queued }))
    }

    /// Replaces the alerts.
    pub fn replace(&self, next: PreparedAlerts) {
        *self.0.destinations.write() = next.0;
    }

    /// Whether there is no alert.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.destinations.read().is_empty()
    }

    pub(crate) fn destinations(&self) -> Arc<[Arc<Destination>]> {
        Arc::clone(&self.0.destinations.read())
    }

    pub(crate) fn store(&self) -> &Store {
        &self.0.store
    }

    pub(crate) fn held(&self) -> &HeldMessages {
        &self.0.held
    }

    pub(crate) fn count(&self, alert: &str, outcome: DeliveryOutcome) {
        self.0.metrics.count(alert, outcome);
    }

    /// Waits until a message is queued.
    pub(crate) async fn queued(&self) {
        self.0.queued.notified().await;
    }

    /// Whether an alert wants this event.
    pub(crate) fn wants(&self, event: &str) -> bool {
        self.destinations().iter().any(|alert| alert.settings.on.iter().any(|on| on == event))
    }

    /// Tells of a budget: each threshold that it has reached, once in its period.
    pub async fn tell_budget(&self, spending: &BudgetSpending) {
        let now = unix_millis();
        let until = match (spending.rolling_seconds, spending.resets_at) {
            (Some(seconds), _) => now.div_euclid(1_000).saturating_add(seconds),
            (None, Some(at)) => at,
            (None, None) => FOREVER,
        };
        let split = spending.split.as_ref().map(|split| serde_json::to_string(split).unwrap_or_default());
        let period = spending.began_at.map_or_else(String::new, |at| at.to_string());
        for destination in self.destinations().iter() {
            for event in &destination.settings.on {
                let Some(fraction) = threshold(event).filter(|fraction| spending.has_reached(*fraction))
                else {
                    continue;
                };
                let counter = [spending.kind.as_str(), &spending.id, split.as_deref().unwrap_or("")];
                let parts = [&*destination.settings.name, &fraction.to_string()];
                let claim = name_of(parts.iter().copied().chain(counter).chain([spending.period, &period]));
                self.queue(destination, event, AlertClaim { claim, until }, &spending.data(fraction), now)
                    .await;
            }
        }
    }

    /// Tells of an event: once for its name and day.
    pub async fn tell(&self, event: &str, kind: &'static str, name: &str) {
        let now = unix_millis();
        let day = now.div_euclid(1_000).div_euclid(DAY);
        for destination in self.destinations().iter() {
            if !destination.settings.on.iter().any(|on| on == event) {
                continue;
            }
            let parts = [&*destination.settings.name, event, kind, name, &day.to_string()];
            let claim = AlertClaim { claim: name_of(parts.into_iter()), until: (day + 1) * DAY };
            let data = EventData::Subject { kind, name: name.to_owned() };
            self.queue(destination, event, claim, &data, now).await;
        }
    }

    async fn queue(
        &self,
        destination: &Destination,
        event: &str,
        claim: AlertClaim,
        data: &EventData,
        now: i64,
    ) {
        // A claim of a period without a fixed end can be made again when it is over, so the store is asked each time.
        let is_fixed = claim.until == FOREVER || !claim.claim.ends_with('|');
        if is_fixed && self.0.known.lock().contains(&claim.claim) {
            return;
        }
        if self.0.held.has(&claim) {
            return;
        }
        let at = now.div_euclid(1_000);
        let alert = destination.settings.name.clone();
        let id = id_of(&claim);
        let message = QueuedAlert { id, alert, body: data.body(event, at), created_at: now, attempts: 0 };
        match self.0.store.queue_alert(&claim, &message).await {
            Ok(QueueResult::Queued) => {
                tracing::info!(alert = message.alert, event, id = message.id, "an alert is queued");
                self.remember(claim.claim);
                self.0.queued.notify_one();
            }
            Ok(QueueResult::Known) => self.remember(claim.claim),
            Ok(QueueResult::Full) => {
                self.count(&message.alert, DeliveryOutcome::Full);
                tracing::warn!(alert = message.alert, event, "too many messages of this alert wait");
            }
            Err(error) => {
                tracing::warn!(alert = message.alert, event, %error, "an alert waits for the store");
                let alert = message.alert.clone();
                if !self.0.held.hold(claim, message, event == LEDGER_LAG) {
                    self.count(&alert, DeliveryOutcome::Full);
                }
                self.0.queued.notify_one();
            }
        }
    }

    fn remember(&self, claim: String) {
        let mut known = self.0.known.lock();
        if known.len() >= MAX_KNOWN {
            known.clear();
        }
        known.insert(claim);
    }
}

/// The name of a claim. A separator inside a part is doubled, so that two claims never have one name.
fn name_of<'a>(parts: impl Iterator<Item = &'a str>) -> String {
    parts.map(|part| part.replace('|', "||")).collect::<Vec<_>>().join("|")
}

/// The id of a message, which names the claim and its end. All processes that tell of an event without the store use one id.
fn id_of(claim: &AlertClaim) -> String {
    let hash = Sha256::digest(format!("{}|{}", claim.claim, claim.until).as_bytes());
    format!("msg_{}", hex::encode(hash.get(..ID_BYTES).unwrap_or_default()))
}

/// The event of a test.
pub(crate) fn test_body(name: &str, at: i64) -> String {
    EventData::Subject { kind: crate::trigger::TEST, name: name.to_owned() }.body(crate::trigger::TEST, at)
}
