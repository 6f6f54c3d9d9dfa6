//! After a restart every counter of a rule has what it had before, also those of requests without a value and of requests with several tags.

use std::collections::BTreeMap;

use gw_testkit::{Client, FakeUpstream, Gateway, Launch};
use serde_json::Value;

use super::{CHAT, ask};
use crate::harness::{ADMIN, Setup, binary};

/// Requests by their end user and their tags. An empty text is no header.
const REQUESTS: [(&str, &str); 7] = [
    ("ann", "app:shop,night,project:one"),
    ("ann", "app:shop,app:desk,project:one,project:two"),
    ("ben", "night"),
    ("ben", ""),
    ("", "project:two"),
    ("", "app:desk"),
    ("", ""),
];

fn rules() -> String {
    let rule = |name: &str, lines: &str| {
        ["total", "15m"]
            .map(|period| {
                format!("[[budgets]]\nname = \"{name} {period}\"\n{lines}\nbudget_usd = 1\nperiod = \"{period}\"\n")
            })
            .concat()
    };
    [
        rule("users", "split_by = \"end_user\""),
        rule("projects", "split_by = \"tag:project\""),
        rule("tags", "match = { tag = [\"app:*\", \"night\"] }"),
        rule("apps of users", "match = { tag = \"app:*\" }\nsplit_by = \"end_user\""),
        rule("projects at night", "match = { tag = \"night\" }\nsplit_by = \"tag:project\""),
        rule("teams", "split_by = \"team\""),
    ]
    .concat()
}

fn client(gateway: &Gateway, (user, tags): (&str, &str)) -> Client {
    let headers = [("x-gateway-user", user), ("x-gateway-tags", tags)];
    let client = gateway.client().with_key("sk-trusted");
    let given = headers.into_iter().filter(|(_, value)| !value.is_empty());
    given.fold(client, |client, (name, value)| client.with_header(name, value))
}

/// The spending of each counter. A gateway that has just started knows a counter once somebody asks for it.
async fn spent(gateway: &Gateway) -> BTreeMap<String, Value> {
    for names in REQUESTS {
        client(gateway, names).get("/v1/me").await.ok();
    }
    let list = gateway.client().with_key(ADMIN).get("/admin/v1/budgets").await.ok().json();
    let rules = list["data"].as_array().expect("rules").iter();
    let counters = rules.flat_map(|rule| {
        let counters = rule["counters"].as_array().expect("counters").iter();
        counters
            .map(|counter| (format!("{} {}", rule["name"], counter["split"]), counter["spent_usd"].clone()))
    });
    counters.collect()
}

#[tokio::test]
async fn every_counter_has_the_same_spending_after_a_restart() {
    let data = tempfile::tempdir().expect("a directory");
    let upstream = FakeUpstream::start().await;
    let keys = "[[keys]]\nname = \"trusted\"\nkey = \"sk-trusted\"\ntrust_attribution = true\n";
    let setup = Setup { extra: format!("{keys}{}", rules()), ..Setup::default() };
    let config = setup.config(&upstream.base_url(), &upstream.base_url());
    let start = || {
        let launch = Launch::new(binary()).file("gateway.toml", &config);
        launch.env("MODEL_GATEWAY_DATA_DIR", &data.path().to_string_lossy()).start()
    };
    let gateway = start().await;
    for names in REQUESTS {
        client(&gateway, names).post_json(CHAT, &ask()).await.ok();
    }
    let before = spent(&gateway).await;
    for (counter, requests) in [
        ("\"users total\" {\"end_user\":null}", 3),
        ("\"projects total\" {\"tag:project\":null}", 4),
        ("\"projects total\" {\"tag:project\":\"two\"}", 2),
        ("\"tags total\" {}", 4),
        ("\"apps of users 15m\" {\"end_user\":\"ann\"}", 2),
        ("\"projects at night total\" {\"tag:project\":null}", 1),
        ("\"teams total\" {\"team\":null}", 7),
    ] {
        let found = before.get(counter).and_then(Value::as_f64);
        let found = found.map(|usd| (usd / 0.00002).round());
        assert_eq!(found, Some(f64::from(requests)), "{counter}: {before:#?}");
    }
    let _ = gateway.stop();
    let gateway = start().await;
    assert_eq!(spent(&gateway).await, before);
}
