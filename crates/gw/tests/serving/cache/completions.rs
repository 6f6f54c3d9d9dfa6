//! Text completions in the response cache, where the configuration wants it.

use gw_testkit::sse::{chunks, text_of};
use gw_testkit::wait::eventually_true;
use gw_testkit::{Answer, Client, Response, Signal};
use serde_json::{Value, json};

use crate::harness::answers::cache_result;
use crate::harness::{ADMIN, Setup, World, assert_error, logged, with, world};

const PATH: &str = "/v1/completions";

fn text(more: Value) -> Value {
    with(json!({ "model": "acme/fast", "prompt": "Once" }), more)
}

async fn with_cache(routing: &'static str) -> World {
    Setup { routing, extra: "[cache]\ncompletions = true\n".to_owned(), ..Setup::default() }.start().await
}

async fn ask(client: &Client, body: &Value) -> Response {
    client.post_json(PATH, body).await
}

/// An upstream's completion with these choices, each a text and a finish reason.
fn completion_body(choices: &[(&str, &str)]) -> Value {
    let choice = |(index, (text, finish)): (usize, &(&str, &str))| json!({ "index": index, "text": text, "logprobs": null, "finish_reason": finish });
    json!({ "object": "text_completion", "model": "m", "choices": choices.iter().enumerate().map(choice).collect::<Value>(),
            "usage": { "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15 } })
}

#[tokio::test]
async fn completions_are_kept_only_where_the_operator_says_so() {
    let off = world().await;
    for _ in 0..2 {
        // The request cannot change the setting, whether the cache is on or off.
        let answer = ask(&off.client, &text(json!({ "cache": { "enabled": true } }))).await.ok();
        assert_eq!(
            (cache_result(&answer), &answer.json()["gateway"]["cache_hit"]),
            ("BYPASS", &json!(false))
        );
    }
    assert_eq!(off.upstream.hits(), 2);

    let world = with_cache("").await;
    let first = ask(&world.client, &text(json!({}))).await.ok();
    assert_eq!(cache_result(&first), "MISS");
    let body = text(json!({ "user": "someone", "cache": { "enabled": false } }));
    let second = ask(&world.client, &body).await.ok();
    assert_eq!((cache_result(&second), world.upstream.hits()), ("HIT", 1));
    assert!(second.header("age").is_some());
    assert_eq!(second.header("x-gateway-model"), Some("acme/fast"));
    let (first, second) = (first.json(), second.json());
    for same in ["object", "model", "choices"] {
        assert_eq!(first[same], second[same], "{same}");
    }
    assert_ne!(first["id"], second["id"]);
    assert!(second["id"].as_str().is_some_and(|id| id.starts_with("cmpl-")));
    assert_eq!(
        second["usage"],
        json!({ "prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15, "cost_usd": 0 })
    );
    assert_eq!(
        (&second["gateway"]["cache_hit"], &second["gateway"]["saved_usd"]),
        (&json!(true), &first["usage"]["cost_usd"])
    );
    let admin = world.client.with_key(ADMIN);
    let row = logged(&admin, second["gateway"]["request_id"].as_str().unwrap()).await;
    assert_eq!(
        (&row["cache_hit"], &row["cost_usd"], &row["saved_usd"]),
        (&json!(true), &json!(0), &first["usage"]["cost_usd"]),
        "{row}"
    );
    // Another key misses.
    assert_eq!(cache_result(&ask(&admin, &text(json!({}))).await.ok()), "MISS");
    let figures = admin.get("/admin/v1/cache").await.ok().json();
    assert_eq!((&figures["hits"], &figures["misses"], &figures["stored"]), (&json!(1), &json!(2), &json!(2)));
}

#[tokio::test]
async fn whatever_shapes_a_completion_is_a_part_of_its_key_and_is_answered_like_anew() {
    let world = with_cache("").await;
    for more in [
        json!({}),
        json!({ "echo": true }),
        json!({ "suffix": "the end" }),
        json!({ "n": 2 }),
        json!({ "best_of": 3 }),
        json!({ "prompt": ["Once", "Twice"] }),
        json!({ "prompt": ["Once", "Twice"], "n": 2 }),
        json!({ "prompt": ["OnceTwice"] }),
        json!({ "max_tokens": 7 }),
        json!({ "model": "fast" }),
    ] {
        let before = world.upstream.hits();
        let fresh = ask(&world.client, &text(more.clone())).await.ok();
        assert_eq!((cache_result(&fresh), world.upstream.hits()), ("MISS", before + 1), "{more}");
        let kept = ask(&world.client, &text(more.clone())).await.ok();
        assert_eq!((cache_result(&kept), world.upstream.hits()), ("HIT", before + 1), "{more}");
        let (fresh, kept) = (fresh.json(), kept.json());
        assert_eq!((&fresh["choices"], &fresh["model"]), (&kept["choices"], &kept["model"]), "{more}");
        // The stream has every choice, too.
        let frames = world
            .client
            .stream(PATH, &text(with(more.clone(), json!({ "stream": true }))))
            .await
            .rest()
            .await;
        for choice in kept["choices"].as_array().unwrap() {
            let index = choice["index"].as_u64().unwrap();
            assert_eq!(text_of(&frames, index), choice["text"].as_str().unwrap(), "{more}");
        }
        assert_eq!(world.upstream.hits(), before + 1);
    }
}

#[tokio::test]
async fn streams_are_replayed_plain_and_the_other_way_round() {
    let world = with_cache("").await;
    for (first_streams, second_streams) in [(true, false), (false, true), (true, true)] {
        let more = json!({ "prompt": format!("{first_streams} {second_streams}") });
        let (fresh, _) = read(&world, &text(with(more.clone(), json!({ "stream": first_streams })))).await;
        let before = world.upstream.hits();
        let (kept, gateway) =
            read(&world, &text(with(more.clone(), json!({ "stream": second_streams })))).await;
        assert_eq!(fresh, kept, "{more}");
        assert_eq!((&gateway["cache_hit"], world.upstream.hits()), (&json!(true), before), "{more}");
    }
    let body =
        text(json!({ "prompt": "false true", "stream": true, "stream_options": { "include_usage": true } }));
    let mut stream = world.client.stream(PATH, &body).await;
    assert_eq!(stream.head.header("x-gateway-cache"), Some("HIT"));
    assert_eq!(stream.head.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let frames = stream.rest().await;
    assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"));
    let all = chunks(&frames);
    assert!(all.iter().all(|chunk| chunk["object"] == "text_completion" && chunk["id"] == all[0]["id"]));
    let [content, finish, usage] = all.as_slice() else { panic!("{frames:?}") };
    let choice = |text: &str, finish: Value| json!([{ "index": 0, "text": text, "logprobs": null, "finish_reason": finish }]);
    assert_eq!(content["choices"], choice("text 0", Value::Null));
    assert_eq!(finish["choices"], choice("", json!("stop")));
    assert_eq!((&usage["choices"], &usage["usage"]["cost_usd"]), (&json!([]), &json!(0)));
    assert!(content["usage"].is_null() && content.get("usage").is_some());
}

/// The text of a completion, and its `gateway`.
async fn read(world: &World, body: &Value) -> (String, Value) {
    if body["stream"] == true {
        let frames = world.client.stream(PATH, body).await.rest().await;
        return (text_of(&frames, 0), chunks(&frames).last().cloned().unwrap_or_default()["gateway"].clone());
    }
    let answer = ask(&world.client, body).await.ok().json();
    (answer["choices"][0]["text"].as_str().unwrap_or_default().to_owned(), answer["gateway"].clone())
}

#[tokio::test]
async fn log_probabilities_are_kept_and_joined() {
    let world = with_cache("").await;
    let chunk = |text: &str, at: u64, finish: Value| {
        json!({ "object": "text_completion", "model": "m", "choices": [{ "index": 0, "text": text, "finish_reason": finish,
            "logprobs": { "tokens": [text], "token_logprobs": [-0.5], "top_logprobs": [{ text: -0.5 }], "text_offset": [at] } }] })
    };
    world
        .upstream
        .enqueue(Answer::sse().all(&[chunk("a", 0, Value::Null), chunk("b", 1, json!("stop"))]).done());
    let body = text(json!({ "logprobs": 1 }));
    let frames = world.client.stream(PATH, &with(body.clone(), json!({ "stream": true }))).await.rest().await;
    assert_eq!(text_of(&frames, 0), "ab");
    let joined = json!({ "tokens": ["a", "b"], "token_logprobs": [-0.5, -0.5],
                         "top_logprobs": [{ "a": -0.5 }, { "b": -0.5 }], "text_offset": [0, 1] });
    let plain = ask(&world.client, &body).await.ok();
    assert_eq!((cache_result(&plain), &plain.json()["choices"][0]["logprobs"]), ("HIT", &joined));
    let frames = world.client.stream(PATH, &with(body, json!({ "stream": true }))).await.rest().await;
    assert_eq!(chunks(&frames)[0]["choices"][0]["logprobs"], joined);
    assert_eq!(world.upstream.hits(), 1);
    // An answer that cannot be joined is not stored, so no client gets fewer choices than it asked for.
    let odd = |text: &str, finish: Value| json!({ "model": "m", "choices": [{ "index": 0, "text": text, "logprobs": { "tokens": text }, "finish_reason": finish }] });
    world.upstream.enqueue(Answer::sse().all(&[odd("a", Value::Null), odd("b", json!("stop"))]).done());
    let body = text(json!({ "logprobs": 2 }));
    world.client.stream(PATH, &with(body.clone(), json!({ "stream": true }))).await.rest().await;
    assert_eq!(cache_result(&ask(&world.client, &body).await.ok()), "MISS");
}

#[tokio::test]
async fn t02_only_complete_completions_of_what_was_asked_for_are_kept() {
    let world = with_cache("retries = 0").await;
    let chunk = json!({ "model": "m", "choices": [{ "index": 0, "text": "half", "finish_reason": null }] });
    world.upstream.enqueue(Answer::sse().data(&chunk).reset());
    let frames = world.client.stream(PATH, &text(json!({ "stream": true }))).await.rest().await;
    crate::harness::answers::assert_broken_off(&frames, "upstream_stream_error");
    world.upstream.enqueue(Answer::error(500, "x", "down"));
    let failed = ask(&world.client, &text(json!({}))).await;
    assert_error("failed", &failed, 502, "upstream_error", "upstream_error");
    world.upstream.enqueue(Answer::json(200, &completion_body(&[("I must not", "content_filter")])));
    assert_eq!(cache_result(&ask(&world.client, &text(json!({}))).await.ok()), "MISS");
    world
        .upstream
        .enqueue(Answer::json(200, &completion_body(&[("one", "stop"), ("two", "content_filter")])));
    assert_eq!(cache_result(&ask(&world.client, &text(json!({ "n": 2 }))).await.ok()), "MISS");
    world.upstream.enqueue(Answer::error(500, "x", "down"));
    let answer = ask(&world.client, &text(json!({ "routing": { "fallback": ["beta/fast"] } }))).await.ok();
    assert_eq!((cache_result(&answer), &answer.json()["gateway"]["fallback_used"]), ("MISS", &json!(true)));
    world.upstream.enqueue(Answer::json(200, &completion_body(&[("cut at its limit", "length")])));
    assert_eq!(cache_result(&ask(&world.client, &text(json!({}))).await.ok()), "MISS");
    let kept = ask(&world.client, &text(json!({}))).await.ok();
    assert_eq!(
        (cache_result(&kept), &kept.json()["choices"][0]["text"]),
        ("HIT", &json!("cut at its limit"))
    );
    assert_eq!(world.upstream.hits(), 6);
}

#[tokio::test]
async fn cache_control_is_heard() {
    let world = with_cache("").await;
    ask(&world.client, &text(json!({}))).await.ok();
    for (header, expected) in
        [("no-cache", "MISS"), ("max-age=3600", "HIT"), ("max-age=0", "MISS"), ("no-store", "BYPASS")]
    {
        let client = world.client.with_header("cache-control", header);
        assert_eq!(cache_result(&ask(&client, &text(json!({}))).await.ok()), expected, "{header}");
    }
    let (nothing, body) =
        (world.client.with_header("cache-control", "no-store"), text(json!({ "prompt": "x" })));
    assert_eq!(cache_result(&ask(&nothing, &body).await.ok()), "BYPASS");
    assert_eq!(cache_result(&ask(&world.client, &body).await.ok()), "MISS", "the cache stored nothing");
}

#[tokio::test]
async fn equal_completions_under_way_share_one_call() {
    let world = with_cache("").await;
    let go_on = Signal::new();
    let chunk = |text: &str, finish: Value| json!({ "model": "m", "choices": [{ "index": 0, "text": text, "finish_reason": finish }] });
    world.upstream.enqueue(
        Answer::sse()
            .data(&chunk("Once", Value::Null))
            .wait(&go_on)
            .data(&chunk(" more", json!("stop")))
            .done(),
    );
    let streamed = text(json!({ "stream": true }));
    let mut leader = world.client.stream(PATH, &streamed).await;
    leader.frame().await;
    let mut other = world.client.stream(PATH, &streamed).await;
    assert_eq!(other.head.header("x-gateway-cache"), Some("COALESCED"));
    assert!(other.frame().await.is_some_and(|frame| frame.contains("Once")), "it follows at once");
    let client = world.client.clone();
    let plain = tokio::spawn(async move { ask(&client, &text(json!({}))).await.ok() });
    let admin = world.client.with_key(ADMIN);
    eventually_true("all are under way", async || {
        admin.get("/metrics").await.text().lines().any(|line| line == "gateway_http_in_flight 3")
    })
    .await;
    go_on.fire();
    assert_eq!(text_of(&leader.rest().await, 0), " more");
    let frames = other.rest().await;
    let last = chunks(&frames).last().cloned().unwrap();
    assert_eq!((text_of(&frames, 0).as_str(), &last["gateway"]["cache_hit"]), (" more", &json!(true)));
    let plain = plain.await.expect("an answer");
    assert_eq!(
        (cache_result(&plain), &plain.json()["choices"][0]["text"]),
        ("COALESCED", &json!("Once more"))
    );
    assert_eq!(world.upstream.hits(), 1);
}
