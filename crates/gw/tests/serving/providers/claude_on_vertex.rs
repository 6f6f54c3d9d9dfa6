//! Claude at a provider of `api = "vertex"`: what reaches Google, what comes back, and what each kind of error becomes.

use gw_testkit::{Answer, FakeUpstream, Gateway};
use serde_json::{Value, json};

use crate::harness::dialects::{self, Say, WORDS};
use crate::harness::{KEY, serve};

const CHAT: &str = "/v1/chat/completions";
const TOKEN: &str = "ya29.an-access-token";
const MODEL: &str = "gcp/claude-opus-4-5@20251101";
const PLACE: &str =
    "/v1/projects/p/locations/europe-west4/publishers/anthropic/models/claude-opus-4-5@20251101";

/// A gateway with Vertex AI and, to fall back to, an OpenAI-type provider.
async fn start() -> (Gateway, FakeUpstream, FakeUpstream) {
    let (vertex, other) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n[routing]\nretries = 0\n[routing.breaker]\nfailures = 1000\n\
         [[providers]]\nname = \"gcp\"\napi = \"vertex\"\nbase_url = \"http://{}\"\napi_key = \"{TOKEN}\"\nproject = \"p\"\nregion = \"europe-west4\"\n\
         [[providers]]\nname = \"other\"\napi = \"openai\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"{MODEL}\"\npricing = {{ official_input_per_m = 10.0, official_output_per_m = 20.0, cached_input_per_m = 1.0, cache_write_per_m = 15.0, currency = \"USD\" }}\n\
         [[models]]\nid = \"gcp/gemini-2.5-pro\"\n[[models]]\nid = \"other/m\"\n",
        vertex.addr, other.addr
    );
    (serve(&config).await, vertex, other)
}

fn question(more: &Value) -> Value {
    let mut body =
        json!({"model": MODEL, "max_tokens": 300, "messages": [{"role": "user", "content": "hi"}]});
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

#[tokio::test]
async fn claude_on_vertex_is_anthropics_dialect_at_googles_address() {
    let (gateway, vertex, _other) = start().await;
    let client = gateway.client().with_key(KEY);
    vertex.always(dialects::anthropic(Say::Words, false));
    let answer = client.post_json(CHAT, &question(&json!({}))).await.ok().json();
    let sent = vertex.last();
    assert_eq!(sent.path, format!("{PLACE}:rawPredict"));
    assert_eq!(sent.header("authorization"), Some(format!("Bearer {TOKEN}").as_str()));
    assert_eq!(
        sent.json(),
        json!({"anthropic_version": "vertex-2023-10-16", "max_tokens": 300,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]})
    );
    assert_eq!(answer["choices"][0]["message"]["content"], WORDS);
    // 60 plain, 30 read and 10 written tokens of the prompt, 20 of the answer.
    assert_eq!(answer["usage"]["prompt_tokens"], 100);
    assert_eq!(answer["usage"]["prompt_tokens_details"]["cached_tokens"], 30);
    let cost = answer["usage"]["cost_usd"].as_f64().expect("a price");
    assert!((cost - (600.0 + 30.0 + 150.0 + 400.0) / 1e6).abs() < 1e-12, "{cost}");

    vertex.always(dialects::anthropic(Say::Words, true));
    let frames = client.stream(CHAT, &question(&json!({"stream": true}))).await.rest().await;
    let sent = vertex.last();
    assert_eq!(
        (sent.path.as_str(), &sent.json()["stream"]),
        (format!("{PLACE}:streamRawPredict").as_str(), &json!(true))
    );
    let chunks = gw_testkit::sse::chunks(&frames);
    let text = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
    assert_eq!(text.collect::<String>(), WORDS);
}

#[tokio::test]
async fn the_limit_that_the_api_requires_is_that_of_the_models_row() {
    let (gateway, vertex, _other) = start().await;
    vertex.always(dialects::anthropic(Say::Words, false));
    let client = gateway.client().with_key(KEY);
    let body = json!({"model": MODEL, "messages": [{"role": "user", "content": "hi"}]});
    client.post_json(CHAT, &body).await.ok();
    assert_eq!(vertex.last().json()["max_tokens"], 64_000);
}

#[tokio::test]
async fn gemini_beside_it_stays_gemini() {
    let (gateway, vertex, _other) = start().await;
    vertex.always(dialects::gemini(Say::Words, false));
    let body = question(&json!({"model": "gcp/gemini-2.5-pro"}));
    let answer = gateway.client().with_key(KEY).post_json(CHAT, &body).await.ok().json();
    assert!(vertex.last().path.ends_with("/publishers/google/models/gemini-2.5-pro:generateContent"));
    assert_eq!(answer["choices"][0]["message"]["content"], WORDS);
}

#[tokio::test]
async fn errors_of_googles_front_and_of_anthropic_are_told_alike() {
    let (gateway, vertex, _other) = start().await;
    let client = gateway.client().with_key(KEY);
    let google = |code: u16, class: &str| json!({"error": {"code": code, "message": "No.", "status": class}});
    let anthropic =
        |class: &str, message: &str| json!({"type": "error", "error": {"type": class, "message": message}});
    for (status, body, told) in [
        (401, google(401, "UNAUTHENTICATED"), (502, "upstream_auth_error")),
        (403, google(403, "PERMISSION_DENIED"), (502, "upstream_auth_error")),
        (404, google(404, "NOT_FOUND"), (502, "upstream_model_missing")),
        (429, google(429, "RESOURCE_EXHAUSTED"), (429, "upstream_rate_limited")),
        (503, google(503, "UNAVAILABLE"), (503, "upstream_overloaded")),
        (429, anthropic("rate_limit_error", "Slow."), (429, "upstream_rate_limited")),
        (529, anthropic("overloaded_error", "Overloaded"), (503, "upstream_overloaded")),
        (
            400,
            anthropic("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
            (400, "context_length_exceeded"),
        ),
    ] {
        for stream in [false, true] {
            vertex.always(Answer::json(status, &body));
            let answer = client.post_json(CHAT, &question(&json!({"stream": stream}))).await;
            assert_eq!((answer.status, answer.code().as_str()), told, "{body}: {}", answer.text());
        }
    }
    // In the middle of a stream.
    let begun =
        json!({"type": "message_start", "message": {"usage": {"input_tokens": 5, "output_tokens": 1}}});
    let text = [
        json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Once"}}),
    ];
    let torn = anthropic("overloaded_error", "Overloaded");
    vertex.always(Answer::sse().all(&[begun, text[0].clone(), text[1].clone(), torn]).end());
    let frames = client.stream(CHAT, &question(&json!({"stream": true}))).await.rest().await;
    assert!(frames.iter().any(|frame| frame.contains("\"error\"")), "{frames:?}");
}

#[tokio::test]
async fn an_image_at_an_address_goes_to_another_candidate_or_is_refused() {
    let (gateway, vertex, other) = start().await;
    let client = gateway.client().with_key(KEY);
    let image = json!({"type": "image_url", "image_url": {"url": "https://images.example/cat.png"}});
    let messages = json!([{"role": "user", "content": [{"type": "text", "text": "hi"}, image]}]);
    let refused = client.post_json(CHAT, &question(&json!({"messages": messages}))).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "unsupported_value"), "{}", refused.text());
    other.always(dialects::openai(Say::Words, false));
    let body = question(&json!({"messages": messages, "routing": {"fallback": ["other/m"]}}));
    let answer = client.post_json(CHAT, &body).await.ok().json();
    assert_eq!(answer["choices"][0]["message"]["content"], WORDS);
    assert_eq!((vertex.hits(), other.hits()), (0, 1));
}

#[tokio::test]
async fn claude_on_vertex_has_no_embeddings() {
    let (gateway, vertex, _other) = start().await;
    let answer = gateway
        .client()
        .with_key(KEY)
        .post_json("/v1/embeddings", &json!({"model": MODEL, "input": "x"}))
        .await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "unsupported_model"), "{}", answer.text());
    assert_eq!(vertex.hits(), 0);
}
