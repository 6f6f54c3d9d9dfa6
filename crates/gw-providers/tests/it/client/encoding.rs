//! Encoded bodies that the client did not request.

use std::io::Write;
use std::time::{Duration, Instant};

use flate2::Compression;
use flate2::write::GzEncoder;
use gw_testkit::measured::at_most;
use gw_wire::failure::FailureKind;

use crate::upstream::{Upstream, exchange, send};

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn answer(coding: &str, body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: {}\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

#[tokio::test]
async fn gzip_is_decoded_and_the_connection_reused() {
    let text = "hello ".repeat(50_000);
    for coding in ["gzip", "x-gzip", "GZip"] {
        let upstream = Upstream::saying(answer(coding, &gzip(text.as_bytes()))).await;
        let client = upstream.client();
        for _ in 0..2 {
            let (_, body) = exchange(&client).await.unwrap();
            assert!(body == text.as_bytes());
        }
        assert_eq!(upstream.connections(), 1);
    }
    let two = [gzip(b"one "), gzip(b"two")].concat();
    let upstream = Upstream::saying(answer("gzip", &two)).await;
    assert_eq!(exchange(&upstream.client()).await.unwrap().1, "one two");
}

#[tokio::test]
async fn a_gzip_stream_emits_every_flushed_event_at_once() {
    let upstream = Upstream::start(|_, mut peer| async move {
        peer.request().await.unwrap();
        peer.say("HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\n\r\n").await;
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"data: 1\n\n").unwrap();
        encoder.flush().unwrap();
        peer.say(std::mem::take(encoder.get_mut())).await;
        peer.closed().await;
    })
    .await;
    let mut response = send(&upstream.client()).await.unwrap();
    let chunk = tokio::time::timeout(Duration::from_secs(2), response.body.chunk()).await.unwrap();
    assert_eq!(chunk.unwrap().unwrap(), "data: 1\n\n");
}

#[tokio::test]
async fn damaged_gzip_is_an_invalid_response() {
    let sound = gzip(&b"hello ".repeat(1000));
    let mut flipped = sound.clone();
    let last = flipped.len() - 5;
    flipped[last] ^= 1;
    for body in [&sound[..sound.len() - 4], &flipped, b"not gzip at all", b""] {
        let upstream = Upstream::saying(answer("gzip", body)).await;
        let failure = exchange(&upstream.client()).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidResponse);
    }
}

#[tokio::test]
async fn u23_a_gzip_bomb_stops_at_the_cap() {
    // A MiB of gzip members that hold a MiB each would decode to a GiB.
    let bomb = gzip(&vec![0; 1 << 20]).repeat(1000);
    assert!(bomb.len() < 3 << 19, "{}", bomb.len());
    let upstream = Upstream::saying(answer("gzip", &bomb)).await;
    let client = upstream.client();
    let started = Instant::now();
    let failure = exchange(&client).await.unwrap_err();
    assert_eq!(failure.kind, FailureKind::InvalidResponse);
    at_most("u23_a_gzip_bomb_stops_at_the_cap", started.elapsed(), Duration::from_secs(1));

    let mut response = send(&client).await.unwrap();
    for _ in 0..100 {
        assert!(response.body.chunk().await.unwrap().unwrap().len() <= 128 * 1024);
    }
}

#[tokio::test]
async fn u23_other_encodings_are_refused() {
    for coding in ["br", "zstd", "deflate", "gzip, gzip", "gzip\r\ncontent-encoding: br"] {
        let upstream = Upstream::saying(answer(coding, b"..")).await;
        let failure = send(&upstream.client()).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidResponse, "{coding}");
    }
    let upstream = Upstream::saying(answer("identity", b"{}")).await;
    assert_eq!(exchange(&upstream.client()).await.unwrap().1, "{}");
}

#[tokio::test]
async fn the_status_of_an_error_counts_even_when_its_body_cannot_be_read() {
    let upstream =
        Upstream::saying("HTTP/1.1 429 Slow Down\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\n..");
    let (status, body) = exchange(&upstream.await.client()).await.unwrap();
    assert_eq!((status, body.len()), (429, 0));
}
