//! Responses in the background keep what their requests took: the key's places in flight, its share of every pool, the
//! memory of the body. They end with one line of the log, one payload and one row.

use gw_testkit::upstream::{Recorded, chat_transcript, sse_data};
use gw_testkit::wait::{eventually_async, eventually_true};
use gw_testkit::{Answer, Client, FakeUpstream, Gateway, Launch, Redis, Response, Signal, open_files};
use serde_json::{Value, json};

use super::background::{in_background, until};
use super::stored_load::stalled;
use super::{ask_responses, response};
use crate::harness::{ADMIN, METERED, Setup, World, binary, chat, logged, with};

/// A key that may have one request in flight.
const SINGLE: &str = "sk-test-single-place";
/// A key whose payloads are stored.
const LOGGED: &str = "sk-test-logged-payloads";

/// A gateway whose upstream has no Responses API.
async fn chat_world(server: &'static str, routing: &'static str) -> World {
    let extra = format!(
        "[[keys]]\nname = \"single\"\nkey = \"{SINGLE}\"\nmax_in_flight = 1\n\
         [[keys]]\nname = \"logged\"\nkey = \"{LOGGED}\"\nlog_payloads = true\n"
    );
    let acme = "responses = false".to_owned();
    Setup { acme, extra, server, routing, ..Setup::default() }.start().await
}

/// An answer that begins and never ends.
fn endless(_: &Recorded) -> Answer {
    Answer::sse().all(&[sse_data(&json!({"content": "Hello"}), None)]).hang()
}

async fn begin(client: &Client, body: &Value) -> String {
    ask_responses(client, body).await.ok().json()["id"].as_str().expect("an id").to_owned()
}

/// A refusal that says when to come again.
#[track_caller]
fn assert_refused(answer: &Response, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{}", answer.text());
    assert!(answer.header("retry-after").is_some(), "{}", answer.text());
}

async fn cancel(client: &Client, id: &str) {
    client.send("POST", &format!("/v1/responses/{id}/cancel"), None, None).await.ok();
}

async fn metric(gateway: &Gateway, name: &str) -> u64 {
    let text = gateway.client().with_key(ADMIN).get("/metrics").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    line.expect("the metrics tell it").parse().expect("a number")
}

async fn until_metric(gateway: &Gateway, name: &str, wanted: u64) {
    eventually_true("the gauge has the value", async || metric(gateway, name).await == wanted).await;
}

#[tokio::test]
async fn c35_a_response_in_the_background_is_a_request_in_flight_of_its_key() {
    let world = chat_world("", "").await;
    world.upstream.respond_with(endless);
    let client = world.gateway.client().with_key(SINGLE);
    let id = begin(&client, &in_background()).await;
    until(&client, &id, "in_progress").await;
    let second = ask_responses(&client, &in_background()).await;
    assert_refused(&second, 429, "rate_limit_exceeded");
    let chat = client.post_json("/v1/chat/completions", &chat("acme/fast")).await;
    assert_refused(&chat, 429, "rate_limit_exceeded");
    assert_eq!(metric(&world.gateway, "gateway_background_responses").await, 1);
    cancel(&client, &id).await;
    until_metric(&world.gateway, "gateway_background_responses", 0).await;
    let next = begin(&client, &in_background()).await;
    until(&client, &next, "in_progress").await;
}

#[tokio::test]
async fn c35_a_response_in_the_background_can_be_polled_at_every_replica() {
    let (redis, upstream) = (Redis::start().await, FakeUpstream::start().await);
    upstream.respond_with(endless);
    let extra = format!(
        "[responses]\nstore = \"database\"\n[store]\nurl = \"{}\"\n[redis]\nurl = \"{}\"\ntimeout_ms = 2000\n\
         [[keys]]\nname = \"single\"\nkey = \"{SINGLE}\"\nmax_in_flight = 1\n",
        gw_testkit::postgres::database(),
        redis.url()
    );
    let setup = Setup { acme: "responses = false".to_owned(), extra, ..Setup::default() };
    let config = setup.config(&upstream.base_url(), &upstream.base_url());
    let start = || Launch::new(binary()).file("gateway.toml", &config).start();
    let (one, two) = tokio::join!(start(), start());
    let (here, there) = (one.client().with_key(SINGLE), two.client().with_key(SINGLE));
    let id = begin(&here, &in_background()).await;
    until(&here, &id, "in_progress").await;
    let polled = there.get(&format!("/v1/responses/{id}")).await.ok();
    assert_eq!(polled.json()["status"], "in_progress", "{}", polled.text());
    // The place is taken for everything else.
    let chat = there.post_json("/v1/chat/completions", &chat("acme/fast")).await;
    assert_refused(&chat, 429, "rate_limit_exceeded");
    assert_refused(&there.get("/v1/responses/resp_none").await, 429, "rate_limit_exceeded");
    cancel(&there, &id).await;
}

#[tokio::test]
async fn c36_a_key_has_its_share_of_the_background_places_and_others_find_room() {
    const SHARE: usize = 64;
    let world = chat_world("", "").await;
    world.upstream.respond_with(endless);
    let mut ids = Vec::new();
    for _ in 0..SHARE {
        ids.push(begin(&world.client, &in_background()).await);
    }
    let refused = ask_responses(&world.client, &in_background()).await;
    assert_refused(&refused, 429, "rate_limit_exceeded");
    assert_eq!(refused.header("retry-after"), Some("5"));
    world.upstream.request(SHARE - 1).await;
    assert_eq!(world.upstream.hits(), SHARE, "the refused one calls nobody");
    let other = world.gateway.client().with_key(METERED);
    let id = begin(&other, &in_background()).await;
    until(&other, &id, "in_progress").await;
    // The key with the most is refused until it holds its share of what the other one leaves.
    cancel(&world.client, &ids[0]).await;
    until_metric(&world.gateway, "gateway_background_responses", SHARE as u64).await;
    begin(&world.client, &in_background()).await;
    let refused = ask_responses(&world.client, &in_background()).await;
    assert_refused(&refused, 429, "rate_limit_exceeded");
}

#[tokio::test]
async fn c36_bodies_of_background_responses_count_until_they_end_and_a_key_has_its_share() {
    const BODY_BYTES: usize = 2 << 20;
    let world = chat_world("body_limit_mib = 3\nbody_memory_mib = 10", "").await;
    world.upstream.respond_with(endless);
    let large = with(in_background(), json!({"input": "x".repeat(BODY_BYTES)}));
    let held = "gateway_request_body_bytes";
    let mut ids = Vec::new();
    for count in 1..=2_u64 {
        ids.push(begin(&world.client, &large).await);
        let bytes = metric(&world.gateway, held).await;
        assert_eq!(bytes, count * large.to_string().len() as u64);
    }
    let refused = ask_responses(&world.client, &large).await;
    assert_refused(&refused, 503, "no_available_provider");
    // Another key has room.
    let other = world.gateway.client().with_key(METERED);
    ids.push(begin(&other, &large).await);
    for (client, id) in [(&world.client, &ids[0]), (&world.client, &ids[1]), (&other, &ids[2])] {
        cancel(client, id).await;
    }
    until_metric(&world.gateway, held, 0).await;
}

#[tokio::test]
async fn c02_a_cancelled_response_in_the_background_is_cancelled_also_where_disconnects_drain() {
    let world = chat_world("", "on_disconnect = \"drain\"").await;
    world.upstream.respond_with(endless);
    let id = begin(&world.client, &in_background()).await;
    let upstream = world.upstream.request(0).await;
    until(&world.client, &id, "in_progress").await;
    cancel(&world.client, &id).await;
    upstream.until_closed().await;
    let line = world.gateway.log_with("client_closed_request").await;
    let row =
        logged(&world.gateway.client().with_key(ADMIN), line["request_id"].as_str().expect("an id")).await;
    assert_eq!(row["status"], "client_closed_request");
    assert_eq!(until(&world.client, &id, "cancelled").await["id"], id.as_str());
}

#[tokio::test]
async fn the_log_and_the_payload_of_a_background_response_hold_the_answer() {
    let world = chat_world("", "").await;
    let hold = Signal::new();
    world.upstream.enqueue(
        Answer::sse()
            .all(&[sse_data(&json!({"content": "Hello"}), None)])
            .wait(&hold)
            .all(&chat_transcript(&[" again"]))
            .done(),
    );
    let client = world.gateway.client().with_key(LOGGED);
    let queued = ask_responses(&client, &in_background()).await.ok();
    let request_id = queued.header("x-request-id").expect("an id").to_owned();
    let id = queued.json()["id"].as_str().expect("an id").to_owned();
    until(&client, &id, "in_progress").await;
    assert!(world.gateway.logs().iter().all(|line| line["request_id"] != *request_id), "it has not ended");
    hold.fire();
    until(&client, &id, "completed").await;
    let line = world.gateway.log_of(&request_id).await;
    assert_eq!((&line["status"], &line["code"]), (&json!(200), &json!("ok")), "{line}");
    assert_eq!((&line["model"], &line["completion_tokens"]), (&json!("acme/fast"), &json!(5)), "{line}");
    let admin = world.gateway.client().with_key(ADMIN);
    let payload = eventually_async("the payload is stored", async || {
        if let Some(answer) = logged(&admin, &request_id).await["payload"]["response"].as_str() {
            return Some(answer.to_owned());
        }
        None
    })
    .await;
    assert!(payload.contains("Hello again") && payload.contains("completed"), "{payload}");
}

#[tokio::test]
async fn the_kept_events_of_an_ended_response_wait_for_no_client() {
    let world = chat_world("", "").await;
    let text = "x".repeat(600_000);
    for _ in 0..2 {
        world.upstream.enqueue(Answer::sse().all(&chat_transcript(&[&text])).done());
    }
    let client = world.gateway.client().with_key(LOGGED);
    let mut ids = Vec::new();
    for _ in 0..2 {
        let id = begin(&client, &in_background()).await;
        until(&client, &id, "completed").await;
        ids.push(id);
    }
    until_metric(&world.gateway, "gateway_stream_event_bytes", 0).await;
    for id in ids {
        let followed = client.get(&format!("/v1/responses/{id}?stream=true")).await.ok();
        assert!(followed.text().contains(&text), "{} bytes", followed.text().len());
    }
}

#[tokio::test]
async fn a_deleted_response_never_comes_back() {
    let world = chat_world("", "").await;
    let mut running = Vec::new();
    for _ in 0..8 {
        let hold = Signal::new();
        let begun = Answer::sse().all(&[sse_data(&json!({"content": "Hello"}), None)]);
        world.upstream.enqueue(begun.wait(&hold).all(&chat_transcript(&[" again"])).done());
        running.push((begin(&world.client, &in_background()).await, hold));
    }
    for (id, hold) in &running {
        hold.fire();
        let path = format!("/v1/responses/{id}");
        // Whichever comes first: the deletion finds the response, and stands.
        let cancel = format!("{path}/cancel");
        let (_, deleted) = tokio::join!(
            world.client.send("POST", &cancel, None, None),
            world.client.send("DELETE", &path, None, None),
        );
        deleted.ok();
    }
    until_metric(&world.gateway, "gateway_background_responses", 0).await;
    for (id, _) in &running {
        assert_eq!(world.client.get(&format!("/v1/responses/{id}")).await.status, 404);
    }
    world.chat_ok(&chat("acme/fast")).await;
}

#[tokio::test]
async fn c35_followers_of_a_running_response_count_as_readers() {
    open_files(8192);
    let world = Setup { acme: "responses = false".to_owned(), ..Setup::default() }.start().await;
    let text = "word ".repeat(100_000);
    world.upstream.enqueue(Answer::sse().all(&[sse_data(&json!({"content": text}), None)]).hang());
    let id = ask_responses(&world.client, &in_background()).await.ok().json()["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let path = format!("/v1/responses/{id}?stream=true");
    let mut followers = Vec::new();
    // The share of a key is 1024 readers.
    let refused = loop {
        let (follower, status) = stalled(&world.client, &path).await;
        if status != 200 || followers.len() > 1024 {
            break status;
        }
        followers.push(follower);
    };
    assert_eq!((refused, followers.len()), (429, 1024));
    // The key still polls, and another key reads and follows.
    assert_eq!(world.client.get(&format!("/v1/responses/{id}")).await.ok().json()["status"], "in_progress");
    let other = world.gateway.client().with_key(ADMIN);
    let own = ask_responses(&other, &response("acme/fast")).await.ok().json();
    let own = format!("/v1/responses/{}", own["id"].as_str().expect("an id"));
    assert_eq!(other.get(&own).await.status, 200);
    assert_eq!(other.get(&format!("{own}?stream=true")).await.status, 200);
    drop(followers);
    eventually_true("the followers' memory is given back", async || {
        stalled(&world.client, &path).await.1 == 200
    })
    .await;
}
