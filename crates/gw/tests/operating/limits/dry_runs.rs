//! A dry run tells what a request would do and does nothing; a request may bound its own cost. Both on every surface.

use gw_testkit::{Client, Response};
use serde_json::{Value, json};

use crate::harness::forms::{FORM, edit, recording};
use crate::harness::{ADMIN, Setup, World, assert_error, chat, with};

fn message(model: &str) -> Value {
    json!({"model": model, "max_tokens": 20, "messages": [{"role": "user", "content": "Hello"}]})
}

fn response(model: &str) -> Value {
    json!({"model": model, "input": "Hello", "max_output_tokens": 20})
}

/// A request of each surface that generates, for a priced model of its category.
fn surfaces() -> Vec<(&'static str, Value)> {
    vec![
        ("/v1/chat/completions", with(chat("acme/fast"), json!({"max_tokens": 20}))),
        ("/v1/chat/completions", with(chat("acme/fast"), json!({"stream": true, "max_tokens": 20}))),
        ("/v1/completions", json!({"model": "acme/fast", "prompt": "Hello", "max_tokens": 20})),
        ("/v1/embeddings", json!({"model": "acme/embed", "input": "Hello"})),
        ("/v1/rerank", json!({"model": "acme/rerank", "query": "q", "documents": ["a", "b"]})),
        ("/v1/score", json!({"model": "acme/rerank", "text_1": "q", "text_2": ["a", "b"]})),
        ("/v1/moderations", json!({"model": "acme/moderation", "input": "Hello"})),
        ("/v1/responses", response("acme/fast")),
        ("/v1/responses", with(response("acme/fast"), json!({"background": true, "store": true}))),
        ("/v1/responses/compact", response("acme/fast")),
        ("/v1/messages", message("acme/fast")),
        ("/v1/messages", with(message("acme/fast"), json!({"stream": true}))),
    ]
}

/// A request of each surface of media and of Gemini: its path, its media type, its body and its model.
fn media() -> Vec<(&'static str, &'static str, Vec<u8>, &'static str)> {
    const JSON: &str = "application/json";
    let json = |body: Value| body.to_string().into_bytes();
    let contents = json(json!({
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}], "generationConfig": {"maxOutputTokens": 20},
    }));
    let heard = recording(&[("model", "acme/hear")]);
    let say = json(json!({"model": "acme/speak", "input": "Hello", "voice": "alloy"}));
    vec![
        (
            "/v1/images/generations",
            JSON,
            json(json!({"model": "acme/paint", "prompt": "a cat"})),
            "acme/paint",
        ),
        ("/v1/images/edits", FORM, edit(), "acme/paint"),
        ("/v1/audio/speech", JSON, say, "acme/speak"),
        ("/v1/audio/transcriptions", FORM, heard.clone(), "acme/hear"),
        ("/v1/audio/translations", FORM, heard, "acme/hear"),
        ("/v1beta/models/acme%2Ffast:generateContent", JSON, contents.clone(), "acme/fast"),
        ("/v1beta/models/acme%2Ffast:streamGenerateContent?alt=sse", JSON, contents, "acme/fast"),
    ]
}

fn dry(client: &Client) -> Client {
    client.with_header("x-gateway-dry-run", "true")
}

async fn world() -> World {
    let keys = "[[keys]]\nname = \"once\"\nkey = \"sk-once\"\nrpm = 1\n\
        [[keys]]\nname = \"poor\"\nkey = \"sk-poor\"\nbudget_usd = 0.000000001\n\
        [[keys]]\nname = \"strict\"\nkey = \"sk-strict\"\nbudget_usd = 5\nunpriced = \"refuse\"\nlog_payloads = true\n\
        [[passthrough]]\npath = \"/pass\"\nprovider = \"acme\"\nusage = \"openai\"\n";
    Setup { extra: keys.to_owned(), ..Setup::default() }.start().await
}

async fn count_of_requests(world: &World) -> Value {
    let admin = world.gateway.client().with_key(ADMIN);
    admin.get("/admin/v1/usage").await.ok().json()["total"]["requests"].clone()
}

#[tokio::test]
async fn a_dry_run_plans_every_surface_and_calls_nothing() {
    let world = world().await;
    let once = world.gateway.client().with_key("sk-once");
    for (path, request) in surfaces() {
        let answer = dry(&once).post_json(path, &request).await.ok();
        let report = answer.json();
        assert_eq!(report["object"], "gateway.dry_run", "{path}");
        assert_eq!(report["model"], request["model"], "{path}");
        assert_eq!(report["candidates"], json!([{"model": request["model"], "provider": "acme"}]), "{path}");
        let estimate = &report["estimate"];
        assert!(estimate["cost_usd"].as_f64().is_some_and(|cost| cost > 0.0), "{path}: {report}");
        let longest = if request["model"] == "acme/fast" { 20 } else { 0 };
        let longest =
            if path.ends_with("compact") { &estimate["max_completion_tokens"] } else { &json!(longest) };
        assert_eq!(estimate["max_completion_tokens"], *longest, "{path}: {report}");
        assert_eq!(
            (&report["rules"], &report["would"], &report["error"], &report["warnings"]),
            (&json!([]), &json!("serve"), &Value::Null, &json!([])),
            "{path}"
        );
        assert!(answer.header("x-request-id").is_some());
    }
    assert_eq!(world.upstream.hits(), 0);
    assert_eq!(count_of_requests(&world).await, 0);
    // The only request of the minute is still there.
    once.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok();
    let full = dry(&once).post_json("/v1/chat/completions", &chat("acme/fast")).await.ok().json();
    assert_eq!(full["would"], "refuse");
    assert_eq!(
        (&full["error"]["status"], &full["error"]["code"]),
        (&json!(429), &json!("rate_limit_exceeded"))
    );
    let poor = dry(&world.gateway.client().with_key("sk-poor"));
    let refused = poor.post_json("/v1/chat/completions", &chat("acme/fast")).await.ok().json();
    assert_eq!(
        (&refused["would"], &refused["error"]["code"]),
        (&json!("refuse"), &json!("insufficient_quota"))
    );
    let real = world
        .gateway
        .client()
        .with_key("sk-poor")
        .post_json("/v1/chat/completions", &chat("acme/fast"))
        .await;
    assert_eq!(refused["error"]["message"], real.message());
    let strict = dry(&world.gateway.client().with_key("sk-strict"));
    let refused = strict.post_json("/v1/chat/completions", &chat("acme/unpriced")).await.ok().json();
    let message = refused["error"]["message"].as_str().expect("a message");
    assert!(message.contains("acme/unpriced"), "{message}");
    assert_eq!(refused["estimate"]["cost_usd"], Value::Null);
    assert_eq!(refused["warnings"], json!(["price_unknown"]));
}

#[tokio::test]
async fn media_and_geminis_requests_are_planned_and_bounded_and_requests_that_pass_through_are_not() {
    let world = world().await;
    for (path, media, body, model) in media() {
        let post = async |client: &Client| client.send("POST", path, Some(media), Some(&body)).await;
        let report = post(&dry(&world.client)).await.ok().json();
        assert_eq!(
            (&report["object"], &report["model"]),
            (&json!("gateway.dry_run"), &json!(model)),
            "{path}"
        );
        assert_eq!(report["candidates"], json!([{"model": model, "provider": "acme"}]), "{path}");
        let cost = &report["estimate"]["cost_usd"];
        assert!(cost.as_f64().is_some_and(|cost| cost > 0.0), "{path}: {report}");
        assert_eq!(
            (&report["rules"], &report["would"], &report["error"], &report["warnings"]),
            (&json!([]), &json!("serve"), &Value::Null, &json!([])),
            "{path}"
        );
        let bounded = |most: &str| world.client.with_header("x-gateway-max-cost-usd", most);
        let refused = post(&bounded("0.000000001")).await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
        assert!(refused.text().contains("x-gateway-max-cost-usd"), "{path}: {}", refused.text());
        assert_eq!(world.upstream.hits(), 0, "{path}");
        post(&bounded(&cost.to_string())).await.ok();
        assert_eq!(world.upstream.hits(), 1, "{path}");
        world.upstream.forget_requests();
    }
    for client in [dry(&world.client), world.client.with_header("x-gateway-max-cost-usd", "1")] {
        let refused = client.post_json("/pass/chat/completions", &chat("m")).await;
        assert_error("pass", &refused, 400, "invalid_request_error", "unsupported_parameter");
    }
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn a_dry_run_has_the_usual_errors_and_names_the_fallbacks() {
    let world = world().await;
    let client = dry(&world.client);
    let invalid = with(chat("acme/fast"), json!({"temperature": "hot"}));
    let answer = client.post_json("/v1/chat/completions", &invalid).await;
    assert_error("a fault", &answer, 400, "invalid_request_error", "invalid_type");
    let answer = client.post_json("/v1/chat/completions", &chat("acme/none")).await;
    assert_error("no model", &answer, 404, "invalid_request_error", "model_not_found");
    let routed = with(chat("acme/fast"), json!({"routing": {"fallback": ["beta/fast"]}}));
    let report = client.post_json("/v1/chat/completions", &routed).await.ok().json();
    assert_eq!(
        report["candidates"],
        json!([{"model": "acme/fast", "provider": "acme"}, {"model": "beta/fast", "provider": "beta"}])
    );
    for value in ["false", "1", ""] {
        let client = world.client.with_header("x-gateway-dry-run", value);
        let answer = client.post_json("/v1/chat/completions", &chat("acme/fast")).await;
        assert_error(value, &answer, 400, "invalid_request_error", "invalid_value");
    }
    assert_eq!((world.upstream.hits(), world.second.hits()), (0, 0));
}

async fn bounded(world: &World, path: &str, request: &Value, most: &str) -> Response {
    world.client.with_header("x-gateway-max-cost-usd", most).post_json(path, request).await
}

#[tokio::test]
async fn a_request_bounds_its_own_cost_on_every_surface() {
    let world = world().await;
    for (path, request) in surfaces() {
        let report = dry(&world.client).post_json(path, &request).await.ok().json();
        let worst = report["estimate"]["cost_usd"].to_string();
        let before = world.upstream.hits();
        bounded(&world, path, &request, &worst).await.ok();
        let refused = bounded(&world, path, &request, "0.000000001").await;
        assert_eq!(refused.status, 400, "{path}: {}", refused.text());
        assert!(refused.text().contains("x-gateway-max-cost-usd"), "{path}: {}", refused.text());
        if !path.starts_with("/v1/messages") {
            assert_eq!(refused.code(), "max_cost_exceeded", "{path}");
        }
        // A response in the background is made later.
        assert!(request.get("background").is_some() || world.upstream.hits() > before, "{path}");
    }
    let unpriced = bounded(&world, "/v1/chat/completions", &chat("acme/unpriced"), "100").await;
    assert_error("without a price", &unpriced, 400, "invalid_request_error", "max_cost_exceeded");
    let routed =
        with(chat("acme/unpriced"), json!({"max_tokens": 20, "routing": {"fallback": ["acme/fast"]}}));
    let served = bounded(&world, "/v1/chat/completions", &routed, "0.001").await.ok().json();
    assert_eq!(served["gateway"]["model_used"], "acme/fast");
    for value in ["", "-1", "much", "1,5"] {
        let answer = bounded(&world, "/v1/chat/completions", &chat("acme/fast"), value).await;
        assert_error(value, &answer, 400, "invalid_request_error", "invalid_value");
    }
}
