//! The response cache over real sockets: hits, scopes, shared calls, and answers that are never stored.

mod completions;
pub(crate) mod embeddings;
mod embeddings_bounds;
mod followers;
mod key;
mod known_questions;
mod made_ids;
mod memory;
mod other_plans;
mod redis;
mod scope;
mod semantic;
pub(crate) mod shared_calls;
mod stream_heads;
mod teams;

use gw_testkit::sse::{chunks, text_of};
use gw_testkit::upstream::{chat_body, sse_data};
use gw_testkit::wait::{eventually_async, eventually_true};
use gw_testkit::{Answer, Client, Response, Signal};
use serde_json::{Value, json};

use crate::harness::answers::cache_result;
use crate::harness::{ADMIN, LIMITED, Setup, World, assert_error, chat_with, logged, with, world};

const PATH: &str = "/v1/chat/completions";

fn cached(more: Value) -> Value {
    with(chat_with("acme/fast", json!({ "cache": { "enabled": true } })), more)
}

fn streamed(more: Value) -> Value {
    with(cached(json!({ "stream": true })), more)
}

async fn ask(client: &Client, body: &Value) -> Response {
    client.post_json(PATH, body).await
}

async fn delete(client: &Client, path: &str) -> Response {
    client.send("DELETE", path, None, None).await
}

#[tokio::test]
async fn the_second_of_two_equal_requests_costs_nothing() {
    let world = world().await;
    let first = ask(&world.client, &cached(json!({}))).await.ok();
    assert_eq!(cache_result(&first), "MISS");
    let reordered = r#"{"messages":[{"content":"Hello","role":"user"}],"user":"someone","cache":{"ttl":60,"enabled":true},"model":"acme/fast"}"#;
    let second = world.client.post_bytes(PATH, reordered.as_bytes()).await.ok();
    assert_eq!((cache_result(&second), world.upstream.hits()), ("HIT", 1));
    assert!(second.header("age").is_some());
    let (first, second) = (first.json(), second.json());
    assert_eq!(first["choices"], second["choices"]);
    assert_eq!(first["model"], second["model"]);
    assert_eq!(
        (&first["gateway"]["cache_hit"], &second["gateway"]["cache_hit"]),
        (&json!(false), &json!(true))
    );
    assert_ne!(first["id"], second["id"]);
    assert_ne!(first["gateway"]["request_id"], second["gateway"]["request_id"]);
    assert_eq!(second["usage"]["prompt_tokens"], first["usage"]["prompt_tokens"]);
    assert_eq!(second["usage"]["cost_usd"], 0);
    assert_eq!(second["gateway"]["saved_usd"], first["usage"]["cost_usd"]);
    assert_eq!(second["gateway"]["attempts"], json!([]));
    assert_eq!(second["gateway"]["model_used"], "acme/fast");
    // The ledger's row shows the hit, too.
    let admin = world.client.with_key(ADMIN);
    let id = second["gateway"]["request_id"].as_str().unwrap().to_owned();
    let row = logged(&admin, &id).await;
    assert_eq!(
        (&row["cache_hit"], &row["cost_usd"], &row["status"]),
        (&json!(true), &json!(0), &json!("ok")),
        "{row}"
    );
    assert_eq!(row["saved_usd"], first["usage"]["cost_usd"]);
    let usage = admin.get("/admin/v1/usage?group_by=model").await.ok().json();
    assert_eq!(usage["data"][0]["cache_hits"], 1, "{usage}");
}

#[tokio::test]
async fn what_differs_is_asked_anew_and_nobody_gets_anothers_answer() {
    let world = world().await;
    ask(&world.client, &cached(json!({}))).await.ok();
    for more in [
        json!({ "temperature": 0.5 }),
        json!({ "messages": [{ "role": "user", "content": "hello" }] }),
        json!({ "max_tokens": 7 }),
        json!({ "n": 2 }),
        json!({ "seed": 1 }),
        json!({ "top_k": 5 }),
        json!({ "model": "fast" }),
    ] {
        let before = world.upstream.hits();
        let answer = ask(&world.client, &cached(more.clone())).await.ok();
        assert_eq!((cache_result(&answer), world.upstream.hits()), ("MISS", before + 1), "{more}");
    }
    // The gateway key is the scope of a stored answer (I21, T1).
    let other = world.client.with_key(ADMIN);
    assert_eq!(cache_result(&ask(&other, &cached(json!({}))).await.ok()), "MISS");
    assert_eq!(cache_result(&ask(&other, &cached(json!({}))).await.ok()), "HIT");
    // A request without the member `cache` neither reads nor writes the cache.
    let before = world.upstream.hits();
    let answer = ask(&world.client, &chat_with("acme/fast", json!({}))).await.ok();
    assert_eq!((cache_result(&answer), world.upstream.hits()), ("BYPASS", before + 1));
    assert_eq!(answer.json()["gateway"]["cache_hit"], false);
}

#[tokio::test]
async fn t04_a_hit_still_needs_a_key_that_may() {
    let world = world().await;
    let admin = world.client.with_key(ADMIN);
    let made = admin.post_json("/admin/v1/keys", &json!({ "name": "k", "rpm": 3 })).await;
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let client = world.client.with_key(made["key"].as_str().unwrap());
    for what_it_is in ["MISS", "HIT", "HIT"] {
        assert_eq!(cache_result(&ask(&client, &cached(json!({}))).await.ok()), what_it_is);
    }
    let limited = ask(&client, &cached(json!({}))).await;
    assert_error("rpm", &limited, 429, "rate_limit_error", "rate_limit_exceeded");
    let id = made["id"].as_str().unwrap();
    assert_eq!(delete(&admin, &format!("/admin/v1/keys/{id}")).await.status, 200);
    let revoked = ask(&client, &cached(json!({}))).await;
    assert_error("revoked", &revoked, 401, "authentication_error", "invalid_api_key");
    let out_of_its_list = ask(&world.client.with_key(LIMITED), &cached(json!({}))).await;
    assert_error("list", &out_of_its_list, 403, "permission_error", "model_not_allowed");
}

#[tokio::test]
async fn streams_are_kept_and_replayed_and_so_are_plain_answers() {
    let world = world().await;
    for (first_streams, second_streams) in [(true, true), (true, false), (false, true)] {
        let more = json!({ "messages": [{ "role": "user", "content": format!("{first_streams} {second_streams}") }] });
        let body = |streams: bool| with(cached(more.clone()), json!({ "stream": streams }));
        let before = world.upstream.hits();
        let (text, _) = read(&world, &body(first_streams)).await;
        let (again, gateway) = read(&world, &body(second_streams)).await;
        assert_eq!((text.as_str(), again.as_str()), ("Hello from upstream", "Hello from upstream"));
        assert_eq!(gateway["cache_hit"], true, "{first_streams} {second_streams}");
        assert_eq!(world.upstream.hits(), before + 1);
    }
    // A replayed stream follows every rule of streams.
    let mut stream =
        world.client.stream(PATH, &streamed(json!({ "stream_options": { "include_usage": true } }))).await;
    let frames = stream.rest().await;
    let mut stream =
        world.client.stream(PATH, &streamed(json!({ "stream_options": { "include_usage": true } }))).await;
    assert_eq!(stream.head.header("x-gateway-cache"), Some("HIT"));
    assert_eq!(stream.head.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let replayed = stream.rest().await;
    assert_eq!(replayed.last().map(String::as_str), Some("data: [DONE]\n\n"));
    let (first, second) = (chunks(&frames), chunks(&replayed));
    assert_eq!(
        second[0]["choices"],
        json!([{ "index": 0, "delta": { "role": "assistant" }, "finish_reason": null }])
    );
    let last = second.last().unwrap();
    assert_eq!(last["choices"], json!([]), "the usage chunk");
    assert_eq!(last["usage"]["completion_tokens"], first.last().unwrap()["usage"]["completion_tokens"]);
    assert_eq!((&last["usage"]["cost_usd"], &last["gateway"]["cache_hit"]), (&json!(0), &json!(true)));
    assert!(second.iter().all(|chunk| chunk["id"] == second[0]["id"] && chunk["id"] != first[0]["id"]));
}

/// The text of an answer, and its `gateway`.
async fn read(world: &World, body: &Value) -> (String, Value) {
    if body["stream"] == true {
        let frames = world.client.stream(PATH, body).await.rest().await;
        let last = chunks(&frames).last().cloned().unwrap_or_default();
        return (text_of(&frames, 0), last["gateway"].clone());
    }
    let answer = world.chat_ok(body).await;
    (
        answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned(),
        answer["gateway"].clone(),
    )
}

#[tokio::test]
async fn tool_calls_are_kept_with_their_ids() {
    let world = world().await;
    let tools =
        json!([{ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } }]);
    let mut answer = chat_body("m", "");
    answer["choices"][0]["message"] = json!({ "role": "assistant", "content": null, "tool_calls": [
        { "id": "call_1", "type": "function", "function": { "name": "f", "arguments": "{\"a\":1}" } }] });
    answer["choices"][0]["finish_reason"] = json!("tool_calls");
    world.upstream.enqueue(Answer::json(200, &answer));
    let body = cached(json!({ "tools": tools }));
    let first = ask(&world.client, &body).await.ok().json();
    let second = ask(&world.client, &body).await.ok();
    assert_eq!(cache_result(&second), "HIT");
    assert_eq!(second.json()["choices"], first["choices"]);
    let frames = world.client.stream(PATH, &with(body, json!({ "stream": true }))).await.rest().await;
    let called: Vec<Value> = chunks(&frames)
        .iter()
        .filter_map(|chunk| {
            chunk["choices"][0]["delta"]["tool_calls"][0].as_object().cloned().map(Value::Object)
        })
        .collect();
    assert_eq!(called[0]["id"], "call_1", "{frames:?}");
    let arguments: String = called.iter().filter_map(|call| call["function"]["arguments"].as_str()).collect();
    assert_eq!(arguments, "{\"a\":1}");
}

#[tokio::test]
async fn t02_only_complete_successes_of_what_was_asked_for_are_kept() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let broken = Answer::sse().data(&sse_data(&json!({ "content": "half" }), None)).reset();
    world.upstream.enqueue(broken);
    let frames = world.client.stream(PATH, &streamed(json!({}))).await.rest().await;
    crate::harness::answers::assert_broken_off(&frames, "upstream_stream_error");
    world.upstream.enqueue(Answer::error(500, "x", "down"));
    let failed = ask(&world.client, &cached(json!({}))).await;
    assert_error("failed", &failed, 502, "upstream_error", "upstream_error");
    let mut filtered = chat_body("m", "I must not");
    filtered["choices"][0]["finish_reason"] = json!("content_filter");
    world.upstream.enqueue(Answer::json(200, &filtered));
    assert_eq!(cache_result(&ask(&world.client, &cached(json!({}))).await.ok()), "MISS");
    // A fallback served it.
    world.upstream.enqueue(Answer::error(500, "x", "down"));
    let body = cached(json!({ "routing": { "fallback": ["beta/spare"] } }));
    let answer = ask(&world.client, &body).await.ok();
    assert_eq!((cache_result(&answer), &answer.json()["gateway"]["fallback_used"]), ("MISS", &json!(true)));
    // The next request calls the upstream, and its answer is stored.
    assert_eq!(cache_result(&ask(&world.client, &cached(json!({}))).await.ok()), "MISS");
    assert_eq!(cache_result(&ask(&world.client, &cached(json!({}))).await.ok()), "HIT");
    assert_eq!(world.upstream.hits(), 5);
}

#[tokio::test]
async fn the_cost_header_beside_a_cache_is_the_cost_in_the_body() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let hello = json!([{ "role": "user", "content": "Hello" }]);
    for (path, asked) in [
        ("/v1/messages", json!({ "messages": hello, "max_tokens": 64 })),
        ("/v1/responses", json!({ "input": hello })),
    ] {
        let usual = json!({ "model": "acme/fast", "cache": { "enabled": true } });
        let body = with(asked, usual);
        let with_fallback = with(body.clone(), json!({ "routing": { "fallback": ["beta/spare"] } }));
        // The first call is charged, although its answer is of no use.
        world.upstream.enqueue(Answer::json(200, &json!({ "choices": [{}] })));
        let mut seen = Vec::new();
        for body in [&with_fallback, &body, &body, &body] {
            let answer = world.client.post_json(path, body).await.ok();
            seen.push(cache_result(&answer).to_owned());
            let header = answer.header("x-gateway-cost-usd").and_then(|cost| cost.parse::<f64>().ok());
            let told = answer.json();
            assert_eq!(header, told["usage"]["cost_usd"].as_f64(), "{path} {seen:?}: {told}");
            let id = told["gateway"]["request_id"].as_str().expect("an id").to_owned();
            let row = logged(&world.client.with_key(ADMIN), &id).await;
            let is_charged_for_more = row["cost_usd"].as_f64() > header;
            assert_eq!(is_charged_for_more, told["gateway"]["fallback_used"] == true, "{path}: {row}");
        }
        assert_eq!((&*seen[0], &*seen[3]), ("MISS", "HIT"), "{path}: {seen:?}");
    }
}

#[tokio::test]
async fn modes_ages_and_cache_control_are_heard() {
    let world = world().await;
    let mode = |mode: &str| cached(json!({ "cache": { "enabled": true, "mode": mode } }));
    assert_eq!(cache_result(&ask(&world.client, &mode("read")).await.ok()), "MISS");
    assert_eq!(
        cache_result(&ask(&world.client, &mode("read")).await.ok()),
        "MISS",
        "a reader leaves nothing"
    );
    assert_eq!(cache_result(&ask(&world.client, &mode("write")).await.ok()), "MISS");
    assert_eq!(cache_result(&ask(&world.client, &mode("read")).await.ok()), "HIT");
    assert_eq!(cache_result(&ask(&world.client, &mode("write")).await.ok()), "MISS", "a writer asks anew");
    let body = cached(json!({}));
    for (header, expected) in [
        ("no-cache", "MISS"),
        ("max-age=3600", "HIT"),
        ("max-age=0", "MISS"),
        ("no-store", "BYPASS"),
        ("nonsense=;;", "HIT"),
    ] {
        let client = world.client.with_header("cache-control", header);
        assert_eq!(cache_result(&ask(&client, &body).await.ok()), expected, "{header}");
    }
    for wrong in [json!({ "enabled": true, "mode": "sometimes" }), json!({ "enabled": true, "ttl": 0 })] {
        assert_eq!(ask(&world.client, &cached(json!({ "cache": wrong }))).await.status, 400, "{wrong}");
    }
    let off = Setup { extra: "[cache]\nenabled = false\n".to_owned(), ..Setup::default() }.start().await;
    for _ in 0..2 {
        let answer = ask(&off.client, &body).await.ok();
        assert_eq!((cache_result(&answer), &answer.json()["gateway"]["cache_hit"]), ("none", &json!(false)));
    }
    assert_eq!(off.upstream.hits(), 2);
}

#[tokio::test]
async fn an_old_answer_is_a_miss_and_stands_in_only_when_that_was_allowed() {
    let extra = "[cache]\nstale_if_error_seconds = 600\n".to_owned();
    let world = Setup { routing: "retries = 0", extra, ..Setup::default() }.start().await;
    let body = cached(json!({ "cache": { "enabled": true, "ttl": 1 } }));
    ask(&world.client, &body).await.ok();
    world.upstream.always(Answer::error(500, "x", "down"));
    // The answer is fresh for a second. After that the gateway calls the upstream, which is down.
    let stale = eventually_async("the answer is too old", async || {
        let answer = ask(&world.client, &body).await.ok();
        if cache_result(&answer) != "HIT" {
            return Some(answer);
        }
        None
    })
    .await;
    assert_eq!(cache_result(&stale), "STALE");
    assert_eq!(stale.json()["gateway"]["warnings"], json!(["stale_if_error"]));
    assert!(stale.header("age").unwrap().parse::<u64>().unwrap() >= 1);
    let admin = world.client.with_key(ADMIN);
    let path = format!("/admin/v1/requests/{}", stale.header("x-request-id").expect("an id"));
    let row = eventually_async("the row is written", async || {
        let row = admin.get(&path).await;
        if row.status == 200 {
            return Some(row.json());
        }
        None
    })
    .await;
    assert_eq!(row["warnings"], json!(["stale_if_error"]));
    let frames = world.client.stream(PATH, &with(body, json!({ "stream": true }))).await.rest().await;
    assert_eq!(text_of(&frames, 0), "Hello from upstream");
}

/// Sends these requests, every second one as a stream; gives their answers.
async fn crowd(world: &World, count: usize) -> tokio::task::JoinSet<String> {
    let mut crowd = tokio::task::JoinSet::new();
    for n in 0..count {
        let client = world.client.clone();
        crowd.spawn(async move {
            if n % 2 == 0 {
                let frames = client.stream(PATH, &streamed(json!({}))).await.rest().await;
                assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"), "{n}");
                return text_of(&frames, 0);
            }
            let answer = ask(&client, &cached(json!({}))).await.ok().json();
            answer["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned()
        });
    }
    crowd
}

/// Waits until this many generation requests are in flight.
async fn until_in_flight(admin: &Client, many: usize) {
    eventually_true("so many requests are in flight", async || {
        let text = admin.get("/metrics").await.text();
        let in_flight =
            text.lines().find_map(|line| line.strip_prefix("gateway_http_in_flight ")?.parse::<f64>().ok());
        in_flight.is_some_and(|all| all as usize >= many)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn t03_identical_requests_share_one_call_and_the_leaders_leaving_harms_nobody() {
    let count: usize = std::env::var("CACHE_CROWD").ok().and_then(|count| count.parse().ok()).unwrap_or(1000);
    gw_testkit::open_files(4 * count);
    // Nothing is refused. Requests that wait for their turn are in flight, too.
    let world = Setup { server: "shed_after_ms = 0", ..Setup::default() }.start().await;
    let go_on = Signal::new();
    world.upstream.enqueue(
        Answer::sse()
            .data(&sse_data(&json!({ "role": "assistant", "content": "Hello" }), None))
            .wait(&go_on)
            .data(&sse_data(&json!({ "content": " all" }), Some("stop")))
            .done(),
    );
    let mut leader = world.client.stream(PATH, &streamed(json!({}))).await;
    leader.frame().await;
    let mut crowd = crowd(&world, count).await;
    let admin = world.client.with_key(ADMIN);
    until_in_flight(&admin, count + 1).await;
    drop(leader);
    go_on.fire();
    let mut answers = 0;
    while let Some(answer) = crowd.join_next().await {
        assert_eq!(answer.expect("a correct answer"), "Hello all");
        answers += 1;
    }
    assert_eq!((answers, world.upstream.hits()), (count, 1), "one upstream call");
    assert_eq!(cache_result(&ask(&world.client, &cached(json!({}))).await.ok()), "HIT");
    // A request that was admitted after the end of the call found the stored answer.
    let figures = admin.get("/admin/v1/cache").await.ok().json();
    let (shared, found) = (figures["coalesced"].as_u64().unwrap(), figures["hits"].as_u64().unwrap());
    assert!(shared + found == count as u64 + 1 && shared > 0, "{figures}");
}

#[tokio::test]
async fn the_upstream_is_dropped_when_all_have_gone_and_an_error_is_everybodys() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let hold = Signal::new();
    world
        .upstream
        .enqueue(Answer::sse().data(&sse_data(&json!({ "content": "x" }), None)).wait(&hold).done());
    let mut leader = world.client.stream(PATH, &streamed(json!({}))).await;
    let mut other = world.client.stream(PATH, &streamed(json!({}))).await;
    leader.frame().await;
    other.frame().await;
    assert_eq!(other.head.header("x-gateway-cache"), Some("COALESCED"));
    drop((leader, other));
    world.upstream.request(0).await.until_closed().await;
    // A failure before the first content is an error for every request.
    let fail = Signal::new();
    world.upstream.enqueue(
        Answer::steps(Vec::new()).wait(&fail).bytes("HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\n{}"),
    );
    let mut asking = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let client = world.client.clone();
        asking.spawn(async move { ask(&client, &cached(json!({}))).await });
    }
    // A late request makes its own call, which fails.
    world.upstream.always(Answer::error(500, "x", "down"));
    world.upstream.request(1).await;
    until_in_flight(&world.client.with_key(ADMIN), 4).await;
    fail.fire();
    while let Some(answer) = asking.join_next().await {
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 502, "{}", answer.text());
    }
}

#[tokio::test]
async fn it_is_purged_at_once_and_its_figures_are_told() {
    let world = world().await;
    let admin = world.client.with_key(ADMIN);
    let is = async |client: &Client| cache_result(&ask(client, &cached(json!({}))).await.ok()).to_owned();
    for purge in ["", "?model=acme/fast", "?key=ci"] {
        is(&world.client).await;
        assert_eq!(is(&world.client).await, "HIT", "{purge}");
        let purged = delete(&admin, &format!("/admin/v1/cache{purge}")).await;
        assert_eq!(purged.status, 200, "{purge}: {}", purged.text());
        assert_eq!(is(&world.client).await, "MISS", "{purge}");
    }
    is(&admin).await;
    delete(&admin, "/admin/v1/cache?key=ci").await.ok();
    assert_eq!(is(&admin).await, "HIT", "another key's");
    let figures = admin.get("/admin/v1/cache").await.ok().json();
    assert!(figures["hits"].as_u64().unwrap() >= 4 && figures["misses"].as_u64().unwrap() >= 4, "{figures}");
    assert!(figures["saved_usd"].as_f64().unwrap() > 0.0 && figures["hit_ratio"].as_f64().unwrap() > 0.0);
    assert!(figures["entries"].as_u64().unwrap() >= 1 && figures["bytes"].as_u64().unwrap() > 0, "{figures}");
    for wrong in ["colour=red", "model=acme/fast&key=ci", "model=", "key="] {
        assert_eq!(delete(&admin, &format!("/admin/v1/cache?{wrong}")).await.status, 400, "{wrong}");
    }
    assert_eq!(world.client.get("/admin/v1/cache").await.status, 403);
}

#[tokio::test]
async fn a_call_is_shared_only_by_those_who_want_the_same_of_routing() {
    let world = Setup { routing: "retries = 0", ..Setup::default() }.start().await;
    let hold = Signal::new();
    world.upstream.enqueue(
        Answer::steps(Vec::new()).wait(&hold).bytes("HTTP/1.1 500 Oh\r\ncontent-length: 2\r\n\r\n{}"),
    );
    world.upstream.enqueue(Answer::error(500, "x", "down"));
    let with_fallback = cached(json!({ "routing": { "fallback": ["beta/spare"] } }));
    let (client, body) = (world.client.clone(), with_fallback.clone());
    let leader = tokio::spawn(async move { ask(&client, &body).await });
    world.upstream.request(0).await;
    // An equal request without that permission makes its own call, which fails.
    let other = ask(&world.client, &cached(json!({}))).await;
    assert_error("not allowed to fall back", &other, 502, "upstream_error", "upstream_error");
    hold.fire();
    let answer = leader.await.expect("an answer").ok().json();
    assert_eq!(answer["gateway"]["model_used"], "beta/spare");
    assert_eq!((world.upstream.hits(), world.second.hits()), (2, 1));
}
