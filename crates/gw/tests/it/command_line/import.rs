//! `import`: published configurations of other gateways become files that `check` accepts, and the report names each key.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;

use gw_testkit::Launch;
use serde_json::Value;

use crate::harness::BINARY;

fn folder(source: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/command_line/import").join(source)
}

/// The name and the text of each published configuration.
fn published(source: &str) -> Vec<(String, String)> {
    let files = std::fs::read_dir(folder(source)).expect("the configurations");
    let mut all: Vec<_> = files
        .map(|file| file.expect("a file").path())
        .map(|path| (name(&path), std::fs::read_to_string(&path).expect("a text")))
        .collect();
    all.sort();
    all
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

pub(super) fn import(source: &str, file: &str, text: &str) -> Output {
    Launch::new(BINARY).file(file, text).arg("import").arg(source).arg(file).run()
}

/// Runs `check` on a result, with a value for each variable that the result or its report names.
pub(super) fn check(config: &str, variables: &[String]) -> Output {
    let launch = variables.iter().fold(Launch::new(BINARY).file("gateway.toml", config), |launch, name| {
        let other = format!("value-of-{name}").to_lowercase().replace('_', "-");
        let value = match name.as_str() {
            name if ["BASE", "URL", "ENDPOINT"].iter().any(|word| name.contains(word)) => {
                "http://127.0.0.1:1/v1"
            }
            name if name.contains("PORT") => "6379",
            _ => &other,
        };
        launch.env(name, value)
    });
    launch.arg("check").run()
}

/// The variables of a result that have no default.
pub(super) fn variables(config: &str) -> Vec<String> {
    let names = config.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name);
    let from_references = names.filter(|name| !name.contains(":-")).map(str::to_owned);
    let head = config
        .lines()
        .find_map(|line| line.strip_prefix("# Set these environment variables before the start: "));
    let from_head =
        head.into_iter().flat_map(|names| names.trim_end_matches('.').split(", ")).map(str::to_owned);
    from_references.chain(from_head).collect::<BTreeSet<_>>().into_iter().collect()
}

pub(super) fn utf8(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

pub(super) fn import_all(source: &str, least: usize) {
    let all = published(source);
    assert!(all.len() >= least, "{} configurations", all.len());
    for (file, text) in all {
        let output = import(source, &file, &text);
        assert_eq!(output.status.code(), Some(0), "{file}: {}", utf8(&output.stderr));
        let config = utf8(&output.stdout);
        let checked = check(&config, &variables(&config));
        let said = format!("{}{}", utf8(&checked.stdout), utf8(&checked.stderr));
        assert_eq!(checked.status.code(), Some(0), "{file}: {said}\n{config}");
        let stem = file.split('.').next().unwrap_or_default();
        insta::assert_snapshot!(format!("{source}_{stem}"), format!("{config}\n{}", utf8(&output.stderr)));
    }
}

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
    let output = import("litellm", "config.yaml", ROUTED);
    let config = utf8(&output.stdout);
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
    let checked = check(&config, &variables(&config));
    assert_eq!(checked.status.code(), Some(0), "{}", utf8(&checked.stdout));
}

#[test]
fn the_report_is_json_on_request_and_names_each_key_once() {
    let launch = Launch::new(BINARY).file("config.yaml", ROUTED);
    let output = launch.arg("import").arg("litellm").arg("config.yaml").arg("--json").run();
    let report: Value = serde_json::from_slice(&output.stderr).expect("JSON");
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
    let output = import("litellm", "config.yaml", text);
    let config = utf8(&output.stdout);
    assert!(config.contains("name = \"a\"\ntargets = [\"openai/x\", \"groq/y\"]"), "{config}");
    assert!(!config.contains("strategy"), "{config}");
    assert!(utf8(&output.stderr).contains("0 ignored"), "{}", utf8(&output.stderr));
}

#[test]
fn the_result_goes_to_a_new_private_file() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().expect("a directory");
    let (source, out) = (directory.path().join("config.yaml"), directory.path().join("gateway.toml"));
    std::fs::write(&source, ROUTED).expect("written");
    let run = || {
        let launch = Launch::new(BINARY).arg("import").arg("litellm").arg(source.display().to_string());
        launch.arg("--out").arg(out.display().to_string()).run()
    };
    let output = run();
    assert_eq!(output.status.code(), Some(0), "{}", utf8(&output.stderr));
    assert!(output.stdout.is_empty());
    assert_eq!(std::fs::metadata(&out).expect("a file").permissions().mode() & 0o777, 0o600);
    let first = std::fs::read(&out).expect("a file");
    assert_eq!(run().status.code(), Some(1), "a file that exists stays");
    assert_eq!(std::fs::read(&out).expect("a file"), first);
}

#[test]
fn a_file_that_is_no_configuration_is_refused_with_its_line() {
    for (text, word) in
        [("a: [1", "line 2"), ("- a\n- b\n", "no map"), ("", "empty"), ("a: &x [*y]\n", "line 1")]
    {
        let output = import("litellm", "config.yaml", text);
        assert_eq!(output.status.code(), Some(2), "{text}");
        let said = utf8(&output.stderr);
        assert!(said.contains("config.yaml") && said.contains(word), "{text}: {said}");
        assert!(output.stdout.is_empty());
    }
}
