//! Reads and writes times. A query may spell a time in several ways; an answer uses RFC 3339.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Reads a time and returns unix milliseconds. The spellings are a timestamp (`2026-11-21T09:00:00Z`), a date, unix seconds,
/// and a time before `now` (unix seconds): `7d`, `24h`, `30m`.
#[must_use]
pub fn parse_moment(text: &str, now: i64) -> Option<i64> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let at = Timestamp::from_second(text.parse().ok()?).ok()?;
        return Some(at.as_millisecond());
    }
    if let Some((number, unit)) = text.split_at_checked(text.len().saturating_sub(1))
        && let Some(seconds) = match unit {
            "w" => Some(604_800),
            "d" => Some(86_400),
            "h" => Some(3600),
            "m" => Some(60),
            "s" => Some(1),
            _ => None,
        }
    {
        let number: u32 = number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())??;
        let at = now.checked_sub(i64::from(number).checked_mul(seconds)?)?;
        return Some(Timestamp::from_second(at).ok()?.as_millisecond());
    }
    if let Ok(at) = text.parse::<Timestamp>() {
        return Some(at.as_millisecond());
    }
    // Only a bare date: the parser reads `2026-11-21T09:00` as midnight of that day.
    let date: Date = (text.len() == "2026-11-21".len()).then(|| text.parse().ok())??;
    Some(date.to_zoned(TimeZone::UTC).ok()?.timestamp().as_millisecond())
}

/// The time of the system's clock in unix milliseconds.
#[must_use]
pub fn unix_millis() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Writes unix milliseconds as RFC 3339.
#[must_use]
pub fn format_millis(millis: i64) -> String {
    Timestamp::from_millisecond(millis).map(|at| format!("{at:.3}")).unwrap_or_default()
}

/// Writes unix seconds as RFC 3339.
#[must_use]
pub fn format_seconds(seconds: i64) -> String {
    Timestamp::from_second(seconds).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_in_every_spelling() {
        const NOW: i64 = 1_795_253_896;
        for (text, at) in [
            ("2026-11-21T09:38:16Z", Some(NOW * 1000)),
            ("2026-11-21T10:38:16.5+01:00", Some(NOW * 1000 + 500)),
            ("2026-11-21", Some(1_795_219_200_000)),
            ("1795253896", Some(NOW * 1000)),
            ("0", Some(0)),
            ("7d", Some((NOW - 7 * 86_400) * 1000)),
            ("24h", Some((NOW - 86_400) * 1000)),
            ("30m", Some((NOW - 1800) * 1000)),
            ("2w", Some((NOW - 14 * 86_400) * 1000)),
            ("", None),
            ("d", None),
            ("-7d", None),
            ("7 d", None),
            ("7y", None),
            ("99999999999d", None),
            ("99999999999999999999", None),
            ("2026-13-01", None),
            ("2026-11-21T09:38:16", None),
            ("yesterday", None),
            ("1e9", None),
            ("٣d", None),
        ] {
            assert_eq!(parse_moment(text, NOW), at, "{text}");
        }
    }
}
