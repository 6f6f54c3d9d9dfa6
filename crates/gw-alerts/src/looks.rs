//! Looks at the state of the gateway: providers, keys, the ledger, the certificate, the catalogue, and the sums of days.

use std::time::{Duration, Instant};

use gw_engine::Engine;
use gw_providers::provider::KeyState;
use gw_routing::health::HealthStatus;
use gw_store::Store;
use gw_store::ledger::{Filter, Sums};
use gw_wire::calendar::{day_of_date, unix_seconds};

use crate::alerts::Alerts;
use crate::conditions::Conditions;
use crate::trigger::{
    CATALOGUE_OLD, CERTIFICATE_EXPIRING, COST_RISE, ERROR_RISE, KEY_DEAD, LEDGER_LAG, PROVIDER_DOWN,
};

/// Rows that wait longer than this are late.
const MAX_LAG: Duration = Duration::from_secs(60);
/// A certificate that ends within these days ends soon.
const CERTIFICATE_DAYS: i64 = 21;
/// A catalogue is old after these days.
const CATALOGUE_DAYS: i64 = 60;
/// The seconds and the milliseconds of a day.
const DAY: i64 = 86_400;
const DAY_MILLIS: i64 = DAY * 1_000;
/// The days of a week.
const WEEK: i64 = 7;
/// A day's cost rises by this factor, and to at least this amount (femto-USD), before it is told.
const COST_FACTOR: i128 = 2;
const MIN_COST: i128 = 1_000_000_000_000_000;
/// A day's failures rise to this part of its requests more than before, in per cent, and to at least this number.
const ERROR_POINTS: u64 = 5;
const MIN_FAILED: u64 = 20;

/// Tells of providers that are down and of keys that their providers refuse.
pub(crate) async fn at_providers(alerts: &Alerts, engine: &Engine) {
    let (wants_down, wants_dead) = (alerts.wants(PROVIDER_DOWN), alerts.wants(KEY_DEAD));
    if !wants_down && !wants_dead {
        return;
    }
    let configured = engine.configured();
    for deployed in &configured.deployed {
        let name = deployed.provider.name();
        let is_dead = |(state, _): &(KeyState, _)| matches!(state, KeyState::Dead(_));
        if wants_dead && deployed.provider.keys().iter().any(is_dead) {
            alerts.tell(KEY_DEAD, "provider", name).await;
        }
        if wants_down && is_down(engine, name) {
            alerts.tell(PROVIDER_DOWN, "provider", name).await;
        }
    }
}

/// Whether a provider is down: the circuit of a model is open, and no model that was called lately can be called.
fn is_down(engine: &Engine, provider: &str) -> bool {
    let (breaker, now) = (engine.breaker_settings(), Instant::now());
    let (mut has_open, mut has_able) = (false, false);
    for model in engine.models_of(provider) {
        match model.health.status(&breaker, now) {
            HealthStatus::Open { .. } | HealthStatus::Probing | HealthStatus::Ready => has_open = true,
            HealthStatus::Able | HealthStatus::Ramping { .. } | HealthStatus::Resting { .. } => {
                has_able |= model.measured.window().samples > 0;
            }
        }
    }
    has_open && !has_able
}

/// Tells of rows that wait for the ledger.
pub(crate) async fn at_the_ledger(alerts: &Alerts, conditions: &dyn Conditions) {
    if alerts.wants(LEDGER_LAG) && conditions.ledger_lag() > MAX_LAG {
        alerts.tell(LEDGER_LAG, "ledger", "ledger").await;
    }
}

/// Tells of a certificate that ends soon and of an old catalogue.
pub(crate) async fn at_dates(alerts: &Alerts, engine: &Engine, conditions: &dyn Conditions) {
    let now = unix_seconds();
    if alerts.wants(CERTIFICATE_EXPIRING)
        && let Some((name, end)) = conditions.certificate()
        && end - now < CERTIFICATE_DAYS * DAY
    {
        alerts.tell(CERTIFICATE_EXPIRING, "certificate", &name).await;
    }
    if alerts.wants(CATALOGUE_OLD)
        && let Some((date, day)) = newest(&engine.configured().documents)
        && now.div_euclid(DAY) - day > CATALOGUE_DAYS
    {
        alerts.tell(CATALOGUE_OLD, "catalogue", &date).await;
    }
}

/// The newest date of a price in these documents, and its day since 1970.
fn newest(documents: &[std::sync::Arc<str>]) -> Option<(String, i64)> {
    const MEMBER: &str = "\"as_of\":";
    let dates = documents.iter().flat_map(|document| document.split(MEMBER).skip(1));
    let newest = dates.filter_map(|rest| rest.trim_start().strip_prefix('"')?.get(..10)).max()?;
    let mut parts = newest.split('-').map(|part| part.parse::<i64>().ok());
    let day = day_of_date(parts.next()??, parts.next()??, parts.next()??)?;
    Some((newest.to_owned(), day))
}

/// Tells of the day before, if it cost more or failed more often than the same day of the week before.
pub(crate) async fn at_days(alerts: &Alerts, store: &Store) {
    let (wants_cost, wants_errors) = (alerts.wants(COST_RISE), alerts.wants(ERROR_RISE));
    if !wants_cost && !wants_errors {
        return;
    }
    let today = unix_seconds().div_euclid(DAY);
    let (last, before) = (of_day(store, today - 1).await, of_day(store, today - 1 - WEEK).await);
    let (Some(last), Some(before)) = (last, before) else { return };
    let date = gw_wire::calendar::rfc3339((today - 1) * DAY);
    let date = date.split('T').next().unwrap_or_default();
    if wants_cost && cost_rises(&last, &before) {
        alerts.tell(COST_RISE, "day", date).await;
    }
    if wants_errors && errors_rise(&last, &before) {
        alerts.tell(ERROR_RISE, "day", date).await;
    }
}

async fn of_day(store: &Store, day: i64) -> Option<Sums> {
    let (since, until) = (Some(day * DAY_MILLIS), Some((day + 1) * DAY_MILLIS));
    store.total(&Filter { since, until, ..Filter::default() }).await.ok()
}

/// A week without requests is no measure.
fn cost_rises(last: &Sums, before: &Sums) -> bool {
    before.cost > 0 && last.cost >= MIN_COST && last.cost >= before.cost.saturating_mul(COST_FACTOR)
}

fn errors_rise(last: &Sums, before: &Sums) -> bool {
    let percent = |sums: &Sums| sums.failed.saturating_mul(100).checked_div(sums.requests);
    match (percent(last), percent(before)) {
        (Some(now), Some(then)) => last.failed >= MIN_FAILED && now >= then.saturating_add(ERROR_POINTS),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use gw_store::ledger::Sums;

    use super::{MIN_COST, cost_rises, errors_rise, newest};

    #[test]
    fn a_rise_is_compared_with_the_week_before() {
        let cost = |cost| Sums { requests: 1, cost, ..Sums::default() };
        assert!(cost_rises(&cost(2 * MIN_COST), &cost(MIN_COST)));
        assert!(!cost_rises(&cost(2 * MIN_COST - 1), &cost(MIN_COST)));
        assert!(!cost_rises(&cost(MIN_COST - 1), &cost(1)) && !cost_rises(&cost(MIN_COST), &cost(0)));
        let failed = |failed| Sums { requests: 1_000, failed, ..Sums::default() };
        assert!(errors_rise(&failed(60), &failed(10)) && !errors_rise(&failed(50), &failed(10)));
        assert!(!errors_rise(&failed(900), &Sums::default()));
    }

    #[test]
    fn the_newest_price_dates_a_catalogue() {
        let documents = [Arc::from(r#"{"as_of":"2026-01-02"}"#), Arc::from(r#"{"as_of": "2026-03-01"}"#)];
        assert_eq!(newest(&documents), Some(("2026-03-01".to_owned(), 20_513)));
        assert_eq!(newest(&[Arc::from("{}")]), None);
    }
}
