//! Broken and hostile upstreams: the rows U1 to U28 of tests/guarantees.md. This file has connections, headers and whole
//! answers.

mod streams;

use gw_testkit::certificate::Certificate;
use gw_testkit::measured::at_most;
use gw_testkit::sse::chunks;
use gw_testkit::upstream::{chat_body, chat_transcript, sse_data};
use gw_testkit::{Answer, FakeUpstream, Launch, Response};
use serde_json::{Value, json};

use crate::harness::answers::assert_broken_off;
use crate::harness::{Differences, KEY, Setup, World, assert_error, binary, chat, chat_with, compressed};

const CHAT: &str = "/v1/chat/completions";

/// One attempt only, and the default timeouts, so that no pause of the test counts as one of the upstream.
async fn patient() -> World {
    Setup { routing: "retries = 0", ..Setup::default() }.start().await
}

fn streamed() -> Value {
    chat_with("acme/fast", json!({ "stream": true }))
}

fn text(text: &str) -> Value {
    sse_data(&json!({ "content": text }), None)
}

async fn frames(world: &World) -> Vec<String> {
    world.client.stream(CHAT, &streamed()).await.rest().await
}

/// A gateway that trusts only the first certificate, and an upstream `acme` that presents the second one.
async fn over_tls(trusted: &Certificate, presented: &Certificate) -> (FakeUpstream, Response) {
    let upstream = FakeUpstream::start_tls(presented).await;
    let config = Setup { routing: "retries = 0", ..Setup::default() }
        .config(&upstream.base_url(), &upstream.base_url());
    let launch = Launch::new(binary()).file("gateway.toml", config).file("roots.pem", &trusted.pem);
    let roots = launch.dir().join("roots.pem").to_string_lossy().into_owned();
    let gateway = launch.env("SSL_CERT_FILE", &roots).start().await;
    let answer = gateway.client().with_key(KEY).post_json(CHAT, &chat("acme/fast")).await;
    (upstream, answer)
}

#[tokio::test]
async fn u04_a_certificate_that_cannot_be_trusted_is_never_shown_the_key() {
    let good = Certificate::of(&["127.0.0.1"]);
    let (upstream, answer) = over_tls(&good, &good).await;
    assert_eq!((answer.status, upstream.hits()), (200, 1), "a trusted one works: {}", answer.text());
    let (elsewhere, expired) = (Certificate::of(&["other.example"]), Certificate::expired(&["127.0.0.1"]));
    let faults = [
        ("nobody trusts it", &good, Certificate::of(&["127.0.0.1"])),
        ("another host's", &elsewhere, elsewhere.clone()),
        ("expired", &expired, expired.clone()),
    ];
    for (label, trusted, presented) in faults {
        let (upstream, answer) = over_tls(trusted, &presented).await;
        assert_error(label, &answer, 502, "upstream_error", "upstream_unreachable");
        assert_eq!(upstream.hits(), 0, "{label}: no byte of a request");
        assert!(upstream.connections() > 0, "{label}: it was tried");
    }
}

#[tokio::test]
async fn u09_content_length_longer_than_the_body() {
    let world = patient().await;
    let body = chat_body("m", "truncated");
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.to_string().len() + 100
    );
    world.upstream.enqueue(Answer::raw(format!("{head}{body}")).close());
    let answer = world.chat(&chat("acme/fast")).await;
    assert_error("short body", &answer, 502, "upstream_error", "upstream_invalid_response");
    world.chat_ok(&chat("acme/fast")).await;
    let connections: Vec<_> = world.upstream.requests().iter().map(|request| request.connection).collect();
    assert_eq!(connections, [0, 1], "the broken connection is not used again");
    // An event stream that is shorter than its length is cut, not complete.
    let event = format!("data: {}\n\n", text("begun"));
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {}\r\n\r\n",
        event.len() + 100
    );
    world.upstream.enqueue(Answer::raw(format!("{head}{event}")).close());
    assert_broken_off(&frames(&world).await, "upstream_stream_error");
}

#[tokio::test]
async fn u10_successes_that_are_not_answers() {
    let world = patient().await;
    let bodies = [
        "<html><body>secret-upstream-text</body></html>",
        "",
        "null",
        "[]",
        "{}",
        "17",
        "\"secret-upstream-text\"",
        r#"{"choices":1e999}"#,
        r#"{"choices":"secret-upstream-text"}"#,
        r#"{"choices":[5]}"#,
        r#"{"choices":[{"message":"x"}]}"#,
        r#"{"choices":[{"message":{"content":5}}]}"#,
        r#"{"choices":[{"message":{"content":"x"}}"#,
        r#"{"choices":[{}]}"#,
        r#"{"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":null}]}"#,
        "{\"choices\":[{\"message\":{\"content\":\"\u{7f}",
    ];
    for body in bodies {
        world.upstream.enqueue(Answer::full(200, &[("content-type", "application/json")], body));
        let answer = world.chat(&chat("acme/fast")).await;
        assert_error(body, &answer, 502, "upstream_error", "upstream_invalid_response");
        assert!(
            !answer.text().contains("secret-upstream-text"),
            "the body is not repeated: {}",
            answer.text()
        );
        world.upstream.enqueue(Answer::full(200, &[("content-type", "application/json")], body));
        let routed = chat_with("acme/fast", json!({ "routing": { "fallback": ["beta/spare"] } }));
        assert_eq!(world.chat_ok(&routed).await["gateway"]["model_used"], "beta/spare", "{body}");
    }
    // An error with status 200 is a failure too (OpenRouter does that).
    world.upstream.enqueue(Answer::json(200, &json!({ "error": { "message": "no", "code": 500 } })));
    assert_eq!(world.chat(&chat("acme/fast")).await.status, 502);
    for (path, model) in [
        ("/v1/completions", "acme/fast"),
        ("/v1/embeddings", "acme/embed"),
        ("/v1/rerank", "acme/rerank"),
        ("/v1/score", "acme/rerank"),
        ("/v1/moderations", "acme/moderation"),
        ("/v1/images/generations", "acme/paint"),
        ("/v1/audio/speech", "acme/speak"),
    ] {
        world.upstream.enqueue(Answer::full(200, &[], "{}"));
        let body = json!({ "model": model, "prompt": "x", "input": "x", "query": "x", "documents": ["x"], "text_1": "x", "text_2": "x",
            "voice": "v" });
        let answer = world.client.post_json(path, &body).await;
        assert_error(path, &answer, 502, "upstream_error", "upstream_invalid_response");
    }
}

#[tokio::test]
async fn u20_headers_of_every_size() {
    let world = patient().await;
    let body = chat_body("m", "x").to_string();
    let answer = |headers: &str| {
        Answer::raw(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len()))
    };
    let hop = "set-cookie: a=b\r\nconnection: keep-alive, x-hop\r\nx-hop: 1\r\nkeep-alive: timeout=5\r\nproxy-authenticate: Basic\r\n\
               upgrade: h2c\r\ntrailer: x\r\nalt-svc: h3=\":443\"\r\nserver: them\r\naccess-control-allow-origin: https://evil.example\r\n\
               x-ratelimit-remaining-requests: 3\r\nwww-authenticate: Basic\r\n";
    world.upstream.enqueue(answer(hop));
    let got = world.chat(&chat("acme/fast")).await.ok();
    for name in [
        "set-cookie",
        "x-hop",
        "keep-alive",
        "proxy-authenticate",
        "upgrade",
        "trailer",
        "alt-svc",
        "x-ratelimit-remaining-requests",
        "www-authenticate",
    ] {
        assert_eq!(got.header(name), None, "{name}");
    }
    assert_eq!(got.header("access-control-allow-origin"), Some("*"));
    let over = [
        "x: y\r\n".repeat(1000),
        format!("x: {}\r\n", "y".repeat(1 << 20)),
        "x: a\u{0}b\r\n".to_owned(),
        "no colon\r\n".to_owned(),
    ];
    for headers in over {
        world.upstream.enqueue(answer(&headers));
        let got = world.chat(&chat("acme/fast")).await;
        let label: String = headers.chars().take(20).collect();
        assert_error(&label, &got, 502, "upstream_error", "upstream_invalid_response");
    }
    world.chat_ok(&chat("acme/fast")).await;
}

#[tokio::test]
async fn u21_redirects_are_not_followed() {
    let world = patient().await;
    for status in [301, 302, 303, 307, 308] {
        for location in [
            world.second.base_url() + "/chat/completions",
            "//evil.example/".to_owned(),
            "/v1/elsewhere".to_owned(),
        ] {
            let hits = world.upstream.hits();
            world.upstream.enqueue(Answer::full(status, &[("location", location.as_str())], ""));
            let answer = world.chat(&chat("acme/fast")).await;
            assert_error(
                &format!("{status} {location}"),
                &answer,
                502,
                "upstream_error",
                "upstream_invalid_response",
            );
            assert_eq!(answer.header("location"), None);
            assert_eq!(world.upstream.hits(), hits + 1);
        }
    }
    assert_eq!((world.second.hits(), world.second.connections()), (0, 0));
}

#[tokio::test]
async fn u22_unusual_statuses_and_versions() {
    let world = patient().await;
    let body = chat_body("m", "x").to_string();
    let ok = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    let fine = [
        ("100 first", Answer::raw(format!("HTTP/1.1 100 Continue\r\n\r\n{ok}"))),
        ("103 first", Answer::raw(format!("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n{ok}"))),
        (
            "1.0 with length",
            Answer::raw(format!("HTTP/1.0 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())).close(),
        ),
        ("1.0 until close", Answer::raw(format!("HTTP/1.0 200 OK\r\n\r\n{body}")).close()),
    ];
    for (label, answer) in fine {
        world.upstream.enqueue(answer);
        let got = world.chat(&chat("acme/fast")).await;
        assert_eq!(got.status, 200, "{label}: {}", got.text());
    }
    let faults = [
        ("204", Answer::raw("HTTP/1.1 204 No Content\r\n\r\n"), "upstream_invalid_response"),
        ("304", Answer::raw("HTTP/1.1 304 Not Modified\r\n\r\n"), "upstream_invalid_response"),
        (
            "101",
            Answer::raw("HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\nbytes")
                .close(),
            "upstream_invalid_response",
        ),
        ("0.9", Answer::raw(body.clone()).close(), "upstream_invalid_response"),
        ("junk", Answer::raw("\u{16}\u{3}\u{1}").close(), "upstream_invalid_response"),
        ("999", Answer::raw("HTTP/1.1 999 What\r\ncontent-length: 0\r\n\r\n"), "upstream_invalid_response"),
        ("nothing", Answer::default().close(), "upstream_unreachable"),
    ];
    let mut rows = Differences::default();
    for (label, answer, code) in faults {
        world.upstream.enqueue(answer);
        rows.answer(label, &world.chat(&chat("acme/fast")).await, (502, code));
    }
    rows.finish();
    world.chat_ok(&chat("acme/fast")).await;
}

#[tokio::test]
async fn u23_compressed_bombs() {
    let world = patient().await;
    let body = chat_body("m", "packed").to_string();
    let gzip = |bytes: &[u8]| {
        Answer::full(
            200,
            &[("content-type", "application/json"), ("content-encoding", "gzip")],
            compressed("gzip", bytes),
        )
    };
    world.upstream.enqueue(gzip(body.as_bytes()));
    let got = world.chat(&chat("acme/fast")).await;
    assert_eq!(got.status, 200, "an upstream may pack its answers: {}", got.text());
    let rss = world.gateway.rss_kib();
    let mut bomb = chat_body("m", "").to_string().into_bytes();
    bomb.truncate(bomb.len() - 1);
    bomb.resize(100 << 20, b' ');
    world.upstream.enqueue(gzip(&bomb));
    let answer = world.chat(&chat("acme/fast")).await;
    assert_error("bomb", &answer, 502, "upstream_error", "upstream_invalid_response");
    let grown = world.gateway.rss_kib().saturating_sub(rss);
    at_most("KiB of a bomb", grown, 80 * 1024);
    for encoding in ["zstd", "br", "gzip, gzip"] {
        world.upstream.enqueue(Answer::full(200, &[("content-encoding", encoding)], "\u{28}b5"));
        let answer = world.chat(&chat("acme/fast")).await;
        assert_error(encoding, &answer, 502, "upstream_error", "upstream_invalid_response");
    }
}

#[tokio::test]
async fn u24_usage_that_cannot_be_true() {
    let world = patient().await;
    let cases = [
        r#"{"prompt_tokens":-5,"completion_tokens":-1,"total_tokens":-6}"#,
        r#"{"prompt_tokens":9223372036854775808,"completion_tokens":5,"total_tokens":1}"#,
        r#"{"prompt_tokens":1e300,"completion_tokens":5}"#,
        r#"{"prompt_tokens":"10","completion_tokens":"5"}"#,
        r#"{"prompt_tokens":null}"#,
        r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":99}}"#,
        r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":-1}}"#,
        r#""many""#,
        "[]",
        "{}",
        "null",
        r#"{"prompt_tokens":10.5,"completion_tokens":5.5}"#,
    ];
    for usage in cases {
        let mut body = chat_body("m", "some text");
        body["usage"] = json!("USAGE");
        let whole = body.to_string().replace("\"USAGE\"", usage);
        world.upstream.enqueue(Answer::full(200, &[("content-type", "application/json")], whole));
        let got = world.chat(&chat("acme/fast")).await;
        assert_eq!(got.status, 200, "{usage}: {}", got.text());
        assert_sane(usage, &got.json()["usage"]);
        let mut last = sse_data(&json!({}), None);
        last["choices"] = json!([]);
        last["usage"] = json!("USAGE");
        let last = last.to_string().replace("\"USAGE\"", usage);
        let transcript = chat_transcript(&["some text"]);
        let answer = Answer::sse()
            .all(&transcript[..transcript.len() - 1])
            .chunk(format!("data: {last}\n\ndata: {last}\n\n"))
            .done();
        world.upstream.enqueue(answer);
        let body =
            chat_with("acme/fast", json!({ "stream": true, "stream_options": { "include_usage": true } }));
        let frames = world.client.stream(CHAT, &body).await.rest().await;
        assert_sane(usage, &chunks(&frames).pop().expect("a usage chunk")["usage"]);
    }
    // NaN is no JSON number: the gateway neither uses nor repeats it.
    let whole = chat_body("m", "x").to_string().replace("\"prompt_tokens\":10", "\"prompt_tokens\":NaN");
    world.upstream.enqueue(Answer::full(200, &[], whole));
    let got = world.chat(&chat("acme/fast")).await;
    // The prompt is estimated; the answer's five tokens are what the upstream reports.
    let usage = &got.ok().json()["usage"];
    assert_eq!((&usage["prompt_tokens"], &usage["completion_tokens"]), (&json!(10), &json!(5)), "{usage}");
}

#[track_caller]
fn assert_sane(label: &str, usage: &Value) {
    let count = |name: &str| usage[name].as_u64().unwrap_or_else(|| panic!("{label}: {name} in {usage}"));
    let (prompt, completion) = (count("prompt_tokens"), count("completion_tokens"));
    assert_eq!(count("total_tokens"), prompt + completion, "{label}: {usage}");
    assert!(prompt < 1 << 40 && completion < 1 << 40, "{label}: {usage}");
    let cost = usage["cost_usd"].as_f64().unwrap_or_else(|| panic!("{label}: {usage}"));
    assert!((0.0..1e6).contains(&cost), "{label}: {usage}");
    if let Some(cached) = usage["prompt_tokens_details"]["cached_tokens"].as_u64() {
        assert!(cached <= prompt, "{label}: {usage}");
    }
}
