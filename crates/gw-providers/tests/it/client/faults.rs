//! Upstreams that refuse, stall or break off.

use std::time::Duration;

use gw_providers::client::Client;
use gw_providers::settings::Timeouts;
use gw_testkit::measured::at_most;
use gw_testkit::within;
use gw_wire::failure::FailureKind;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::upstream::{Upstream, call, clocks, collect, exchange, send};

#[tokio::test]
async fn u01_a_refused_connection_fails_at_once() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let client = Client::new(&format!("http://{address}"), true, None).unwrap();
    let started = Instant::now();
    let failure = send(&client).await.unwrap_err();
    at_most("u01_a_refused_connection_fails_at_once", started.elapsed(), Duration::from_millis(50));
    assert_eq!(failure.kind, FailureKind::Unreachable);
    assert!(!failure.message.contains("127.0.0.1"), "{}", failure.message);
    assert!(failure.detail.unwrap().contains("refused"));
}

#[tokio::test]
async fn u02_a_black_hole_fails_at_the_connect_timeout() {
    // A listener with a full backlog drops every further SYN.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut fillers = Vec::new();
    for _ in 0..4 {
        fillers.push(tokio::time::timeout(Duration::from_millis(50), TcpStream::connect(address)).await);
    }
    let client = Client::new(&format!("http://{address}"), true, None).unwrap();
    let limit = Duration::from_millis(400);
    let started = Instant::now();
    let failure = client.send(call(), &Timeouts { connect: limit, ..clocks() }).await.unwrap_err();
    let took = started.elapsed();
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert!(took >= limit, "{took:?}");
    at_most("u02_a_black_hole_fails_at_the_connect_timeout", took, limit + limit / 4);
}

#[tokio::test]
async fn u03_a_name_that_does_not_resolve_fails_within_the_connect_timeout() {
    let client = Client::new("http://no-such-host.invalid", true, None).unwrap();
    let limit = Duration::from_millis(700);
    let started = Instant::now();
    let failure = client.send(call(), &Timeouts { connect: limit, ..clocks() }).await.unwrap_err();
    at_most(
        "u03_a_name_that_does_not_resolve_fails_within_the_connect_timeout",
        started.elapsed(),
        limit * 2,
    );
    assert!(matches!(failure.kind, FailureKind::Unreachable | FailureKind::Timeout), "{failure:?}");
    assert!(!failure.message.contains("no-such-host"));
}

#[tokio::test]
async fn u05_no_response_head_is_a_timeout_and_closes_the_upstream() {
    let (closed, mut was_closed) = mpsc::channel(1);
    let upstream = Upstream::start(move |_, mut peer| {
        let closed = closed.clone();
        async move {
            peer.request().await.unwrap();
            peer.closed().await;
            closed.send(()).await.unwrap();
        }
    })
    .await;
    let clocks = Timeouts { first_token: Duration::from_millis(100), ..clocks() };
    let client = upstream.client();
    let failure = client.send(call(), &clocks).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert_eq!(failure.message, "The upstream provider did not answer in time.");
    within("the connection closes", was_closed.recv()).await.unwrap();
}

#[tokio::test]
async fn u06_a_whole_body_that_stalls_is_a_timeout_at_the_idle_limit() {
    let upstream = Upstream::start(|_, mut peer| async move {
        peer.request().await.unwrap();
        peer.say("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\n12345").await;
        peer.closed().await;
    })
    .await;
    let response = send(&upstream.client()).await.unwrap();
    let started = Instant::now();
    let idle = Duration::from_millis(150);
    let failure = response.body.collect(1024, idle, started + Duration::from_secs(5)).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert!(started.elapsed() >= idle, "{:?}", started.elapsed());
    at_most("u06_a_whole_body_that_stalls_is_a_timeout_at_the_idle_limit", started.elapsed(), idle * 3);
}

#[tokio::test]
async fn u07_a_reset_mid_body_is_reported_within_100_ms() {
    let upstream = Upstream::start(|_, mut peer| async move {
        peer.request().await.unwrap();
        peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
        // Half a chunk, which is not a regular end.
        peer.say("5\r\nwo").await;
        peer.reset();
    })
    .await;
    let client = upstream.client();
    let mut response = send(&client).await.unwrap();
    let started = Instant::now();
    let failure = loop {
        match response.body.chunk().await {
            Some(Ok(_)) => {}
            Some(Err(failure)) => break failure,
            None => panic!("a broken body ended cleanly"),
        }
    };
    assert_eq!(failure.kind, FailureKind::StreamBroken);
    at_most("u07_a_reset_mid_body_is_reported_within_100_ms", started.elapsed(), Duration::from_millis(100));
    assert!(response.body.chunk().await.is_none());
}

#[tokio::test]
async fn u08_an_unfinished_chunked_body_is_not_a_clean_end() {
    let upstream =
        Upstream::saying_once("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
    let failure = exchange(&upstream.client()).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::InvalidResponse);
}

#[tokio::test]
async fn u09_a_body_shorter_than_its_content_length_fails_and_is_not_pooled() {
    let upstream = Upstream::saying_once("HTTP/1.1 200 OK\r\ncontent-length: 20\r\n\r\n{\"id\":").await;
    let client = upstream.client();
    for expected in 1..=2 {
        let failure = exchange(&client).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidResponse);
        assert_eq!(upstream.connections(), expected);
    }
}

#[tokio::test]
async fn u28_a_trickle_ends_at_the_total_limit() {
    let upstream = Upstream::start(|_, mut peer| async move {
        peer.request().await.unwrap();
        peer.say("HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n").await;
        let mut pace = tokio::time::interval(Duration::from_millis(20));
        for _ in 0..200 {
            pace.tick().await;
            peer.say(".").await;
        }
    })
    .await;
    let response = send(&upstream.client()).await.unwrap();
    let started = Instant::now();
    let total = Duration::from_millis(300);
    let failure = response.body.collect(1 << 20, Duration::from_secs(5), started + total).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::Timeout);
    assert!(started.elapsed() >= total);
    at_most("u28_a_trickle_ends_at_the_total_limit", started.elapsed(), total * 2);
}

#[tokio::test]
async fn a_body_over_the_cap_is_refused() {
    let upstream =
        Upstream::saying(format!("HTTP/1.1 200 OK\r\ncontent-length: 5000\r\n\r\n{}", "x".repeat(5000)));
    let response = send(&upstream.await.client()).await.unwrap();
    let limits = (Duration::from_secs(5), Instant::now() + Duration::from_secs(5));
    let failure = response.body.collect(4999, limits.0, limits.1).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::InvalidResponse);
}

#[tokio::test]
async fn dropping_a_body_half_way_closes_the_upstream_within_a_second() {
    let (closed, mut was_closed) = mpsc::channel(1);
    let upstream = Upstream::start(move |_, mut peer| {
        let closed = closed.clone();
        async move {
            peer.request().await.unwrap();
            peer.say("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
            peer.closed().await;
            closed.send(()).await.unwrap();
        }
    })
    .await;
    let client = upstream.client();
    let mut response = send(&client).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "hello");
    drop(response);
    within("the connection closes", was_closed.recv()).await.unwrap();
    let failure = send(&client).await;
    assert!(failure.is_ok(), "a fresh connection serves the next call");
    assert_eq!(upstream.connections(), 2);
}

#[tokio::test]
async fn dropping_the_call_before_the_head_closes_the_upstream_too() {
    let (closed, mut was_closed) = mpsc::channel(1);
    let upstream = Upstream::start(move |_, mut peer| {
        let closed = closed.clone();
        async move {
            peer.request().await.unwrap();
            peer.closed().await;
            closed.send(()).await.unwrap();
        }
    })
    .await;
    let client = upstream.client();
    let abandoned = tokio::time::timeout(Duration::from_millis(100), send(&client)).await;
    assert!(abandoned.is_err());
    within("the connection closes", was_closed.recv()).await.unwrap();
}

#[tokio::test]
async fn a_finished_body_is_empty_from_then_on() {
    let upstream = Upstream::saying("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
    let mut response = send(&upstream.client()).await.unwrap();
    assert_eq!(response.body.chunk().await.unwrap().unwrap(), "{}");
    assert!(response.body.chunk().await.is_none());
    assert!(response.body.chunk().await.is_none());
    assert_eq!(collect(response).await.unwrap(), "");
}
