//! `created`: the dates of the catalogue as Unix seconds.

/// `created` of a model with an unknown release date: the day of the shipped catalogue, 2026-11-20.
pub(super) const UNKNOWN_CREATED: i64 = 1_795_132_800;

/// Midnight UTC of a `YYYY-MM-DD`, or of the first day of a `YYYY-MM`.
pub(super) fn created(release_date: Option<&str>) -> i64 {
    release_date.and_then(seconds).unwrap_or(UNKNOWN_CREATED)
}

fn seconds(date: &str) -> Option<i64> {
    let mut parts = date.splitn(3, '-');
    let year: i64 = parts.next()?.parse().ok().filter(|year| (1970..=9999).contains(year))?;
    let month: i64 = parts.next()?.parse().ok().filter(|month| (1..=12).contains(month))?;
    let day: i64 = parts.next().map_or(Ok(1), str::parse).ok().filter(|day| (1..=31).contains(day))?;
    // A year that begins in March has its leap day at its end, and one formula gives the lengths of its months.
    let (march_year, march_month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days_before_month = (153 * march_month + 2) / 5;
    let leap_days = march_year / 4 - march_year / 100 + march_year / 400;
    let since_year_zero = march_year * 365 + leap_days + days_before_month + day - 1;
    Some((since_year_zero - 719_468) * 86_400)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_midnight_utc() {
        for (date, unix) in [
            ("1970-01-01", 0),
            ("2000-02-29", 951_782_400),
            ("2000-03-01", 951_868_800),
            ("2024-12-31", 1_735_603_200),
            ("2025-09", 1_756_684_800),
            ("2026-11-20", UNKNOWN_CREATED),
        ] {
            assert_eq!(created(Some(date)), unix, "{date}");
        }
    }

    #[test]
    fn what_is_no_date_is_unknown() {
        for date in
            ["", "soon", "2026", "2026-13", "2026-00-01", "-5-01", "99999-01", "2026-01-01T00", "2026-1-99"]
        {
            assert_eq!(created(Some(date)), UNKNOWN_CREATED, "{date}");
        }
        assert_eq!(created(None), UNKNOWN_CREATED);
    }
}
