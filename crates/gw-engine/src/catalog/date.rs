//! `created`: the dates of the catalogue as Unix seconds.

use gw_wire::calendar::day_of_date;

/// `created` of a model with an unknown release date: the day of the shipped catalogue, 2026-11-20.
pub(super) const UNKNOWN_CREATED: i64 = 1_795_132_800;

/// Midnight UTC of a `YYYY-MM-DD`, or of the first day of a `YYYY-MM`.
pub(super) fn created(release_date: Option<&str>) -> i64 {
    release_date.and_then(seconds).unwrap_or(UNKNOWN_CREATED)
}

fn seconds(date: &str) -> Option<i64> {
    let mut parts = date.splitn(3, '-');
    let year: i64 = parts.next()?.parse().ok().filter(|year| *year >= 1970)?;
    let month: i64 = parts.next()?.parse().ok()?;
    let day: i64 = parts.next().map_or(Ok(1), str::parse).ok()?;
    Some(day_of_date(year, month, day)? * 86_400)
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
        for date in [
            "",
            "soon",
            "2026",
            "2026-13",
            "2026-00-01",
            "-5-01",
            "99999-01",
            "2026-01-01T00",
            "2026-1-99",
            "2026-02-31",
        ] {
            assert_eq!(created(Some(date)), UNKNOWN_CREATED, "{date}");
        }
        assert_eq!(created(None), UNKNOWN_CREATED);
    }
}
