//! Bodies that are too large, too deep, compressed or hardly JSON.

use gw_testkit::Response;
use gw_testkit::measured::at_most;
use gw_testkit::wire::RawClient;
use serde_json::json;

use super::CHAT;
use crate::harness::providers::{all_with, plain_words, targets};
use crate::harness::{
    Differences, KEY, Setup, assert_error, assert_invalid, chat, chat_with, compressed, world,
};

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

    // A length above the limit is refused from the head alone, and the connection is closed.
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send(world.client.head("POST", CHAT, Some("application/json"), Some(100 << 20))).await;
    wire.send("{\"model\"").await;
    too_large("length", &wire.response().await.expect("an answer"));
    wire.until_closed().await;

    // A client that expects `100 Continue` does not get it.
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

    // A body that fits: `100 Continue`, then the answer.
    let body = chat("acme/fast").to_string();
    let mut wire = RawClient::connect(world.gateway.addr).await;
    wire.send(asking.head("POST", CHAT, Some("application/json"), Some(body.len()))).await;
    assert_eq!(wire.head().await.map(|head| head.status), Some(100));
    wire.send(body).await;
    wire.response().await.expect("an answer").ok();
}

fn nested(depth: usize, open: &str, close: &str, core: &str) -> String {
    format!("{}{core}{}", open.repeat(depth), close.repeat(depth))
}

/// The members in which a client may nest a value: those that the gateway reads, and one that it does not know.
const NESTED_MEMBERS: [&str; 6] = ["ignored", "metadata", "tools", "messages", "routing", "response_format"];

#[tokio::test]
async fn c07_deep_and_wide_json() {
    let (gateway, upstreams) = all_with("").await;
    let client = gateway.client().with_key(KEY);
    let mut rows = Differences::default();
    for (((api, model), upstream), answer) in targets().zip(&upstreams).zip(plain_words()) {
        // The upstream does not read the body: its own JSON library would refuse so many levels.
        upstream.respond_with(move |_| answer());
        let written = |members: &str| {
            format!(r#"{{"model":"{model}","messages":[{{"role":"user","content":"x"}}]{members}}}"#)
        };
        // The request object itself is the first level.
        let fits = written(&format!(",\"ignored\":{}", nested(127, "[", "]", "")));
        rows.answer(format!("{api}: 128 levels"), &client.post_bytes(CHAT, fits.as_bytes()).await, (200, ""));
        assert_eq!(upstream.hits(), 1, "{api}");
        // Depth is refused before a model is looked up: one dialect shows the largest depths.
        let depths: &[usize] = if api == "openai" { &[128, 100_000, 1_000_000] } else { &[128] };
        for &depth in depths {
            let arrays = nested(depth, "[", "]", "");
            let objects = nested(depth, "{\"a\":", "}", "1");
            for member in NESTED_MEMBERS {
                for (shape, value) in [("arrays", &arrays), ("objects", &objects)] {
                    let body = written(&format!(",\"{member}\":{value}"));
                    let answer = client.post_bytes(CHAT, body.as_bytes()).await;
                    rows.answer(
                        format!("{api}: {depth} {shape} in {member}"),
                        &answer,
                        (400, "invalid_json"),
                    );
                }
            }
        }
        let keys: String = (0..300_000).map(|index| format!("\"k{index}\":1,")).collect();
        let passed = [
            ("1,000,001 numbers", format!(",\"ignored\":[{}1]", "1,".repeat(1_000_000))),
            ("300,001 members of an object", format!(",\"ignored\":{{{keys}\"last\":1}}")),
        ];
        let refused = [
            ("1,000,001 objects", format!(",\"ignored\":[{}1]", "{},".repeat(1_000_000))),
            ("300,001 members of the request", format!(",{keys}\"last\":1")),
        ];
        let passed = passed.map(|(shape, members)| (shape, members, (200, "")));
        let refused = refused.map(|(shape, members)| (shape, members, (400, "invalid_value")));
        // These are refused before a model is looked up, too.
        let refused = refused.into_iter().filter(|_| api == "openai");
        for (shape, members, expected) in passed.into_iter().chain(refused) {
            let body = written(&members);
            let answer = client.post_bytes(CHAT, body.as_bytes()).await;
            rows.answer(format!("{api}: {shape}"), &answer, expected);
        }
        rows.check(format!("{api}: requests to the upstream"), upstream.hits(), 3);
    }
    for depth in [128, 100_000, 1_000_000] {
        let open = client.post_bytes(CHAT, "[".repeat(depth).as_bytes()).await;
        assert_invalid("never closed", &open, "invalid_json");
    }
    // The memory of these bodies is counted allocation by allocation in gw-providers (`deep_and_wide.rs`).
    rows.finish();
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
    // An unknown member holds a byte that is no UTF-8.
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
        assert_invalid(&body, &answer, "invalid_json");
    }
    assert_eq!(world.upstream.hits(), 0, "there are never two readings");
}

#[tokio::test]
async fn c10_null_characters_in_every_string() {
    let world = world().await;
    let nul = "a\u{0}b";
    let tool = |name: &str, description: &str| json!([{ "type": "function", "function": { "name": name, "description": description } }]);
    // Names of models refuse a null character. Texts are passed on unchanged.
    let cases = [
        (json!({ "messages": [{ "role": "user", "content": nul }] }), (200, "")),
        (json!({ "messages": [{ "role": "user", "name": nul, "content": "x" }] }), (200, "")),
        (
            json!({ "messages": [{ "role": "user", "content": [{ "type": "text", "text": nul }] }] }),
            (200, ""),
        ),
        (json!({ "messages": [{ "role": "tool", "tool_call_id": nul, "content": nul }] }), (200, "")),
        (json!({ "user": nul }), (200, "")),
        (json!({ "stop": [nul] }), (200, "")),
        (json!({ "tools": tool(nul, "d") }), (200, "")),
        (json!({ "tools": tool("f", nul) }), (200, "")),
        (json!({ "metadata": { nul: nul } }), (200, "")),
        (json!({ nul: nul }), (200, "")),
        (json!({ "model": nul }), (404, "model_not_found")),
        (json!({ "routing": { "fallback": [nul] } }), (404, "model_not_found")),
    ];
    let mut rows = Differences::default();
    for (more, expected) in cases {
        let hits = world.upstream.hits();
        let answer = world.chat(&chat_with("acme/fast", more.clone())).await;
        rows.answer(&more, &answer, expected);
        rows.check(format!("{more}: requests"), world.upstream.hits() - hits, usize::from(expected.0 == 200));
        if answer.status == 200 {
            let sent = world.upstream.last().json();
            for (name, value) in more.as_object().expect("members") {
                rows.check(format!("{more}: sent"), &sent[name], value);
            }
        }
    }
    rows.finish();
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
        assert_invalid(&body, &answer, "invalid_json");
    }
    assert_eq!(world.upstream.hits(), 0);
    world.client.post_bytes(CHAT, written(r#","user":"\ud83d\ude00""#).as_bytes()).await.ok();
}

/// Numbers at the edges of their ranges.
const ACCEPTED_NUMBERS: [(&str, &str); 10] = [
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

#[tokio::test]
async fn c12_numbers_of_every_kind() {
    let world = world().await;
    let (integer, decimal, json) = ("invalid_type", "invalid_type", "invalid_json");
    let refused = [
        ("n", "-1", "integer_below_min_value"),
        ("n", "18446744073709551616", "integer_above_max_value"),
        ("n", "1e999", integer),
        ("n", "\"1\"", integer),
        ("n", "0", "integer_below_min_value"),
        ("n", "1.5", integer),
        ("max_tokens", "-1", "integer_below_min_value"),
        ("max_tokens", "\"5\"", integer),
        ("max_tokens", "99999999999999999999999", "integer_above_max_value"),
        ("max_tokens", "0.5", integer),
        ("temperature", "2.0000001", "decimal_above_max_value"),
        ("temperature", "-0.0000001", "decimal_below_min_value"),
        ("temperature", "NaN", json),
        ("temperature", "1e999", "decimal_above_max_value"),
        ("temperature", "Infinity", json),
        ("temperature", "\"1\"", decimal),
        ("temperature", "[]", decimal),
        ("top_p", "1.0000001", "decimal_above_max_value"),
        ("top_p", "-1e-9", "decimal_below_min_value"),
        ("top_p", "true", decimal),
        ("presence_penalty", "2.0000001", "decimal_above_max_value"),
        ("presence_penalty", "-2.0000001", "decimal_below_min_value"),
        ("frequency_penalty", "2.0000001", "decimal_above_max_value"),
        ("frequency_penalty", "{}", decimal),
        ("seed", "1.5", integer),
        ("seed", "\"1\"", integer),
        ("seed", "9223372036854775808", "integer_above_max_value"),
        ("top_logprobs", "21", "integer_above_max_value"),
        ("top_logprobs", "-1", "integer_below_min_value"),
        ("n", "01", json),
        ("n", "+1", json),
        ("n", ".5", json),
        ("n", "1.", json),
        ("n", "0x1", json),
    ];
    let mut rows = Differences::default();
    for (field, value, code) in refused {
        let answer =
            world.client.post_bytes(CHAT, written(&format!(",\"{field}\":{value}")).as_bytes()).await;
        rows.answer(format!("{field} = {value}"), &answer, (400, code));
    }
    assert_eq!(world.upstream.hits(), 0);
    for (field, value) in ACCEPTED_NUMBERS {
        let answer =
            world.client.post_bytes(CHAT, written(&format!(",\"{field}\":{value}")).as_bytes()).await;
        rows.answer(format!("{field} = {value}"), &answer, (200, ""));
    }
    // The rules hold for the other operations, too.
    for (path, body, code) in [
        ("/v1/completions", r#"{"model":"acme/fast","prompt":"x","logprobs":1e999}"#, "invalid_type"),
        ("/v1/completions", r#"{"model":"acme/fast","prompt":[1e999]}"#, "invalid_type"),
        (
            "/v1/embeddings",
            r#"{"model":"acme/embed","input":"x","dimensions":-1}"#,
            "integer_below_min_value",
        ),
        ("/v1/embeddings", r#"{"model":"acme/embed","input":[-1]}"#, "integer_below_min_value"),
        ("/v1/rerank", r#"{"model":"acme/rerank","query":"x","documents":[1e999]}"#, "invalid_type"),
        ("/v1/moderations", r#"{"model":"acme/moderation","input":[1e999]}"#, "invalid_type"),
        ("/v1/images/generations", r#"{"model":"acme/paint","prompt":"x","n":1e999}"#, "invalid_type"),
        (
            "/v1/audio/speech",
            r#"{"model":"acme/speak","input":"x","voice":"v","speed":1e999}"#,
            "decimal_above_max_value",
        ),
        (
            "/v1beta/models/acme/fast:generateContent",
            r#"{"contents":[{"parts":[{"text":"x"}]}],"generationConfig":{"temperature":1e999}}"#,
            "decimal_above_max_value",
        ),
    ] {
        rows.answer(body, &world.client.post_bytes(path, body.as_bytes()).await, (400, code));
    }
    rows.finish();
}

#[tokio::test]
async fn c13_compressed_bodies_and_bombs() {
    let world = Setup { server: "body_limit_mib = 1", ..Setup::default() }.start().await;
    let body = chat("acme/fast").to_string();
    let packed = compressed("gzip", body.as_bytes());
    let send = |encoding: &'static str, bytes: Vec<u8>| {
        let client = world.client.with_header("content-encoding", encoding);
        async move { client.post_bytes(CHAT, &bytes).await }
    };
    for encoding in ["gzip", "GZIP", "x-gzip"] {
        let answer = send(encoding, packed.clone()).await;
        assert_eq!(answer.status, 200, "{encoding}: {}", answer.text());
    }
    assert_eq!(send("identity", body.clone().into_bytes()).await.status, 200);
    for encoding in ["br", "zstd", "deflate", "compress", "gzip, gzip", "gzip, br", "nonsense"] {
        let answer = send(encoding, packed.clone()).await;
        assert_error(encoding, &answer, 415, "invalid_request_error", "unsupported_media_type");
    }
    let rss = world.gateway.rss_kib();
    let bomb = compressed("gzip", &vec![b' '; 64 << 20]);
    assert!(bomb.len() < 1 << 20, "the bomb itself is within the limit");
    let answer = send("gzip", bomb).await;
    assert_error("bomb", &answer, 413, "invalid_request_error", "request_too_large");
    at_most("KiB of a packed body", world.gateway.rss_kib(), rss + 16 * 1024);
    for broken in [b"not gzip at all".to_vec(), packed[..packed.len() / 2].to_vec()] {
        assert_invalid("broken gzip", &send("gzip", broken).await, "invalid_json");
    }
}
