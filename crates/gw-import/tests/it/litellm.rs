//! `import litellm`: published examples become files without a problem, and each setting has its documented meaning.

use std::collections::BTreeSet;

use gw_import::Conversion;
use serde_json::Value;

use super::{import, import_all, import_with, problems};

#[test]
fn litellms_own_examples_pass_check_and_the_report_names_what_was_ignored() {
    import_all("litellm", 10);
}

/// Routing, fallbacks, wildcards, limits, prices and Redis in one file, with the meaning that LiteLLM documents for each.
const ROUTED: &str = r#"
environment_variables: {REDIS_HOST: cache.example}
model_list:
  - model_name: fast
    litellm_params: {model: openai/gpt-a, api_key: os.environ/KEY_ONE, weight: 3, timeout: 20, stream_timeout: 0.5}
    model_info: {input_cost_per_token: 1.5e-07, output_cost_per_token: 0.0000006, max_input_tokens: 1000, mode: chat}
  - model_name: fast
    litellm_params: {model: openai/gpt-a, api_key: os.environ/KEY_TWO, order: 1}
  - model_name: strong
    litellm_params: {model: anthropic/claude-b, api_key: "sk-${literal", extra_headers: {X-Team: search}}
router_settings:
  routing_strategy: simple-shuffle
  fallbacks: [{fast: [strong, missing]}]
  model_group_alias: {quick: fast, none: nothing}
  allowed_fails: 3
  cooldown_time: 30
  redis_host: os.environ/REDIS_HOST
  redis_password: os.environ/REDIS_PASSWORD
litellm_settings: {cache: true, cache_params: {type: redis, ttl: 600}, num_retries: 2}
general_settings: {master_key: os.environ/MASTER, database_url: "postgres://h/d", max_request_size_mb: 5}
"#;

#[test]
fn each_setting_of_litellm_has_its_documented_meaning() {
    let config = import("litellm", "config.yaml", ROUTED).config;
    let parsed: toml::Table = config.parse().unwrap_or_else(|error| panic!("{error}: {config}"));
    let expected: toml::Table = r#"
        [server]
        body_limit_mib = 5
        [cache]
        backend = "redis"
        completions = true
        default_ttl_seconds = 600
        embeddings = true
        [redis]
        url = "redis://:${REDIS_PASSWORD}@${REDIS_HOST:-cache.example}:6379/0"
        [routing]
        strategy = "round_robin"
        retries = 2
        breaker = { failures = 4, cooldown_ms = 30000 }
        [[providers]]
        name = "openai"
        api = "openai"
        api_key = "${KEY_ONE}"
        [[providers]]
        name = "openai-2"
        api = "openai"
        base_url = "https://api.openai.com/v1"
        api_key = "${KEY_TWO}"
        [[providers]]
        name = "anthropic"
        api = "anthropic"
        api_key = "sk-$${literal"
        headers = { X-Team = "search" }
        [[models]]
        id = "openai/gpt-a"
        category = ["chat"]
        context_length = 1000
        pricing = { official_input_per_m = 0.15, official_output_per_m = 0.6 }
        timeouts = { first_token_ms = 20000, idle_ms = 500 }
        weight = 3
        [[models]]
        id = "openai-2/gpt-a"
        [[models]]
        id = "anthropic/claude-b"
        [[models]]
        id = "anthropic/claude-b-fallback"
        upstream_model = "claude-b"
        weight = 0
        [[aliases]]
        name = "fast"
        targets = ["openai-2/gpt-a", "openai/gpt-a", "anthropic/claude-b-fallback"]
        [[aliases]]
        name = "strong"
        targets = ["anthropic/claude-b"]
        [[aliases]]
        name = "quick"
        targets = ["openai-2/gpt-a", "openai/gpt-a", "anthropic/claude-b-fallback"]
        [[keys]]
        name = "master"
        key = "${MASTER}"
        role = "admin"
    "#
    .parse()
    .expect("TOML");
    assert_eq!(parsed, expected, "{config}");
    assert_eq!(problems(&config), Vec::<String>::new());
}

#[test]
fn more_retries_than_the_gateway_makes_are_named() {
    let text = "model_list: [{model_name: a, litellm_params: {model: openai/a}}]\nrouter_settings: {num_retries: 99}\n";
    let Conversion { config, report } = import("litellm", "config.yaml", text);
    assert!(config.contains("retries = 10\n"), "{config}");
    assert!(report.contains("routing.retries = 10, the most"), "{report}");
}

#[test]
fn the_section_of_the_router_goes_before_the_others() {
    let sections = ["router_settings: {num_retries: 30}\n", "litellm_settings: {num_retries: 3}\n"];
    for order in [[0, 1], [1, 0]] {
        let settings = order.map(|at| sections[at]).concat();
        let text =
            format!("model_list: [{{model_name: a, litellm_params: {{model: openai/a}}}}]\n{settings}");
        let Conversion { config, report } = import_with("litellm", "config.yaml", &text, &["--json"]);
        assert!(config.contains("retries = 10\n"), "{config}");
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let outcome = |key: &str| {
            let keys = report["keys"].as_array().expect("keys");
            let found: Vec<_> = keys.iter().filter(|entry| entry["key"] == key).collect();
            assert_eq!(found.len(), 1, "{key} in {report}");
            (found[0]["outcome"].clone(), found[0]["note"].clone())
        };
        let ignored =
            (Value::from("ignored"), Value::from("router_settings.num_retries is used in its place"));
        assert_eq!(outcome("litellm_settings.num_retries"), ignored);
        assert_eq!(outcome("router_settings.num_retries").0, "approximate");
    }
}

#[test]
fn texts_of_the_source_name_no_variable() {
    let text = "model_list: [{model_name: 'dollar${HOME}', litellm_params: {model: 'openai/a${HOME}', api_key: os.environ/KEY}}]\n\
                router_settings: {model_group_alias: {'b${HOME}': 'dollar${HOME}'}}\n";
    let config = import("litellm", "config.yaml", text).config;
    let parsed: toml::Table = config.parse().unwrap_or_else(|error| panic!("{error}: {config}"));
    assert_eq!(parsed["models"][0]["id"].as_str(), Some("openai/a$${HOME}"), "{config}");
    assert_eq!(parsed["aliases"][0]["name"].as_str(), Some("dollar$${HOME}"), "{config}");
    assert_eq!(parsed["aliases"][1]["name"].as_str(), Some("b$${HOME}"), "{config}");
    assert_eq!(parsed["providers"][0]["api_key"].as_str(), Some("${KEY}"), "{config}");
}

#[test]
fn the_report_is_json_on_request_and_names_each_key_once() {
    let report = import_with("litellm", "config.yaml", ROUTED, &["--json"]).report;
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let keys = report["keys"].as_array().expect("keys");
    let outcome = |key: &str| {
        let found: Vec<_> = keys.iter().filter(|entry| entry["key"] == key).collect();
        let [one] = found.as_slice() else { panic!("{key} is named {} times: {report:#}", found.len()) };
        (one["outcome"].as_str().expect("an outcome"), one["line"].as_u64().expect("a line"))
    };
    for (key, expected) in [
        ("model_list[0].litellm_params.weight", ("exact", 5)),
        ("model_list[0].litellm_params.timeout", ("approximate", 5)),
        ("model_list[0].model_info.input_cost_per_token", ("exact", 6)),
        ("model_list[1].litellm_params.order", ("approximate", 8)),
        ("router_settings.fallbacks.fast", ("approximate", 13)),
        ("router_settings.model_group_alias.quick", ("exact", 14)),
        ("router_settings.model_group_alias.none", ("ignored", 14)),
        ("litellm_settings.cache_params.ttl", ("exact", 19)),
        ("general_settings.database_url", ("ignored", 20)),
    ] {
        assert_eq!(outcome(key), expected, "{key}");
    }
    let names: BTreeSet<_> = keys.iter().map(|entry| entry["key"].to_string()).collect();
    assert_eq!(names.len(), keys.len(), "each key is named once: {report:#}");
    let expected = serde_json::json!(["KEY_ONE", "KEY_TWO", "MASTER", "REDIS_PASSWORD"]);
    assert_eq!(report["variables"], expected);
}

#[test]
fn fallbacks_alone_keep_their_order() {
    let text = "model_list:\n  - {model_name: a, litellm_params: {model: openai/x}}\n  - {model_name: b, litellm_params: {model: \
                groq/y}}\nlitellm_settings: {fallbacks: [{a: [b]}]}\n";
    let Conversion { config, report } = import("litellm", "config.yaml", text);
    assert!(config.contains("name = \"a\"\ntargets = [\"openai/x\", \"groq/y\"]"), "{config}");
    assert!(!config.contains("strategy"), "{config}");
    assert!(report.contains("0 ignored"), "{report}");
}

#[test]
fn models_of_other_media_have_their_categories_and_prices_where_the_gateway_serves_them() {
    let source = r#"
model_list:
  - model_name: hear
    litellm_params: {model: openai/whisper-1, api_key: os.environ/KEY}
    model_info: {mode: audio_transcription, input_cost_per_second: 0.0001}
  - model_name: say
    litellm_params: {model: openai/tts-1, api_key: os.environ/KEY}
    model_info: {mode: audio_speech, input_cost_per_character: 0.000015}
  - model_name: paint
    litellm_params: {model: openai/dall-e-3, api_key: os.environ/KEY}
    model_info: {mode: image_generation, output_cost_per_image: 0.04}
  - model_name: rank
    litellm_params: {model: bedrock/cohere.rerank-v3-5:0, aws_region_name: us-west-2}
    model_info: {mode: rerank, input_cost_per_query: 0.002}
  - model_name: talk
    litellm_params: {model: openai/gpt-realtime, api_key: os.environ/KEY}
    model_info: {mode: realtime, input_cost_per_token: 0.000004, output_cost_per_token: 0.000016, input_cost_per_audio_token: 0.000032, output_cost_per_audio_token: 0.000064}
  - model_name: mute
    litellm_params: {model: gemini/gemini-live, api_key: os.environ/KEY}
    model_info: {mode: realtime}
  - model_name: deaf
    litellm_params: {model: anthropic/claude-b, api_key: os.environ/KEY}
    model_info: {mode: audio_transcription}
"#;
    let config = import("litellm", "config.yaml", source).config;
    let parsed: toml::Table = config.parse().unwrap_or_else(|error| panic!("{error}: {config}"));
    let models: Vec<String> = parsed["models"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| format!("{} {} {}", model["id"], model["category"], model["pricing"]))
        .collect();
    let rows = models.join("\n").replace('"', "");
    for row in [
        "openai/whisper-1 [transcription] { official_per_second = 0.0001 }",
        "openai/tts-1 [speech] { official_per_character = 0.000015 }",
        "openai/dall-e-3 [image] { official_per_image = 0.04 }",
        "openai/gpt-realtime [realtime] { official_audio_input_per_m = 32.0, official_audio_output_per_m = 64.0, official_input_per_m = 4.0, official_output_per_m = 16.0 }",
        "amazon/cohere.rerank-v3-5:0 [rerank] { official_per_query = 0.002 }",
    ] {
        assert!(rows.contains(row), "{row} in {rows}");
    }
    assert!(!config.contains("claude-b") && !config.contains("gemini-live"), "{config}");
}

/// An entry with the prices of long prompts, in both places and not in their order.
const TIERED: &str = r#"
model_list:
  - model_name: long
    litellm_params:
      model: openai/gpt-a
      api_key: os.environ/KEY
      input_cost_per_token: 0.000001
      input_cost_per_token_above_272k_tokens: 0.000004
      input_cost_per_token_above_128k_tokens_priority: 0.000009
    model_info:
      output_cost_per_token: 0.000002
      output_cost_per_token_above_272k_tokens: 0.000006
      input_cost_per_token_above_128k_tokens: 0.000002
      cache_read_input_token_cost_above_128k_tokens: 2.5e-07
      cache_creation_input_token_cost_above_128k_tokens: 0.0000025
      cache_creation_input_token_cost_above_1hr: 0.000002
      cache_creation_input_token_cost_above_1hr_above_128k_tokens: 0.000004
"#;

#[test]
fn prices_of_long_prompts_become_tiers() {
    let Conversion { config, report } = import_with("litellm", "config.yaml", TIERED, &["--json"]);
    let parsed: toml::Table = config.parse().unwrap_or_else(|error| panic!("{error}: {config}"));
    let expected: toml::Table = r#"
        official_input_per_m = 1.0
        official_output_per_m = 2.0
        cache_write_1h_per_m = 2.0
        [[tiers]]
        above_input_tokens = 128000
        official_input_per_m = 2.0
        cached_input_per_m = 0.25
        cache_write_per_m = 2.5
        cache_write_1h_per_m = 4.0
        [[tiers]]
        above_input_tokens = 272000
        official_input_per_m = 4.0
        official_output_per_m = 6.0
    "#
    .parse()
    .expect("TOML");
    assert_eq!(parsed["models"][0]["pricing"].as_table(), Some(&expected), "{config}");
    assert_eq!(problems(&config), Vec::<String>::new());
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let ignored: Vec<_> = report["keys"]
        .as_array()
        .expect("keys")
        .iter()
        .filter(|entry| entry["outcome"] == "ignored")
        .map(|entry| entry["key"].as_str().expect("a key"))
        .collect();
    assert_eq!(ignored, ["model_list[0].litellm_params.input_cost_per_token_above_128k_tokens_priority"]);
}

#[test]
fn the_budget_of_the_proxy_becomes_a_rule_of_all_requests() {
    let list = "model_list: [{model_name: a, litellm_params: {model: openai/a, api_key: os.environ/KEY}}]\n";
    for (settings, rule, outcome) in [
        ("max_budget: 100, budget_duration: 30d", Some((100.0, "month")), "approximate"),
        ("max_budget: 0.5, budget_duration: 1d", Some((0.5, "day")), "approximate"),
        ("max_budget: 7, budget_duration: 12h", Some((7.0, "12h")), "approximate"),
        ("max_budget: 7", Some((7.0, "total")), "approximate"),
        ("max_budget: 7, budget_duration: soon", None, "ignored"),
        ("max_budget: 0, budget_duration: 30d", None, "ignored"),
        ("budget_duration: 30d", None, "ignored"),
    ] {
        let text = format!("{list}litellm_settings: {{{settings}}}\n");
        let Conversion { config, report } = import_with("litellm", "config.yaml", &text, &["--json"]);
        let parsed: toml::Table = config.parse().unwrap_or_else(|error| panic!("{error}: {config}"));
        let expected = rule.map(|(usd, period)| {
            let text =
                format!("[[budgets]]\nname = 'all-requests'\nbudget_usd = {usd:?}\nperiod = '{period}'\n");
            text.parse::<toml::Table>().expect("TOML")["budgets"].clone()
        });
        assert_eq!(parsed.get("budgets"), expected.as_ref(), "{settings}: {config}");
        assert_eq!(problems(&config), Vec::<String>::new(), "{settings}");
        let report: Value = serde_json::from_str(&report).expect("JSON");
        let keys = report["keys"].as_array().expect("keys");
        for name in ["max_budget", "budget_duration"].into_iter().filter(|name| settings.contains(name)) {
            let key = format!("litellm_settings.{name}");
            let found: Vec<_> = keys.iter().filter(|entry| entry["key"] == *key).collect();
            assert_eq!(found.len(), 1, "{settings}: {key} in {report}");
            assert_eq!(found[0]["outcome"], outcome, "{settings}: {key}");
        }
    }
}
