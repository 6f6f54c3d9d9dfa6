//! Streams of images: partial images and the complete one, their cost, and every way in which they end.

use gw_testkit::{Answer, PIXEL};
use serde_json::{Value, json};

use crate::harness::ledger::rows;
use crate::harness::{ADMIN, World, logged, with, world};

const PATH: &str = "/v1/images/generations";

fn paint(more: Value) -> Value {
    with(json!({"model": "acme/paint", "prompt": "a cat", "stream": true}), more)
}

fn event(name: &str, more: Value) -> String {
    let data = with(json!({"type": name, "b64_json": PIXEL, "size": "1024x1024", "quality": "low"}), more);
    format!("event: {name}\ndata: {data}\n\n")
}

fn partial() -> String {
    event("image_generation.partial_image", json!({"partial_image_index": 0, "secret": "x"}))
}

fn completed() -> String {
    let usage = json!({"input_tokens": 10, "output_tokens": 372, "total_tokens": 382});
    event("image_generation.completed", json!({"usage": usage}))
}

/// The name and the data of a frame.
fn read(frame: &str) -> (String, Value) {
    let (name, data) = frame.trim_end().split_once('\n').expect("two lines");
    let name = name.strip_prefix("event: ").expect("a name").to_owned();
    (name, serde_json::from_str(data.strip_prefix("data: ").expect("data")).expect("JSON"))
}

async fn all(world: &World, body: &Value) -> Vec<(String, Value)> {
    let mut stream = world.client.stream(PATH, body).await;
    let frames = stream.rest().await;
    assert!(!stream.broken, "{frames:?}");
    frames.iter().map(|frame| read(frame)).collect()
}

#[tokio::test]
async fn partial_images_come_first_and_the_last_event_has_usage_and_cost() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    world.upstream.enqueue(Answer::sse().chunk(partial()).chunk(completed()).end());
    let mut stream = world.client.stream(PATH, &paint(json!({"partial_images": 1}))).await;
    assert!(stream.head.header("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")));
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    let frames: Vec<_> = stream.rest().await.iter().map(|frame| read(frame)).collect();
    let [(first, image), (last, whole)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!(
        (first.as_str(), last.as_str()),
        ("image_generation.partial_image", "image_generation.completed")
    );
    assert_eq!(
        (&image["b64_json"], &image["partial_image_index"], &image["type"]),
        (&json!(PIXEL), &json!(0), &json!(first))
    );
    assert!(image["created_at"].is_u64() && image.get("secret").is_none(), "{image}");
    assert_eq!((&whole["b64_json"], &whole["size"]), (&json!(PIXEL), &json!("1024x1024")));
    // 10 × 5 + 372 × 40 per million.
    let expected = json!({
        "input_tokens": 10, "output_tokens": 372, "total_tokens": 382, "cost_usd": 0.01493,
        "input_tokens_details": {"text_tokens": 10, "image_tokens": 0},
        "output_tokens_details": {"text_tokens": 0, "image_tokens": 372}
    });
    assert_eq!(whole["usage"], expected);
    let sent = world.upstream.last().json();
    assert_eq!((&sent["stream"], &sent["partial_images"]), (&json!(true), &json!(1)), "{sent}");
    let row = logged(&admin, &id).await;
    assert_eq!(
        (&row["stream"], &row["units"], &row["cost_usd"]),
        (&json!(true), &json!({"image": 1}), &json!(0.01493)),
        "{row}"
    );
}

#[tokio::test]
async fn a_failure_is_an_error_event_and_never_a_completed_one() {
    let world = world().await;
    let error = "event: error\ndata: {\"type\":\"error\",\"error\":{\"message\":\"boom\",\"type\":\"server_error\"}}\n\n";
    for (name, answer) in [
        ("told", Answer::sse().chunk(partial()).chunk(error).end()),
        ("told after the image", Answer::sse().chunk(partial()).chunk(completed()).chunk(error).end()),
        ("torn", Answer::sse().chunk(partial()).reset()),
        ("ended", Answer::sse().chunk(partial()).end()),
        (
            "odd",
            Answer::sse().chunk(partial()).chunk("data: {\"type\":\"image_generation.completed\"}\n\n").end(),
        ),
    ] {
        world.upstream.enqueue(answer);
        let frames = all(&world, &paint(json!({}))).await;
        let [(first, _), (last, data)] = &frames[..] else { panic!("{name}: {frames:?}") };
        assert_eq!((first.as_str(), last.as_str()), ("image_generation.partial_image", "error"), "{name}");
        assert_eq!(data["error"]["type"], "upstream_error", "{name}: {data}");
    }
    let rows = rows(&world.gateway, 5).await;
    assert!(rows.iter().all(|row| row.status != "ok" && row.stream), "{rows:?}");
    // What was told of its cost is charged, and else the prompt.
    assert!(rows.iter().all(|row| row.cost > 0), "{rows:?}");
}

#[tokio::test]
async fn a_failure_before_the_first_image_is_a_status_and_a_fallback_paints() {
    let world = world().await;
    world.upstream.enqueue(Answer::error(400, "moderation_blocked", "no"));
    let refused = world.client.post_json(PATH, &paint(json!({}))).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "content_filter"), "{}", refused.text());
    world.upstream.enqueue(Answer::error(500, "server_error", "down"));
    let frames =
        all(&world, &paint(json!({"routing": {"fallback": ["demo/images"]}, "partial_images": 2}))).await;
    let names: Vec<&str> = frames.iter().map(|(name, _)| name.as_str()).collect();
    let partial = "image_generation.partial_image";
    assert_eq!(names, [partial, partial, "image_generation.completed"]);
}

#[tokio::test]
async fn a_document_becomes_a_stream_and_a_client_that_leaves_is_noted() {
    let world = world().await;
    let answer = json!({"created": 7, "data": [{"b64_json": PIXEL}], "size": "512x512", "usage": {"input_tokens": 3, "output_tokens": 5}});
    world.upstream.enqueue(Answer::json(200, &answer));
    let frames = all(&world, &paint(json!({}))).await;
    let [(name, whole)] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((name.as_str(), &whole["size"]), ("image_generation.completed", &json!("512x512")));
    assert_eq!(whole["usage"]["output_tokens"], 5);
    world.upstream.enqueue(Answer::sse().chunk(partial()).hang());
    let mut stream = world.client.stream(PATH, &paint(json!({}))).await;
    stream.frame().await.expect("a partial image");
    stream.close();
    world.upstream.request(1).await.until_closed().await;
    world.gateway.log_with("client_closed_request").await;
}

#[tokio::test]
async fn an_event_of_megabytes_passes_and_a_larger_one_than_the_bound_fails() {
    let world = world().await;
    let image = |megabytes: usize| {
        let data = json!({"type": "image_generation.completed", "b64_json": "A".repeat(megabytes << 20)});
        Answer::sse().chunk(format!("data: {data}\n\n")).end()
    };
    world.upstream.enqueue(image(6));
    let frames = all(&world, &paint(json!({}))).await;
    assert_eq!(frames[0].1["b64_json"].as_str().map(str::len), Some(6 << 20));
    world.upstream.enqueue(image(17));
    let refused = world.client.post_json(PATH, &paint(json!({}))).await;
    assert_eq!((refused.status, refused.code().as_str()), (502, "upstream_invalid_response"));
}
