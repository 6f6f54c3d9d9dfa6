//! Sealed reasoning: the key that seals it, from the environment, from a file and from the store of replicas; strings that
//! were changed or that another gateway sealed; answers of the cache.

use std::path::Path;

use gw_testkit::{FakeUpstream, Gateway, Launch};
use serde_json::{Value, json};

use super::replay::answers::{SIGNATURE, SIGNATURES, anthropic, anthropic_blocks};
use super::replay::{ask, history, request};
use crate::harness::{ADMIN, KEY, binary};

const MODEL: &str = "claude/claude-opus-5-5";
const VARIABLE: &str = "MODEL_GATEWAY_ENCRYPTION_KEY";
/// 32 bytes as hexadecimal digits.
const HEXADECIMAL: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
/// [`HEXADECIMAL`] as base64.
const BASE64: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// An upstream of Anthropic's dialect that always gives the same signed answer.
async fn upstream() -> FakeUpstream {
    let upstream = FakeUpstream::start().await;
    upstream.always(anthropic(false));
    upstream
}

/// A gateway before that upstream, with a data directory that outlives it.
fn launch(upstream: &FakeUpstream, data: &Path, store: &str) -> Launch {
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nshed_after_ms = 60000\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n\
         [[keys]]\nname = \"a\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n{store}\
         [[providers]]\nname = \"claude\"\napi = \"anthropic\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
         [[models]]\nid = \"{MODEL}\"\n",
        upstream.addr
    );
    Launch::new(binary()).file("gateway.toml", config).env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy())
}

/// The first answer of a conversation.
async fn first(gateway: &Gateway) -> Value {
    ask(gateway, request(MODEL, &json!([{"role": "user", "content": "x"}])), false).await.0
}

/// Sends the answer back. Returns the assistant's blocks that reach the provider, and whether the warning says that reasoning
/// was left out.
async fn second(gateway: &Gateway, upstream: &FakeUpstream, message: &Value) -> (Value, bool) {
    let (_, warnings) = ask(gateway, request(MODEL, &history(message)), false).await;
    let sent = upstream.last().json();
    (sent["messages"][1]["content"].clone(), warnings.to_string().contains("reasoning_dropped"))
}

async fn assert_replayed(gateway: &Gateway, upstream: &FakeUpstream, message: &Value, label: &str) {
    assert_eq!(second(gateway, upstream, message).await, (anthropic_blocks(), false), "{label}");
}

async fn assert_left_out(gateway: &Gateway, upstream: &FakeUpstream, message: &Value, label: &str) {
    let (blocks, is_dropped) = second(gateway, upstream, message).await;
    let sent = blocks.to_string();
    assert!(is_dropped, "{label}");
    assert!(
        !sent.contains(SIGNATURE) && !sent.contains("thinking") && !sent.contains("gw1."),
        "{label}: {sent}"
    );
    assert!(sent.contains("I look.") && sent.contains("the moon"), "{label}: {sent}");
}

#[tokio::test]
async fn a_tampered_or_foreign_signature_is_left_out_with_a_warning() {
    let upstream = upstream().await;
    let data = tempfile::tempdir().expect("a directory");
    let gateway = launch(&upstream, data.path(), "").start().await;
    let message = first(&gateway).await;
    let entries = message["reasoning_details"].as_array().expect("entries");
    assert!(!message.to_string().contains(SIGNATURE), "{message}");
    let sealed = entries[0]["signature"].as_str().expect("a signature");
    let middle = sealed.len() / 2;
    let flipped = if &sealed[middle..=middle] == "A" { "B" } else { "A" };
    let changed = format!("{}{flipped}{}", &sealed[..middle], &sealed[middle + 1..]);
    for (label, signature) in
        [("changed", changed.as_str()), ("cut", &sealed[..middle]), ("the vendor's own", SIGNATURES[0])]
    {
        let mut tampered = message.clone();
        for entry in tampered["reasoning_details"].as_array_mut().expect("entries") {
            for member in ["signature", "data"] {
                if entry.get(member).is_some() {
                    entry[member] = json!(signature);
                }
            }
        }
        assert_left_out(&gateway, &upstream, &tampered, label).await;
    }
    assert_replayed(&gateway, &upstream, &message, "unchanged").await;
}

#[tokio::test]
async fn a_restart_keeps_the_key_and_a_lost_key_leaves_the_reasoning_out() {
    let upstream = upstream().await;
    let data = tempfile::tempdir().expect("a directory");
    let gateway = launch(&upstream, data.path(), "").start().await;
    let message = first(&gateway).await;
    drop(gateway.stop());
    let gateway = launch(&upstream, data.path(), "").start().await;
    assert_eq!(first(&gateway).await["reasoning_details"], message["reasoning_details"], "equal bytes");
    assert_replayed(&gateway, &upstream, &message, "after a restart").await;
    drop(gateway.stop());
    std::fs::remove_file(data.path().join("secret.key")).expect("the key's file");
    let gateway = launch(&upstream, data.path(), "").start().await;
    assert_left_out(&gateway, &upstream, &message, "with another key").await;
}

#[tokio::test]
async fn gateways_with_the_same_key_in_the_environment_open_each_others_reasoning() {
    let upstream = upstream().await;
    let data = [(); 3].map(|()| tempfile::tempdir().expect("a directory"));
    let start = |at: usize, key: &str| launch(&upstream, data[at].path(), "").env(VARIABLE, key).start();
    let (one, two) = (start(0, HEXADECIMAL).await, start(1, BASE64).await);
    let other = start(2, &HEXADECIMAL.replace("1f", "2f")).await;
    let message = first(&one).await;
    assert_replayed(&two, &upstream, &message, "the same key").await;
    assert_left_out(&other, &upstream, &message, "another key").await;
    assert!(!data[0].path().join("secret.key").exists(), "the environment's key is not written to a disk");
    let config = one.client().with_key(ADMIN).get("/admin/v1/config").await.ok().text();
    let output = [config, one.stdout().join("\n"), one.stderr().join("\n"), message.to_string()].concat();
    assert!(!output.contains(HEXADECIMAL) && !output.contains(&BASE64[..40]), "{output}");
}

#[tokio::test]
async fn replicas_share_the_key_through_their_store() {
    let upstream = upstream().await;
    let store = format!("[store]\nurl = \"{}\"\n", gw_testkit::postgres::database());
    let data = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let (one, two) = tokio::join!(
        launch(&upstream, data[0].path(), &store).start(),
        launch(&upstream, data[1].path(), &store).start()
    );
    let message = first(&one).await;
    assert_replayed(&two, &upstream, &message, "the other replica").await;
    assert!(data.iter().all(|data| !data.path().join("secret.key").exists()), "the store has the key");
}

#[tokio::test]
async fn a_wrong_key_in_the_environment_is_refused_and_not_shown() {
    let upstream = upstream().await;
    let data = tempfile::tempdir().expect("a directory");
    for (command, wrong) in
        [("serve", "hunter2-hunter2"), ("check", "hunter2-hunter2"), ("serve", &BASE64[4..])]
    {
        let output = launch(&upstream, data.path(), "").arg(command).env(VARIABLE, wrong).run();
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command}: {text}");
        assert!(text.contains(VARIABLE) && text.contains("32 bytes") && !text.contains(wrong), "{text}");
    }
}

#[tokio::test]
async fn a_cached_answer_has_the_same_seals_and_goes_back() {
    let upstream = upstream().await;
    let data = tempfile::tempdir().expect("a directory");
    let gateway = launch(&upstream, data.path(), "").start().await;
    let mut question = request(MODEL, &json!([{"role": "user", "content": "x"}]));
    question["cache"] = json!({"enabled": true});
    let (miss, _) = ask(&gateway, question.clone(), false).await;
    let asked = upstream.hits();
    let (hit, _) = ask(&gateway, question.clone(), false).await;
    assert_eq!((upstream.hits(), &hit), (asked, &miss));
    let (streamed, _) = ask(&gateway, question, true).await;
    assert_eq!(upstream.hits(), asked);
    for message in [&hit, &streamed] {
        assert_replayed(&gateway, &upstream, message, "from the cache").await;
    }
}
