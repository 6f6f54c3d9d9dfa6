//! Stored configuration that a start cannot use: the start, `doctor` and `backup` tell it, and no new encryption key hides a lost one.

use std::path::Path;
use std::process::Output;

use gw_testkit::Launch;
use serde_json::{Value, json};

use super::configuration::{CANARY, admin, put};
use crate::harness::{ADMIN, binary};

const DEMO: &str = "[[providers]]\nname = \"demo\"\n";
/// No findings.
const NONE: [(String, String); 0] = [];
const WRONG_KEY: &str = "0303030303030303030303030303030303030303030303030303030303030303";

/// The program beside a file with the provider `acme`.
fn launch(data: &Path, more: &str, args: &[&str]) -> Launch {
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"boss\"\nkey = \"{ADMIN}\"\nrole = \"admin\"\n\
         [[providers]]\nname = \"acme\"\napi = \"openai\"\nbase_url = \"http://127.0.0.1:9/v1\"\n{more}"
    );
    let launch = Launch::new(binary()).file("gateway.toml", config);
    let launch = launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy());
    args.iter().fold(launch, |launch, arg| launch.arg(*arg))
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

/// The failed findings of `doctor` about the configuration and its key, as check and message. Others depend on the machine.
fn failures(data: &Path, more: &str) -> Vec<(String, String)> {
    let output = launch(data, more, &["doctor", "--json"]).run();
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    let member = |finding: &Value, name: &str| finding[name].as_str().unwrap_or_default().to_owned();
    let all = report["findings"].as_array().expect("findings").iter();
    let failed: Vec<&Value> = all.filter(|finding| finding["result"] == "failed").collect();
    assert_eq!(output.status.code(), Some(i32::from(!failed.is_empty())), "{report:#}");
    let checks = ["configuration", "encryption key"].map(Value::from);
    let of_checks = failed.into_iter().filter(|finding| checks.contains(&finding["check"]));
    of_checks.map(|finding| (member(finding, "check"), member(finding, "message"))).collect()
}

#[tokio::test]
async fn a_file_that_no_longer_fits_the_entries_is_told_by_the_entry() {
    let data = tempfile::tempdir().expect("a directory");
    let gateway = launch(data.path(), DEMO, &[]).start().await;
    let boss = admin(&gateway);
    let fault = |target: &str| {
        format!("aliases/zz: alias 'zz' stands for '{target}', which no configured provider has")
    };
    let wrong = put(&boss, "aliases/zz", json!({ "targets": ["nowhere/none"] })).await;
    let said = format!("The configuration cannot be used: {}.", fault("nowhere/none"));
    assert_eq!((wrong.status, wrong.message()), (400, said));
    assert_eq!(put(&boss, "aliases/zz", json!({ "targets": ["demo/chat"] })).await.status, 201);
    drop(gateway.stop());
    assert_eq!(failures(data.path(), DEMO), NONE);

    let fault = fault("demo/chat");
    let started = launch(data.path(), "", &[]).run();
    assert_eq!(started.status.code(), Some(2), "{}", text(&started));
    assert!(text(&started).contains(&format!("\n  {fault}\n")), "{}", text(&started));
    assert_eq!(failures(data.path(), ""), [("configuration".to_owned(), fault)]);
}

#[tokio::test]
async fn a_lost_encryption_key_is_told_and_not_replaced() {
    let data = tempfile::tempdir().expect("a directory");
    let (key, kept) = (data.path().join("secret.key"), data.path().join("kept.key"));
    let gateway = launch(data.path(), "", &[]).start().await;
    let body = json!({ "api": "openai", "base_url": "http://127.0.0.1:9/v1", "api_key": CANARY,
        "allow_private_network": true });
    assert_eq!(put(&admin(&gateway), "providers/gamma", body).await.status, 201);
    drop(gateway.stop());
    let shelf = tempfile::tempdir().expect("a directory");
    let backup = |name: &str| {
        let output = launch(data.path(), "", &["backup", &shelf.path().join(name).to_string_lossy()]).run();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        text(&output)
    };
    let warning = "warning: a gateway does not start with this state: ";
    assert!(!backup("good.tar").contains(warning));
    assert_eq!(failures(data.path(), ""), NONE);

    std::fs::rename(&key, &kept).expect("the key");
    let missing = format!(
        "the encryption key is missing, and a secret of the stored configuration of providers/gamma cannot be read without it: \
         put the old {} back, or set MODEL_GATEWAY_ENCRYPTION_KEY to its content",
        key.display()
    );
    assert_eq!(failures(data.path(), ""), [("encryption key".to_owned(), missing.clone())]);
    let started = launch(data.path(), "", &[]).run();
    assert_eq!(started.status.code(), Some(1), "{}", text(&started));
    assert!(text(&started).contains(&missing), "{}", text(&started));
    assert!(backup("missing.tar").contains(&format!("{warning}{missing}")));
    assert!(!key.exists(), "no new key hides that the old one is missing");

    std::fs::write(&key, WRONG_KEY).expect("a file");
    let unreadable = "a secret of the stored configuration of providers/gamma cannot be read";
    let found = failures(data.path(), "");
    assert!(found.len() == 1 && found[0].1.contains(unreadable), "{found:?}");
    assert!(backup("wrong.tar").contains(&format!("{warning}{unreadable}")));

    // A rotation makes a new key, because the one before it opens the secrets.
    std::fs::remove_file(&key).expect("the wrong key");
    let previous = std::fs::read_to_string(&kept).expect("the old key");
    let rotated = launch(data.path(), "", &[]).env("MODEL_GATEWAY_PREVIOUS_ENCRYPTION_KEY", previous.trim());
    drop(rotated.start().await.stop());
    assert!(key.exists());
    assert_eq!(failures(data.path(), ""), NONE);
}
