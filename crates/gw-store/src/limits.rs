//! The limits of a key or a team: requests and tokens per minute, concurrent requests, money per period.

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

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

/// A unix second in the form of RFC 3339, in UTC.
#[must_use]
pub fn format_unix_seconds(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
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

    /// The reverse of [`OnBudget::as_str`]. `refuse` is another spelling of `finish`: what the budget does not hold is refused.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let is_meant = |way: &Self| way.as_str() == text || (text == "refuse" && *way == Self::Finish);
        Self::ALL.into_iter().find(is_meant)
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

/// Seconds of a day.
const DAY: i64 = 86_400;

/// The length of a period, and where periods of this length begin in the UTC calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeriodLength {
    /// Whole days.
    Days {
        /// How many.
        count: i64,
        /// A day on which a period begins, counted from the first of January 1970.
        first: i64,
    },
    /// So many months, a divisor of twelve. A year begins with a period.
    Months(i8),
    /// All time.
    Endless,
    /// The last time before now.
    Rolling(RollingWindow),
}

/// The steps in which a rolling period of days moves on in its own length. A step of N days is N hours, so that the hourly sums of
/// the ledger add up to the spending.
pub const ROLLING_STEPS: i64 = 24;

/// The window of a rolling period: 10 s to 366 days.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RollingWindow {
    count: u16,
    unit: WindowUnit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WindowUnit {
    Seconds,
    Minutes,
    Hours,
    Days,
}

impl WindowUnit {
    const ALL: [Self; 4] = [Self::Seconds, Self::Minutes, Self::Hours, Self::Days];

    fn seconds(self) -> i64 {
        match self {
            Self::Seconds => 1,
            Self::Minutes => 60,
            Self::Hours => 3_600,
            Self::Days => DAY,
        }
    }

    fn names(self) -> &'static [[u8; 5]] {
        match self {
            Self::Seconds => &SECONDS,
            Self::Minutes => &MINUTES,
            Self::Hours => &HOURS,
            Self::Days => &DAYS,
        }
    }
}

/// The digits of a window's number.
const MAX_DIGITS: usize = 4;

impl RollingWindow {
    /// The seconds of the shortest and of the longest window.
    const BOUNDS: (i64, i64) = (10, 366 * DAY);

    /// The window of a name such as `30d` or `90s`. A number of more than four digits becomes a window of the largest unit that divides
    /// it: `86400s` is `1d`.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (count, unit) = name.split_at_checked(name.len().checked_sub(1)?)?;
        let unit =
            WindowUnit::ALL.into_iter().zip(["s", "m", "h", "d"]).find(|(_, letter)| *letter == unit)?.0;
        if count.len() > MAX_DIGITS {
            return Self::of_seconds(count.parse::<u32>().ok()?, count, unit);
        }
        let window = Self { count: count.parse().ok()?, unit };
        let (least, most) = Self::BOUNDS;
        // Not `030d` and not `+30d`: a period has one name.
        Some(window).filter(|window| (least..=most).contains(&window.seconds()) && window.name() == name)
    }

    /// The window of a large number of a unit, which is written as `digits`.
    fn of_seconds(number: u32, digits: &str, unit: WindowUnit) -> Option<Self> {
        let seconds = i64::from(number) * unit.seconds();
        let larger = [WindowUnit::Days, WindowUnit::Hours, WindowUnit::Minutes].into_iter();
        let unit = larger.into_iter().find(|larger| seconds % larger.seconds() == 0)?;
        let window = Self { count: u16::try_from(seconds / unit.seconds()).ok()?, unit };
        let is_plain = number.to_string() == digits;
        let (least, most) = Self::BOUNDS;
        let is_in_bounds = (least..=most).contains(&seconds) && !window.name().is_empty();
        (is_plain && is_in_bounds).then_some(window)
    }

    /// The name, such as `30d`.
    #[must_use]
    pub fn name(self) -> &'static str {
        let name = self.unit.names().get(usize::from(self.count)).map(<[u8; 5]>::as_slice);
        name.and_then(|name| str::from_utf8(name).ok()).unwrap_or_default().trim_start()
    }

    fn is_of_days(self) -> bool {
        self.unit == WindowUnit::Days
    }

    fn seconds(self) -> i64 {
        i64::from(self.count) * self.unit.seconds()
    }

    /// The seconds of a step. A short window has steps of a second.
    fn step(self) -> i64 {
        (self.seconds() / ROLLING_STEPS).max(1)
    }

    /// Start and end of the window around a moment. It is at least as long as its name says, in whole steps, and one step more.
    fn around(self, now: Timestamp) -> (i64, i64) {
        let (length, step) = (self.seconds(), self.step());
        let whole = (length + step - 1) / step * step;
        let end = (now.as_second().div_euclid(step) + 1) * step;
        (end - whole - step, end)
    }
}

/// The names of a unit's windows by their number, with blanks before them.
const fn names<const N: usize>(unit: u8) -> [[u8; 5]; N] {
    let mut names = [[b' ', b' ', b' ', b' ', unit]; N];
    let (mut left, mut count): (&mut [[u8; 5]], u16) = (&mut names, 0);
    while let [[thousands, hundreds, tens, ones, _], rest @ ..] = left {
        *ones = b'0' + (count % 10) as u8;
        if count >= 10 {
            *tens = b'0' + (count / 10 % 10) as u8;
        }
        if count >= 100 {
            *hundreds = b'0' + (count / 100 % 10) as u8;
        }
        if count >= 1_000 {
            *thousands = b'0' + (count / 1_000) as u8;
        }
        (left, count) = (rest, count + 1);
    }
    names
}

static SECONDS: [[u8; 5]; 10_000] = names(b's');
static MINUTES: [[u8; 5]; 10_000] = names(b'm');
static HOURS: [[u8; 5]; 8_785] = names(b'h');
static DAYS: [[u8; 5]; 367] = names(b'd');

/// The table of periods: each row has a name and a length. The enum, its names, its bounds, the scripts of Redis and the values of
/// the configuration are made from it.
macro_rules! periods {
    ($($(#[$note:meta])* $period:ident = $name:literal, $length:expr;)+) => {
        /// The period of a budget, in UTC.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub enum Period {
            $($(#[$note])* $period,)+
            /// The last time before now. The spending of a moment leaves when it is this old, and at most two steps later.
            Rolling(RollingWindow),
        }

        impl Period {
            /// All of the calendar.
            pub const ALL: [Self; Self::NAMES.len()] = [$(Self::$period),+];

            /// The names of all of the calendar.
            pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            /// The spelling in the store, the configuration and the API.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$period => $name,)+
                    Self::Rolling(window) => window.name(),
                }
            }

            /// The length.
            #[must_use]
            pub const fn length(self) -> PeriodLength {
                match self {
                    $(Self::$period => $length,)+
                    Self::Rolling(window) => PeriodLength::Rolling(window),
                }
            }
        }
    };
}

periods! {
    /// A day, from midnight.
    Day = "day", PeriodLength::Days { count: 1, first: 0 };
    /// A week, from Monday's midnight. The first of January 1970 was a Thursday.
    Week = "week", PeriodLength::Days { count: 7, first: -3 };
    /// A month, from its first day.
    #[default]
    Month = "month", PeriodLength::Months(1);
    /// Three months, from the first day of January, April, July and October.
    Quarter = "quarter", PeriodLength::Months(3);
    /// Without end.
    Total = "total", PeriodLength::Endless;
}

impl Period {
    /// The period of a key or a team: the reverse of [`Period::as_str`], without windows shorter than a day.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        Self::parse_any(text).filter(|period| match period {
            Self::Rolling(window) => window.is_of_days(),
            _ => true,
        })
    }

    /// The reverse of [`Period::as_str`]. Only rules have windows that are not of days: the sums of the ledger by key are hourly.
    #[must_use]
    pub fn parse_any(text: &str) -> Option<Self> {
        let calendar = Self::ALL.into_iter().find(|period| period.as_str() == text);
        calendar.or_else(|| RollingWindow::parse(text).map(Self::Rolling))
    }

    /// Start and end of the period that contains this moment, in unix seconds. A moment outside the calendar counts as the
    /// epoch. A rolling period ends with its step: then its start moves on by a step, too.
    #[must_use]
    pub fn around(self, at: i64) -> (i64, i64) {
        let now = Timestamp::from_second(at).unwrap_or(Timestamp::UNIX_EPOCH);
        let bounds = match self.length() {
            PeriodLength::Endless => None,
            PeriodLength::Days { count, first } => Some(days_around(now, count, first)),
            PeriodLength::Months(count) => months_around(now, count),
            PeriodLength::Rolling(window) => Some(window.around(now)),
        };
        bounds.unwrap_or((i64::MIN, i64::MAX))
    }
}

impl Period {
    /// The spending that counts in the period with this start. In a rolling period spending after its end counts, too, so that a
    /// clock that goes back grants nothing anew.
    #[must_use]
    pub fn counted_from(self, start: i64) -> CountedTime {
        let (from, until) = match self {
            Self::Rolling(_) => (start, i64::MAX),
            _ if start == i64::MIN => (i64::MIN, i64::MAX),
            _ => self.around(start),
        };
        CountedTime { from, until, step: self.step() }
    }

    /// The seconds of a step of a rolling period. None if the period does not move on.
    #[must_use]
    pub fn step(self) -> Option<i64> {
        match self {
            Self::Rolling(window) => Some(window.step()),
            _ => None,
        }
    }
}

/// The time whose spending counts in a period, in unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedTime {
    /// The first moment.
    pub from: i64,
    /// The end, which does not belong to it.
    pub until: i64,
    /// The seconds of a step, if the spending of each step of the period is asked for.
    pub step: Option<i64>,
}

fn days_around(now: Timestamp, count: i64, first: i64) -> (i64, i64) {
    let day = now.as_second().div_euclid(DAY);
    let start = day - (day - first).rem_euclid(count);
    (start * DAY, (start + count) * DAY)
}

fn months_around(now: Timestamp, count: i8) -> Option<(i64, i64)> {
    let date = now.to_zoned(TimeZone::UTC).date();
    let month = date.month() - (date.month() - 1).rem_euclid(count);
    let start = Date::new(date.year(), month, 1).ok()?;
    let end = start.checked_add(i32::from(count).months()).ok()?;
    let second = |date: Date| Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_second());
    Some((second(start)?, second(end)?))
}

#[cfg(test)]
mod tests;
