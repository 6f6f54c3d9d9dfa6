//! The command line: positions in the output of `check`, configurations that `serve` refuses, the catalogue.

use std::process::Output;

use gw_testkit::Launch;
use gw_testkit::certificate::Certificate;
use serde_json::Value;

use crate::harness::{Setup, binary};

fn run(config: &str, args: &[&str]) -> Output {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    args.iter().fold(launch, |launch, arg| launch.arg(*arg)).run()
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

const BASE: &str =
    "[[providers]]\nname = \"demo\"\napi = \"demo\"\n\n[[keys]]\nname = \"k\"\nkey = \"sk-x\"\n";

#[test]
fn check_accepts_the_configuration_of_these_tests() {
    let config = Setup::default().config("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1");
    let output = run(&config, &["check"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let output = run(BASE, &["check", "--config", "gateway.toml"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

#[test]
fn check_tells_every_fault_with_its_line_and_column() {
    let config = "[server]\nlisten = \"127.0.0.1:0\"\nbody_limit = 5\n\n[timeouts]\nidle_ms = \"soon\"\n\n[[providers]]\nname = \"a\"\napi = \"opnai\"\n";
    let output = run(config, &["check"]);
    assert_eq!(output.status.code(), Some(2));
    let text = text(&output);
    for (place, word) in [
        ("gateway.toml:3:1", "body_limit_mib"),
        ("gateway.toml:6:11", "timeouts.idle_ms"),
        ("gateway.toml:10:7", "openai"),
    ] {
        let line =
            text.lines().find(|line| line.contains(place)).unwrap_or_else(|| panic!("{place} in {text}"));
        assert!(line.contains(word), "{word} in {line}");
    }
    let output = run("[server\n", &["check"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(self::text(&output).contains("gateway.toml:1:"), "{}", self::text(&output));
    let output = run(BASE, &["check", "--config", "not-there.toml"]);
    assert_ne!(output.status.code(), Some(0));
}

#[test]
fn check_and_serve_refuse_what_no_start_can_use() {
    for (more, place, word) in [
        ("[store]\nurl = \"postgres://u:p@:x/c\"\n", "gateway.toml:9:7", "store.url"),
        ("[store]\nurl = \"sqlite://rel.db\"\n", "gateway.toml:9:7", "sqlite:///"),
        (
            "[server]\nlisten = \"0.0.0.0:4\"\nadmin_listen = \"127.0.0.1:4\"\n",
            "gateway.toml:10:16",
            "'listen'",
        ),
        (
            "[[reconcile]]\nprovider = \"demo\"\nadmin_key = \"sk-y\"\nnightly = true\n",
            "gateway.toml:11:11",
            "OpenRouter",
        ),
        (
            "[aliases]\nhelp = [\"demo/chat\"]\n[[cache.semantic]]\nalias = \"help\"\nembedding_model = \"demo/none\"\n",
            "gateway.toml:12:19: cache.semantic[0].embedding_model",
            "is in no catalogue",
        ),
    ] {
        for command in ["check", "serve"] {
            let output = run(&format!("{BASE}{more}"), &[command]);
            let text = text(&output);
            assert_eq!(output.status.code(), Some(2), "{command}: {text}");
            let line = text.lines().find(|line| line.contains(place));
            assert!(line.is_some_and(|line| line.contains(word)), "{command}: {place} and {word} in {text}");
        }
    }
}

#[test]
fn check_notes_an_expired_certificate() {
    let expired = Certificate::expired(&["localhost"]);
    let config = format!("[server]\ntls = {{ cert = \"cert.pem\", key = \"key.pem\" }}\n{BASE}");
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let launch = launch.file("cert.pem", &expired.pem).file("key.pem", &expired.key_pem);
    let output = launch.arg("check").run();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let note =
        "note: server.tls: clients refuse the certificate cert.pem: it expired at 2001-01-01T00:00:00.000Z\n";
    assert!(text(&output).contains(note), "{}", text(&output));
}

#[test]
fn the_environment_fills_in_and_a_missing_variable_is_a_fault_without_its_value() {
    let config = "[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"${ACME_URL:-http://127.0.0.1:9/v1}\"\napi_key = \"${ACME_KEY}\"\n";
    let output = run(config, &["check"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output).contains("ACME_KEY"), "{}", text(&output));
    let launch =
        Launch::new(binary()).file("gateway.toml", config).env("ACME_KEY", "sk-hidden-canary").arg("check");
    let output = launch.run();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(!text(&output).contains("sk-hidden-canary"));
    let from_file = config.replace("\"${ACME_KEY}\"", "{ file = \"key.txt\" }");
    let launch =
        Launch::new(binary()).file("gateway.toml", &from_file).file("key.txt", "sk-from-file\n").arg("check");
    assert_eq!(launch.run().status.code(), Some(0));
}

#[test]
fn usage_faults_have_exit_code_2() {
    for args in [
        &["nonsense"][..],
        &["--listen", "nowhere"],
        &["serve", "--unknown"],
        &["models", "show"],
        &["models", "compare", "one"],
    ] {
        assert_eq!(run(BASE, args).status.code(), Some(2), "{args:?}");
    }
    assert_eq!(run(BASE, &["--version"]).status.code(), Some(0));
    assert_eq!(run(BASE, &["--help"]).status.code(), Some(0));
}

#[test]
fn an_address_in_use_is_a_runtime_failure() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("an address").to_string();
    let output = run(BASE, &["serve", "--listen", &address]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains(&address), "{}", text(&output));
}

#[test]
fn the_catalogue_is_shown_as_table_and_as_json() {
    let config = Setup::default().config("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1");
    let output = run(&config, &["models"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(text(&output).contains("acme/fast") && text(&output).contains("0.15"), "{}", text(&output));
    let json = |args: &[&str]| -> Value {
        let output = run(&config, args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output));
        serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|error| panic!("{args:?}: {error}: {}", text(&output)))
    };
    assert_eq!(json(&["models", "list", "--json"])["object"], "list");
    assert_eq!(json(&["models", "show", "smart", "--json"])["id"], "acme/fast");
    assert_eq!(
        json(&["models", "compare", "acme/fast", "acme/plain", "--json"])["highlights"]["cheapest"],
        "acme/fast"
    );
    // The models stand in the order of the command, as in the API.
    for ids in [["acme/plain", "acme/fast"], ["acme/fast", "acme/plain"]] {
        let output = run(&config, &["models", "compare", ids[0], ids[1], "--json"]);
        let text = String::from_utf8_lossy(&output.stdout);
        let sides: Vec<_> = text.lines().filter_map(|line| line.trim().strip_suffix(": {")).collect();
        let sides: Vec<_> = sides.into_iter().filter(|name| name.contains('/')).collect();
        assert_eq!(sides, ids.map(|id| format!("\"{id}\"")), "{text}");
    }
    // The members stand in the order of the API, and the rules come last.
    let output = run(&config, &["models", "show", "acme/fast", "--json"]);
    let shown = String::from_utf8_lossy(&output.stdout);
    let members = shown.lines().filter_map(|line| line.strip_prefix("  \"")?.split_once("\":"));
    let members: Vec<_> = members.map(|(name, _)| name).collect();
    assert_eq!((&members[..2], members.last()), (&["id", "object"][..], Some(&"rules")), "{shown}");
    assert_eq!(run(&config, &["models", "show", "no/such"]).status.code(), Some(2));
}

#[test]
fn the_openapi_document_and_completions_are_printed() {
    let output = run(BASE, &["openapi"]);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(document["paths"]["/v1/chat/completions"].is_object());
    for shell in ["bash", "zsh", "fish"] {
        let output = run(BASE, &["completions", shell]);
        assert!(output.status.success() && text(&output).contains("model-gateway"), "{shell}");
    }
}
