//! The documents behind the pages of the console: the overview, the log with its filters, a request, and new requests.

use gw_testkit::wait::within;
use gw_testkit::{Answer, Client};
use serde_json::{Value, json};

use crate::harness::browser::{page_with, sign_in};
use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, World, chat, chat_with, logged, world};

/// The sums that the overview, the usage report and the rows must agree on. Amounts are in femto-USD.
fn sums(object: &Value) -> [i128; 8] {
    let count = |name: &str| object[name].as_i64().map_or(0, i128::from);
    let usd = |name: &str| (object[name].as_f64().unwrap_or(0.0) * 1e15).round() as i128;
    [
        count("requests"),
        count("failed"),
        count("cache_hits"),
        count("prompt_tokens"),
        count("completion_tokens"),
        count("total_tokens"),
        usd("cost_usd"),
        count("unpriced_requests"),
    ]
}

fn added(objects: &[Value]) -> [i128; 8] {
    objects.iter().map(sums).fold([0; 8], |total, one| std::array::from_fn(|at| total[at] + one[at]))
}

/// A row of the log as sums of one request.
fn of_row(row: &Value) -> Value {
    let mut sums = row.clone();
    sums["requests"] = json!(1);
    sums["failed"] = json!(i32::from(row["status"] != "ok"));
    sums["cache_hits"] = json!(i32::from(row["cache_hit"] == true));
    sums["unpriced_requests"] = json!(i32::from(row["unpriced"] == true));
    sums
}

fn id(answer: &gw_testkit::Response) -> String {
    answer.header("x-request-id").expect("an id").to_owned()
}

/// Sends requests over several surfaces with several endings, and waits for their rows.
async fn mixed(world: &World, admin: &Client) -> Vec<String> {
    let mut ids = Vec::new();
    for (url, body) in [
        ("/v1/chat/completions", chat("acme/fast")),
        ("/v1/chat/completions", chat_with("acme/fast", json!({ "stream": true }))),
        ("/v1/chat/completions", chat("acme/unpriced")),
        ("/v1/chat/completions", chat("demo/error-500")),
        ("/v1/responses", json!({ "model": "acme/fast", "input": "Hello", "store": false })),
        (
            "/v1/messages",
            json!({ "model": "acme/plain", "max_tokens": 9, "messages": [{ "role": "user", "content": "Hi" }] }),
        ),
        ("/v1/embeddings", json!({ "model": "acme/embed", "input": "Hello" })),
        ("/v1/rerank", json!({ "model": "acme/rerank", "query": "q", "documents": ["x"] })),
        ("/v1/moderations", json!({ "model": "acme/moderation", "input": "x" })),
        ("/v1/images/generations", json!({ "model": "acme/paint", "prompt": "x" })),
        ("/v1/audio/speech", json!({ "model": "acme/speak", "input": "x", "voice": "v" })),
        ("/v1beta/models/acme/fast:generateContent", json!({ "contents": [{ "parts": [{ "text": "x" }] }] })),
        ("/v1beta/models/acme/embed:embedContent", json!({ "content": { "parts": [{ "text": "x" }] } })),
        ("/v1/completions", json!({ "model": "acme/fast", "prompt": "Hello" })),
    ] {
        ids.push(id(&world.client.post_json(url, &body).await));
    }
    for id in &ids {
        logged(admin, id).await;
    }
    ids
}

#[tokio::test]
async fn g1_the_overview_is_the_sum_of_the_rows_and_the_usage_report() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let sent = mixed(&world, &admin).await;
    let rows = admin.get("/admin/v1/requests?limit=100").await.ok().json();
    let rows: Vec<Value> = rows["data"].as_array().expect("rows").iter().map(of_row).collect();
    assert_eq!(rows.len(), sent.len());
    let expected = added(&rows);
    assert!(expected[1] > 0 && expected[6] > 0 && expected[7] > 0, "{expected:?}");
    for by in ["model", "provider", "key", "team", "surface"] {
        let overview =
            admin.get(&format!("/admin/v1/overview?by={by}&since=2h&compare=true")).await.ok().json();
        assert_eq!(sums(&overview["total"]), expected, "{by}");
        assert_eq!(added(overview["series"].as_array().expect("a series")), expected, "{by}: over time");
        assert_eq!(added(overview["groups"].as_array().expect("groups")), expected, "{by}: groups");
        assert_eq!(sums(&overview["previous"]["total"]), [0; 8], "{by}: before");
        assert_eq!(overview["previous"]["until"], overview["since"]);
        let usage = admin.get(&format!("/admin/v1/usage?by={by}&since=2h")).await.ok().json();
        assert_eq!(overview["total"], usage["total"], "{by}: the same digits");
        assert_eq!(overview["speed"]["samples"], sent.len());
        assert_eq!(overview["speed"]["is_complete"], true);
    }
    let named = admin.get("/admin/v1/overview?by=key").await.ok().json();
    assert_eq!((&named["groups"][0]["name"], &named["interval"]), (&json!("ci"), &json!("hour")), "{named}");
    let filtered = admin.get("/admin/v1/overview?model=acme/unpriced&since=7d").await.ok().json();
    assert_eq!((&filtered["total"]["requests"], &filtered["interval"]), (&json!(1), &json!("day")));
    assert_eq!(filtered["previous"], Value::Null);
    for (query, code) in
        [("by=day", "invalid_value"), ("x=1", "unsupported_parameter"), ("since=y", "invalid_value")]
    {
        assert_eq!(admin.get(&format!("/admin/v1/overview?{query}")).await.code(), code, "{query}");
    }
}

#[tokio::test]
async fn the_log_is_searched_by_cost_latency_error_and_failure() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let sent = mixed(&world, &admin).await;
    let found = async |query: &str| -> Vec<String> {
        let mut url = format!("/admin/v1/requests?{query}");
        let mut found = Vec::new();
        loop {
            let page = admin.get(&url).await.ok().json();
            let rows = page["data"].as_array().expect("rows").iter();
            found.extend(rows.map(|row| row["request_id"].as_str().expect("an id").to_owned()));
            let Some(next) = page["next"].as_str() else { return found };
            url = format!("/admin/v1/requests?{query}&after={next}");
        }
    };
    let failed = [sent[3].clone()];
    assert_eq!(found("status=failed").await, failed);
    assert_eq!(found("error=UPSTREAM").await, failed);
    assert_eq!(found("error=no%20such%20text").await, [""; 0]);
    let mut all = sent.clone();
    // Requests of one millisecond are in the order of their ids.
    all.sort_by(|one, other| other.cmp(one));
    assert_eq!(found("latency_min_ms=0&limit=3").await, all, "page by page");
    assert_eq!(found("latency_min_ms=99999999").await, [""; 0]);
    assert_eq!(found("cost_min=1000").await, [""; 0]);
    let costly = found("cost_min=0.000001&limit=1").await;
    assert!(!costly.is_empty() && costly.len() < sent.len() && !costly.contains(&failed[0]), "{costly:?}");
    let page = admin.get("/admin/v1/requests?latency_min_ms=0").await.ok().json();
    assert_eq!(page["searched"], sent.len());
    assert_eq!(admin.get("/admin/v1/requests?cost_min=x").await.code(), "invalid_value");
}

#[tokio::test]
async fn a_request_has_its_cost_line_by_line_and_its_neighbours_in_time() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let agent = world.client.with_header("x-gateway-session", "run-1");
    let mut ids = Vec::new();
    for model in ["acme/fast", "acme/plain", "demo/error-500"] {
        ids.push(id(&agent.post_json("/v1/chat/completions", &chat(model)).await));
    }
    // A torn answer costs its prompt, and is the only attempt.
    world.upstream.enqueue(Answer::full(200, &[("content-type", "application/json")], "{"));
    let torn = id(&world.client.post_json("/v1/chat/completions", &chat("acme/plain")).await);
    let torn = logged(&admin, &torn).await;
    assert_eq!(
        (&torn["cost"]["total_usd"], &torn["cost"]["matches_log"]),
        (&torn["cost_usd"], &json!(true)),
        "{torn}"
    );
    assert_eq!(
        (&torn["cost"]["other_attempts_usd"], &torn["completion_tokens"]),
        (&json!(0), &json!(0)),
        "{torn}"
    );
    assert!(torn["cost_usd"].as_f64() > Some(0.0), "{torn}");
    for id in &ids {
        logged(&admin, id).await;
    }
    let shown = admin.get(&format!("/admin/v1/requests/{}", ids[1])).await.ok().json();
    let cost = &shown["cost"];
    assert_eq!((&cost["model"], &cost["matches_log"]), (&json!("acme/plain"), &json!(true)), "{cost}");
    assert_eq!(cost["total_usd"], shown["cost_usd"]);
    let lines: Vec<_> = cost["lines"].as_array().expect("lines").iter().collect();
    let line = |kind: &str| *lines.iter().find(|line| line["kind"] == kind).expect(kind);
    assert_eq!(
        (&line("prompt")["usd_per_million"], &line("completion")["usd_per_million"]),
        (&json!(1), &json!(2))
    );
    assert_eq!(line("prompt")["tokens"], shown["prompt_tokens"]);
    let neighbours = shown["neighbours"].as_array().expect("neighbours");
    let order: Vec<_> = neighbours.iter().map(|one| one["request_id"].as_str().expect("an id")).collect();
    let asked = ids[1].clone();
    // Requests of one millisecond are in the order of their ids.
    ids.sort();
    assert_eq!(order, ids, "in the order of time");
    let this: Vec<_> = neighbours.iter().filter(|one| one["is_this"] == true).collect();
    assert_eq!((this.len(), &this[0]["request_id"]), (1, &json!(asked)));
    let alone = id(&world.client.post_json("/v1/chat/completions", &chat("acme/unpriced")).await);
    let alone = logged(&admin, &alone).await;
    assert_eq!((&alone["neighbours"], &alone["cost"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn a_later_attempt_tells_when_it_began() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let body = chat_with("demo/error-500", json!({ "routing": { "fallback": ["acme/fast"] } }));
    let answer = world.client.post_json("/v1/chat/completions", &body).await.ok();
    let row = logged(&admin, &id(&answer)).await;
    let attempts = row["attempts"].as_array().expect("attempts");
    assert!(attempts.len() > 1, "{row}");
    let started: Vec<_> =
        attempts.iter().map(|attempt| attempt["started_ms"].as_u64().expect("a time")).collect();
    assert!(started.is_sorted() && started[1] > 0, "{started:?}");
    assert!(started.iter().all(|at| *at <= row["latency_ms"].as_u64().expect("a latency") + 1), "{row}");
}

#[tokio::test]
async fn new_requests_arrive_while_they_are_followed_and_the_stream_ends_with_its_key() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let session = sign_in(&world.gateway, ADMIN).await;
    let url = "/admin/v1/requests/live?status=failed";
    let mut wire = page_with(&world.gateway, &session).open("GET", url, None, None).await;
    let head = within("the head", wire.head()).await.expect("an answer");
    assert_eq!((head.status, head.header("content-type")), (200, Some("text/event-stream; charset=utf-8")));
    wire.expect_body(&head, false);
    let begun = within("a comment", wire.body_chunk()).await.expect("a body").expect("a chunk");
    assert!(begun.starts_with(b":"));
    let quiet = id(&world.client.post_json("/v1/chat/completions", &chat("acme/fast")).await);
    let failed = id(&world.client.post_json("/v1/chat/completions", &chat("demo/error-500")).await);
    let mut told = String::new();
    while !told.contains(&failed) {
        let chunk = within("an event", wire.body_chunk()).await.expect("a body").expect("a chunk");
        told.push_str(&String::from_utf8_lossy(&chunk));
    }
    assert!(
        told.contains("event: request\ndata: {\"object\":\"request\"") && !told.contains(&quiet),
        "{told}"
    );
    // A revoked key reads no row more.
    let (viewer, made) = create(&admin, json!({ "name": "viewer", "role": "viewer" })).await;
    let viewer = world.gateway.client().with_key(&viewer);
    let mut wire = viewer.open("GET", "/admin/v1/requests/live", None, None).await;
    let head = within("the head", wire.head()).await.expect("an answer");
    wire.expect_body(&head, false);
    assert!(within("a comment", wire.body_chunk()).await.expect("a body").is_some());
    let path = format!("/admin/v1/keys/{}", made["id"].as_str().expect("an id"));
    admin.send("DELETE", &path, None, None).await.ok();
    world.client.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    while let Some(chunk) = within("the end", wire.body_chunk()).await.expect("a body") {
        assert!(chunk.starts_with(b":"), "{}", String::from_utf8_lossy(&chunk));
    }
    assert_eq!(admin.get("/admin/v1/requests/live?since=1h").await.code(), "unsupported_parameter");
    let inference = world.client.get("/admin/v1/requests/live").await;
    assert_eq!(inference.code(), "admin_required");
}

#[tokio::test]
async fn a_key_shows_the_limit_that_binds_it() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let team = json!({ "budget_usd": 0.000001, "budget_period": "day" });
    assert_eq!(ask(&admin, "PUT", "/admin/v1/teams/blue", &team).await.status, 201);
    let (_, key) = create(&admin, json!({ "name": "k", "team": "blue", "rpm": 10 })).await;
    let (_, free) = create(&admin, json!({ "name": "free" })).await;
    let path = |key: &Value| format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id"));
    let shown = admin.get(&path(&key)).await.ok().json();
    assert_eq!(shown["binding_limit"]["left_percent"], 100.0, "{shown}");
    assert_eq!(shown["binding_limit"]["scope"], "key", "of equal ones the key's comes first");
    assert_eq!(admin.get(&path(&free)).await.ok().json()["binding_limit"], Value::Null);
    let list = admin.get("/admin/v1/keys").await.ok().json();
    let listed = list["data"].as_array().expect("keys").iter().find(|one| one["id"] == key["id"]);
    assert_eq!(listed.expect("the key")["binding_limit"], shown["binding_limit"]);
}

#[tokio::test]
async fn a_request_tells_why_it_took_its_route() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let tool = json!({ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } });
    world.upstream.enqueue(Answer::json(500, &json!({ "error": { "message": "down" } })));
    let body = chat_with(
        "acme/fast",
        json!({
            "routing": { "fallback": ["acme/plain", "beta/fast", "demo/chat"] },
            "tools": [tool],
            "service_tier": "priority",
        }),
    );
    let answer = world.client.post_json("/v1/chat/completions", &body).await.ok();
    let told = answer.json()["gateway"]["warnings"].clone();
    assert!(told.to_string().contains("parameter_dropped:service_tier"), "{told}");
    let request = logged(&admin, &id(&answer)).await;
    assert_eq!(request["warnings"], told);
    let candidate = |model: &str, origin: &str, outcome: &str| json!({ "model": model, "origin": origin, "tier": "able", "outcome": outcome });
    let route = &request["route"];
    assert_eq!(
        route["candidates"],
        json!([
            candidate("acme/fast", "requested", "upstream_error"),
            candidate("beta/fast", "fallback", "answered"),
            candidate("demo/chat", "fallback", "not_asked"),
        ])
    );
    assert_eq!((&route["excluded"][0]["model"], &route["left_out"]), (&json!("acme/plain"), &json!(0)));
    assert!(
        route["excluded"][0]["reason"].as_str().is_some_and(|reason| reason.contains("tools")),
        "{route}"
    );
    let plain = world.client.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    let plain = logged(&admin, &id(&plain)).await;
    assert_eq!((&plain["route"], &plain["warnings"]), (&Value::Null, &json!([])), "it had no choice");
}
