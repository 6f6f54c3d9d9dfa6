//! The time of day, and the calendar in UTC, counted in days since 1970-01-01.
//!
//! The arithmetic uses eras of 400 years that begin on 1 March, so that the leap day is the last day of a year.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The days from the beginning of the first era, 0000-03-01, to 1970-01-01.
const ERA_TO_1970: u64 = 719_468;
const DAYS_OF_ERA: u64 = 146_097;

/// The time of day by the clock of this machine, since 1970. A clock that stands before 1970 counts as 1970.
///
/// The clock can jump: durations and timeouts are measured with [`std::time::Instant`].
#[must_use]
pub fn since_1970() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// The time of day in unix milliseconds.
#[must_use]
pub fn unix_millis() -> i64 {
    i64::try_from(since_1970().as_millis()).unwrap_or(i64::MAX)
}

/// The time of day in unix seconds.
#[must_use]
pub fn unix_seconds() -> i64 {
    i64::try_from(since_1970().as_secs()).unwrap_or(i64::MAX)
}

/// The year, the month and the day of the month of a day since 1970-01-01.
#[inline]
#[must_use]
pub const fn date_of_day(days: u64) -> (u64, u64, u64) {
    let shifted = days + ERA_TO_1970;
    let (era, day_of_era) = (shifted / DAYS_OF_ERA, shifted % DAYS_OF_ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + (month <= 2) as u64, month, day)
}

/// The days from 1970-01-01 to a date. None: the calendar has no such day, or the year is not one of 0 to 9999.
#[must_use]
pub fn day_of_date(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) || !(0..=9999).contains(&year) {
        return None;
    }
    let (march_year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, year_of_era) = (march_year.div_euclid(400), march_year.rem_euclid(400));
    let leap_days = year_of_era / 4 - year_of_era / 100;
    let day_of_year = (153 * march_month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + leap_days + day_of_year;
    Some(era * DAYS_OF_ERA.cast_signed() + day_of_era - ERA_TO_1970.cast_signed())
}

/// Unix seconds as `YYYY-MM-DDTHH:MM:SSZ`. Seconds before 1970 become its first second.
#[must_use]
pub fn rfc3339(seconds: i64) -> String {
    let seconds = u64::try_from(seconds).unwrap_or_default();
    let ((year, month, day), clock) = (date_of_day(seconds / 86_400), seconds % 86_400);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_each_others_inverse() {
        let mut last = (1969, 12, 31);
        for days in 0..200_000_u64 {
            let (year, month, day) = date_of_day(days);
            assert!((year, month, day) > last, "{days} is not after {last:?}");
            let [year, month, day] = [year, month, day].map(u64::cast_signed);
            assert_eq!(day_of_date(year, month, day), Some(days.cast_signed()), "{year}-{month}-{day}");
            last = date_of_day(days);
        }
    }

    #[test]
    fn dates_are_counted_from_1970() {
        for (date, days) in [
            ((1970, 1, 1), Some(0)),
            ((1969, 12, 31), Some(-1)),
            ((2000, 2, 29), Some(11_016)),
            ((2100, 3, 1), Some(47_541)),
            ((0, 1, 1), Some(-719_528)),
            ((9999, 12, 31), Some(2_932_896)),
            ((2100, 2, 29), None),
            ((2026, 2, 29), None),
            ((2026, 4, 31), None),
            ((2026, 13, 1), None),
            ((2026, 0, 1), None),
            ((2026, 1, 0), None),
            ((10_000, 1, 1), None),
            ((-1, 1, 1), None),
        ] {
            assert_eq!(day_of_date(date.0, date.1, date.2), days, "{date:?}");
        }
    }

    #[test]
    fn times_are_rfc_3339() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_603_200, "2024-12-31T00:00:00Z"),
            (1_795_132_800, "2026-11-20T00:00:00Z"),
            (-5, "1970-01-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }
}
