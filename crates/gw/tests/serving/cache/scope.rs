//! A tenant cannot learn anything about another tenant's questions, neither from its answers nor from their timing.

use std::time::{Duration, Instant};

use gw_testkit::measured::at_most;
use gw_testkit::sse::{chunks, text_of};
use gw_testkit::upstream::{Step, chat_body, sse_data};
use gw_testkit::wait::{eventually_true, within};
use gw_testkit::{Answer, Client, Recorded, Response, Signal};
use serde_json::{Value, json};

use crate::harness::answers::cache_result;
use crate::harness::tenants::{Tenants, tenants};
use crate::harness::{Setup, assert_error, chat_with, world};

const PATH: &str = "/v1/chat/completions";

fn question(text: &str, stream: bool) -> Value {
    let messages = json!([{ "role": "user", "content": text }]);
    chat_with(
        "acme/fast",
        json!({ "messages": messages, "cache": { "enabled": true }, "stream": stream,
        "stream_options": { "include_usage": true } }),
    )
}

/// Everything that a client sees of an answer except its own ids and times, and the length of the answer.
fn client_view(answer: &Response) -> (u16, Vec<(String, String)>, Vec<Value>) {
    let mut headers = answer.headers.clone();
    let own = ["x-request-id", "date", "content-length", "openai-processing-ms"];
    headers.iter_mut().filter(|(name, _)| own.contains(&name.as_str())).for_each(|(_, value)| value.clear());
    let text = answer.text();
    let mut documents = match text.strip_prefix('{') {
        Some(_) => vec![answer.json()],
        None => chunks(&text.split_inclusive("\n\n").map(str::to_owned).collect::<Vec<_>>()),
    };
    let mut masked = 0;
    documents.iter_mut().for_each(|document| mask(document, &mut masked));
    documents.push(json!({ "length": text.len() - masked }));
    (answer.status, headers, documents)
}

/// Removes the ids and times of an answer, and counts their bytes.
fn mask(value: &mut Value, bytes: &mut usize) {
    match value {
        Value::Object(members) => {
            for (name, value) in members {
                if ["id", "request_id", "created"].contains(&name.as_str()) {
                    *value = Value::Null;
                } else if name == "latency_ms" {
                    *bytes += value.to_string().len();
                    *value = Value::Null;
                } else {
                    mask(value, bytes);
                }
            }
        }
        Value::Array(elements) => elements.iter_mut().for_each(|element| mask(element, bytes)),
        _ => {}
    }
}

/// The requests to the upstream without the question itself.
fn upstream_view(request: &Recorded, text: &str) -> (Vec<(String, String)>, String) {
    (request.headers.clone(), String::from_utf8_lossy(&request.body).replace(text, "?"))
}

#[tokio::test]
async fn t05_what_another_tenant_has_in_the_cache_is_answered_like_what_nobody_asked() {
    let world = world().await;
    let Tenants { a, others, .. } = tenants(&world).await;
    let mut number = 10;
    for (who, other) in &others {
        for stream in [false, true] {
            number += 1;
            let (known, unknown) = (format!("known-{number}"), format!("never-{number}"));
            assert_eq!(cache_result(&a.post_json(PATH, &question(&known, stream)).await.ok()), "MISS");
            assert_eq!(cache_result(&a.post_json(PATH, &question(&known, stream)).await.ok()), "HIT");
            let mut answers = Vec::new();
            for text in [&known, &unknown] {
                let before = world.upstream.hits();
                let answer = other.post_json(PATH, &question(text, stream)).await.ok();
                assert_eq!(
                    (cache_result(&answer), world.upstream.hits()),
                    ("MISS", before + 1),
                    "{who}: {text}"
                );
                assert_eq!(answer.header("age"), None, "{who}: {text}");
                answers.push((client_view(&answer), upstream_view(&world.upstream.last(), text)));
            }
            assert_eq!(answers[0], answers[1], "{who}, stream: {stream}");
        }
    }
}

#[tokio::test]
async fn t05_another_tenants_call_in_flight_is_not_joined() {
    let world = world().await;
    let Tenants { a, others, .. } = tenants(&world).await;
    let hold = Signal::new();
    world
        .upstream
        .enqueue(Answer::sse().data(&sse_data(&json!({ "content": "held" }), None)).wait(&hold).done());
    let mut first = a.stream(PATH, &question("in flight", true)).await;
    first.frame().await;
    // A second request of tenant `a` joins, so the call can be joined.
    let joined = a.stream(PATH, &question("in flight", true)).await;
    assert_eq!((joined.head.header("x-gateway-cache"), world.upstream.hits()), (Some("COALESCED"), 1));
    for (who, other) in &others {
        let before = world.upstream.hits();
        // The answer arrives while the other tenant's call is still held.
        let plain = within(who, other.post_json(PATH, &question("in flight", false))).await.ok();
        assert_eq!((cache_result(&plain), world.upstream.hits()), ("MISS", before + 1), "{who}");
        // A call of its own: the call of the last round may still run.
        let body = question(&format!("in flight, too: {who}"), true);
        world
            .upstream
            .enqueue(Answer::sse().data(&sse_data(&json!({ "content": "held" }), None)).wait(&hold).done());
        let mut of_a = a.stream(PATH, &body).await;
        of_a.frame().await;
        let mut stream = other.stream(PATH, &body).await;
        assert_eq!(stream.head.header("x-gateway-cache"), Some("MISS"), "{who}");
        assert_eq!(text_of(&within(who, stream.rest()).await, 0), "Hello from upstream", "{who}");
        assert_eq!(world.upstream.hits(), before + 3, "{who}");
        drop(of_a);
    }
}

#[tokio::test]
async fn t05_another_tenants_old_answer_stands_in_for_nobodys_error() {
    let extra = "[cache]\nstale_if_error_seconds = 600\n".to_owned();
    let world = Setup { routing: "retries = 0", extra, ..Setup::default() }.start().await;
    let Tenants { a, others, .. } = tenants(&world).await;
    let mut body = question("old", false);
    body["cache"]["ttl"] = json!(1);
    a.post_json(PATH, &body).await.ok();
    world.upstream.always(Answer::error(500, "x", "down"));
    eventually_true("it is too old", async || cache_result(&a.post_json(PATH, &body).await) == "STALE").await;
    for (who, other) in &others {
        let answer = other.post_json(PATH, &body).await;
        assert_error(who, &answer, 502, "upstream_error", "upstream_error");
    }
}

/// The number of questions of each kind.
const TIMES: usize = 100;
/// Standard deviations of the rank sum. Chance exceeds the bound in fewer than one run in a million. Two fully separate groups
/// reach 12.
const BY_CHANCE: f64 = 5.0;

/// The Mann-Whitney statistic: standard deviations by which the first times lie above the second ones.
fn rank_test(first: &[Duration], second: &[Duration]) -> f64 {
    let mut all: Vec<(Duration, bool)> = first.iter().map(|time| (*time, true)).collect();
    all.extend(second.iter().map(|time| (*time, false)));
    all.sort_unstable();
    let ranks: f64 =
        (1_u32..).zip(&all).filter(|(_, (_, is_first))| *is_first).map(|(n, _)| f64::from(n)).sum();
    let (n, m) = (first.len() as f64, second.len() as f64);
    (ranks - n * (n + m + 1.0) / 2.0) / (n * m * (n + m + 1.0) / 12.0).sqrt()
}

fn median(times: &[Duration]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted[sorted.len() / 2].as_secs_f64()
}

/// Sends a chat, checks the cache's result, and gives the duration.
async fn timed(client: &Client, text: &str, expected: &str) -> Duration {
    let body = question(text, false);
    let begun = Instant::now();
    let answer = client.post_json(PATH, &body).await;
    let took = begun.elapsed();
    assert_eq!(cache_result(&answer.ok()), expected, "{text}");
    took
}

/// The speed of the machine does not matter: the three kinds of questions take turns, and the test compares them with each
/// other.
#[tokio::test]
async fn t05_times_do_not_tell_what_another_tenant_has_asked() {
    for pause in [Duration::ZERO, Duration::from_millis(5)] {
        let world = world().await;
        let Tenants { a, others: [(_, b), ..], .. } = tenants(&world).await;
        world
            .upstream
            .respond_with(move |_| Answer::json(200, &chat_body("m", "Hi")).after(Step::Pause(pause)));
        let (mut known, mut unknown, mut own) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..TIMES {
            // Each question follows a call of tenant `a`, and each kind comes first equally often.
            for is_known in [n % 2 == 0, n % 2 == 1] {
                let asked_by_a = format!("question {n:03} {is_known:5} 1");
                timed(&a, &asked_by_a, "MISS").await;
                if is_known {
                    known.push(timed(&b, &asked_by_a, "MISS").await);
                } else {
                    unknown.push(timed(&b, &format!("question {n:03} {is_known:5} 2"), "MISS").await);
                    own.push(timed(&a, &asked_by_a, "HIT").await);
                }
            }
        }
        let (difference, a_hit) = (rank_test(&known, &unknown), rank_test(&own, &unknown));
        let shown = format!("after {pause:?}: {difference:.1} for what A asked, {a_hit:.1} for a hit");
        println!("{shown}");
        // Every run asserts the result of each question (a miss for `b`, whatever `a` asked) and the calls of the upstream.
        assert_eq!(world.upstream.hits(), 4 * TIMES, "only `a` gets what `a` has asked");
        at_most("T05: standard deviations", difference.abs(), BY_CHANCE);
        // The comparison detects real hits, so it would have detected one above.
        at_most("T05: standard deviations of a hit", a_hit, -BY_CHANCE);
        let worth = median(&unknown) - median(&own);
        at_most("T05: seconds", (median(&known) - median(&unknown)).abs(), worth / 2.0);
    }
}
