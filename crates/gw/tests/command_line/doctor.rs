//! `doctor`: each fault of a machine is found with its remedy, and a good machine has no failure.

use std::path::Path;

use gw_testkit::certificate::Certificate;
use gw_testkit::{Answer, FakeUpstream, Launch, Redis};
use serde_json::{Value, json};

use crate::harness::binary;

const DEMO: &str = "[server]\nlisten = \"127.0.0.1:0\"\n[[providers]]\nname = \"demo\"\n";

/// The report, and whether the command succeeded.
fn examine(launch: &Launch) -> (Value, bool) {
    let output = launch.run();
    let report = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!(
            "{error}: {}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        )
    });
    assert!(matches!(output.status.code(), Some(0 | 1)), "{report:#}");
    (report, output.status.success())
}

fn doctor(config: &str) -> Launch {
    Launch::new(binary()).file("gateway.toml", config).arg("doctor").arg("--json")
}

/// The findings of a check, as (result, message, remedy).
fn findings(report: &Value, check: &str) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all = report["findings"].as_array().expect("findings").iter();
    let of_check = all.filter(|finding| finding["check"] == check);
    of_check
        .map(|finding| (text(&finding["result"]), text(&finding["message"]), text(&finding["remedy"])))
        .collect()
}

/// The only finding of a check: its result, and whether its message has the words. A finding that is not ok has a remedy.
#[track_caller]
fn expect(report: &Value, check: &str, result: &str, words: &str) {
    let found = findings(report, check);
    let [(found_result, message, remedy)] = found.as_slice() else { panic!("{check}: {report:#}") };
    assert_eq!(found_result, result, "{check}: {report:#}");
    assert!(message.contains(words), "{check}: {message}");
    assert_eq!(remedy.is_empty(), result == "ok", "{check}: {remedy}");
}

#[test]
fn a_new_machine_has_no_failure() {
    let (report, succeeded) = examine(&doctor(DEMO));
    assert!(succeeded, "{report:#}");
    expect(&report, "configuration", "ok", "no problems");
    expect(&report, "port", "ok", "free");
    expect(&report, "data directory", "ok", "does not exist yet");
    expect(&report, "store", "ok", "is empty");
    for check in ["open files", "memory", "disk space", "clock"] {
        assert_eq!(findings(&report, check).len(), 1, "{check}: {report:#}");
    }
}

#[test]
fn the_doctor_creates_nothing() {
    let launch = doctor(DEMO);
    examine(&launch);
    assert!(!launch.dir().join("data").exists());
}

#[tokio::test]
async fn a_running_gateway_is_recognised() {
    let data = tempfile::tempdir().expect("a directory");
    let with_data = |launch: Launch| launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().to_string_lossy());
    let gateway = with_data(Launch::new(binary()).file("gateway.toml", DEMO)).start().await;
    let beside = doctor(DEMO).env("MODEL_GATEWAY_SERVER__LISTEN", &gateway.addr.to_string());
    let (report, succeeded) = examine(&with_data(beside));
    assert!(succeeded, "{report:#}");
    expect(&report, "port", "ok", "a running gateway listens here");
    expect(&report, "store", "ok", "the newest");
    let clocks = findings(&report, "clock");
    assert!(
        clocks.iter().any(|(result, message, _)| result == "ok" && message.contains("agrees")),
        "{report:#}"
    );
    gateway.client().get("/healthz").await.ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_of_another_program_is_a_failure() {
    let other = FakeUpstream::start().await;
    other.always(Answer::json(200, &json!({ "object": "list" })));
    let address = other.base_url().trim_start_matches("http://").trim_end_matches("/v1").to_owned();
    let (report, succeeded) = examine(&doctor(DEMO).env("MODEL_GATEWAY_SERVER__LISTEN", &address));
    assert!(!succeeded);
    expect(&report, "port", "failed", "another program listens here");
}

#[test]
fn problems_of_the_configuration_are_failures() {
    let (report, succeeded) = examine(&doctor("[server]\nlisten = 5\n"));
    assert!(!succeeded);
    expect(&report, "configuration", "failed", "server.listen");
}

#[test]
fn a_damaged_store_and_a_store_of_a_newer_program_are_failures() {
    let launch = doctor(DEMO);
    let data = launch.dir().join("data");
    std::fs::create_dir(&data).expect("the data directory");
    std::fs::write(data.join("gateway.db"), "this is no database").expect("a file");
    let (report, succeeded) = examine(&launch);
    assert!(!succeeded);
    expect(&report, "store", "failed", "is damaged");
    std::fs::remove_file(data.join("gateway.db")).expect("the file");
    let created = Launch::new(binary())
        .file("gateway.toml", DEMO)
        .env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy())
        .arg("keys")
        .arg("list")
        .run();
    assert!(created.status.success());
    let later = "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
        VALUES (9999, 'later', 1, x'00', 0)";
    sql(&data.join("gateway.db"), later);
    let (report, _) = examine(&launch);
    expect(&report, "store", "failed", "newer version");
}

/// Runs a statement in another program.
fn sql(file: &Path, statement: &str) {
    let script = "import sqlite3,sys\nwith sqlite3.connect(sys.argv[1]) as db: db.execute(sys.argv[2])";
    let run = std::process::Command::new("python3").args(["-c", script]).arg(file).arg(statement).status();
    assert!(run.expect("python3").success());
}

#[test]
fn a_schema_that_the_next_start_updates_is_a_warning() {
    let launch = doctor(DEMO);
    let data = launch.dir().join("data");
    let list = Launch::new(binary())
        .file("gateway.toml", DEMO)
        .env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy());
    assert!(list.arg("keys").arg("list").run().status.success());
    sql(
        &data.join("gateway.db"),
        "DELETE FROM _sqlx_migrations WHERE version = (SELECT max(version) FROM _sqlx_migrations)",
    );
    let (report, succeeded) = examine(&launch);
    assert!(succeeded);
    expect(&report, "store", "warning", "the next start updates it");
}

#[test]
fn postgres_is_examined_and_its_clock_compared() {
    let url = gw_testkit::postgres::database();
    let (report, succeeded) = examine(&doctor(&format!("{DEMO}[store]\nurl = \"{url}\"\n")));
    assert!(succeeded, "{report:#}");
    expect(&report, "store", "ok", "is empty");
    expect(&report, "clock", "ok", "this machine is 0.");
    assert!(!report.to_string().contains(gw_testkit::postgres::PASSWORD));
    let (report, succeeded) =
        examine(&doctor(&format!("{DEMO}[store]\nurl = \"postgres://u:canary-password@127.0.0.1:1/d\"\n")));
    assert!(!succeeded);
    expect(&report, "store", "failed", "cannot be reached");
    assert!(!report.to_string().contains("canary-password"));
}

#[tokio::test]
async fn redis_is_examined() {
    let redis = Redis::start_with(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]).await;
    let (report, succeeded) = examine(&doctor(&format!("{DEMO}[redis]\nurl = \"{}\"\n", redis.url())));
    assert!(succeeded);
    expect(&report, "redis", "warning", "allkeys-lru");
    let good = Redis::start().await;
    let (report, _) = examine(&doctor(&format!("{DEMO}[redis]\nurl = \"{}\"\n", good.url())));
    expect(&report, "redis", "ok", "answers");
    let (report, succeeded) = examine(&doctor(&format!("{DEMO}[redis]\nurl = \"redis://127.0.0.1:1/0\"\n")));
    assert!(!succeeded);
    expect(&report, "redis", "failed", "cannot be used");
}

#[test]
fn an_expired_certificate_and_one_with_another_key_are_failures() {
    let (good, expired) = (Certificate::of(&["localhost"]), Certificate::expired(&["localhost"]));
    let config =
        DEMO.replace("[[providers]]", "tls = { cert = \"cert.pem\", key = \"key.pem\" }\n[[providers]]");
    for (cert, key, result, words) in [
        (&good, &good, "ok", "valid for"),
        (&expired, &expired, "failed", "expired at 2001-01-01"),
        (&good, &expired, "failed", "key.pem"),
    ] {
        let launch = doctor(&config).file("cert.pem", &cert.pem).file("key.pem", &key.key_pem);
        let (report, succeeded) = examine(&launch);
        assert_eq!(succeeded, result == "ok", "{report:#}");
        expect(&report, "certificate", result, words);
    }
}

/// A provider with two keys.
fn provider(upstream: &FakeUpstream) -> String {
    format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"{}\"\n\
         api_keys = [\"sk-good-canary-1\", \"sk-bad-canary-2\"]\n",
        upstream.base_url()
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn providers_are_called_only_with_consent_and_each_key_once() {
    let upstream = FakeUpstream::start().await;
    upstream.respond_with(|request| match request.header("authorization") {
        Some("Bearer sk-good-canary-1") => Answer::json_with(
            200,
            &[("date", "Mon, 01 Jan 2024 00:00:00 GMT")],
            &json!({ "object": "list", "data": [] }),
        ),
        _ => Answer::error(401, "invalid_api_key", "the key sk-bad-canary-2 is wrong"),
    });
    let config = provider(&upstream);
    let (report, succeeded) = examine(&doctor(&config));
    assert!(succeeded, "{report:#}");
    assert_eq!((upstream.hits(), findings(&report, "provider key").len()), (0, 0));
    expect(&report, "provider address", "ok", "the name server knows 1 address");
    let (report, succeeded) = examine(&doctor(&config).arg("--providers"));
    assert!(!succeeded);
    let keys = findings(&report, "provider key");
    assert_eq!((keys[0].0.as_str(), keys[1].0.as_str(), keys.len()), ("ok", "failed", 2), "{report:#}");
    assert!(keys[1].2.contains("replace the key"), "{keys:?}");
    expect(&report, "clock", "failed", "ahead of it");
    assert!(!report.to_string().contains("canary"), "{report:#}");
    // The third call carries no key: it shows whether the list needs one.
    let sent: Vec<_> =
        upstream.requests().iter().map(|request| request.header("authorization").is_some()).collect();
    assert_eq!(sent, [true, true, false]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_that_needs_no_key_proves_nothing() {
    let upstream = FakeUpstream::start().await;
    upstream.always(Answer::json(200, &json!({ "object": "list", "data": [] })));
    let (report, _) = examine(&doctor(&provider(&upstream)).arg("--providers"));
    let keys = findings(&report, "provider key");
    let last = keys.last().expect("findings");
    assert!(last.0 == "warning" && last.1.contains("without a key"), "{report:#}");
}

#[test]
fn the_table_has_the_remedy_below_its_finding() {
    let output = Launch::new(binary()).file("gateway.toml", "[server]\nlisten = 5\n").arg("doctor").run();
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("RESULT") && lines[1].starts_with("failed  configuration"), "{text}");
    assert!(lines[2].trim_start().starts_with("to do: correct the configuration"), "{text}");
}
