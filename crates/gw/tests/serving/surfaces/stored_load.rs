//! Stored responses under load: what one key stores, reads back and continues is bounded, and others are served (C35).

use gw_testkit::upstream::chat_body;
use gw_testkit::wait::eventually_true;
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Client, Gateway, Signal, open_files};
use serde_json::{Value, json};

use super::ask_responses;
use crate::harness::{ADMIN, METERED, PATIENT, Setup, World, chat, with};

/// A key of one request at a time.
const NARROW: &str = "sk-test-narrow-0001";
/// The bytes that are counted for one reader.
const READER: u64 = 128 << 10;

/// A gateway that stores responses in this place. Model `acme/unpriced` has no context length.
async fn stored_in(place: &str, more: &str) -> World {
    let extra = format!(
        "[responses]\nstore = \"{place}\"\n{more}\n[[keys]]\nname = \"narrow\"\nkey = \"{NARROW}\"\nmax_in_flight = 1\n"
    );
    Setup { acme: "responses = false".to_owned(), extra, server: PATIENT, ..Setup::default() }.start().await
}

fn request(input: &str) -> Value {
    json!({"model": "acme/unpriced", "input": input})
}

fn continued(id: &str, input: &str) -> Value {
    json!({"model": "acme/unpriced", "input": input, "previous_response_id": id})
}

async fn stored(client: &Client, body: &Value) -> String {
    let answer = ask_responses(client, body).await.ok().json();
    assert_eq!(answer["store"], true);
    answer["id"].as_str().expect("an id").to_owned()
}

/// Has an answer of this many bytes stored.
async fn large_answer(world: &World, client: &Client, bytes: usize) -> String {
    world.upstream.enqueue(Answer::json(200, &chat_body("m", &"word ".repeat(bytes / 5))));
    stored(client, &request("Write a book.")).await
}

async fn metric(gateway: &Gateway, name: &str) -> u64 {
    let text = gateway.client().with_key(ADMIN).get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.expect("the metrics tell it").parse().expect("a number")
}

async fn read_bytes(gateway: &Gateway) -> u64 {
    metric(gateway, "gateway_stored_response_read_bytes").await
}

/// Waits until nothing is held for readers and continuations.
async fn given_back(world: &World) {
    eventually_true("the memory is given back", async || read_bytes(&world.gateway).await == 0).await;
}

/// A reader that asks and takes nothing but the head.
pub(super) async fn stalled(client: &Client, path: &str) -> (RawClient, u16) {
    let mut wire = RawClient::connect_with_receive_buffer(client.addr, 4 * 1024).await;
    wire.send(client.head("GET", path, None, None)).await;
    let head = wire.head().await.expect("a head");
    (wire, head.status)
}

#[tokio::test]
async fn c35_reading_back_counts_in_the_limits_of_the_key() {
    let world = stored_in("memory", "").await;
    let narrow = world.gateway.client().with_key(NARROW);
    let id = large_answer(&world, &narrow, 8 << 20).await;
    let path = format!("/v1/responses/{id}");
    let (reader, status) = stalled(&narrow, &format!("{path}?stream=true")).await;
    assert_eq!(status, 200);
    // The place in flight is taken for as long as the reader is connected.
    let refused = narrow.get(&path).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limit_exceeded"), "{}", refused.text());
    assert!(refused.message().contains("in flight") && refused.header("retry-after") == Some("1"));
    drop(reader);
    given_back(&world).await;
    assert_eq!(narrow.get(&path).await.status, 200);
    assert_eq!(world.client.get(&path).await.status, 404, "another key");
    // A key of two requests a minute.
    let metered = world.gateway.client().with_key(METERED);
    let id = stored(&metered, &request("hi")).await;
    let path = format!("/v1/responses/{id}");
    assert_eq!(
        metered.get(&format!("{path}/input_items")).await.header("x-ratelimit-remaining-requests"),
        Some("0")
    );
    for (method, path) in [
        ("GET", path.clone()),
        ("GET", format!("{path}?stream=true")),
        ("GET", format!("{path}/input_items")),
        ("POST", format!("{path}/cancel")),
        ("DELETE", path.clone()),
    ] {
        let refused = metered.send(method, &path, None, None).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (429, "rate_limit_exceeded"),
            "{method} {path}"
        );
        assert!(refused.message().contains("2 requests per minute"), "{}", refused.text());
    }
}

#[tokio::test]
async fn c35_stalled_replays_share_one_copy_and_others_are_served() {
    open_files(8192);
    for place in ["memory", "database"] {
        let world = stored_in(place, "").await;
        let id = large_answer(&world, &world.client, 8 << 20).await;
        let mut readers = Vec::new();
        for at in 0..300 {
            let more = ["?stream=true", "", "/input_items"][at % 3];
            let (reader, status) = stalled(&world.client, &format!("/v1/responses/{id}{more}")).await;
            assert_eq!(status, 200, "{place}: reader {at}");
            readers.push(reader);
        }
        let held = read_bytes(&world.gateway).await;
        // A page of input items is small, so its readers may be served already.
        assert!((200 * READER..=300 * READER + (9 << 20)).contains(&held), "{place}: {held} bytes");
        let other = world.gateway.client().with_key(ADMIN);
        assert_eq!(other.post_json("/v1/chat/completions", &chat("acme/fast")).await.status, 200);
        assert_eq!(other.get("/healthz").await.status, 200);
        drop(readers);
        given_back(&world).await;
    }
}

#[tokio::test]
async fn a_reader_that_takes_nothing_is_closed_after_the_send_timeout() {
    let server = "send_timeout_ms = 200";
    let world = Setup { server, acme: "responses = false".to_owned(), ..Setup::default() }.start().await;
    let id = large_answer(&world, &world.client, 8 << 20).await;
    let (mut reader, status) = stalled(&world.client, &format!("/v1/responses/{id}?stream=true")).await;
    assert_eq!(status, 200);
    given_back(&world).await;
    assert!(reader.until_closed().await.len() < 8 << 20, "the answer is cut");
}

#[tokio::test]
async fn c35_a_stored_answer_does_not_count_as_one_that_its_client_has_not_read() {
    let world = stored_in("memory", "").await;
    let id = large_answer(&world, &world.client, 4 << 20).await;
    eventually_true("the memory of the answer is given back", async || {
        metric(&world.gateway, "gateway_answer_bytes").await == 0
    })
    .await;
    world.client.get(&format!("/v1/responses/{id}")).await.ok();
}

#[tokio::test]
async fn c35_a_key_reads_back_as_much_as_its_share() {
    open_files(8192);
    let world = stored_in("memory", "").await;
    let id = large_answer(&world, &world.client, 8 << 20).await;
    let path = format!("/v1/responses/{id}");
    let mut readers = Vec::new();
    // The share is 1024 parts, of which the document takes less than 70.
    while readers.len() < 1024 {
        let (reader, status) = stalled(&world.client, &path).await;
        if status != 200 {
            break;
        }
        readers.push(reader);
    }
    assert!((954..1024).contains(&readers.len()), "{}", readers.len());
    let refused = world.client.get(&path).await;
    assert_eq!((refused.status, refused.code().as_str()), (429, "rate_limit_exceeded"), "{}", refused.text());
    assert_eq!(refused.header("retry-after"), Some("1"));
    let held = read_bytes(&world.gateway).await;
    assert!((1023 * READER..=1024 * READER).contains(&held), "{held}");
    let other = world.gateway.client().with_key(ADMIN);
    let own = large_answer(&world, &other, 1 << 20).await;
    assert_eq!(
        other.get(&format!("/v1/responses/{own}?stream=true")).await.status,
        200,
        "another key's share"
    );
}

#[tokio::test]
async fn c35_continuations_of_a_large_conversation_are_bounded_before_it_is_opened() {
    for place in ["memory", "database"] {
        let world = stored_in(place, "").await;
        let id = stored(&world.client, &request(&"word ".repeat(1_500_000))).await;
        assert_eq!(world.upstream.hits(), 1);
        let hold = Signal::new();
        world.upstream.always(Answer::raw("").wait(&hold));
        let ask = || {
            let (client, body) = (world.client.clone(), continued(&id, &"x".repeat(100)));
            async move { ask_responses(&client, &body).await }
        };
        // Three copies of 7.5 MB for each request, within the share of a key. They are counted before anything is opened.
        let admitted: Vec<_> = (0..5).map(|_| tokio::spawn(ask())).collect();
        while read_bytes(&world.gateway).await < 5 * 3 * 7_500_000 {
            tokio::task::yield_now().await;
        }
        for _ in 0..395 {
            let answer = ask().await;
            let told = (answer.status, answer.code(), answer.header("retry-after").map(str::to_owned));
            assert_eq!(told, (429, "rate_limit_exceeded".to_owned(), Some("1".to_owned())), "{place}");
        }
        let other = world.gateway.client().with_key(ADMIN);
        assert_eq!(other.post_json("/v1/chat/completions", &chat("beta/fast")).await.status, 200);
        assert!(read_bytes(&world.gateway).await <= 128 << 20);
        assert_eq!(admitted.iter().filter(|one| one.is_finished()).count(), 0);
        admitted.iter().for_each(tokio::task::JoinHandle::abort);
        given_back(&world).await;
    }
}

/// The bytes of SQLite's files.
fn database_bytes(world: &World) -> u64 {
    let files = std::fs::read_dir(world.gateway.dir().join("data")).expect("a directory").flatten();
    let files = files.filter(|file| file.file_name().to_string_lossy().contains(".db"));
    files.map(|file| file.metadata().map_or(0, |data| data.len())).sum()
}

#[tokio::test]
async fn c35_a_conversation_counts_as_a_body_and_each_turn_is_stored_once() {
    let world = stored_in("database", "").await;
    let before = database_bytes(&world);
    let mut id = stored(&world.client, &request(&"word ".repeat(500_000))).await;
    let first = database_bytes(&world) - before;
    for turn in 0..8 {
        id = stored(&world.client, &continued(&id, &format!("turn {turn}"))).await;
    }
    let all = database_bytes(&world) - before;
    assert!(first > 2 << 20 && all < first * 2, "9 turns take {all} bytes, and the first one {first}");
    let sent = world.upstream.last().json();
    assert_eq!(sent["messages"].as_array().map(Vec::len), Some(17));
    // Turns of 18 MB: the second one is larger than a body may be.
    let large = stored(&world.client, &request(&"word ".repeat(3_600_000))).await;
    let hits = world.upstream.hits();
    let refused = ask_responses(&world.client, &continued(&large, &"word ".repeat(3_600_000))).await;
    assert_eq!((refused.status, refused.code().as_str()), (413, "request_too_large"), "{}", refused.text());
    assert!(refused.message().contains("server.body_limit_mib"), "{}", refused.message());
    assert_eq!(world.upstream.hits(), hits, "nothing is sent");
    assert_eq!(read_bytes(&world.gateway).await, 0, "nothing is opened");
    ask_responses(&world.client, &continued(&large, "short")).await.ok();
}

#[tokio::test]
async fn c35_items_and_values_of_a_conversation_count_before_it_is_opened() {
    let server = "request_limits = { max_messages = 6, max_values = 100 }";
    let extra = "[responses]\nstore = \"database\"\n".to_owned();
    let world =
        Setup { server, extra, acme: "responses = false".to_owned(), ..Setup::default() }.start().await;
    let items = |count: usize| vec![json!({"role": "user", "content": "x"}); count];
    let body = |previous: Option<&str>, items: Vec<Value>| json!({"model": "acme/unpriced", "input": items, "previous_response_id": previous});
    let first = stored(&world.client, &body(None, items(4))).await;
    let second = stored(&world.client, &body(Some(&first), items(1))).await;
    let refused = ask_responses(&world.client, &body(Some(&second), items(1))).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "array_above_max_length"),
        "{}",
        refused.text()
    );
    assert!(refused.message().contains("request_limits.max_messages"), "{}", refused.message());
    let parts = |count: usize| json!([{"role": "user", "content": vec![json!({"type": "input_text", "text": "x"}); count]}]);
    let wide = |previous: Option<&str>| json!({"model": "acme/unpriced", "input": parts(25), "previous_response_id": previous});
    let first = stored(&world.client, &wide(None)).await;
    let refused = ask_responses(&world.client, &wide(Some(&first))).await;
    assert_eq!(
        (refused.status, refused.code().as_str()),
        (400, "array_above_max_length"),
        "{}",
        refused.text()
    );
    assert!(refused.message().contains("request_limits.max_values"), "{}", refused.message());
}

#[tokio::test]
async fn c35_what_has_no_room_is_refused_before_the_call_or_says_that_it_is_not_stored() {
    for (place, more) in [("memory", "max_mib = 1"), ("database", "max_mib_per_key = 1")] {
        let world = stored_in(place, more).await;
        let large = request(&"word ".repeat(300_000));
        let refused = ask_responses(&world.client, &large).await;
        assert_eq!(
            (refused.status, refused.code().as_str()),
            (400, "response_store_full"),
            "{}",
            refused.text()
        );
        assert!(refused.message().contains("max_mib_per_key") && refused.message().contains("store: false"));
        assert_eq!(world.upstream.hits(), 0, "{place}");
        let unstored = with(large, json!({"store": false}));
        assert_eq!(ask_responses(&world.client, &unstored).await.ok().json()["store"], false);
        // An answer whose size nobody knew before.
        let words = "word ".repeat(300_000);
        world.upstream.enqueue(Answer::json(200, &chat_body("m", &words)));
        let plain = ask_responses(&world.client, &request("hi")).await.ok().json();
        assert_eq!(plain["store"], false, "{place}");
        world.upstream.enqueue(Answer::sse().all(&gw_testkit::upstream::chat_transcript(&[&words])).done());
        let body = with(request("hi"), json!({"stream": true}));
        let events = super::events(&world.client, "/v1/responses", &body).await;
        let (name, last) = events.last().expect("events");
        assert_eq!(
            (name.as_str(), &last["response"]["store"]),
            ("response.completed", &json!(false)),
            "{place}"
        );
        for answer in [&plain, &last["response"]] {
            let id = answer["id"].as_str().expect("an id");
            assert_eq!(world.client.get(&format!("/v1/responses/{id}")).await.status, 404);
        }
        // What a response in the background was promised is kept: the answer, or the reason why there is none.
        world.upstream.enqueue(Answer::sse().all(&gw_testkit::upstream::chat_transcript(&[&words])).done());
        let body = with(request("hi"), json!({"background": true}));
        let id =
            ask_responses(&world.client, &body).await.ok().json()["id"].as_str().expect("an id").to_owned();
        if place == "memory" {
            let failed = super::background::until(&world.client, &id, "failed").await;
            assert!(failed["error"]["message"].as_str().expect("text").contains("max_mib"), "{failed}");
        } else {
            super::background::until(&world.client, &id, "completed").await;
        }
    }
}

#[tokio::test]
async fn c35_the_responses_of_one_key_do_not_push_out_anothers() {
    let world = stored_in("memory", "max_mib = 2").await;
    let other = world.gateway.client().with_key(ADMIN);
    let mut small = Vec::new();
    for _ in 0..20 {
        small.push(stored(&other, &request("hi")).await);
    }
    let mut large = Vec::new();
    for _ in 0..10 {
        large.push(stored(&world.client, &request(&"word ".repeat(100_000))).await);
    }
    for id in &small {
        assert_eq!(other.get(&format!("/v1/responses/{id}")).await.status, 200, "{id}");
    }
    let mut kept = Vec::new();
    for id in &large {
        kept.push(world.client.get(&format!("/v1/responses/{id}")).await.status);
    }
    assert_eq!(kept, [404, 404, 404, 404, 404, 404, 200, 200, 200, 200]);
}
