//! `config init`, `config schema`, `config show`, and `man`.

use std::process::Output;

use gw_testkit::Launch;
use serde_json::{Value, json};

use crate::harness::binary;

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn args(launch: Launch, args: &[&str]) -> Launch {
    args.iter().fold(launch, |launch, arg| launch.arg(*arg))
}

#[test]
fn a_starter_file_passes_the_check_and_is_not_overwritten() {
    let launch = args(Launch::new(binary()).env("OPENAI_API_KEY", "sk-canary-starter"), &["config", "init"]);
    let written = launch.run();
    assert_eq!(written.status.code(), Some(0), "{}", text(&written));
    let file = launch.dir().join("gateway.toml");
    let starter = std::fs::read_to_string(&file).expect("the file");
    assert!(starter.contains("api_key = \"${OPENAI_API_KEY}\"") && !starter.contains("sk-canary-starter"));
    let again = launch.run();
    assert_eq!(again.status.code(), Some(2), "{}", text(&again));
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), starter);
    let check =
        Launch::new(binary()).file("gateway.toml", &starter).env("OPENAI_API_KEY", "sk-x").arg("check").run();
    assert_eq!(text(&check), "gateway.toml: no problems\n");
    let printed = args(Launch::new(binary()), &["config", "init", "--out", "-"]).run();
    assert!(text(&printed).contains("name = \"demo\""), "{}", text(&printed));
}

const CONFIG: &str = "[server]\nlisten = \"127.0.0.1:4100\"\n\n[[providers]]\nname = \"acme\"\napi = \"openai\"\n\
    base_url = \"http://127.0.0.1:9/v1\"\napi_key = \"${ACME_KEY}\"\nheaders = { x-token = \"canary-header\" }\n";

fn shown(more: &[&str]) -> Value {
    let launch = Launch::new(binary())
        .file("gateway.toml", CONFIG)
        .env("ACME_KEY", "canary-key")
        .env("MODEL_GATEWAY_CACHE__MAX_MIB", "64");
    let output = args(args(launch, &["config", "show", "--json"]), more).run();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(!text(&output).contains("canary"), "{}", text(&output));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn value_of<'v>(shown: &'v Value, key: &str) -> Option<&'v Value> {
    shown["data"].as_array().expect("data").iter().find(|value| value["key"] == key)
}

#[test]
fn each_setting_has_its_origin_and_secrets_are_masked() {
    let set = shown(&[]);
    let listen = json!({ "key": "server.listen", "value": "127.0.0.1:4100",
        "origin": { "kind": "file", "file": "gateway.toml", "line": 2 } });
    assert_eq!(value_of(&set, "server.listen"), Some(&listen));
    let cache = json!({ "key": "cache.max_mib", "value": 64,
        "origin": { "kind": "environment", "variable": "MODEL_GATEWAY_CACHE__MAX_MIB" } });
    assert_eq!(value_of(&set, "cache.max_mib"), Some(&cache));
    let line = |key: &str| {
        value_of(&set, key).map(|value| (value["value"].clone(), value["origin"]["line"].clone()))
    };
    assert_eq!(line("providers[0].api_key"), Some((json!("***"), json!(8))));
    assert_eq!(line("providers[0].headers.x-token"), Some((json!("***"), json!(9))));
    assert_eq!(value_of(&set, "server.drain_seconds"), None, "nobody has set it");
}

#[test]
fn the_effective_settings_have_their_defaults() {
    let all = shown(&["--effective"]);
    let default = |key: &str| {
        let value = value_of(&all, key).unwrap_or_else(|| panic!("{key}"));
        assert_eq!(value["origin"], json!({ "kind": "default" }), "{key}");
        value["value"].clone()
    };
    assert_eq!(default("server.drain_seconds"), json!(30));
    assert_eq!(default("routing.balanced.load"), json!(0.5));
    assert_eq!(default("server.request_limits.max_messages"), json!(20_000));
    assert_eq!(default("providers[0].price_multiplier"), json!(1.0));
    assert_eq!(default("server.cors_origins"), json!(["*"]));
    assert_eq!(default("store.url"), Value::Null);
    assert_eq!(value_of(&all, "store.url").expect("it")["default"], "gateway.db in the data directory");
    assert_eq!(value_of(&all, "redis.prefix"), None, "there is no [redis]");
    assert_eq!(value_of(&all, "server.listen").expect("it")["origin"]["kind"], "file");
}

#[test]
fn the_table_names_file_line_and_variable() {
    let launch = Launch::new(binary()).file("gateway.toml", "[server]\nlisten = \"127.0.0.1:1\"\n");
    let launch = launch.env("MODEL_GATEWAY_STORE__RETENTION_DAYS", "7");
    let output = args(launch, &["config", "show"]).run();
    let expected = "KEY                   VALUE          FROM\n\
                    server.listen         \"127.0.0.1:1\"  gateway.toml:2\n\
                    store.retention_days  7              $MODEL_GATEWAY_STORE__RETENTION_DAYS\n";
    assert_eq!(text(&output), expected);
}

#[test]
fn problems_of_a_configuration_are_told_instead_of_its_values() {
    let output =
        args(Launch::new(binary()).file("gateway.toml", "[server]\nlisten = 5\n"), &["config", "show"]).run();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("gateway.toml:2:10: server.listen"), "{}", text(&output));
}

#[test]
fn the_schema_is_json_and_describes_the_sections() {
    let output = args(Launch::new(binary()), &["config", "schema"]).run();
    let schema: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let sections: Vec<_> = schema["properties"].as_object().expect("sections").keys().collect();
    for section in ["server", "providers", "models", "aliases", "keys", "guards", "catalogue"] {
        assert!(sections.contains(&&section.to_owned()), "{section} in {sections:?}");
    }
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let output = args(Launch::new(binary()), &["man"]).run();
    let page = text(&output);
    assert!(page.contains(".TH model-gateway 1") && page.contains("doctor"), "{page}");
    let launch = args(Launch::new(binary()), &["man", "--out", "pages"]);
    assert_eq!(launch.run().status.code(), Some(0));
    let pages = std::fs::read_dir(launch.dir().join("pages")).expect("pages");
    let mut names: Vec<_> =
        pages.map(|page| page.expect("a page").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    for name in
        ["model-gateway.1", "model-gateway-serve.1", "model-gateway-keys-create.1", "model-gateway-doctor.1"]
    {
        assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
    }
}
