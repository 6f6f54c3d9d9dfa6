//! The drill and the probe of a running gateway.

use gw_testkit::upstream::chat_body;
use gw_testkit::{Answer, Signal};
use serde_json::{Value, json};

use crate::harness::{ADMIN, assert_error, assert_invalid, world};

#[tokio::test]
async fn a_drill_tells_what_clients_see_when_a_provider_fails() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let report =
        admin.post_json("/admin/v1/routing/drill", &json!({ "only": ["beta/spare"] })).await.ok().json();
    assert_eq!((&report["object"], &report["survives"]), (&json!("drill"), &json!(false)), "{report}");
    let cases = report["routes"][0]["cases"].as_array().expect("cases");
    let refused = cases.iter().find(|case| case["fault"] == "refused").expect("a refused connection");
    let seen =
        json!({ "provider": "beta", "fault": "refused", "other_candidates": false, "survives": false });
    for (name, value) in seen.as_object().expect("members") {
        assert_eq!(&refused[name], value, "{refused}");
    }
    assert_eq!(refused["plain"]["outcome"], "error", "{refused}");
    assert!(cases.iter().any(|case| case["fault"] == "slow" && case["survives"] == true), "{report}");
    assert_eq!(world.upstream.hits() + world.second.hits(), 0, "a drill calls no provider");
    let audit = admin.get("/admin/v1/audit").await.ok().json();
    let newest = &audit["data"][0];
    assert_eq!((&newest["action"], &newest["target"]), (&json!("routing.drill"), &json!("beta/spare")));
}

#[tokio::test]
async fn a_probe_shows_its_plan_and_then_calls_the_provider() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let url = "/admin/v1/providers/acme/probe";
    let mut body = json!({ "model": "acme/fast", "only": ["chat"], "max_tokens": 100, "dry_run": true });
    let plan = admin.post_json(url, &body).await.ok().json();
    // 40 tokens of the prompt at 0.15 USD and 100 of the answer at 0.60 USD for each million.
    let expected = json!({
        "object": "probe.plan", "model": "acme/fast", "calls": 1, "prompt_tokens": 40, "completion_tokens": 100,
        "cost_usd": 0.000_066
    });
    assert_eq!((plan, world.upstream.hits()), (expected, 0));
    body["dry_run"] = json!(false);
    let report = admin.post_json(url, &body).await.ok().json();
    assert_eq!((&report["object"], &report["calls"]), (&json!("probe"), &json!(1)), "{report}");
    assert_eq!(world.upstream.hits(), 1);
    let is_passed = |check: &Value| check["check"] == "chat.answer" && check["result"] == "passed";
    assert!(report["checks"].as_array().expect("checks").iter().any(is_passed), "{report}");
    let audit = admin.get("/admin/v1/audit").await.ok().json();
    let of_probes = |row: &&Value| row["action"] == "provider.probe";
    assert_eq!(audit["data"].as_array().expect("rows").iter().filter(of_probes).count(), 1, "{audit}");
}

#[tokio::test]
async fn wrong_drills_and_probes_are_refused_and_one_runs_at_a_time() {
    let world = world().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let refused = admin.post_json("/admin/v1/routing/drill", &json!({ "only": ["nobody/has"] })).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.message().contains("nobody/has"), "{}", refused.message());
    let refused = admin.post_json("/admin/v1/providers/nobody/probe", &json!({})).await;
    assert!(refused.status == 400 && refused.message().contains("'nobody'"), "{}", refused.text());
    let refused = admin.post_json("/admin/v1/providers/acme/probe", &json!({ "only": ["sing"] })).await;
    assert!(refused.status == 400 && refused.message().contains("'sing'"), "{}", refused.text());
    let refused = admin.post_json("/admin/v1/providers/acme/probe", &json!({ "max_tokens": 1 })).await;
    assert_invalid("too few tokens", &refused, "integer_below_min_value");

    let go = Signal::new();
    let sent = chat_body("m", "x").to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        sent.len()
    );
    world.upstream.enqueue(Answer::steps(Vec::new()).wait(&go).bytes(head + &sent));
    let url = "/admin/v1/providers/acme/probe";
    let body = json!({ "model": "acme/fast", "only": ["chat"] });
    let first = {
        let (admin, body) = (admin.clone(), body.clone());
        tokio::spawn(async move { admin.post_json(url, &body).await })
    };
    world.upstream.request(0).await;
    let second = admin.post_json(url, &body).await;
    assert_error("a second probe", &second, 429, "rate_limit_error", "rate_limit_exceeded");
    go.fire();
    assert_eq!(first.await.expect("the first probe ends").status, 200);
}
