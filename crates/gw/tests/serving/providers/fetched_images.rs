//! `server.fetch_images`: images at http(s) addresses for providers that take only bytes.

use std::sync::Arc;

use gw_testkit::Answer;
use gw_testkit::upstream::Step;
use serde_json::{Value, json};

use crate::harness::dialects::WORDS;
use crate::harness::images::{
    BEDROCK, BY_URL, ImageWorld, JPEG, OLLAMA, ON, PNG, SECOND, VERTEX, base64, picture, question,
};
use crate::harness::{ADMIN, KEY, logged};

/// The images of the last request to Ollama.
fn ollama_images(upstream: &gw_testkit::FakeUpstream) -> Value {
    upstream.last().json()["messages"][0]["images"].clone()
}

#[tokio::test]
async fn each_dialect_that_takes_bytes_gets_the_bytes_and_others_get_the_address() {
    let world = ImageWorld::start(ON, "").await;
    let url = world.url("/cat.png");
    for stream in [false, true] {
        for model in [OLLAMA, BEDROCK, VERTEX] {
            let mut body = question(model, &[&url]);
            body["stream"] = json!(stream);
            let answer = world.send(&body).await;
            assert_eq!(answer.status, 200, "{model}: {}", answer.text());
            assert!(answer.text().contains("sunny"), "{model}: {}", answer.text());
        }
    }
    assert_eq!(ollama_images(&world.ollama), json!([base64(PNG)]));
    let content = world.bedrock.last().json()["messages"][0]["content"].clone();
    assert_eq!(content[1]["image"], json!({ "format": "png", "source": { "bytes": base64(PNG) } }));
    let content = world.vertex.last().json()["messages"][0]["content"].clone();
    let source = json!({ "type": "base64", "media_type": "image/png", "data": base64(PNG) });
    assert_eq!(content[1]["source"], source);
    assert_eq!((world.images.hits(), world.fetches("ok").await), (6, 6));

    world.ask(BY_URL, &[&url]).await.ok();
    let part = world.by_url.last().json()["messages"][0]["content"][1].clone();
    assert_eq!(part["image_url"]["url"], url);
    assert_eq!(world.images.hits(), 6, "a provider that takes addresses needs no fetch");
}

#[tokio::test]
async fn nothing_of_the_client_and_no_credentials_are_sent_for_an_image() {
    let world = ImageWorld::start(ON, "").await;
    let client = world.gateway.client().with_key(KEY).with_header("cookie", "a=b").with_header("x-own", "1");
    client.post_json("/v1/chat/completions", &question(OLLAMA, &[&world.url("/a?b=c#d")])).await.ok();
    let sent = world.images.last();
    assert_eq!((sent.method.as_str(), sent.path.as_str()), ("GET", "/a?b=c"));
    let mut names: Vec<_> = sent.headers.iter().map(|(name, _)| name.to_lowercase()).collect();
    names.sort_unstable();
    assert_eq!(names, ["accept", "accept-encoding", "host", "user-agent"]);
    assert_eq!(sent.header("accept-encoding"), Some("identity"));
}

#[tokio::test]
async fn an_image_is_fetched_once_for_a_request_also_twice_in_it_and_for_fallbacks() {
    let world = ImageWorld::start(ON, "").await;
    let (cat, dog) = (world.url("/cat"), world.url("/dog"));
    world.images.respond_with(|request| picture(if request.path == "/dog" { JPEG } else { PNG }));
    world.ollama.always(Answer::error(500, "down", "down"));
    let mut body = question(OLLAMA, &[&cat, &dog, &cat]);
    body["routing"] = json!({ "fallback": [BEDROCK, SECOND] });
    world.bedrock.always(Answer::error(500, "down", "down"));
    let answer = world.send(&body).await.ok();
    assert_eq!(answer.json()["choices"][0]["message"]["content"], WORDS);
    assert_eq!(ollama_images(&world.second), json!([base64(PNG), base64(JPEG), base64(PNG)]));
    let content = world.bedrock.last().json()["messages"][0]["content"].clone();
    assert_eq!(content[2]["image"]["format"], "jpeg");
    assert_eq!((world.images.hits(), world.ollama.hits()), (2, 1));
    let id = answer.header("x-request-id").expect("an id").to_owned();
    let row = logged(&world.gateway.client().with_key(ADMIN), &id).await;
    let attempts = row["attempts"].as_array().expect("attempts");
    assert!(attempts[0]["image_fetch_ms"].as_u64().is_some_and(|millis| millis > 0), "{row}");
    assert!(attempts[1].get("image_fetch_ms").is_none(), "{row}");
    assert_eq!(answer.json()["gateway"]["attempts"].as_array().map(Vec::len), Some(3));
}

#[tokio::test]
async fn without_the_setting_the_request_is_refused_and_nothing_is_fetched() {
    let world = ImageWorld::start("", "").await;
    for (model, message) in [
        (OLLAMA, "Invalid 'messages': this provider takes images as data URLs only, not by address."),
        (BEDROCK, "Invalid 'image_url': this provider takes images as data URLs, not by address."),
    ] {
        let answer = world.ask(model, &["https://images.example/cat.png"]).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "unsupported_value"), "{model}");
        assert_eq!(answer.message(), message);
    }
    assert_eq!((world.images.hits(), world.ollama.hits(), world.bedrock.hits()), (0, 0, 0));
}

#[tokio::test]
async fn an_image_that_cannot_be_fetched_is_a_400_that_names_the_member_and_costs_nothing() {
    let world = ImageWorld::start(ON, "").await;
    world.images.always(Answer::full(404, &[], ""));
    let answer = world.ask(OLLAMA, &[&world.url("/cat")]).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_image_url"));
    assert_eq!(
        answer.message(),
        "Invalid 'messages[0].content[1].image_url.url': the image cannot be downloaded, because its server answers with the status 404."
    );
    assert_eq!(answer.header("x-should-retry"), Some("false"));
    let id = answer.header("x-request-id").expect("an id").to_owned();
    let row = logged(&world.gateway.client().with_key(ADMIN), &id).await;
    assert_eq!(
        (&row["status"], &row["cost_usd"], &row["attempts"]),
        (&json!("invalid_image_url"), &json!(0), &json!([]))
    );
    assert_eq!((world.ollama.hits(), world.fetches("status").await), (0, 1));

    // The target is as well as before, and one that takes addresses may answer.
    let mut body = question(OLLAMA, &[&world.url("/cat")]);
    body["routing"] = json!({ "fallback": [SECOND, BY_URL] });
    let answer = world.send(&body).await.ok();
    assert_eq!(answer.json()["gateway"]["model_used"], BY_URL);
    assert_eq!((world.images.hits(), world.second.hits()), (2, 0), "the failed fetch is not repeated");
}

#[tokio::test]
async fn size_type_number_and_coding_are_bounded() {
    let world = ImageWorld::start(&format!("{ON}\nfetch_images_max_mib = 1"), "").await;
    let large = [PNG, &vec![b'x'; 1 << 20]].concat();
    let huge = large.clone();
    world.images.respond_with(move |request| match &*request.path {
        "/declared" => Answer::raw("HTTP/1.1 200 OK\r\ncontent-length: 99999999\r\n\r\n").then(Step::Hang),
        "/large" => {
            Answer::raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").chunk(&huge).then(Step::Hang)
        }
        "/text" => Answer::full(200, &[("content-type", "image/png")], "<html>"),
        "/empty" => Answer::full(200, &[("content-type", "image/png")], ""),
        "/gzip" => Answer::full(200, &[("content-encoding", "gzip")], PNG),
        "/part" => Answer::full(206, &[], PNG),
        "/short" => {
            Answer::raw("HTTP/1.1 200 OK\r\ncontent-length: 900\r\n\r\n").bytes(PNG).then(Step::Close)
        }
        _ => picture(PNG),
    });
    for (path, outcome, why) in [
        ("/declared", "too_large", "it is larger than 1 MiB."),
        ("/large", "too_large", "it is larger than 1 MiB."),
        ("/text", "media_type", "it is not a PNG, JPEG, GIF or WebP image."),
        ("/gzip", "invalid", "the answer of its server is compressed or cannot be read."),
        ("/part", "status", "its server answers with the status 206."),
    ] {
        let answer = world.ask(OLLAMA, &[&world.url(path)]).await;
        assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_image_url"), "{path}");
        assert!(answer.message().ends_with(why), "{path}: {}", answer.message());
        assert!(world.fetches(outcome).await >= 1, "{path}");
    }
    for path in ["/empty", "/short"] {
        assert_eq!(world.ask(OLLAMA, &[&world.url(path)]).await.code(), "invalid_image_url", "{path}");
    }
    let many: Vec<String> = (0..21).map(|n| world.url(&format!("/{n}"))).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let before = world.images.hits();
    let answer = world.ask(OLLAMA, &many).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_image_url"));
    assert_eq!((world.images.hits(), world.ollama.hits()), (before, 0));
    world.ask(OLLAMA, &many[..20]).await.ok();
    assert_eq!(world.images.hits(), before + 20);
    assert_eq!(ollama_images(&world.ollama).as_array().map(Vec::len), Some(20));
}

#[tokio::test]
async fn an_image_that_does_not_come_is_given_up_at_the_clock_of_fetches() {
    let world = ImageWorld::start(&format!("{ON}\nfetch_images_timeout_ms = 100"), "").await;
    world.images.always(Answer::default().then(Step::Hang));
    let answer = world.ask(OLLAMA, &[&world.url("/silent")]).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_image_url"));
    assert!(answer.message().ends_with("it did not come in time."), "{}", answer.message());
    assert_eq!((world.fetches("timeout").await, world.ollama.hits()), (1, 0));
}

#[tokio::test]
async fn an_image_counts_once_for_each_part_that_names_it() {
    let world = ImageWorld::start(ON, "").await;
    // Four MiB in base64: eight of them are larger than a body may be.
    let large = [PNG, &vec![b'x'; 3 << 20]].concat();
    world.images.respond_with(move |_| picture(&large));
    let url = world.url("/large");
    let answer = world.ask(OLLAMA, &[&*url; 8]).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_image_url"));
    let message = "Invalid 'messages[0].content[1].image_url.url': the images at addresses are larger than 32 MiB together.";
    assert_eq!(answer.message(), message);
    assert_eq!((world.images.hits(), world.ollama.hits()), (1, 0));
    world.ask(OLLAMA, &[&*url; 7]).await.ok();
    assert_eq!((world.images.hits(), world.ollama.hits()), (2, 1));
}

#[tokio::test]
async fn redirects_are_followed_three_times() {
    let world = ImageWorld::start(ON, "").await;
    world.images.respond_with(|request| {
        let left: u32 = request.path.trim_start_matches("/hop").parse().unwrap_or(0);
        let location = format!("/hop{}", left.saturating_sub(1));
        if left == 0 { picture(PNG) } else { Answer::full(302, &[("location", &location)], "") }
    });
    world.ask(OLLAMA, &[&world.url("/hop3")]).await.ok();
    assert_eq!(ollama_images(&world.ollama), json!([base64(PNG)]));
    let answer = world.ask(OLLAMA, &[&world.url("/hop4")]).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_image_url"));
    assert_eq!(world.fetches("redirect_refused").await, 1);
    assert_eq!(world.images.hits(), 8);
}

#[tokio::test]
async fn clients_of_every_dialect_send_addresses() {
    let world = ImageWorld::start(ON, "").await;
    let url = world.url("/cat");
    let client = world.gateway.client().with_key(KEY);
    let responses = json!({ "model": OLLAMA, "input": [{ "role": "user", "content": [
        { "type": "input_text", "text": "What?" }, { "type": "input_image", "image_url": url }] }] });
    let source = json!({ "type": "url", "url": url });
    let messages = |model: &str| {
        json!({ "model": model, "max_tokens": 50, "messages": [{ "role": "user", "content": [
            { "type": "text", "text": "What?" }, { "type": "image", "source": source }] }] })
    };
    let gemini = json!({ "contents": [{ "role": "user", "parts": [
        { "text": "What?" }, { "fileData": { "mimeType": "image/png", "fileUri": url } }] }] });
    let gemini_path = format!("/v1beta/models/{OLLAMA}:generateContent");
    for (path, body) in [
        ("/v1/responses", responses.clone()),
        ("/v1/messages", messages(OLLAMA)),
        (gemini_path.as_str(), gemini),
    ] {
        client.post_json(path, &body).await.ok();
        assert_eq!(ollama_images(&world.ollama), json!([base64(PNG)]), "{path}");
    }
    world.images.always(Answer::full(500, &[], ""));
    let refused = client.post_json("/v1/responses", &responses).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_image_url"));
    assert!(refused.message().starts_with("Invalid 'input': the image"), "{}", refused.message());
    let refused = client.post_json("/v1/messages", &messages(OLLAMA)).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.text().contains("Invalid 'messages': the image"), "{}", refused.text());
}

#[tokio::test]
async fn an_answer_is_cached_by_the_address_and_a_hit_fetches_nothing() {
    let world = ImageWorld::start(ON, "[cache]\nenabled = true\n").await;
    let mut body = question(OLLAMA, &[&world.url("/cat")]);
    body["temperature"] = json!(0);
    body["cache"] = json!({ "enabled": true });
    world.send(&body).await.ok();
    let hit = world.send(&body).await.ok().json();
    assert_eq!(hit["gateway"]["cache_hit"], true, "{hit}");
    assert_eq!((world.images.hits(), world.ollama.hits()), (1, 1));
}

#[tokio::test]
async fn a_request_that_is_refused_anyway_a_dry_run_and_a_count_fetch_nothing() {
    let world = ImageWorld::start(ON, "").await;
    let url = world.url("/cat");
    let mut body = question(OLLAMA, &[&url]);
    let file = json!({ "type": "file", "file": { "file_data": "data:application/pdf;base64,JVBERi0=" } });
    body["messages"][0]["content"].as_array_mut().expect("parts").push(file);
    let answer = world.send(&body).await;
    assert_eq!(
        (answer.status, answer.message().as_str()),
        (400, "Invalid 'messages': this provider takes no files.")
    );
    let client = world.gateway.client().with_key(KEY);
    let dry = client.with_header("x-gateway-dry-run", "true");
    dry.post_json("/v1/chat/completions", &question(OLLAMA, &[&url])).await;
    let counted = json!({ "model": OLLAMA, "messages": [{ "role": "user", "content": [
        { "type": "image", "source": { "type": "url", "url": url } }] }] });
    client.post_json("/v1/messages/count_tokens", &counted).await.ok();
    assert_eq!(world.images.hits(), 0);
}

#[tokio::test]
async fn a_shutdown_waits_for_a_fetch_and_the_answer_after_it() {
    let mut world = ImageWorld::start(ON, "").await;
    let signal = gw_testkit::Signal::new();
    let pause = signal.clone();
    world.images.respond_with(move |_| picture(PNG).after(Step::Wait(pause.clone())));
    let (url, client) = (world.url("/cat"), Arc::new(world.gateway.client().with_key(KEY)));
    let asking =
        tokio::spawn(
            async move { client.post_json("/v1/chat/completions", &question(OLLAMA, &[&url])).await },
        );
    world.images.request(0).await;
    world.gateway.sigterm();
    signal.fire();
    let answer = asking.await.expect("an answer").ok();
    assert_eq!(answer.json()["choices"][0]["message"]["content"], WORDS);
    assert_eq!(world.gateway.ended().await.code(), Some(0));
}

#[tokio::test]
async fn a_hedge_does_not_take_the_place_of_a_fetch() {
    // A large body is encoded by another thread, which takes longer than this.
    let hedge = "[routing.hedge]\nafter = 1\nmax_extra_cost_percent = 100\n";
    let world = ImageWorld::start(ON, hedge).await;
    let large = format!("data:image/png;base64,{}", "AAAA".repeat(1 << 20));
    let mut body = question(OLLAMA, &[&world.url("/cat"), &large]);
    body["stream"] = json!(true);
    body["routing"] = json!({ "fallback": [BY_URL] });
    let answer = world.send(&body).await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(world.images.hits(), 1, "{}", answer.text());
}

#[tokio::test]
async fn names_and_types_may_be_escaped() {
    let world = ImageWorld::start(ON, "").await;
    let body = json!({ "model": VERTEX, "max_tokens": 50, "messages": [{ "role": "user", "content": [
        { "type": "text", "text": "What?" },
        { "type": "image", "source": { "type": "url", "url": world.url("/cat") } }] }] });
    let escaped = body.to_string().replace("\"url\"", "\"\\u0075r\\u006C\"");
    let client = world.gateway.client().with_key(KEY);
    client.post_bytes("/v1/messages", escaped.as_bytes()).await.ok();
    let sent = world.vertex.last().json().to_string();
    assert!(sent.contains(&base64(PNG)), "{sent}");
    assert_eq!(world.images.hits(), 1);
}
