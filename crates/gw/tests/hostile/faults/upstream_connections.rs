//! Connections to upstreams that close early, send too much or never end (U9, U26 to U28 of tests/guarantees.md).

use std::time::{Duration, Instant};

use gw_testkit::measured::at_most;
use gw_testkit::upstream::{Step, chat_body};
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, FakeUpstream, Response, within};
use serde_json::json;
use tokio::io::AsyncReadExt;

use crate::faults::upstream_network::{CHAT, PLAIN, peer, url, with_spare};
use crate::harness::answers::{attempts, pairs};
use crate::harness::{Setup, World, assert_error, chat, chat_with};

/// Sends requests on one connection, so that the gateway uses its pooled upstream connection again.
struct Asker<'w>(&'w World, RawClient);

impl<'w> Asker<'w> {
    async fn of(world: &'w World) -> Self {
        Self(world, RawClient::connect(world.gateway.addr).await)
    }

    async fn ask(&mut self) -> Response {
        let Self(world, wire) = self;
        let body = chat("acme/fast").to_string();
        wire.send(world.client.head("POST", CHAT, Some("application/json"), Some(body.len())) + &body).await;
        wire.response().await.expect("an answer")
    }
}

fn connections(upstream: &FakeUpstream) -> Vec<usize> {
    upstream.requests().iter().map(|request| request.connection).collect()
}

#[tokio::test]
async fn u26_a_pooled_connection_that_is_closed_as_we_write() {
    let world = Setup { routing: PLAIN, ..Setup::default() }.start().await;
    let mut asker = Asker::of(&world).await;
    // Closed before the request was written: the client notices nothing, and each call is made once.
    world.upstream.respond_with(|_| Answer::json(200, &chat_body("m", "x")).reset());
    for round in 1..=20 {
        let body = asker.ask().await.ok().json();
        assert_eq!((attempts(&body).len(), world.upstream.hits()), (1, round));
        world.upstream.last().until_closed().await;
    }
    // Closed after the request was written, before or within the answer's head: the upstream may have served it, so the gateway
    // does not send it again silently.
    let head = Answer::raw("HTTP/1.1 200 OK\r\nx").close();
    for ending in [Answer::default().close(), Answer::default().reset(), head] {
        world.upstream.always(Answer::json(200, &chat_body("m", "x")));
        asker.ask().await.ok();
        let before = (world.upstream.hits(), world.upstream.connections());
        world.upstream.always(ending);
        let answer = asker.ask().await;
        assert_error("written", &answer, 502, "upstream_error", "upstream_unreachable");
        let after = (world.upstream.hits(), world.upstream.connections());
        assert_eq!(after, (before.0 + 1, before.1), "once, on the pooled one");
    }
}

#[tokio::test]
async fn u26_with_a_retry_both_attempts_are_told_and_one_call_is_completed() {
    let world = crate::harness::world().await;
    let mut asker = Asker::of(&world).await;
    asker.ask().await.ok();
    world.upstream.enqueue(Answer::default().close());
    let body = asker.ask().await.ok().json();
    let expected = [("acme/fast", "upstream_unreachable"), ("acme/fast", "ok")];
    assert_eq!(attempts(&body), pairs(&expected), "the operator asked for one retry, and it is shown");
    assert_eq!(connections(&world.upstream), [0, 0, 1]);
}

#[tokio::test]
async fn u27_bytes_after_an_answer_cost_the_connection_and_nothing_else() {
    let world = Setup { routing: PLAIN, ..Setup::default() }.start().await;
    let stray = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwrong";
    let mut asker = Asker::of(&world).await;
    for round in 0..5 {
        let answer = Answer::json(200, &chat_body("m", &format!("answer {round}"))).bytes(stray);
        world.upstream.enqueue(answer);
        let body = asker.ask().await.ok().json();
        assert_eq!(body["choices"][0]["message"]["content"], format!("answer {round}"));
    }
    asker.ask().await.ok();
    asker.ask().await.ok();
    assert_eq!(connections(&world.upstream), [0, 1, 2, 3, 4, 5, 5], "a new one each time, until it behaves");
}

#[tokio::test]
async fn u27_an_answer_while_we_upload_is_read_and_its_connection_closed() {
    let early = json!({ "error": { "message": "too much", "type": "x", "code": "too_much" } }).to_string();
    let whole = chat_body("m", "clean").to_string();
    let says = move |index: usize| {
        let (status, body) = if index == 0 { ("413 Too Large", &early) } else { ("200 OK", &whole) };
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )
        .into_bytes()
    };
    let mut peer = peer(says).await;
    let world = Setup { acme_url: Some(url(peer.address)), routing: PLAIN, ..Setup::default() }.start().await;
    let long = "x".repeat(24 << 20);
    let body = json!({ "model": "acme/fast", "messages": [{ "role": "user", "content": long }] });
    let answer = world.chat(&body).await;
    assert_eq!((answer.status, answer.code().as_str()), (413, "request_too_large"), "{}", answer.text());
    let mut first = within("the first connection", peer.left.recv()).await.expect("a connection");
    let mut rest = Vec::new();
    // The connection ends, with or without a reset, before the upload is complete.
    let _reset = within("it is closed", first.read_to_end(&mut rest)).await;
    assert!(rest.len() < long.len(), "{} of {}", rest.len(), long.len());
    let body = world.chat_ok(&chat("acme/fast")).await;
    assert_eq!(body["choices"][0]["message"]["content"], "clean");
}

#[tokio::test]
async fn u28_a_trickle_ends_at_the_total_limit() {
    let timeouts = "first_token_ms = 1500\nidle_ms = 30000\ntotal_ms = 1500";
    let world = Setup { routing: PLAIN, timeouts, ..Setup::default() }.start().await;
    let drip = |status: &str| {
        let head = format!(
            "HTTP/1.1 {status}\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\ncontent-type: application/json\r\n"
        );
        let chunked = Answer::raw(format!("{head}transfer-encoding: chunked\r\n\r\n"));
        chunked.then(Step::Endless(b" ".to_vec(), Duration::from_millis(50)))
    };
    world.upstream.always(drip("200 OK"));
    for streamed in [false, true] {
        let start = Instant::now();
        let answer = world.chat(&chat_with("acme/fast", json!({ "stream": streamed }))).await;
        assert_error("trickle", &answer, 504, "upstream_error", "upstream_timeout");
        let took = start.elapsed();
        assert!(took >= Duration::from_millis(1500), "{took:?}");
        at_most("u28_a_trickle_ends_at_the_total_limit", took, Duration::from_secs(8));
        world.upstream.last().until_closed().await;
    }
    // A body that arrives too slowly ends at the idle timeout, long before the total timeout.
    let timeouts = "first_token_ms = 60000\nidle_ms = 400\ntotal_ms = 60000";
    let slow = Setup { routing: PLAIN, timeouts, ..Setup::default() }.start().await;
    let begun = Answer::raw(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n",
    );
    slow.upstream.always(begun.then(Step::Endless(b"1\r\n9\r\n".to_vec(), Duration::from_millis(50))));
    let start = Instant::now();
    let answer = slow.chat(&chat("acme/fast")).await;
    assert_error("drip", &answer, 504, "upstream_error", "upstream_timeout");
    at_most("u28_a_trickle_ends_at_the_total_limit", start.elapsed(), Duration::from_secs(10));
    // The status of an error is enough for a fallback: the gateway does not wait for the body.
    let timeouts = "first_token_ms = 60000\nidle_ms = 60000\ntotal_ms = 60000";
    let world = Setup { routing: PLAIN, timeouts, ..Setup::default() }.start().await;
    for body in [drip("500 Broken"), Answer::raw("HTTP/1.1 500 Broken\r\ncontent-length: 9\r\n\r\n").hang()] {
        world.upstream.always(body);
        let start = Instant::now();
        let body = world.chat_ok(&with_spare()).await;
        assert_eq!(attempts(&body), pairs(&[("acme/fast", "upstream_error"), ("beta/spare", "ok")]));
        at_most("u28_a_trickle_ends_at_the_total_limit", start.elapsed(), Duration::from_secs(10));
        world.upstream.last().until_closed().await;
    }
}
