//! Payloads: not stored by default. For a key with payloads enabled they are masked, cut, shown to admins, and purged.

use gw_store::Store;
use gw_store::ledger::{Entry, Filter};
use gw_store::payloads::{Payload, PayloadBody};
use gw_testkit::upstream::{chat_body, chat_transcript};
use gw_testkit::wait::eventually_ok;
use gw_testkit::{Answer, Client, Launch};
use serde_json::{Value, json};

use crate::harness::canary::Heap;
use crate::harness::management::CONFIG;
use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, Setup, World, binary, chat, chat_with, world};

const CHAT: &str = "/v1/chat/completions";
const KEY: &str = "sk-heard";

/// A gateway whose key `heard` stores payloads.
async fn heard(settings: &str) -> (World, Client) {
    let extra = format!("[[keys]]\nname = \"heard\"\nkey = \"{KEY}\"\nlog_payloads = true\n{settings}\n");
    let world = Setup { extra, ..Setup::default() }.start().await;
    let client = world.gateway.client().with_key(KEY);
    (world, client)
}

fn admin(world: &World) -> Client {
    world.gateway.client().with_key(ADMIN)
}

/// One request as the management API shows it, as soon as `holds`.
async fn shown(admin: &Client, id: &str, holds: impl Fn(&Value) -> bool) -> Value {
    eventually_ok(id, async || {
        let answer = admin.get(&format!("/admin/v1/requests/{id}")).await;
        if answer.status == 200 && holds(&answer.json()) { Ok(answer.json()) } else { Err(answer.text()) }
    })
    .await
}

/// The payload of a request.
async fn payload(world: &World, id: &str) -> Value {
    shown(&admin(world), id, |request| !request["payload"].is_null()).await["payload"].clone()
}

fn id_of(answer: &gw_testkit::Response) -> String {
    answer.header("x-request-id").expect("an id").to_owned()
}

/// A text of the payload, parsed as JSON.
fn read(payload: &Value, body: &str) -> Value {
    serde_json::from_str(payload[body].as_str().expect("a text")).expect("JSON")
}

fn saying(model: &str, text: &str) -> Value {
    chat_with(model, json!({ "messages": [{ "role": "user", "content": text }] }))
}

#[tokio::test]
async fn k05_prompts_and_answers_are_stored_nowhere_unless_switched_on() {
    const PROMPT: &str = "canary-prompt-4711-xyz";
    const OUTPUT: &str = "canary-output-0815-xyz";
    let mut world = world().await;
    let (said, streamed) = (chat_body("m", OUTPUT), chat_transcript(&["so ", OUTPUT, " it is"]));
    let mut ids = Vec::new();
    world.upstream.enqueue(Answer::json(200, &said));
    ids.push(id_of(&world.chat(&saying("acme/fast", PROMPT)).await.ok()));
    world.upstream.enqueue(Answer::sse().all(&streamed).done());
    let stream = chat_with(
        "acme/fast",
        json!({ "stream": true, "messages": [{ "role": "user", "content": PROMPT }] }),
    );
    let mut stream = world.client.stream(CHAT, &stream).await;
    ids.push(stream.head.header("x-request-id").expect("an id").to_owned());
    assert!(stream.rest().await.concat().contains(OUTPUT));
    ids.push(id_of(
        &world
            .client
            .post_json("/v1/completions", &json!({ "model": "acme/fast", "prompt": PROMPT }))
            .await
            .ok(),
    ));
    ids.push(id_of(
        &world
            .client
            .post_json("/v1/embeddings", &json!({ "model": "acme/embed", "input": PROMPT }))
            .await
            .ok(),
    ));
    let ranked =
        json!({ "model": "acme/rerank", "query": PROMPT, "documents": [PROMPT], "return_documents": true });
    ids.push(id_of(&world.client.post_json("/v1/rerank", &ranked).await.ok()));
    let judged = json!({ "model": "acme/moderation", "input": [PROMPT] });
    ids.push(id_of(&world.client.post_json("/v1/moderations", &judged).await.ok()));
    let drawn = json!({ "model": "acme/paint", "prompt": PROMPT });
    ids.push(id_of(&world.client.post_json("/v1/images/generations", &drawn).await.ok()));
    let spoken = json!({ "model": "acme/speak", "input": PROMPT, "voice": "v" });
    ids.push(id_of(&world.client.post_json("/v1/audio/speech", &spoken).await.ok()));
    let contents = json!({ "contents": [{ "parts": [{ "text": PROMPT }] }] });
    let gemini = "/v1beta/models/acme/fast:generateContent";
    ids.push(id_of(&world.client.post_json(gemini, &contents).await.ok()));
    world.upstream.enqueue(Answer::error(400, "bad", &format!("no to {PROMPT}, thank you")));
    ids.push(id_of(&world.chat(&saying("acme/fast", PROMPT)).await));
    world.upstream.enqueue(Answer::full(200, &[], format!("<html>{OUTPUT}")));
    world.upstream.enqueue(Answer::full(200, &[], format!("<html>{OUTPUT}")));
    ids.push(id_of(&world.chat(&saying("acme/fast", PROMPT)).await));
    ids.push(id_of(&world.chat(&chat_with("acme/fast", json!({ "temperature": PROMPT }))).await));
    let admin = admin(&world);
    let mut heap = Heap::default();
    for id in &ids {
        let one = shown(&admin, id, |_| true).await;
        assert_eq!(one["payload"], Value::Null, "{one}");
        heap.add("one request", one.to_string());
    }
    for path in ["/metrics", "/admin/v1/requests", "/admin/v1/usage", "/admin/v1/keys"] {
        heap.answer(path, &admin.get(path).await.ok());
    }
    // The write-ahead log exists while the gateway runs; after its end the database file holds everything.
    heap.files(&world.gateway.dir().join("data"));
    world.gateway.sigterm();
    assert!(world.gateway.ended().await.success());
    heap.files(&world.gateway.dir().join("data"));
    heap.add("stdout", world.gateway.stdout().concat());
    heap.add("stderr", world.gateway.stderr().concat());
    heap.holds_none_of(&[PROMPT, OUTPUT]);
}

#[tokio::test]
async fn what_was_said_is_shown_for_answers_streams_embeddings_and_errors() {
    let (world, client) = heard("").await;
    let body = saying("acme/fast", "Tell me of \u{0} and é, please");
    let answer = client.post_json(CHAT, &body).await.ok();
    let plain = payload(&world, &id_of(&answer)).await;
    assert_eq!(plain["request"].as_str(), Some(body.to_string().as_str()), "to the letter");
    assert_eq!(plain["response"].as_str(), Some(answer.text().as_str()), "to the letter");
    assert_eq!((&plain["request_truncated"], &plain["response_truncated"]), (&json!(false), &json!(false)));

    let wanted =
        chat_with("acme/fast", json!({ "stream": true, "stream_options": { "include_usage": true } }));
    let mut stream = client.stream(CHAT, &wanted).await;
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    stream.rest().await;
    let streamed = read(&payload(&world, &id).await, "response");
    assert_eq!(streamed["choices"][0]["message"]["content"], "Hello from upstream");
    assert_eq!(
        (&streamed["object"], &streamed["choices"][0]["finish_reason"]),
        (&json!("chat.completion"), &json!("stop"))
    );
    assert_eq!(
        (&streamed["usage"]["prompt_tokens"], &streamed["gateway"]["provider"]),
        (&json!(10), &json!("acme"))
    );

    let body = json!({ "model": "acme/embed", "input": "find me" });
    let answer = client.post_json("/v1/embeddings", &body).await.ok();
    let vectors = payload(&world, &id_of(&answer)).await;
    assert_eq!((read(&vectors, "request"), read(&vectors, "response")), (body, answer.json()));

    let answer =
        client.post_json("/v1/completions", &json!({ "model": "acme/fast", "prompt": "Once" })).await.ok();
    assert_eq!(read(&payload(&world, &id_of(&answer)).await, "response"), answer.json());

    for body in [chat("nobody/knows"), json!({ "model": "acme/fast", "messages": 5 })] {
        let answer = client.post_json(CHAT, &body).await;
        let refused = payload(&world, &id_of(&answer)).await;
        assert_eq!((read(&refused, "request"), read(&refused, "response")), (body, answer.json()));
    }
    let answer = client.post_bytes(CHAT, b"{\"not\": json, \"a\":\"\xff\\ud800\"").await;
    let refused = payload(&world, &id_of(&answer)).await;
    assert_eq!(refused["request"], "{\"not\": json, \"a\":\"\u{fffd}\\ud800\"");

    // Payloads are absent from the list, the reports and the log, and other keys cannot read them.
    let admin = admin(&world);
    let mut heap = Heap::default();
    for path in ["/admin/v1/requests", "/admin/v1/usage?format=csv", "/metrics"] {
        heap.answer(path, &admin.get(path).await.ok());
    }
    heap.add("stdout", world.gateway.stdout().concat());
    heap.add("stderr", world.gateway.stderr().concat());
    heap.holds_none_of(&["Tell me of", "find me", "Hello from upstream"]);
    assert_eq!(client.get(&format!("/admin/v1/requests/{id}")).await.status, 403);
    // An admin deletes the payload; the row stays.
    let path = format!("/admin/v1/requests/{id}/payload");
    assert_eq!(ask(&client, "DELETE", &path, &json!({})).await.status, 403);
    let gone = ask(&admin, "DELETE", &path, &json!({})).await.ok().json();
    assert_eq!(gone, json!({ "object": "payload", "id": id, "deleted": true }));
    assert_eq!(shown(&admin, &id, |_| true).await["payload"], Value::Null);
    assert_eq!(ask(&admin, "DELETE", &path, &json!({})).await.code(), "not_found");
    // Payloads of other keys are not stored.
    let other = shown(&admin, &id_of(&world.chat(&chat("acme/fast")).await.ok()), |_| true).await;
    assert_eq!(other["payload"], Value::Null);
}

#[tokio::test]
async fn secrets_and_people_are_masked_before_anything_is_written() {
    const SECRETS: [&str; 5] = [
        "alice@example.com",
        "4111 1111 1111 1111",
        "+49 171 2345678",
        "sk-gw-0123456789abcdefghijABCDEFGHIJ0123456789abcd",
        "AKIAIOSFODNN7EXAMPLE",
    ];
    let (mut world, client) = heard("").await;
    let image = format!("data:image/png;base64,{}", "QUJD".repeat(500));
    let body = chat_with(
        "acme/fast",
        json!({ "stream": true, "messages": [{ "role": "user", "content": [
            { "type": "text", "text": SECRETS.join(", ") }, { "type": "image_url", "image_url": { "url": image } } ] }] }),
    );
    // Each secret arrives in pieces of a few characters.
    let letters: Vec<char> = SECRETS.join(" and ").chars().collect();
    let pieces: Vec<String> = letters.chunks(5).map(|piece| piece.iter().collect()).collect();
    let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
    world.upstream.enqueue(Answer::sse().all(&chat_transcript(&pieces)).done());
    let mut stream = client.stream(CHAT, &body).await;
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    assert!(stream.rest().await.concat().contains("data: [DONE]"));
    let stored = payload(&world, &id).await;
    let (request, response) = (read(&stored, "request"), read(&stored, "response"));
    let content = &request["messages"][0]["content"];
    assert_eq!(content[0]["text"], "[email], [card], [phone], [secret], [secret]");
    assert_eq!(content[1]["image_url"]["url"], "[image/png, 1500 bytes]");
    let said = &response["choices"][0]["message"]["content"];
    assert_eq!(said, "[email] and [card] and [phone] and [secret] and [secret]");
    let mut heap = Heap::default();
    heap.files(&world.gateway.dir().join("data"));
    world.gateway.sigterm();
    assert!(world.gateway.ended().await.success());
    heap.files(&world.gateway.dir().join("data"));
    heap.holds_none_of(&SECRETS);
    heap.holds_none_of(&["QUJDQUJDQUJD"]);
}

#[tokio::test]
async fn masks_and_lengths_are_what_the_configuration_says() {
    let (world, client) = heard("[store.payloads]\nredact = [\"card\"]\nmax_kib = 1\n").await;
    let text = "alice@example.com 4111111111111111";
    let answer = client.post_json(CHAT, &saying("acme/fast", text)).await.ok();
    let stored = read(&payload(&world, &id_of(&answer)).await, "request");
    assert_eq!(stored["messages"][0]["content"], "alice@example.com [card]");
    world.upstream.enqueue(Answer::sse().all(&chat_transcript(&["né é ".repeat(300).as_str(); 3])).done());
    let long = chat_with(
        "acme/fast",
        json!({ "stream": true, "messages": [{ "role": "user", "content": "né ".repeat(2000) }] }),
    );
    let mut stream = client.stream(CHAT, &long).await;
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    stream.rest().await;
    let stored = payload(&world, &id).await;
    for (body, flag) in [("request", "request_truncated"), ("response", "response_truncated")] {
        let text = stored[body].as_str().expect("a text");
        assert!(text.len() <= 1024 && text.len() > 900 && text.contains("né "), "{body}: {text}");
        assert_eq!(stored[flag], true, "{body}");
    }
}

#[tokio::test]
async fn a_key_is_switched_on_and_off_while_the_gateway_runs() {
    let world = world().await;
    let admin = admin(&world);
    let (secret, key) = create(&admin, json!({ "name": "plain" })).await;
    assert_eq!(key["log_payloads"], false);
    let path = format!("/admin/v1/keys/{}", key["id"].as_str().expect("an id"));
    let client = world.gateway.client().with_key(&secret);
    for (change, on) in
        [(json!(true), true), (json!(false), false), (json!(true), true), (Value::Null, false)]
    {
        let changed = ask(&admin, "PATCH", &path, &json!({ "log_payloads": change })).await.ok().json();
        assert_eq!(changed["log_payloads"], on);
        let id = id_of(&client.post_json(CHAT, &saying("acme/fast", "hear me")).await.ok());
        let one = shown(&admin, &id, |one| one["payload"].is_null() != on).await;
        assert_eq!(one["payload"]["request"].as_str().is_some_and(|text| text.contains("hear me")), on);
    }
    let (_, key) = create(&admin, json!({ "name": "heard", "log_payloads": true })).await;
    assert_eq!(key["log_payloads"], true);
    let refused = ask(&admin, "PATCH", &path, &json!({ "log_payloads": "yes" })).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_type"));
    // Another program changes the store.
    let made = Launch::new(binary())
        .env("MODEL_GATEWAY_DATA_DIR", &world.gateway.dir().join("data").to_string_lossy())
        .env("MODEL_GATEWAY_CONFIG", &world.gateway.dir().join("gateway.toml").to_string_lossy())
        .arg("keys")
        .arg("create")
        .arg("--name")
        .arg("cli")
        .arg("--log-payloads")
        .run();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let listed = admin.get("/admin/v1/keys?name=cli").await.ok().json();
    assert_eq!(listed["data"][0]["log_payloads"], true);
}

#[tokio::test]
async fn a_client_that_leaves_has_got_so_much() {
    let (world, client) = heard("").await;
    let never = gw_testkit::Signal::new();
    let pieces = chat_transcript(&["Hello, ", "world"]);
    world.upstream.enqueue(Answer::sse().all(&pieces[..2]).wait(&never).done());
    let mut stream = client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
    let id = stream.head.header("x-request-id").expect("an id").to_owned();
    while let Some(data) = stream.data().await {
        if data.contains("Hello") {
            break;
        }
    }
    stream.close();
    let stored = read(&payload(&world, &id).await, "response");
    assert_eq!(stored["choices"][0]["message"]["content"], "Hello, ");
    assert!(stored.get("usage").is_none_or(Value::is_null), "{stored}");
}

#[tokio::test]
async fn old_payloads_are_forgotten_before_their_rows() {
    const DAY: i64 = 86_400_000;
    let now =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_millis();
    let now = i64::try_from(now).expect("a time");
    let config = format!("{CONFIG}\n[store]\nretention_days = 60\n[store.payloads]\nretention_days = 2\n");
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let data = launch.dir().join("data");
    std::fs::create_dir_all(&data).expect("a directory");
    let store = Store::open(&data.join("gateway.db")).await.expect("a store");
    let id = |days: i64| {
        let bits = u128::from((now - days * DAY).unsigned_abs()) << 80;
        String::from_utf8_lossy(&gw_wire::request_id::format(bits)).into_owned()
    };
    let entry = |days: i64| Entry {
        request_id: id(days).into(),
        at: now - days * DAY,
        key_id: "k".into(),
        status: "ok".into(),
        attempts: Vec::new(),
        ..Entry::default()
    };
    let said = || PayloadBody { text: "something".to_owned(), is_cut: false };
    let payload =
        |days: i64| Payload { request_id: id(days), at: now - days * DAY, request: said(), response: said() };
    // The newest row confirms the clock.
    store.record(&[entry(0), entry(1), entry(3), entry(50)]).await.expect("rows");
    // More rows than one purge step takes.
    let many = (0..450).map(|n| Payload { request_id: format!("req_x{n}"), ..payload(5) });
    let payloads: Vec<_> = many.chain([payload(1), payload(3), payload(50)]).collect();
    store.keep_payloads(&payloads).await.expect("payloads");
    store.close().await;
    let gateway = launch.start().await;
    let admin = gateway.client().with_key("sk-test-admin");
    for days in [3, 50] {
        let one = shown(&admin, &id(days), |one| one["payload"].is_null()).await;
        assert_eq!(one["payload"], Value::Null);
    }
    let young = shown(&admin, &id(1), |_| true).await;
    assert_eq!(young["payload"]["request"], "something");
    let store = Store::open(&data.join("gateway.db")).await.expect("the store");
    assert_eq!(store.requests(&Filter::default(), None, 10).await.expect("rows").len(), 4);
    assert!(store.payload("req_x449").await.expect("an answer").is_none());
    store.close().await;
}
