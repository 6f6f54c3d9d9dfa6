//! `model-gateway drill` reports the routes that survive each fault, and calls no real provider.

use std::process::Output;

use gw_testkit::{FakeUpstream, Launch};
use serde_json::{Value, json};

use crate::harness::{Setup, UPSTREAM_KEY, binary};

/// No server listens at the providers' addresses.
fn drill(config: &str, args: &[&str]) -> Output {
    let launch = Launch::new(binary()).file("gateway.toml", config).arg("drill");
    args.iter().fold(launch, |launch, arg| launch.arg(*arg)).run()
}

fn config(routing: &'static str, timeouts: &'static str) -> String {
    let setup = Setup { routing, timeouts, ..Setup::default() };
    setup.config("http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1")
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn report(output: &Output, code: i32) -> Value {
    assert_eq!(output.status.code(), Some(code), "{}", text(output));
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", text(output)))
}

/// The case of a fault of a provider, in the report of a single route.
#[track_caller]
fn case<'v>(report: &'v Value, provider: &str, fault: &str) -> &'v Value {
    let cases = report["routes"][0]["cases"].as_array().expect("cases");
    let found = cases.iter().find(|case| case["provider"] == provider && case["fault"] == fault);
    found.unwrap_or_else(|| panic!("{provider} {fault}: {report}"))
}

const FAULTS: [&str; 7] =
    ["rate_limited", "storm_of_500", "refused", "stall", "cut", "bad_tool_index", "slow"];

#[test]
fn a_route_of_two_providers_survives_every_fault_of_either() {
    let report = report(&drill(&config("", ""), &["--only", "fast", "--json"]), 0);
    assert_eq!((&report["survives"], &report["routes"][0]["survives"]), (&json!(true), &json!(true)));
    assert_eq!(report["routes"][0]["candidates"], json!(["acme/fast", "beta/fast"]));
    for provider in ["acme", "beta"] {
        for fault in FAULTS {
            let case = case(&report, provider, fault);
            assert_eq!(
                (&case["survives"], &case["other_candidates"]),
                (&json!(true), &json!(true)),
                "{case}"
            );
            // A healthy provider, or one that recovers, serves. The first provider is asked first.
            let own = provider == "beta" || matches!(fault, "slow" | "bad_tool_index");
            let expected = if own { "acme/fast" } else { "beta/fast" };
            assert_eq!(
                (&case["plain"]["outcome"], &case["plain"]["model"]),
                (&json!("whole"), &json!(expected))
            );
            let told = (provider, fault) == ("acme", "cut");
            let outcome = if told { "told_mid_stream" } else { "whole" };
            assert_eq!(case["stream"]["outcome"], outcome, "{case}");
        }
    }
    assert_eq!(case(&report, "acme", "cut")["stream"]["code"], "upstream_stream_error");
    let stalled = &case(&report, "acme", "stall")["stream"];
    assert!(stalled["took_ms"].as_u64().is_some_and(|took| (900..30_000).contains(&took)), "{stalled}");
}

#[test]
fn a_route_without_a_second_candidate_does_not_survive_and_the_table_says_why() {
    let output = drill(&config("", ""), &["--only", "smart"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = |fault: &str| {
        table.lines().find(|line| line.contains(fault)).unwrap_or_else(|| panic!("{fault}: {table}"))
    };
    for (fault, seen) in [
        ("429 with Retry-After", "429 upstream_rate_limited"),
        ("storm of 500", "502 upstream_error"),
        ("connection refused", "502 upstream_unreachable"),
        ("stall before the first token", "504 upstream_timeout"),
    ] {
        assert!(line(fault).contains(seen) && line(fault).ends_with("LOST: no other candidate"), "{table}");
    }
    assert!(
        line("cut in mid-answer").contains("error event in mid-stream: upstream_stream_error"),
        "{table}"
    );
    for fault in ["bad tool index", "slow"] {
        assert!(line(fault).contains("acme/fast in") && line(fault).ends_with("survives"), "{table}");
    }
    assert!(table.contains("smart: LOST in 5 of 7 faults (acme/fast)"), "{table}");
    assert!(table.contains("timeouts shortened to 1/120"), "{table}");
    assert!(text(&output).contains("1 of 1 routes do not survive"), "{}", text(&output));
}

#[test]
fn what_clients_send_as_routing_is_part_of_the_drill() {
    let routing = "{\"fallback\":[\"beta/spare\"]}";
    let output = drill(&config("", ""), &["--only", "smart", "--routing", routing, "--json"]);
    let report = report(&output, 0);
    assert_eq!(report["routes"][0]["candidates"], json!(["acme/fast", "beta/spare"]));
    assert_eq!(case(&report, "acme", "refused")["plain"]["model"], "beta/spare");
    for wrong in ["{", "[]", "{\"fallback\":[\"no/such\"]}"] {
        let output = drill(&config("", ""), &["--only", "smart", "--routing", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}: {}", text(&output));
    }
}

#[test]
fn the_configurations_own_routing_and_clocks_decide() {
    // One attempt is not enough to reach the second provider.
    let report = report(&drill(&config("max_attempts = 1", ""), &["--only", "fast", "--json"]), 1);
    let refused = case(&report, "acme", "refused");
    assert_eq!(
        (&refused["plain"]["code"], &refused["other_candidates"]),
        (&json!("upstream_unreachable"), &json!(true))
    );
    // The total timeout ends with the first provider's attempt, so the second one has no time left.
    let clocks = "first_token_ms = 60000\nidle_ms = 60000\ntotal_ms = 60000";
    let output = drill(&config("", clocks), &["--only", "fast", "--json"]);
    let report = self::report(&output, 1);
    assert_eq!(case(&report, "acme", "stall")["plain"]["code"], "upstream_timeout");
    assert_eq!(case(&report, "acme", "refused")["survives"], true);
    // The configured strategy decides which provider is asked first.
    let prefers_beta = "strategy = \"best_quality\"";
    let config = config(prefers_beta, "")
        .replace("id = \"beta/fast\"", "id = \"beta/fast\"\nquality_scores = { overall = 99.0 }");
    let report = self::report(&drill(&config, &["--only", "fast", "--json"]), 0);
    assert_eq!(case(&report, "acme", "slow")["plain"]["model"], "beta/fast");
}

#[test]
fn a_cut_stream_is_whole_where_it_may_be_continued() {
    let report = report(&drill(&config("mid_stream = \"continue\"", ""), &["--only", "fast", "--json"]), 0);
    let cut = case(&report, "acme", "cut");
    assert_eq!(
        (&cut["stream"]["outcome"], &cut["stream"]["model"]),
        (&json!("whole"), &json!("beta/fast")),
        "{cut}"
    );
}

#[test]
fn the_page_on_drills_knows_every_fault() {
    let page = include_str!("../../../../docs/drill.md");
    let output = drill(&config("", ""), &["--only", "smart"]);
    let table = String::from_utf8_lossy(&output.stdout).into_owned();
    let faults: Vec<&str> =
        page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next()).collect();
    let rows = table.lines().filter(|line| line.starts_with("smart ")).count();
    assert_eq!(rows, FAULTS.len(), "{table}");
    for row in table.lines().filter(|line| line.starts_with("smart ")) {
        assert!(faults.iter().any(|fault| row.contains(&format!(" {fault} "))), "{row}: {faults:?}");
    }
}

#[tokio::test]
async fn no_provider_hears_of_a_drill_and_no_secret_is_shown() {
    let (acme, beta) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let extra = "[[models]]\nid = \"beta/embed\"\ncategory = [\"embedding\"]\n".to_owned();
    let config = Setup { extra, ..Setup::default() }.config(&acme.base_url(), &beta.base_url());
    let launch = Launch::new(binary()).file("gateway.toml", &config).arg("drill").arg("--json");
    let output = launch.run();
    let report = report(&output, 1);
    let routes: Vec<(&str, &str, bool)> = report["routes"]
        .as_array()
        .expect("routes")
        .iter()
        .map(|route| {
            let text = |name: &str| route[name].as_str().unwrap_or_default();
            (text("route"), text("operation"), route["survives"] == true)
        })
        .collect();
    assert_eq!(routes, [("smart", "chat", false), ("embed", "embeddings", true), ("fast", "chat", true)]);
    let other = "a drill sends chats and embeddings only";
    let skipped = report["not_drilled"].as_array().expect("a list").iter();
    let skipped: Vec<&Value> = skipped.filter(|skipped| skipped["reason"] == other).collect();
    assert_eq!(skipped.len(), 2, "rerank and moderation: {report}");
    assert_eq!(acme.hits() + beta.hits(), 0);
    assert!(!text(&output).contains(UPSTREAM_KEY));
    assert!(!launch.dir().join("data").exists(), "no store was made");
}

#[test]
fn a_drill_of_nothing_is_not_passed() {
    let demo = "[[providers]]\nname = \"demo\"\napi = \"demo\"\n";
    let output = drill(demo, &[]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("--all"), "{}", text(&output));
    let output = drill(demo, &["--only", "no-such-name"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("no-such-name"), "{}", text(&output));
    let report = report(&drill(demo, &["--only", "demo/chat", "--json"]), 1);
    assert_eq!(case(&report, "demo", "refused")["other_candidates"], false);
}
