//! The options of `model-gateway reconcile`.

use clap::{Args, ValueEnum};
use gw_command::CommandError;
use gw_command::table::clean;
use gw_wire::calendar;
use gw_wire::money::Money;
use jiff::civil::Date;

/// The most days of a comparison.
const MAX_DAYS: i64 = 92;

/// The options of `reconcile`.
#[derive(Debug, Args)]
pub struct ReconcileArgs {
    /// Provider whose reports are compared; its reconcile table in gateway.toml has the admin key
    #[arg(long, value_name = "NAME")]
    pub provider: String,
    /// First day, in UTC: 2026-11-01
    #[arg(long, value_name = "DAY")]
    pub from: String,
    /// Last day, in UTC: 2026-11-30
    #[arg(long, value_name = "DAY")]
    pub to: String,
    /// Output format
    #[arg(long, value_enum, default_value_t = OutputFormat::Table)]
    pub format: OutputFormat,
    /// Exit with 3 when both totals differ by more than this part of the provider's total
    #[arg(long, value_name = "PERCENT", default_value = "1", value_parser = percent)]
    pub threshold_percent: Money,
}

/// The forms of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// A table for people.
    Table,
    /// JSON.
    Json,
}

/// A number of per cent, exact.
fn percent(text: &str) -> Result<Money, String> {
    match Money::parse_rounded(text, 0) {
        Ok(percent) if percent >= Money::ZERO => Ok(percent),
        _ => Err("write a number of per cent, such as 1 or 0.5".to_owned()),
    }
}

/// Days since 1970 in UTC, the first one and the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DayRange {
    /// The first day.
    pub first: i64,
    /// The last day.
    pub last: i64,
}

impl DayRange {
    /// The days in their order.
    pub fn days(self) -> impl Iterator<Item = i64> {
        self.first..=self.last
    }

    /// Whether the day is one of them.
    #[must_use]
    pub fn has(self, day: i64) -> bool {
        (self.first..=self.last).contains(&day)
    }
}

/// The seconds of a day.
pub(crate) const DAY_SECONDS: i64 = 86_400;

/// The date of a day since 1970.
pub(crate) fn date(day: i64) -> String {
    calendar::rfc3339(day.saturating_mul(DAY_SECONDS)).chars().take("2026-11-01".len()).collect()
}

/// The day of a date.
pub(crate) fn day_of(text: &str) -> Option<i64> {
    let date: Date = (text.len() == "2026-11-01".len()).then(|| text.parse().ok())??;
    calendar::day_of_date(date.year().into(), date.month().into(), date.day().into())
}

impl ReconcileArgs {
    /// The days to compare.
    ///
    /// # Errors
    /// Exit code 2 for a text that is no date, for days in the wrong order, and for more than 92 days.
    pub(crate) fn range(&self) -> Result<DayRange, CommandError> {
        let read = |name: &str, text: &str| {
            let wrong = || {
                CommandError::Usage(format!(
                    "--{name}: write a date (2026-11-21) instead of '{}'",
                    clean(text)
                ))
            };
            day_of(text).ok_or_else(wrong)
        };
        let (first, last) = (read("from", &self.from)?, read("to", &self.to)?);
        if first > last {
            return Err(CommandError::Usage("--to must not be before --from".to_owned()));
        }
        if last - first >= MAX_DAYS {
            return Err(CommandError::Usage(format!("at most {MAX_DAYS} days are compared at once")));
        }
        Ok(DayRange { first, last })
    }
}
