//! `model-gateway probe`: nothing is called without consent, wrong options are refused, and the exit code tells a failed check.

use std::process::Output;

use gw_testkit::{FakeUpstream, Launch};
use serde_json::Value;

use crate::harness::{UPSTREAM_KEY, binary};

fn config(server: &FakeUpstream) -> String {
    format!(
        "[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"{}\"\napi_key = \"{UPSTREAM_KEY}\"\n\
         [[models]]\nid = \"acme/m\"\ncategory = [\"chat\"]\ncontext_length = 1000\nmax_output_tokens = 500\n\
         pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0 }}\n\
         [[models]]\nid = \"acme/e\"\ncategory = [\"embedding\"]\n",
        server.base_url()
    )
}

/// Runs the probe. The server of the test answers meanwhile.
async fn probe(launch: Launch, args: &[&str]) -> Output {
    let launch = args.iter().fold(launch.arg("probe"), |launch, arg| launch.arg(*arg));
    tokio::task::spawn_blocking(move || launch.run()).await.expect("the probe runs")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[tokio::test]
async fn nothing_is_called_without_consent_and_the_cost_is_told_before() {
    let server = FakeUpstream::start().await;
    let launch = Launch::new(binary()).file("gateway.toml", config(&server));
    let output = probe(launch, &["acme", "m"]).await;
    assert_eq!((output.status.code(), server.hits()), (Some(2), 0), "{}", text(&output));
    assert!(text(&output).contains("probe of acme/m: at most 23 calls"), "{}", text(&output));
    assert!(text(&output).contains("USD") && text(&output).contains("--yes"), "{}", text(&output));
}

#[tokio::test]
async fn an_endpoint_needs_no_configuration() {
    let server = FakeUpstream::start().await;
    let launch = Launch::new(binary()).env("PROBED_KEY", UPSTREAM_KEY);
    let url = server.base_url();
    let args = [
        "box",
        "m",
        "--base-url",
        &url,
        "--api",
        "openai",
        "--key-env",
        "PROBED_KEY",
        "--yes",
        "--only",
        "chat",
    ];
    let output = probe(launch, &args).await;
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(table.starts_with("box/m (m at 127.0.0.1, api openai)\n"), "{table}");
    assert!(table.contains("chat.usage") && table.contains("1 call in"), "{table}");
}

#[tokio::test]
async fn wrong_options_are_refused() {
    let server = FakeUpstream::start().await;
    for (args, message) in [
        (&["nobody", "m", "--yes"][..], "no provider 'nobody' is configured"),
        (&["acme", "m", "--yes", "--api", "openai"], "add --base-url URL"),
        (&["x", "m", "--yes", "--base-url", "http://127.0.0.1:1", "--api", "soap"], "'soap' is not one of"),
        (
            &["x", "m", "--yes", "--base-url", "http://127.0.0.1:1", "--key-env", "NO_SUCH"],
            "NO_SUCH is not set",
        ),
        (&["x", "--yes", "--base-url", "http://127.0.0.1:1"], "name one: model-gateway probe x MODEL"),
        (&["acme", "e", "--yes", "--only", "stream"], "do not fit this kind of model"),
        (&["acme", "m", "--yes", "--only", "nothing"], "invalid value 'nothing'"),
    ] {
        let launch = Launch::new(binary()).file("gateway.toml", config(&server));
        let output = probe(launch, args).await;
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output));
        assert!(text(&output).contains(message), "{args:?}: {}", text(&output));
    }
    assert_eq!(server.hits(), 0);
}

#[tokio::test]
async fn a_failed_check_is_exit_code_1() {
    for (model, code) in [("chat", 0), ("error-400", 1)] {
        let launch =
            Launch::new(binary()).file("gateway.toml", "[[providers]]\nname = \"demo\"\napi = \"demo\"\n");
        let output = probe(launch, &["demo", model, "--yes", "--json", "--only", "chat"]).await;
        assert_eq!(output.status.code(), Some(code), "{}", text(&output));
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        assert_eq!(report["checks"].as_array().map(Vec::is_empty), Some(false), "{report:#}");
    }
}
