//! Edits and variations of images: forms, streams, charges, and what is refused.

use gw_testkit::{Answer, FakeUpstream, Launch, PIXEL};
use serde_json::{Value, json};

use crate::harness::forms::{form, post_form};
use crate::harness::{ADMIN, KEY, Setup, assert_invalid, binary, logged, world};

const EDIT: &str = "/v1/images/edits";
const VARY: &str = "/v1/images/variations";

type Parts<'a> = Vec<(&'a str, Option<&'a str>, &'a [u8])>;

fn edit<'a>(more: &[(&'a str, Option<&'a str>, &'a [u8])]) -> Vec<u8> {
    let mut parts: Parts<'_> =
        vec![("image", Some("a.png"), b"one"), ("model", None, b"acme/paint"), ("prompt", None, b"a cat")];
    parts.extend(more);
    form(&parts)
}

#[tokio::test]
async fn an_edit_sends_images_and_a_mask_and_is_charged_by_tokens() {
    let world = world().await;
    let usage = json!({
        "input_tokens": 1050, "output_tokens": 272, "total_tokens": 1322,
        "input_tokens_details": {"text_tokens": 50, "image_tokens": 1000}
    });
    world
        .upstream
        .enqueue(Answer::json(200, &json!({"created": 1, "data": [{"b64_json": PIXEL}], "usage": usage})));
    let body = edit(&[
        ("image[]", Some("b.png"), b"two"),
        ("mask", Some("m.png"), b"mask"),
        ("markup", Some("o.png"), b"markup"),
        ("safety_identifier", None, b"s-1"),
        ("input_fidelity", None, b"high"),
        ("size", None, b"1024x1024"),
        ("user", None, b"ann"),
    ]);
    let answer = post_form(&world.client, EDIT, &body).await.ok();
    // 50 × 5 + 1000 × 10 + 272 × 40 per million.
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.02113"));
    let told = answer.json();
    assert_eq!(
        (&told["data"], &told["usage"]["input_tokens_details"]["image_tokens"]),
        (&json!([{"b64_json": PIXEL}]), &json!(1000))
    );
    let sent = world.upstream.last();
    assert_eq!(sent.path, EDIT);
    let text = String::from_utf8_lossy(&sent.body);
    for part in [
        "name=\"model\"\r\n\r\npaint\r\n",
        "name=\"prompt\"\r\n\r\na cat\r\n",
        "name=\"input_fidelity\"\r\n\r\nhigh\r\n",
        "name=\"image[]\"; filename=\"a.png\"",
        "name=\"image[]\"; filename=\"b.png\"",
        "name=\"mask\"; filename=\"m.png\"",
        "name=\"markup\"; filename=\"o.png\"",
        "name=\"safety_identifier\"\r\n\r\ns-1\r\n",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let row =
        logged(&world.gateway.client().with_key(ADMIN), answer.header("x-request-id").expect("an id")).await;
    assert_eq!((&row["surface"], &row["units"]), (&json!("images"), &json!({"image": 1})), "{row}");
}

#[tokio::test]
async fn an_edit_streams_its_own_events_and_a_variation_has_one_image() {
    let world = world().await;
    let event = |name: &str| {
        let usage = json!({"input_tokens": 10, "output_tokens": 372, "total_tokens": 382});
        format!(
            "data: {}\n\n",
            json!({"type": name, "b64_json": PIXEL, "partial_image_index": 0, "usage": usage})
        )
    };
    world.upstream.enqueue(
        Answer::sse().chunk(event("image_edit.partial_image")).chunk(event("image_edit.completed")).end(),
    );
    let body = edit(&[("stream", None, b"true"), ("partial_images", None, b"1")]);
    let answer = post_form(&world.client, EDIT, &body).await.ok();
    let text = answer.text();
    let kinds: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("event: ")).collect();
    assert_eq!(kinds, ["image_edit.partial_image", "image_edit.completed"]);
    let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back().expect("data");
    let last: Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(
        (&last["type"], &last["usage"]["cost_usd"]),
        (&json!("image_edit.completed"), &json!(0.01493))
    );
    world.upstream.enqueue(Answer::sse().chunk(event("image_edit.partial_image")).close());
    let text = post_form(&world.client, EDIT, &body).await.text();
    assert!(text.contains("event: error\n") && !text.contains("completed"), "{text}");
    world.upstream.enqueue(Answer::json(200, &json!({"created": 1, "data": [{"b64_json": PIXEL}]})));
    let one = form(&[("model", None, b"acme/paint"), ("n", None, b"1"), ("image", Some("a.png"), b"one")]);
    post_form(&world.client, VARY, &one).await.ok();
    let sent = world.upstream.last();
    assert_eq!(sent.path, VARY);
    assert!(String::from_utf8_lossy(&sent.body).contains("name=\"image\"; filename=\"a.png\""));
    let demo = form(&[
        ("model", None, b"demo/images"),
        ("prompt", None, b"x"),
        ("size", None, b"128x128"),
        ("image", Some("a.png"), b"one"),
    ]);
    let drawn = post_form(&world.client, EDIT, &demo).await.ok().json();
    assert!(drawn["data"][0]["b64_json"].as_str().is_some_and(|image| image.starts_with("iVBORw0KGgo")));
}

/// As at OpenAI, whose packages leave it out.
#[tokio::test]
async fn a_request_without_a_model_gets_the_first_one_that_its_key_may_use() {
    let key = |name: &str, models: &str| {
        format!("[[keys]]\nname = \"{name}\"\nkey = \"sk-test-{name}-models\"\nmodels = [\"{models}\"]\n")
    };
    let extra = key("demo", "demo/*") + &key("chat", "acme/fast");
    let world = Setup { extra, ..Setup::default() }.start().await;
    let edit = form(&[("image", Some("a.png"), b"one"), ("prompt", None, b"a cat")]);
    let vary = form(&[("image", Some("a.png"), b"one")]);
    let answered = json!({"created": 1, "data": [{"b64_json": PIXEL}]});
    for (path, body) in [("/v1/images/generations", None), (EDIT, Some(&edit)), (VARY, Some(&vary))] {
        let client = |key: &str| world.gateway.client().with_key(key);
        let ask = async |client: gw_testkit::Client| match body {
            None => client.post_json(path, &json!({"prompt": "a cat"})).await,
            Some(body) => post_form(&client, path, body).await,
        };
        world.upstream.enqueue(Answer::json(200, &answered));
        let usual = ask(client(KEY)).await.ok();
        assert_eq!(usual.header("x-gateway-model"), Some("acme/paint"), "{path}");
        let of_demo = ask(client("sk-test-demo-models")).await.ok();
        assert_eq!(of_demo.header("x-gateway-model"), Some("demo/images"), "{path}");
        assert_invalid(path, &ask(client("sk-test-chat-models")).await, "missing_required_parameter");
    }
}

#[tokio::test]
async fn wrong_forms_send_nothing() {
    let world = world().await;
    for (label, path, body, code) in [
        (
            "no image",
            EDIT,
            form(&[("model", None, b"acme/paint"), ("prompt", None, b"x")]),
            "missing_required_parameter",
        ),
        (
            "no prompt",
            EDIT,
            form(&[("model", None, b"acme/paint"), ("image", Some("a"), b"x")]),
            "missing_required_parameter",
        ),
        ("two masks", EDIT, edit(&[("mask", Some("m"), b"x"), ("mask", Some("m"), b"x")]), "invalid_value"),
        ("another file", EDIT, edit(&[("file", Some("m"), b"x")]), "invalid_value"),
        ("a range", EDIT, edit(&[("n", None, b"11")]), "integer_above_max_value"),
        ("a mask", VARY, edit(&[("mask", Some("m"), b"x")]), "invalid_value"),
        ("a stream", VARY, edit(&[("stream", None, b"true")]), "unsupported_value"),
    ] {
        assert_invalid(label, &post_form(&world.client, path, &body).await, code);
    }
    let chat = form(&[("model", None, b"acme/fast"), ("prompt", None, b"x"), ("image", Some("a"), b"x")]);
    assert_invalid("a chat model", &post_form(&world.client, EDIT, &chat).await, "unsupported_model");
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn amazon_varies_images_and_a_signature_covers_them() {
    let upstream = FakeUpstream::start().await;
    let base = upstream.base_url();
    let provider = format!(
        "[[providers]]\nname = \"bedrock\"\napi = \"bedrock\"\nregion = \"us-east-1\"\nbase_url = \"{}\"\n",
        base.trim_end_matches("/v1")
    );
    let model = |id: &str| {
        format!(
            "[[models]]\nid = \"bedrock/{id}\"\ncategory = [\"image\"]\npricing = {{ official_per_image = 0.04 }}\n"
        )
    };
    let extra = provider + &model("amazon.nova-canvas-v1:0") + &model("stability.stable-image-core-v1:1");
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[routing]\nretries = 0\n[[keys]]\nname = \"ci\"\nkey = \"{KEY}\"\n{extra}"
    );
    let launch = Launch::new(binary())
        .env("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
        .env("AWS_SECRET_ACCESS_KEY", "wJalrXUtnFEMI/K7MDENG")
        .file("gateway.toml", &config);
    let gateway = launch.start().await;
    let client = gateway.client().with_key(KEY);
    upstream.always(Answer::json(200, &json!({"images": [PIXEL], "error": null})));
    let parts = |model: &'static str| {
        vec![
            ("image", Some("a.png"), &b"one"[..]),
            ("image[]", Some("b.png"), &b"two!"[..]),
            ("model", None, model.as_bytes()),
            ("prompt", None, &b"a cat"[..]),
            ("size", None, &b"1024x1024"[..]),
        ]
    };
    let answer = post_form(&client, EDIT, &form(&parts("bedrock/amazon.nova-canvas-v1:0"))).await.ok();
    assert_eq!(answer.json()["data"], json!([{"b64_json": PIXEL}]));
    assert_eq!(answer.header("x-gateway-cost-usd"), Some("0.04"));
    let sent = upstream.last();
    assert_eq!(sent.path, "/model/amazon.nova-canvas-v1%3A0/invoke");
    assert!(sent.header("authorization").is_some_and(|it| it.starts_with("AWS4-HMAC-SHA256 ")), "{sent:?}");
    let expected = json!({
        "taskType": "IMAGE_VARIATION", "imageVariationParams": {"text": "a cat", "images": ["b25l", "dHdvIQ=="]},
        "imageGenerationConfig": {"numberOfImages": 1, "width": 1024, "height": 1024}
    });
    assert_eq!(sent.json(), expected);
    let one = form(&[("image", Some("a.png"), b"one"), ("model", None, b"bedrock/amazon.nova-canvas-v1:0")]);
    post_form(&client, VARY, &one).await.ok();
    assert_eq!(upstream.last().json()["imageVariationParams"], json!({"images": ["b25l"]}));
    let hits = upstream.hits();
    let mut masked = parts("bedrock/amazon.nova-canvas-v1:0");
    masked.push(("mask", Some("m.png"), b"mask"));
    assert_invalid("a mask", &post_form(&client, EDIT, &form(&masked)).await, "unsupported_value");
    let other = form(&parts("bedrock/stability.stable-image-core-v1:1"));
    assert_invalid("Stability", &post_form(&client, EDIT, &other).await, "unsupported_value");
    assert_eq!(upstream.hits(), hits);
}
