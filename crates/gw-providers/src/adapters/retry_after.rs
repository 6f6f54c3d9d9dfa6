//! The pause that an upstream asks for: `retry-after-ms`, or `retry-after` in seconds or as a date.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, RETRY_AFTER};

const MIN_WAIT: Duration = Duration::from_secs(1);
const MAX_WAIT: Duration = Duration::from_secs(300);

/// The requested pause, limited to 1 to 300 seconds; None when it is absent or invalid.
///
/// A date is compared with the response's own `date`, so a wrong clock on either side has no effect.
pub(crate) fn retry_after(headers: &HeaderMap, now: SystemTime) -> Option<Duration> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let milliseconds = text("retry-after-ms").and_then(|ms| seconds(ms).map(|ms| ms / 1000.0));
    let wished = milliseconds.or_else(|| {
        let value = text(RETRY_AFTER.as_str())?;
        seconds(value).or_else(|| {
            let until = httpdate::parse_http_date(value).ok()?;
            let from =
                text(DATE.as_str()).and_then(|date| httpdate::parse_http_date(date).ok()).unwrap_or(now);
            Some(until.duration_since(from).map_or(0.0, |wait| wait.as_secs_f64()))
        })
    })?;
    let clamped = wished.clamp(MIN_WAIT.as_secs_f64(), MAX_WAIT.as_secs_f64());
    Some(Duration::from_secs_f64(clamped))
}

/// A finite number that is not negative. The parser alone would accept words such as `inf`.
fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite() && *value >= 0.0)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use http::HeaderMap;

    fn wait(headers: &[(&'static str, &str)]) -> Option<Duration> {
        let map: HeaderMap =
            headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        super::retry_after(&map, SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000))
    }

    #[test]
    fn u16_every_spelling_is_read_and_clamped() {
        let seconds = |seconds| Some(Duration::from_secs(seconds));
        for (value, expected) in [
            ("2", seconds(2)),
            (" 17 ", seconds(17)),
            ("0", seconds(1)),
            ("0.2", seconds(1)),
            ("999", seconds(300)),
            ("1e12", seconds(300)),
            ("-1", None),
            ("inf", None),
            ("NaN", None),
            ("soon", None),
            ("", None),
            ("Fri, 15 Jan 2027 08:01:00 GMT", seconds(60)),
            ("Thu, 14 Jan 2027 08:00:00 GMT", seconds(1)),
            ("Fri, 99 Jan 2027 08:01:00 GMT", None),
        ] {
            assert_eq!(wait(&[("retry-after", value)]), expected, "{value:?}");
        }
    }

    #[test]
    fn u16_milliseconds_win_and_dates_count_from_the_answers_own_clock() {
        assert_eq!(
            wait(&[("retry-after-ms", "1500"), ("retry-after", "9")]),
            Some(Duration::from_millis(1500))
        );
        assert_eq!(wait(&[("retry-after-ms", "junk"), ("retry-after", "9")]), Some(Duration::from_secs(9)));
        let own =
            [("date", "Sat, 01 Jan 2000 00:00:00 GMT"), ("retry-after", "Sat, 01 Jan 2000 00:00:07 GMT")];
        assert_eq!(wait(&own), Some(Duration::from_secs(7)));
        assert_eq!(wait(&[]), None);
    }
}
