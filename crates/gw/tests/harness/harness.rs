//! The environment of a test: a gateway with two providers (`acme`, `beta`), each a scripted upstream, and five keys.
//!
//! `world().await` gives the default one; `Setup { … }.start().await` one with other settings. Models:
//! `acme/fast` (chat, everything, priced), `beta/fast` (same bare name), `acme/plain` (text only), `beta/spare`
//! (a small fallback), `acme/unpriced`, `acme/embed` and `beta/embed-fixed` (embeddings), `acme/rerank`, `acme/moderation`,
//! `acme/paint` (images), `acme/speak` (speech), `acme/hear` (transcripts), and those of `demo`.

pub(crate) mod answers;
pub(crate) mod browser;
pub(crate) mod canary;
pub(crate) mod curl;
pub(crate) mod database;
pub(crate) mod dialects;
pub(crate) mod forms;
pub(crate) mod images;
pub(crate) mod ledger;
pub(crate) mod management;
pub(crate) mod providers;
pub(crate) mod realtime;
pub(crate) mod roles;
pub(crate) mod signs;
pub(crate) mod socket;
pub(crate) mod tenants;

use std::net::SocketAddr;

use gw_testkit::wait::eventually_async;
use gw_testkit::{Client, FakeUpstream, Gateway, Launch, Response};
pub(crate) use gw_testkit::{Differences, compressed};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// The program under test: the debug build, or the program that `MODEL_GATEWAY_BIN` names. `./test` names the release build, which needs
/// a third of the time.
pub(crate) fn binary() -> &'static str {
    static NAMED: std::sync::OnceLock<Option<String>> = std::sync::OnceLock::new();
    let named = NAMED.get_or_init(|| std::env::var("MODEL_GATEWAY_BIN").ok());
    named.as_deref().unwrap_or(debug_build())
}

/// The program of cargo's own profile for tests.
pub(crate) fn debug_build() -> &'static str {
    env!("CARGO_BIN_EXE_model-gateway")
}

/// A key that may use every model.
pub(crate) const KEY: &str = "sk-test-inference";
/// A key of role admin.
pub(crate) const ADMIN: &str = "sk-test-admin";
/// A key that may use `acme/plain` only.
pub(crate) const LIMITED: &str = "sk-test-limited";
/// A key with two requests a minute.
pub(crate) const METERED: &str = "sk-test-metered";
/// A setting of the server for tests with many clients that read nothing: a busy machine needs minutes to bring them all.
pub(crate) const PATIENT: &str = "send_timeout_ms = 3600000";
/// A key that has expired.
pub(crate) const EXPIRED: &str = "sk-test-expired";
/// The gateway's key for its upstreams; it must never reach a client or a log.
pub(crate) const UPSTREAM_KEY: &str = "sk-upstream-canary-7391";

/// Changes of the default configuration, as lines of TOML for the section of that name.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) server: &'static str,
    pub(crate) timeouts: &'static str,
    pub(crate) routing: &'static str,
    pub(crate) aliases: &'static str,
    /// Lines of the provider `acme`.
    pub(crate) acme: String,
    /// Lines of the model `acme/fast`.
    pub(crate) fast: &'static str,
    /// Text for the end of the file; `<acme_url>` stands for the scripted upstream.
    pub(crate) extra: String,
    /// The base URL of `acme`, when it is not the scripted upstream.
    pub(crate) acme_url: Option<String>,
}

pub(crate) struct World {
    /// The upstream of the provider `acme`.
    pub(crate) upstream: FakeUpstream,
    /// The upstream of the provider `beta`.
    pub(crate) second: FakeUpstream,
    pub(crate) gateway: Gateway,
    /// A client with `KEY`.
    pub(crate) client: Client,
}

/// The default environment.
pub(crate) async fn world() -> World {
    Setup::default().start().await
}

impl Setup {
    pub(crate) async fn start(self) -> World {
        let (upstream, second) = (FakeUpstream::start().await, FakeUpstream::start().await);
        let acme_url = self.acme_url.clone().unwrap_or_else(|| upstream.base_url());
        let config = self.config(&acme_url, &second.base_url());
        let gateway = serve(&config).await;
        let client = gateway.client().with_key(KEY);
        World { upstream, second, gateway, client }
    }

    /// The whole gateway.toml.
    pub(crate) fn config(&self, acme_url: &str, beta_url: &str) -> String {
        // A test that sets several provider keys writes `api_keys`.
        let own_keys = self.acme.contains("api_keys");
        let acme_key = if own_keys { "" } else { "api_key = \"<upstream_key>\"" };
        // A debug build on a busy machine is slow. Only tests of overload want refusals.
        let own_shed = self.server.contains("shed_after_ms");
        let shed = if own_shed { "" } else { "shed_after_ms = 60000" };
        let values = [
            ("<shed>", shed),
            ("<acme_key>", acme_key),
            ("<server>", self.server),
            ("<timeouts>", self.timeouts),
            ("<routing>", self.routing),
            ("<aliases>", self.aliases),
            ("<acme>", &self.acme),
            ("<fast>", self.fast),
            ("<extra>", &self.extra),
            ("<acme_url>", acme_url),
            ("<beta_url>", beta_url),
            ("<upstream_key>", UPSTREAM_KEY),
            ("<key>", KEY),
            ("<admin>", ADMIN),
            ("<limited>", LIMITED),
            ("<metered>", METERED),
            ("<expired>", EXPIRED),
        ];
        let template = include_str!("world.toml").to_owned();
        values.iter().fold(template, |text, (name, value)| text.replace(name, value))
    }
}

/// Starts the program with this gateway.toml.
pub(crate) async fn serve(config: &str) -> Gateway {
    Launch::new(binary()).file("gateway.toml", config).start().await
}

/// Sends a chat on its own connection, which closes after the answer; `None` when the gateway is gone.
pub(crate) async fn send_chat(addr: SocketAddr, key: &str, body: &Value) -> Option<TcpStream> {
    let body = body.to_string();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {key}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    let mut socket = TcpStream::connect(addr).await.ok()?;
    socket.write_all(format!("{head}{body}").as_bytes()).await.ok()?;
    Some(socket)
}

/// A chat request of one user message.
pub(crate) fn chat(model: &str) -> Value {
    json!({ "model": model, "messages": [{ "role": "user", "content": "Hello" }] })
}

/// A chat request with more members.
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

    /// Sends a chat whose answer must be a 200; gives its body.
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

/// The row of a request as the management API shows it, as soon as it is written. The lines of its cost add up to it.
pub(crate) async fn logged(admin: &Client, id: &str) -> Value {
    let path = format!("/admin/v1/requests/{id}");
    eventually_async("the row is in the ledger", async || {
        let answer = admin.get(&path).await;
        if answer.status == 200 {
            let row = answer.json();
            let total = row["cost"].get("total_usd");
            assert!(total.is_none_or(|total| *total == row["cost_usd"]), "the lines are not the cost: {row}");
            assert_ne!(row["cost"]["matches_log"], json!(false), "{row}");
            return Some(row);
        }
        None
    })
    .await
}

/// Checks a whole error answer: the status, the exact body and its headers.
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
    // `k10_…` says which URLs allow other origins.
    assert!(matches!(answer.header("access-control-allow-origin"), None | Some("*")), "{label}");
    assert!(answer.header("content-security-policy").is_some(), "{label}");
    assert_request_id(label, answer.header("x-request-id"));
    let waits = matches!(
        code,
        "rate_limit_exceeded"
            | "upstream_rate_limited"
            | "upstream_overloaded"
            | "no_available_provider"
            | "store_unavailable"
            | "budget_store_unavailable"
    );
    let may_succeed = waits
        || matches!(
            code,
            "request_timeout"
                | "internal_error"
                | "upstream_error"
                | "upstream_unreachable"
                | "upstream_invalid_response"
                | "upstream_stream_error"
                | "upstream_timeout"
        );
    let should_retry = if may_succeed { "true" } else { "false" };
    // A request that is larger than its key's tokens per minute never succeeds.
    let is_too_large = answer.message().contains("Ask for fewer with 'max_tokens'");
    let should_retry = if is_too_large { "false" } else { should_retry };
    assert_eq!(answer.header("x-should-retry"), Some(should_retry), "{label}: x-should-retry");
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
