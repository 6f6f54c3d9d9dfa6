//! A configured provider: the requests that it sends, and the secrets that it never shows.

use gw_providers::provider::Provider;
use gw_providers::settings::{Api, ProviderSettings, Timeouts};
use gw_wire::failure::{Failure, FailureKind};
use secrecy::SecretString;

use crate::upstream::{Upstream, call, clocks, collect};

const SMALL: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}";

fn settings(base_url: impl Into<String>) -> ProviderSettings {
    ProviderSettings { base_url: Some(base_url.into()), ..ProviderSettings::plain("acme", Api::OPENAI) }
}

fn build(settings: &ProviderSettings) -> Result<Provider, String> {
    Provider::build(settings, Timeouts::default()).map_err(|fault| fault.to_string())
}

fn secret(text: &str) -> SecretString {
    SecretString::from(text)
}

#[tokio::test]
async fn a_call_carries_the_providers_headers_and_credentials_and_nothing_else() {
    let (seen, mut requests) = tokio::sync::mpsc::channel(8);
    let upstream = Upstream::start(move |_, mut peer| {
        let seen = seen.clone();
        async move {
            while let Some(request) = peer.request().await {
                seen.send(request).await.unwrap();
                peer.say(SMALL).await;
            }
        }
    })
    .await;
    let mut settings = settings(format!("http://{}/v1/", upstream.address));
    settings.api_keys = vec![(secret("sekret-a"), 2), (secret("sekret-b"), 1)];
    settings.headers = vec![("x-team".to_owned(), secret("search"))];
    let provider = build(&settings).unwrap();
    let mut sent = Vec::new();
    for _ in 0..3 {
        let mut call = call();
        call.headers.insert("content-type", "application/json".parse().unwrap());
        let response = provider.send(call, &clocks()).await.unwrap();
        assert_eq!(collect(response).await.unwrap(), "{}");
        sent.push(requests.recv().await.unwrap());
    }
    let mut lines: Vec<&str> = sent[0].split("\r\n").collect();
    lines.sort_unstable();
    let mut expected = [
        "",
        "{\"model\":\"m\"}",
        "POST /v1/chat/completions HTTP/1.1",
        "accept: application/json",
        "accept-encoding: identity",
        "authorization: Bearer sekret-a",
        "content-length: 13",
        "content-type: application/json",
        &format!("host: {}", upstream.address),
        concat!("user-agent: model-gateway/", env!("CARGO_PKG_VERSION")),
        "x-team: search",
    ];
    expected.sort_unstable();
    assert_eq!(lines, expected);
    assert!(sent[1].contains("Bearer sekret-b") && sent[2].contains("Bearer sekret-a"));
}

#[tokio::test]
async fn a_provider_without_keys_sends_no_authorization() {
    let (seen, mut requests) = tokio::sync::mpsc::channel(1);
    let upstream = Upstream::start(move |_, mut peer| {
        let seen = seen.clone();
        async move {
            seen.send(peer.request().await.unwrap()).await.unwrap();
            peer.say(SMALL).await;
        }
    })
    .await;
    let provider = build(&settings(format!("http://{}", upstream.address))).unwrap();
    provider.send(call(), &clocks()).await.unwrap();
    assert!(!requests.recv().await.unwrap().contains("authorization"));
}

#[tokio::test]
async fn anthropic_gets_its_key_and_its_version_in_headers_of_their_own() {
    let (seen, mut requests) = tokio::sync::mpsc::channel(1);
    let upstream = Upstream::start(move |_, mut peer| {
        let seen = seen.clone();
        async move {
            seen.send(peer.request().await.unwrap()).await.unwrap();
            peer.say(SMALL).await;
        }
    })
    .await;
    let mut settings = settings(format!("http://{}/", upstream.address));
    settings.api = Api::ANTHROPIC;
    settings.api_keys = vec![(secret("sekret-a"), 1)];
    let provider = build(&settings).unwrap();
    provider.send((provider.adapter().traits().models.unwrap().call)(), &clocks()).await.unwrap();
    let sent = requests.recv().await.unwrap();
    assert!(sent.starts_with("GET /v1/models?limit=1000 HTTP/1.1\r\n"), "{sent}");
    assert!(sent.contains("x-api-key: sekret-a\r\n") && sent.contains("anthropic-version: 2023-06-01\r\n"));
    assert!(!sent.contains("authorization"));
}

fn refusal(change: impl FnOnce(&mut ProviderSettings)) -> String {
    let mut settings = settings("https://example.com/v1");
    change(&mut settings);
    build(&settings).map(|_| ()).unwrap_err()
}

#[test]
fn settings_that_cannot_work_are_refused_without_showing_a_secret() {
    let header = |name: &'static str, value: &'static str| {
        move |settings: &mut ProviderSettings| settings.headers = vec![(name.to_owned(), secret(value))]
    };
    let messages = [
        refusal(|it| it.base_url = None),
        refusal(|it| it.base_url = Some("https://sekret@example.com".to_owned())),
        refusal(|it| it.api_keys = vec![(secret("sekret\n"), 1)]),
        refusal(header("host", "sekret.example")),
        refusal(header("content-length", "5")),
        refusal(header("transfer-encoding", "chunked")),
        refusal(header("bad name", "sekret")),
        refusal(header("x-a", "sekret\r\nx-b: 1")),
        refusal(|it| drop(it.options.insert("ca_file".to_owned(), toml::Value::Integer(1)))),
        refusal(|it| drop(it.options.insert("ca_file".to_owned(), "/no/such/file.pem".into()))),
    ];
    for message in messages {
        assert!(message.contains("acme") && !message.contains("sekret"), "{message}");
    }
}

#[test]
fn a_provider_never_shows_its_keys() {
    let mut settings = settings("https://example.com/v1");
    settings.api_keys = vec![(secret("sekret"), 1)];
    settings.headers = vec![("x-key".to_owned(), secret("sekret"))];
    let shown = format!("{:?}", build(&settings).unwrap());
    assert!(!shown.contains("sekret"), "{shown}");
}

#[test]
fn an_error_that_repeats_the_key_is_not_quoted() {
    let mut settings = settings("https://example.com/v1");
    settings.api_keys = vec![(secret("correct horse"), 1), (secret("x"), 1)];
    settings.headers = vec![("x-key".to_owned(), secret("battery-staple"))];
    let mut failure = Failure::new(FailureKind::BadRequest, "The key 'correct horse' is x.");
    failure.code = Some("battery-staple".to_owned());
    let censored = build(&settings).unwrap().censor(failure.with_detail("correct horse, battery-staple"));
    assert_eq!(censored.message, "The key '[redacted]' is x.");
    assert_eq!(censored.code.as_deref(), Some("[redacted]"));
    assert_eq!(censored.detail.as_deref(), Some("[redacted], [redacted]"));
}

#[test]
fn a_preset_gives_the_address_and_the_batch_size() {
    let mut settings = settings("");
    settings.base_url = None;
    settings.name = "openai".to_owned();
    settings.timeouts.connect = Some(std::time::Duration::from_millis(7));
    let provider = build(&settings).unwrap();
    assert_eq!(&**provider.name(), "openai");
    assert!(provider.embedding_batch() > 1);
    assert_eq!(provider.timeouts().connect.as_millis(), 7);
    assert_eq!(provider.timeouts().total, Timeouts::default().total);
}

#[test]
fn providers_are_shared_between_threads_and_bodies_move() {
    fn shared<T: Send + Sync>() {}
    fn moved<T: Send + Unpin>() {}
    shared::<Provider>();
    moved::<gw_providers::client::UpstreamResponse>();
}

#[tokio::test]
async fn an_arn_arrives_encoded_with_a_bedrock_key() {
    let (seen, mut requests) = tokio::sync::mpsc::channel(1);
    let upstream = Upstream::start(move |_, mut peer| {
        let seen = seen.clone();
        async move {
            seen.send(peer.request().await.unwrap()).await.unwrap();
            peer.say(SMALL).await;
        }
    })
    .await;
    let mut settings = settings(format!("http://{}", upstream.address));
    settings.api = Api::BEDROCK;
    settings.api_keys = vec![(secret("ABSK-sekret"), 1)];
    let provider = build(&settings).unwrap();
    let body = r#"{"model":"m","messages":[{"role":"user","content":"Hi"}]}"#;
    let request = gw_wire::request::parse_chat(
        bytes::Bytes::from_static(body.as_bytes()),
        &gw_wire::request::RequestLimits::default(),
    )
    .unwrap();
    let target = gw_providers::adapter::Target {
        upstream_model: "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.amazon.nova-lite-v1:0",
        id: "amazon/nova",
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: None,
        context_length: None,
        rules: gw_providers::model_rules::ModelRules::of(
            Api::BEDROCK.rules,
            "arn:aws:bedrock:eu-west-1:1:inference-profile/eu.amazon.nova-lite-v1:0",
            "amazon/nova",
        ),
        issuer: None,
        breakpoints: None,
    };
    let share = gw_providers::adapter::ChoiceRange { n: 1, prompts: 0..1, from: 0 };
    let encoded = provider.adapter().chat(&request, &share, &target).unwrap();
    provider.send(encoded.call, &clocks()).await.unwrap();
    let sent = requests.recv().await.unwrap();
    let line = "POST /model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Feu.amazon.nova-lite-v1%3A0/converse HTTP/1.1\r\n";
    assert!(sent.starts_with(line), "{sent}");
    assert!(sent.contains("authorization: Bearer ABSK-sekret\r\n"), "{sent}");
    assert!(sent.ends_with(r#"{"messages":[{"role":"user","content":[{"text":"Hi"}]}]}"#), "{sent}");
}

#[test]
fn members_and_betas_that_may_be_sent_are_part_of_the_identity_in_any_order() {
    let identity = |allowed: &[&str], denied: &[&str]| {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let settings = ProviderSettings {
            allow_members: owned(allowed),
            deny_betas: owned(denied),
            ..settings("http://127.0.0.1:9/v1")
        };
        build(&settings).unwrap().identity()
    };
    let cases: [(&[&str], &[&str]); 5] = [
        (&[], &[]),
        (&["plugins"], &[]),
        (&["plugins", "speed"], &[]),
        (&[], &["plugins"]),
        (&[], &["fast-mode"]),
    ];
    let all: std::collections::BTreeSet<u64> =
        cases.iter().map(|(open, shut)| identity(open, shut)).collect();
    assert_eq!(all.len(), cases.len());
    assert_eq!(identity(&["a", "b"], &["c", "d"]), identity(&["b", "a"], &["d", "c"]));
}
