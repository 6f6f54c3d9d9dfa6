//! Costs that no answer of a pass-through route tells, and counts that cannot be true.

use gw_testkit::Answer;
use serde_json::{Value, json};

use super::{row, world_with};
use crate::harness::assert_error;

/// Models of which an answer in OpenAI's shape tells no cost, and `asked`, whose only price is a fee.
const MODELS: [(&str, &str); 5] = [
    (
        "img",
        "official_input_per_m = 5.0, official_output_per_m = 0.0, official_per_image = 0.04, \
         images = [{ size = \"1024x1024\", official_per_image = 0.05 }]",
    ),
    ("pixels", "official_input_per_m = 1.0, official_per_pixel = 0.00000002"),
    ("rank", "official_per_search_unit = 0.002"),
    ("voice", "official_per_character = 0.000015"),
    ("asked", "official_per_query = 0.0051"),
];

#[tokio::test]
async fn a_price_that_no_answer_tells_is_unknown_and_a_fee_alone_is_charged() {
    let models = MODELS
        .map(|(name, prices)| format!("[[models]]\nid = \"acme/{name}\"\npricing = {{ {prices} }}\n"))
        .concat();
    let key =
        "[[keys]]\nname = \"careful\"\nkey = \"sk-test-careful\"\nbudget_usd = 1.0\nunpriced = \"refuse\"\n";
    let world = world_with(&format!("{models}{key}")).await;
    let answer = json!({"data": [{"url": "https://x"}]});
    world.upstream.always(Answer::json(200, &answer));
    let careful = world.gateway.client().with_key("sk-test-careful");
    for name in ["img", "pixels", "rank", "voice"] {
        let body = json!({"model": name, "prompt": "x"});
        let refused = careful.post_json("/acme/any", &body).await;
        assert_error(name, &refused, 429, "insufficient_quota", "insufficient_quota");
        assert!(refused.message().contains(name), "{}", refused.text());
        assert_eq!(world.upstream.hits(), 0, "{name}: nothing is sent");
    }
    // A route with a cost of its own has a known cost.
    let drawn = world.client.post_json("/fee/read/any", &json!({"model": "img"})).await.ok();
    assert_eq!(row(&world, &drawn).await["cost_usd"], json!(0.5));
    let asked = careful.post_json("/acme/rerank", &json!({"model": "asked"})).await.ok();
    assert_eq!(asked.header("x-gateway-budget-left-usd"), Some("0.9949"));
    let fee = row(&world, &asked).await;
    assert_eq!((&fee["cost_usd"], &fee["unpriced"]), (&json!(0.0051), &Value::Null), "{fee}");
    let before_the_routes = world.client.post_json("/fee/read/any", &json!({"model": "asked"})).await.ok();
    assert_eq!(row(&world, &before_the_routes).await["cost_usd"], json!(0.0051));
    // A look at the model is no request to it.
    let looked = world.client.get("/acme/models/asked").await.ok();
    let looked = row(&world, &looked).await;
    assert_eq!((&looked["cost_usd"], &looked["unpriced"]), (&Value::Null, &json!(true)), "{looked}");
}

#[tokio::test]
async fn tokens_that_no_model_can_have_are_those_of_one_call_of_the_model() {
    let world = world_with("").await;
    // The longest answer of the model has 16,384 tokens: 9,830.4 millionths of a USD. The body of 24 bytes has eight tokens.
    for (prompt, completion, read, cost) in [
        (json!(100), 3_000_000_000_u64, 100, 0.009_845_4),
        (json!(-4), 10_000_000_000_000_000_000, 8, 0.009_831_6),
    ] {
        let usage = json!({"prompt_tokens": prompt, "completion_tokens": completion});
        world.upstream.enqueue(Answer::json(200, &json!({"choices": [], "usage": usage})));
        let asked = json!({"model": "fast-2026-01"});
        let answer = world.client.post_json("/acme/chat/completions", &asked).await.ok();
        let row = row(&world, &answer).await;
        let tokens = (&row["prompt_tokens"], &row["completion_tokens"]);
        assert_eq!(tokens, (&json!(read), &json!(16_384)), "{row}");
        assert_eq!((&row["cost_usd"], &row["estimated"]), (&json!(cost), &json!(true)), "{row}");
    }
}

#[tokio::test]
async fn pages_and_seconds_are_believed_as_far_as_a_request_can_have_them() {
    let routes = "[[passthrough]]\npath = \"/read\"\nprovider = \"acme\"\nusage = \"openai\"\n\
        pricing = { official_per_page = 0.001 }\n\
        [[passthrough]]\npath = \"/by-second\"\nprovider = \"acme\"\nusage = \"openai\"\n\
        pricing = { official_per_second = 0.0001 }\n";
    let world = world_with(routes).await;
    let pages = |count: u64| json!({"pages": [], "usage_info": {"pages_processed": count}});
    let seconds = |count: u64| json!({"text": "x", "usage": {"type": "duration", "seconds": count}});
    for (path, answer, units, cost) in [
        ("/read/ocr", pages(900_000), json!({"page": 900_000}), 900.0),
        ("/read/ocr", pages(2_000_000), json!({"page": 1_000}), 1.0),
        ("/read/ocr", pages(1_000_000_000_000_000_000), json!({"page": 1_000}), 1.0),
        // The body may name a recording of a day. It has fewer than a thousand bytes itself, which are a second.
        ("/by-second/transcripts", seconds(7_200), json!({"second": 7_200}), 0.72),
        ("/by-second/transcripts", seconds(4_000_000), json!({"second": 1}), 0.000_1),
    ] {
        world.upstream.enqueue(Answer::json(200, &answer));
        let told = world.client.post_json(path, &json!({"model": "any"})).await.ok();
        let row = row(&world, &told).await;
        assert_eq!((&row["units"], row["cost_usd"].as_f64()), (&units, Some(cost)), "{answer}: {row}");
        if answer.to_string().contains("000000") {
            assert_eq!(row["estimated"], json!(true), "{answer}: {row}");
        }
    }
}
