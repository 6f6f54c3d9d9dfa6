//! The world of a test: a gateway with two providers (`acme`, `beta`), each a scripted upstream, and five keys.
//!
//! `world().await` gives the usual one; `Setup { … }.start().await` one with other settings. Models:
//! `acme/fast` (chat, everything, priced), `beta/fast` (same bare name), `acme/plain` (text only), `beta/spare`
//! (a small fallback), `acme/unpriced`, `acme/embed` and `beta/embed-fixed` (embeddings), and those of `demo`.

use gw_testkit::{Client, FakeUpstream, Gateway, Launch, Response};
use serde_json::{Value, json};

/// The program under test.
pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_model-gateway");
/// A key that may use every model.
pub(crate) const KEY: &str = "sk-test-inference";
/// A key of role admin.
pub(crate) const ADMIN: &str = "sk-test-admin";
/// A key that may use `acme/plain` only.
pub(crate) const LIMITED: &str = "sk-test-limited";
/// A key with two requests a minute.
pub(crate) const METERED: &str = "sk-test-metered";
/// A key that has expired.
pub(crate) const EXPIRED: &str = "sk-test-expired";
/// What the gateway shows to its upstreams; must never be seen by a client or in a log.
pub(crate) const UPSTREAM_KEY: &str = "sk-upstream-canary-7391";

/// What differs from the usual configuration, as lines of TOML for the section of that name.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) server: &'static str,
    pub(crate) timeouts: &'static str,
    pub(crate) routing: &'static str,
    /// Of the provider `acme`.
    pub(crate) acme: String,
    /// Of the model `acme/fast`.
    pub(crate) fast: &'static str,
    /// At the end of the file.
    pub(crate) extra: String,
    /// Where `acme` is, when not the scripted upstream.
    pub(crate) acme_url: Option<String>,
}

pub(crate) struct World {
    /// Provider `acme`.
    pub(crate) upstream: FakeUpstream,
    /// Provider `beta`.
    pub(crate) second: FakeUpstream,
    pub(crate) gateway: Gateway,
    /// With `KEY`.
    pub(crate) client: Client,
}

/// The usual world.
pub(crate) async fn world() -> World {
    Setup::default().start().await
}

impl Setup {
    pub(crate) async fn start(self) -> World {
        let (upstream, second) = (FakeUpstream::start().await, FakeUpstream::start().await);
        let acme_url = self.acme_url.clone().unwrap_or_else(|| upstream.base_url());
        // A provider in `extra` can use the same scripted upstream.
        let config = self.config(&acme_url, &second.base_url()).replace("ACME_URL", &acme_url);
        let gateway = serve(&config).await;
        let client = gateway.client().with_key(KEY);
        World { upstream, second, gateway, client }
    }

    /// The whole gateway.toml.
    pub(crate) fn config(&self, acme_url: &str, beta_url: &str) -> String {
        let Self { server, timeouts, routing, acme, fast, extra, .. } = self;
        format!(
            r#"
[server]
listen = "127.0.0.1:0"
{server}

[timeouts]
{timeouts}

[routing]
{routing}

[aliases]
"smart" = "acme/fast"

[[providers]]
name = "acme"
api = "openai"
base_url = "{acme_url}"
api_key = "{UPSTREAM_KEY}"
{acme}

[[providers]]
name = "beta"
api = "openai"
base_url = "{beta_url}"
api_key = "{UPSTREAM_KEY}"

[[providers]]
name = "demo"
api = "demo"

[[models]]
id = "acme/fast"
upstream_model = "fast-2026-01"
name = "Acme Fast"
description = "Quick and cheap"
category = ["chat"]
context_length = 128000
max_output_tokens = 16384
modalities = {{ input = ["text", "image"], output = ["text"] }}
features = ["streaming", "function_calling", "json_mode", "json_schema", "vision"]
license = "proprietary"
pricing = {{ official_input_per_m = 0.15, official_output_per_m = 0.60, cached_input_per_m = 0.075, currency = "USD" }}
quality_scores = {{ overall = 60.0, code = 58.0, math = 62.0, reasoning = 55.0 }}
performance = {{ latency_p50_ms = 400, latency_p99_ms = 2000, availability = 99.9 }}
{fast}

[[models]]
id = "acme/plain"
category = ["chat"]
context_length = 8000
modalities = {{ input = ["text"], output = ["text"] }}
features = ["streaming"]
pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0, currency = "USD" }}

[[models]]
id = "acme/unpriced"
category = ["chat"]

[[models]]
id = "acme/embed"
category = ["embedding"]
embedding_dimensions = [2, 8]
pricing = {{ official_input_per_m = 0.02, currency = "USD" }}

[[models]]
id = "beta/fast"
category = ["chat"]
pricing = {{ official_input_per_m = 0.30, official_output_per_m = 1.20, currency = "USD" }}

[[models]]
id = "beta/spare"
category = ["chat"]
max_output_tokens = 100
pricing = {{ official_input_per_m = 3.0, official_output_per_m = 15.0, currency = "USD" }}

[[models]]
id = "beta/embed-fixed"
category = ["embedding"]

[[keys]]
name = "ci"
key = "{KEY}"

[[keys]]
name = "boss"
key = "{ADMIN}"
role = "admin"

[[keys]]
name = "limited"
key = "{LIMITED}"
models = ["acme/plain"]

[[keys]]
name = "metered"
key = "{METERED}"
rpm = 2

[[keys]]
name = "expired"
key = "{EXPIRED}"
expires_at = 2020-01-01T00:00:00Z

{extra}
"#
        )
    }
}

/// Starts the program with this gateway.toml.
pub(crate) async fn serve(config: &str) -> Gateway {
    Launch::new(BINARY).file("gateway.toml", config).start().await
}

/// A chat request of one user message.
pub(crate) fn chat(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "Hello" }] })
}

/// The same with more members.
pub(crate) fn chat_with(model: &str, more: Value) -> Value {
    with(chat(model), more)
}

/// `body` with the members of `more` set.
pub(crate) fn with(mut body: Value, more: Value) -> Value {
    let Value::Object(more) = more else { panic!("members are given as an object") };
    body.as_object_mut().expect("a request is an object").extend(more);
    body
}

impl World {
    pub(crate) async fn chat(&self, body: &Value) -> Response {
        self.client.post_json("/v1/chat/completions", body).await
    }

    /// A chat whose answer must be a 200.
    #[track_caller]
    pub(crate) fn chat_ok(&self, body: &Value) -> impl Future<Output = Value> {
        let place = std::panic::Location::caller();
        let body = body.clone();
        async move {
            let answer = self.chat(&body).await;
            assert_eq!(answer.status, 200, "asked at {place}: {}", answer.text());
            answer.json()
        }
    }
}

/// Checks a whole error answer: status, the body to the letter, and the headers that belong to it.
#[track_caller]
pub(crate) fn assert_error(label: &str, answer: &Response, status: u16, kind: &str, code: &str) {
    let text = String::from_utf8_lossy(&answer.body);
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{label}: {text}");
    let body = answer.json();
    let error = body["error"].as_object().unwrap_or_else(|| panic!("{label}: {text}"));
    assert_eq!(body.as_object().map(serde_json::Map::len), Some(1), "{label}: {text}");
    assert_eq!(error.len(), 3, "{label}: {text}");
    assert!(error.values().all(Value::is_string), "{label}: {text}");
    assert!(!answer.message().is_empty(), "{label}: {text}");
    assert!(text.starts_with(r#"{"error":{"message":""#), "{label}: {text}");
    assert!(text.ends_with(&format!(r#"","type":"{kind}","code":"{code}"}}}}"#)), "{label}: {text}");
    for secret in [UPSTREAM_KEY, KEY, "127.0.0.1", "panicked", ".rs:"] {
        assert!(!text.contains(secret), "{label}: {secret} must not be told: {text}");
    }
    assert_eq!(answer.header("content-type"), Some("application/json"), "{label}");
    assert_eq!(answer.header("access-control-allow-origin"), Some("*"), "{label}");
    assert_request_id(label, answer.header("x-request-id"));
    let no_retry = matches!(
        code,
        "insufficient_quota" | "upstream_auth_error" | "upstream_billing_error" | "upstream_model_missing"
    );
    assert_eq!(answer.header("x-should-retry"), no_retry.then_some("false"), "{label}: x-should-retry");
    let waits = matches!(
        code,
        "rate_limit_exceeded" | "upstream_rate_limited" | "upstream_overloaded" | "no_available_provider"
    );
    match answer.header("retry-after") {
        Some(after) => {
            assert!(waits, "{label}: no retry-after belongs here");
            let seconds: u64 = after.parse().unwrap_or_else(|_| panic!("{label}: retry-after {after:?}"));
            assert!((1..=120).contains(&seconds), "{label}: retry-after {seconds}");
        }
        None => assert!(!waits, "{label}: retry-after is missing"),
    }
    assert_eq!(answer.header("www-authenticate"), (status == 401).then_some("Bearer"), "{label}");
    assert_eq!(answer.header("allow").is_some(), status == 405, "{label}: allow");
}

/// `req_` and 26 characters.
#[track_caller]
pub(crate) fn assert_request_id(label: &str, id: Option<&str>) {
    let id = id.unwrap_or_else(|| panic!("{label}: x-request-id is missing"));
    let rest = id.strip_prefix("req_").unwrap_or_else(|| panic!("{label}: x-request-id {id:?}"));
    assert_eq!(rest.len(), 26, "{label}: x-request-id {id:?}");
    assert!(rest.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{label}: x-request-id {id:?}");
}

/// `invalid_request_error` with status 400.
#[track_caller]
pub(crate) fn assert_invalid(label: &str, answer: &Response, code: &str) {
    assert_error(label, answer, 400, "invalid_request_error", code);
}
