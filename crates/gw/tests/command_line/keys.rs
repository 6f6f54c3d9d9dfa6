//! `model-gateway keys` and `usage`, directly on the store and over the management API.

use std::process::Output;

use gw_store::ledger::Entry;
use gw_testkit::measured::at_most;
use gw_testkit::{Gateway, Launch, within};
use serde_json::Value;

use crate::harness::management::{CONFIG, boss, with_ledger};
use crate::harness::{ADMIN, binary, chat};

/// Runs the program beside this gateway: on its configuration and its store.
fn beside(gateway: &Gateway, args: &[&str]) -> Output {
    let config = gateway.dir().join("gateway.toml");
    let launch = Launch::new(binary())
        .env("MODEL_GATEWAY_DATA_DIR", &gateway.dir().join("data").to_string_lossy())
        .env("MODEL_GATEWAY_CONFIG", &config.to_string_lossy());
    args.iter().fold(launch, |launch, arg| launch.arg(*arg)).run()
}

/// Runs it against the gateway's address, with this admin key.
fn remote(gateway: &Gateway, key: Option<&str>, args: &[&str]) -> Output {
    let launch = Launch::new(binary());
    let launch = key.iter().fold(launch, |launch, key| launch.env("MODEL_GATEWAY_ADMIN_KEY", key));
    let url = format!("http://{}", gateway.addr);
    args.iter().fold(launch, |launch, arg| launch.arg(*arg)).arg("--url").arg(url).run()
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[track_caller]
fn ok(output: Output) -> Output {
    assert_eq!(output.status.code(), Some(0), "{}{}", stdout(&output), stderr(&output));
    output
}

/// The secret that a command printed: alone on its line, nothing else on standard output.
#[track_caller]
fn secret(output: &Output) -> String {
    let text = stdout(output);
    let secret = text.strip_suffix('\n').unwrap_or_default();
    assert!(gw_store::keys::is_well_formed(secret), "{text:?}");
    assert!(!stderr(output).contains(&secret[12..]), "{}", stderr(output));
    secret.to_owned()
}

async fn waits_for(gateway: &Gateway, secret: &str, status: u16) {
    let client = gateway.client().with_key(secret);
    let start = std::time::Instant::now();
    within("the key has its effect", async {
        while client.post_json("/v1/chat/completions", &chat("demo/chat")).await.status != status {}
    })
    .await;
    at_most("a key has its effect", start.elapsed().as_millis(), 1000);
}

#[tokio::test]
async fn keys_made_on_the_store_are_good_in_a_running_gateway_within_a_second() {
    let (gateway, _) = with_ledger(&[]).await;
    let made = ok(beside(
        &gateway,
        &["keys", "create", "--name", "cli", "--models", "demo/*,acme/x", "--rpm", "5000"],
    ));
    let first = secret(&made);
    assert!(stderr(&made).contains("cli"), "{}", stderr(&made));
    waits_for(&gateway, &first, 200).await;
    let id = &first[..12];
    let second = secret(&ok(beside(&gateway, &["keys", "rotate", id, "--grace-seconds", "0"])));
    waits_for(&gateway, &first, 401).await;
    waits_for(&gateway, &second, 200).await;
    let listed = ok(beside(&gateway, &["keys", "list"]));
    let table = stdout(&listed);
    assert!(table.lines().any(|line| line.starts_with(id) && line.contains("demo/* acme/x")), "{table}");
    assert!(table.contains(&boss()) && !table.contains(&second[12..]), "{table}");
    let revoked = ok(beside(&gateway, &["keys", "revoke", id]));
    assert_eq!(stdout(&revoked), "");
    waits_for(&gateway, &second, 401).await;
    assert!(!stdout(&ok(beside(&gateway, &["keys", "list"]))).contains(id));
    assert!(stdout(&ok(beside(&gateway, &["keys", "list", "--all"]))).contains("revoked"));
}

#[tokio::test]
async fn keys_are_managed_over_the_network_with_the_admin_key_of_the_environment() {
    let (gateway, _) = with_ledger(&[]).await;
    let args = [
        "keys",
        "create",
        "--name",
        "far",
        "--role",
        "admin",
        "--tpm",
        "100000000",
        "--max-in-flight",
        "3",
        "--budget-usd",
        "1000.123456789",
        "--on-budget",
        "cut",
        "--rpm",
        "1000000",
        "--burst",
        "10000",
        "--budget-period",
        "week",
        "--expires-at",
        "2099-01-01T00:00:00Z",
        "--metadata",
        "{\"cost\":[1.10,2]}",
    ];
    let first = secret(&ok(remote(&gateway, Some(ADMIN), &args)));
    waits_for(&gateway, &first, 200).await;
    // A key without a budget may refuse requests without a price, too.
    let priced = ["keys", "create", "--name", "priced", "--unpriced", "refuse"];
    let priced = secret(&ok(remote(&gateway, Some(ADMIN), &priced)));
    ok(remote(&gateway, Some(ADMIN), &["keys", "revoke", &priced[..12]]));
    for (name, budget) in [("most", "999999999.999999999"), ("least", "0.000000001")] {
        let exact = ["keys", "create", "--name", name, "--budget-usd", budget];
        let exact = secret(&ok(remote(&gateway, Some(ADMIN), &exact)));
        let table = stdout(&ok(remote(&gateway, Some(ADMIN), &["keys", "list"])));
        assert!(table.contains(&format!(" {budget} USD/month")), "{table}");
        ok(remote(&gateway, Some(ADMIN), &["keys", "revoke", &exact[..12]]));
    }
    let listed = stdout(&ok(remote(&gateway, Some(&first), &["keys", "list", "--json"])));
    let keys: Value = serde_json::from_str(&listed).expect("JSON");
    let key = keys.as_array().and_then(|keys| keys.last()).expect("a key");
    assert_eq!(
        (&key["name"], &key["role"], &key["tpm"]),
        (&"far".into(), &"admin".into(), &100_000_000.into())
    );
    assert_eq!((&key["budget_period"], &key["max_in_flight"]), (&"week".into(), &3.into()));
    assert_eq!((&key["on_budget"], &key["burst"]), (&"cut".into(), &10_000.into()));
    assert!(listed.contains("0.123456789,") && listed.contains("[1.10,2]"), "as it was written: {listed}");
    let second = secret(&ok(remote(&gateway, Some(ADMIN), &["keys", "rotate", &first[..12]])));
    waits_for(&gateway, &first, 200).await;
    waits_for(&gateway, &second, 200).await;
    ok(remote(&gateway, Some(ADMIN), &["keys", "revoke", &first[..12]]));
    waits_for(&gateway, &second, 401).await;
}

#[tokio::test]
async fn what_cannot_be_done_has_exit_code_2_and_what_fails_1() {
    let (gateway, _) = with_ledger(&[]).await;
    for (args, word) in [
        (&["keys", "create"][..], "--name"),
        (&["keys", "create", "--name", "x", "--role", "root"], "role"),
        (&["keys", "create", "--name", "x", "--rpm", "0"], "rpm"),
        (&["keys", "create", "--name", "x", "--team", "none"], "team"),
        (&["keys", "create", "--name", "x", "--metadata", "{"], "metadata"),
        (&["keys", "create", "--name", "x", "--budget-period", "day"], "budget-usd"),
        (&["keys", "create", "--name", "x", "--budget-usd", "ten"], "budget-usd"),
        (&["keys", "revoke", "sk-gw-000000"], "sk-gw-000000"),
        (&["keys", "rotate", "sk-gw-000000"], "sk-gw-000000"),
        (&["keys", "revoke", &boss()], "configuration"),
        (&["keys"], "Usage"),
        (&["usage", "--by", "user"], "by"),
        (&["usage", "--since", "soon"], "since"),
        (&["usage", "--format", "xml"], "format"),
        (&["usage", "--key", "sk-gw-000000"], "sk-gw-000000"),
    ] {
        let output = beside(&gateway, args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(word), "{args:?}: {}", stderr(&output));
        assert_eq!(stdout(&output), "", "{args:?}");
    }
    let list = ["keys", "list"];
    for (key, word) in [(None, "MODEL_GATEWAY_ADMIN_KEY"), (Some("sk-wrong"), "Incorrect API key")] {
        let output = remote(&gateway, key, &list);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(
            stderr(&output).contains(word) && !stderr(&output).contains("sk-wrong"),
            "{}",
            stderr(&output)
        );
    }
    let args = ["keys", "list", "--url", "http://127.0.0.1:1"];
    let launch = args.iter().fold(Launch::new(binary()), |launch, arg| launch.arg(*arg));
    let output = launch.env("MODEL_GATEWAY_ADMIN_KEY", "sk-x").run();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let launch = Launch::new(binary()).file("gateway.toml", CONFIG).file("data", "not a directory");
    let output = launch.arg("keys").arg("list").run();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    let memory = format!("{CONFIG}\n[store]\nurl = \"sqlite::memory:\"\n");
    let output = Launch::new(binary()).file("gateway.toml", memory).arg("usage").run();
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    assert!(stderr(&output).contains("--url"), "{}", stderr(&output));
}

#[tokio::test]
async fn usage_is_printed_as_a_table_json_or_csv_from_the_store_and_over_the_network() {
    let entry = |n: u32, key: &str, cost: i128| Entry {
        request_id: format!("req_{n}").into(),
        at: 1_795_251_600_000,
        key_id: key.to_owned().into(),
        model: "acme/fast".into(),
        status: "ok".into(),
        cost,
        ..Entry::default()
    };
    let boss = boss();
    let (gateway, _) =
        with_ledger(&[entry(1, &boss, 1_500_000_000_000_001), entry(2, "sk-gw-gone00", 1)]).await;
    for run in [&|args: &[&str]| beside(&gateway, args), &|args: &[&str]| remote(&gateway, Some(ADMIN), args)]
        as [&dyn Fn(&[&str]) -> Output; 2]
    {
        let table = stdout(&ok(run(&["usage", "--by", "key", "--since", "2026-11-21"])));
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(lines.len(), 4, "{table}");
        assert!(lines[0].starts_with("KEY") && lines[0].contains("COST USD"), "{table}");
        assert!(lines[1].starts_with(&boss) && lines[1].contains("boss"), "{table}");
        assert!(lines[1].contains("1.500000000000001"), "{table}");
        assert!(lines[3].starts_with("total") && lines[3].contains("1.500000000000002"), "{table}");
        let json = stdout(&ok(run(&["usage", "--format", "json"])));
        assert!(json.starts_with("{\"object\":\"usage\",\"by\":\"day\""), "{json}");
        assert!(json.contains("\"cost_usd\":1.500000000000002,"), "{json}");
        let csv = stdout(&ok(run(&["usage", "--by", "model", "--format", "csv", "--model", "acme/fast"])));
        assert!(csv.starts_with("model,requests,") && csv.contains("acme/fast,2,"), "{csv}");
    }
    let none = stdout(&ok(beside(&gateway, &["usage", "--since", "1m"])));
    assert_eq!(none.lines().count(), 2, "{none}");
}
