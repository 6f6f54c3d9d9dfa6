//! The limits in the body of a key or a team.

use gw_store::limits::{Budget, Limits, OnBudget, Period, UnpricedPolicy};
use gw_wire::json::View;
use gw_wire::request::Invalid;
use gw_wire::request::fields::{Path, invalid_value};

use super::fields::{Patch, money, nullable, on_budget, period, positive, unpriced};

/// The members of a body that are limits.
pub(super) const LIMIT_MEMBERS: [&str; 8] =
    ["rpm", "burst", "tpm", "max_in_flight", "budget_usd", "budget_period", "on_budget", "unpriced"];

const MAX_RPM: i64 = 10_000_000;
const MAX_TPM: i64 = 1_000_000_000_000;
const MAX_IN_FLIGHT: i64 = 1_000_000;

/// Changes of limits.
#[derive(Debug, Default)]
pub(super) struct LimitChanges {
    rpm: Patch<u32>,
    burst: Patch<u32>,
    tpm: Patch<u64>,
    max_in_flight: Patch<u32>,
    /// Nano-USD.
    budget: Patch<u64>,
    period: Patch<Period>,
    on_budget: Patch<OnBudget>,
    unpriced: Patch<UnpricedPolicy>,
}

impl LimitChanges {
    /// Reads a member. Returns false if the member is not a limit.
    ///
    /// # Errors
    /// The error in the value.
    pub(super) fn read(&mut self, name: &str, value: View<'_>) -> Result<bool, Invalid> {
        let path = &Path::Top(name);
        match name {
            "rpm" => self.rpm = nullable(value, |value| positive(path, value, MAX_RPM))?,
            "burst" => self.burst = nullable(value, |value| positive(path, value, MAX_RPM))?,
            "tpm" => self.tpm = nullable(value, |value| positive(path, value, MAX_TPM))?,
            "max_in_flight" => {
                self.max_in_flight = nullable(value, |value| positive(path, value, MAX_IN_FLIGHT))?;
            }
            "budget_usd" => self.budget = nullable(value, |value| money(path, value))?,
            "budget_period" => self.period = nullable(value, |value| period(path, value))?,
            "on_budget" => self.on_budget = nullable(value, |value| on_budget(path, value))?,
            "unpriced" => self.unpriced = nullable(value, |value| unpriced(path, value))?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The limits `before` with these changes.
    ///
    /// # Errors
    /// `invalid_value` for a member that requires another one.
    pub(super) fn apply(&self, before: Limits) -> Result<Limits, Invalid> {
        let budget = self.new_budget(before.budget)?;
        let rpm = self.rpm.unwrap_or(before.rpm);
        Ok(Limits {
            rpm,
            burst: self.new_burst(rpm, before.burst)?,
            tpm: self.tpm.unwrap_or(before.tpm),
            max_in_flight: self.max_in_flight.unwrap_or(before.max_in_flight),
            budget,
            on_budget: of_budget("on_budget", budget, self.on_budget, before.on_budget)?,
            unpriced: self.unpriced.map_or(before.unpriced, Option::unwrap_or_default),
        })
    }

    fn new_budget(&self, before: Option<Budget>) -> Result<Option<Budget>, Invalid> {
        let budget = match self.budget {
            None => before,
            Some(nano) => nano.map(|nano| {
                let period = before.map(|before| before.period).unwrap_or_default();
                Budget { nano, period }
            }),
        };
        match (budget, self.period) {
            (None, Some(Some(_))) => Err(requires("budget_period", "budget_usd")),
            (Some(budget), Some(period)) => Ok(Some(Budget { period: period.unwrap_or_default(), ..budget })),
            (budget, _) => Ok(budget),
        }
    }

    /// The burst, which exists only together with `rpm`.
    fn new_burst(&self, rpm: Option<u32>, before: Option<u32>) -> Result<Option<u32>, Invalid> {
        match (rpm, self.burst) {
            (None, Some(Some(_))) => Err(requires("burst", "rpm")),
            (None, _) => Ok(None),
            (Some(_), burst) => Ok(burst.unwrap_or(before)),
        }
    }
}

/// A part of a budget. Without a budget it is the default, so a later budget begins with the default.
fn of_budget<T: Copy + Default>(
    member: &str,
    budget: Option<Budget>,
    change: Patch<T>,
    before: T,
) -> Result<T, Invalid> {
    match (budget, change) {
        (None, Some(Some(_))) => Err(requires(member, "budget_usd")),
        (None, _) => Ok(T::default()),
        (Some(_), change) => Ok(change.map_or(before, Option::unwrap_or_default)),
    }
}

fn requires(member: &str, other: &str) -> Invalid {
    invalid_value(&Path::Top(member), &format!("it requires '{other}'."))
}
