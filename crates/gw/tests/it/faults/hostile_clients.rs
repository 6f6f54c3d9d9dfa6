//! GUARANTEES section 3, client rows: what a hostile or broken client may do, and what must be observed.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use gw_testkit::sse::{chunks, text_of};
use gw_testkit::upstream::{chat_body, chat_transcript, sse_data};
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Response, Signal};
use serde_json::{Value, json};

use crate::harness::{
    KEY, Setup, World, assert_error, assert_invalid, assert_request_id, chat, chat_with, world,
};

const CHAT: &str = "/v1/chat/completions";

/// A chat request written by hand, with `members` after the two required ones.
fn written(members: &str) -> String {
    format!(r#"{{"model":"acme/fast","messages":[{{"role":"user","content":"x"}}]{members}}}"#)
}

#[tokio::test]
async fn c05_body_over_the_limit() {
    let world = Setup { server: "body_limit_mib = 1", ..Setup::default() }.start().await;
    let too_large = |label: &str, answer: &Response| {
        assert_error(label, answer, 413, "invalid_request_error", "request_too_large")
    };

    // A length that lies: refused from the head alone, and the connection is closed.
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send(world.client.head("POST", CHAT, Some("application/json"), Some(100 << 20))).await;
    wire.send("{\"model\"").await;
    too_large("length", &wire.response().await.expect("an answer"));
    wire.until_closed().await;

    // The same asking first: no `100 Continue`.
    let asking = world.client.with_header("expect", "100-continue");
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send(asking.head("POST", CHAT, Some("application/json"), Some(100 << 20))).await;
    let head = wire.head().await.expect("an answer");
    assert_eq!(head.status, 413);
    wire.until_closed().await;

    // Chunks without an end: the sender is stopped.
    let mut wire = RawClient::connect(world.gateway.addr).await;
    let chunked = world.client.with_header("transfer-encoding", "chunked");
    wire.send(chunked.head("POST", CHAT, Some("application/json"), None)).await;
    let piece = format!("{:x}\r\n{}\r\n", 64 * 1024, "x".repeat(64 * 1024));
    let mut sent = 0_usize;
    while sent < 64 << 20 && wire.try_send(piece.as_bytes()).await.is_ok() {
        sent += 64 * 1024;
    }
    assert!(sent < 32 << 20, "the sender was never stopped: {sent} bytes");
    assert_eq!(world.upstream.hits(), 0);

    // Asking first with a body that fits: `100 Continue`, then the answer.
    let body = chat("acme/fast").to_string();
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send(asking.head("POST", CHAT, Some("application/json"), Some(body.len()))).await;
    assert_eq!(wire.head().await.map(|head| head.status), Some(100));
    wire.send(body).await;
    wire.response().await.expect("an answer").ok();
}

#[tokio::test]
async fn c07_deep_and_wide_json() {
    let world = world().await;
    let nested = |depth: usize, open: &str, close: &str, core: &str| {
        format!("{}{core}{}", open.repeat(depth), close.repeat(depth))
    };
    // The request object itself is the first level.
    let fits = written(&format!(",\"ignored\":{}", nested(127, "[", "]", "")));
    assert_eq!(world.client.post_bytes(CHAT, fits.as_bytes()).await.status, 200, "128 levels are legal");
    for depth in [128, 100_000, 1_000_000] {
        for place in ["ignored", "metadata", "tools", "messages", "routing", "response_format"] {
            let arrays = nested(depth, "[", "]", "");
            let objects = nested(depth, "{\"a\":", "}", "1");
            for value in [arrays, objects] {
                let body = written(&format!(",\"{place}\":{value}"));
                let answer = world.client.post_bytes(CHAT, body.as_bytes()).await;
                assert_eq!(answer.status, 400, "{depth} levels in {place}: {}", answer.text());
            }
        }
        let open = world.client.post_bytes(CHAT, "[".repeat(depth).as_bytes()).await;
        assert_invalid("never closed", &open, "invalid_json");
    }
    let before = world.upstream.hits();
    let wide_array = written(&format!(",\"ignored\":[{}1]", "1,".repeat(1_000_000)));
    let keys: String = (0..300_000).map(|index| format!("\"k{index}\":1,")).collect();
    let wide_object = written(&format!(",\"ignored\":{{{keys}\"last\":1}}"));
    for body in [wide_array, wide_object] {
        let answer = world.client.post_bytes(CHAT, body.as_bytes()).await;
        assert!(matches!(answer.status, 200 | 400), "{}", answer.status);
    }
    assert!(world.upstream.hits() <= before + 2);
    world.chat_ok(&chat("acme/fast")).await;
}

#[tokio::test]
async fn c08_bodies_that_are_not_utf_8() {
    let world = world().await;
    let good = written("");
    let with_bytes = |bytes: &[u8]| {
        let mut body = good.clone().into_bytes();
        let at = body.windows(3).position(|window| window == b"\"x\"").expect("the content") + 1;
        body.splice(at..=at, bytes.iter().copied());
        body
    };
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let bodies = [
        with_bytes(b"\xff"),
        with_bytes(b"\xc0\xaf"),
        with_bytes(b"\xe4\xb8"),
        with_bytes(b"\xed\xa0\x80"),
        with_bytes(b"\xf5\x80\x80\x80"),
        [b"\xef\xbb\xbf".as_slice(), good.as_bytes()].concat(),
        utf16.clone(),
        [b"\xff\xfe".as_slice(), &utf16].concat(),
    ];
    for body in bodies {
        let answer = world.client.post_bytes(CHAT, &body).await;
        assert_invalid(&format!("{:?}", String::from_utf8_lossy(&body)), &answer, "invalid_json");
    }
    // The same bytes in a member that nobody reads.
    let mut ignored = written(",\"ignored\":\"?\"").into_bytes();
    let at = ignored.iter().rposition(|&byte| byte == b'?').expect("the mark");
    ignored[at] = 0xff;
    assert_invalid("ignored", &world.client.post_bytes(CHAT, &ignored).await, "invalid_json");
    assert_eq!(world.upstream.hits(), 0);
}

#[tokio::test]
async fn c09_duplicate_keys() {
    let world = world().await;
    let bodies = [
        written(",\"model\":\"beta/fast\""),
        written(",\"\\u006dodel\":\"beta/fast\""),
        written(",\"temperature\":1,\"temperature\":2"),
        written(",\"ignored\":1,\"ignored\":2"),
        r#"{"model":"acme/fast","messages":[{"role":"user","role":"system","content":"x"}]}"#.to_owned(),
        r#"{"model":"acme/fast","messages":[{"role":"user","content":"x","\u0063ontent":"y"}]}"#.to_owned(),
        written(",\"routing\":{\"strategy\":\"default\",\"strategy\":\"cheapest\"}"),
        written(",\"cache\":{\"enabled\":false,\"enabled\":true}"),
    ];
    for body in bodies {
        let answer = world.client.post_bytes(CHAT, body.as_bytes()).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        assert_error(&body, &answer, 400, "invalid_request_error", &answer.code());
    }
    assert_eq!(world.upstream.hits(), 0, "there are never two readings");
}

#[tokio::test]
async fn c10_null_characters_in_every_string() {
    let world = world().await;
    let nul = "a\u{0}b";
    let tool = |name: &str, description: &str| json!([{ "type": "function", "function": { "name": name, "description": description } }]);
    let cases = [
        json!({ "messages": [{ "role": "user", "content": nul }] }),
        json!({ "messages": [{ "role": "user", "name": nul, "content": "x" }] }),
        json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": nul }] }] }),
        json!({ "messages": [{ "role": "tool", "tool_call_id": nul, "content": nul }] }),
        json!({ "user": nul }),
        json!({ "stop": [nul] }),
        json!({ "tools": tool(nul, "d") }),
        json!({ "tools": tool("f", nul) }),
        json!({ "metadata": { nul: nul } }),
        json!({ nul: nul }),
        json!({ "model": nul }),
        json!({ "routing": { "fallback": [nul] } }),
    ];
    for more in cases {
        let hits = world.upstream.hits();
        let answer = world.chat(&chat_with("acme/fast", more.clone())).await;
        assert!(matches!(answer.status, 200 | 400 | 404), "{more}: {} {}", answer.status, answer.text());
        if world.upstream.hits() > hits && more.get("messages").is_some() {
            assert_eq!(world.upstream.last().json()["messages"], more["messages"], "passed on the same");
        }
    }
}

#[tokio::test]
async fn c11_lone_surrogates() {
    let world = world().await;
    let bodies = [
        r#"{"model":"acme/fast","messages":[{"role":"user","content":"\ud800"}]}"#.to_owned(),
        r#"{"model":"acme/fast","messages":[{"role":"user","content":"\udc00\ud800"}]}"#.to_owned(),
        r#"{"model":"\ud800","messages":[{"role":"user","content":"x"}]}"#.to_owned(),
        written(r#","user":"\udfff""#),
        written(r#","ignored":["\ud800x"]"#),
        written(r#","\ud800":1"#),
    ];
    for body in bodies {
        let answer = world.client.post_bytes(CHAT, body.as_bytes()).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
    }
    assert_eq!(world.upstream.hits(), 0);
    world.client.post_bytes(CHAT, written(r#","user":"\ud83d\ude00""#).as_bytes()).await.ok();
}

#[tokio::test]
async fn c12_numbers_of_every_kind() {
    let world = world().await;
    let refused = [
        ("n", "-1"),
        ("n", "18446744073709551616"),
        ("n", "1e999"),
        ("n", "\"1\""),
        ("n", "0"),
        ("n", "1.5"),
        ("max_tokens", "-1"),
        ("max_tokens", "\"5\""),
        ("max_tokens", "99999999999999999999999"),
        ("max_tokens", "0.5"),
        ("temperature", "2.0000001"),
        ("temperature", "-0.0000001"),
        ("temperature", "NaN"),
        ("temperature", "1e999"),
        ("temperature", "Infinity"),
        ("temperature", "\"1\""),
        ("temperature", "[]"),
        ("top_p", "1.0000001"),
        ("top_p", "-1e-9"),
        ("top_p", "true"),
        ("presence_penalty", "2.0000001"),
        ("presence_penalty", "-2.0000001"),
        ("frequency_penalty", "2.0000001"),
        ("frequency_penalty", "{}"),
        ("seed", "1.5"),
        ("seed", "\"1\""),
        ("seed", "9223372036854775808"),
        ("top_logprobs", "21"),
        ("top_logprobs", "-1"),
        ("n", "01"),
        ("n", "+1"),
        ("n", ".5"),
        ("n", "1."),
        ("n", "0x1"),
    ];
    for (field, value) in refused {
        let answer =
            world.client.post_bytes(CHAT, written(&format!(",\"{field}\":{value}")).as_bytes()).await;
        assert_eq!(answer.status, 400, "{field} = {value}: {}", answer.text());
        assert_error(value, &answer, 400, "invalid_request_error", &answer.code());
    }
    assert_eq!(world.upstream.hits(), 0);
    let accepted = [
        ("temperature", "2"),
        ("temperature", "2.0"),
        ("temperature", "0"),
        ("temperature", "-0.0"),
        ("temperature", "1e0"),
        ("seed", "9223372036854775807"),
        ("seed", "-9223372036854775808"),
        ("n", "1"),
        ("top_p", "1E-5"),
        ("max_tokens", "0"),
    ];
    for (field, value) in accepted {
        let answer =
            world.client.post_bytes(CHAT, written(&format!(",\"{field}\":{value}")).as_bytes()).await;
        assert_eq!(answer.status, 200, "{field} = {value}: {}", answer.text());
    }
    // Text completions and embeddings read their numbers with the same rules.
    for (path, body) in [
        ("/v1/completions", r#"{"model":"acme/fast","prompt":"x","logprobs":1e999}"#),
        ("/v1/completions", r#"{"model":"acme/fast","prompt":[1e999]}"#),
        ("/v1/embeddings", r#"{"model":"acme/embed","input":"x","dimensions":-1}"#),
        ("/v1/embeddings", r#"{"model":"acme/embed","input":[-1]}"#),
    ] {
        assert_eq!(world.client.post_bytes(path, body.as_bytes()).await.status, 400, "{body}");
    }
}

/// Compressed by the system's own program, so that the test does not trust the gateway's library.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut child =
        Command::new("gzip").arg("-c").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("gzip");
    let mut stdin = child.stdin.take().expect("piped");
    let input = bytes.to_vec();
    let writer = std::thread::spawn(move || stdin.write_all(&input));
    let output = child.wait_with_output().expect("gzip ends");
    writer.join().expect("the writer ends").expect("gzip reads");
    output.stdout
}

#[tokio::test]
async fn c13_compressed_bodies_and_bombs() {
    let world = Setup { server: "body_limit_mib = 1", ..Setup::default() }.start().await;
    let body = chat("acme/fast").to_string();
    let packed = gzip(body.as_bytes());
    let send = |encoding: &'static str, bytes: Vec<u8>| {
        let client = world.client.with_header("content-encoding", encoding);
        async move { client.post_bytes(CHAT, &bytes).await }
    };
    for encoding in ["gzip", "GZIP", "x-gzip"] {
        let answer = send(encoding, packed.clone()).await;
        assert!(matches!(answer.status, 200 | 415), "{encoding}: {}", answer.text());
    }
    assert_eq!(send("gzip", packed.clone()).await.status, 200);
    assert_eq!(send("identity", body.clone().into_bytes()).await.status, 200);
    for encoding in ["br", "zstd", "deflate", "compress", "gzip, gzip", "gzip, br", "nonsense"] {
        let answer = send(encoding, packed.clone()).await;
        assert_error(encoding, &answer, 415, "invalid_request_error", "unsupported_media_type");
    }
    let rss = world.gateway.rss_kib();
    let bomb = gzip(&vec![b' '; 64 << 20]);
    assert!(bomb.len() < 1 << 20, "the bomb itself is within the limit");
    let answer = send("gzip", bomb).await;
    assert_error("bomb", &answer, 413, "invalid_request_error", "request_too_large");
    assert!(world.gateway.rss_kib() < rss + 16 * 1024, "{} KiB more", world.gateway.rss_kib() - rss);
    for broken in [b"not gzip at all".to_vec(), packed[..packed.len() / 2].to_vec()] {
        let answer = send("gzip", broken).await;
        assert_eq!(answer.status, 400, "{}", answer.text());
    }
}

#[tokio::test]
async fn c14_line_breaks_in_names_reach_no_header_and_no_log_line() {
    let world = world().await;
    let nasty = "x\r\nx-injected: 1\r\n\r\nGET /evil HTTP/1.1\u{0}";
    let tool = json!([{ "type": "function", "function": { "name": nasty } }]);
    for more in [
        json!({ "user": nasty }),
        json!({ "metadata": { "k": nasty } }),
        json!({ "tools": tool }),
        json!({ "model": nasty }),
    ] {
        let answer = world.chat(&chat_with("acme/fast", more)).await;
        assert!(answer.header("x-injected").is_none());
        assert!(answer.status < 500, "{}", answer.text());
        world.gateway.log_of(answer.header("x-request-id").expect("an id")).await;
    }
    world.client.with_header("x-client-request-id", "a\tb\u{1b}[31mc").get("/v1/models").await;
    for sent in world.upstream.requests() {
        assert!(sent.header("x-injected").is_none());
        assert_eq!(sent.path, CHAT);
    }
    for line in world.gateway.stdout() {
        assert!(line.starts_with('{') && serde_json::from_str::<Value>(&line).is_ok(), "{line:?}");
        assert!(!line.contains(['\u{1b}', '\r']), "{line:?}");
    }
}

#[tokio::test]
async fn c15_model_ids_that_look_like_paths() {
    let world = world().await;
    let long = format!("acme/{}", "x".repeat(10_000));
    let ids = [
        "../",
        "acme/../fast",
        "%2e%2e%2f",
        "acme/%2e%2e%2ffast",
        "//",
        "acme//fast",
        "%00",
        "acme/fast%00",
        "acme/fast;x",
        "acme/fast?x=1",
        "acme/fast#x",
        "a/../../v1/files",
        "acme/fast@evil.example",
        "@evil",
        "http://evil.example/x",
        "acme\\fast",
        ".",
        "..",
        "acme/.",
        "acme/..",
        " acme/fast",
        "acme/fast ",
        long.as_str(),
    ];
    for id in ids {
        let answer = world.chat(&chat(id)).await;
        assert!(matches!(answer.status, 400 | 404), "{id:.40}: {} {}", answer.status, answer.text());
        for path in [format!("/v1/models/{}", id.replace(' ', "%20")), format!("/v1/models/{}", encoded(id))]
        {
            let answer = world.client.get(&path).await;
            let known = ["/v1/models/acme/fast?x=1", "/v1/models/acme/fast#x"].contains(&path.as_str());
            let list = path.trim_end_matches('/') == "/v1/models";
            assert!(
                known || list || matches!(answer.status, 400 | 404 | 414 | 431),
                "{path:.60}: {} {}",
                answer.status,
                String::from_utf8_lossy(&answer.body)
            );
            assert!(answer.status < 500, "{path:.60}");
        }
    }
    assert_eq!(world.upstream.hits(), 0, "the catalogue decides, not the text of an id");
    // Decoded once: the second encoding is part of the name.
    assert_eq!(world.client.get("/v1/models/acme%2Ffast").await.status, 200);
    assert_eq!(world.client.get("/v1/models/acme%252Ffast").await.status, 404);
    let strange = Setup {
        extra: "[[models]]\nid = \"acme/we%2Fird../?#name\"\ncategory = [\"chat\"]\n".to_owned(),
        ..Setup::default()
    };
    let world = strange.start().await;
    world.chat_ok(&chat("acme/we%2Fird../?#name")).await;
    assert_eq!(world.upstream.last().path, CHAT, "whatever the model is called");
}

fn encoded(id: &str) -> String {
    id.bytes()
        .map(
            |byte| {
                if byte.is_ascii_alphanumeric() {
                    char::from(byte).to_string()
                } else {
                    format!("%{byte:02X}")
                }
            },
        )
        .collect()
}

#[tokio::test]
async fn c16_text_that_looks_like_an_event() {
    let world = world().await;
    let text = "before\n\ndata: [DONE]\n\ndata: {\"error\":{}}\n\nevent: x\r\n: comment\n\nafter";
    world.upstream.enqueue(Answer::sse().all(&chat_transcript(&[text])).done());
    let frames =
        world.client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await.rest().await;
    assert_eq!(chunks(&frames).len(), 3, "role, text, finish");
    assert_eq!(
        frames.iter().filter(|frame| frame.contains("[DONE]")).count(),
        2,
        "one of them inside a string"
    );
    assert_eq!(text_of(&frames, 0), text);
    let messages = json!({ "messages": [{ "role": "user", "content": text }] });
    world.upstream.enqueue(Answer::json(200, &chat_body("m", text)));
    let body = world.chat_ok(&chat_with("acme/fast", messages.clone())).await;
    assert_eq!(body["choices"][0]["message"]["content"], text);
    assert_eq!(world.upstream.last().json()["messages"], messages["messages"]);
}

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
    let mut wrong = Vec::new();
    for (label, bytes, status, code) in &table {
        let got = answers(&world, bytes.as_bytes()).await;
        let seen: Vec<_> = got.iter().map(|answer| (answer.status, answer.code())).collect();
        if seen != [(*status, (*code).to_owned())] {
            wrong.push(format!("{label}: {seen:?}, not {status} {code:?}"));
            continue;
        }
        // Whoever made the answer, it has the headers of every answer.
        for answer in &got {
            assert_eq!(answer.header("content-type"), Some("application/json"), "{label}");
            let length = answer.body.len().to_string();
            assert_eq!(answer.header("content-length"), Some(length.as_str()), "{label}");
            assert_request_id(label, answer.header("x-request-id"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
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
    // Length and chunks together: one answer, the length dropped or the request refused, and then the end.
    let both = post("content-length: 4\r\ntransfer-encoding: chunked\r\n", &chunked) + smuggled;
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send(both).await;
    let answer = wire.response().await.expect("an answer");
    assert!(matches!(answer.status, 200 | 400), "{}", answer.text());
    assert!(wire.response().await.is_none(), "nothing after it is read on this connection");
    // A body is never read as a request, also where the answer comes before the body was read.
    for (path, kind) in
        [("/v1/unknown", "application/json"), (CHAT, "text/plain"), (CHAT, "application/json")]
    {
        let head = format!(
            "POST {path} HTTP/1.1\r\nhost: x\r\n{auth}content-type: {kind}\r\ncontent-length: {}\r\n\r\n",
            smuggled.len()
        );
        let got = statuses(&world, (head + smuggled).as_bytes()).await;
        assert_eq!(got.len(), 1, "{path} {kind}: {got:?}");
    }
}

/// What one byte does in the name, in the value, and in the target of a request: the rules of RFC 9110 and 9112.
#[tokio::test]
async fn c17_every_byte_in_every_place_has_one_answer() {
    let world = world().await;
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    let head = format!("host: x\r\nauthorization: Bearer {KEY}\r\n");
    let around = |before: &str, byte: u8, after: &str| {
        [before.as_bytes(), &[byte], after.as_bytes(), head.as_bytes(), b"\r\n"].concat()
    };
    let mut wrong = Vec::new();
    for byte in 0..=255_u8 {
        let in_name = around("GET /v1/models HTTP/1.1\r\nx", byte, "y: 1\r\n");
        let in_value = around("GET /v1/models HTTP/1.1\r\nx: a", byte, "b\r\n");
        let in_target = around("GET /v1/models?x=", byte, "y HTTP/1.1\r\n");
        let value_is_legal = byte == b'\t' || (byte >= 0x20 && byte != 0x7f);
        let cases = [
            ("name", in_name, token(byte) || byte == b':', false),
            ("value", in_value, value_is_legal, false),
            // Beyond ASCII a target is a matter of taste; one answer it must have.
            (
                "target",
                in_target,
                byte > 0x20 && byte < 0x7f,
                byte >= 0x7f || b"\"<>\\^`{|}#".contains(&byte),
            ),
        ];
        for (place, bytes, legal, either) in cases {
            let mut wire = RawClient::connect(world.gateway.addr).await;
            wire.send(bytes).await;
            let status = wire.response().await.map(|answer| answer.status);
            let fine = match status {
                Some(200) => legal || either,
                Some(400) | None => !legal || either,
                Some(_) => false,
            };
            if !fine {
                wrong.push(format!("{byte:#04x} in a {place}: {status:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Chunked bodies with a fault in each place where one can be: refused, and nothing after them is read.
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
    for fault in faults {
        let mut wire = RawClient::connect(world.gateway.addr).await;
        wire.send(format!("{head}{fault}\r\nx\r\n0\r\n\r\n{smuggled}")).await;
        let answer = wire.response().await;
        let status = answer.map(|answer| answer.status);
        assert!(matches!(status, Some(400 | 413) | None), "{fault:?}: {status:?}");
        assert!(wire.response().await.is_none(), "{fault:?}: nothing after a broken body is a request");
    }
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
        assert!(
            matches!(head.status, 200 | 404 | 405) && head.body.is_empty(),
            "HEAD {path}: {}",
            head.status
        );
    }
    for path in [CHAT, "/v1/completions", "/v1/embeddings"] {
        let answer = world.client.send("POST", path, Some("text/xml"), Some(b"<x/>")).await;
        assert_error(path, &answer, 415, "invalid_request_error", "unsupported_media_type");
    }
    for path in ["/nothing", "/V1/models", "/v2/models", "//v1/models", "/v1/../healthz"] {
        let answer = world.client.get(path).await;
        assert!(matches!(answer.status, 401 | 404), "{path}: {}", answer.status);
        assert!(answer.json()["error"]["code"].is_string(), "{path}: the error shape");
    }
}

#[tokio::test]
async fn c21_fields_that_try_to_steer_the_gateway_are_inert() {
    let world = world().await;
    let evil = world.second.base_url();
    let body = chat_with(
        "acme/fast",
        json!({ "host": "evil.example", "timeout": 1, "Model": "beta/fast", "MODEL": "beta/fast",
                "stream_options": { "include_usage": true } }),
    );
    let steering = json!({ "api_base": evil, "base_url": evil, "api_key": "stolen", "headers": { "x-evil": "1" },
        "extra_headers": { "authorization": "Bearer stolen" }, "extra_body": { "model": "evil" },
        "user_config": { "api_base": evil }, "custom_llm_provider": "evil", "proxy": evil });
    for (name, value) in steering.as_object().expect("members") {
        let answer = world.chat(&chat_with("acme/fast", json!({ name: value }))).await;
        assert_error(name, &answer, 400, "invalid_request_error", "unsupported_value");
    }
    assert_eq!(world.upstream.hits(), 0, "a member that steers is sent nowhere");
    let client = world
        .client
        .with_header("x-portkey-custom-host", &evil)
        .with_header("api-base", &evil)
        .with_header("x-forwarded-host", "evil.example");
    let answer = client.post_json(CHAT, &body).await.ok().json();
    assert_eq!(answer["gateway"]["model_used"], "acme/fast");
    assert_eq!((world.second.hits(), world.second.connections()), (0, 0), "nobody else is called");
    let sent = world.upstream.last();
    for name in ["x-evil", "x-portkey-custom-host", "api-base", "x-forwarded-host"] {
        assert_eq!(sent.header(name), None, "{name}");
    }
    assert_eq!(sent.header("host"), Some(world.upstream.addr.to_string().as_str()));
    assert_eq!(sent.json()["model"], "fast-2026-01", "what the policy saw is what is sent");
}

#[tokio::test]
async fn c23_a_panic_is_one_clients_500_and_nobody_elses_trouble() {
    let world = world().await;
    let release = Signal::new();
    let text = |text: &str| sse_data(&json!({ "content": text }), None);
    world.upstream.enqueue(
        Answer::sse()
            .data(&text("before"))
            .wait(&release)
            .data(&text(" after"))
            .data(&sse_data(&json!({}), Some("stop")))
            .done(),
    );
    let mut stream = world.client.stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
    stream.json().await;
    assert_eq!(stream.json().await["choices"][0]["delta"]["content"], "before");
    for streamed in [false, true] {
        let answer = world.chat(&chat_with("demo/panic", json!({ "stream": streamed }))).await;
        assert_error("panic", &answer, 500, "server_error", "internal_error");
        let line = world.gateway.log_of(answer.header("x-request-id").expect("an id")).await;
        assert!(line.to_string().contains("internal_error"), "{line}");
    }
    let metrics = world.client.with_key(crate::harness::ADMIN).get("/metrics").await.ok().text();
    let panics = metrics
        .lines()
        .find(|line| line.contains("panics") && !line.starts_with('#'))
        .unwrap_or_default()
        .to_owned();
    assert!(panics.ends_with(" 2"), "the panics are counted: {panics:?}");
    release.fire();
    assert_eq!(text_of(&stream.rest().await, 0), " after");
}
