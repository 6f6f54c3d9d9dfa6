//! Guards of sessions: each limit warns or stops, parallel requests do not overshoot, and nobody else notices.

use gw_testkit::wait::eventually_true;
use gw_testkit::{Answer, Client, FakeUpstream, Launch, Redis, Response};
use serde_json::{Value, json};

use crate::harness::management;
use crate::harness::{ADMIN, Differences, KEY, Setup, World, assert_error, binary, chat, chat_with, logged};

const CHAT: &str = "/v1/chat/completions";
const SESSION: &str = "x-gateway-session";

/// A gateway with one guard, and with the keys `sk-by` and `sk-other`.
async fn guarded(guard: &str) -> World {
    let keys = "[[keys]]\nname = \"by\"\nkey = \"sk-by\"\n[[keys]]\nname = \"other\"\nkey = \"sk-other\"\n";
    Setup { extra: format!("{keys}[[guards]]\n{guard}\n"), ..Setup::default() }.start().await
}

fn client(world: &World, session: &str) -> Client {
    world.gateway.client().with_key("sk-by").with_header(SESSION, session)
}

/// Checks that a session was stopped by this limit, and that its client does not try again.
#[track_caller]
fn assert_stopped(answer: &Response, session: &str, limit: &str) {
    assert_error(limit, answer, 429, "rate_limit_error", "session_limit_reached");
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    assert_eq!(answer.header("retry-after"), None);
    let message = answer.message();
    assert!(
        message.contains(&format!("'{session}'")) && message.contains(&format!("'{limit}'")),
        "{message}"
    );
}

fn warnings(answer: Response) -> Vec<String> {
    let body = answer.ok().json();
    let warnings = body["gateway"]["warnings"].as_array().cloned().unwrap_or_default();
    warnings.iter().map(|warning| warning.as_str().expect("a string").to_owned()).collect()
}

/// A conversation whose assistant has made these calls, each with its own id, and got their results.
fn conversation(calls: &[(&str, &str, &str)]) -> Value {
    let mut messages = vec![json!({ "role": "user", "content": "Go" })];
    for (id, name, arguments) in calls {
        let call =
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } });
        messages.push(json!({ "role": "assistant", "content": null, "tool_calls": [call] }));
        messages.push(json!({ "role": "tool", "tool_call_id": id, "content": "the same again" }));
    }
    json!({ "model": "acme/fast", "messages": messages })
}

#[tokio::test]
async fn calls_stop_at_the_limit_and_cost_nothing() {
    let world = guarded("max_calls = 2").await;
    let run = client(&world, "run-1");
    for _ in 0..2 {
        run.post_json(CHAT, &chat("acme/plain")).await.ok();
    }
    let refused = run.post_json(CHAT, &chat("acme/plain")).await;
    assert_stopped(&refused, "run-1", "max_calls");
    assert!(refused.message().contains("has made 2 calls"), "{}", refused.message());
    let streamed = run.post_json(CHAT, &chat_with("acme/plain", json!({ "stream": true }))).await;
    assert_stopped(&streamed, "run-1", "max_calls");
    assert_eq!(world.upstream.hits(), 2, "a stopped request calls no upstream");
    let admin = world.gateway.client().with_key(ADMIN);
    let row = logged(&admin, refused.header("x-request-id").expect("an id")).await;
    assert_eq!((&row["status"], &row["session"]), (&json!("session_limit_reached"), &json!("run-1")));
    assert_eq!((&row["cost_usd"], &row["attempts"]), (&json!(0), &json!([])));
    let metrics = admin.get("/metrics").await.text();
    let line = "gateway_session_limits_total{limit=\"max_calls\",action=\"stop\"} 2";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn a_dry_run_says_that_a_guard_would_stop_it_and_counts_in_no_session() {
    let redis = Redis::start().await;
    let shared = format!("[redis]\nurl = \"{}\"\ntimeout_ms = 5000\n", redis.url());
    for place in ["", &*shared] {
        let warns = "[[guards]]\nmax_calls = 1\naction = \"warn\"\n";
        let world = guarded(&format!("max_calls = 2\n{warns}{place}")).await;
        let run = client(&world, "run-1");
        let dry = run.with_header("x-gateway-dry-run", "true");
        let foreseen = async || dry.post_json(CHAT, &chat("acme/plain")).await.ok().json();
        for expected in [json!([]), json!(["session_limit:max_calls"])] {
            for _ in 0..3 {
                let report = foreseen().await;
                assert_eq!((&report["would"], &report["warnings"]), (&json!("serve"), &expected), "{report}");
            }
            run.post_json(CHAT, &chat("acme/plain")).await.ok();
        }
        let report = foreseen().await;
        let refused = run.post_json(CHAT, &chat("acme/plain")).await;
        assert_stopped(&refused, "run-1", "max_calls");
        let error = json!({ "status": 429, "code": "session_limit_reached", "message": refused.message() });
        assert_eq!((&report["would"], &report["error"]), (&json!("refuse"), &error), "{report}");
        assert_eq!(world.upstream.hits(), 2);
        let metrics = world.gateway.client().with_key(ADMIN).get("/metrics").await.text();
        let line = "gateway_session_limits_total{limit=\"max_calls\",action=\"stop\"} 1";
        assert!(metrics.contains(line), "{metrics}");
    }
}

#[tokio::test]
async fn other_sessions_other_keys_and_requests_without_a_session_are_untouched() {
    let world = guarded("max_calls = 1\nmatch = { keys = [\"by\"], aliases = [\"smart\"] }").await;
    let run = client(&world, "run-1");
    run.post_json(CHAT, &chat("smart")).await.ok();
    assert_stopped(&run.post_json(CHAT, &chat("smart")).await, "run-1", "max_calls");
    assert_stopped(&run.post_json(CHAT, &chat("smart:floor")).await, "run-1", "max_calls");
    for _ in 0..3 {
        run.post_json(CHAT, &chat("acme/plain")).await.ok();
        world.gateway.client().with_key("sk-by").post_json(CHAT, &chat("smart")).await.ok();
        let other = world.gateway.client().with_key("sk-other").with_header(SESSION, "run-1");
        other.post_json(CHAT, &chat("smart")).await.ok();
    }
    client(&world, "run-2").post_json(CHAT, &chat("smart")).await.ok();
}

#[tokio::test]
async fn a_team_is_matched_by_its_name() {
    let world = guarded("max_calls = 1\nmatch = { teams = [\"search\"] }").await;
    let admin = world.gateway.client().with_key(ADMIN);
    management::ask(&admin, "PUT", "/admin/v1/teams/search", &json!({})).await;
    let (key, _) = management::create(&admin, json!({ "name": "t", "team": "search" })).await;
    let member = world.gateway.client().with_key(&key).with_header(SESSION, "run-1");
    member.post_json(CHAT, &chat("acme/plain")).await.ok();
    assert_stopped(&member.post_json(CHAT, &chat("acme/plain")).await, "run-1", "max_calls");
    for _ in 0..2 {
        client(&world, "run-1").post_json(CHAT, &chat("acme/plain")).await.ok();
    }
}

#[tokio::test]
async fn cost_counts_when_a_request_is_over() {
    // 10 prompt and 5 completion tokens of `acme/plain` are 0.00002 USD.
    let world = guarded("max_cost_usd = 0.00004").await;
    let run = client(&world, "run-1");
    for _ in 0..2 {
        run.post_json(CHAT, &chat("acme/plain")).await.ok();
    }
    let refused = run.post_json(CHAT, &chat("acme/plain")).await;
    assert_stopped(&refused, "run-1", "max_cost_usd");
    assert!(refused.message().contains("0.00004 USD"), "{}", refused.message());
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn a_warning_stands_in_the_answer_and_in_a_metric() {
    let world = guarded("max_calls = 1\nmax_repeats = 2\naction = \"warn\"").await;
    let run = client(&world, "run-1");
    assert_eq!(warnings(run.post_json(CHAT, &chat("acme/fast")).await), Vec::<String>::new());
    assert_eq!(warnings(run.post_json(CHAT, &chat("acme/fast")).await), ["session_limit:max_calls"]);
    let calls = [("1", "read", "{}"), ("2", "read", "{}"), ("3", "read", "{}")];
    let looping = warnings(run.post_json(CHAT, &conversation(&calls)).await);
    assert_eq!(looping, ["session_limit:max_calls", "session_limit:max_repeats"]);
    let metrics = world.gateway.client().with_key(ADMIN).get("/metrics").await.text();
    let line = "gateway_session_limits_total{limit=\"max_calls\",action=\"warn\"} 2";
    assert!(metrics.contains(line), "{metrics}");
}

#[tokio::test]
async fn a_tool_loop_is_found_within_a_conversation_whatever_the_order_of_the_members() {
    let world = guarded("max_repeats = 2").await;
    let one = r#"{"path":"a.rs","range":{"from":1,"to":2}}"#;
    let other = "{ \"range\": { \"to\": 2, \"from\": 1.0 }, \"path\": \"\\u0061.rs\" }";
    let twice = [("1", "read", one), ("2", "read", other)];
    client(&world, "run-1").post_json(CHAT, &conversation(&twice)).await.ok();
    let thrice = [("1", "read", one), ("2", "read", other), ("3", "read", one)];
    let refused = client(&world, "run-2").post_json(CHAT, &conversation(&thrice)).await;
    assert_stopped(&refused, "run-2", "max_repeats");
    let varied =
        [("1", "read", one), ("2", "read", r#"{"path":"b.rs"}"#), ("3", "write", one), ("4", "read", "x")];
    client(&world, "run-3").post_json(CHAT, &conversation(&varied)).await.ok();
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn a_tool_loop_is_found_across_the_calls_of_a_session() {
    let world = guarded("max_repeats = 2").await;
    let run = client(&world, "run-1");
    // A client that compacts its history sends only the newest turn.
    let turn = |id: &'static str| conversation(&[(id, "read", r#"{"path":"a.rs"}"#)]);
    for id in ["1", "1", "1", "2"] {
        run.post_json(CHAT, &turn(id)).await.ok();
    }
    assert_stopped(&run.post_json(CHAT, &turn("3")).await, "run-1", "max_repeats");
    run.post_json(CHAT, &conversation(&[("4", "read", r#"{"path":"b.rs"}"#)])).await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_parallel_requests_make_exactly_ten_calls() {
    let world = guarded("max_calls = 10").await;
    let asking: Vec<_> = (0..100)
        .map(|_| {
            let client = client(&world, "run-1");
            tokio::spawn(async move { client.post_json(CHAT, &chat("acme/plain")).await.status })
        })
        .collect();
    let mut served = 0;
    for answer in asking {
        match answer.await.expect("no panic") {
            200 => served += 1,
            429 => {}
            other => panic!("{other}"),
        }
    }
    assert_eq!((served, world.upstream.hits()), (10, 10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_a_session_over_redis_and_count_alone_without_it() {
    let (redis, upstream) = (Redis::start().await, FakeUpstream::start().await);
    let extra = format!(
        "[redis]\nurl = \"{}\"\ntimeout_ms = 2000\n[[guards]]\nmax_calls = 10\nmatch = {{ aliases = [\"smart\"] }}\n\
         [[guards]]\nmax_cost_usd = 0.00001\nmatch = {{ aliases = [\"dear\"] }}\n",
        redis.url()
    );
    let aliases = "\"dear\" = \"acme/plain\"";
    let config =
        Setup { extra, aliases, ..Setup::default() }.config(&upstream.base_url(), &upstream.base_url());
    let start = || Launch::new(binary()).file("gateway.toml", &config).start();
    let replicas = [start().await, start().await];
    let client =
        |n: usize, session: &str| replicas[n % 2].client().with_key(KEY).with_header(SESSION, session);
    let asking: Vec<_> = (0..100)
        .map(|n| {
            let client = client(n, "run-1");
            tokio::spawn(async move { client.post_json(CHAT, &chat("smart")).await.status })
        })
        .collect();
    let mut served = 0;
    for answer in asking {
        served += usize::from(answer.await.expect("no panic") == 200);
    }
    assert_eq!((served, upstream.hits()), (10, 10));
    for n in 0..2 {
        assert_stopped(&client(n, "run-1").post_json(CHAT, &chat("smart")).await, "run-1", "max_calls");
    }
    client(0, "run-2").post_json(CHAT, &chat("dear")).await.ok();
    let names = redis.command(&["KEYS", "gw:session:*run-2"]).await;
    eventually_true("Redis learns the cost", async || {
        redis.command(&["HGET", &names[0], "cost"]).await == ["20000"]
    })
    .await;
    assert_stopped(&client(1, "run-2").post_json(CHAT, &chat("dear")).await, "run-2", "max_cost_usd");
    drop(redis);
    for n in [0, 0, 1, 1] {
        client(n, "run-1").post_json(CHAT, &chat("smart")).await.ok();
    }
}

#[tokio::test]
async fn completions_and_embeddings_are_counted_too() {
    let world = guarded("max_calls = 2").await;
    let run = client(&world, "run-1");
    run.post_json("/v1/embeddings", &json!({ "model": "acme/embed", "input": "x" })).await.ok();
    world.upstream.enqueue(Answer::error(400, "bad", "no"));
    assert_eq!(run.post_json(CHAT, &chat("acme/plain")).await.status, 400, "a failed call is a call");
    let refused = run.post_json("/v1/completions", &json!({ "model": "acme/fast", "prompt": "x" })).await;
    assert_stopped(&refused, "run-1", "max_calls");
    // A request that is not valid is no call.
    let world = guarded("max_calls = 1").await;
    let run = client(&world, "run-1");
    assert_eq!(run.post_json(CHAT, &json!({ "model": "acme/plain" })).await.status, 400);
    run.post_json(CHAT, &chat("acme/plain")).await.ok();
}

#[tokio::test]
async fn a_guard_without_a_limit_or_with_an_unknown_alias_is_a_problem() {
    let mut differences = Differences::default();
    for (guard, problem) in [
        ("action = \"warn\"", "has no limit; set one of max_calls, max_cost_usd, max_minutes, max_repeats"),
        ("max_calls = 1\nmatch = { aliases = [\"smrt\"] }", "is not in [aliases]"),
        ("max_calls = 0", "a whole number from 1"),
        ("max_cost_usd = 0", "must be more than 0"),
        ("max_calls = 1\naction = \"block\"", "\"warn\", \"stop\""),
        ("max_calls = 1\nmatch = { key = [\"x\"] }", "keys"),
    ] {
        let extra = format!("[[guards]]\n{guard}\n");
        let config = Setup { extra, ..Setup::default() }.config("http://127.0.0.1:1", "http://127.0.0.1:1");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("gateway.toml");
        std::fs::write(&path, config).expect("a file");
        let output = std::process::Command::new(binary()).arg("check").arg("--config").arg(&path).output();
        let output = output.expect("the program runs");
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        differences.check(guard, (output.status.success(), text.contains(problem)), (false, true));
        if !text.contains(problem) {
            differences.check(guard, text, problem.to_owned());
        }
    }
    differences.finish();
}
