//! Images: OpenAI's request and answer, Azure, the demo, prices by tokens and by what was made, budgets, and wrong answers.

use gw_testkit::upstream::Step;
use gw_testkit::{Answer, FakeUpstream, PIXEL, Signal};
use serde_json::{Value, json};

use crate::harness::ledger::rows;
use crate::harness::{ADMIN, Setup, World, assert_error, assert_invalid, logged, with, world};

const PATH: &str = "/v1/images/generations";

/// A gateway with models that are priced by the image, and a key with little money.
async fn start() -> World {
    let model = |id: &str, pricing: &str| {
        format!("[[models]]\nid = \"{id}\"\ncategory = [\"image\"]\npricing = {{ {pricing} }}\n")
    };
    let rows = "[{ size = \"1024x1024\", quality = \"high\", official_per_image = 0.167 }, { size = \"1024x1024\", \
                official_per_image = 0.011 }]";
    let extra = [
        model("acme/by-form", &format!("images = {rows}")),
        model("acme/by-image", "official_per_image = 0.04"),
        model("acme/by-pixel", "official_per_pixel = 1.9e-8"),
        model("acme/by-token", "official_input_per_m = 5.0, official_image_output_per_m = 40.0"),
        "max_output_tokens = 4096\n".to_owned(),
        "[[keys]]\nname = \"poor\"\nkey = \"sk-poor\"\nbudget_usd = 0.1\n".to_owned(),
    ];
    Setup { extra: extra.concat(), routing: "retries = 0", ..Setup::default() }.start().await
}

fn paint(model: &str, more: Value) -> Value {
    with(json!({"model": model, "prompt": "a cat"}), more)
}

async fn row_of(world: &World, answer: &gw_testkit::Response) -> Value {
    let admin = world.gateway.client().with_key(ADMIN);
    logged(&admin, answer.header("x-request-id").expect("an id")).await
}

/// Ten large images have 46 MiB. Their provider has billed them.
#[tokio::test]
async fn ten_large_images_reach_the_client() {
    let world = world().await;
    let image = json!({"b64_json": "A".repeat(4_800_000)});
    let usage = json!({"input_tokens": 10, "output_tokens": 62_400, "total_tokens": 62_410});
    world
        .upstream
        .enqueue(Answer::json(200, &json!({"created": 1, "data": vec![image; 10], "usage": usage})));
    let answer = world.client.post_json(PATH, &paint("acme/paint", json!({"n": 10}))).await.ok();
    assert!(answer.body.len() > 48_000_000, "{} bytes", answer.body.len());
    assert_eq!(answer.json()["data"].as_array().map(Vec::len), Some(10));
}

#[tokio::test]
async fn an_answer_has_openais_shape_and_each_kind_of_token_has_its_price() {
    let world = world().await;
    let image = json!({"b64_json": PIXEL, "revised_prompt": "a small cat", "extra": 1});
    let usage = json!({
        "input_tokens": 1050, "output_tokens": 528, "total_tokens": 1578,
        "input_tokens_details": {"text_tokens": 50, "image_tokens": 1000}
    });
    world.upstream.enqueue(Answer::json(
        200,
        &json!({"created": 1_700_000_001, "data": [image, image], "background": "opaque", "output_format": "png",
            "size": "1024x1024", "quality": "low", "usage": usage}),
    ));
    let more = json!({"n": 2, "size": "1024x1024", "quality": "auto", "user": "ann", "seed": 7, "response_format": null});
    let answer = world.client.post_json(PATH, &paint("acme/paint", more)).await.ok();
    // 50 × 5 + 1000 × 10 + 528 × 40 per million.
    let image = json!({"b64_json": PIXEL, "revised_prompt": "a small cat"});
    let expected = json!({
        "created": 1_700_000_001, "data": [image, image], "background": "opaque", "output_format": "png",
        "size": "1024x1024", "quality": "low",
        "usage": {
            "input_tokens": 1050, "output_tokens": 528, "total_tokens": 1578,
            "input_tokens_details": {"text_tokens": 50, "image_tokens": 1000},
            "output_tokens_details": {"text_tokens": 0, "image_tokens": 528}, "cost_usd": 0.03137
        }
    });
    assert_eq!(answer.json(), expected);
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.03137"));
    let sent = world.upstream.last();
    assert_eq!(sent.path, PATH);
    let expected = json!({"model": "paint", "prompt": "a cat", "n": 2, "size": "1024x1024", "quality": "auto", "user": "ann"});
    assert_eq!(sent.json(), expected);
    let row = row_of(&world, &answer).await;
    assert_eq!((&row["surface"], &row["operation"]), (&json!("images"), &json!("image_generation")), "{row}");
    assert_eq!((&row["units"], &row["cost_usd"]), (&json!({"image": 2}), &json!(0.03137)), "{row}");
    assert_eq!((&row["prompt_tokens"], &row["completion_tokens"]), (&json!(1050), &json!(528)), "{row}");
    let demo = world.client.post_json(PATH, &paint("demo/images", json!({}))).await.ok();
    row_of(&world, &demo).await;
    let admin = world.gateway.client().with_key(ADMIN);
    for by in ["model", "surface", "day", "key"] {
        let report = admin.get(&format!("/admin/v1/usage?by={by}")).await.ok().json();
        assert_eq!(report["units"], json!({"image": 3}), "{report}");
    }
    let only = admin.get("/admin/v1/usage?by=model&model=acme/paint").await.ok().json();
    assert_eq!(only["data"][0]["units"], json!({"image": 2}), "{only}");
    let csv = admin.get("/admin/v1/usage?by=model&format=csv").await.ok().text();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].ends_with(",unpriced_requests,units") && lines[1].ends_with(",0,image=2"), "{csv}");
}

#[tokio::test]
async fn without_usage_the_size_and_the_quality_of_what_was_made_decide() {
    let world = start().await;
    let made =
        |size: &str, quality: &str| json!({"data": [{"b64_json": PIXEL}], "size": size, "quality": quality});
    let bare = json!({"data": [{"url": "https://img.example.com/1.png"}]});
    let asked = json!({"size": "1024x1024", "quality": "high"});
    for (model, more, answer, cost) in [
        ("acme/by-form", json!({}), made("1024x1024", "high"), Some("0.167")),
        ("acme/by-form", asked.clone(), made("1024x1024", "medium"), Some("0.011")),
        ("acme/by-form", json!({}), made("1024x1536", "high"), None),
        // A provider that says nothing made what was asked for.
        ("acme/by-form", asked, bare.clone(), Some("0.167")),
        ("acme/by-form", json!({}), bare.clone(), None),
        ("acme/by-image", json!({}), bare.clone(), Some("0.04")),
        ("acme/by-pixel", json!({"size": "1024x1536"}), bare.clone(), Some("0.029884416")),
        // The image itself has one pixel.
        ("acme/by-pixel", json!({}), json!({"data": [{"b64_json": PIXEL}]}), Some("0.000000019")),
        ("acme/by-pixel", json!({}), bare, None),
    ] {
        world.upstream.enqueue(Answer::json(200, &answer));
        let told = world.client.post_json(PATH, &paint(model, more)).await.ok();
        assert_eq!(told.header("x-gateway-cost-usd"), cost, "{model}: {answer}");
        let row = row_of(&world, &told).await;
        assert_eq!(row["units"], json!({"image": 1}), "{row}");
        assert_eq!(row.get("unpriced"), cost.is_none().then_some(&json!(true)), "{row}");
        let usage = &told.json()["usage"];
        assert_eq!(usage["output_tokens"], 0, "{usage}");
        assert_eq!(usage["cost_usd"].is_null(), cost.is_none(), "{usage}");
    }
}

/// The cost, the units and the marks of a row.
fn charge_of(row: &Value) -> Value {
    json!([row["cost_usd"], row["units"], row["estimated"], row["unpriced"]])
}

#[tokio::test]
async fn images_that_did_not_arrive_are_charged_at_the_price_by_the_image() {
    let world = start().await;
    let partial = json!({"type": "image_generation.partial_image", "b64_json": PIXEL});
    let partial = Answer::sse().chunk(format!("data: {partial}\n\n")).reset();
    let document = |body: &str| Answer::full(200, &[("content-type", "application/json")], body);
    let torn =
        Answer::raw("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 999\r\n\r\n{");
    let three = json!({"n": 3});
    let sized = json!({"n": 2, "size": "1024x1024", "quality": "high"});
    for (name, model, more, answer, cost) in [
        ("partial", "by-image", json!({"stream": true}), partial, json!(0.04)),
        ("torn", "by-image", three.clone(), torn.close(), json!(0.12)),
        ("garbage", "by-image", three.clone(), document("<html>"), json!(0.12)),
        ("empty", "by-image", three, document("{}"), json!(0.12)),
        ("sized", "by-form", sized, document("{}"), json!(0.334)),
        // Without a size, the images may be those of the dearest row.
        ("unsized", "by-form", json!({"n": 2}), document("{}"), json!(0.334)),
        ("pixels", "by-pixel", json!({"size": "1024x1536"}), document("{}"), json!(0.029_884_416)),
    ] {
        world.upstream.enqueue(answer);
        let told = world.client.post_json(PATH, &paint(&format!("acme/{model}"), more.clone())).await;
        let row = row_of(&world, &told).await;
        let units = json!({"image": more["n"].as_u64().unwrap_or(1)});
        assert_eq!(charge_of(&row), json!([cost, units, true, null]), "{name}: {row}");
    }
    // Nothing tells the pixels.
    world.upstream.enqueue(document("{}"));
    let told = world.client.post_json(PATH, &paint("acme/by-pixel", json!({}))).await;
    assert_eq!(charge_of(&row_of(&world, &told).await), json!([null, null, true, true]));
    world.upstream.enqueue(Answer::error(500, "server_error", "down"));
    let refused = world.client.post_json(PATH, &paint("acme/by-image", json!({}))).await;
    assert_eq!(charge_of(&row_of(&world, &refused).await)[0], 0);
}

#[tokio::test]
async fn a_count_of_image_tokens_that_no_model_can_have_is_estimated() {
    let world = start().await;
    let usage = json!({"input_tokens": 10, "output_tokens": 10_000_000_000_000_000_000_u64});
    for (model, tokens, cost) in [
        // 10 × 5 + 4,096 × 40 per million.
        ("acme/by-token", 4096, json!(0.16389)),
        ("acme/by-image", 0, json!(0.04)),
        // Neither an image nor the longest answer has a known price.
        ("acme/paint", 0, Value::Null),
    ] {
        let answer = json!({"created": 1, "data": [{"b64_json": PIXEL}], "usage": usage});
        world.upstream.enqueue(Answer::json(200, &answer));
        let told = world.client.post_json(PATH, &paint(model, json!({}))).await.ok();
        let expected = json!({
            "input_tokens": 10, "output_tokens": tokens, "total_tokens": 10 + tokens,
            "input_tokens_details": {"text_tokens": 10, "image_tokens": 0},
            "output_tokens_details": {"text_tokens": 0, "image_tokens": tokens}, "cost_usd": cost
        });
        assert_eq!(told.json()["usage"], expected, "{model}");
        let row = row_of(&world, &told).await;
        let unpriced = if cost.is_null() { json!(true) } else { Value::Null };
        assert_eq!(charge_of(&row), json!([cost, {"image": 1}, true, unpriced]), "{model}: {row}");
    }
}

#[tokio::test]
async fn clients_that_leave_pay_for_their_images_and_use_up_their_budget() {
    let world = start().await;
    let poor = world.gateway.client().with_key("sk-poor");
    world.upstream.respond_with(|_| Answer::steps(Vec::new()).hang());
    let body = paint("acme/by-image", json!({})).to_string().into_bytes();
    for count in 1..=2 {
        let wire = poor.open("POST", PATH, Some("application/json"), Some(&body)).await;
        world.upstream.request(count - 1).await;
        drop(wire);
        let rows = rows(&world.gateway, count).await;
        assert!(rows.iter().all(|row| row.cost == 40_000_000_000_000 && row.estimated), "{rows:?}");
    }
    let refused = poor.post_json(PATH, &paint("acme/by-image", json!({}))).await;
    assert_error("the budget", &refused, 429, "insufficient_quota", "insufficient_quota");
    assert_eq!(world.upstream.hits(), 2);
}

#[tokio::test]
async fn a_budget_reserves_the_dearest_images_that_the_request_can_mean() {
    let world = start().await;
    let poor = world.gateway.client().with_key("sk-poor");
    for (model, more) in
        [("acme/by-form", json!({})), ("acme/by-image", json!({"n": 3})), ("acme/paint", json!({}))]
    {
        let refused = poor.post_json(PATH, &paint(model, more)).await;
        assert_error(model, &refused, 429, "insufficient_quota", "insufficient_quota");
    }
    assert_eq!(world.upstream.hits(), 0);
    poor.post_json(PATH, &paint("acme/by-form", json!({"size": "1024x1024", "quality": "low"}))).await.ok();
    poor.post_json(PATH, &paint("acme/paint", json!({"quality": "low"}))).await.ok();
}

#[tokio::test]
async fn other_models_and_wrong_requests_and_answers_are_refused_and_fallbacks_paint() {
    let world = world().await;
    for model in ["acme/fast", "acme/embed", "acme/rerank"] {
        let answer = world.client.post_json(PATH, &paint(model, json!({}))).await;
        assert_invalid(model, &answer, "unsupported_model");
    }
    let chat = json!({"model": "acme/paint", "messages": [{"role": "user", "content": "x"}]});
    let refused = world.client.post_json("/v1/chat/completions", &chat).await;
    assert_invalid("a chat", &refused, "unsupported_model");
    for (more, code) in [
        (json!({"n": 11}), "integer_above_max_value"),
        (json!({"size": "huge"}), "invalid_value"),
        (json!({"quality": 1}), "invalid_type"),
        (json!({"prompt": ""}), "empty_string"),
        (json!({"prompt": null}), "missing_required_parameter"),
    ] {
        let answer = world.client.post_json(PATH, &paint("acme/paint", more.clone())).await;
        assert_invalid(&more.to_string(), &answer, code);
    }
    assert_eq!(world.upstream.hits(), 0);
    for data in [json!([]), json!([{}]), json!("none"), json!([{"b64_json": 7}])] {
        world.upstream.enqueue(Answer::json(200, &json!({"created": 1, "data": data})));
        let answer = world.client.post_json(PATH, &paint("acme/paint", json!({}))).await;
        assert_error(&data.to_string(), &answer, 502, "upstream_error", "upstream_invalid_response");
    }
    world.upstream.enqueue(Answer::error(500, "server_error", "down"));
    let more = json!({"routing": {"fallback": ["demo/images"]}});
    let answer = world.client.post_json(PATH, &paint("acme/paint", more)).await.ok();
    assert_eq!(answer.header("x-gateway-model"), Some("demo/images"));
}

#[tokio::test]
async fn the_demo_paints_offline_and_azure_is_called_at_its_deployment() {
    let azure = FakeUpstream::start().await;
    let extra = format!(
        "[[providers]]\nname = \"az\"\napi = \"azure\"\nbase_url = \"{}\"\napi_key = \"k\"\napi_version = \"2025-04-01-preview\"\n\
         deployments = {{ \"gpt-image-1\" = \"my-image\" }}\nallow_private_network = true\n\
         [[models]]\nid = \"az/gpt-image-1\"\ncategory = [\"image\"]\npricing = {{ official_per_image = 0.04 }}\n",
        azure.base_url().trim_end_matches("/v1")
    );
    let world = Setup { extra, ..Setup::default() }.start().await;
    let demo =
        async |more: Value| world.client.post_json(PATH, &paint("demo/images", more)).await.ok().json();
    let first = demo(json!({"size": "512x256", "n": 2})).await;
    assert_eq!((&first["size"], first["data"].as_array().map(Vec::len)), (&json!("512x256"), Some(2)));
    assert_eq!(first["usage"]["cost_usd"], 0);
    let again = demo(json!({"size": "512x256", "n": 2})).await;
    assert_eq!((&first["data"], &first["usage"]), (&again["data"], &again["usage"]));
    assert!(first["data"][0]["b64_json"].as_str().is_some_and(|image| image.starts_with("iVBORw0KGgo")));
    azure.enqueue(Answer::json(200, &json!({"created": 1, "data": [{"b64_json": PIXEL}]})));
    let answer = world.client.post_json(PATH, &paint("az/gpt-image-1", json!({"n": 1}))).await.ok();
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.04"));
    let sent = azure.last();
    assert_eq!(sent.path, "/openai/deployments/my-image/images/generations?api-version=2025-04-01-preview");
    assert_eq!(sent.json(), json!({"prompt": "a cat", "n": 1}));
}

/// A gateway with Gemini and Vertex AI, both at one upstream.
async fn google(upstream: &FakeUpstream) -> World {
    let base = upstream.base_url();
    let base = base.trim_end_matches("/v1");
    let model = |id: &str, pricing: &str| {
        format!("[[models]]\nid = \"{id}\"\ncategory = [\"image\"]\npricing = {{ {pricing} }}\n")
    };
    let provider = |name: &str, more: &str| {
        format!(
            "[[providers]]\nname = \"{name}\"\napi = \"{name}\"\nbase_url = \"{base}\"\napi_key = \"k\"\n\
             allow_private_network = true\n{more}\n"
        )
    };
    let extra = [
        provider("gemini", ""),
        provider("vertex", "project = \"p\"\nregion = \"europe-west4\""),
        model(
            "gemini/gemini-3-1-flash-image",
            "official_input_per_m = 0.3, official_image_output_per_m = 30.0",
        ),
        model("vertex/imagen-4.0-generate-001", "official_per_image = 0.04"),
    ];
    Setup { extra: extra.concat(), routing: "retries = 0", ..Setup::default() }.start().await
}

#[tokio::test]
async fn gemini_paints_by_generate_content_and_a_blocked_image_is_a_content_filter() {
    let upstream = FakeUpstream::start().await;
    let world = google(&upstream).await;
    let inline = json!({"inlineData": {"mimeType": "image/png", "data": PIXEL}});
    let answer = json!({
        "candidates": [{"content": {"role": "model", "parts": [inline]}, "finishReason": "STOP"}],
        "usageMetadata": {"promptTokenCount": 4, "candidatesTokenCount": 1290, "totalTokenCount": 1294}
    });
    upstream.enqueue(Answer::json(200, &answer));
    upstream.enqueue(Answer::json(200, &answer));
    let model = "gemini/gemini-3-1-flash-image";
    let more = json!({"n": 2, "size": "1536x1024", "user": "ann"});
    let made = world.client.post_json(PATH, &paint(model, more)).await.ok();
    let told = made.json();
    assert_eq!(told["data"], json!([{"b64_json": PIXEL}, {"b64_json": PIXEL}]));
    assert_eq!(told["usage"]["output_tokens_details"], json!({"text_tokens": 0, "image_tokens": 2580}));
    // 2 × (4 × 0.3 + 1290 × 30) per million.
    assert_eq!(made.header("x-gateway-cost-usd"), Some("0.0774024"));
    assert_eq!(row_of(&world, &made).await["units"], json!({"image": 2}));
    let sent = upstream.last();
    assert_eq!(sent.path, "/v1beta/models/gemini-3-1-flash-image:generateContent");
    let expected = json!({
        "contents": [{"role": "user", "parts": [{"text": "a cat"}]}],
        "generationConfig": {"responseModalities": ["IMAGE"], "imageConfig": {"aspectRatio": "3:2"}}
    });
    assert_eq!(sent.json(), expected);
    for blocked in [
        json!({"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}}),
        json!({"candidates": [{"finishReason": "IMAGE_SAFETY"}]}),
    ] {
        upstream.enqueue(Answer::json(200, &blocked));
        let refused = world.client.post_json(PATH, &paint(model, json!({}))).await;
        assert_invalid(&blocked.to_string(), &refused, "content_filter");
    }
    upstream.enqueue(Answer::json(200, &answer));
    let mut stream = world.client.stream(PATH, &paint(model, json!({"stream": true}))).await;
    let frames = stream.rest().await;
    assert!(
        matches!(&frames[..], [only] if only.starts_with("event: image_generation.completed\n")),
        "{frames:?}"
    );
    let refused = world.client.post_json(PATH, &paint(model, json!({"response_format": "url"}))).await;
    assert_invalid("a URL", &refused, "unsupported_parameter");
}

#[tokio::test]
async fn imagen_on_vertex_predicts() {
    let upstream = FakeUpstream::start().await;
    let world = google(&upstream).await;
    let prediction = json!({"mimeType": "image/png", "bytesBase64Encoded": PIXEL});
    upstream.enqueue(Answer::json(200, &json!({"predictions": [prediction]})));
    let model = "vertex/imagen-4.0-generate-001";
    let made = world.client.post_json(PATH, &paint(model, json!({"size": "1024x1024"}))).await.ok();
    assert_eq!(made.json()["data"], json!([{"b64_json": PIXEL}]));
    assert_eq!(made.header("x-gateway-cost-usd"), Some("0.04"));
    let sent = upstream.last();
    let path =
        "/v1/projects/p/locations/europe-west4/publishers/google/models/imagen-4.0-generate-001:predict";
    assert_eq!(sent.path, path);
    let expected = json!({
        "instances": [{"prompt": "a cat"}],
        "parameters": {"sampleCount": 1, "includeRaiReason": true, "aspectRatio": "1:1"}
    });
    assert_eq!(sent.json(), expected);
    upstream.enqueue(Answer::json(200, &json!({"predictions": [{"raiFilteredReason": "no"}]})));
    let refused = world.client.post_json(PATH, &paint(model, json!({}))).await;
    assert_invalid("blocked", &refused, "content_filter");
}

#[tokio::test]
async fn bedrock_invokes_the_models_of_amazon_and_stability() {
    let upstream = FakeUpstream::start().await;
    let model = |id: &str| {
        format!(
            "[[models]]\nid = \"bedrock/{id}\"\ncategory = [\"image\"]\npricing = {{ official_per_image = 0.04 }}\n"
        )
    };
    let base = upstream.base_url();
    let provider = format!(
        "[[providers]]\nname = \"bedrock\"\napi = \"bedrock\"\nregion = \"us-east-1\"\nbase_url = \"{}\"\napi_key = \"k\"\n",
        base.trim_end_matches("/v1")
    );
    let extra = provider + &model("amazon.nova-canvas-v1:0") + &model("stability.stable-image-core-v1:1");
    let world = Setup { extra, routing: "retries = 0", ..Setup::default() }.start().await;
    upstream.enqueue(Answer::json(200, &json!({"images": [PIXEL], "error": null})));
    let asked = paint("bedrock/amazon.nova-canvas-v1:0", json!({"size": "1280x720", "quality": "hd"}));
    let made = world.client.post_json(PATH, &asked).await.ok();
    assert_eq!(made.json()["data"], json!([{"b64_json": PIXEL}]));
    assert_eq!(made.header("x-gateway-cost-usd"), Some("0.04"));
    let sent = upstream.last();
    assert_eq!(sent.path, "/model/amazon.nova-canvas-v1%3A0/invoke");
    let expected = json!({
        "taskType": "TEXT_IMAGE", "textToImageParams": {"text": "a cat"},
        "imageGenerationConfig": {"numberOfImages": 1, "width": 1280, "height": 720, "quality": "premium"}
    });
    assert_eq!(sent.json(), expected);
    let refused = json!({"images": [null], "seeds": [1], "finish_reasons": ["Filter reason: prompt"]});
    upstream.enqueue(Answer::json(200, &refused));
    let asked = paint("bedrock/stability.stable-image-core-v1:1", json!({"size": "1024x1536"}));
    let answer = world.client.post_json(PATH, &asked).await;
    assert_invalid("filtered", &answer, "content_filter");
    let expected = json!({"prompt": "a cat", "aspect_ratio": "2:3", "output_format": "png"});
    assert_eq!(upstream.last().json(), expected);
}

#[tokio::test]
async fn a_slow_image_has_no_hedge_because_both_could_be_charged() {
    let model = |id: &str, category: &str, pricing: &str| {
        format!("[[models]]\nid = \"{id}\"\ncategory = [\"{category}\"]\npricing = {{ {pricing} }}\n")
    };
    let extra = model("beta/rank", "rerank", "official_per_search_unit = 0.001")
        + &model("beta/paint", "image", "official_per_image = 0.04");
    let routing = "retries = 0\n[routing.hedge]\nafter = 20\nmax_extra_cost_percent = 50";
    let world = Setup { extra, routing, ..Setup::default() }.start().await;
    let go = Signal::new();
    let image = json!({"created": 1, "data": [{"b64_json": PIXEL}]});
    world.upstream.enqueue(Answer::json(200, &image).after(Step::Wait(go.clone())));
    let client = world.client.clone();
    let asked = paint("acme/paint", json!({"routing": {"fallback": ["beta/paint"]}}));
    let painting = tokio::spawn(async move { client.post_json(PATH, &asked).await });
    gw_testkit::eventually("the image is asked for", || (world.upstream.hits() == 1).then_some(())).await;
    // A ranking that begins later has its hedge.
    world.upstream.enqueue(Answer::steps(Vec::new()).hang());
    let ranked = json!({"results": [{"index": 0, "relevance_score": 0.5}]});
    world.second.enqueue(Answer::json(200, &ranked));
    let routed = json!({"fallback": ["beta/rank"]});
    let body = json!({"model": "acme/rerank", "query": "q", "documents": ["a"], "routing": routed});
    let answer = world.client.post_json("/v1/rerank", &body).await.ok();
    assert_eq!(answer.header("x-gateway-model"), Some("beta/rank"));
    assert_eq!(world.second.hits(), 1);
    // A search unit of each: 0.002 and 0.001.
    assert_eq!(row_of(&world, &answer).await["cost_usd"], json!(0.003));
    go.fire();
    let answer = painting.await.expect("no panic").ok();
    assert_eq!((answer.header("x-gateway-model"), world.second.hits()), (Some("acme/paint"), 1));
}
