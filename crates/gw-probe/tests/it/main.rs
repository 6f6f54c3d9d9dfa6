//! The probe: a good server has no failure, and each planted fault is found.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "in a test a panic is how a failure is reported"
)]

mod server;
mod vectors;

use std::path::Path;

use clap::Parser;
use gw_command::{CommandError, Common};
use gw_config::{Loaded, setup};
use gw_probe::{ProbeArgs, ProbeResult};
use gw_testkit::{Differences, FakeUpstream, within};
use serde_json::{Value, json};

use self::server::Planted;

/// The key of the good server; it must never reach a report.
pub(crate) const UPSTREAM_KEY: &str = "sk-upstream-canary-7391";

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(flatten)]
    args: ProbeArgs,
}

fn config(server: &FakeUpstream) -> String {
    format!(
        "[server]\ndata_dir = \"data\"\n[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"{}\"\napi_key = \"{UPSTREAM_KEY}\"\n\
         [[models]]\nid = \"acme/m\"\ncategory = [\"chat\"]\ncontext_length = 1000\nmax_output_tokens = 500\n\
         pricing = {{ official_input_per_m = 1.0, official_output_per_m = 2.0 }}\n\
         [[models]]\nid = \"acme/e\"\ncategory = [\"embedding\"]\n",
        server.base_url()
    )
}

/// Runs `probe` with these options beside this gateway.toml. The server of the test answers meanwhile.
async fn probe(config: &str, args: &[&str]) -> Result<ProbeResult, CommandError> {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("gateway.toml");
    std::fs::write(&path, config).expect("a written file");
    let path = path.to_str().expect("a path");
    let words = ["probe", "--config", path].into_iter().chain(args.iter().copied());
    let Cli { common, args } = Cli::try_parse_from(words).expect("options");
    let run = tokio::task::spawn_blocking(move || gw_probe::probe(&common, &args));
    run.await.expect("the probe runs")
}

/// The result of a probe with these options, and its JSON report.
async fn probe_json(config: &str, args: &[&str]) -> (ProbeResult, Value) {
    let args: Vec<&str> = args.iter().copied().chain(["--yes", "--json"]).collect();
    let result = probe(config, &args).await.unwrap_or_else(|error| panic!("{error}"));
    let report = serde_json::from_str(&result.report).unwrap_or_else(|error| panic!("{error}"));
    (result, report)
}

/// The names of the checks with this result.
fn with_result(report: &Value, result: &str) -> Vec<String> {
    let checks = report["checks"].as_array().expect("checks");
    let found = checks.iter().filter(|check| check["result"] == result);
    found.map(|check| check["check"].as_str().unwrap_or_default().to_owned()).collect()
}

/// The entry of a check.
#[track_caller]
fn check<'v>(report: &'v Value, name: &str) -> &'v Value {
    let found = report["checks"].as_array().expect("checks").iter().find(|check| check["check"] == name);
    found.unwrap_or_else(|| panic!("{name}: {report:#}"))
}

/// The steps of a probe, the fault that is planted, and the checks that fail.
type FaultRow = (Planted, &'static str, &'static [&'static str]);

const TOOL_CHECKS: &[&str] = &["tools.forced", "tools.required", "tools.auto", "tools.parallel"];

const FAULTS: [FaultRow; 42] = [
    (Planted::NoStreamUsage, "stream", &["stream.usage"]),
    (Planted::ZeroUsage, "chat", &["chat.usage"]),
    (Planted::ZeroUsage, "stream", &["stream.usage"]),
    (Planted::WrongTotal, "chat", &["chat.usage"]),
    (Planted::NoDone, "stream", &["stream.done"]),
    (Planted::CutStream, "stream", &["stream.answer", "stream.done", "stream.finish_reason", "stream.usage"]),
    (Planted::StalledStream, "stream", &["stream.answer"]),
    (Planted::StreamAsText, "stream", &["stream.content_type"]),
    (Planted::JsonAsText, "chat", &["chat.content_type"]),
    (Planted::BufferedStream, "stream", &["stream.flush"]),
    (Planted::OddEvent, "stream", &["stream.answer", "stream.framing"]),
    (Planted::ChangingIds, "stream", &["stream.ids"]),
    (Planted::NoFinishReason, "stream", &["stream.finish_reason"]),
    (Planted::GzipUnasked, "chat", &["chat.encoding"]),
    (Planted::ThinkTags, "chat", &["reasoning"]),
    (Planted::ChoicesIgnored, "choices", &["choices"]),
    (Planted::StopIgnored, "stop", &["stop"]),
    (Planted::MaxTokensIgnored, "max_tokens", &["max_tokens"]),
    (Planted::ForcedToolIgnored, "tools", &["tools.forced", "tools.required"]),
    (Planted::BadArguments, "tools", TOOL_CHECKS),
    (Planted::NoCallId, "tools", TOOL_CHECKS),
    (Planted::MergedCalls, "tools", &["tools.parallel"]),
    (Planted::MergedArguments, "tools", &["tools.parallel"]),
    (Planted::ResultRefused, "tools", &["tools.result"]),
    (Planted::JsonModeIgnored, "json", &["json.mode"]),
    (Planted::SchemaIgnored, "json", &["json.schema"]),
    (Planted::ImageCrash, "images", &["images"]),
    (Planted::OddResponses, "native", &["native.responses"]),
    (Planted::OddMessages, "native", &["native.messages"]),
    (Planted::DeadAfterCancel, "cancel", &["cancel"]),
    (Planted::ErrorWith200, "errors", &["errors.model"]),
    (Planted::ErrorInHtml, "errors", &["errors.model"]),
    (Planted::ErrorWithoutShape, "errors", &["errors.model"]),
    (Planted::KeyAccepted, "errors", &[]),
    (Planted::KeyEchoed, "errors", &["errors.echo"]),
    (Planted::ParameterCrash, "errors", &["errors.parameter"]),
    (Planted::TruncatedPrompt, "errors", &[]),
    (Planted::VectorsSwapped, "embeddings", &["embeddings.order", "embeddings.base64"]),
    (Planted::VectorsReversed, "embeddings", &["embeddings.order"]),
    (Planted::DimensionsIgnored, "embeddings", &["embeddings.dimensions"]),
    (Planted::Base64Ignored, "embeddings", &["embeddings.base64"]),
    (Planted::NoVectorUsage, "embeddings", &["embeddings.usage"]),
];

#[tokio::test]
async fn each_planted_fault_is_found_and_nothing_else() {
    let mut differences = Differences::default();
    for (fault, step, failing) in FAULTS {
        let server = server::start(fault).await;
        let model = if step == "embeddings" { "e" } else { "m" };
        let timeout = if fault == Planted::StalledStream { "2" } else { "60" };
        let args = ["acme", model, "--only", step, "--timeout", timeout];
        let (result, report) = probe_json(&config(&server), &args).await;
        let expected: Vec<String> = failing.iter().map(|name| (*name).to_owned()).collect();
        differences.check(format!("{fault:?} {step}"), with_result(&report, "failed"), expected);
        differences.check(format!("{fault:?} {step}: failed"), result.failed, failing.len());
        if result.report.contains(UPSTREAM_KEY) || result.report.contains("wrong-key") {
            differences.check(format!("{fault:?} {step}: a key is shown"), true, false);
        }
    }
    differences.finish();
}

#[tokio::test]
async fn a_dropped_system_prompt_is_found_by_its_tokens() {
    let server = server::start(Planted::SystemDropped).await;
    let (_, report) =
        probe_json(&config(&server), &["acme", "m", "--only", "chat", "--only", "system"]).await;
    assert_eq!(with_result(&report, "failed"), ["system"], "{report:#}");
}

#[tokio::test]
async fn a_good_server_has_no_failure_and_every_ability() {
    let server = server::start(Planted::Nothing).await;
    let (result, report) = probe_json(&config(&server), &["acme", "m"]).await;
    assert_eq!(result.failed, 0, "{report:#}");
    assert_eq!(with_result(&report, "failed"), Vec::<String>::new(), "{report:#}");
    assert_eq!(with_result(&report, "skipped"), Vec::<String>::new(), "{report:#}");
    assert_eq!(with_result(&report, "not_offered"), ["reasoning"], "{report:#}");
    assert_eq!(check(&report, "list.context")["measured"], "1000 tokens");
    assert_eq!(check(&report, "limits.headers")["measured"], "x-ratelimit-remaining-requests: 99");
    assert_eq!(check(&report, "errors.key")["measured"], "status 401 invalid_api_key");
    assert_eq!(check(&report, "errors.oversize")["measured"], "status 400 context_length_exceeded");
    assert!(
        check(&report, "stream.flush")["measured"].as_str().is_some_and(|text| text.starts_with("20 pieces"))
    );
    assert_eq!(report["calls"], server.hits(), "{report:#}");
    // The stream that the probe leaves is closed at once.
    let requests = server.requests();
    let left = requests.iter().find(|request| String::from_utf8_lossy(&request.body).contains("1 to 300"));
    within("the left stream closes", left.expect("a stream to leave").until_closed()).await;
}

#[tokio::test]
async fn a_good_embedding_model_has_no_failure() {
    let server = server::start(Planted::Nothing).await;
    let (result, report) = probe_json(&config(&server), &["acme", "acme/e"]).await;
    assert_eq!(result.failed, 0, "{report:#}");
    assert_eq!(with_result(&report, "failed"), Vec::<String>::new(), "{report:#}");
    assert_eq!(check(&report, "embeddings.dimensions")["measured"], "96, and 64 when asked");
}

#[tokio::test]
async fn the_catalogue_entry_is_a_configuration() {
    let server = server::start(Planted::SchemaIgnored).await;
    let result = probe(&config(&server), &["acme", "m", "--yes", "--catalogue"]).await.expect("a report");
    assert_eq!(result.failed, 1, "{}", result.report);
    let entry = result.report;
    let parsed: Value = toml::from_str(&entry).unwrap_or_else(|error| panic!("{error}: {entry}"));
    let model = &parsed["models"][0];
    assert_eq!(
        (&model["id"], &model["upstream_model"], &model["context_length"]),
        (&json!("acme/m"), &json!("m"), &json!(1000))
    );
    let features = ["streaming", "function_calling", "parallel_function_calling", "json_mode", "vision"];
    assert_eq!(model["features"], json!(features), "{entry}");
    assert!(entry.contains("# FAILED json.schema: expected an object with exactly animal"), "{entry}");
    assert!(entry.contains("# json_schema: left out, because json.schema failed"), "{entry}");
    let config = config(&server);
    let provider = config.split("[[models]]").next().expect("a provider");
    let path = Path::new("gateway.toml");
    let config = gw_config::parse(&format!("{provider}{entry}"), path, &|_| None).expect("a configuration");
    let (_, problems) = setup::offline(Loaded { config, path: Some(path.to_owned()) });
    assert_eq!(problems, Vec::<String>::new());
}

#[tokio::test]
async fn a_dead_endpoint_ends_the_probe_after_one_call() {
    for (url, why) in [("http://127.0.0.1:1/v1", "the endpoint cannot be reached")] {
        let (_, report) = probe_json("", &["x", "m", "--base-url", url]).await;
        assert_eq!(with_result(&report, "failed"), ["list.models"], "{report:#}");
        assert_eq!((&report["calls"], &check(&report, "chat.answer")["reason"]), (&json!(1), &json!(why)));
    }
}

#[tokio::test]
async fn the_models_of_the_demo_that_fail_on_purpose_are_found() {
    let demo = "[server]\ndata_dir = \"data\"\n[[providers]]\nname = \"demo\"\napi = \"demo\"\n";
    let mut differences = Differences::default();
    for (model, failing) in [
        ("chat", &[][..]),
        ("cut", &["chat.answer", "stream.answer"]),
        ("truncate", &["chat.answer", "stream.answer"]),
        ("stall", &["chat.answer"]),
        ("silent", &["chat.answer"]),
        ("garbage", &["chat.answer", "stream.answer"]),
        ("error-mid", &["chat.answer", "stream.answer"]),
        ("error-first", &["chat.answer", "stream.answer"]),
        ("error-400", &["chat.answer", "stream.answer"]),
        ("error-401", &["chat.answer"]),
        ("error-429", &["chat.answer"]),
        ("error-500", &["chat.answer", "stream.answer"]),
        ("error-503", &["chat.answer", "stream.answer"]),
    ] {
        let args = ["demo", model, "--timeout", "2", "--only", "chat", "--only", "stream"];
        let (_, report) = probe_json(demo, &args).await;
        let failed = with_result(&report, "failed");
        let answers: Vec<String> = failed.into_iter().filter(|check| check.ends_with(".answer")).collect();
        let expected: Vec<String> = failing.iter().map(|name| (*name).to_owned()).collect();
        differences.check(model, answers, expected);
    }
    differences.finish();
}

#[tokio::test]
async fn the_page_on_probes_knows_every_check() {
    let page = include_str!("../../../../docs/probe.md");
    let server = server::start(Planted::Nothing).await;
    for model in ["m", "e"] {
        let (_, report) = probe_json(&config(&server), &["acme", model]).await;
        for check in report["checks"].as_array().expect("checks") {
            let name = check["check"].as_str().unwrap_or_default();
            assert!(page.contains(&format!("| `{name}` |")), "docs/probe.md does not explain {name}");
        }
    }
}
