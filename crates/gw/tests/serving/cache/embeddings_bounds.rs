//! Answers from stored vectors: bounds of memory, attempts and cost.

use gw_testkit::wait::within;
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Client, Redis};
use serde_json::{Value, json};

use crate::cache::embeddings::models::TWO;
use crate::cache::embeddings::{PATH, ask, embed, sent, with_cache};
use crate::harness::answers::cache_result;
use crate::harness::signs::metric;
use crate::harness::{ADMIN, PATIENT, Setup, World, assert_error, logged, with};

/// The price of a token of `acme/embed`.
const TOKEN: f64 = 0.02e-6;

/// This many vectors of these numbers, with the reported model name and tokens.
fn vectors_answer(model: &str, numbers: &Value, count: usize, tokens: u64) -> Answer {
    let vector = |index| json!({ "object": "embedding", "index": index, "embedding": numbers });
    let data: Value = (0..count).map(vector).collect();
    let usage = json!({ "prompt_tokens": tokens, "total_tokens": tokens });
    Answer::json(200, &json!({ "object": "list", "model": model, "data": data, "usage": usage }))
}

/// A vector of the largest dimension in use.
fn long_vector() -> Value {
    (0..3072).map(|place| f64::from(place) + 0.5).collect()
}

fn base64(inputs: &[&str]) -> Value {
    with(embed(&json!(inputs)), json!({ "encoding_format": "base64" }))
}

#[tokio::test]
async fn an_answer_larger_than_an_upstreams_may_be_is_not_made_of_kept_vectors() {
    let world = with_cache(Setup {
        acme: "embedding_batch = 2048".to_owned(),
        routing: "retries = 0",
        ..Setup::default()
    })
    .await;
    world.upstream.enqueue(vectors_answer("embed-2", &long_vector(), 1, 5));
    ask(&world.client, &embed(&json!("a"))).await.ok();
    // 2,000 vectors of 3,072 numbers are 31.3 MiB in base64, 2,048 are a little more than 32, and digits take more.
    let fits = ask(&world.client, &base64(&["a"; 2_000])).await.ok();
    assert_eq!((cache_result(&fits), world.upstream.hits()), ("HIT", 1));
    assert!((31 << 20..32 << 20).contains(&fits.body.len()), "{}", fits.body.len());
    for body in [base64(&["a"; 2_048]), embed(&json!(vec!["a"; 2_000]))] {
        let before = world.upstream.hits();
        // As without the cache: each input is sent as often as it occurs, and nothing is stored.
        let count = body["input"].as_array().map_or(0, Vec::len);
        world.upstream.enqueue(vectors_answer("embed-2", &json!([1.5, 2.5]), count, 7));
        let anew = ask(&world.client, &body).await.ok();
        assert_eq!((cache_result(&anew), world.upstream.hits()), ("MISS", before + 1));
        assert_eq!(sent(&world.upstream), body["input"]);
        assert_eq!(anew.json()["usage"]["prompt_tokens"], 7);
    }
    // The bound holds for the whole answer, also when only a part is missing.
    let mut inputs = vec!["a"; 2_047];
    inputs.push("b");
    world.upstream.enqueue(Answer::error(500, "x", "down"));
    let failed = ask(&world.client, &base64(&inputs)).await;
    assert_error("failed", &failed, 502, "upstream_error", "upstream_error");
    assert_eq!(sent(&world.upstream), json!(inputs));
    assert_eq!(
        cache_result(&ask(&world.client, &embed(&json!(["a"]))).await.ok()),
        "HIT",
        "what is kept stays"
    );
}

#[tokio::test]
async fn an_input_that_is_there_many_times_is_paid_many_times_while_nobody_knows_how_long_its_vector_is() {
    let world = with_cache(Setup { acme: "embedding_batch = 2048".to_owned(), ..Setup::default() }).await;
    let inputs = vec!["a"; 2_048];
    let answer = ask(&world.client, &embed(&json!(inputs))).await.ok();
    assert_eq!((cache_result(&answer), sent(&world.upstream)), ("MISS", json!(inputs)));
    // The gateway knows that these vectors are short.
    let body = with(embed(&json!(inputs)), json!({ "dimensions": 8 }));
    let answer = ask(&world.client, &body).await.ok();
    assert_eq!((cache_result(&answer), sent(&world.upstream)), ("MISS", json!(["a"])));
    assert_eq!(answer.json()["data"].as_array().map(Vec::len), Some(2_048));
}

/// A request whose client has not read the answer.
async fn unread(client: &Client, body: &Value) -> RawClient {
    let body = body.to_string();
    client.open("POST", PATH, Some("application/json"), Some(body.as_bytes())).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_of_kept_vectors_that_nobody_reads_hold_so_much_together_and_no_more() {
    let acme = "embedding_batch = 2048".to_owned();
    let world = with_cache(Setup { acme, server: PATIENT, ..Setup::default() }).await;
    world.upstream.enqueue(vectors_answer("embed-2", &long_vector(), 1, 5));
    ask(&world.client, &embed(&json!("a"))).await.ok();
    // 31.3 MiB each: four of them fit into the half that a key may have of 256.
    let body = base64(&["a"; 2_000]);
    let mut wires = Vec::new();
    for _ in 0..4 {
        let mut wire = unread(&world.client, &body).await;
        assert_eq!(wire.head().await.expect("a head").header("x-gateway-cache"), Some("HIT"));
        wires.push(wire);
    }
    world.upstream.enqueue(vectors_answer("embed-2", &json!([1.5, 2.5]), 2_000, 7));
    let full = ask(&world.client, &body).await.ok();
    assert_eq!((cache_result(&full), world.upstream.hits()), ("MISS", 2));
    assert_eq!(sent(&world.upstream), body["input"]);
    // Small requests are unaffected.
    assert_eq!(cache_result(&ask(&world.client, &base64(&["a"])).await.ok()), "HIT");
    drop(wires);
    // The connection that asks for the metrics is the last one. A connection ends after its answer was dropped.
    within("the connections are closed", async {
        while metric(&world.gateway, "gateway_http_connections").await != 1.0 {}
    })
    .await;
    let again = ask(&world.client, &body).await.ok();
    assert_eq!((cache_result(&again), world.upstream.hits()), ("HIT", 2));
}

#[tokio::test]
async fn a_model_that_has_changed_is_asked_anew_though_its_attempts_are_used_up_and_what_was_paid_is_kept() {
    let world = with_cache(Setup { routing: "retries = 0\nmax_attempts = 1", ..Setup::default() }).await;
    let (old, new) = (json!([1.5, 2, 3, 4, 5]), json!([2.5, 3]));
    world.upstream.enqueue(vectors_answer("embed-2", &old, 1, 50));
    ask(&world.client, &embed(&json!("a"))).await.ok();
    world.upstream.enqueue(vectors_answer("embed-3", &new, 1, 50));
    world.upstream.enqueue(vectors_answer("embed-3", &new, 2, 50));
    let anew = ask(&world.client, &embed(&json!(["a", "b"]))).await.ok();
    assert_eq!((cache_result(&anew), sent(&world.upstream)), ("MISS", json!(["a", "b"])));
    assert_eq!(cache_result(&ask(&world.client, &embed(&json!(["a", "b"]))).await.ok()), "HIT");

    // When the second call fails, the vectors of the first one are stored, and the next request makes one call.
    world.client.with_key(ADMIN).send("DELETE", "/admin/v1/cache", None, None).await.ok();
    world.upstream.enqueue(vectors_answer("embed-2", &old, 1, 50));
    ask(&world.client, &embed(&json!("a"))).await.ok();
    world.upstream.enqueue(vectors_answer("embed-3", &new, 1, 50));
    world.upstream.enqueue(Answer::error(500, "x", "down"));
    let failed = ask(&world.client, &embed(&json!(["a", "b"]))).await;
    assert_error("failed", &failed, 502, "upstream_error", "upstream_error");
    let row = logged(&world.client.with_key(ADMIN), failed.header("x-request-id").unwrap()).await;
    assert!((row["cost_usd"].as_f64().unwrap() - 50.0 * TOKEN).abs() < 1e-18, "{row}");
    let before = world.upstream.hits();
    let paid = ask(&world.client, &embed(&json!("b"))).await.ok();
    assert_eq!((cache_result(&paid), &paid.json()["data"][0]["embedding"]), ("HIT", &new));
    world.upstream.enqueue(vectors_answer("embed-3", &new, 2, 50));
    let healed = ask(&world.client, &embed(&json!(["a", "b"]))).await.ok();
    assert_eq!((cache_result(&healed), world.upstream.hits()), ("MISS", before + 1));
    assert_eq!(cache_result(&ask(&world.client, &embed(&json!(["b", "a"]))).await.ok()), "HIT");
}

/// A gateway in which the key `sk-by` has these limits.
async fn limited(limits: &str, more: &str) -> (World, Client) {
    let extra = format!("{more}[[keys]]\nname = \"limited-by\"\nkey = \"sk-by\"\n{limits}\n");
    let world = with_cache(Setup { routing: "retries = 0", extra, ..Setup::default() }).await;
    let client = world.client.with_key("sk-by");
    (world, client)
}

#[tokio::test]
async fn what_is_asked_for_anew_is_set_aside_before_it_is_asked_for() {
    // The budget is the price of 740 tokens. The long text is estimated at 708.
    let (world, client) = limited("budget_usd = 0.0000148", "").await;
    let (numbers, long) = (json!([1.5, 2]), "x".repeat(2_100));
    world.upstream.enqueue(vectors_answer("embed-2", &numbers, 1, 20));
    ask(&client, &embed(&json!(long))).await.ok();
    world.upstream.enqueue(vectors_answer("embed-3", &numbers, 1, 5));
    let refused = ask(&client, &embed(&json!([long, "b"]))).await;
    assert_error("budget", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert_eq!(world.upstream.hits(), 2, "only the reserved amount was spent");
    let row = logged(&world.client.with_key(ADMIN), refused.header("x-request-id").unwrap()).await;
    assert!(
        (row["cost_usd"].as_f64().unwrap() - 5.0 * TOKEN).abs() < 1e-18,
        "what was in vain is paid: {row}"
    );
    // Nothing stays reserved: 25 tokens are spent, and 715 of 740 are left.
    let fits = ask(&client, &embed(&json!("y".repeat(2_100)))).await;
    assert_eq!((cache_result(&fits.ok()), world.upstream.hits()), ("MISS", 3));
}

#[tokio::test]
async fn both_calls_are_settled_and_nothing_stays_set_aside_here_and_in_redis() {
    let redis = Redis::start().await;
    // The budget is the price of 2,000 tokens. The long text is estimated at 708. Redis rounds 50 tokens up to a billionth of a dollar.
    for shared in ["", &format!("[redis]\nurl = \"{}\"\ntimeout_ms = 3000\n", redis.url())] {
        let (world, client) = limited("budget_usd = 0.00004", shared).await;
        let (numbers, long) = (json!([1.5, 2]), "x".repeat(2_100));
        world.upstream.enqueue(vectors_answer("embed-2", &numbers, 1, 50));
        ask(&client, &embed(&json!(long))).await.ok();
        world.upstream.enqueue(vectors_answer("embed-3", &numbers, 1, 50));
        world.upstream.enqueue(vectors_answer("embed-3", &numbers, 2, 50));
        let anew = ask(&client, &embed(&json!([long, "b"]))).await.ok();
        assert_eq!((cache_result(&anew), world.upstream.hits()), ("MISS", 3));
        // 150 tokens are spent and nothing is reserved: 1,808 tokens fit into the rest, and 1,858 do not.
        let too_much = ask(&client, &embed(&json!("y".repeat(5_550)))).await;
        assert_error("spent", &too_much, 429, "insufficient_quota", "insufficient_quota");
        if !shared.is_empty() {
            let subject = format!("gw:{{key:{}}}", gw_engine::auth::configured_id("limited-by"));
            within("Redis knows the two calls", async {
                while redis.command(&["HMGET", &subject, "spent", "reserved"]).await != ["3000", "0"] {}
            })
            .await;
        }
        let fits = ask(&client, &embed(&json!("z".repeat(5_400)))).await;
        assert_eq!((cache_result(&fits.ok()), world.upstream.hits()), ("MISS", 4));
    }
}

#[tokio::test]
async fn who_cannot_afford_everything_anew_gets_what_is_nearly_complete_all_the_same() {
    let (world, client) = limited("tpm = 1000", TWO).await;
    let body = |input: Value| json!({ "model": "vector", "input": input });
    let numbers = json!([1.5, 2]);
    let long = ["x".repeat(1_800), "y".repeat(1_800)];
    for text in &long {
        world.upstream.enqueue(vectors_answer("embed-2", &numbers, 1, 5));
        ask(&client, &body(json!(text))).await.ok();
    }
    world.upstream.enqueue(vectors_answer("embed-2", &numbers, 1, 5));
    let part = ask(&client, &body(json!([long[0], long[1], "b"]))).await.ok();
    assert_eq!((cache_result(&part), sent(&world.upstream)), ("PARTIAL", json!(["b"])));
    // The other model would need the whole batch, which exceeds the budget.
    world.upstream.enqueue(Answer::error(500, "x", "down"));
    let refused = ask(&client, &body(json!([long[0], long[1], "c"]))).await;
    assert_error("anew", &refused, 429, "rate_limit_error", "rate_limit_exceeded");
    assert_eq!((world.upstream.hits(), world.second.hits()), (4, 0));
}
