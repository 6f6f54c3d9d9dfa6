//! Requests to Azure and its answers, compared with `fixtures/azure`.

use std::time::Duration;

use bytes::Bytes;
use gw_wire::event::Event;
use gw_wire::failure::FailureKind::{self, *};
use gw_wire::request::{RequestLimits, parse_chat, parse_completion, parse_embeddings};
use http::HeaderMap;
use proptest::prelude::*;
use secrecy::SecretString;
use serde_json::{Value, json};

use crate::adapter::{Adapter, Built, ChoiceRange, Encoded, Reading, Scheme, Target};
use crate::registry;
use crate::settings::{Api, ProviderSettings, SettingsError};

macro_rules! fixture {
    ($name:literal) => {
        include_str!(concat!("../../../fixtures/azure/", $name))
    };
}

const ENDPOINT: &str = "https://res.openai.azure.com";

fn settings(base_url: &str, options: &str) -> ProviderSettings {
    ProviderSettings {
        base_url: Some(base_url.to_owned()),
        allow_private_network: false,
        // The requests of these tests search the operator's data.
        allow_members: vec!["data_sources".to_owned()],
        options: options.parse().unwrap(),
        ..ProviderSettings::plain("azure", Api::AZURE)
    }
}

fn try_build(base_url: &str, options: &str) -> Result<Built, SettingsError> {
    registry::build(&settings(base_url, options))
}

fn azure(options: &str) -> Box<dyn Adapter> {
    try_build(ENDPOINT, options).unwrap().adapter
}

fn target<'a>(upstream_model: &'a str, id: &'a str) -> Target<'a> {
    Target {
        upstream_model,
        id,
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: None,
        context_length: None,
        rules: crate::model_rules::ModelRules::of(Api::AZURE.rules, upstream_model, id),
        issuer: None,
        breakpoints: None,
    }
}

fn whole() -> ChoiceRange {
    ChoiceRange { n: 1, prompts: 0..1, from: 0 }
}

fn chat(adapter: &dyn Adapter, request: &str, target: &Target<'_>) -> Encoded {
    adapter
        .chat(
            &parse_chat(Bytes::from(request.to_owned()), &RequestLimits::default()).unwrap(),
            &whole(),
            target,
        )
        .unwrap()
}

fn json(text: impl AsRef<[u8]>) -> Value {
    serde_json::from_slice(text.as_ref()).unwrap()
}

const DATED: &str = "api_version = '2024-10-21'\ndeployments = { 'gpt-5' = 'prod gpt/5' }";

#[test]
fn a_dated_version_calls_the_deployment_and_names_no_model() {
    let sent = chat(&*azure(DATED), fixture!("chat.request.json"), &target("gpt-5", "azure/gpt-5"));
    let path = "/openai/deployments/prod%20gpt%2F5/chat/completions?api-version=2024-10-21";
    assert_eq!(sent.call.path, path);
    assert_eq!(json(&sent.call.body), json(fixture!("chat.deployment.upstream.json")));
    assert_eq!(sent.warnings, ["parameter_dropped:temperature", "reasoning_dropped"]);
}

#[test]
fn without_a_version_the_v1_api_gets_the_deployment_as_model() {
    for (options, path) in [
        ("", "/openai/v1/chat/completions"),
        ("api_version = 'v1'", "/openai/v1/chat/completions"),
        ("api_version = 'preview'", "/openai/v1/chat/completions?api-version=preview"),
    ] {
        let options = format!("{options}\ndeployments = {{ 'gpt-5' = 'prod gpt/5' }}");
        let sent = chat(&*azure(&options), fixture!("chat.request.json"), &target("gpt-5", "azure/gpt-5"));
        assert_eq!(sent.call.path, path);
        assert_eq!(json(&sent.call.body), json(fixture!("chat.v1.upstream.json")), "{path}");
    }
}

#[test]
fn an_endpoint_may_be_written_with_its_path() {
    for (base, options, path) in [
        ("https://r.openai.azure.com/", "", "/openai/v1/chat/completions"),
        ("https://r.openai.azure.com/openai", "", "/v1/chat/completions"),
        ("https://r.openai.azure.com/openai/v1/", "", "/chat/completions"),
        (
            "https://r.openai.azure.com/openai",
            "api_version = '2024-10-21'",
            "/deployments/m/chat/completions?api-version=2024-10-21",
        ),
    ] {
        let adapter = try_build(base, options).unwrap().adapter;
        let sent = chat(&*adapter, fixture!("chat.request.json"), &target("m", "azure/m"));
        assert_eq!(sent.call.path, path, "{base}");
    }
    assert!(try_build("https://r.openai.azure.com/openai/v1", "api_version = '2024-10-21'").is_err());
    let nowhere = ProviderSettings { base_url: None, ..settings("", "") };
    assert!(registry::build(&nowhere).unwrap_err().to_string().contains("base_url"));
}

#[test]
fn the_token_limit_is_named_after_the_model_not_the_deployment() {
    let request = r#"{"model":"x","messages":[{"role":"user","content":"hi"}],"max_tokens":5}"#;
    for (options, upstream, id, name) in [
        ("deployments = { 'o3' = 'gpt-4o-like' }", "o3", "azure/o3", "max_completion_tokens"),
        ("deployments = { 'gpt-4o' = 'o3' }", "gpt-4o", "azure/gpt-4o", "max_tokens"),
        ("", "prod", "azure/gpt-5-mini", "max_completion_tokens"),
        ("", "prod", "azure/gpt-4o", "max_tokens"),
    ] {
        let sent = json(chat(&*azure(options), request, &target(upstream, id)).call.body);
        assert_eq!(sent[name], json!(5), "{upstream} {id}: {sent}");
    }
}

#[test]
fn stream_usage_is_requested_from_versions_that_support_it() {
    let request = r#"{"model":"x","messages":[{"role":"user","content":"hi"}],"stream":true}"#;
    for (version, asked) in [("2024-06-01", false), ("2024-02-15-preview", false), ("2024-10-21", true)] {
        let adapter = azure(&format!("api_version = '{version}'"));
        let sent = json(chat(&*adapter, request, &target("m", "azure/m")).call.body);
        assert_eq!(sent["stream_options"]["include_usage"] == json!(true), asked, "{version}");
        assert_eq!(adapter.traits().capabilities.stream_usage, asked);
    }
}

#[test]
fn completions_and_embeddings_go_to_their_own_operations() {
    let adapter = azure("api_version = '2024-10-21'\ndeployments = { 'e' = 'dep' }");
    let request = parse_completion(
        Bytes::from(r#"{"model":"a/i","prompt":[[1,2]],"echo":true}"#),
        &RequestLimits::default(),
    )
    .unwrap();
    let sent = adapter.completion(&request, &whole(), &target("i", "a/i")).unwrap().call;
    assert_eq!(sent.path, "/openai/deployments/i/completions?api-version=2024-10-21");
    assert_eq!(json(&sent.body), json!({"prompt": [[1, 2]], "echo": true}));
    let request = r#"{"model":"a/e","input":["a","b","c"],"dimensions":8,"encoding_format":"base64"}"#;
    let request = parse_embeddings(Bytes::from(request), &RequestLimits::default()).unwrap();
    let sent = adapter.embeddings(&request, 1..3, &target("e", "a/e")).unwrap();
    assert_eq!(sent.path, "/openai/deployments/dep/embeddings?api-version=2024-10-21");
    assert_eq!(json(&sent.body), json!({"input": ["b", "c"], "dimensions": 8, "encoding_format": "float"}));
    let sent = azure("").embeddings(&request, 0..3, &target("e", "a/e")).unwrap();
    assert_eq!((sent.path.as_str(), &json(&sent.body)["model"]), ("/openai/v1/embeddings", &json!("e")));
    assert!(adapter.traits().capabilities.token_prompts && adapter.traits().capabilities.openai_fields);
    assert!(adapter.traits().models.is_none());
}

#[test]
fn a_reply_is_read_with_its_usage() {
    let adapter = azure("");
    let reply = adapter.decode_chat(fixture!("chat.response.json").as_bytes(), &Reading::default()).unwrap();
    assert_eq!(reply.model.as_deref(), Some("gpt-5-2025-08-07"));
    assert_eq!(reply.choices[0].content.as_deref(), Some("Rain, 雨 🌧"));
    let usage = reply.usage.unwrap();
    assert_eq!((usage.prompt, usage.completion, usage.cached, usage.reasoning), (58, 68, Some(16), Some(64)));
}

/// The events of a stream. Adjacent pieces of one kind are joined.
fn stream_events(pieces: &[&[u8]]) -> Vec<String> {
    let mut decoder = azure("").stream(&Reading::default());
    let mut told: Vec<(String, String)> = Vec::new();
    let mut sink = |event: Event<'_>| {
        let (head, piece) = match event {
            Event::Text { text, .. } => ("text".to_owned(), text.into_owned()),
            Event::ToolArgs { call, fragment, .. } => (format!("args {call}"), fragment.into_owned()),
            other => (format!("{other:?}"), String::new()),
        };
        match told.last_mut() {
            Some((last, text)) if *last == head && !piece.is_empty() => text.push_str(&piece),
            _ => told.push((head, piece)),
        }
    };
    for piece in pieces {
        decoder.feed(piece, &mut sink);
    }
    decoder.eof(&mut sink);
    told.into_iter().map(|(head, text)| format!("{head} {text}").trim().to_owned()).collect()
}

#[test]
fn content_filter_chunks_are_ignored() {
    let stream = fixture!("filtered.stream.txt").as_bytes();
    let expected = [
        r#"Start { model: Some("gpt-4o"), fingerprint: None }"#,
        "text Die 色 is 🟦",
        "Finish { choice: 0, reason: ContentFilter }",
        "Usage(Usage { prompt: 9, completion: 7, cached: None, cache_write: None, cache_write_1h: None, reasoning: None, audio_prompt: None, image_prompt: None, audio_completion: None, image_completion: None, accepted_prediction: None, rejected_prediction: None, hosted: HostedCalls { web_search: 0, web_fetch: 0, file_search: 0, code_interpreter: 0, code_runs: 0, search_answers: 0, search_low: 0, search_medium: 0, search_high: 0 }, unread_calls: 0, has_unpriced: false, estimated: false, is_total: false, units: Units { counted: None, form: ImageForm { size: None, quality: None } }, stated_cost: None })",
        "End",
    ];
    assert_eq!(stream_events(&[stream]), expected);
}

#[test]
fn the_events_do_not_depend_on_the_cuts() {
    for stream in [fixture!("filtered.stream.txt"), fixture!("tools.stream.txt")] {
        let stream = stream.as_bytes();
        let uncut = stream_events(&[stream]);
        for at in 0..=stream.len() {
            let (begin, end) = stream.split_at(at);
            assert_eq!(stream_events(&[begin, end]), uncut, "cut at {at}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(stream_events(&bytes), uncut);
    }
}

#[test]
fn parallel_calls_stay_separate_and_may_have_no_arguments() {
    let told = stream_events(&[fixture!("tools.stream.txt").as_bytes()]);
    assert_eq!(
        told[1..4],
        [
            r#"ToolStart { choice: 0, call: 0, id: "call_1", name: "weather" }"#,
            r#"args 0 {"city":"東京"}"#,
            r#"ToolStart { choice: 0, call: 1, id: "call_2", name: "time" }"#,
        ]
    );
}

#[test]
fn every_error_has_its_kind() {
    let kind = |status, body: &str| -> FailureKind {
        azure("").classify(status, &HeaderMap::new(), body.as_bytes()).kind
    };
    for (status, body, expected) in [
        (400, fixture!("content_filter.error.json"), ContentFilter),
        (
            404,
            r#"{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}"#,
            ModelMissing,
        ),
        (404, r#"{"error":{"code":"404","message":"Resource not found"}}"#, ModelMissing),
        (
            401,
            r#"{"error":{"code":"401","message":"Access denied due to invalid subscription key or wrong API endpoint."}}"#,
            Auth,
        ),
        (
            401,
            r#"{"error":{"code":"PermissionDenied","message":"The principal lacks the required data action."}}"#,
            Auth,
        ),
        (
            403,
            r#"{"error":{"code":"AuthenticationTypeDisabled","message":"Key based authentication is disabled for this resource."}}"#,
            Auth,
        ),
        (
            429,
            r#"{"error":{"code":"429","message":"Requests to the ChatCompletions_Create Operation have exceeded token rate limit."}}"#,
            RateLimited,
        ),
        (429, r#"{"error":{"code":"insufficient_quota","message":"x"}}"#, Billing),
        (
            400,
            r#"{"error":{"code":"context_length_exceeded","type":"invalid_request_error","message":"x"}}"#,
            ContextLength,
        ),
        (
            400,
            r#"{"error":{"code":"OperationNotSupported","message":"The chatCompletion operation does not work with the specified model."}}"#,
            BadRequest,
        ),
        (408, r#"{"error":{"code":"Timeout","message":"The operation was timeout."}}"#, Timeout),
        (
            500,
            r#"{"error":{"code":"InternalServerError","message":"Backend returned unexpected response."}}"#,
            Server,
        ),
        (503, "", Overloaded),
        (502, "<html>", Server),
    ] {
        assert_eq!(kind(status, body), expected, "{status} {body}");
    }
}

#[test]
fn retry_after_is_kept_in_milliseconds_too() {
    for (name, value, wait) in [("retry-after", "7", 7_000), ("retry-after-ms", "1500", 1_500)] {
        let headers: HeaderMap = [(name.parse().unwrap(), value.parse().unwrap())].into_iter().collect();
        let failure = azure("").classify(429, &headers, b"{}");
        assert_eq!(failure.retry_after, Some(Duration::from_millis(wait)));
    }
}

#[test]
fn content_filter_messages_hold_no_address() {
    let body = fixture!("content_filter.error.json").as_bytes();
    let failure = azure("").classify(400, &HeaderMap::new(), body);
    assert!(failure.message.contains("content management policy") && !failure.message.contains("://"));
}

#[test]
fn a_tenant_is_an_id_or_a_domain_and_leads_to_no_other_path() {
    let build = |tenant: &str| {
        let application = format!("tenant_id = '{tenant}'\nclient_id = 'c'\nclient_secret = 'sekret'");
        try_build(ENDPOINT, &application).map(drop).map_err(|fault| fault.to_string())
    };
    for tenant in ["72f988bf-86f1-41af-91ab-2d7cd011db47", "contoso.onmicrosoft.com", "common"] {
        assert_eq!(build(tenant), Ok(()), "{tenant}");
    }
    for tenant in
        ["../../evil", "..", ".", "a/b", "a%2fb", "a b", "a?b", "a..b", ".a", "a.", &"a".repeat(254)]
    {
        let fault = build(tenant).unwrap_err();
        assert!(fault.contains("tenant_id") && !fault.contains("sekret"), "{tenant}: {fault}");
    }
}

#[test]
fn credentials_are_a_key_a_token_or_an_application() {
    assert_eq!(azure("").traits().scheme, Scheme::Header("api-key"));
    assert_eq!(azure("auth = 'bearer'").traits().scheme, Scheme::Bearer);
    let application = "tenant_id = 't'\nclient_id = 'c'\n";
    let built = try_build(ENDPOINT, &format!("{application}client_secret = 'sekret'")).unwrap();
    assert_eq!(built.signer.unwrap().secrets(), ["sekret"]);
    let key = vec![(SecretString::from("sekret-key"), 1)];
    let with_key = ProviderSettings { api_keys: key, ..settings(ENDPOINT, application) };
    assert_eq!(registry::build(&with_key).unwrap().signer.unwrap().secrets(), ["sekret-key"]);
    for options in [
        "auth = 'magic'",
        "tenant_id = 't'",
        "client_secret = 's'",
        application,
        "tenant_id = 't'\nclient_id = 'c'\nclient_secret = 5",
        "tenant_id = 't'\nclient_id = 'c'\nclient_secret = 's'\nauthority = 'ftp://x'",
        "api_version = 5",
        "deployments = 'x'",
        "deployments = { m = 5 }",
        "deployments = { m = '..' }",
    ] {
        let message = try_build(ENDPOINT, options).unwrap_err().to_string();
        assert!(!message.contains("sekret"), "{message}");
    }
    let both = ProviderSettings {
        options: format!("{application}client_secret = 's'").parse().unwrap(),
        ..with_key
    };
    assert!(registry::build(&both).is_err());
}

proptest! {
    #[test]
    fn any_bytes_never_panic_the_decoder(pieces in prop::collection::vec(any::<Vec<u8>>(), 0..8)) {
        let mut decoder = azure("").stream(&Reading::default());
        for piece in &pieces {
            decoder.feed(piece, &mut |_| ());
        }
        decoder.eof(&mut |_| ());
    }
}

#[test]
fn a_realtime_session_has_the_address_of_its_api() {
    let path = |base: &str, options: &str, model: &str| {
        let built = try_build(base, options).unwrap();
        let call = built.surfaces.realtime.unwrap().encode(false, &target(model, "azure/voice"));
        (call.path, call.headers.contains_key("openai-beta"))
    };
    let dated = "api_version = \"2024-10-01-preview\"\ndeployments = { voice = \"my voice\" }";
    let classic = "/openai/realtime?api-version=2024-10-01-preview&deployment=my%20voice".to_owned();
    assert_eq!(path(ENDPOINT, dated, "voice"), (classic, false));
    assert_eq!(path(ENDPOINT, "", "voice").0, "/openai/v1/realtime?model=voice");
    let preview = "/openai/v1/realtime?api-version=preview&model=voice";
    assert_eq!(path(ENDPOINT, "api_version = \"preview\"", "voice").0, preview);
    assert_eq!(path("https://res.openai.azure.com/openai/v1", "", "voice").0, "/realtime?model=voice");
}
