//! Every rule of a key on every surface of WebSockets: the Responses API and realtime sessions.

use gw_testkit::Differences;
use gw_testkit::wait::{eventually, eventually_async};
use serde_json::{Value, json};

use super::response;
use crate::harness::management::{ask as ask_admin, create};
use crate::harness::realtime::{
    RealtimeUpstream, UpstreamSession, created, done, full_usage, open_session, refused, world_with,
};
use crate::harness::socket::{Refusal, SocketClient, open_at};
use crate::harness::{ADMIN, EXPIRED, KEY, Setup, World, assert_request_id, logged, with};

/// A surface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Surface {
    Responses,
    Realtime,
}

const SURFACES: [Surface; 2] = [Surface::Responses, Surface::Realtime];

const RULES: &str = r#"
[[budgets]]
name = "spent"
match = { key = ["ruled-Responses", "ruled-Realtime"] }
budget_usd = 0.000000001

[[budgets]]
name = "quiet"
match = { key = ["shadowed-Responses", "shadowed-Realtime"] }
mode = "shadow"
budget_usd = 0.000000001

[[budgets]]
name = "one"
match = { key = ["shared-Responses", "shared-too-Responses", "shared-Realtime", "shared-too-Realtime"] }
in_flight = 1

[[guards]]
match = { keys = ["guarded-Responses", "guarded-Realtime"] }
max_calls = 1
"#;

/// An open socket of a surface.
struct Session {
    client: SocketClient,
    /// The upstream's end of a realtime session.
    upstream: Option<UpstreamSession>,
}

/// The way in which a request ended: its status and code, and the whole event.
type Ended = (u16, String, Value);

/// The environment of a table.
struct Table {
    upstream: RealtimeUpstream,
    world: World,
}

impl Table {
    async fn start() -> Self {
        let upstream = RealtimeUpstream::start().await;
        let setup =
            Setup { acme: "responses = false".to_owned(), extra: RULES.to_owned(), ..Setup::default() };
        let world = world_with(&upstream, setup).await;
        Self { upstream, world }
    }

    async fn key(&self, surface: Surface, name: &str, members: Value) -> (String, Value) {
        let admin = self.world.gateway.client().with_key(ADMIN);
        create(&admin, with(json!({"name": format!("{name}-{surface:?}")}), members)).await
    }

    async fn open(&self, surface: Surface, key: &str) -> Result<Session, Refusal> {
        self.open_with(surface, key, &[]).await
    }

    async fn open_with(
        &self,
        surface: Surface,
        key: &str,
        more: &[(&str, &str)],
    ) -> Result<Session, Refusal> {
        let bearer = format!("Bearer {key}");
        let headers = [&[("authorization", bearer.as_str())], more].concat();
        match surface {
            Surface::Responses => {
                let client = open_at(self.world.gateway.addr, "/v1/responses", &headers).await?;
                Ok(Session { client, upstream: None })
            }
            Surface::Realtime => {
                let path = "/v1/realtime?model=rt/voice";
                let (client, session) = open_session(&self.upstream, &self.world, path, &headers).await?;
                Ok(Session { client, upstream: Some(session) })
            }
        }
    }

    async fn session(&self, surface: Surface, key: &str) -> Session {
        self.open(surface, key).await.unwrap_or_else(|refusal| panic!("{surface:?}: {refusal:?}"))
    }

    /// The number of responses that upstreams were asked for.
    fn calls(&self) -> usize {
        self.world.upstream.hits()
    }
}

impl Session {
    /// Asks for a response, and reads to its end.
    async fn ask(&mut self) -> Ended {
        let event = match &mut self.upstream {
            None => {
                let turn = with(response("acme/fast"), json!({"type": "response.create", "store": false}));
                self.client.ask(&turn).await
            }
            Some(upstream) => {
                self.client.send(&json!({"type": "response.create"})).await;
                tokio::select! {
                    refusal = self.client.event() => refusal,
                    asked = upstream.event() => {
                        assert_eq!(asked["type"], "response.create");
                        upstream.respond("r", &full_usage()).await;
                        assert_eq!(self.client.event().await["type"], "response.created");
                        self.client.event().await
                    }
                }
            }
        };
        let status = event["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(200);
        (status, event["error"]["code"].as_str().unwrap_or_default().to_owned(), event)
    }
}

fn at(status: u16, code: &str) -> (u16, String) {
    (status, code.to_owned())
}

/// Where a rule refuses: the handshake, or a request of an open socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Handshake,
    Request,
}

/// A rule that refuses the first request of its key: the key's settings, the places of both surfaces, and the refusal.
struct Rule {
    name: &'static str,
    key: Value,
    places: [Place; 2],
    status: u16,
    code: &'static str,
}

fn rules() -> Vec<Rule> {
    use Place::{Handshake, Request};
    let rule = |name, key, places, status, code| Rule { name, key, places, status, code };
    let both = [Request, Request];
    vec![
        rule("poor", json!({"budget_usd": 0.000_000_001}), both, 429, "insufficient_quota"),
        rule("ruled", json!({}), both, 429, "insufficient_quota"),
        rule("slow", json!({"tpm": 1}), both, 429, "rate_limit_exceeded"),
        rule("narrow", json!({"models": ["acme/plain"]}), [Request, Handshake], 403, "model_not_allowed"),
    ]
}

#[tokio::test]
async fn every_rule_refuses_on_every_surface_before_anything_is_sent() {
    let table = Table::start().await;
    let mut differences = Differences::default();
    for rule in rules() {
        for (surface, place) in SURFACES.into_iter().zip(rule.places) {
            let label = format!("{surface:?}: {}", rule.name);
            let (secret, _) = table.key(surface, rule.name, rule.key.clone()).await;
            let calls = table.calls();
            match (table.open(surface, &secret).await, place) {
                (Err(refusal), Place::Handshake) => {
                    differences.check(label, refused(&refusal), at(rule.status, rule.code));
                }
                (Ok(mut session), Place::Request) => {
                    let (status, code, event) = session.ask().await;
                    differences.check(label.clone(), (status, code), at(rule.status, rule.code));
                    if rule.name == "ruled" {
                        let message = event["error"]["message"].as_str().unwrap_or_default();
                        assert!(message.contains("rule 'spent'"), "{label}: {event}");
                    }
                    // The socket stays open.
                    let (again, ..) = session.ask().await;
                    differences.check(format!("{label}, again"), again, rule.status);
                }
                (opened, _) => panic!("{label}: {:?}", opened.map(|_| "open")),
            }
            differences.check(format!("{surface:?}: {}, calls", rule.name), table.calls(), calls);
        }
    }
    differences.finish();
}

#[tokio::test]
async fn a_handshake_is_refused_in_the_shape_of_every_error() {
    let table = Table::start().await;
    for surface in SURFACES {
        let (revoked, record) = table.key(surface, "revoked", json!({})).await;
        let admin = table.world.gateway.client().with_key(ADMIN);
        let path = format!("/admin/v1/keys/{}", record["id"].as_str().expect("an id"));
        ask_admin(&admin, "DELETE", &path, &json!({})).await.ok();
        for key in ["sk-wrong", EXPIRED, revoked.as_str()] {
            let label = format!("{surface:?}: {key}");
            let refusal = table.open(surface, key).await.err().unwrap_or_else(|| panic!("{label}"));
            assert_eq!(refused(&refusal), at(401, "invalid_api_key"), "{label}");
            let header = |name: &str| refusal.headers().get(name).map(|value| value.to_str().unwrap_or(""));
            assert_eq!(header("www-authenticate"), Some("Bearer"), "{label}");
            assert_eq!(header("content-type"), Some("application/json"), "{label}");
            assert_eq!(header("x-should-retry"), Some("false"), "{label}");
            assert_request_id(&label, header("x-request-id"));
            let body: Value =
                serde_json::from_slice(refusal.body().as_deref().unwrap_or_default()).expect("JSON");
            let members: Vec<&String> = body["error"].as_object().expect("an error").keys().collect();
            // The Responses API always has `param`.
            let expected: &[&str] = match surface {
                Surface::Responses => &["code", "message", "param", "type"],
                Surface::Realtime => &["code", "message", "type"],
            };
            assert_eq!(members, expected, "{label}: {body}");
            assert_eq!(body["error"]["type"], "authentication_error", "{label}");
        }
    }
}

#[tokio::test]
async fn limits_of_requests_count_turns_and_sessions() {
    let table = Table::start().await;
    for surface in SURFACES {
        let (secret, _) = table.key(surface, "rpm", json!({"rpm": 1})).await;
        let mut session = table.session(surface, &secret).await;
        assert_eq!(session.ask().await.0, 200, "{surface:?}");
        match surface {
            Surface::Responses => {
                let (status, code, event) = session.ask().await;
                assert_eq!((status, code), at(429, "rate_limit_exceeded"), "{surface:?}");
                assert!(event["headers"]["retry-after"].is_string(), "{event}");
            }
            // The responses of a session do not count, and the next session does.
            Surface::Realtime => {
                assert_eq!(session.ask().await.0, 200);
                let refusal = table.open(surface, &secret).await.err().expect("a second session");
                assert_eq!(refused(&refusal), at(429, "rate_limit_exceeded"));
                assert!(refusal.headers().contains_key("retry-after"));
            }
        }
    }
}

#[tokio::test]
async fn what_is_in_flight_counts_for_the_key_and_for_what_keys_share() {
    let table = Table::start().await;
    for surface in SURFACES {
        for (name, members) in [("flight", json!({"max_in_flight": 1})), ("shared", json!({}))] {
            let label = format!("{surface:?}: {name}");
            let (first, _) = table.key(surface, name, members).await;
            let second = if name == "shared" {
                table.key(surface, "shared-too", json!({})).await.0
            } else {
                first.clone()
            };
            let mut holding = table.session(surface, &first).await;
            match surface {
                Surface::Responses => {
                    let calls = table.calls();
                    table.world.upstream.enqueue(gw_testkit::Answer::default().hang());
                    let turn =
                        with(response("acme/fast"), json!({"type": "response.create", "store": false}));
                    holding.client.send(&turn).await;
                    table.world.upstream.request(calls).await;
                    let (status, code, _) = table.session(surface, &second).await.ask().await;
                    assert_eq!((status, code), at(429, "rate_limit_exceeded"), "{label}");
                }
                Surface::Realtime => {
                    let refusal = table.open(surface, &second).await.err().expect("a second session");
                    assert_eq!(refused(&refusal), at(429, "rate_limit_exceeded"), "{label}");
                }
            }
            drop(holding);
            // The place is free again.
            let mut session = None;
            while session.is_none() {
                session = table.open(surface, &second).await.ok();
            }
            let mut session = session.expect("a session");
            while session.ask().await.0 != 200 {}
        }
    }
}

#[tokio::test]
async fn a_revoked_key_and_a_guard_end_the_requests_of_an_open_socket() {
    let table = Table::start().await;
    let admin = table.world.gateway.client().with_key(ADMIN);
    for surface in SURFACES {
        let (secret, record) = table.key(surface, "leaving", json!({})).await;
        let mut session = table.session(surface, &secret).await;
        assert_eq!(session.ask().await.0, 200, "{surface:?}");
        let path = format!("/admin/v1/keys/{}", record["id"].as_str().expect("an id"));
        ask_admin(&admin, "DELETE", &path, &json!({})).await.ok();
        let (status, code, _) = session.ask().await;
        assert_eq!((status, code), at(401, "invalid_api_key"), "{surface:?}");

        let (secret, _) = table.key(surface, "guarded", json!({})).await;
        let run = [("x-gateway-session", "run-1")];
        let mut session = table.open_with(surface, &secret, &run).await.expect("a session");
        assert_eq!(session.ask().await.0, 200, "{surface:?}");
        let (status, code, _) = session.ask().await;
        assert_eq!((status, code), at(429, "session_limit_reached"), "{surface:?}");
    }
}

#[tokio::test]
async fn each_request_has_its_row_its_log_line_its_metrics_and_its_payload_if_the_key_keeps_them() {
    let table = Table::start().await;
    let admin = table.world.gateway.client().with_key(ADMIN);
    for surface in SURFACES {
        let (row_surface, route) = match surface {
            Surface::Responses => ("responses", "/v1/responses"),
            Surface::Realtime => ("realtime", "/v1/realtime"),
        };
        for keeps in [false, true] {
            let name = if keeps { "kept" } else { "unkept" };
            let members = json!({"log_payloads": keeps, "trust_attribution": true});
            let (secret, record) = table.key(surface, name, members).await;
            let names = [("x-gateway-user", "ann"), ("x-gateway-tags", "blue")];
            let mut session = table.open_with(surface, &secret, &names).await.expect("a session");
            assert_request_id("the 101", session.client.headers["x-request-id"].to_str().ok());
            assert_eq!(session.ask().await.0, 200, "{surface:?}");
            let line = eventually("a line of the access log", || {
                let lines = table.world.gateway.logs();
                lines.into_iter().find(|line| {
                    line["key"] == record["name"]
                        && line["route"] == route
                        && line["status"] == 200
                        && line["cost_usd"].is_number()
                })
            })
            .await;
            let id = line["request_id"].as_str().expect("an id").to_owned();
            let row = eventually_logged(&admin, &id, keeps).await;
            assert_eq!((&row["surface"], &row["status"]), (&json!(row_surface), &json!("ok")), "{row}");
            assert_eq!((&row["end_user"], &row["tags"]), (&json!("ann"), &json!(["blue"])), "{row}");
            assert!(row["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0), "{row}");
            assert_eq!(row["payload"].is_null(), !keeps, "{surface:?}: {row}");
        }
        let metrics = admin.get("/metrics").await.text();
        let requests = format!("gateway_http_requests_total{{route=\"{route}\"");
        assert!(metrics.lines().any(|line| line.starts_with(&requests)), "{surface:?}: {metrics}");
    }
}

/// The row of a request. Its payload is written after it.
async fn eventually_logged(admin: &gw_testkit::Client, id: &str, has_payload: bool) -> Value {
    eventually_async("the payload is stored", async || {
        let row = logged(admin, id).await;
        (!has_payload || !row["payload"].is_null()).then_some(row)
    })
    .await
}

#[tokio::test]
async fn a_rule_in_shadow_mode_serves_and_counts() {
    let table = Table::start().await;
    let admin = table.world.gateway.client().with_key(ADMIN);
    let mut before = 0;
    for surface in SURFACES {
        let (secret, _) = table.key(surface, "shadowed", json!({})).await;
        assert_eq!(table.session(surface, &secret).await.ask().await.0, 200, "{surface:?}");
        let budgets = admin.get("/admin/v1/budgets").await.json();
        let rules = budgets["data"].as_array().expect("a list");
        let quiet = rules.iter().find(|rule| rule["name"] == "quiet").expect("the rule");
        let counted = quiet["counters"][0]["would_refuse"].as_u64().expect("a count");
        assert!(counted > before, "{surface:?}: {quiet}");
        before = counted;
    }
}

#[tokio::test]
async fn a_drain_lets_requests_end_refuses_further_ones_and_closes_every_socket() {
    let mut table = Table::start().await;
    let (mut idle, mut busy) = (Vec::new(), Vec::new());
    for surface in SURFACES {
        idle.push(table.session(surface, KEY).await);
        busy.push(table.session(surface, KEY).await);
    }
    let release = gw_testkit::Signal::new();
    let begun = gw_testkit::upstream::sse_data(&json!({"content": "Hello"}), None);
    let answer = gw_testkit::Answer::sse().all(&[begun]).wait(&release);
    table.world.upstream.always(answer.all(&gw_testkit::upstream::chat_transcript(&[" again"])).done());
    let [turns, realtime] = &mut busy[..] else { panic!("two sessions") };
    turns.client.send(&with(response("acme/fast"), json!({"type": "response.create", "store": false}))).await;
    while turns.client.event().await["type"] != "response.output_text.delta" {}
    let upstream = realtime.upstream.as_mut().expect("an upstream");
    realtime.client.send(&json!({"type": "response.create"})).await;
    upstream.event().await;
    upstream.send(&created("r")).await;
    realtime.client.event().await;
    table.world.gateway.sigterm();
    for session in &mut idle {
        assert_eq!(session.client.closed().await, Some(1001));
    }
    release.fire();
    assert_eq!(turns.client.turn().await.pop().expect("an event")["type"], "response.completed");
    upstream.send(&done("r", "completed", &full_usage())).await;
    assert_eq!(realtime.client.event().await["type"], "response.done");
    for session in &mut busy {
        assert_eq!(session.client.closed().await, Some(1001));
    }
    assert!(table.world.gateway.ended().await.success());
}
