//! Encoded requests, and the model list.

use bytes::Bytes;
use gw_wire::request::completion::parse_completion;
use gw_wire::request::embeddings::parse_embeddings;
use gw_wire::request::{RequestLimits, chat::parse_chat};
use serde_json::{Value, json};

use super::OpenAi;
use crate::adapter::{Adapter, ChoiceRange, HttpCall, Target};
use crate::presets;

fn provider(name: &str) -> OpenAi {
    OpenAi::new(presets::find(name).unwrap().quirks)
}

fn target(upstream_model: &str) -> Target<'_> {
    Target {
        upstream_model,
        id: "x/y",
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: None,
        context_length: None,
        rules: crate::model_rules::ModelRules::of(crate::settings::Api::OPENAI.rules, upstream_model, "x/y"),
        issuer: None,
        breakpoints: None,
    }
}

fn whole() -> ChoiceRange {
    ChoiceRange { n: 1, prompts: 0..1, from: 0 }
}

fn bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

fn body(call: &HttpCall) -> Value {
    serde_json::from_slice(&call.body).unwrap()
}

#[test]
fn a_chat_uses_the_upstreams_path_and_model_name() {
    let request = json!({"model": "a/b", "messages": [{"role": "user", "content": "hi"}], "stream": true, "max_tokens": 5, "routing": {}});
    let request = parse_chat(bytes(&request), &RequestLimits::default()).unwrap();
    let call = provider("groq").chat(&request, &whole(), &target("up")).unwrap().call;
    assert_eq!((call.method.as_str(), call.path.as_str()), ("POST", "/chat/completions"));
    assert_eq!(call.headers["accept"], "text/event-stream");
    assert_eq!(call.headers["content-type"], "application/json");
    let sent = body(&call);
    assert_eq!(
        (&sent["model"], &sent["max_tokens"], &sent["routing"]),
        (&json!("up"), &json!(5), &Value::Null)
    );
    assert_eq!(sent["stream_options"]["include_usage"], json!(true));
    let sent = body(&provider("openai").chat(&request, &whole(), &target("gpt-5")).unwrap().call);
    assert_eq!(sent["max_completion_tokens"], json!(5));
    let sent = body(&provider("perplexity").chat(&request, &whole(), &target("sonar")).unwrap().call);
    assert_eq!(sent["stream_options"]["include_usage"], Value::Null);
}

#[test]
fn a_reasoning_model_gets_no_sampling_parameters() {
    let sent = |model: &str, members: Value| {
        let mut request = json!({"model": "a/b", "messages": [{"role": "user", "content": "hi"}]});
        request.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        let request = parse_chat(bytes(&request), &RequestLimits::default()).unwrap();
        let encoded = provider("openai").chat(&request, &whole(), &target(model)).unwrap();
        let sent = body(&encoded.call);
        let kept =
            ["temperature", "top_p", "presence_penalty", "logprobs"].map(|name| sent.get(name).is_some());
        (kept, encoded.warnings.join(" "))
    };
    let dropped = "parameter_dropped:temperature parameter_dropped:top_p parameter_dropped:presence_penalty parameter_dropped:logprobs";
    let all = json!({"temperature": 0.2, "top_p": 0.9, "presence_penalty": 0.5, "logprobs": true});
    for model in ["o3-mini", "gpt-5", "gpt-5.6-luna", "gpt-6.1-sol"] {
        assert_eq!(sent(model, all.clone()), ([false; 4], dropped.to_owned()), "{model}");
    }
    for model in ["gpt-4o", "gpt-5.4", "gpt-5-chat-latest", "deepseek-v4-pro"] {
        assert_eq!(sent(model, all.clone()), ([true; 4], String::new()), "{model}");
    }
    // Where reasoning can be switched off, the effort decides.
    let effort =
        |model: &str, effort: &str| sent(model, json!({"temperature": 0.2, "reasoning_effort": effort}));
    assert!(effort("gpt-6-sol", "none").0[0] && !effort("gpt-5.4", "low").0[0]);
    // An effort that the model lacks becomes another one. A model without reasoning gets none.
    assert_eq!(effort("gpt-5", "none").1, "parameter_dropped:temperature parameter_clamped:reasoning_effort");
    assert_eq!(effort("gpt-4o", "low").1, "parameter_dropped:reasoning_effort");
    assert_eq!(effort("something-else", "odd").1, "");
    // Default values are accepted everywhere.
    let defaults = json!({"temperature": 1, "top_p": 1.0, "presence_penalty": 0, "logprobs": false});
    assert_eq!(sent("gpt-5", defaults), ([true; 4], String::new()));
    assert_eq!(sent("gpt-7", json!({})).1, "model_rules_assumed:gpt-6");
}

#[test]
fn tools_and_effort_are_combined_as_the_model_allows() {
    let sent = |provider_name: &str, model: &str, effort: Option<&str>, has_tools: bool| {
        let mut request =
            json!({"model": "a/b", "messages": [{"role": "user", "content": "hi"}], "temperature": 0.5});
        if let Some(effort) = effort {
            request["reasoning_effort"] = json!(effort);
        }
        if has_tools {
            request["tools"] = json!([{"type": "function", "function": {"name": "f"}}]);
        }
        let request = parse_chat(bytes(&request), &RequestLimits::default()).unwrap();
        let encoded = provider(provider_name).chat(&request, &whole(), &target(model)).unwrap();
        let sent = body(&encoded.call);
        let effort = sent.get("reasoning_effort").and_then(Value::as_str).map(str::to_owned);
        (effort, sent.get("temperature").is_some(), encoded.warnings.join(" "))
    };
    let none = |warnings: &str| (Some("none".to_owned()), true, warnings.to_owned());
    // GPT-5.6 refuses tools without `none`. With `none` it accepts a temperature.
    for effort in [None, Some("low"), Some("max")] {
        assert_eq!(sent("openai", "gpt-5.6-sol", effort, true), none("parameter_clamped:reasoning_effort"));
    }
    assert_eq!(sent("openai", "gpt-5.6-sol", Some("none"), true), none(""));
    assert_eq!(sent("openai", "gpt-5.6-sol", Some("low"), false).0.as_deref(), Some("low"));
    // Legacy functions count as tools.
    let legacy = json!({"model": "a/b", "messages": [{"role": "user", "content": "hi"}], "reasoning_effort": "low",
        "functions": [{"name": "f"}]});
    let request = parse_chat(bytes(&legacy), &RequestLimits::default()).unwrap();
    for (model, effort) in [("gpt-5.6-sol", json!("none")), ("gpt-5.4", Value::Null)] {
        let encoded = provider("openai").chat(&request, &whole(), &target(model)).unwrap();
        assert_eq!(body(&encoded.call)["reasoning_effort"], effort, "{model}");
    }
    // GPT-5.4 accepts tools without an effort, because its default is `none`.
    let absent = (None, true, "parameter_dropped:reasoning_effort".to_owned());
    assert_eq!(sent("openai", "gpt-5.4", Some("high"), true), absent);
    assert_eq!(sent("openai", "gpt-5.4", None, true), (None, true, String::new()));
    assert_eq!(sent("openai", "gpt-5.4", Some("none"), true), none(""));
    // Only OpenAI's endpoint has this rule.
    assert_eq!(sent("openrouter", "openai/gpt-5.6-sol", Some("low"), true).0.as_deref(), Some("low"));
}

#[test]
fn models_that_take_no_stop_get_none() {
    for (model, is_sent) in [
        ("o3", false),
        ("o4-mini", false),
        ("gpt-5", false),
        ("gpt-5-mini-2025-08-07", false),
        ("gpt-5-pro", false),
        ("gpt-5.1", false),
        ("gpt-5.2", false),
        ("gpt-5.4-nano", false),
        ("gpt-5.6-sol", false),
        ("gpt-6.1-sol", false),
        ("gpt-5-chat-latest", true),
        ("gpt-4.1", true),
        ("o1", true),
    ] {
        let request = json!({"model": "a/b", "messages": [{"role": "user", "content": "hi"}], "stop": ["x"]});
        let request = parse_chat(bytes(&request), &RequestLimits::default()).unwrap();
        let encoded = provider("openai").chat(&request, &whole(), &target(model)).unwrap();
        assert_eq!(body(&encoded.call).get("stop").is_some(), is_sent, "{model}");
        assert_eq!(encoded.warnings.contains(&"parameter_dropped:stop".into()), !is_sent, "{model}");
    }
}

#[test]
fn completions_and_embeddings_have_their_own_paths() {
    let request =
        parse_completion(bytes(&json!({"model": "a/b", "prompt": "hi"})), &RequestLimits::default()).unwrap();
    let call = provider("openai").completion(&request, &whole(), &target("up")).unwrap().call;
    assert_eq!(
        (call.path.as_str(), &call.headers["accept"]),
        ("/completions", &"application/json".parse().unwrap())
    );
    let request = parse_embeddings(
        bytes(&json!({"model": "a/b", "input": ["a", "b", "c"], "encoding_format": "base64"})),
        &RequestLimits::default(),
    )
    .unwrap();
    let call = provider("openai").embeddings(&request, 1..3, &target("up")).unwrap();
    assert_eq!(call.path, "/embeddings");
    assert_eq!(body(&call), json!({"model": "up", "input": ["b", "c"], "encoding_format": "float"}));
    let call = provider("voyage").embeddings(&request, 0..3, &target("up")).unwrap();
    assert_eq!(body(&call), json!({"model": "up", "input": ["a", "b", "c"]}));
}

#[test]
fn model_lists_are_read_in_every_shape() {
    let listed =
        |value: Value| (provider("openai").traits().models.unwrap().read)(value.to_string().as_bytes());
    let read = |value: Value| {
        listed(value).map(|models| models.into_iter().map(|model| model.name).collect::<Vec<String>>())
    };
    let expected = ["a", "b"];
    assert_eq!(
        read(json!({"object": "list", "data": [{"id": "a"}, {"id": "b"}, {"id": "a"}, {"id": ""}, {}]}))
            .unwrap(),
        expected
    );
    assert_eq!(read(json!([{"id": "a"}, {"id": "b"}])).unwrap(), expected);
    assert_eq!(read(json!({"models": [{"name": "a"}, "b"]})).unwrap(), expected);
    assert!(read(json!({"data": 5})).is_err() && read(json!(null)).is_err());
    for (entry, context_length) in [
        (json!({"id": "vllm", "max_model_len": 40960}), Some(40960)),
        (json!({"id": "llamacpp", "meta": {"n_ctx_train": 131072, "n_ctx": 8192}}), Some(8192)),
        (json!({"id": "older llamacpp", "meta": {"n_ctx_train": 131072}}), Some(131_072)),
        (json!({"id": "unloaded", "meta": null}), None),
        (json!({"id": "zero", "context_length": 0}), None),
        (json!("bare"), None),
    ] {
        assert_eq!(listed(json!({"data": [entry]})).unwrap()[0].context_length, context_length, "{entry}");
    }
    assert_eq!((provider("openai").traits().models.unwrap().call)().path, "/models");
}
