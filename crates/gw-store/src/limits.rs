//! The limits of a key or a team: requests and tokens per minute, concurrent requests, money per period.

use jiff::civil::Weekday;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

/// The limits; None = unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests per minute to the generation endpoints.
    pub rpm: Option<u32>,
    /// How many of these may come at once; the rest is refilled evenly. None = at most `rpm` in any minute.
    pub burst: Option<u32>,
    /// Tokens per minute, prompt and answer.
    pub tpm: Option<u64>,
    /// Concurrent requests.
    pub max_in_flight: Option<u32>,
    /// Money per period.
    pub budget: Option<Budget>,
    /// Treatment of an answer that would exceed the budget.
    pub on_budget: OnBudget,
    /// Treatment of a request whose cost the budget cannot know.
    pub unpriced: UnpricedPolicy,
}

/// Treatment of a request whose cost a budget cannot know, because a price is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnpricedPolicy {
    /// The request passes, and the budget counts the known part of its cost.
    #[default]
    Allow,
    /// The request is refused before anything is sent.
    Refuse,
}

impl UnpricedPolicy {
    /// All.
    pub const ALL: [Self; 2] = [Self::Allow, Self::Refuse];

    /// The spelling in the store, the configuration and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Refuse => "refuse",
        }
    }

    /// The reverse of [`UnpricedPolicy::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.as_str() == text)
    }
}

/// Treatment of an answer that would exceed the budget.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnBudget {
    /// The cost of the whole answer is reserved before it begins, so it is never cut.
    #[default]
    Finish,
    /// The remaining money is enough to begin; the answer is cut when it is used up.
    Cut,
}

impl OnBudget {
    /// All.
    pub const ALL: [Self; 2] = [Self::Finish, Self::Cut];

    /// The spelling in the store, the configuration and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Finish => "finish",
            Self::Cut => "cut",
        }
    }

    /// The reverse of [`OnBudget::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|way| way.as_str() == text)
    }
}

/// The money that may be spent per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The amount in nano-USD.
    pub nano: u64,
    /// The period.
    pub period: Period,
}

impl Budget {
    /// The amount in femto-USD.
    #[must_use]
    pub fn femtos(self) -> i128 {
        i128::from(self.nano) * 1_000_000
    }
}

/// The period of a budget, in UTC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Period {
    /// A day, from midnight.
    Day,
    /// A week, from Monday's midnight.
    Week,
    /// A month, from its first day.
    #[default]
    Month,
    /// Without end.
    Total,
}

impl Period {
    /// All.
    pub const ALL: [Self; 4] = [Self::Day, Self::Week, Self::Month, Self::Total];

    /// The spelling in the store, the configuration and the API.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Day => "day",
            Self::Week => "week",
            Self::Month => "month",
            Self::Total => "total",
        }
    }

    /// The reverse of [`Period::as_str`].
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|period| period.as_str() == text)
    }

    /// Start and end of the period that contains this moment, in unix seconds. A moment outside the calendar counts as the
    /// epoch.
    #[must_use]
    pub fn around(self, at: i64) -> (i64, i64) {
        let now = Timestamp::from_second(at).unwrap_or(Timestamp::UNIX_EPOCH).to_zoned(TimeZone::UTC);
        let bounds = match self {
            Self::Total => None,
            Self::Day => now.start_of_day().ok().map(|start| (start.clone(), start.checked_add(1.day()))),
            Self::Week => monday(&now).map(|start| (start.clone(), start.checked_add(1.week()))),
            Self::Month => now
                .first_of_month()
                .and_then(|first| first.start_of_day())
                .ok()
                .map(|start| (start.clone(), start.checked_add(1.month()))),
        };
        match bounds {
            Some((start, Ok(end))) => (start.timestamp().as_second(), end.timestamp().as_second()),
            _ => (i64::MIN, i64::MAX),
        }
    }
}

fn monday(now: &Zoned) -> Option<Zoned> {
    let back = i64::from(now.weekday().since(Weekday::Monday));
    now.start_of_day().ok()?.checked_sub(back.days()).ok()
}

#[cfg(test)]
mod tests {
    use super::Period;

    /// 2026-11-21T09:38:16Z, a Saturday.
    const NOW: i64 = 1_795_253_896;

    #[test]
    fn periods_begin_and_end_at_midnight_utc() {
        let day = 86_400;
        let midnight = NOW - NOW % day;
        assert_eq!(Period::Day.around(NOW), (midnight, midnight + day));
        assert_eq!(Period::Week.around(NOW), (midnight - 5 * day, midnight + 2 * day));
        assert_eq!(Period::Month.around(NOW), (midnight - 20 * day, midnight + 10 * day));
        assert_eq!(Period::Total.around(NOW), (i64::MIN, i64::MAX));
    }

    #[test]
    fn a_period_includes_its_first_moment() {
        for period in [Period::Day, Period::Week, Period::Month] {
            let (start, end) = period.around(NOW);
            assert_eq!(period.around(start), (start, end), "{period:?}");
            assert_eq!(period.around(end - 1), (start, end), "{period:?}");
            assert_eq!(period.around(end).0, end, "{period:?}");
            assert_eq!(period.around(start - 1).1, start, "{period:?}");
        }
        // A leap day: 2028-02-29T12:00:00Z.
        let (start, end) = Period::Month.around(1_835_438_400);
        assert_eq!((end - start) / 86_400, 29);
    }
}
