//! The formats of strings. Each error is a constant, so it cannot repeat what was written.

use std::net::{IpAddr, Ipv6Addr};

use gw_server::client_address::AddressRange;
use gw_store::Period;
use gw_store::inspection::{server_url_fault, sqlite_file};
use gw_wire::reach::{Reach, reach};

use super::schema::TextFormat;

/// The result of a check.
type CheckResult = Result<(), &'static str>;

pub(super) static ANY: TextFormat = TextFormat { shape: "any text", check: any };
pub(super) static LISTEN: TextFormat = TextFormat { shape: "host:port", check: listen };
pub(super) static ORIGIN: TextFormat = TextFormat { shape: "\"*\" or scheme://host[:port]", check: origin };
pub(super) static NAMED_ORIGIN: TextFormat =
    TextFormat { shape: "scheme://host[:port]", check: named_origin };
pub(super) static RANGE: TextFormat = TextFormat { shape: "an address or address/bits", check: range };
pub(super) static STORE_URL: TextFormat =
    TextFormat { shape: "sqlite:// or postgres:// URL", check: store_url };
pub(super) static REDIS_URL: TextFormat = TextFormat { shape: "redis:// or rediss:// URL", check: redis_url };
pub(super) static PROVIDER: TextFormat =
    TextFormat { shape: "letters a-z, digits, '_' and '-'", check: provider_name };
pub(super) static BASE_URL: TextFormat = TextFormat { shape: "http:// or https:// URL", check: base_url };
pub(super) static PASSTHROUGH_PATH: TextFormat =
    TextFormat { shape: "a path, such as /cohere", check: passthrough_path };
pub(super) static ALERT_EVENT: TextFormat =
    TextFormat { shape: "an event, such as budget:0.8 or provider_down", check: alert_event };
pub(super) static ALERT_URL: TextFormat = TextFormat { shape: "http:// or https:// URL", check: alert_url };
pub(super) static ALERT_SECRET: TextFormat = TextFormat { shape: "whsec_ and base64", check: alert_secret };
pub(super) static SPLIT: TextFormat =
    TextFormat { shape: "`team`, `key`, `model`, `provider`, `end_user` or `tag:NAME`", check: split };
pub(super) static ON_LIMIT: TextFormat = TextFormat { shape: "fallback:ALIAS", check: on_limit };
pub(super) static CREDENTIAL: TextFormat = TextFormat { shape: "a key", check: credential };
pub(super) static HEADER: TextFormat = TextFormat { shape: "a header's name", check: header_name };
pub(super) static HEADER_VALUE: TextFormat = TextFormat { shape: "a header's value", check: header_value };
pub(super) static MODEL_ID: TextFormat = TextFormat { shape: "provider/model", check: model_id };
pub(super) static WORD: TextFormat = TextFormat { shape: "a word without blanks", check: word };
pub(super) static ALIAS: TextFormat = TextFormat { shape: "a model name", check: word };
pub(super) static PATTERN: TextFormat =
    TextFormat { shape: "a model's id, bare name or alias, or the beginning of ids and '*'", check: pattern };
pub(super) static ROLLING_PERIOD: TextFormat =
    TextFormat { shape: "1 to 366 days, such as \"30d\"", check: rolling_period };
pub(super) static ROLLING_WINDOW: TextFormat = TextFormat {
    shape: "10 seconds to 366 days, such as \"90s\", \"15m\", \"6h\" or \"30d\"",
    check: rolling_window,
};
pub(super) static LABEL: TextFormat = TextFormat { shape: "1 to 128 characters", check: label };
pub(super) static LINE: TextFormat =
    TextFormat { shape: "1 to 256 characters without control characters", check: line };
pub(super) static KEY_HASH: TextFormat =
    TextFormat { shape: "64 hexadecimal digits: the SHA-256 of a key", check: key_hash };
pub(super) static KEY_ID: TextFormat =
    TextFormat { shape: "the first 12 characters of a key", check: key_id };
pub(super) static TEAM_ID: TextFormat =
    TextFormat { shape: "1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'", check: team_id };
pub(super) static JSON_OBJECT: TextFormat = TextFormat { shape: "a JSON object", check: json_object };
pub(super) static MINISIGN_KEY: TextFormat =
    TextFormat { shape: "a minisign public key", check: minisign_key };
pub(super) static CURRENCY: TextFormat = TextFormat { shape: "three capital letters", check: currency };

/// Headers of the connection or of the message framing, which the gateway sets itself.
const FRAMING: [&str; 11] = [
    "host",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "connection",
    "keep-alive",
    "proxy-connection",
    "te",
    "trailer",
    "upgrade",
    "expect",
];

fn need(holds: bool, otherwise: &'static str) -> CheckResult {
    if holds { Ok(()) } else { Err(otherwise) }
}

fn any(text: &str) -> CheckResult {
    need(!text.chars().any(|c| c == '\0'), "contains a NUL character")
}

fn has_control(text: &str) -> bool {
    text.chars().any(char::is_control)
}

fn listen(text: &str) -> CheckResult {
    let (host, port) = text.rsplit_once(':').ok_or("is not HOST:PORT, such as 127.0.0.1:4000")?;
    port_number(port)?;
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').ok_or("has '[' without ']'")?;
        return need(inner.parse::<Ipv6Addr>().is_ok(), "is not an IPv6 address between the brackets");
    }
    need(
        !host.is_empty(),
        "has no host; write 127.0.0.1:PORT for this machine alone, or 0.0.0.0:PORT for every network interface",
    )?;
    need(!host.contains(':'), "is an IPv6 address without brackets; write [::1]:4000")?;
    host_name(host)
}

fn port_number(port: &str) -> CheckResult {
    let digits = !port.is_empty() && port.bytes().all(|b| b.is_ascii_digit());
    need(digits && port.parse::<u16>().is_ok(), "has no port from 0 to 65535 at its end")
}

fn host_name(host: &str) -> CheckResult {
    let known = host.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    need(!host.is_empty() && host.len() <= 253 && known, "has a host that is neither a name nor an address")
}

/// Checks a host with or without a port. Returns the address when the host is one.
fn authority(text: &str) -> Result<Option<IpAddr>, &'static str> {
    if let Some(rest) = text.strip_prefix('[') {
        let (inner, port) = rest.split_once(']').ok_or("has '[' without ']'")?;
        if !port.is_empty() {
            port_number(port.strip_prefix(':').ok_or("has text between ']' and the path")?)?;
        }
        let address = inner.parse::<Ipv6Addr>().map_err(|_| "is not an IPv6 address between the brackets")?;
        return Ok(Some(address.to_canonical()));
    }
    let host = match text.split_once(':') {
        Some((host, port)) => {
            port_number(port)?;
            host
        }
        None => text,
    };
    host_name(host)?;
    Ok(host.parse::<IpAddr>().ok())
}

fn origin(text: &str) -> CheckResult {
    if text == "*" || text == "null" {
        return Ok(());
    }
    let (scheme, rest) = text.split_once("://").ok_or("is not an origin; write scheme://host or \"*\"")?;
    let named = scheme.starts_with(|c: char| c.is_ascii_lowercase())
        && scheme
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.'));
    need(named, "has an invalid scheme; write the scheme in small letters")?;
    need(!rest.contains('/'), "has a path; an origin ends with its host or port")?;
    authority(rest).map(drop)
}

fn named_origin(text: &str) -> CheckResult {
    need(text != "*" && text != "null", "is not one origin; write scheme://host[:port]")?;
    origin(text)
}

fn range(text: &str) -> CheckResult {
    need(text.parse::<AddressRange>().is_ok(), "is not an address or a range such as 10.0.0.0/8 or fd00::/8")
}

fn store_url(text: &str) -> CheckResult {
    let known = ["sqlite:", "postgres://", "postgresql://"].iter().any(|scheme| text.starts_with(scheme));
    need(known, "is neither a sqlite:// nor a postgres:// URL")?;
    need(!has_control(text), "contains a control character")?;
    if !text.starts_with("sqlite:") {
        return server_url_fault(text).map_or(Ok(()), Err);
    }
    // A relative path would be one of the directory in which the program is started.
    let is_absolute = sqlite_file(text).is_none_or(|file| file.has_root());
    need(
        is_absolute,
        "names a file by a relative path; write sqlite:///path/of/gateway.db with its absolute path",
    )
}

fn redis_url(text: &str) -> CheckResult {
    let known =
        ["redis://", "rediss://", "redis+unix://", "unix://"].iter().any(|scheme| text.starts_with(scheme));
    need(known, "is neither a redis:// nor a rediss:// URL")?;
    need(!has_control(text), "contains a control character")
}

fn provider_name(text: &str) -> CheckResult {
    let known =
        text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'));
    need(!text.is_empty() && text.len() <= 64 && known, "is not 1 to 64 of a-z, 0-9, '_' and '-'")
}

fn base_url(text: &str) -> CheckResult {
    base_url_host(text).map(drop)
}

/// The host of a base URL when it is written as an address.
pub(super) fn base_url_host(text: &str) -> Result<Option<IpAddr>, &'static str> {
    let rest = ["http://", "https://"].iter().find_map(|scheme| {
        text.get(..scheme.len()).filter(|start| start.eq_ignore_ascii_case(scheme))?;
        text.get(scheme.len()..)
    });
    let rest = rest.ok_or("does not begin with http:// or https://")?;
    need(
        rest.bytes().all(|b| b.is_ascii_graphic() && b != b'\\'),
        "contains a character that a URL cannot contain",
    )?;
    need(!rest.contains('@'), "contains a user or password; write the key to api_key")?;
    need(!rest.contains('?'), "contains a query")?;
    need(!rest.contains('#'), "contains a fragment")?;
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    need(!path.split('/').any(|segment| matches!(segment, "." | "..")), "has '.' or '..' in its path")?;
    let address = authority(host)?;
    need(
        address.map(reach) != Some(Reach::Forbidden),
        "is a link-local address, which clouds use for credentials",
    )?;
    Ok(address)
}

/// Checks the path of a pass-through route. A path with nothing to decode has one spelling.
fn passthrough_path(text: &str) -> CheckResult {
    let rest = text.strip_prefix('/').ok_or("does not begin with '/'")?;
    need(text.len() <= 128, "is longer than 128 characters")?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    let is_segment = |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(is_plain);
    need(
        rest.split('/').all(is_segment),
        "is not a path of letters a-z, digits and '-._~' between single slashes, without a slash at its end",
    )
}

fn alert_event(text: &str) -> CheckResult {
    need(
        gw_alerts::trigger::is_event(text),
        "is not an event; write a part of a budget such as budget:0.8, or one of provider_down, key_dead, price_unknown, \
         ledger_lag, session_stopped, certificate_expiring, catalogue_old, cost_rise, error_rise and reconcile",
    )
}

fn alert_url(text: &str) -> CheckResult {
    alert_url_host(text).map(drop)
}

/// The host of an alert's URL when it is written as an address. Such a URL may have a query, which may be its secret.
pub(super) fn alert_url_host(text: &str) -> Result<Option<IpAddr>, &'static str> {
    need(text.bytes().all(|b| b.is_ascii_graphic()), "contains a character that a URL cannot contain")?;
    let scheme = text.find("://").map_or(0, |at| at + 3);
    let end = text.get(scheme..).and_then(|rest| rest.find(['/', '?', '#'])).map(|at| scheme + at);
    let host = end.and_then(|end| text.get(..end)).unwrap_or(text);
    need(!host.contains('@'), "contains a user or password")?;
    base_url_host(host)
}

fn alert_secret(text: &str) -> CheckResult {
    need(gw_alerts::is_signing_secret(text), "is not whsec_ and base64")
}

/// Checks a name by which a rule has several counters.
fn split(text: &str) -> CheckResult {
    let is_tag = text.strip_prefix("tag:").is_some_and(|name| !name.trim().is_empty());
    need(
        is_tag || matches!(text, "team" | "key" | "model" | "provider" | "end_user"),
        "is not 'team', 'key', 'model', 'provider', 'end_user' or 'tag:NAME'",
    )
}

fn on_limit(text: &str) -> CheckResult {
    let alias = text.strip_prefix("fallback:").ok_or("is neither 'refuse' nor 'fallback:ALIAS'")?;
    word(alias)
}

/// Checks a key. It is sent in a header, and HTTP removes blanks at the ends of headers.
fn credential(text: &str) -> CheckResult {
    need(!has_control(text), "contains a control character")?;
    need(text.trim() == text, "begins or ends with a blank, which HTTP removes")
}

fn header_name(text: &str) -> CheckResult {
    let token = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b));
    need(!text.is_empty() && token, "is not the name of an HTTP header")?;
    let framing = FRAMING.iter().any(|name| text.eq_ignore_ascii_case(name));
    need(!framing, "is a header that the gateway sets itself")
}

fn header_value(text: &str) -> CheckResult {
    need(!has_control(text), "contains a control character")
}

fn model_id(text: &str) -> CheckResult {
    let (provider, name) = text.split_once('/').ok_or("has no '/'; an id is provider/model")?;
    provider_name(provider).map_err(|_| "has no valid provider name before its first '/'")?;
    need(!name.is_empty(), "has no model name after its first '/'")?;
    let has_empty_segment = name.split('/').any(str::is_empty);
    need(!has_empty_segment, "has an empty segment between slashes; 'upstream_model' may be a path")?;
    word(name)
}

fn word(text: &str) -> CheckResult {
    let plain = !text.chars().any(|c| c.is_control() || c.is_whitespace());
    need(!text.is_empty() && text.len() <= 256 && plain, "is not 1 to 256 characters without blanks")
}

fn pattern(text: &str) -> CheckResult {
    word(text)?;
    let stars = text.bytes().filter(|b| *b == b'*').count();
    need(stars == 0 || (stars == 1 && text.ends_with('*')), "has a '*' that is not its last character")
}

fn rolling_period(text: &str) -> Result<(), &'static str> {
    Period::parse(text).map(|_| ()).ok_or("is not a number of days from 1 to 366, such as \"30d\"")
}

fn rolling_window(text: &str) -> Result<(), &'static str> {
    Period::parse_any(text).map(|_| ()).ok_or(
        "is not a time from 10 s to 366 days, such as \"90s\" or \"15m\"; a number of five digits or more must be whole minutes",
    )
}

fn label(text: &str) -> CheckResult {
    need(!text.trim().is_empty(), "is blank")?;
    need(text.chars().count() <= 128, "is longer than 128 characters")?;
    need(!has_control(text), "contains a control character")
}

fn line(text: &str) -> CheckResult {
    need((1..=256).contains(&text.chars().count()), "is not 1 to 256 characters")?;
    need(!has_control(text), "contains a control character")
}

fn key_hash(text: &str) -> CheckResult {
    let digits = text.len() == 64 && text.bytes().all(|b| b.is_ascii_hexdigit());
    need(digits, "is not the SHA-256 of a key as 64 hexadecimal digits")
}

fn key_id(text: &str) -> CheckResult {
    let known = text.len() == 12 && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    need(known && text.starts_with("sk-gw-"), "is not the id of a generated key: its first 12 characters")
}

fn team_id(text: &str) -> CheckResult {
    let known = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b));
    need((1..=64).contains(&text.len()) && known, "is not 1 to 64 of A-Z, a-z, 0-9, '.', '_' and '-'")
}

fn json_object(text: &str) -> CheckResult {
    let is_object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).is_ok();
    need(is_object, "is not a JSON object")
}

fn minisign_key(text: &str) -> CheckResult {
    let is_key = minisign_verify::PublicKey::from_base64(text).is_ok();
    need(is_key, "is not a minisign public key; write the line of 56 characters that begins with RW")
}

fn currency(text: &str) -> CheckResult {
    let capitals = text.len() == 3 && text.bytes().all(|b| b.is_ascii_uppercase());
    need(capitals, "is not a currency code of three capital letters, such as USD")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(format: &TextFormat, good: &[&str], bad: &[&str]) {
        for text in good {
            assert_eq!((format.check)(text), Ok(()), "{text} should be {}", format.shape);
        }
        for text in bad {
            assert!((format.check)(text).is_err(), "{text:?} should not be {}", format.shape);
        }
    }

    #[test]
    fn a_listener_is_a_host_and_a_port() {
        let good = ["127.0.0.1:4000", "0.0.0.0:0", "[::]:80", "[::1]:65535", "localhost:1", "a.b-c:9"];
        let bad = [
            "",
            "4000",
            ":4000",
            "a:",
            "a:65536",
            "a:-1",
            "a:+1",
            "::1:80",
            "[::1:80",
            "[x]:1",
            "a b:1",
            "http://a:1",
        ];
        check(&LISTEN, &good, &bad);
    }

    #[test]
    fn a_base_url_is_plain() {
        let good = [
            "https://api.openai.com/v1",
            "http://127.0.0.1:9000/v1/",
            "HTTPS://x",
            "http://[::1]:8080",
            "http://vllm_1.svc:80/a/b",
            "https://[fd00::1]/v1",
        ];
        let bad = [
            "",
            "api.openai.com",
            "ftp://x",
            "https://",
            "https:///v1",
            "https://u@x",
            "https://u:p@x/v1",
            "https://x/v1?a=b",
            "https://x/#f",
            "https://x:0x50/",
            "https://x:99999",
            "https://x/a b",
            "https://x/a/../b",
            "https://x\\@y",
            "http://169.254.169.254/latest",
            "http://[fe80::1]/",
            "http://[::ffff:169.254.169.254]/",
            "https://exämple.org",
            "https://[::1",
            "https://[::1]x/",
        ];
        check(&BASE_URL, &good, &bad);
    }

    #[test]
    fn names_and_ids() {
        check(&PROVIDER, &["acme", "a-b_c9", "0"], &["", "Acme", "a/b", "a.b", "é", &"a".repeat(65)]);
        let bad =
            ["", "x", "/x", "x/", "A/b", "a/b c", "a/b\n", "a//b", "a/b/", "a/b//c", "local//models/x.gguf"];
        check(&MODEL_ID, &["a/b", "together/meta-llama/x", "ollama/llama3:8b", "a/é", "a/b:floor"], &bad);
        check(&ALIAS, &["gpt-4o", "llama3:8b", "a/b"], &["", "a b"]);
        check(&PATTERN, &["acme/*", "*", "acme/fast", "gpt-4o", "acme/f*"], &["", "*/x", "a*b", "**"]);
        check(&CURRENCY, &["USD", "EUR"], &["", "usd", "US", "USDT", "€"]);
        check(&LABEL, &["ci", "My key"], &["", " ", "a\nb", &"x".repeat(129)]);
    }

    #[test]
    fn headers_origins_and_urls() {
        check(
            &HEADER,
            &["x-team", "Authorization", "X_1"],
            &["", "a b", "a:", "Host", "content-length", "é"],
        );
        check(&HEADER_VALUE, &["search", "Bearer x"], &["a\r\nb: c", "\0"]);
        let bad = ["", "example.org", "https://a/", "https://a/b", "https://", "HTTPS://a", "https://a:x"];
        check(&ORIGIN, &["*", "null", "https://a.b", "http://localhost:3000", "tauri://localhost"], &bad);
        check(&NAMED_ORIGIN, &["https://a.b", "http://localhost:3000"], &["*", "null", "a.b"]);
        check(
            &STORE_URL,
            &["sqlite:///a.db", "sqlite::memory:", "postgres://u:p@h/d"],
            &[
                "",
                "mysql://x",
                "/a.db",
                "sqlite://a.db",
                "sqlite:a.db",
                "sqlite:",
                "sqlite://./a.db",
                "postgres://u:p@:x/c",
            ],
        );
        check(&REDIS_URL, &["redis://h:1/0", "rediss://h"], &["", "h:6379", "http://h"]);
        check(&CREDENTIAL, &["My API Key", "sk-1", "ü"], &[" x", "x ", "a\nb"]);
    }
}
