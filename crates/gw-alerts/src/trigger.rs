//! The events that an alert names in `on`.

/// The events without a threshold, in the order of the documentation.
pub const EVENTS: [&str; 10] = [
    PROVIDER_DOWN,
    KEY_DEAD,
    PRICE_UNKNOWN,
    LEDGER_LAG,
    SESSION_STOPPED,
    CERTIFICATE_EXPIRING,
    CATALOGUE_OLD,
    COST_RISE,
    ERROR_RISE,
    RECONCILE,
];
/// No model of a provider answers.
pub(crate) const PROVIDER_DOWN: &str = "provider_down";
/// A provider refuses a key.
pub(crate) const KEY_DEAD: &str = "key_dead";
/// The price of a model is unknown.
pub(crate) const PRICE_UNKNOWN: &str = "price_unknown";
/// Rows wait too long for the ledger.
pub(crate) const LEDGER_LAG: &str = "ledger_lag";
/// A guard stopped a session.
pub(crate) const SESSION_STOPPED: &str = "session_stopped";
/// The certificate of the listener ends soon.
pub(crate) const CERTIFICATE_EXPIRING: &str = "certificate_expiring";
/// The model catalogue is old.
pub(crate) const CATALOGUE_OLD: &str = "catalogue_old";
/// A day cost more than the same day of the week before.
pub(crate) const COST_RISE: &str = "cost_rise";
/// A day had more failures than the same day of the week before.
pub(crate) const ERROR_RISE: &str = "error_rise";
/// The nightly comparison with a provider's bill found a difference above its threshold.
pub const RECONCILE: &str = "reconcile";
/// The event of a test.
pub(crate) const TEST: &str = "test";

/// The beginning of the events of budgets.
const BUDGET: &str = "budget:";
/// The millionths of one.
pub(crate) const MILLION: i128 = 1_000_000;
/// The highest fraction of a budget, in whole budgets.
const MAX_FRACTION: i128 = 10;

/// The fraction of a budget at which an event happens, in millionths. None: the event is not one of a budget.
#[must_use]
pub fn threshold(event: &str) -> Option<i128> {
    let text = event.strip_prefix(BUDGET)?;
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(fraction) || fraction.len() > 6 || whole.len() > 6 {
        return None;
    }
    let millionths = format!("{whole}{fraction:0<6}").parse::<i128>().ok()?;
    (1..=MAX_FRACTION * MILLION).contains(&millionths).then_some(millionths)
}

/// Whether an alert can name this event.
#[must_use]
pub fn is_event(event: &str) -> bool {
    EVENTS.contains(&event) || threshold(event).is_some()
}

#[cfg(test)]
mod tests {
    use super::{is_event, threshold};

    #[test]
    fn a_budget_has_a_fraction() {
        for (event, millionths) in [
            ("budget:0.8", 800_000),
            ("budget:1", 1_000_000),
            ("budget:1.0", 1_000_000),
            ("budget:0.05", 50_000),
        ] {
            assert_eq!(threshold(event), Some(millionths), "{event}");
        }
        for event in
            ["budget:", "budget:0", "budget:.5", "budget:11", "budget:-1", "budget:1e1", "budget:80%", "x"]
        {
            assert!(!is_event(event), "{event}");
        }
        assert!(is_event("provider_down"));
    }
}
