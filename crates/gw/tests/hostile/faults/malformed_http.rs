//! HTTP/1 that is malformed, ambiguous or unusual: each spelling has one answer.

use std::time::Duration;

use gw_testkit::Response;
use gw_testkit::wire::RawClient;

use crate::harness::{Differences, KEY, Setup, World, assert_error, assert_request_id, chat, world};

const CHAT: &str = "/v1/chat/completions";

/// Sends bytes and returns the answers that came back until the connection was closed or had nothing more to say.
async fn answers(world: &World, bytes: &[u8]) -> Vec<Response> {
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send(bytes).await;
    let mut answers = Vec::new();
    while let Some(answer) = wire.response().await {
        answers.push(answer);
        if wire.is_quiet_for(Duration::from_millis(50)).await {
            break;
        }
    }
    answers
}

/// The statuses of those answers.
async fn statuses(world: &World, bytes: &[u8]) -> Vec<u16> {
    answers(world, bytes).await.iter().map(|answer| answer.status).collect()
}

#[tokio::test]
#[expect(clippy::too_many_lines, reason = "one table, a row for each spelling")]
async fn c17_malformed_http_has_a_golden_table() {
    let clocks = "head_timeout_ms = 1000\nbody_timeout_ms = 1000";
    let world = Setup { server: clocks, ..Setup::default() }.start().await;
    let auth = format!("authorization: Bearer {KEY}\r\n");
    let get = |line: &str, headers: &str| format!("{line}\r\nhost: x\r\n{auth}{headers}\r\n");
    let body = chat("acme/fast").to_string();
    let post = |headers: &str, body: &str| {
        format!(
            "POST {CHAT} HTTP/1.1\r\nhost: x\r\n{auth}content-type: application/json\r\n{headers}\r\n{body}"
        )
    };
    let length = body.len();
    let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    let table: Vec<(&str, String, u16, &str)> = vec![
        ("plain", get("GET /v1/models HTTP/1.1", ""), 200, ""),
        ("http/1.0", get("GET /v1/models HTTP/1.0", ""), 200, ""),
        ("absolute form", get("GET http://evil.example/v1/models HTTP/1.1", ""), 200, ""),
        ("two hosts", get("GET /v1/models HTTP/1.1", "host: y\r\n"), 200, ""),
        ("no host", format!("GET /v1/models HTTP/1.1\r\n{auth}\r\n"), 200, ""),
        ("odd host", format!("GET /v1/models HTTP/1.1\r\nhost: a@b/?#\r\n{auth}\r\n"), 200, ""),
        (
            "equal lengths",
            post(&format!("content-length: {length}\r\ncontent-length: {length}\r\n"), &body),
            200,
            "",
        ),
        (
            "unequal lengths",
            post(&format!("content-length: {length}\r\ncontent-length: 1\r\n"), &body),
            400,
            "invalid_request",
        ),
        ("signed length", post(&format!("content-length: +{length}\r\n"), &body), 400, "invalid_request"),
        ("negative length", post("content-length: -1\r\n", &body), 400, "invalid_request"),
        ("hex length", post("content-length: 0x10\r\n", &body), 400, "invalid_request"),
        ("unknown coding", post("transfer-encoding: nonsense\r\n", &body), 400, "invalid_request"),
        (
            "unknown coding below chunks",
            post("transfer-encoding: gzip, chunked\r\n", &chunked),
            501,
            "unsupported_transfer_encoding",
        ),
        (
            "coding on 1.0",
            post("transfer-encoding: chunked\r\n", &chunked).replace("HTTP/1.1", "HTTP/1.0"),
            400,
            "invalid_request",
        ),
        ("folded header", get("GET /v1/models HTTP/1.1", "x: a\r\n b\r\n"), 400, "invalid_request"),
        ("nul in value", get("GET /v1/models HTTP/1.1", "x: a\u{0}b\r\n"), 400, "invalid_request"),
        ("space in name", get("GET /v1/models HTTP/1.1", "x y: a\r\n"), 400, "invalid_request"),
        (
            "bad chunk size",
            post("transfer-encoding: chunked\r\n", "zz\r\nx\r\n0\r\n\r\n"),
            400,
            "invalid_json",
        ),
        (
            "overflowing chunk size",
            post("transfer-encoding: chunked\r\n", "fffffffffffffffff\r\nx\r\n0\r\n\r\n"),
            400,
            "invalid_json",
        ),
        ("not http", "\u{16}\u{3}\u{1}\u{2}hello\r\n\r\n".to_owned(), 400, "invalid_request"),
        ("bad version", get("GET /v1/models HTTP/9.9", ""), 400, "invalid_request"),
        ("no version", "GET /v1/models\r\n\r\n".to_owned(), 400, "invalid_request"),
        (
            "huge header",
            get("GET /v1/models HTTP/1.1", &format!("x: {}\r\n", "y".repeat(1 << 20))),
            431,
            "request_headers_too_large",
        ),
        (
            "many headers",
            get("GET /v1/models HTTP/1.1", &"x: y\r\n".repeat(1000)),
            431,
            "request_headers_too_large",
        ),
        (
            "long path",
            get(&format!("GET /v1/models/{} HTTP/1.1", "x".repeat(200_000)), ""),
            431,
            "request_headers_too_large",
        ),
    ];
    let mut rows = Differences::default();
    for (label, bytes, status, code) in &table {
        let got = answers(&world, bytes.as_bytes()).await;
        let seen: Vec<_> = got.iter().map(|answer| (answer.status, answer.code())).collect();
        rows.check(label, seen, vec![(*status, (*code).to_owned())]);
        // Every answer has the headers of all answers, also one that the HTTP library makes.
        for answer in &got {
            assert_eq!(answer.header("content-type"), Some("application/json"), "{label}");
            let length = answer.body.len().to_string();
            assert_eq!(answer.header("content-length"), Some(length.as_str()), "{label}");
            assert_request_id(label, answer.header("x-request-id"));
        }
    }
    rows.finish();
}

#[tokio::test]
async fn c17_a_body_is_never_read_as_a_request() {
    let world = world().await;
    let auth = format!("authorization: Bearer {KEY}\r\n");
    let body = chat("acme/fast").to_string();
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let smuggled = "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n";
    let post = |headers: &str, body: &str| {
        format!(
            "POST {CHAT} HTTP/1.1\r\nhost: x\r\n{auth}content-type: application/json\r\n{headers}\r\n{body}"
        )
    };
    // Length and chunks together: the chunks are the body, and the connection ends after the answer (RFC 9112, 6.3).
    let both = post("content-length: 4\r\ntransfer-encoding: chunked\r\n", &chunked) + smuggled;
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send(both).await;
    wire.response().await.expect("an answer").ok();
    assert_eq!(
        world.upstream.last().json()["messages"],
        chat("acme/fast")["messages"],
        "the chunks were read"
    );
    assert!(wire.response().await.is_none(), "the connection ends after the answer");
    // A body is never read as a request, also where the answer comes before the body was read.
    for (path, kind, status) in
        [("/v1/unknown", "application/json", 404), (CHAT, "text/plain", 415), (CHAT, "application/json", 400)]
    {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\n{auth}content-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            smuggled.len()
        );
        let got = statuses(&world, (head + smuggled).as_bytes()).await;
        assert_eq!(got, [status], "{path} {kind}");
    }
}

/// Every byte in a header's name, in its value and in the target, by the rules of RFC 9110 and 9112.
#[tokio::test]
async fn c17_every_byte_in_every_place_has_one_answer() {
    let world = world().await;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let head = format!("host: x\r\nauthorization: Bearer {KEY}\r\n");
    let around = |before: &str, byte: u8, after: &str| {
        [before.as_bytes(), &[byte], after.as_bytes(), head.as_bytes(), b"\r\n"].concat()
    };
    let mut rows = Differences::default();
    for byte in 0..=255_u8 {
        let in_name = around("GET /v1/models HTTP/1.1\r\nx", byte, "y: 1\r\n");
        let in_value = around("GET /v1/models HTTP/1.1\r\nx: a", byte, "b\r\n");
        let in_target = around("GET /v1/models?x=", byte, "y HTTP/1.1\r\n");
        let value_is_legal = byte == b'\t' || (byte >= 0x20 && byte != 0x7f);
        // RFC 3986 forbids more characters in a query. The gateway accepts those that common clients send.
        let target_is_legal = (0x21..0x7f).contains(&byte) && !b"\"<>".contains(&byte);
        let cases = [
            ("name", in_name, token(byte) || byte == b':'),
            ("value", in_value, value_is_legal),
            ("target", in_target, target_is_legal),
        ];
        for (place, bytes, is_legal) in cases {
            let mut wire = RawClient::connect(world.gateway.addr).await;
            wire.send(bytes).await;
            let status = wire.response().await.map(|answer| answer.status);
            rows.check(format!("{byte:#04x} in a {place}"), status, Some(if is_legal { 200 } else { 400 }));
        }
    }
    rows.finish();
}

/// Every kind of fault in a chunked body is refused, and nothing after it is read.
#[tokio::test]
async fn c17_faults_in_chunks_are_refused() {
    let world = world().await;
    let client = world.client.with_header("transfer-encoding", "chunked");
    let head = client.head("POST", CHAT, Some("application/json"), None);
    let body = chat("acme/fast").to_string();
    let size = format!("{:x}", body.len());
    let fine = [
        format!("{size}\r\n{body}\r\n0\r\n\r\n"),
        format!("{}\r\n{body}\r\n000\r\n\r\n", size.to_uppercase()),
        format!("0{size};name=value\r\n{body}\r\n0;x\r\n\r\n"),
        format!("{size}\r\n{body}\r\n0\r\nx-trailer: y\r\n\r\n"),
    ];
    for chunks in fine {
        let mut wire = RawClient::connect(world.gateway.addr).await;
        wire.send(head.clone() + &chunks).await;
        assert_eq!(wire.response().await.map(|answer| answer.status), Some(200), "{chunks}");
    }
    let hits = world.upstream.hits();
    let smuggled = "GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n";
    let faults = [
        "g",
        "-1",
        "+1",
        " 1",
        "0x1",
        "1 1",
        "",
        ";",
        "1\n",
        "1\r",
        "\r\n",
        "1,",
        "ffffffffffffffffffff",
        "1\u{0}",
        "\u{ff11}",
    ];
    let mut rows = Differences::default();
    for fault in faults {
        let mut wire = RawClient::connect(world.gateway.addr).await;
        wire.send(format!("{head}{fault}\r\nx\r\n0\r\n\r\n{smuggled}")).await;
        let answer = wire.response().await.map(|answer| (answer.status, answer.code()));
        rows.check(format!("{fault:?}"), answer, Some((400, "invalid_json".to_owned())));
        assert!(wire.response().await.is_none(), "{fault:?}: bytes after a broken body are no request");
    }
    rows.finish();
    assert_eq!(world.upstream.hits(), hits);
}

#[tokio::test]
async fn c17_a_thousand_pipelined_requests_are_answered_in_order() {
    let world = world().await;
    let mut wire = RawClient::connect(world.gateway.addr).await;
    let (one, two) = ("GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n", "GET /nothing HTTP/1.1\r\nhost: x\r\n\r\n");
    wire.send([one, two].concat().repeat(500)).await;
    for place in 0..1000 {
        let answer = wire.response().await.unwrap_or_else(|| panic!("answer {place} is missing"));
        assert_eq!(answer.status, if place % 2 == 0 { 200 } else { 404 }, "answer {place}");
    }
}

#[tokio::test]
async fn c19_authorization_in_every_form() {
    let world = world().await;
    let anonymous = world.client.without_key();
    let try_with = |values: &[&str]| {
        let client =
            values.iter().fold(anonymous.clone(), |client, value| client.with_header("authorization", value));
        async move { client.get("/v1/models").await }
    };
    for value in [
        format!("bearer {KEY}"),
        format!("BEARER {KEY}"),
        format!("Bearer   {KEY}"),
        format!("Bearer {KEY}  "),
    ] {
        assert_eq!(try_with(&[&value]).await.status, 200, "{value:?}");
    }
    let good = format!("Bearer {KEY}");
    let long = format!("Bearer {}", "k".repeat(8192));
    let prefix = format!("Bearer {}", &KEY[..KEY.len() - 1]);
    let longer = format!("Bearer {KEY}x");
    let inner = format!("Bearer x {KEY}");
    let refused: [&[&str]; 10] = [
        &[&good, &good],
        &[&good, "Bearer x"],
        &[&long],
        &["Bearer schlüssel"],
        &[&prefix],
        &[&longer],
        &[&inner],
        &["Bearer"],
        &["Bearer \t"],
        &["' OR 1=1 --"],
    ];
    for values in refused {
        let answer = try_with(values).await;
        assert_error(&format!("{values:?}"), &answer, 401, "authentication_error", "invalid_api_key");
    }
}

#[tokio::test]
async fn c20_unknown_methods_routes_and_types_have_the_error_shape_everywhere() {
    let world = world().await;
    let paths = [
        CHAT,
        "/v1/completions",
        "/v1/embeddings",
        "/v1/rerank",
        "/v1/moderations",
        "/v1/images/generations",
        "/v1/audio/speech",
        "/v1/models",
        "/v1/models/acme/fast",
        "/v1/models/compare?models=fast,plain",
        "/v1/nothing",
        "/v1",
    ];
    for path in paths {
        for method in ["PUT", "PATCH", "DELETE", "TRACE", "BREW", "get", "PROPFIND"] {
            let answer = world.client.send(method, path, Some("application/json"), Some(b"{}")).await;
            let (status, code) = if matches!(path, "/v1/nothing" | "/v1") {
                (404, "unknown_url")
            } else {
                (405, "method_not_allowed")
            };
            assert_error(&format!("{method} {path}"), &answer, status, "invalid_request_error", code);
        }
        assert_eq!(world.client.send("OPTIONS", path, None, None).await.status, 204, "{path}");
        let head = world.client.send("HEAD", path, None, None).await;
        let expected = match path {
            "/v1/nothing" | "/v1" => 404,
            _ if path.starts_with("/v1/models") => 200,
            _ => 405,
        };
        assert_eq!((head.status, head.body.len()), (expected, 0), "HEAD {path}");
    }
    for path in [
        CHAT,
        "/v1/completions",
        "/v1/embeddings",
        "/v1/rerank",
        "/rerank",
        "/v1/moderations",
        "/v1/images/generations",
        "/v1/audio/speech",
    ] {
        let answer = world.client.send("POST", path, Some("text/xml"), Some(b"<x/>")).await;
        assert_error(path, &answer, 415, "invalid_request_error", "unsupported_media_type");
    }
    for path in ["/nothing", "/V1/models", "/v2/models", "//v1/models", "/v1/../healthz"] {
        let answer = world.client.get(path).await;
        assert_error(path, &answer, 404, "invalid_request_error", "unknown_url");
    }
}
