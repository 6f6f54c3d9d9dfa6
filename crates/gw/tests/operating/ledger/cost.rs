//! Costs: exact decimals, cached and tiered prices, multipliers, and a warning instead of a silent zero.

use gw_testkit::Answer;
use gw_testkit::upstream::{chat_body, chat_transcript};
use serde_json::{Value, json};

use crate::harness::{Setup, World, chat, chat_with, world};

/// The text of `cost_usd` when the upstream reports this usage.
async fn cost(world: &World, model: &str, usage: Value) -> String {
    let mut body = chat_body("m", "x");
    body["usage"] = usage;
    world.upstream.enqueue(Answer::json(200, &body));
    let answer = world.chat(&chat(model)).await.ok().text();
    let (_, rest) = answer.split_once("\"cost_usd\":").expect("the answer has cost_usd");
    rest.chars().take_while(|c| !",}".contains(*c)).collect()
}

fn tokens(prompt: u64, completion: u64, cached: u64) -> Value {
    json!({ "prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion,
            "prompt_tokens_details": { "cached_tokens": cached } })
}

#[track_caller]
fn assert_decimal(written: &str, expected: &str) {
    assert_eq!(written.parse::<f64>(), expected.parse::<f64>(), "{written} is not {expected}");
    assert!(written.len() <= expected.len() + 4, "no binary noise: {written}");
}

#[tokio::test]
async fn cost_is_exact_to_the_last_digit() {
    let world = world().await;
    // 0.15 and 0.60 per million: (10 × 0.15 + 5 × 0.60) / 10^6.
    assert_decimal(&cost(&world, "acme/fast", tokens(10, 5, 0)).await, "0.0000045");
    assert_decimal(&cost(&world, "acme/fast", tokens(1, 1, 0)).await, "0.00000075");
    assert_decimal(&cost(&world, "acme/fast", tokens(33_333, 7_777, 0)).await, "0.00966615");
}

#[tokio::test]
async fn cached_tokens_have_their_own_price() {
    let world = world().await;
    // (100 - 64) × 0.15 + 64 × 0.075 + 20 × 0.60 = 5.4 + 4.8 + 12.
    assert_decimal(&cost(&world, "acme/fast", tokens(100, 20, 64)).await, "0.0000222");
    // A model without a cached price pays the input price: 100 × 1 + 20 × 2.
    assert_decimal(&cost(&world, "acme/plain", tokens(100, 20, 64)).await, "0.00014");
}

#[tokio::test]
async fn a_multiplier_and_tiers_apply() {
    let extra = r#"
[[models]]
id = "acme/tiered"
category = ["chat"]
pricing = { official_input_per_m = 2.0, official_output_per_m = 10.0, tiers = [{ above_input_tokens = 1000, official_input_per_m = 4.0, official_output_per_m = 15.0 }], currency = "USD" }

[[models]]
id = "acme/set"
category = ["chat"]
pricing = { official_input_per_m = 2.0, official_output_per_m = 10.0, gateway_input_per_m = 7.0, gateway_output_per_m = 9.0, currency = "USD" }
"#;
    let world =
        Setup { acme: "price_multiplier = 1.1".to_owned(), extra: extra.to_owned(), ..Setup::default() }
            .start()
            .await;
    assert_decimal(&cost(&world, "acme/tiered", tokens(1000, 100, 0)).await, "0.0033");
    assert_decimal(&cost(&world, "acme/tiered", tokens(1001, 100, 0)).await, "0.0060544");
    assert_decimal(&cost(&world, "acme/set", tokens(1000, 100, 0)).await, "0.0079");
    let model = world.client.get("/v1/models/acme/fast").await.ok().json();
    assert_eq!(model["pricing"]["official_input_per_m"].as_f64(), Some(0.15));
    assert_eq!(model["pricing"]["gateway_input_per_m"].as_f64(), Some(0.165));
    assert_eq!(model["pricing"]["cached_input_per_m"].as_f64(), Some(0.0825));
}

#[tokio::test]
async fn a_missing_price_is_zero_and_says_so() {
    let world = world().await;
    let body = world.chat_ok(&chat("acme/unpriced")).await;
    assert_eq!(body["usage"]["cost_usd"].as_f64(), Some(0.0));
    assert_eq!(body["gateway"]["warnings"], json!(["price_unknown"]));
    let priced = world.chat_ok(&chat("acme/fast")).await;
    let warnings = priced["gateway"]["warnings"].as_array().cloned().unwrap_or_default();
    assert!(warnings.is_empty(), "{warnings:?}");
}

#[tokio::test]
async fn a_streamed_answer_costs_the_same() {
    let world = world().await;
    world.upstream.enqueue(Answer::sse().all(&chat_transcript(&["x"])).done());
    let body = chat_with("acme/fast", json!({ "stream": true, "stream_options": { "include_usage": true } }));
    let frames = world.client.stream("/v1/chat/completions", &body).await.rest().await;
    let last = gw_testkit::sse::chunks(&frames).pop().expect("chunks");
    assert_eq!(last["usage"]["cost_usd"].as_f64(), Some(0.000_004_5));
}

#[tokio::test]
async fn only_the_attempt_that_served_is_charged() {
    let world = world().await;
    world.upstream.enqueue(Answer::error(500, "x", "boom"));
    let body = world.chat_ok(&chat("acme/fast")).await;
    assert_eq!(body["usage"]["cost_usd"].as_f64(), Some(0.000_004_5));
}
