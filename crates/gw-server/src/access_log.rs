//! One line per request, written when its response has ended or was dropped. Never prompts, never keys.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gw_wire::money::Money;
use serde::{Serialize, Serializer};

/// Where lines go. Called on the threads that serve the network: must not block.
pub trait AccessLog: Send + Sync {
    /// Takes one line.
    fn write(&self, line: &LogLine<'_>);
}

/// What is known of a finished request.
#[derive(Clone, Debug, Serialize)]
pub struct LogLine<'a> {
    /// When the request was accepted, UTC, RFC 3339 with milliseconds.
    pub ts: String,
    /// `req_…`.
    pub request_id: &'a str,
    /// The client's `X-Client-Request-Id`, visible ASCII, at most 128 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_request_id: Option<&'a str>,
    /// The method.
    pub method: &'a str,
    /// The path, without the query.
    pub path: &'a str,
    /// Which route of the table.
    pub route: &'static str,
    /// The status that was sent, or 499.
    pub status: u16,
    /// `ok`, or a code of the contract's error table.
    pub code: &'a str,
    /// From the acceptance to the end of the response.
    pub duration_ms: u64,
    /// To the first content of a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttft_ms: Option<u64>,
    /// Bytes of the response's body.
    pub bytes_out: u64,
    /// The key's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<&'a str>,
    /// The client's address.
    pub client: std::net::SocketAddr,
    /// What the engine says of a generation request.
    #[serde(flatten)]
    pub call: Option<CallLine>,
}

/// The part of a line that only generation requests have.
#[derive(Clone, Debug, Serialize)]
pub struct CallLine {
    /// Catalogue id that served, else the requested one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<Arc<str>>,
    /// Its provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<Arc<str>>,
    /// Prompt tokens.
    pub prompt_tokens: u64,
    /// Generated tokens.
    pub completion_tokens: u64,
    /// The tokens are an estimate.
    pub estimated: bool,
    /// Cost.
    #[serde(serialize_with = "exact")]
    pub cost_usd: Money,
    /// Upstream calls.
    pub attempts: u32,
    /// A stream was asked for.
    pub stream: bool,
    /// A fallback model served.
    pub fallback: bool,
}

/// Money as the decimal number it is, not as a binary float.
fn exact<S: Serializer>(money: &Money, serializer: S) -> Result<S::Ok, S::Error> {
    let raw = serde_json::value::RawValue::from_string(money.to_string());
    raw.map_err(serde::ser::Error::custom)?.serialize(serializer)
}

impl LogLine<'_> {
    /// The line as JSON: one line in every reader, and nothing in it that a terminal would obey.
    #[must_use]
    pub fn to_json(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_else(|error| format!("{{\"error\":\"{error}\"}}"));
        let harmful = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
        if !json.contains(harmful) {
            return json;
        }
        let mut safe = String::with_capacity(json.len() + 16);
        for c in json.chars() {
            if harmful(c) {
                safe.push_str(&format!("\\u{:04x}", u32::from(c)));
            } else {
                safe.push(c);
            }
        }
        safe
    }
}

/// What of a client's own request id is repeated in the log.
pub(crate) fn sanitise(value: &[u8]) -> Option<String> {
    let kept: String =
        value.iter().filter(|byte| byte.is_ascii_graphic()).take(128).map(|b| char::from(*b)).collect();
    (!kept.is_empty()).then_some(kept)
}

/// RFC 3339 in UTC with milliseconds.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = since.as_secs();
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{:03}Z", since.subsec_millis())
}

/// The calendar date of a day since 1970-01-01, counted in eras of 400 years that begin on the first of March.
fn civil(days: u64) -> (u64, u64, u64) {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(path: &str) -> LogLine<'_> {
        LogLine {
            ts: rfc3339(UNIX_EPOCH),
            request_id: "req_0",
            client_request_id: None,
            method: "POST",
            path,
            route: "/v1/chat/completions",
            status: 200,
            code: "ok",
            duration_ms: 12,
            ttft_ms: Some(3),
            bytes_out: 10,
            key: Some("ci\r\n\u{1b}[31m\u{9b}\u{2028}"),
            client: ([127, 0, 0, 1], 4000).into(),
            call: Some(CallLine {
                model: Some("acme/fast".into()),
                provider: None,
                prompt_tokens: 3,
                completion_tokens: 4,
                estimated: false,
                cost_usd: gw_wire::money::Price::parse("0.15").unwrap().cost(7),
                attempts: 1,
                stream: true,
                fallback: false,
            }),
        }
    }

    #[test]
    fn a_line_stays_one_line_whatever_is_in_it() {
        let json = line("/v1/chat/completions").to_json();
        assert!(!json.contains(|c: char| c.is_control() || c == '\u{2028}'), "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(read["key"], "ci\r\n\u{1b}[31m\u{9b}\u{2028}");
        assert_eq!(read["model"], "acme/fast");
        assert!(json.contains("\"cost_usd\":0.00000105,"), "{json}");
    }

    #[test]
    fn dates_follow_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_709_251_199, "2024-02-29T23:59:59.000Z"),
            (1_795_210_000, "2026-11-20T21:26:40.000Z"),
            (4_102_444_800, "2100-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn a_clients_id_is_kept_short_and_plain() {
        assert_eq!(sanitise(b"abc-1"), Some("abc-1".to_owned()));
        assert_eq!(sanitise(b"a\x1b[0m b\xff"), Some("a[0mb".to_owned()));
        assert_eq!(sanitise(&[b'x'; 500]).map(|id| id.len()), Some(128));
        assert_eq!(sanitise(b" \t"), None);
    }
}
