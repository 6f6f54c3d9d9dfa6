//! Presets: aliases that change requests, and aliases whose targets have conditions.

use std::process::Command;

use gw_testkit::{Answer, FakeUpstream, Response};
use serde_json::{Value, json};

use crate::harness::management::{ask, create};
use crate::harness::{
    ADMIN, KEY, LIMITED, Setup, World, assert_error, assert_invalid, binary, chat, chat_with, serve,
};

/// A gateway with these `[[aliases]]`, and nothing else that names an alias.
pub(super) async fn with_aliases(aliases: &str) -> World {
    let (upstream, second) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let setup = Setup { routing: "retries = 0", extra: aliases.to_owned(), ..Setup::default() };
    let config = setup.config(&upstream.base_url(), &second.base_url());
    let gateway = serve(&config.replace("[aliases]\n\"smart\" = \"acme/fast\"\n", "")).await;
    let client = gateway.client().with_key(KEY);
    World { upstream, second, gateway, client }
}

const KIND: &str = r#"
[[aliases]]
name = "kind"
targets = "acme/fast"
defaults = { max_tokens = 9, logit_bias = { "7" = 1 } }
overrides = { temperature = 0.5 }
strip = ["top_p"]
system = "Be kind."

[[aliases]]
name = "ours"
targets = ["acme/fast"]
system = "Ours."
system_mode = "replace"

[[aliases]]
name = "plain"
targets = ["acme/fast"]
"#;

pub(super) fn version(answer: &Value, name: &str) -> String {
    let preset = &answer["gateway"]["preset"];
    assert_eq!(preset["name"], name, "{answer}");
    preset["version"].as_str().expect("a version").to_owned()
}

#[tokio::test]
async fn a_preset_changes_what_the_upstream_gets_and_the_answer_names_it() {
    let world = with_aliases(KIND).await;
    let body = chat_with("kind", json!({ "top_p": 0.1, "temperature": 1, "max_tokens": null }));
    let answer = world.chat_ok(&body).await;
    let sent = world.upstream.last().json();
    assert_eq!(sent["messages"][0], json!({ "role": "system", "content": "Be kind." }));
    assert_eq!(sent["messages"][1]["role"], "user");
    assert_eq!((&sent["max_tokens"], &sent["temperature"]), (&json!(9), &json!(0.5)), "{sent}");
    assert_eq!((&sent["logit_bias"], &sent["top_p"]), (&json!({ "7": 1 }), &Value::Null), "{sent}");
    let first = version(&answer, "kind");
    assert!(first.len() == 12 && first.bytes().all(|byte| byte.is_ascii_hexdigit()), "{first}");
    // The client's own value stands before a default.
    world.chat_ok(&chat_with("@preset/kind", json!({ "max_completion_tokens": 4 }))).await;
    let sent = world.upstream.last().json();
    assert!(sent["max_tokens"] == 4 || sent["max_completion_tokens"] == 4, "{sent}");
    // The member keeps the model.
    let answer = world.chat_ok(&chat_with("acme/plain", json!({ "preset": "kind" }))).await;
    let sent = world.upstream.last().json();
    assert_eq!((&sent["model"], &sent["temperature"]), (&json!("plain"), &json!(0.5)), "{sent}");
    assert_eq!((sent.get("preset"), version(&answer, "kind")), (None, first));
    // A stream's last chunk and a hit of the cache name it, too.
    let cached = chat_with("kind", json!({ "cache": { "enabled": true } }));
    world.chat_ok(&cached).await;
    let hit = world.chat_ok(&cached).await;
    assert_eq!((&hit["gateway"]["cache_hit"], version(&hit, "kind").len()), (&json!(true), 12));
    let plain = world.chat_ok(&chat("@preset/plain")).await;
    assert_eq!(plain["gateway"].get("preset"), None, "{plain}");
    assert_eq!(world.upstream.last().json()["messages"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn each_surface_applies_a_preset() {
    let world = with_aliases(KIND).await;
    let sent = |label: &str| {
        let sent = world.upstream.last().json();
        assert_eq!(sent["temperature"], 0.5, "{label}: {sent}");
        assert_eq!(
            sent["messages"][0],
            json!({ "role": "system", "content": "Be kind." }),
            "{label}: {sent}"
        );
        sent
    };
    let message = json!({ "model": "kind", "top_p": 0.5, "messages": [{ "role": "user", "content": "x" }] });
    let answer = world.client.post_json("/v1/messages", &message).await.ok().json();
    assert_eq!((&sent("messages")["max_tokens"], version(&answer, "kind").len()), (&json!(9), 12));
    let response = json!({ "model": "@preset/kind", "input": "x" });
    let answer = world.client.post_json("/v1/responses", &response).await.ok().json();
    let tokens = sent("responses");
    assert!(tokens["max_tokens"] == 9 || tokens["max_completion_tokens"] == 9, "{tokens}");
    assert_eq!(version(&answer, "kind").len(), 12);
    let contents = json!({ "contents": [{ "role": "user", "parts": [{ "text": "x" }] }] });
    world.client.post_json("/v1beta/models/kind:generateContent", &contents).await.ok();
    sent("gemini");
    world.client.post_json("/v1beta/models/@preset%2Fkind:generateContent", &contents).await.ok();
    sent("gemini with the prefix");
    let prompt = json!({ "model": "kind", "prompt": "x", "top_p": 0.5 });
    world.client.post_json("/v1/completions", &prompt).await.ok();
    let sent = world.upstream.last().json();
    assert_eq!((&sent["temperature"], sent.get("top_p")), (&json!(0.5), None), "{sent}");
    let own = json!({ "model": "ours", "messages": [
        { "role": "system", "content": "Mine." }, { "role": "user", "content": "x" },
    ] });
    world.chat_ok(&own).await;
    assert_eq!(
        world.upstream.last().json()["messages"],
        json!([{ "role": "system", "content": "Ours." }, { "role": "user", "content": "x" }])
    );
}

#[tokio::test]
async fn an_unknown_preset_and_one_of_other_models_do_not_exist() {
    let world = with_aliases(KIND).await;
    for body in [
        chat("@preset/none"),
        chat_with("acme/fast", json!({ "preset": "none" })),
        chat_with("acme/fast", json!({ "preset": "acme/fast" })),
    ] {
        let answer = world.chat(&body).await;
        assert_error("unknown", &answer, 404, "invalid_request_error", "model_not_found");
    }
    assert_invalid(
        "a number",
        &world.chat(&chat_with("acme/fast", json!({ "preset": 1 }))).await,
        "invalid_type",
    );
    // The key may use `acme/plain` alone, and learns nothing of a preset of other models.
    let limited = world.client.with_key(LIMITED);
    let body = chat_with("acme/plain", json!({ "preset": "kind" }));
    let answer = limited.post_json("/v1/chat/completions", &body).await;
    assert_error("limited", &answer, 404, "invalid_request_error", "model_not_found");
    assert_eq!(world.upstream.hits(), 0);
}

const CONDITIONAL: &str = r#"
[[aliases]]
name = "by"
targets = [
    { model = "acme/fast", match = { header = { x-tier = "gold" } } },
    { model = "acme/fast", match = { tag = ["batch", "night"], team = "red" } },
    { model = "acme/fast", match = { model_feature = "function_calling" } },
    { model = "acme/fast", match = { prompt_tokens = { above = 500 } } },
    "acme/plain",
]

[[aliases]]
name = "strict"
targets = [{ model = "acme/fast", match = { key = "trusted", prompt_tokens = { below = 1000 } } }]
"#;

pub(super) fn used(answer: &Response) -> String {
    answer.json()["gateway"]["model_used"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn a_target_with_a_condition_gets_the_requests_that_it_is_for() {
    let world = with_aliases(CONDITIONAL).await;
    let admin = world.gateway.client().with_key(ADMIN);
    assert_eq!(ask(&admin, "PUT", "/admin/v1/teams/red", &json!({})).await.status, 201);
    let (key, _) =
        create(&admin, json!({ "name": "trusted", "team": "red", "trust_attribution": true })).await;
    let trusted = world.client.with_key(&key);
    let tool = json!({ "type": "function", "function": { "name": "f", "parameters": { "type": "object" } } });
    let long = json!({ "model": "by", "messages": [{ "role": "user", "content": "word ".repeat(1000) }] });
    for (label, client, body, expected) in [
        ("nothing", world.client.clone(), chat("by"), "acme/plain"),
        ("a header", world.client.with_header("x-tier", "gold"), chat("by"), "acme/fast"),
        ("another value", world.client.with_header("x-tier", "silver"), chat("by"), "acme/plain"),
        ("a tag", trusted.with_header("x-gateway-tags", "night"), chat("by"), "acme/fast"),
        (
            "a tag of another team",
            world.client.with_header("x-gateway-tags", "night"),
            chat("by"),
            "acme/plain",
        ),
        ("a tool", world.client.clone(), chat_with("by", json!({ "tools": [tool] })), "acme/fast"),
        ("a long prompt", world.client.clone(), long.clone(), "acme/fast"),
        ("a key", trusted.clone(), chat("strict"), "acme/fast"),
    ] {
        let answer = client.post_json("/v1/chat/completions", &body).await.ok();
        assert_eq!(used(&answer), expected, "{label}");
        assert_eq!(answer.json()["gateway"]["fallback_used"], false, "{label}");
    }
    let refused = world.chat(&chat("strict")).await;
    assert_error("another key", &refused, 400, "invalid_request_error", "no_matching_target");
    // Behind the targets that match come those without a condition.
    world.upstream.enqueue(Answer::error(500, "x", "boom"));
    let gold = world.client.with_header("x-tier", "gold");
    let answer = gold.post_json("/v1/chat/completions", &chat("by")).await.ok();
    assert_eq!(
        (used(&answer).as_str(), &answer.json()["gateway"]["fallback_used"]),
        ("acme/plain", &json!(true))
    );
}

#[tokio::test]
async fn a_preset_of_the_api_has_the_version_of_its_last_change() {
    let world = with_aliases("").await;
    let admin = world.gateway.client().with_key(ADMIN);
    let path = "/admin/v1/config/aliases/polite";
    for (text, status) in [("Please.", 201), ("Thanks.", 200)] {
        let entry = json!({ "targets": ["acme/fast"], "system": text, "defaults": { "seed": 7 } });
        let body = entry.to_string();
        let written = admin.send("PUT", path, Some("application/json"), Some(body.as_bytes())).await;
        assert_eq!(written.status, status, "{}", written.text());
        let etag = written.header("etag").expect("an ETag").trim_matches('"').to_owned();
        let answer = world.chat_ok(&chat("polite")).await;
        assert_eq!(version(&answer, "polite"), etag);
        let sent = world.upstream.last().json();
        assert_eq!((&sent["messages"][0]["content"], &sent["seed"]), (&json!(text), &json!(7)));
    }
}

/// `check` of a configuration with a preset of these lines.
fn check(lines: &str) -> (i32, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("gateway.toml");
    let config = format!(
        "[[providers]]\nname = \"demo\"\napi = \"demo\"\n[[aliases]]\nname = \"kind\"\ntargets = [\"demo/chat\"]\n{lines}\n"
    );
    std::fs::write(&file, config).expect("the file is written");
    let output = Command::new(binary()).arg("check").arg(&file).output().expect("the program runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.code().expect("a code"), String::from_utf8(text).expect("a text"))
}

#[test]
fn check_reads_the_parameters_of_presets_as_a_request_has_them() {
    for (lines, fault) in [
        ("defaults = { temperature = \"hot\" }", "'temperature'"),
        ("overrides = { max_tokens = -1 }", "'max_tokens'"),
        ("overrides = { response_format = { type = \"json_schema\" } }", "'response_format"),
        ("defaults = { temprature = 1 }", "did you mean 'temperature'?"),
        (
            "strip = [\"logit_bais\", \"frequency_penalti\", \"max_token\", \"presence_penlty\"]",
            "did you mean 'presence_penalty'?",
        ),
    ] {
        let (code, text) = check(lines);
        assert!(code == 2 && text.contains(fault), "{lines}: {code}: {text}");
    }
    let (code, text) = check("defaults = { house_style = \"brief\", top_k = 40 }");
    let note = "'kind' has 'house_style' in defaults, which is no parameter of chats";
    assert!(code == 0 && text.contains(note) && !text.contains("top_k"), "{code}: {text}");
    let (code, text) = check("defaults = { tool_choice = \"auto\", temperature = 0.2, user = \"desk\" }");
    assert!(code == 0 && !text.contains("no parameter"), "{code}: {text}");
}
