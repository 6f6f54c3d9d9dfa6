//! The access log: one line per request, written when its response has ended or was dropped. It holds no prompt and no
//! secret of a key.

use std::io::Write;
use std::net::SocketAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gw_engine::CallRecord;
use gw_wire::calendar::date_of_day;
use gw_wire::trace_context::TraceId;

/// Takes the lines of the access log. It is called on the threads that serve the network and must not block.
pub trait AccessLog: Send + Sync {
    /// Takes one line.
    fn write(&self, line: &LogLine<'_>);
}

/// The facts about a finished request.
#[derive(Clone, Debug)]
pub struct LogLine<'a> {
    /// When the request was accepted.
    pub accepted: SystemTime,
    /// `req_…`.
    pub request_id: &'a str,
    /// The client's `X-Client-Request-Id`, visible ASCII, at most 128 characters.
    pub client_request_id: Option<&'a str>,
    /// The method.
    pub method: &'a str,
    /// The path, without the query.
    pub path: &'a str,
    /// The pattern of the URL in [`crate::ROUTES`].
    pub route: &'static str,
    /// The status that was sent, or 499 when the client went away.
    pub status: u16,
    /// `ok`, or an error code (docs/errors.md).
    pub code: &'a str,
    /// Milliseconds from the acceptance of the request to the end of the response.
    pub duration_ms: u64,
    /// Bytes of the response's body.
    pub bytes_out: u64,
    /// The name of the key.
    pub key: Option<&'a str>,
    /// The client's address. Port 0: a proxy told the address without a port.
    pub client: SocketAddr,
    /// The id of its trace, if the gateway writes traces.
    pub trace_id: Option<TraceId>,
    /// The engine's record of a generation request.
    pub call: Option<&'a CallRecord>,
}

impl LogLine<'_> {
    /// Renders the line as JSON with its line end. No value can break the line or send a command to a terminal.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(640);
        // Every request writes a line, so the names of the members are copied together with the signs around them.
        put(&mut out, "{\"ts\":\"");
        rfc3339(&mut out, self.accepted);
        put(&mut out, "\",\"request_id\":");
        string(&mut out, self.request_id);
        text(&mut out, ",\"client_request_id\":", self.client_request_id);
        text(&mut out, ",\"method\":", Some(self.method));
        put(&mut out, ",\"path\":");
        if self.path == self.route {
            constant(&mut out, self.route);
        } else {
            string(&mut out, self.path);
        }
        put(&mut out, ",\"route\":");
        constant(&mut out, self.route);
        integer(&mut out, ",\"status\":", u64::from(self.status));
        text(&mut out, ",\"code\":", Some(self.code));
        integer(&mut out, ",\"duration_ms\":", self.duration_ms);
        if let Some(ttft) = self.call.and_then(|call| call.ttft_ms) {
            integer(&mut out, ",\"ttft_ms\":", ttft);
        }
        integer(&mut out, ",\"bytes_out\":", self.bytes_out);
        text(&mut out, ",\"key\":", self.key);
        put(&mut out, ",\"client\":\"");
        address(&mut out, self.client);
        out.push(b'"');
        if let Some(trace) = self.trace_id {
            let _ = write!(out, ",\"trace_id\":\"{trace}\"");
        }
        if let Some(call) = self.call {
            write_call(&mut out, call);
        }
        put(&mut out, "}\n");
        out
    }
}

/// Writes the members of a generation request.
fn write_call(out: &mut Vec<u8>, call: &CallRecord) {
    text(out, ",\"model\":", call.model.as_deref());
    text(out, ",\"provider\":", call.provider.as_deref());
    integer(out, ",\"prompt_tokens\":", call.prompt_tokens);
    integer(out, ",\"completion_tokens\":", call.completion_tokens);
    put(
        out,
        if call.estimated {
            ",\"estimated\":true,\"cost_usd\":"
        } else {
            ",\"estimated\":false,\"cost_usd\":"
        },
    );
    match call.known_cost() {
        Some(cost) => cost.write(out),
        None => put(out, "null"),
    }
    integer(out, ",\"attempts\":", u64::from(call.attempts));
    put(
        out,
        match (call.stream, call.fallback) {
            (false, false) => ",\"stream\":false,\"fallback\":false",
            (true, false) => ",\"stream\":true,\"fallback\":false",
            (false, true) => ",\"stream\":false,\"fallback\":true",
            (true, true) => ",\"stream\":true,\"fallback\":true",
        },
    );
    text(out, ",\"upstream_error\":", call.upstream_error.as_deref());
}

impl LogLine<'_> {
    /// Renders the line for a person at a terminal, with its line end. No value can break the line or send a command to the terminal.
    #[must_use]
    pub fn to_text(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(256);
        rfc3339(&mut out, self.accepted);
        let _ = write!(out, " {} {} ", self.status, self.method);
        visible(&mut out, self.path);
        let _ = write!(out, " {} ms", self.duration_ms);
        if let Some(call) = self.call {
            if let Some(ttft) = call.ttft_ms {
                let _ = write!(out, " (first token {ttft} ms)");
            }
            put(&mut out, " ");
            visible(&mut out, call.model.as_deref().unwrap_or("no model"));
            let estimated = if call.estimated { "~" } else { "" };
            let _ = write!(out, " {estimated}{}+{} tokens ", call.prompt_tokens, call.completion_tokens);
            match call.known_cost() {
                Some(cost) => {
                    cost.write(&mut out);
                    put(&mut out, " USD");
                }
                None => put(&mut out, "unpriced"),
            }
            if call.fallback {
                put(&mut out, " fallback");
            }
            if call.cache_hit {
                put(&mut out, " cached");
            }
        }
        if self.code != "ok" {
            put(&mut out, " ");
            visible(&mut out, self.code);
        }
        if let Some(key) = self.key {
            put(&mut out, " key=");
            visible(&mut out, key);
        }
        let _ = write!(out, " {}", self.request_id);
        if let Some(trace) = self.trace_id {
            let _ = write!(out, " trace={trace}");
        }
        if let Some(reason) = self.call.and_then(|call| call.upstream_error.as_deref()) {
            put(&mut out, " upstream said: ");
            visible(&mut out, reason);
        }
        out.push(b'\n');
        out
    }
}

/// Writes a text without the characters that terminals obey.
fn visible(out: &mut Vec<u8>, text: &str) {
    for c in text.chars() {
        match c {
            '\u{2028}' | '\u{2029}' => put(out, "?"),
            c if c.is_control() => put(out, "?"),
            c => put(out, c.encode_utf8(&mut [0; 4])),
        }
    }
}

/// Writes an address as `SocketAddr` shows it, IPv4 without a formatter. A proxy does not tell the port, so port 0 is left out.
fn address(out: &mut Vec<u8>, client: SocketAddr) {
    let SocketAddr::V4(client) = client else {
        let _ = if client.port() == 0 { write!(out, "{}", client.ip()) } else { write!(out, "{client}") };
        return;
    };
    let [first, rest @ ..] = client.ip().octets();
    put(out, itoa::Buffer::new().format(first));
    for octet in rest {
        out.push(b'.');
        put(out, itoa::Buffer::new().format(octet));
    }
    if client.port() != 0 {
        out.push(b':');
        put(out, itoa::Buffer::new().format(client.port()));
    }
}

fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

/// Writes a number with the name of its member and the signs around it.
fn integer(out: &mut Vec<u8>, name: &'static str, value: u64) {
    put(out, name);
    put(out, itoa::Buffer::new().format(value));
}

/// Writes a string with the name of its member and the signs around it; no member without a value.
fn text(out: &mut Vec<u8>, name: &'static str, value: Option<&str>) {
    if let Some(value) = value {
        put(out, name);
        string(out, value);
    }
}

/// Writes a text of the program, which needs no escape.
fn constant(out: &mut Vec<u8>, value: &'static str) {
    out.push(b'"');
    put(out, value);
    out.push(b'"');
}

/// Writes a string that a client or an upstream may have chosen.
fn string(out: &mut Vec<u8>, value: &str) {
    if gw_wire::json::is_plain(value) {
        out.reserve(value.len() + 2);
        out.push(b'"');
        put(out, value);
        return out.push(b'"');
    }
    // JSON allows C1 control characters, but some terminals obey them.
    let mut safe = Vec::with_capacity(value.len() + 16);
    gw_wire::json::write_str(&mut safe, value);
    for c in String::from_utf8_lossy(&safe).chars() {
        if c.is_control() {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            put(out, c.encode_utf8(&mut [0; 4]));
        }
    }
}

/// The part of a client's request id that the log repeats: at most 128 visible ASCII characters.
pub(crate) fn sanitise(value: &[u8]) -> Option<String> {
    let kept: String =
        value.iter().filter(|byte| byte.is_ascii_graphic()).take(128).map(|b| char::from(*b)).collect();
    (!kept.is_empty()).then_some(kept)
}

/// Writes a time as RFC 3339 in UTC, with milliseconds.
fn rfc3339(out: &mut Vec<u8>, at: SystemTime) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let seconds = since.as_secs();
    let (days, clock) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date_of_day(days);
    // One digit fits a byte.
    let digit = |value: u64| b'0' + (value % 10) as u8;
    let two = |value: u64| [digit(value / 10), digit(value)];
    let ([y1, y2], [y3, y4]) = (two(year / 100), two(year));
    let ([mo1, mo2], [d1, d2]) = (two(month), two(day));
    let ([h1, h2], [mi1, mi2], [s1, s2]) = (two(clock / 3600), two(clock / 60 % 60), two(clock % 60));
    let millis = u64::from(since.subsec_millis());
    let (f1, [f2, f3]) = (digit(millis / 100), two(millis));
    out.extend_from_slice(&[
        y1, y2, y3, y4, b'-', mo1, mo2, b'-', d1, d2, b'T', h1, h2, b':', mi1, mi2, b':', s1, s2, b'.', f1,
        f2, f3, b'Z',
    ]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call() -> CallRecord {
        CallRecord {
            model: Some("acme/fast".into()),
            prompt_tokens: 3,
            completion_tokens: 4,
            cost: gw_wire::money::Price::parse("0.15").unwrap().cost(7),
            attempts: 1,
            ttft_ms: Some(3),
            stream: true,
            ..CallRecord::default()
        }
    }

    fn line<'a>(path: &'a str, call: &'a CallRecord) -> LogLine<'a> {
        LogLine {
            accepted: UNIX_EPOCH,
            request_id: "req_0",
            client_request_id: None,
            method: "POST",
            path,
            route: "/v1/chat/completions",
            status: 200,
            code: "ok",
            duration_ms: 12,
            bytes_out: 10,
            key: Some("ci\r\n\u{1b}[31m\u{9b}\u{2028}"),
            client: ([127, 0, 0, 1], 4000).into(),
            trace_id: Some(TraceId::new(7)),
            call: Some(call),
        }
    }

    #[test]
    fn a_line_stays_one_line_whatever_its_values_hold() {
        let json = String::from_utf8(line("/v1/chat/completions", &call()).to_json()).unwrap();
        let json = json.strip_suffix('\n').unwrap();
        assert!(!json.contains(|c: char| c.is_control() || c == '\u{2028}'), "{json}");
        let read: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(read["key"], "ci\r\n\u{1b}[31m\u{9b}\u{2028}");
        assert_eq!(read["model"], "acme/fast");
        assert!(json.contains("\"cost_usd\":0.00000105,"), "{json}");
    }

    #[test]
    fn a_line_has_its_members_in_a_fixed_order() {
        let expected = concat!(
            r#"{"ts":"1970-01-01T00:00:00.000Z","request_id":"req_0","method":"POST","path":"/v1/chat/completions","#,
            r#""route":"/v1/chat/completions","status":200,"code":"ok","duration_ms":12,"ttft_ms":3,"bytes_out":10,"#,
            r#""key":"ci\r\n\u001b[31m\u009b\u2028","client":"127.0.0.1:4000","trace_id":"00000000000000000000000000000007","model":"acme/fast","#,
            r#""prompt_tokens":3,"completion_tokens":4,"estimated":false,"cost_usd":0.00000105,"attempts":1,"#,
            r#""stream":true,"fallback":false}"#,
            "\n"
        );
        let json = line("/v1/chat/completions", &call()).to_json();
        assert_eq!(String::from_utf8(json).unwrap(), expected);
    }

    #[test]
    fn a_person_reads_a_line_of_text() {
        let text = line("/v1/chat/completions", &call()).to_text();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "1970-01-01T00:00:00.000Z 200 POST /v1/chat/completions 12 ms (first token 3 ms) acme/fast 3+4 tokens 0.00000105 USD \
             key=ci???[31m?? req_0 trace=00000000000000000000000000000007\n"
        );
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
            let mut out = Vec::new();
            rfc3339(&mut out, UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(String::from_utf8(out).unwrap(), text);
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
