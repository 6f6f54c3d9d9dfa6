//! The record of a request on every surface: a line for each unit that was charged, and together they are the ledger's cost.

use gw_testkit::upstream::chat_body;
use gw_testkit::{Answer, FakeUpstream, PIXEL, Response};
use serde_json::{Value, json};

use crate::harness::forms::{FORM, recording};
use crate::harness::{ADMIN, Setup, World, chat, chat_with, logged, with};

const JSON: &str = "application/json";

/// A gateway with a model for every kind of price.
async fn start() -> (World, FakeUpstream) {
    let claude = FakeUpstream::start().await;
    let model = |id: &str, category: &str, pricing: &str| {
        format!("[[models]]\nid = \"{id}\"\ncategory = [\"{category}\"]\npricing = {{ {pricing} }}\n")
    };
    let every_token = "official_input_per_m = 1.0, official_output_per_m = 2.0, cached_input_per_m = 0.5, \
                       official_audio_input_per_m = 10.0, official_audio_output_per_m = 20.0, \
                       official_image_input_per_m = 3.0, official_image_output_per_m = 30.0";
    let tiers = "official_input_per_m = 1.0, official_output_per_m = 2.0, \
                 tiers = [{ above_input_tokens = 100, official_input_per_m = 4.0, official_output_per_m = 8.0 }]";
    let tools =
        "official_input_per_m = 1.0, official_output_per_m = 2.0, tools = { web_search_per_call = 0.01 }";
    let images = "[{ size = \"1024x1024\", quality = \"high\", official_per_image = 0.167 }]";
    let extra = [
        model("acme/sound", "chat", every_token),
        model("acme/tiers", "chat", tiers),
        model(
            "acme/paged",
            "chat",
            "official_input_per_m = 1.0, official_output_per_m = 2.0, official_per_query = 0.25",
        ),
        model("acme/fee", "moderation", "official_per_query = 0.0015"),
        model("acme/draw", "image", &format!("images = {images}, official_input_per_m = 5.0")),
        model("acme/dots", "image", "official_per_pixel = 1.9e-8"),
        model(
            "acme/hear-tokens",
            "transcription",
            "official_input_per_m = 2.5, official_output_per_m = 10.0, official_audio_input_per_m = 6.0",
        ),
        model("claude/opus", "chat", tools),
        format!(
            "[[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n",
            claude.addr
        ),
        "[[passthrough]]\npath = \"/pass\"\nprovider = \"acme\"\nusage = \"openai\"\n\
         pricing = { official_input_per_m = 100.0, official_output_per_m = 200.0 }\n\
         [[passthrough]]\npath = \"/flat\"\nprovider = \"acme\"\ncost_per_request = 0.0125\n"
            .to_owned(),
    ];
    let acme = "responses = false\nembedding_batch = 2".to_owned();
    (Setup { extra: extra.concat(), acme, routing: "retries = 0", ..Setup::default() }.start().await, claude)
}

/// The lines of a record: the unit, the count, the price of one (of a million tokens) and the cost. The cost of other calls is the last one.
fn lines(row: &Value) -> Value {
    let members = |name: &str, wanted: [&str; 4]| {
        let lines = row["cost"][name].as_array().cloned().unwrap_or_default();
        lines.into_iter().map(move |line| json!(wanted.map(|name| line[name].clone()))).collect::<Vec<_>>()
    };
    let mut all = members("lines", ["kind", "tokens", "usd_per_million", "cost_usd"]);
    all.extend(members("units", ["unit", "count", "usd_per_unit", "cost_usd"]));
    let other = &row["cost"]["other_attempts_usd"];
    all.extend((*other != json!(0)).then(|| json!(["other", other])));
    Value::Array(all)
}

/// Checks the record of an answer. `logged` checks that the lines add up to the row.
async fn assert_lines(world: &World, label: &str, answer: &Response, expected: Value) {
    let admin = world.gateway.client().with_key(ADMIN);
    let row = logged(&admin, answer.header("x-request-id").expect("an id")).await;
    assert_eq!(lines(&row), expected, "{label}: {row}");
}

/// A chat completion with this usage.
fn told(usage: &Value) -> Answer {
    Answer::json(200, &with(chat_body("m", "hi"), json!({ "usage": usage })))
}

#[tokio::test]
async fn tokens_of_every_kind_have_a_line_on_the_surfaces_of_chats() {
    let (world, claude) = start().await;
    let usage = || {
        json!({"prompt_tokens": 100, "completion_tokens": 60, "total_tokens": 160,
            "prompt_tokens_details": {"cached_tokens": 20, "audio_tokens": 30},
            "completion_tokens_details": {"audio_tokens": 40, "image_tokens": 5}})
    };
    let of_sound = || {
        json!([
            ["prompt", 50, 1, 0.00005],
            ["cached", 20, 0.5, 0.00001],
            ["audio_prompt", 30, 10, 0.0003],
            ["completion", 15, 2, 0.00003],
            ["audio_completion", 40, 20, 0.0008],
            ["image_completion", 5, 30, 0.00015]
        ])
    };
    let gemini = json!({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]});
    for (path, body) in [
        ("/v1/chat/completions", chat("acme/sound")),
        ("/v1/responses", json!({"model": "acme/sound", "input": "Hello"})),
        ("/v1/messages", with(chat("acme/sound"), json!({"max_tokens": 64}))),
        ("/v1beta/models/acme%2Fsound:generateContent", gemini),
    ] {
        world.upstream.enqueue(told(&usage()));
        let answer = world.client.post_json(path, &body).await.ok();
        assert_lines(&world, path, &answer, of_sound()).await;
    }
    let plain = json!([["prompt", 10, 0.15, 0.0000015], ["completion", 5, 0.6, 0.000003]]);
    for (path, body) in [
        ("/v1/chat/completions", chat("acme/fast")),
        ("/v1/completions", json!({"model": "acme/fast", "prompt": "Hello"})),
    ] {
        let answer = world.client.post_json(path, &body).await.ok();
        assert_lines(&world, path, &answer, plain.clone()).await;
    }
    let searched = json!({"id": "msg_up", "type": "message", "role": "assistant", "model": "opus",
        "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "stop_sequence": null,
        "usage": {"input_tokens": 1000, "output_tokens": 500, "server_tool_use": {"web_search_requests": 3}}});
    claude.enqueue(Answer::json(200, &searched));
    let tools = json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]);
    let body = with(chat("claude/opus"), json!({"max_tokens": 64, "tools": tools}));
    let answer = world.client.post_json("/v1/messages", &body).await.ok();
    let expected = json!([
        ["prompt", 1000, 1, 0.001],
        ["completion", 500, 2, 0.001],
        ["web_search_per_call", 3, 0.01, 0.03]
    ]);
    assert_lines(&world, "a hosted tool", &answer, expected).await;
}

/// A request: its path, its media type and body, the upstream's answer if it is not the usual one, and the lines.
type Case = (&'static str, (&'static str, Vec<u8>), Option<Value>, Value);

fn json(value: &Value) -> (&'static str, Vec<u8>) {
    (JSON, value.to_string().into_bytes())
}

fn cases_of_texts_and_images() -> Vec<Case> {
    let image = |quality: &str| {
        json!({"created": 1, "data": [{"b64_json": PIXEL}, {"b64_json": PIXEL}], "size": "1024x1024", "quality": quality,
            "usage": {"input_tokens": 50, "output_tokens": 0, "total_tokens": 50}})
    };
    let edited = json!({"created": 1, "data": [{"b64_json": PIXEL}],
        "usage": {"input_tokens": 1050, "output_tokens": 528, "total_tokens": 1578,
            "input_tokens_details": {"text_tokens": 50, "image_tokens": 1000}}});
    let paint = |model: &str| json(&json!({"model": model, "prompt": "a cat", "n": 2}));
    vec![
        (
            "/v1/embeddings",
            json(&json!({"model": "acme/embed", "input": "a"})),
            None,
            json!([["prompt", 8, 0.02, 0.00000016]]),
        ),
        (
            "/v1/rerank",
            json(&json!({"model": "acme/rerank", "query": "q", "documents": vec!["a"; 101]})),
            None,
            json!([["search_unit", 2, 0.002, 0.004]]),
        ),
        (
            "/v1/moderations",
            json(&json!({"model": "acme/fee", "input": "x"})),
            None,
            json!([["query", 1, 0.0015, 0.0015]]),
        ),
        (
            "/v1/images/generations",
            json(&json!({"model": "acme/paint", "prompt": "a cat"})),
            None,
            json!([["prompt", 10, 5, 0.00005], ["image_completion", 272, 40, 0.01088]]),
        ),
        (
            "/v1/images/generations",
            json(&json!({"model": "acme/paint", "prompt": "a cat"})),
            Some(edited),
            json!([
                ["prompt", 50, 5, 0.00025],
                ["image_prompt", 1000, 10, 0.01],
                ["image_completion", 528, 40, 0.02112]
            ]),
        ),
        (
            "/v1/images/generations",
            paint("acme/draw"),
            Some(image("high")),
            json!([["prompt", 50, 5, 0.00025], ["image", 2, 0.167, 0.334]]),
        ),
        (
            "/v1/images/generations",
            paint("acme/dots"),
            Some(image("low")),
            json!([["pixel", 2_097_152, 1.9e-8, 0.039_845_888]]),
        ),
    ]
}

fn cases_of_sounds_and_routes() -> Vec<Case> {
    let heard = json!({"text": "Hi", "usage": {"type": "tokens", "input_tokens": 24, "output_tokens": 6, "total_tokens": 30,
        "input_token_details": {"text_tokens": 10, "audio_tokens": 14}}});
    vec![
        (
            "/v1/audio/speech",
            json(&json!({"model": "acme/speak", "input": "Grüße dich", "voice": "alloy"})),
            None,
            json!([["character", 10, 0.000_015, 0.00015]]),
        ),
        (
            "/v1/audio/transcriptions",
            (FORM, recording(&[("model", "acme/hear")])),
            None,
            json!([["second", 2.5, 0.0001, 0.00025]]),
        ),
        (
            "/v1/audio/translations",
            (FORM, recording(&[("model", "acme/hear")])),
            None,
            json!([["second", 2.5, 0.0001, 0.00025]]),
        ),
        (
            "/v1/audio/transcriptions",
            (FORM, recording(&[("model", "acme/hear-tokens")])),
            Some(heard),
            json!([
                ["prompt", 10, 2.5, 0.000_025],
                ["audio_prompt", 14, 6, 0.000_084],
                ["completion", 6, 10, 0.00006]
            ]),
        ),
        (
            "/pass/chat/completions",
            json(&chat("any")),
            Some(chat_body("any", "hi")),
            json!([["prompt", 10, 100, 0.001], ["completion", 5, 200, 0.001]]),
        ),
        ("/flat/x", json(&json!({})), Some(json!({"ok": true})), json!([["query", 1, 0.0125, 0.0125]])),
        (
            "/v1/chat/completions",
            json(&chat("acme/paged")),
            None,
            json!([["prompt", 10, 1, 0.00001], ["completion", 5, 2, 0.00001], ["query", 1, 0.25, 0.25]]),
        ),
    ]
}

#[tokio::test]
async fn units_other_than_tokens_have_a_line_on_their_surfaces() {
    let (world, _claude) = start().await;
    for (path, (media, body), upstream, expected) in
        cases_of_texts_and_images().into_iter().chain(cases_of_sounds_and_routes())
    {
        upstream.into_iter().for_each(|body| world.upstream.enqueue(Answer::json(200, &body)));
        let answer = world.client.send("POST", path, Some(media), Some(&body)).await.ok();
        assert_lines(&world, &format!("{path} {expected}"), &answer, expected).await;
    }
}

#[tokio::test]
async fn several_calls_have_lines_of_their_own_tiers_and_failed_ones_a_sum() {
    let (world, _claude) = start().await;
    // Two batches of the same price are one line.
    let body = json!({"model": "acme/embed", "input": ["a", "b", "c"]});
    let answer = world.client.post_json("/v1/embeddings", &body).await.ok();
    assert_lines(&world, "batches", &answer, json!([["prompt", 16, 0.02, 0.00000032]])).await;
    // An unreadable answer costs its prompt.
    world.upstream.enqueue(Answer::full(200, &[("content-type", JSON)], "{"));
    let body = chat_with("acme/sound", json!({"routing": {"fallback": ["acme/tiers"]}}));
    world.upstream.enqueue(told(&json!({"prompt_tokens": 101, "completion_tokens": 5, "total_tokens": 106})));
    let answer = world.client.post_json("/v1/chat/completions", &body).await.ok();
    let expected = json!([["prompt", 101, 4, 0.000_404], ["completion", 5, 8, 0.00004], ["other", 0.00001]]);
    assert_lines(&world, "a failed call", &answer, expected).await;
    // A refusal is free.
    world.upstream.enqueue(Answer::error(500, "x", "down"));
    let answer = world.client.post_json("/v1/chat/completions", &chat("acme/paged")).await;
    assert_eq!(answer.status, 502);
    assert_lines(&world, "a refusal", &answer, json!([])).await;
}
