//! Other statuses of success than 200: those with an answer are answers, and those without one are unreadable answers.

use gw_testkit::{Answer, Client, Response};
use serde_json::{Value, json};

use super::fold::{Content, SURFACES};
use crate::harness::answers::{attempts, pairs};
use crate::harness::dialects::WORDS;
use crate::harness::forms::{FORM, recording};
use crate::harness::providers::{config_of_all, targets};
use crate::harness::{ADMIN, KEY, Setup, World, assert_error, logged, serve, with};

/// The statuses of an answer.
const ANSWERS: [u16; 4] = [201, 202, 203, 299];
/// The statuses without an answer, or with a part of one.
const EMPTY: [u16; 3] = [204, 205, 206];
const INVALID: &str = "upstream_invalid_response";

/// An answer with a status that promises none.
fn empty(status: u16, usual: Answer) -> Answer {
    if status == 206 { usual.with_status(status) } else { Answer::full(status, &[], "") }
}

fn unreadable() -> Answer {
    Answer::full(200, &[("content-type", "application/json")], "{")
}

#[tokio::test]
async fn a_created_or_accepted_answer_is_an_answer_in_every_dialect_on_every_surface() {
    let (config, upstreams) = config_of_all("").await;
    let gateway = serve(&config.replace("api = \"openai\"\n", "api = \"openai\"\nresponses = false\n")).await;
    let client = gateway.client().with_key(KEY);
    let words = || Content { text: WORDS.to_owned(), end: "words", usage: (100, 20), ..Content::default() };
    for ((name, model), upstream) in targets().zip(&upstreams) {
        for surface in SURFACES {
            let plain = surface.question(&model, false);
            let streamed = with(plain.clone(), json!({"stream": true}));
            for status in ANSWERS {
                let label = format!("{name} {surface:?} {status}");
                client.post_json(surface.path(), &plain).await.ok();
                upstream.enqueue(upstream.usual_answer(&upstream.last()).with_status(status));
                let answer = client.post_json(surface.path(), &plain).await.ok();
                assert_eq!(surface.plain(&answer.json()), words(), "{label}: {}", answer.text());
                client.stream(surface.path(), &streamed).await.rest().await;
                upstream.enqueue(upstream.usual_answer(&upstream.last()).with_status(status));
                let frames = client.stream(surface.path(), &streamed).await.rest().await;
                assert_eq!(surface.folded(&frames), words(), "{label}: {frames:?}");
            }
        }
    }
}

#[tokio::test]
async fn an_empty_answer_costs_its_prompt_and_the_next_target_serves_in_every_dialect() {
    let (config, upstreams) = config_of_all("").await;
    let gateway = serve(&format!("{config}[routing.breaker]\nfailures = 1000\n")).await;
    let client = gateway.client().with_key(KEY);
    let models: Vec<String> = targets().map(|(_, model)| model).collect();
    for (place, ((name, model), upstream)) in targets().zip(&upstreams).enumerate() {
        let next = &models[(place + 1) % models.len()];
        let body = json!({"model": model, "messages": [{"role": "user", "content": "Hello"}],
            "routing": {"fallback": [next]}});
        client.post_json("/v1/chat/completions", &body).await.ok();
        let usual = upstream.usual_answer(&upstream.last());
        let failed = async |answer: Answer, stream: bool| {
            upstream.enqueue(answer);
            let body = with(body.clone(), json!({"stream": stream}));
            let answer = client.post_json("/v1/chat/completions", &body).await.ok();
            let text = answer.text();
            let last = text.lines().rev().find_map(|line| line.strip_prefix("data: {"));
            let last = last.map_or_else(|| text.clone(), |last| format!("{{{last}"));
            let told: Value = serde_json::from_str(&last).expect("JSON");
            assert_eq!(attempts(&told), pairs(&[(model.as_str(), INVALID), (next.as_str(), "ok")]), "{name}");
            told["gateway"]["attempts"][0]["cost_usd"].as_f64().expect("a cost")
        };
        for stream in [false, true] {
            let prompt = failed(unreadable(), stream).await;
            assert!(prompt > 0.0, "{name}");
            for status in EMPTY {
                let cost = failed(empty(status, usual.clone()), stream).await;
                assert!((cost - prompt).abs() < 1e-15, "{name} {status} {stream}: {cost} {prompt}");
            }
        }
    }
}

/// A request to each of the other surfaces: the media type and the body.
fn others() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    const JSON: &str = "application/json";
    let json = |value: Value| value.to_string().into_bytes();
    vec![
        ("/v1/completions", JSON, json(json!({"model": "acme/fast", "prompt": "Hello", "max_tokens": 9}))),
        ("/v1/embeddings", JSON, json(json!({"model": "acme/embed", "input": ["a", "b"]}))),
        ("/v1/rerank", JSON, json(json!({"model": "acme/rerank", "query": "q", "documents": ["a", "b"]}))),
        ("/v1/moderations", JSON, json(json!({"model": "acme/moderation", "input": "x"}))),
        ("/v1/images/generations", JSON, json(json!({"model": "acme/paint", "prompt": "a cat"}))),
        ("/v1/audio/speech", JSON, json(json!({"model": "acme/speak", "input": "Hello", "voice": "alloy"}))),
        ("/v1/audio/transcriptions", FORM, recording(&[("model", "acme/hear")])),
        ("/v1/audio/translations", FORM, recording(&[("model", "acme/hear")])),
    ]
}

async fn failed_cost(world: &World, admin: &Client, (path, media, body): (&str, &str, &[u8])) -> Value {
    let answer = world.client.send("POST", path, Some(media), Some(body)).await;
    assert_error(path, &answer, 502, "upstream_error", INVALID);
    row_of(admin, &answer).await["cost_usd"].clone()
}

async fn row_of(admin: &Client, answer: &Response) -> Value {
    logged(admin, answer.header("x-request-id").expect("an id")).await
}

#[tokio::test]
async fn the_other_surfaces_read_every_answer_and_charge_an_empty_one() {
    let routing = "retries = 0";
    let extra = "[routing.breaker]\nfailures = 1000\n".to_owned();
    let world = Setup { routing, extra, ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    for (path, media, body) in others() {
        let first = world.client.send("POST", path, Some(media), Some(&body)).await.ok();
        let cost = row_of(&admin, &first).await["cost_usd"].clone();
        let usual = world.upstream.usual_answer(&world.upstream.last());
        for status in ANSWERS {
            world.upstream.enqueue(usual.clone().with_status(status));
            let answer = world.client.send("POST", path, Some(media), Some(&body)).await.ok();
            assert_eq!(row_of(&admin, &answer).await["cost_usd"], cost, "{path} {status}");
        }
        // Any bytes are a sound.
        let prompt = if path.ends_with("/speech") {
            cost
        } else {
            world.upstream.enqueue(unreadable());
            failed_cost(&world, &admin, (path, media, &body)).await
        };
        assert!(prompt.as_f64() > Some(0.0), "{path}: {prompt}");
        for status in EMPTY {
            world.upstream.enqueue(empty(status, usual.clone()));
            let charged = failed_cost(&world, &admin, (path, media, &body)).await;
            assert_eq!(charged, prompt, "{path} {status}");
        }
    }
}

#[tokio::test]
async fn a_passthrough_route_keeps_every_status_of_success() {
    let extra = "[[passthrough]]\npath = \"/pass\"\nprovider = \"acme\"\ncost_per_request = 0.5\n".to_owned();
    let world = Setup { extra, ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    for status in ANSWERS.into_iter().chain(EMPTY) {
        let told = Answer::json(status, &json!({"ok": true}));
        world.upstream.enqueue(if EMPTY.contains(&status) { empty(status, told) } else { told });
        let answer = world.client.post_json("/pass/x", &json!({})).await;
        assert_eq!(answer.status, status);
        let row = row_of(&admin, &answer).await;
        assert_eq!((&row["status"], &row["cost_usd"]), (&json!("ok"), &json!(0.5)), "{status}: {row}");
    }
}
