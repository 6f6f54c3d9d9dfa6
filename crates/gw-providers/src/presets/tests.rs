//! The table of presets is complete and consistent, and requests follow it.

use std::collections::HashSet;

use bytes::Bytes;
use gw_wire::request::{RequestLimits, parse_chat, parse_embeddings};
use serde_json::{Value, json};

use super::{ALL, DEFAULT_BATCH, embedding_batch, find};
use crate::adapter::{Adapter, ChoiceRange, Target};
use crate::adapters::openai::OpenAi;
use crate::model_rules::ModelRules;
use crate::settings::{Api, ProviderSettings};

fn target() -> Target<'static> {
    Target {
        upstream_model: "up",
        id: "x/y",
        clamp_max_tokens: None,
        most_tokens: None,
        max_output_tokens: None,
        context_length: None,
        rules: ModelRules::of(Api::OPENAI.rules, "up", "x/y"),
        issuer: None,
        breakpoints: None,
    }
}

#[test]
fn names_and_key_variables_are_unique() {
    let names: HashSet<_> = ALL.iter().map(|preset| preset.name).collect();
    let variables: Vec<_> = ALL.iter().filter_map(|preset| preset.key_variable).collect();
    assert_eq!(names.len(), ALL.len());
    assert_eq!(variables.iter().collect::<HashSet<_>>().len(), variables.len());
}

/// A number takes up to 32 bytes where the upstream writes each on a line of its own. The longest usual vectors have 4,096.
#[test]
fn the_vectors_of_a_call_fit_into_an_answer() {
    for preset in ALL {
        assert!(preset.embedding_batch * 4_096 * 32 <= 32 << 20, "{}", preset.name);
    }
}

#[test]
fn addresses_are_https_except_on_this_machine() {
    for preset in ALL {
        let Some(url) = preset.base_url else { continue };
        let begin = if preset.local { "http://127.0.0.1:" } else { "https://" };
        assert!(url.starts_with(begin) && !url.ends_with('/'), "{url}");
    }
}

#[test]
fn every_provider_of_the_contract_is_known() {
    for (name, api) in [
        ("openai", Api::OPENAI),
        ("anthropic", Api::ANTHROPIC),
        ("google", Api::GEMINI),
        ("mistral", Api::MISTRAL),
        ("cohere", Api::COHERE),
        ("amazon", Api::BEDROCK),
        ("azure", Api::AZURE),
        ("ollama", Api::OLLAMA),
    ] {
        assert_eq!(find(name).map(|preset| preset.api), Some(api.as_str()), "{name}");
    }
    for name in [
        "groq",
        "deepseek",
        "xai",
        "together",
        "fireworks",
        "openrouter",
        "perplexity",
        "cerebras",
        "nvidia",
        "moonshotai",
        "zai",
        "alibaba",
        "minimax",
        "huggingface",
        "sambanova",
        "novita",
        "deepinfra",
        "nebius",
        "voyage",
        "jina",
        "lmstudio",
        "vllm",
        "llamacpp",
        "sglang",
        "tgi",
    ] {
        let preset = find(name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(preset.api, "openai", "{name}");
        assert!(preset.base_url.is_some(), "{name}");
    }
    assert!(find("acme").is_none());
}

#[test]
fn a_vendors_own_api_has_the_vendors_batches_under_any_name() {
    for (api, batch) in
        [(Api::COHERE, 96), (Api::AZURE, 256), (Api::GEMINI, 100), (Api::OPENAI, DEFAULT_BATCH)]
    {
        assert_eq!(embedding_batch(&ProviderSettings::plain("acme", api)), batch, "{}", api.name);
    }
}

#[test]
fn only_openai_and_azure_have_openais_tokens_and_roles() {
    for preset in ALL {
        let is_openai = matches!(preset.name, "openai" | "azure");
        let quirks = preset.quirks;
        assert_eq!((quirks.developer, quirks.openai_tokens), (is_openai, is_openai), "{}", preset.name);
        assert!((1..=128).contains(&quirks.choices) && preset.embedding_batch > 0, "{}", preset.name);
    }
}

#[test]
fn no_preset_drops_an_essential_member() {
    let never =
        ["model", "messages", "prompt", "input", "stream", "tools", "tool_choice", "response_format", "n"];
    for preset in ALL {
        for member in preset.quirks.unsupported {
            assert!(!never.contains(member), "{}: {member}", preset.name);
        }
    }
}

#[test]
fn every_preset_is_applied_to_requests() {
    let request = json!({
        "model": "a/b",
        "messages": [{"role": "developer", "content": "d"}, {"role": "user", "content": "hi"}],
        "n": 3, "max_tokens": 5, "stream": true, "temperature": 1,
        "logprobs": true, "top_logprobs": 1, "logit_bias": {}, "frequency_penalty": 1, "presence_penalty": 1,
    });
    let request = parse_chat(Bytes::from(request.to_string()), &RequestLimits::default()).unwrap();
    let embeddings = json!({"model": "a/b", "input": "x", "dimensions": 8});
    let embeddings =
        parse_embeddings(Bytes::from(embeddings.to_string()), &RequestLimits::default()).unwrap();
    for preset in ALL.iter().filter(|preset| preset.api == "openai") {
        let (name, quirks) = (preset.name, preset.quirks);
        let adapter = OpenAi::new(quirks);
        let n = request.n.min(adapter.traits().capabilities.choices);
        let encoded = adapter.chat(&request, &ChoiceRange { n, prompts: 0..1, from: 0 }, &target()).unwrap();
        let sent: Value = serde_json::from_slice(&encoded.call.body).unwrap();
        assert_eq!(sent["n"], json!(quirks.choices.min(3)), "{name}");
        assert_eq!(sent["messages"][0]["role"] == "developer", quirks.developer, "{name}");
        assert_eq!(sent["stream_options"]["include_usage"] == true, quirks.stream_usage, "{name}");
        assert_eq!(sent["temperature"], json!(1));
        let warned: Vec<String> =
            quirks.unsupported.iter().map(|name| format!("parameter_dropped:{name}")).collect();
        assert_eq!(encoded.warnings, warned, "{name}");
        for member in quirks.unsupported {
            assert!(sent.get(member).is_none(), "{name}: {member}");
        }
        let call = adapter.embeddings(&embeddings, 0..1, &target()).unwrap();
        let sent: Value = serde_json::from_slice(&call.body).unwrap();
        assert_eq!(sent[quirks.dimensions], json!(8), "{name}");
        assert_eq!(sent["encoding_format"] == "float", quirks.encoding_format, "{name}");
    }
}
