//! Embeddings in the response cache, when the configuration enables it: the gateway asks only for the inputs that it has not stored.

pub(crate) mod models;

use gw_testkit::upstream::Recorded;
use gw_testkit::wait::eventually_true;
use gw_testkit::{Answer, Client, FakeUpstream, Launch, Redis, Response};
use serde_json::{Value, json};

use crate::harness::answers::cache_result;
use crate::harness::{ADMIN, KEY, Setup, World, assert_error, binary, logged, with, world};

pub(crate) const PATH: &str = "/v1/embeddings";
const ON: &str = "[cache]\nembeddings = true\n";

pub(crate) fn embed(input: &Value) -> Value {
    json!({ "model": "acme/embed", "input": input })
}

/// An answer whose numbers identify the input of each vector, in the spellings of different upstreams. Each character of an input
/// is two tokens, and each batch one more.
pub(crate) fn answer(request: &Recorded) -> Answer {
    let body = request.json();
    let inputs = match &body["input"] {
        Value::Array(inputs) if !inputs.iter().all(Value::is_number) => inputs.clone(),
        one => vec![one.clone()],
    };
    let dimensions = body["dimensions"].as_u64().unwrap_or(5);
    let mut tokens = 1;
    let vector = |(index, input): (usize, &Value)| {
        let text = input.as_str().unwrap_or("tokens");
        tokens += 2 * text.len();
        let mut numbers =
            format!("{}.5, 1e-05,0,-0.006929283495992422,\n0.1", text.bytes().map(u64::from).sum::<u64>());
        (5..dimensions).for_each(|_| numbers.push_str(", 0.25"));
        format!(r#"{{"object":"embedding","index":{index},"embedding":[{numbers}]}}"#)
    };
    let vectors: Vec<String> = inputs.iter().enumerate().map(vector).collect();
    let body = format!(
        r#"{{"object":"list","model":"embed-2","data":[{}],"usage":{{"prompt_tokens":{tokens},"total_tokens":{tokens}}}}}"#,
        vectors.join(",")
    );
    Answer::full(200, &[("content-type", "application/json")], body)
}

pub(crate) async fn with_cache(more: Setup) -> World {
    let world = Setup { extra: format!("{ON}{}", more.extra), ..more }.start().await;
    world.upstream.respond_with(answer);
    world.second.respond_with(answer);
    world
}

pub(crate) async fn ask(client: &Client, body: &Value) -> Response {
    client.post_json(PATH, body).await
}

fn cost(answer: &Response) -> f64 {
    answer.header("x-gateway-cost-usd").and_then(|cost| cost.parse().ok()).expect("a cost")
}

/// The inputs of the newest request to an upstream.
pub(crate) fn sent(upstream: &FakeUpstream) -> Value {
    upstream.last().json()["input"].clone()
}

/// The text of every vector without blanks, for an exact comparison.
fn vectors(answer: &Response) -> Vec<String> {
    let text: String = answer.text().split_whitespace().collect();
    let ends = |rest: &str| rest.split_once("}").map(|(vector, _)| vector.to_owned());
    text.split(r#""embedding":"#).skip(1).filter_map(ends).collect()
}

async fn figures(world: &World) -> Value {
    world.client.with_key(ADMIN).get("/admin/v1/cache").await.ok().json()
}

#[tokio::test]
async fn it_is_off_until_the_operator_says_so() {
    let world = world().await;
    for _ in 0..2 {
        let answer =
            ask(&world.client, &with(embed(&json!("a")), json!({ "cache": { "enabled": true } }))).await.ok();
        assert_eq!(cache_result(&answer), "BYPASS");
    }
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn of_a_batch_only_those_inputs_are_asked_for_that_are_not_there() {
    let world = with_cache(Setup::default()).await;
    let first = ask(&world.client, &embed(&json!(["one", "three"]))).await.ok();
    assert_eq!((cache_result(&first), first.header("age")), ("MISS", None));
    assert_eq!(first.json()["usage"], json!({ "prompt_tokens": 17, "total_tokens": 17 }));

    let body = with(embed(&json!(["two", "three", "one", "four", "two", "one"])), json!({ "user": "u" }));
    let part = ask(&world.client, &body).await.ok();
    assert_eq!((cache_result(&part), part.header("age")), ("PARTIAL", None));
    assert_eq!(
        (part.header("x-gateway-model"), part.header("x-gateway-provider")),
        (Some("acme/embed"), Some("acme"))
    );
    assert_eq!(world.upstream.hits(), 2);
    assert_eq!(sent(&world.upstream), json!(["two", "four"]), "the missing inputs, once, in order");
    assert_eq!(world.upstream.last().json()["user"], "u");
    let document = part.json();
    assert_eq!((&document["model"], &document["object"]), (&json!("embed-2"), &json!("list")));
    let data = document["data"].as_array().unwrap();
    for (place, text) in ["two", "three", "one", "four", "two", "one"].iter().enumerate() {
        assert_eq!(data[place]["index"], place);
        let sum: u32 = text.bytes().map(u32::from).sum();
        assert_eq!(data[place]["embedding"][0], f64::from(sum) + 0.5, "{text}");
    }
    // The first call's 17 tokens are divided by length: 6 or 7 and 10 or 11. The second call's 15: 6 or 7 and 8 or 9.
    let tokens = document["usage"]["prompt_tokens"].as_u64().unwrap();
    let whole = ask(&world.client, &body).await.ok();
    assert_eq!((cache_result(&whole), world.upstream.hits(), cost(&whole)), ("HIT", 2, 0.0));
    assert!(whole.header("age").is_some());
    assert_eq!((vectors(&whole), vectors(&whole).len()), (vectors(&part), 6));
    assert_eq!(whole.json(), document, "usage and all");
    let each = |text: &str| {
        let (client, body) = (world.client.clone(), embed(&json!(text)));
        async move { ask(&client, &body).await.ok().json()["usage"]["prompt_tokens"].as_u64().unwrap() }
    };
    let (one, two, three, four) =
        (each("one").await, each("two").await, each("three").await, each("four").await);
    assert_eq!((one + three, two + four), (17, 15), "all reported tokens are counted");
    assert_eq!(tokens, 2 * one + 2 * two + three + four);
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn a_vector_is_the_same_to_the_letter_in_both_encodings_whichever_came_first() {
    let world = with_cache(Setup::default()).await;
    for first in ["float", "base64"] {
        let body = |format: &str| {
            with(embed(&json!([first, format!("{first} x")])), json!({ "encoding_format": format }))
        };
        let second = if first == "float" { "base64" } else { "float" };
        let fresh = [ask(&world.client, &body(first)).await.ok(), {
            let anew = world.client.with_header("cache-control", "no-cache");
            ask(&anew, &body(second)).await.ok()
        }];
        let kept =
            [ask(&world.client, &body(first)).await.ok(), ask(&world.client, &body(second)).await.ok()];
        for (fresh, kept) in fresh.iter().zip(&kept) {
            assert_eq!((cache_result(fresh), cache_result(kept)), ("MISS", "HIT"));
            assert_eq!(vectors(fresh), vectors(kept));
        }
    }
    // The answer from the cache equals the answer without it.
    let off = Setup::default().start().await;
    off.upstream.respond_with(answer);
    for format in ["float", "base64"] {
        let body = with(embed(&json!(["float", "float x"])), json!({ "encoding_format": format }));
        let (kept, plain) = (ask(&world.client, &body).await.ok(), ask(&off.client, &body).await.ok());
        assert_eq!((cache_result(&kept), vectors(&kept)), ("HIT", vectors(&plain)));
    }
    let kept = ask(&world.client, &embed(&json!("float x"))).await.ok();
    assert_eq!(vectors(&kept), ["[686.5,1e-05,0,-0.006929283495992422,0.1]"]);
}

#[tokio::test]
async fn vectors_are_the_askers_own_and_of_what_was_asked_for() {
    let world = with_cache(Setup::default()).await;
    let body = embed(&json!("mine"));
    ask(&world.client, &body).await.ok();
    assert_eq!(
        cache_result(&ask(&world.client, &embed(&json!(["mine"]))).await.ok()),
        "HIT",
        "alone or in a list"
    );
    assert_eq!(cache_result(&ask(&world.client.with_key(ADMIN), &body).await.ok()), "MISS");
    for more in [
        json!({ "dimensions": 8 }),
        json!({ "dimensions": 6 }),
        json!({ "input_type": "query" }),
        json!({ "model": "embed" }),
    ] {
        let body = with(body.clone(), more.clone());
        let fresh = ask(&world.client, &body).await.ok();
        assert_eq!(cache_result(&fresh), "MISS", "{more}");
        let kept = ask(&world.client, &body).await.ok();
        assert_eq!((cache_result(&kept), kept.json()), ("HIT", fresh.json()), "{more}");
    }
    let eight = ask(&world.client, &with(body, json!({ "dimensions": 8 }))).await.ok();
    assert_eq!(eight.json()["data"][0]["embedding"].as_array().map(Vec::len), Some(8));
}

#[tokio::test]
async fn token_arrays_have_their_own_vectors() {
    let extra = "[[providers]]\nname = \"openai\"\napi = \"openai\"\nbase_url = \"<acme_url>\"\napi_key = \"sk-x\"\n\
                 [[models]]\nid = \"openai/embed\"\ncategory = [\"embedding\"]\n";
    let world = with_cache(Setup { extra: extra.to_owned(), ..Setup::default() }).await;
    let body = |input: Value| json!({ "model": "openai/embed", "input": input });
    assert_eq!(cache_result(&ask(&world.client, &body(json!([1, 2, 3]))).await.ok()), "MISS");
    assert_eq!(cache_result(&ask(&world.client, &body(json!([[1, 2, 3], [4]]))).await.ok()), "PARTIAL");
    assert_eq!(sent(&world.upstream), json!([[4]]));
    assert_eq!(cache_result(&ask(&world.client, &body(json!([4]))).await.ok()), "HIT");
    assert_eq!(cache_result(&ask(&world.client, &body(json!("4"))).await.ok()), "MISS", "a text is no token");
}

#[tokio::test]
async fn a_part_costs_what_was_asked_for_and_the_rest_is_saved() {
    let world = with_cache(Setup::default()).await;
    let admin = world.client.with_key(ADMIN);
    let first = ask(&world.client, &embed(&json!(["aaaa"]))).await.ok();
    let part = ask(&world.client, &embed(&json!(["aaaa", "bb", "aaaa"]))).await.ok();
    // 9 and 5 tokens at 0.02 dollars a million.
    let (of_nine, of_five) = (9.0 * 0.02e-6, 5.0 * 0.02e-6);
    let near = |one: f64, other: f64| assert!((one - other).abs() < 1e-18, "{one} {other}");
    near(cost(&first), of_nine);
    near(cost(&part), of_five);
    assert_eq!(part.json()["usage"]["prompt_tokens"], 23, "a repeated input counts twice");
    let row = logged(&admin, part.header("x-request-id").unwrap()).await;
    near(row["cost_usd"].as_f64().unwrap(), of_five);
    near(row["saved_usd"].as_f64().unwrap(), of_nine);
    assert_eq!(
        (&row["cache_hit"], &row["prompt_tokens"], &row["status"]),
        (&json!(false), &json!(23), &json!("ok")),
        "{row}"
    );
    let whole = ask(&world.client, &embed(&json!(["bb", "aaaa"]))).await.ok();
    let row = logged(&admin, whole.header("x-request-id").unwrap()).await;
    near(row["saved_usd"].as_f64().unwrap(), of_nine + of_five);
    assert_eq!((&row["cache_hit"], &row["cost_usd"]), (&json!(true), &json!(0)), "{row}");
    let figures = figures(&world).await;
    let counted =
        ["hits", "misses", "partial", "bypassed", "stored"].map(|name| figures[name].as_u64().unwrap());
    assert_eq!(counted, [1, 2, 1, 0, 2], "{figures}");
    near(figures["saved_usd"].as_f64().unwrap(), 2.0 * of_nine + of_five);
    let metrics = admin.get("/metrics").await.text();
    for line in
        ["gateway_cache_hits_total 1", "gateway_cache_misses_total 2", "gateway_cache_partial_total 1"]
    {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn t04_a_hit_still_needs_a_key_that_may_and_what_is_set_aside_is_for_what_is_sent() {
    let world = with_cache(Setup::default()).await;
    let admin = world.client.with_key(ADMIN);
    let make = async |more: Value| {
        let made = admin.post_json("/admin/v1/keys", &more).await;
        assert_eq!(made.status, 201, "{}", made.text());
        let made = made.json();
        (world.client.with_key(made["key"].as_str().unwrap()), made["id"].as_str().unwrap().to_owned())
    };
    let (client, id) = make(json!({ "name": "r", "rpm": 3 })).await;
    for expected in ["MISS", "HIT", "PARTIAL"] {
        let input = if expected == "PARTIAL" { json!(["a", "b"]) } else { json!(["a"]) };
        assert_eq!(cache_result(&ask(&client, &embed(&input)).await.ok()), expected);
    }
    let limited = ask(&client, &embed(&json!(["a"]))).await;
    assert_error("rpm", &limited, 429, "rate_limit_error", "rate_limit_exceeded");
    assert_eq!(admin.send("DELETE", &format!("/admin/v1/keys/{id}"), None, None).await.status, 200);
    let revoked = ask(&client, &embed(&json!(["a"]))).await;
    assert_error("revoked", &revoked, 401, "authentication_error", "invalid_api_key");
    // A long input fits into the token limit once. It keeps passing while its vector is stored.
    let (client, _) = make(json!({ "name": "t", "tpm": 1000 })).await;
    let long = "x".repeat(450);
    assert_eq!(cache_result(&ask(&client, &embed(&json!([long]))).await.ok()), "MISS");
    assert_eq!(cache_result(&ask(&client, &embed(&json!([long, "y"]))).await.ok()), "PARTIAL");
    assert_eq!(cache_result(&ask(&client, &embed(&json!([long, "y"]))).await.ok()), "HIT");
    let too_much = ask(&client, &embed(&json!(["z".repeat(400)]))).await;
    assert_error("tpm", &too_much, 429, "rate_limit_error", "rate_limit_exceeded");
}

#[tokio::test]
async fn cache_control_is_heard() {
    let world = with_cache(Setup::default()).await;
    let body = embed(&json!(["a", "b"]));
    ask(&world.client, &body).await.ok();
    for (header, expected) in
        [("no-cache", "MISS"), ("max-age=3600", "HIT"), ("max-age=0", "MISS"), ("no-store", "BYPASS")]
    {
        let before = world.upstream.hits();
        let answer = ask(&world.client.with_header("cache-control", header), &body).await.ok();
        assert_eq!(
            (cache_result(&answer), world.upstream.hits() > before),
            (expected, expected != "HIT"),
            "{header}"
        );
    }
    let nothing = world.client.with_header("cache-control", "no-store");
    assert_eq!(cache_result(&ask(&nothing, &embed(&json!("c"))).await.ok()), "BYPASS");
    assert_eq!(
        cache_result(&ask(&world.client, &embed(&json!("c"))).await.ok()),
        "MISS",
        "the cache stored nothing"
    );
    assert_eq!(figures(&world).await["bypassed"], 2);
}

#[tokio::test]
async fn what_is_missing_is_split_like_any_batch_and_failures_leave_nothing() {
    let world = with_cache(Setup {
        acme: "embedding_batch = 2".to_owned(),
        routing: "retries = 0",
        ..Setup::default()
    })
    .await;
    ask(&world.client, &embed(&json!(["a", "ccc"]))).await.ok();
    let part = ask(&world.client, &embed(&json!(["a", "bbbbbbbb", "ccc", "dddddddd", "e"]))).await.ok();
    assert_eq!((cache_result(&part), world.upstream.hits()), ("PARTIAL", 3));
    let mut sizes: Vec<_> =
        world.upstream.requests().iter().skip(1).map(|sent| sent.json()["input"].clone()).collect();
    sizes.sort_by_key(ToString::to_string);
    assert_eq!(sizes, [json!(["bbbbbbbb", "dddddddd"]), json!(["e"])]);
    // The tokens of a batch with one input are exact.
    let one = ask(&world.client, &embed(&json!("e"))).await.ok().json();
    assert_eq!(one["usage"]["prompt_tokens"], 3);
    world.upstream.enqueue(Answer::error(500, "x", "down"));
    let failed = ask(&world.client, &embed(&json!(["a", "new"]))).await;
    assert_error("failed", &failed, 502, "upstream_error", "upstream_error");
    let part = ask(&world.client, &embed(&json!(["a", "new"]))).await.ok();
    assert_eq!((cache_result(&part), sent(&world.upstream)), ("PARTIAL", json!(["new"])));
}

#[tokio::test]
async fn a_batch_of_two_thousand_hits_partly_over_redis_and_one_that_is_frozen_costs_no_answer() {
    let (upstream, redis) = (FakeUpstream::start().await, Redis::start().await);
    upstream.respond_with(answer);
    let extra = format!("[redis]\nurl = \"{}\"\ntimeout_ms = 3000\n{ON}backend = \"redis\"\n", redis.url());
    let acme = "embedding_batch = 2048".to_owned();
    let config = Setup { acme, extra, ..Setup::default() }.config(&upstream.base_url(), &upstream.base_url());
    let start = async || Launch::new(binary()).file("gateway.toml", &config).start().await;
    let (one, two) = (start().await, start().await);
    let (first, second) = (one.client().with_key(KEY), two.client().with_key(KEY));
    let texts: Vec<String> = (0..2048).map(|n| format!("text {n}")).collect();
    let (odd, even): (Vec<&String>, Vec<&String>) =
        texts.iter().partition(|text| text.ends_with(['1', '3', '5', '7', '9']));
    assert_eq!(cache_result(&ask(&first, &embed(&json!(odd))).await.ok()), "MISS");
    eventually_true("all of it is written", async || {
        cache_result(&ask(&second, &embed(&json!(odd))).await.ok()) == "HIT"
    })
    .await;
    let part = ask(&second, &embed(&json!(texts))).await.ok();
    assert_eq!((cache_result(&part), sent(&upstream)), ("PARTIAL", json!(even)));
    let data = part.json()["data"].clone();
    for (place, text) in texts.iter().enumerate() {
        let sum: u32 = text.bytes().map(u32::from).sum();
        assert_eq!(data[place]["embedding"][0], f64::from(sum) + 0.5, "{text}");
    }
    // A key of another tenant misses, and so does every key while Redis does not answer.
    assert_eq!(
        cache_result(&ask(&two.client().with_key(ADMIN), &embed(&json!(["text 1"]))).await.ok()),
        "MISS"
    );
    redis.pause();
    assert_eq!(cache_result(&ask(&first, &embed(&json!(odd))).await.ok()), "MISS");
    redis.resume();
}
