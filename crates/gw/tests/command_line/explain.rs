//! `model-gateway explain`: the route of a request in the terminal, offline and of a running gateway.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

use gw_testkit::Launch;
use serde_json::{Value, json};

use crate::harness::{ADMIN, KEY, Setup, UPSTREAM_KEY, binary, chat, chat_with, world};

/// No server listens at these addresses, so a call of a provider would fail.
fn config() -> String {
    let embeds = "[[models]]\nid = \"beta/plain\"\ncategory = [\"chat\"]\nfeatures = [\"function_calling\"]\n\
        pricing = { official_input_per_m = 0.1, official_output_per_m = 0.2 }";
    let setup = Setup { extra: embeds.to_owned(), ..Setup::default() };
    setup.config("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1")
}

fn explain(args: &[&str]) -> Output {
    let launch = Launch::new(binary()).file("gateway.toml", config()).arg("explain");
    args.iter().fold(launch, |launch, arg| launch.arg(*arg)).run()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn document(output: &Output) -> Value {
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(output), stderr(output));
    serde_json::from_slice(&output.stdout).expect("a document")
}

fn models(told: &Value, list: &str) -> Vec<String> {
    let rows = told[list].as_array().expect("a list");
    rows.iter().filter_map(|row| row["model"].as_str()).map(str::to_owned).collect()
}

#[test]
fn explain_tells_the_order_and_who_is_left_out_without_calling_anybody() {
    let request = chat_with("plain", json!({ "routing": { "strategy": "cheapest" } })).to_string();
    let told = document(&explain(&[&request, "--json"]));
    assert_eq!(models(&told, "candidates"), ["beta/plain", "acme/plain"], "{told}");
    assert_eq!(told["strategy"], "cheapest");
    let table = explain(&[&request]);
    let table = stdout(&table);
    let line = |word: &str| {
        table.lines().find(|line| line.contains(word)).unwrap_or_else(|| panic!("{word}: {table}"))
    };
    assert!(
        line("beta/plain").trim_start().starts_with("1 ")
            && line("acme/plain").trim_start().starts_with("2 ")
    );
    assert!(line("beta/plain").contains("able"), "{table}");
    assert!(table.contains("worst case: answers of ") && table.contains("uses no measurements"), "{table}");
    let tools = json!([{ "type": "function", "function": { "name": "f" } }]);
    let request = chat_with("plain", json!({ "tools": tools })).to_string();
    let table = stdout(&explain(&[&request]));
    let left_out = table.lines().find(|line| line.starts_with("acme/plain")).expect("left out");
    assert!(left_out.contains("tools"), "{table}");
}

#[test]
fn the_worst_case_has_the_tokens_and_the_price_of_one_answer_length() {
    let priced = "[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\n[[models]]\nid = \"acme/m\"\n\
        max_output_tokens = 8000\npricing = { official_input_per_m = 1, official_output_per_m = 2 }\n";
    for (more, answer_tokens) in [(json!({}), 8_000), (json!({ "max_tokens": 500 }), 500)] {
        let request = chat_with("acme/m", more).to_string();
        let explain = |more: &[&str]| {
            let launch = Launch::new(binary()).file("gateway.toml", priced).arg("explain").arg(&request);
            more.iter().fold(launch, |launch, arg| launch.arg(*arg)).run()
        };
        let worst = document(&explain(&["--json"]))["worst_case"].clone();
        let tokens = worst["tokens"].as_u64().unwrap();
        let prompt = tokens - answer_tokens;
        assert!(prompt < 100, "{worst}");
        let cost = (prompt + 2 * answer_tokens) as f64 / 1e6;
        assert_eq!((&worst["answer_tokens"], &worst["cost_usd"]), (&json!(answer_tokens), &json!(cost)));
        let line = format!("worst case: answers of {answer_tokens} tokens, {tokens} tokens in all, ");
        let table = stdout(&explain(&[]));
        assert!(table.contains(&line), "{table}");
    }
}

#[test]
fn the_worst_case_of_a_model_without_a_price_has_no_cost() {
    let unpriced = "[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"http://127.0.0.1:1/v1\"\n\n\
                    [[models]]\nid = \"acme/m\"\n";
    let request = chat("acme/m").to_string();
    let explain = |more: &[&str]| {
        let launch = Launch::new(binary()).file("gateway.toml", unpriced).arg("explain").arg(&request);
        more.iter().fold(launch, |launch, arg| launch.arg(*arg)).run()
    };
    let worst = document(&explain(&["--json"]))["worst_case"].clone();
    assert_eq!((&worst["cost_usd"], worst["tokens"].is_u64()), (&Value::Null, true), "{worst}");
    let table = stdout(&explain(&[]));
    assert!(table.contains(" tokens in all, at an unknown price; at most "), "{table}");
}

#[test]
fn explain_reads_standard_input_and_asks_as_a_key() {
    let launch = Launch::new(binary()).file("gateway.toml", "");
    let mut child = Command::new(binary())
        .args(["explain", "-", "--json"])
        .current_dir(launch.dir())
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it can be executed");
    let body = chat("demo/chat").to_string();
    child.stdin.take().expect("a pipe").write_all(body.as_bytes()).expect("written");
    let output = child.wait_with_output().expect("its output");
    assert_eq!(
        models(&document(&output), "candidates"),
        ["demo/chat"],
        "the demo is on when no other provider is configured"
    );

    let request = chat("plain").to_string();
    let limited = document(&explain(&[&request, "--json", "--key", "limited"]));
    assert_eq!(models(&limited, "candidates"), ["acme/plain"], "{limited}");
    let id = gw_engine::auth::configured_id("limited");
    assert_eq!(document(&explain(&[&request, "--json", "--key", &id])), limited);
    let output = explain(&[&request, "--key", "nobody"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--url"), "{}", stderr(&output));
}

#[test]
fn what_a_request_would_be_refused_with_is_exit_code_2() {
    for (request, word) in [
        (chat("nobody/has").to_string(), "nobody/has"),
        ("{".to_owned(), "JSON"),
        ("{\"model\":\"plain\"}".to_owned(), "messages"),
        (chat_with("plain", json!({ "temperature": 9 })).to_string(), "temperature"),
    ] {
        let output = explain(&[&request]);
        assert_eq!(output.status.code(), Some(2), "{request}");
        assert!(stderr(&output).contains(word), "{request}: {}", stderr(&output));
        assert_eq!(stdout(&output), "");
    }
}

#[tokio::test]
async fn explain_of_a_running_gateway_is_its_own_answer() {
    let world = world().await;
    world.chat_ok(&chat("fast")).await;
    let url = format!("http://{}", world.gateway.addr);
    let request = chat("fast").to_string();
    let ask = |key: &str, more: &[&str]| {
        let launch = Launch::new(binary()).env("MODEL_GATEWAY_ADMIN_KEY", key);
        let launch = launch.arg("explain").arg(&request).arg("--url").arg(&url);
        more.iter().fold(launch, |launch, arg| launch.arg(*arg)).run()
    };
    let told = document(&ask(ADMIN, &["--json"]));
    assert_eq!(told["object"], "routing.explanation");
    assert_eq!(told["candidates"][0]["samples"], 1, "the measurements are used: {told}");
    let table = stdout(&ask(ADMIN, &[]));
    assert!(table.contains("acme/fast") && !table.contains("uses no measurements"), "{table}");
    assert_eq!(ask(KEY, &[]).status.code(), Some(2), "not an admin");
    let other = ask(ADMIN, &["--key", "none"]);
    assert_eq!(other.status.code(), Some(2));
    assert!(stderr(&other).contains("none"), "{}", stderr(&other));
    assert_eq!(world.upstream.hits(), 1, "one chat, no explanation");
    assert!(!table.contains(UPSTREAM_KEY));
}
