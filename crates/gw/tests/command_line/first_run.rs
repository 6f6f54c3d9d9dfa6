//! The first start without any configuration: a key, a line to paste, and the same key at the second start.

use std::process::Command;

use gw_testkit::certificate::Certificate;
use gw_testkit::{FakeUpstream, Gateway, Launch, eventually};
use serde_json::json;

use crate::harness::{binary, chat};

fn launch() -> Launch {
    Launch::new(binary()).arg("--listen").arg("127.0.0.1:0").arg("--no-discover")
}

/// The complete output of a first start.
async fn welcome(gateway: &Gateway) -> String {
    let said = || [gateway.stderr(), gateway.stdout()].concat().join("\n");
    let complete = || Some(said()).filter(|text| text.contains("curl ") && text.contains(" -d '"));
    eventually("the keys of the first start and a line to paste", complete).await
}

#[tokio::test]
async fn the_pasted_curl_line_gets_an_answer() {
    pasted_line_gets_an_answer(&launch().start().await).await;
}

#[tokio::test]
async fn the_curl_line_names_no_model_that_fails_on_purpose() {
    // The entry has no price, and the models that fail are free.
    let config = "[[providers]]\nname = \"demo\"\n\n[[models]]\nid = \"demo/chat\"\n";
    pasted_line_gets_an_answer(&launch().file("gateway.toml", config).start().await).await;
}

#[tokio::test]
async fn the_curl_line_speaks_tls_with_a_gateway_that_does() {
    let made = Certificate::of(&["127.0.0.1"]);
    let config =
        "[server]\ntls = { cert = \"cert.pem\", key = \"key.pem\" }\n[[providers]]\nname = \"demo\"\n";
    let launch =
        launch().file("gateway.toml", config).file("cert.pem", &made.pem).file("key.pem", &made.key_pem);
    pasted_line_gets_an_answer(&launch.start().await).await;
}

async fn pasted_line_gets_an_answer(gateway: &Gateway) {
    let welcome = welcome(gateway).await;
    let start = welcome.find("curl ").unwrap_or_else(|| panic!("a curl line in: {welcome}"));
    let command: String = welcome[start..].split("\n\n").next().unwrap_or_default().to_owned();
    let output =
        Command::new("sh").arg("-c").arg(&command).current_dir(gateway.dir()).output().expect("a shell");
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{error}: {command}: {}", String::from_utf8_lossy(&output.stdout)));
    assert_eq!(answer["object"], "chat.completion", "{answer}");
    assert_eq!(answer["gateway"]["provider"], "demo");
}

#[tokio::test]
async fn keys_are_made_once_and_only_their_hashes_kept() {
    let dir = tempfile::tempdir().expect("a directory");
    let data = dir.path().join("data");
    let with_data = || launch().env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy());
    let gateway = with_data().start().await;
    let said = welcome(&gateway).await;
    let keys: Vec<&str> = said
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'))
        .filter(|word| word.starts_with("sk-gw-"))
        .collect();
    let (admin, inference) = (keys[0].to_owned(), keys[1].to_owned());
    for key in [&admin, &inference] {
        assert_eq!(key.len(), "sk-gw-".len() + 46, "{key}");
    }
    gateway.client().with_key(&inference).post_json("/v1/chat/completions", &chat("demo/chat")).await.ok();
    gateway.client().with_key(&admin).get("/metrics").await.ok();
    drop(gateway);
    let mut kept = Vec::new();
    for entry in std::fs::read_dir(&data).expect("the data directory") {
        kept.extend(std::fs::read(entry.expect("an entry").path()).unwrap_or_default());
    }
    assert!(!kept.is_empty());
    for key in [&admin, &inference] {
        let secret = &key.as_bytes()[16..];
        assert!(!kept.windows(secret.len()).any(|window| window == secret), "the key itself is not kept");
    }
    let again = with_data().start().await;
    let said = [again.stderr(), again.stdout()].concat().join("\n");
    assert!(!said.contains("sk-gw-"), "no other key: {said}");
    again.client().with_key(&inference).get("/v1/models").await.ok();
}

#[tokio::test]
async fn demo_is_on_when_there_is_nothing_else() {
    let gateway = launch().start().await;
    let welcome = welcome(&gateway).await;
    let key = welcome
        .split_whitespace()
        .filter(|word| word.starts_with("sk-gw-"))
        .nth(1)
        .expect("a key")
        .to_owned();
    let client = gateway.client().with_key(&key);
    let models = client.get("/v1/models").await.ok().json();
    assert!(models["data"].as_array().is_some_and(|all| all.iter().all(|model| model["provider"] == "demo")));
    let body =
        json!({ "model": "demo/chat", "messages": [{ "role": "user", "content": "x" }], "stream": true });
    let frames = client.stream("/v1/chat/completions", &body).await.rest().await;
    assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"));
    let body = json!({ "model": "demo/embed", "input": ["a", "b"] });
    assert_eq!(
        client.post_json("/v1/embeddings", &body).await.ok().json()["data"].as_array().map(Vec::len),
        Some(2)
    );
}

#[tokio::test]
async fn a_key_variable_switches_its_provider_on_and_demo_off() {
    let gateway = launch().env("OPENAI_API_KEY", "sk-real-canary").start().await;
    let said = welcome(&gateway).await;
    assert!(!said.contains("sk-real-canary"));
    let key =
        said.split_whitespace().filter(|word| word.starts_with("sk-gw-")).nth(1).expect("a key").to_owned();
    let models = gateway.client().with_key(&key).get("/v1/models").await.ok().json();
    let providers: Vec<_> =
        models["data"].as_array().expect("data").iter().map(|model| model["provider"].clone()).collect();
    assert!(
        !providers.is_empty() && providers.iter().all(|provider| *provider == json!("openai")),
        "{providers:?}"
    );
}

#[tokio::test]
async fn discover_takes_the_models_from_the_providers_own_list() {
    let upstream = FakeUpstream::start().await;
    let config = format!(
        "[[providers]]\nname = \"local\"\napi = \"openai\"\nbase_url = \"{}\"\ndiscover = true\n\n[[keys]]\nname = \"k\"\nkey = \"sk-k\"\n",
        upstream.base_url()
    );
    let gateway =
        Launch::new(binary()).file("gateway.toml", config).arg("--listen").arg("127.0.0.1:0").start().await;
    let client = gateway.client().with_key("sk-k");
    // The start does not wait for providers. Their models appear after they have answered.
    let start = std::time::Instant::now();
    loop {
        let list = client.get("/v1/models").await.ok().json();
        let all = list["data"].as_array().cloned().unwrap_or_default();
        let ids: Vec<_> = all.iter().map(|model| model["id"].clone()).collect();
        if ids == ["local/found-one", "local/found-two"] {
            break;
        }
        assert!(start.elapsed() < gw_testkit::wait::DEADLINE, "{ids:?}");
    }
    client.post_json("/v1/chat/completions", &chat("found-two")).await.ok();
    assert_eq!(upstream.last().json()["model"], "found-two");
    assert_eq!(upstream.last().header("authorization"), None, "no key, no header");
}
