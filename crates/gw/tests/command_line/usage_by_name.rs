//! `model-gateway usage --by end_user|tag|repository|branch|pull_request`: the bytes of the management API, from the store and over the network.

use std::process::Output;
use std::sync::Arc;

use gw_store::ledger::Entry;
use gw_testkit::{Gateway, Launch};
use gw_wire::attribution::Attribution;

use crate::harness::management::with_ledger;
use crate::harness::{ADMIN, binary};

/// A request with names, which cost so many femto-USD.
fn row(number: u32, (end_user, tags, branch): (&str, &[&str], &str), cost: i128) -> Entry {
    let name = |text: &str| (!text.is_empty()).then(|| text.into());
    let attribution = Attribution {
        end_user: name(end_user),
        tags: tags.iter().map(|tag| (*tag).into()).collect(),
        repository: name(if branch.is_empty() { "" } else { "acme/shop" }),
        branch: name(branch),
        pull_request: name(if branch == "fix/1" { "12" } else { "" }),
    };
    Entry {
        request_id: format!("req_{number}").into(),
        at: 1_795_251_600_000 + i64::from(number),
        model: "acme/fast".into(),
        provider: "acme".into(),
        status: "ok".into(),
        operation: "chat".into(),
        cost,
        attribution: Some(Arc::new(attribution)),
        ..Entry::default()
    }
}

fn run(launch: Launch, args: &[&str]) -> String {
    let launch = args.iter().fold(launch.arg("usage"), |launch, arg| launch.arg(*arg));
    let Output { status, stdout, stderr } = launch.run();
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    assert_eq!(status.code(), Some(0), "{args:?}: {stdout}{stderr}");
    stdout.into_owned()
}

/// The program beside the gateway, on its store.
fn beside(gateway: &Gateway) -> Launch {
    let config = gateway.dir().join("gateway.toml");
    Launch::new(binary())
        .env("MODEL_GATEWAY_DATA_DIR", &gateway.dir().join("data").to_string_lossy())
        .env("MODEL_GATEWAY_CONFIG", &config.to_string_lossy())
}

/// The program that asks a gateway over the network.
fn remote() -> Launch {
    Launch::new(binary()).env("MODEL_GATEWAY_ADMIN_KEY", ADMIN)
}

#[tokio::test]
async fn each_name_is_printed_as_the_management_api_answers() {
    let rows = [
        row(1, ("ann", &["a", "b"], "main"), 3_000_000_000_000_001),
        row(2, ("bob, \"the\" 2nd", &["a"], "fix/1"), 2),
        row(3, ("ann", &[], "main"), 1),
        row(4, ("", &[], ""), 5),
    ];
    let (gateway, admin) = with_ledger(&rows).await;
    let url = format!("http://{}", gateway.addr);
    for (options, query, first) in [
        (&["--by", "end_user"][..], "by=end_user", "ann,,2,"),
        (&["--by", "tag"], "by=tag", "a,,2,"),
        (&["--by", "tag", "--limit", "1"], "by=tag&limit=1", "a,,2,"),
        (&["--by", "repository"], "by=repository", "acme/shop,,3,"),
        (&["--by", "branch"], "by=branch", "main,,2,"),
        (&["--by", "pull_request"], "by=pull_request", "12,,1,"),
        (&["--by", "branch", "--tag", "a", "--end-user", "ann"], "by=branch&tag=a&end_user=ann", "main,,1,"),
        (&["--by", "tag", "--repository", "acme/shop"], "by=tag&repository=acme/shop", "a,,2,"),
        (&["--by", "model", "--branch", "main"], "by=model&branch=main", "acme/fast,2,"),
        (&["--by", "end_user", "--pull-request", "12"], "by=end_user&pull_request=12", "\"bob"),
    ] {
        for format in ["json", "csv"] {
            let answer = admin.get(&format!("/admin/v1/usage?{query}&format={format}")).await.ok().text();
            let args = [options, &["--format", format]].concat();
            let expected = if format == "json" { format!("{answer}\n") } else { answer.clone() };
            assert_eq!(run(beside(&gateway), &args), expected, "{args:?}");
            let over_network = [&args[..], &["--url", &url]].concat();
            assert_eq!(run(remote(), &over_network), expected, "{args:?}");
            if format == "csv" {
                let second = answer.lines().nth(1).unwrap_or_default();
                assert!(second.starts_with(first), "{query}: {answer}");
            }
        }
        let table = run(beside(&gateway), options);
        let name = options[1].to_uppercase();
        assert!(table.starts_with(&name) && table.contains("\ntotal"), "{table}");
    }
}
