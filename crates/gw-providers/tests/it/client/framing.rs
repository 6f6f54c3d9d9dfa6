//! Response heads and framings, valid and invalid.

use std::time::Duration;

use gw_wire::failure::FailureKind;

use crate::upstream::{Upstream, exchange, send};

/// A status and a body, or the failure.
type Expected = Result<(u16, &'static str), FailureKind>;

async fn answer(bytes: impl Into<Vec<u8>>) -> Result<(u16, bytes::Bytes), gw_wire::failure::Failure> {
    let upstream = Upstream::saying_once(bytes).await;
    let client = upstream.client();
    tokio::time::timeout(Duration::from_secs(2), exchange(&client)).await.expect("hangs")
}

#[tokio::test]
async fn u20_heads_over_their_limits_are_refused() {
    let many = (0..1000).map(|n| format!("x-{n}: v\r\n")).collect::<String>();
    let huge = format!("x-huge: {}\r\n", "v".repeat(1 << 20));
    let injected = "x-a: one\rtwo\r\n".to_owned();
    let nul = "x-a: one\0two\r\n".to_owned();
    for headers in [many, huge, injected, nul] {
        let failure =
            answer(format!("HTTP/1.1 200 OK\r\n{headers}content-length: 2\r\n\r\n{{}}")).await.unwrap_err();
        assert_eq!(failure.kind, FailureKind::InvalidResponse, "{failure:?} for {headers:.20}");
    }
}

#[tokio::test]
async fn u20_a_hundred_headers_are_fine() {
    let headers = (0..99).map(|n| format!("x-{n}: v\r\n")).collect::<String>();
    let (status, body) =
        answer(format!("HTTP/1.1 200 OK\r\n{headers}content-length: 2\r\n\r\n{{}}")).await.unwrap();
    assert_eq!((status, &body[..]), (200, &b"{}"[..]));
}

#[tokio::test]
async fn u21_redirects_are_not_followed() {
    let other = Upstream::saying("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    for status in [301, 302, 303, 307, 308] {
        let upstream = Upstream::saying(format!(
            "HTTP/1.1 {status} Elsewhere\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n",
            other.address
        ))
        .await;
        let (seen, _) = exchange(&upstream.client()).await.unwrap();
        assert_eq!(seen, status);
        assert_eq!(upstream.requests(), 1);
    }
    assert_eq!(other.connections(), 0);
}

#[tokio::test]
async fn u22_every_kind_of_head_has_a_defined_result() {
    let whole = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";
    let cases: &[(String, Expected)] = &[
        (format!("HTTP/1.1 100 Continue\r\n\r\n{whole}"), Ok((200, "{}"))),
        (format!("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n{whole}"), Ok((200, "{}"))),
        ("HTTP/1.1 204 No Content\r\n\r\n".to_owned(), Ok((204, ""))),
        ("HTTP/1.1 304 Not Modified\r\ncontent-length: 7\r\n\r\n".to_owned(), Ok((304, ""))),
        (
            "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n".to_owned(),
            Err(FailureKind::InvalidResponse),
        ),
        ("{\"id\":1}\n".to_owned(), Err(FailureKind::InvalidResponse)),
        ("HTTP/1.0 200 OK\r\n\r\n{}".to_owned(), Ok((200, "{}"))),
        ("HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\n{}".to_owned(), Ok((200, "{}"))),
        ("HTTP/1.1 200 OK\r\n\r\n{}".to_owned(), Ok((200, "{}"))),
        ("HTTP/2.0 200 OK\r\n\r\n{}".to_owned(), Err(FailureKind::InvalidResponse)),
        ("HTTP/1.1 999 Odd\r\ncontent-length: 0\r\n\r\n".to_owned(), Err(FailureKind::InvalidResponse)),
        (
            "HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-length: 3\r\n\r\n{}".to_owned(),
            Err(FailureKind::InvalidResponse),
        ),
        ("HTTP/1.1 200 OK\r\ncontent-length: -2\r\n\r\n{}".to_owned(), Err(FailureKind::InvalidResponse)),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n{}".to_owned(),
            Err(FailureKind::InvalidResponse),
        ),
        (
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nx-t: 1\r\n\r\n".to_owned(),
            Ok((200, "{}")),
        ),
        ("HTTP/1.1 200 OK\r\ncontent-len".to_owned(), Err(FailureKind::Unreachable)),
        (String::new(), Err(FailureKind::Unreachable)),
    ];
    for (bytes, expected) in cases {
        let outcome = answer(bytes.as_str()).await;
        let outcome = outcome.map_err(|failure| failure.kind);
        let expected = expected.map(|(status, body)| (status, bytes::Bytes::from_static(body.as_bytes())));
        assert_eq!(outcome, expected, "{bytes:?}");
    }
}

#[tokio::test]
async fn u27_bytes_after_the_answer_cost_the_connection_and_not_the_next_call() {
    let stray = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwrong";
    let upstream = Upstream::saying(format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{{}}{stray}")).await;
    let client = upstream.client();
    for expected in 1..=3 {
        let (_, body) = exchange(&client).await.unwrap();
        assert_eq!(body, "{}");
        assert_eq!(upstream.connections(), expected);
    }
}

#[tokio::test]
async fn u27_bytes_that_come_later_on_an_idle_connection_cost_it_too() {
    let (stray_is_out, mut stray_was_sent) = tokio::sync::mpsc::channel(8);
    let upstream = Upstream::start(move |_, mut peer| {
        let stray_is_out = stray_is_out.clone();
        async move {
            peer.request().await.unwrap();
            peer.say("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").await;
            peer.say("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nwrong").await;
            stray_is_out.send(()).await.unwrap();
            peer.closed().await;
        }
    })
    .await;
    let client = upstream.client();
    for _ in 0..3 {
        let (_, body) = exchange(&client).await.unwrap();
        assert_eq!(body, "{}");
        stray_was_sent.recv().await.unwrap();
    }
}

#[tokio::test]
async fn u27_an_answer_before_the_request_is_written_is_read_and_the_connection_dropped() {
    let upstream = Upstream::start(|_, mut peer| async move {
        peer.socket.readable().await.unwrap();
        peer.say("HTTP/1.1 413 Too Large\r\ncontent-length: 3\r\n\r\nbig").await;
        peer.closed().await;
    })
    .await;
    let client = upstream.client();
    for expected in 1..=2 {
        let mut call = crate::upstream::call();
        call.body = vec![b'x'; 64 << 20].into();
        let response = client.send(call, &crate::upstream::clocks()).await.unwrap();
        assert_eq!(response.status, 413);
        assert_eq!(crate::upstream::collect(response).await.unwrap(), "big");
        assert_eq!(upstream.connections(), expected);
    }
}

#[tokio::test]
async fn no_failure_shows_the_client_where_the_upstream_is() {
    for bytes in ["", "HTTP/1.1 2000 X\r\n\r\n", "HTTP/1.1 200 OK\r\ncontent-encoding: br\r\n\r\n"] {
        let upstream = Upstream::saying_once(bytes).await;
        let failure = send(&upstream.client()).await.unwrap_err();
        assert!(!failure.message.contains("127.0.0.1") && !failure.message.contains("http"), "{failure}");
    }
}

#[tokio::test]
async fn an_answer_may_come_byte_by_byte() {
    let upstream = Upstream::start(|_, mut peer| async move {
        peer.request().await.unwrap();
        let answer = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n\
                      2;x\r\n{}\r\n0\r\nt: u\r\n\r\n";
        for byte in answer.chars() {
            peer.say(byte.to_string()).await;
            tokio::task::yield_now().await;
        }
        peer.closed().await;
    })
    .await;
    let client = upstream.client();
    let (status, body) = exchange(&client).await.unwrap();
    assert_eq!((status, &body[..]), (200, &b"{}"[..]));
}
