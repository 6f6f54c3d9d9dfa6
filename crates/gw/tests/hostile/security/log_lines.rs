//! Log injection: no text of a client, an operator or an upstream breaks a log line or sends a command to a terminal.

use std::process::Command;

use gw_testkit::upstream::{chat_body, default_answer};
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, FakeUpstream, Gateway, Launch, eventually};
use serde_json::{Value, json};

use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, KEY, Setup, binary, chat, chat_with};

const CHAT: &str = "/v1/chat/completions";
/// A part of every hostile text, for the search.
const MARK: &str = "zq7x";

/// Line ends of every kind, and commands for terminals: ESC, BEL, and the one-character forms of C1.
fn hostile() -> String {
    let ends = ["\u{2028}", "\u{2029}", "\r\n", "\n", "\r", "\u{85}", "\u{b}", "\u{c}", "\0"];
    let commands =
        ["\u{1b}[2J", "\u{1b}]0;owned\u{7}", "\u{9b}2J", "\u{9d}0;owned\u{9c}", "\u{8}\u{7f}", "\u{202e}"];
    let forged = "{\"message\":\"forged\"}";
    let all: Vec<_> =
        ends.iter().chain(&commands).map(|text| format!("{MARK}{text}{MARK} {forged}")).collect();
    all.join("")
}

fn encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The program with a provider that lists its own models, at a level that logs much.
fn config(upstream: &FakeUpstream) -> String {
    let extra = format!(
        "[[providers]]\nname = \"listed\"\napi = \"openai\"\nbase_url = \"{}\"\ndiscover = true\n",
        upstream.base_url()
    );
    Setup { extra, routing: "retries = 0", ..Setup::default() }
        .config(&upstream.base_url(), &upstream.base_url())
}

/// Sends hostile text from every side.
async fn provoke(gateway: &Gateway, upstream: &FakeUpstream) {
    let text = hostile();
    let (client, admin) = (gateway.client().with_key(KEY), gateway.client().with_key(ADMIN));
    // The client's texts.
    client.post_json(CHAT, &chat(&text)).await;
    client
        .post_json(CHAT, &chat_with("acme/fast", json!({ "user": text, "metadata": { text.clone(): text } })))
        .await;
    client
        .post_json(CHAT, &json!({ "model": "acme/fast", "messages": [{ "role": text, "content": text }] }))
        .await;
    client.post_bytes(CHAT, format!("{{\"model\":\"{MARK}\u{1b}").as_bytes()).await;
    for path in ["", "v1/models/", "admin/v1/keys/", "v1/responses/"] {
        client.get(&format!("/{path}{}", encode(&text))).await;
    }
    // A header holds no line end, but hyper lets bytes over 127 through.
    let visible: String = text.chars().filter(|c| !c.is_ascii_control()).collect();
    for name in
        ["user-agent", "x-client-request-id", "x-forwarded-for", "x-gateway-session", "traceparent", "origin"]
    {
        client.with_header(name, &visible).post_json(CHAT, &chat("acme/fast")).await;
    }
    client.with_key(&visible).get("/v1/models").await;
    for line in [
        "GET /\u{1b}[2J HTTP/1.1\r\n",
        "GET / HTTP/1.1\r\nuser-agent: \u{1b}[2J\r\n",
        "\u{1b}[2J / HTTP/1.1\r\n",
    ] {
        let mut wire = RawClient::connect(gateway.addr).await;
        wire.send(format!("{line}host: {MARK}\r\n\r\n")).await;
        wire.until_closed().await;
    }
    // The operator's texts. A name holds no control character, and the separators of Unicode are none.
    let refused = ask(&admin, "POST", "/admin/v1/keys", &json!({ "name": "a\u{1b}[2J" })).await;
    assert_eq!((refused.status, refused.code()), (400, "invalid_value".to_owned()));
    let named: String = text.chars().filter(|c| !c.is_control()).take(60).collect();
    assert!(named.contains('\u{2028}'));
    let (key, _) = create(&admin, json!({ "name": named, "metadata": { "k": text } })).await;
    gateway.client().with_key(&key).post_json(CHAT, &chat("acme/fast")).await.ok();
    ask(&admin, "PUT", &format!("/admin/v1/teams/{}", encode(&text)), &json!({})).await;
    ask(&admin, "PUT", &format!("/admin/v1/config/aliases/{}", encode(&text)), &json!(text)).await;
    ask(&admin, "POST", "/admin/v1/reload", &json!({})).await;
    // The upstream's texts: errors of every shape, names of models, answers.
    let error = |text: &str| json!({ "error": { "message": text, "type": text, "code": text } });
    for status in [400, 401, 404, 429, 500, 503] {
        upstream.enqueue(Answer::json(status, &error(&text)));
        client.post_json(CHAT, &chat("acme/fast")).await;
        upstream.enqueue(Answer::full(status, &[("content-type", "text/plain")], &text));
        client.post_json(CHAT, &chat("beta/fast")).await;
    }
    let answer = chat_body(&text, &text);
    upstream.enqueue(Answer::json(200, &answer));
    client.post_json(CHAT, &chat("acme/fast")).await.ok();
    upstream.enqueue(Answer::sse().data(&error(&text)).done());
    let _ = client.try_stream(CHAT, &chat_with("acme/fast", json!({ "stream": true }))).await;
    upstream.enqueue(Answer::raw(format!("HTTP/1.1 200 {MARK}\u{1b}[2J\r\n\r\n")).close());
    client.post_json(CHAT, &chat("acme/fast")).await;
    client.get(&format!("/v1/models/last-{MARK}")).await;
}

/// An upstream whose list of models is hostile.
async fn upstream() -> FakeUpstream {
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(|request| {
        if request.path.ends_with("/models") {
            return Answer::json(200, &json!({ "data": [{ "id": hostile() }, { "id": "fine" }] }));
        }
        default_answer(request)
    });
    upstream
}

/// Whether the text holds a character that ends a line or that a terminal obeys.
fn is_raw(c: char) -> bool {
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}')
}

#[tokio::test]
async fn i38_hostile_text_breaks_no_json_line() {
    let upstream = upstream().await;
    let launch = Launch::new(binary()).file("gateway.toml", config(&upstream));
    let gateway = launch.arg("serve").arg("--log-level").arg("debug").start().await;
    provoke(&gateway, &upstream).await;
    let last = || gateway.stdout().iter().any(|line| line.contains("/v1/models/last-")).then_some(());
    eventually("the last request is logged", last).await;
    let lines = [gateway.stdout(), gateway.stderr()].concat();
    assert!(lines.iter().filter(|line| line.contains(MARK)).count() >= 10, "hostile text reaches the logs");
    for line in &lines {
        let read: Result<Value, _> = serde_json::from_str(line);
        assert!(read.as_ref().is_ok_and(Value::is_object), "not one JSON object: {line:?}");
        assert!(!line.contains(is_raw), "{line:?}");
        assert_ne!(read.expect("JSON")["message"], "forged", "{line:?}");
    }
}

/// The gateway that `script` has started.
fn child_of(pid: u32) -> Option<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
    children.split_whitespace().next()?.parse().ok()
}

/// Ends the program in the terminal, which does not end when its terminal is gone.
struct InTerminal(u32);

impl Drop for InTerminal {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", &self.0.to_string()]).output();
    }
}

/// The text without the colours of the log's own words.
fn without_colours(line: &str) -> String {
    let mut pieces = line.split("\u{1b}[");
    let mut text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let digits = piece.len() - piece.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';').len();
        match piece[digits..].strip_prefix('m') {
            Some(rest) => text.push_str(rest),
            None => text.push_str(&format!("\u{1b}[{piece}")),
        }
    }
    text
}

#[tokio::test]
async fn i38_hostile_text_breaks_no_line_in_a_terminal() {
    let upstream = upstream().await;
    // util-linux's `script` gives the program a terminal.
    let command = format!("exec {} serve --no-discover --log-level debug", binary());
    let launch = ["-q", "-e", "-f", "-c", &command, "/dev/null"]
        .iter()
        .fold(Launch::new("script"), |launch, arg| launch.arg(*arg));
    let mut gateway = launch.file("gateway.toml", config(&upstream)).env("TERM", "xterm").start().await;
    let program = InTerminal(child_of(gateway.pid()).expect("the gateway runs below script"));
    provoke(&gateway, &upstream).await;
    let last = || gateway.stdout().iter().any(|line| line.contains("/v1/models/last-")).then_some(());
    eventually("the last request is logged", last).await;
    let lines = gateway.stdout();
    assert!(lines.iter().filter(|line| line.contains(MARK)).count() >= 10, "hostile text reaches the logs");
    for line in &lines {
        let plain = without_colours(line.trim_end_matches('\r'));
        assert!(!plain.contains(is_raw), "{line:?}");
        // A line begins with its time, such as 2026-11-23T06:55:37.
        let begins_with_time = plain.get(..11).is_some_and(|start| {
            start.ends_with('T')
                && start[..10].split('-').all(|part| part.bytes().all(|b| b.is_ascii_digit()))
        });
        assert!(begins_with_time || !plain.contains(MARK), "a forged line: {line:?}");
    }
    let sent = Command::new("kill").args(["-TERM", &program.0.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()));
    assert_eq!(gateway.ended().await.code(), Some(0));
}
