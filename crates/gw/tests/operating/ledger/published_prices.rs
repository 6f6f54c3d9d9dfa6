//! The prices that vendors publish × counts = the ledger's cost to the last digit, one test for each modality. Each price has the page
//! that states it. OpenAI's pages were read on 2026-11-29. Prices of the shipped catalogue name their source and date there.

use gw_testkit::upstream::chat_body;
use gw_testkit::{Answer, FakeUpstream, PIXEL, Response};
use serde_json::{Value, json};

use crate::harness::forms::{FORM, form, wav};
use crate::harness::{ADMIN, Setup, World, chat, logged, with};

/// A gateway with the vendors, all at one upstream. The models of `openai/…` here have the prices of their own pages.
async fn start() -> (World, FakeUpstream) {
    let upstream = FakeUpstream::start().await;
    let provider = |name: &str, api: &str, base: &str| {
        format!(
            "[[providers]]\nname = \"{name}\"\napi = \"{api}\"\nbase_url = \"{base}\"\napi_key = \"sk-upstream-key-000\"\n"
        )
    };
    let model = |id: &str, category: &str, pricing: &str| {
        format!("[[models]]\nid = \"{id}\"\ncategory = [\"{category}\"]\npricing = {{ {pricing} }}\n")
    };
    let root = format!("http://{}", upstream.addr);
    let images: Vec<String> = IMAGES
        .iter()
        .map(|(size, quality, price)| {
            format!("{{ size = \"{size}\", quality = \"{quality}\", official_per_image = {price} }}")
        })
        .collect();
    let extra = [
        provider("openai", "openai", &upstream.base_url()) + "responses = false\n",
        provider("anthropic", "anthropic", &root),
        provider("google", "gemini", &root),
        model("openai/gpt-image-1-mini", "image", &format!("images = [{}]", images.join(", "))),
        // https://developers.openai.com/api/docs/models/whisper-1: 0.006 a minute.
        model("openai/whisper-1", "transcription", "official_per_second = 0.0001"),
        // https://developers.openai.com/api/docs/models/tts-1: 15.00 for a million characters.
        model("openai/tts-1", "speech", "official_per_character = 0.000015"),
        // A unit is a query with up to 100 documents: https://docs.aws.amazon.com/bedrock/latest/userguide/rerank-pricing.html. A thousand
        // queries of Cohere Rerank 3.5 are 2.00: https://aws.amazon.com/bedrock/pricing/.
        model("openai/rerank-v3.5", "rerank", "official_per_search_unit = 0.002"),
    ];
    (Setup { extra: extra.concat(), routing: "retries = 0", ..Setup::default() }.start().await, upstream)
}

/// The price of an image by size and quality: https://developers.openai.com/api/docs/models/gpt-image-1-mini.
const IMAGES: [(&str, &str, f64); 9] = [
    ("1024x1024", "low", 0.005),
    ("1024x1536", "low", 0.006),
    ("1536x1024", "low", 0.006),
    ("1024x1024", "medium", 0.011),
    ("1024x1536", "medium", 0.015),
    ("1536x1024", "medium", 0.015),
    ("1024x1024", "high", 0.036),
    ("1024x1536", "high", 0.052),
    ("1536x1024", "high", 0.052),
];

/// The cost of the ledger's row.
async fn cost(world: &World, answer: &Response) -> Value {
    let admin = world.gateway.client().with_key(ADMIN);
    let row = logged(&admin, answer.header("x-request-id").expect("an id")).await;
    assert_eq!(row["cost"]["matches_log"], json!(true), "{row}");
    row["cost_usd"].clone()
}

#[tokio::test]
async fn tokens_with_a_cache_cost_what_anthropic_publishes() {
    let (world, upstream) = start().await;
    // claude-opus-5 for a million tokens: input 5, written to the cache 6.25, for an hour 10, read 0.50, output 25; a search 0.01
    // (https://platform.claude.com/docs/en/about-claude/pricing).
    let usage = json!({"input_tokens": 10_000, "cache_read_input_tokens": 40_000, "cache_creation_input_tokens": 3_000,
        "cache_creation": {"ephemeral_5m_input_tokens": 2_000, "ephemeral_1h_input_tokens": 1_000},
        "output_tokens": 15_000, "server_tool_use": {"web_search_requests": 2}});
    let told = json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5",
        "content": [{"type": "text", "text": "Hi"}], "stop_reason": "end_turn", "stop_sequence": null, "usage": usage});
    upstream.enqueue(Answer::json(200, &told));
    let tools = json!([{"type": "web_search_20250305", "name": "web_search", "max_uses": 2}]);
    let body = with(chat("anthropic/claude-opus-5"), json!({"max_tokens": 20_000, "tools": tools}));
    let answer = world.client.post_json("/v1/messages", &body).await.ok();
    // 0.05 + 0.02 + 0.0125 + 0.01 + 0.375 + 0.02.
    assert_eq!(cost(&world, &answer).await, json!(0.4875));
}

#[tokio::test]
async fn tokens_of_a_long_prompt_cost_what_openai_publishes() {
    let (world, upstream) = start().await;
    // gpt-6.1-sol above 272,000 tokens of input: input 4, cached 0.20, output 15
    // (https://developers.openai.com/api/docs/pricing).
    for (prompt, cached, expected) in [(300_000, 100_000, json!(0.835)), (272_000, 72_000, json!(0.4172))] {
        let usage = json!({"prompt_tokens": prompt, "completion_tokens": 1_000, "total_tokens": prompt + 1_000,
            "prompt_tokens_details": {"cached_tokens": cached}});
        upstream.enqueue(Answer::json(200, &with(chat_body("gpt-6.1-sol", "hi"), json!({ "usage": usage }))));
        let answer = world.client.post_json("/v1/chat/completions", &chat("openai/gpt-6.1-sol")).await.ok();
        assert_eq!(cost(&world, &answer).await, expected, "{prompt}");
    }
}

#[tokio::test]
async fn images_by_size_and_quality_cost_what_openai_publishes() {
    let (world, upstream) = start().await;
    for (size, quality, price) in IMAGES {
        let told = json!({"created": 1, "data": [{"b64_json": PIXEL}], "size": size, "quality": quality});
        upstream.enqueue(Answer::json(200, &told));
        let body =
            json!({"model": "openai/gpt-image-1-mini", "prompt": "a cat", "size": size, "quality": quality});
        let answer = world.client.post_json("/v1/images/generations", &body).await.ok();
        assert_eq!(cost(&world, &answer).await, json!(price), "{size} {quality}");
    }
}

#[tokio::test]
async fn image_tokens_cost_what_google_publishes() {
    let (world, upstream) = start().await;
    // gemini-3-pro-image: input 2, images of the answer 120 for a million tokens, of which an image of up to 2K has 1,120
    // (https://ai.google.dev/gemini-api/docs/pricing).
    let parts = json!([{"inlineData": {"mimeType": "image/png", "data": PIXEL}}]);
    let told = json!({"modelVersion": "gemini-3-pro-image",
        "candidates": [{"index": 0, "content": {"role": "model", "parts": parts}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 1_120, "totalTokenCount": 1_130,
            "candidatesTokensDetails": [{"modality": "IMAGE", "tokenCount": 1_120}]}});
    upstream.enqueue(Answer::json(200, &told));
    let answer =
        world.client.post_json("/v1/chat/completions", &chat("google/gemini-3-pro-image")).await.ok();
    assert_eq!(cost(&world, &answer).await, json!(0.13442));
}

#[tokio::test]
async fn seconds_of_audio_cost_what_openai_publishes() {
    let (world, upstream) = start().await;
    for (millis, expected) in [(60_000, json!(0.006)), (90_500, json!(0.00905))] {
        upstream.enqueue(Answer::json(200, &json!({"text": "Hello"})));
        let sound = wav(millis);
        let parts: [(&str, Option<&str>, &[u8]); 2] =
            [("model", None, b"openai/whisper-1"), ("file", Some("a.wav"), &sound)];
        let body = form(&parts);
        let answer =
            world.client.send("POST", "/v1/audio/transcriptions", Some(FORM), Some(&body)).await.ok();
        assert_eq!(cost(&world, &answer).await, expected, "{millis}");
    }
}

#[tokio::test]
async fn characters_of_speech_cost_what_openai_publishes() {
    let (world, _upstream) = start().await;
    // The longest input is 4,096 characters.
    for (characters, expected) in [(1_000, json!(0.015)), (4_096, json!(0.06144))] {
        let body = json!({"model": "openai/tts-1", "input": "ü".repeat(characters), "voice": "alloy"});
        let answer = world.client.post_json("/v1/audio/speech", &body).await.ok();
        assert_eq!(cost(&world, &answer).await, expected, "{characters}");
    }
}

#[tokio::test]
async fn search_units_cost_what_amazon_publishes() {
    let (world, _upstream) = start().await;
    for (documents, expected) in [(100, json!(0.002)), (101, json!(0.004)), (350, json!(0.008))] {
        let body = json!({"model": "openai/rerank-v3.5", "query": "q", "documents": vec!["a"; documents]});
        let answer = world.client.post_json("/v1/rerank", &body).await.ok();
        assert_eq!(cost(&world, &answer).await, expected, "{documents}");
    }
}
