//! Addresses, embeddings, and where access tokens come from.

mod claude;
mod tokens;

use bytes::Bytes;
use gw_wire::failure::FailureKind;
use gw_wire::reply::Vector;
use gw_wire::request::embeddings::parse_embeddings;
use gw_wire::request::{RequestLimits, chat::parse_chat};
use secrecy::SecretString;
use serde_json::{Value, json};

use super::build_with;
use crate::adapter::{Built, ChoiceRange, HttpCall, Reading, Target};
use crate::settings::{Api, ProviderSettings};

fn settings(options: &[(&str, &str)], keys: &[&str]) -> ProviderSettings {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), toml::Value::from(*value)));
    ProviderSettings {
        api_keys: keys.iter().map(|key| (SecretString::from(*key), 1)).collect(),
        options: options.collect(),
        ..ProviderSettings::plain("gcp", Api::VERTEX)
    }
}

fn built() -> Built {
    build_with(&settings(&[("region", "europe-west4"), ("project", "my-project")], &["ya29.token"]), None)
        .unwrap()
}

fn target(upstream_model: &str) -> Target<'_> {
    Target {
        upstream_model,
        id: "gcp/m",
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: None,
        context_length: None,
        rules: crate::model_rules::ModelRules::of(Api::VERTEX.rules, upstream_model, "gcp/m"),
        issuer: None,
        breakpoints: None,
    }
}

fn body(call: &HttpCall) -> Value {
    serde_json::from_slice(&call.body).unwrap()
}

#[test]
fn a_region_decides_the_address() {
    let address = |region: &[(&str, &str)]| {
        let options = [&[("project", "p")], region].concat();
        build_with(&settings(&options, &["ya29.token"]), None).unwrap().base_url.unwrap()
    };
    assert_eq!(address(&[("region", "europe-west4")]), "https://europe-west4-aiplatform.googleapis.com");
    assert_eq!(address(&[("region", "global")]), "https://aiplatform.googleapis.com");
    assert_eq!(address(&[]), "https://aiplatform.googleapis.com");
    assert_eq!(address(&[("region", "eu")]), "https://aiplatform.eu.rep.googleapis.com");
}

#[test]
fn documents_are_ranked_at_a_service_of_its_own_unless_the_settings_have_an_address() {
    use gw_wire::request::parse_rerank;
    let path = |settings: &ProviderSettings| {
        let built = build_with(settings, None).unwrap();
        let body = r#"{"model":"gcp/r","query":"q","documents":["a"]}"#;
        let request = parse_rerank(Bytes::from_static(body.as_bytes()), &RequestLimits::default()).unwrap();
        let call = built.surfaces.rerank.unwrap().encode(&request, 0, &target("semantic-ranker-512@latest"));
        (built.second_url, call.unwrap().path)
    };
    let own = settings(&[("project", "example.com:p")], &["ya29.token"]);
    let rank = "/v1/projects/example.com%3Ap/locations/global/rankingConfigs/default_ranking_config:rank";
    assert_eq!(path(&own), (Some("https://discoveryengine.googleapis.com"), format!("/{rank}")));
    let base_url = Some("http://127.0.0.1:9".to_owned());
    assert_eq!(path(&ProviderSettings { base_url, ..own }), (None, rank.to_owned()));
}

#[test]
fn wrong_options_are_refused_when_the_provider_is_built() {
    let fault = |options: &[(&str, &str)], keys: &[&str], environment: Option<&str>| {
        build_with(&settings(options, keys), environment.map(str::to_owned)).unwrap_err().to_string()
    };
    assert!(fault(&[], &["ya29.token"], None).contains("project is required"));
    assert!(fault(&[("project", "a/b")], &["ya29.token"], None).contains("made of letters"));
    for project in ["..", ".", "../evil"] {
        let said = fault(&[("project", project)], &["ya29.token"], None);
        assert!(said.contains("project is made of letters"), "{project}: {said}");
    }
    for region in ["evil.example/#", "..", "evil.example", "a:1"] {
        let said = fault(&[("project", "p"), ("region", region)], &["ya29.token"], None);
        assert!(said.contains("region is made of small letters"), "{region}: {said}");
    }
    assert!(fault(&[("project", "")], &["ya29.token"], None).contains("not empty"));
    assert!(
        fault(&[("project", "p"), ("credentials_file", "x")], &["ya29.token"], None).contains("remove one")
    );
    assert!(
        fault(&[("project", "p"), ("credentials_file", "/nowhere/x")], &[], None).contains("cannot be read")
    );
    assert!(fault(&[("project", "p")], &[], Some("/nowhere/y")).contains("/nowhere/y cannot be read"));
    let plain =
        build_with(&settings(&[("project", "p")], &["ya29.token"]), Some("/nowhere/y".to_owned())).unwrap();
    assert!(plain.signer.is_none(), "a token that is given is sent as it is");
    let machine = build_with(&settings(&[("project", "p")], &[]), Some(String::new())).unwrap();
    assert!(format!("{:?}", machine.signer).contains("the metadata server"));
}

#[test]
fn ambient_credentials_are_sent_only_to_google() {
    let build = |base_url: &str, options: &[(&str, &str)], keys: &[&str]| {
        let mut settings = settings(&[options, &[("project", "p")]].concat(), keys);
        settings.base_url = Some(base_url.to_owned());
        build_with(&settings, None)
    };
    for google in ["https://aiplatform.googleapis.com", "https://x-aiplatform-restricted.p.googleapis.com/"] {
        assert!(build(google, &[], &[]).is_ok(), "{google}");
    }
    for other in [
        "https://example.org",
        "http://aiplatform.googleapis.com",
        "https://googleapis.com.example.org",
        "https://evilgoogleapis.com",
        "http://127.0.0.1:1",
    ] {
        let fault = build(other, &[], &[]).unwrap_err().to_string();
        assert!(fault.contains("Google's own addresses"), "{other}");
        assert!(build(other, &[], &["ya29.token"]).is_ok());
    }
}

#[test]
fn gemini_requests_go_to_the_regional_path_without_call_ids() {
    let json = json!({"model": "gcp/m", "messages": [{"role": "user", "content": "x"},
        {"role": "assistant", "tool_calls": [{"id": "fc-1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "fc-1", "content": "y"}]});
    for (model, stream, path) in [
        (
            "gemini-3-flash-preview",
            false,
            "/v1/projects/my-project/locations/europe-west4/publishers/google/models/gemini-3-flash-preview:generateContent",
        ),
        (
            "gemini-2.5-pro",
            true,
            "/v1/projects/my-project/locations/europe-west4/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
        ),
        (
            "publishers/meta/models/a b",
            false,
            "/v1/projects/my-project/locations/europe-west4/publishers/meta/models/a%20b:generateContent",
        ),
        (
            "endpoints/123",
            false,
            "/v1/projects/my-project/locations/europe-west4/endpoints/123:generateContent",
        ),
        (
            "projects/q/locations/global/endpoints/1",
            false,
            "/v1/projects/q/locations/global/endpoints/1:generateContent",
        ),
    ] {
        let mut json = json.clone();
        json["stream"] = stream.into();
        let request = parse_chat(Bytes::from(json.to_string()), &RequestLimits::default()).unwrap();
        let encoded = built()
            .adapter
            .chat(&request, &ChoiceRange { n: 1, prompts: 0..1, from: 0 }, &target(model))
            .unwrap();
        assert_eq!(encoded.call.path, path);
        let call = &body(&encoded.call)["contents"][1]["parts"][0];
        assert_eq!(call["functionCall"], json!({"name": "f", "args": {}}));
        let signature = model.starts_with("gemini-3").then_some("skip_thought_signature_validator");
        assert_eq!(call["thoughtSignature"].as_str(), signature);
        assert_eq!(
            body(&encoded.call)["contents"][2]["parts"][0]["functionResponse"],
            json!({"name": "f", "response": {"result": "y"}})
        );
    }
}

#[test]
fn answers_streams_and_errors_are_read_as_gemini() {
    let adapter = built().adapter;
    let reply = adapter.decode_chat(
        br#"{"candidates":[{"content":{"parts":[{"text":"x"}]},"finishReason":"STOP"}]}"#,
        &Reading::default(),
    );
    assert_eq!(reply.unwrap().choices[0].content.as_deref(), Some("x"));
    let error = br#"[{"error":{"code":401,"message":"Request had invalid authentication credentials.","status":"UNAUTHENTICATED"}}]"#;
    assert_eq!(adapter.classify(401, &http::HeaderMap::new(), error).kind, FailureKind::Auth);
    let mut events = 0;
    let mut stream = adapter.stream(&Reading::default());
    stream.feed(b"data: {\"candidates\":[{\"content\":{\"parts\":[{\"text\":\"x\"}]},\"finishReason\":\"STOP\"}]}\n\n", &mut |_| events += 1);
    stream.eof(&mut |_| events += 1);
    assert_eq!(events, 2);
    assert!(adapter.traits().models.is_none());
}

#[test]
fn embeddings_are_predictions_or_contents() {
    let request = |input: Value| {
        let json = json!({"model": "gcp/m", "input": input, "dimensions": 8});
        parse_embeddings(Bytes::from(json.to_string()), &RequestLimits::default()).unwrap()
    };
    let adapter = built().adapter;
    let call = adapter.embeddings(&request(json!(["a", "b"])), 0..2, &target("text-embedding-005")).unwrap();
    assert!(call.path.ends_with("/publishers/google/models/text-embedding-005:predict"), "{}", call.path);
    let parameters = json!({"autoTruncate": false, "outputDimensionality": 8});
    assert_eq!(
        body(&call),
        json!({"instances": [{"content": "a"}, {"content": "b"}], "parameters": parameters})
    );
    let call = adapter.embeddings(&request(json!("a")), 0..1, &target("gemini-embedding-2")).unwrap();
    assert!(call.path.ends_with(":embedContent"));
    assert_eq!(
        body(&call),
        json!({"content": {"parts": [{"text": "a"}]}, "autoTruncate": false, "outputDimensionality": 8})
    );
    let failure =
        adapter.embeddings(&request(json!(["a", "b"])), 0..2, &target("gemini-embedding-2")).unwrap_err();
    assert_eq!(failure.kind, FailureKind::Unsupported);

    let predicted = include_bytes!("../../../fixtures/vertex/predict.response.json");
    let reply = adapter.decode_embeddings(predicted, 2).unwrap();
    assert!(matches!(
        &reply.vectors[..],
        [Vector::Json { len: 2, .. }, Vector::Json { text: "[0.25, 1]", .. }]
    ));
    assert_eq!(reply.usage.map(|usage| (usage.prompt, usage.estimated)), Some((7, false)));
    let content = br#"{"embedding":{"values":[1,2]},"usageMetadata":{"promptTokenCount":3,"totalTokenCount":3},"truncated":false}"#;
    let reply = adapter.decode_embeddings(content, 1).unwrap();
    assert_eq!((reply.vectors.len(), reply.usage.map(|usage| usage.prompt)), (1, Some(3)));
    for body in [
        r#"{"predictions":[]}"#,
        r#"{"predictions":[{}]}"#,
        r#"{"predictions":[{"embeddings":{"values":[null]}}]}"#,
        "{}",
        "x",
    ] {
        assert_eq!(
            adapter.decode_embeddings(body.as_bytes(), 1).unwrap_err().kind,
            FailureKind::InvalidResponse,
            "{body}"
        );
    }
}
