//! `import bifrost`, `portkey` and `openrouter`: published examples become files without a problem, and each setting has its documented meaning.

use gw_import::Conversion;
use serde_json::Value;

use super::{import, import_all, import_with, problems};

/// The configuration that a text becomes, which has no problem.
#[track_caller]
fn imported(source: &str, text: &str) -> (toml::Table, String) {
    let config = import(source, "config.json", text).config;
    assert_eq!(problems(&config), Vec::<String>::new(), "{config}");
    (config.parse().unwrap_or_else(|error| panic!("{error}: {config}")), config)
}

/// The outcome of each key in the report.
#[track_caller]
fn assert_outcomes(source: &str, text: &str, expected: &[(&str, &str)]) {
    let report = import_with(source, "config.json", text, &["--json"]).report;
    let report: Value = serde_json::from_str(&report).expect("JSON");
    let keys = report["keys"].as_array().expect("keys");
    for (key, outcome) in expected {
        let found: Vec<_> = keys.iter().filter(|entry| entry["key"] == *key).collect();
        let [one] = found.as_slice() else { panic!("{key} is named {} times: {report:#}", found.len()) };
        assert_eq!(one["outcome"], *outcome, "{key}: {report:#}");
    }
}

#[track_caller]
fn assert_config(source: &str, text: &str, expected: &str) {
    let (parsed, config) = imported(source, text);
    let expected: toml::Table = expected.parse().expect("TOML");
    assert_eq!(parsed, expected, "{config}");
}

#[test]
fn texts_of_a_source_name_no_variable() {
    for (source, text, wanted) in [
        (
            "portkey",
            r#"{"provider": "openai", "api_key": "x", "override_params": {"model": "gpt-${HOME}"}}"#,
            "openai/gpt-$${HOME}",
        ),
        ("openrouter", r#"{"models": ["openai/gpt-${HOME}", "openai/b"]}"#, "openrouter/openai/gpt-$${HOME}"),
        (
            "bifrost",
            r#"{"providers": {"openai": {"keys": [{"value": "env.KEY", "models": ["gpt-${HOME}"]}]}}}"#,
            "openai/gpt-$${HOME}",
        ),
    ] {
        let config = import(source, "config.json", text).config;
        assert!(config.contains(&format!("\"{wanted}\"")), "{config}");
        assert!(!config.replace("$${", "").contains("${HOME"), "{config}");
    }
}

#[test]
fn bifrosts_own_examples_pass_check() {
    import_all("bifrost", 6);
}

#[test]
fn portkeys_own_examples_pass_check() {
    import_all("portkey", 6);
}

#[test]
fn openrouters_own_examples_pass_check() {
    import_all("openrouter", 4);
}

const BIFROST: &str = r#"{
  "client": {"max_request_body_size_mb": 5, "log_retention_days": 30, "allowed_origins": ["https://app.example", "https://*.example"]},
  "providers": {
    "openai": {
      "keys": [
        {"name": "one", "value": "env.KEY_ONE", "models": ["gpt-a"], "weight": 0.7},
        {"name": "two", "value": "sk-literal-canary", "models": ["gpt-a"], "weight": 0.3},
        {"name": "off", "value": "env.KEY_OFF", "models": ["gpt-a"], "enabled": false}
      ],
      "network_config": {
        "default_request_timeout_in_seconds": 20, "max_retries": 2,
        "extra_headers": {"X-Team": "search", "Authorization-Extra": "header-canary"}
      }
    },
    "local-llm": {
      "keys": [{"value": "env.LOCAL_KEY", "aliases": {"fast": "llama-x"}}],
      "network_config": {"base_url": "http://127.0.0.1:9/"},
      "custom_provider_config": {"base_provider_type": "openai"}
    },
    "replicate": {"keys": []}
  },
  "governance": {
    "virtual_keys": [
      {"id": "vk-1", "name": "search team", "value": "sk-bf-canary", "rate_limit_id": "rl",
       "provider_configs": [{"provider": "openai", "allowed_models": ["gpt-a"]}, {"provider": "replicate", "allowed_models": ["*"]}]},
      {"id": "vk-2", "name": "old", "value": "env.OLD", "is_active": false}
    ],
    "budgets": [{"id": "b", "max_limit": 12.5, "reset_duration": "1d", "virtual_key_id": "vk-1"},
                {"id": "c", "max_limit": 1, "reset_duration": "1d", "team_id": "t"}],
    "rate_limits": [{"id": "rl", "token_max_limit": 6000, "token_reset_duration": "1h", "request_max_limit": 60, "request_reset_duration": "1m"}]
  }
}"#;

#[test]
fn each_setting_of_bifrost_has_its_documented_meaning() {
    assert_config(
        "bifrost",
        BIFROST,
        r#"
        [server]
        body_limit_mib = 5
        cors_origins = ["https://app.example"]
        [routing]
        retries = 2
        [store]
        retention_days = 30
        [[providers]]
        name = "openai"
        api = "openai"
        api_keys = [{ key = "${KEY_ONE}", weight = 70 }, { key = "${OPENAI_API_KEY}", weight = 30 }]
        headers = { X-Team = "search", Authorization-Extra = "${AUTHORIZATION_EXTRA_HEADER}" }
        timeouts = { first_token_ms = 20000 }
        [[providers]]
        name = "local-llm"
        api = "openai"
        base_url = "http://127.0.0.1:9/v1"
        api_key = "${LOCAL_KEY}"
        [[models]]
        id = "openai/gpt-a"
        [[models]]
        id = "local-llm/fast"
        upstream_model = "llama-x"
        [[keys]]
        name = "search team"
        key = "${SEARCH_TEAM_KEY}"
        models = ["openai/gpt-a"]
        rpm = 60
        tpm = 100
        budget_usd = 12.5
        budget_period = "day"
        "#,
    );
    let expected = [
        ("client.allowed_origins", "approximate"),
        ("providers.openai.keys[0].value", "exact"),
        ("providers.openai.keys[1].value", "approximate"),
        ("providers.openai.keys[2]", "ignored"),
        ("providers.openai.network_config.max_retries", "approximate"),
        ("providers.local-llm.network_config.base_url", "approximate"),
        ("providers.replicate", "ignored"),
        ("governance.virtual_keys[0].provider_configs[1]", "ignored"),
        ("governance.virtual_keys[1]", "ignored"),
        ("governance.budgets[0]", "approximate"),
        ("governance.budgets[1]", "ignored"),
        ("governance.rate_limits[0].request_max_limit", "exact"),
        ("governance.rate_limits[0].token_max_limit", "approximate"),
    ];
    assert_outcomes("bifrost", BIFROST, &expected);
}

const PORTKEY: &str = r#"{
  "strategy": {"mode": "fallback", "on_status_codes": [429, 500]},
  "request_timeout": 60000,
  "retry": {"attempts": 2},
  "cache": {"mode": "simple", "max_age": 600},
  "targets": [
    {"strategy": {"mode": "loadbalance"}, "targets": [
      {"provider": "openai", "apiKey": "sk-literal-canary", "weight": 0.75, "overrideParams": {"model": "gpt-a", "temperature": 0}},
      {"provider": "azure-openai", "virtual_key": "azure-test", "weight": 0.25, "resource_name": "res", "deployment_id": "dep",
       "api_version": "2024-06-01", "override_params": {"model": "gpt-a"}}
    ]},
    {"virtual_key": "anthropic-prod", "override_params": {"model": "claude-b"}, "request_timeout": 5000},
    {"provider": "stability-ai", "api_key": "sk-stable-canary", "override_params": {"model": "x"}}
  ]
}"#;

#[test]
fn each_setting_of_portkey_has_its_documented_meaning() {
    assert_config(
        "portkey",
        PORTKEY,
        r#"
        [cache]
        completions = true
        embeddings = true
        default_ttl_seconds = 600
        [routing]
        strategy = "round_robin"
        retries = 2
        [timeouts]
        total_ms = 60000
        [[providers]]
        name = "openai"
        api = "openai"
        api_key = "${OPENAI_API_KEY}"
        [[providers]]
        name = "azure"
        api = "azure"
        base_url = "https://res.openai.azure.com"
        api_version = "2024-06-01"
        deployments = { gpt-a = "dep" }
        api_key = "${AZURE_API_KEY}"
        [[providers]]
        name = "anthropic"
        api = "anthropic"
        api_key = "${ANTHROPIC_API_KEY}"
        [[models]]
        id = "openai/gpt-a"
        weight = 75
        [[models]]
        id = "azure/gpt-a"
        weight = 25
        [[models]]
        id = "anthropic/claude-b"
        weight = 0
        timeouts = { first_token_ms = 5000 }
        [[aliases]]
        name = "portkey"
        targets = ["openai/gpt-a", "azure/gpt-a", "anthropic/claude-b"]
        "#,
    );
    let expected = [
        ("strategy.mode", "approximate"),
        ("strategy.on_status_codes", "approximate"),
        ("cache.max_age", "approximate"),
        ("targets[0].targets[0].apiKey", "approximate"),
        ("targets[0].targets[0].overrideParams.model", "exact"),
        ("targets[0].targets[0].overrideParams.temperature", "ignored"),
        ("targets[0].targets[1].virtual_key", "approximate"),
        ("targets[0].targets[1].resource_name", "exact"),
        ("targets[2]", "ignored"),
    ];
    assert_outcomes("portkey", PORTKEY, &expected);
}

#[test]
fn a_fallback_of_portkey_alone_keeps_its_order() {
    let text = r#"{"strategy": {"mode": "fallback"}, "targets": [
        {"provider": "openai", "override_params": {"model": "gpt-a"}}, {"provider": "groq", "override_params": {"model": "llama-b"}}]}"#;
    let (config, text_of) = imported("portkey", text);
    assert_eq!(config["aliases"][0]["targets"], toml::Value::from(vec!["openai/gpt-a", "groq/llama-b"]));
    assert_eq!(config["routing"]["fallback_on_4xx"], toml::Value::from(true), "{text_of}");
    assert_eq!(config["routing"].get("strategy"), None);
}

const OPENROUTER: &str = r#"{
  "slug": "email-copywriter",
  "config": {
    "models": ["anthropic/claude-b", "openai/gpt-a:nitro"],
    "model": "openai/gpt-a",
    "route": "fallback",
    "provider": {"sort": {"by": "price", "partition": "none"}, "zdr": true, "order": ["azure"], "max_price": {"prompt": 1}},
    "transforms": ["middle-out"],
    "temperature": 0.2
  }
}"#;

#[test]
fn each_setting_of_openrouter_has_its_documented_meaning() {
    assert_config(
        "openrouter",
        OPENROUTER,
        r#"
        [routing]
        strategy = "cheapest"
        [[providers]]
        name = "openrouter"
        api = "openai"
        api_key = "${OPENROUTER_API_KEY}"
        allow_members = ["provider", "transforms"]
        [[models]]
        id = "openrouter/openai/gpt-a"
        [[models]]
        id = "openrouter/anthropic/claude-b"
        [[models]]
        id = "openrouter/openai/gpt-a-nitro"
        upstream_model = "openai/gpt-a:nitro"
        [[aliases]]
        name = "email-copywriter"
        targets = ["openrouter/openai/gpt-a", "openrouter/anthropic/claude-b", "openrouter/openai/gpt-a-nitro"]
        "#,
    );
    let expected = [
        ("slug", "exact"),
        ("config.models", "exact"),
        ("config.provider.sort", "approximate"),
        ("config.provider.zdr", "ignored"),
        ("config.provider.max_price", "approximate"),
        ("config.transforms", "approximate"),
        ("config.temperature", "ignored"),
    ];
    assert_outcomes("openrouter", OPENROUTER, &expected);
}

#[test]
fn secrets_of_the_source_are_in_no_output() {
    for (source, text) in [("bifrost", BIFROST), ("portkey", PORTKEY)] {
        let Conversion { config, report } = import(source, "config.json", text);
        let said = format!("{config}{report}");
        assert!(!said.contains("canary"), "{source}: {said}");
    }
}
