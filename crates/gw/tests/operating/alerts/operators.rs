//! The list, the test message, the formats, the configuration over the API, and what is never shown.

use gw_testkit::{Answer, Launch};
use serde_json::{Value, json};

use super::{CHAT, SECRET, alert, ask, by_id, heard, limited, receiver, url_of, verified};
use crate::harness::{ADMIN, KEY, binary};

#[tokio::test]
async fn a_test_is_sent_once_and_told_honestly() {
    let receiver = receiver().await;
    let world = limited("1.0", &alert("on call", "\"budget:1\"", &receiver)).start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let sent = admin.post_json("/admin/v1/alerts/on%20call/test", &json!({})).await.ok().json();
    assert_eq!(
        (&sent["delivered"], &sent["status"], &sent["error"]),
        (&json!(true), &json!(204), &json!(null))
    );
    assert!(sent["latency_ms"].is_u64(), "{sent}");
    let body = verified(&receiver.last());
    assert_eq!(
        (&body["event"], &body["data"]),
        (&json!("test"), &json!({ "kind": "test", "name": "on call" }))
    );
    receiver.enqueue(Answer::full(503, &[], "no"));
    let failed = admin.post_json("/admin/v1/alerts/on%20call/test", &json!({})).await.ok().json();
    assert_eq!((&failed["delivered"], &failed["status"]), (&json!(false), &json!(503)), "{failed}");
    assert_eq!((receiver.hits(), &failed["error"]), (2, &json!("status 503")));
    let unknown = admin.post_json("/admin/v1/alerts/nobody/test", &json!({})).await;
    assert_eq!((unknown.status, unknown.code().as_str()), (404, "not_found"));
    let command = |name: &str| {
        let url = format!("http://{}", world.gateway.addr);
        let launch = Launch::new(binary()).env("MODEL_GATEWAY_ADMIN_KEY", ADMIN);
        launch.arg("alerts").arg("test").arg(name).arg("--url").arg(url)
    };
    let output = tokio::task::spawn_blocking({
        let launch = command("on call");
        move || launch.run()
    })
    .await
    .expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    receiver.enqueue(Answer::full(500, &[], "no"));
    let output = tokio::task::spawn_blocking({
        let launch = command("on call");
        move || launch.run()
    })
    .await
    .expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("status 500"), "{output:?}");
}

#[tokio::test]
async fn nothing_shows_more_of_a_url_than_its_host() {
    let receiver = receiver().await;
    let world = limited("0.00002", &alert("ops", "\"budget:1\"", &receiver)).start().await;
    receiver.enqueue(Answer::full(500, &[], "no"));
    world.gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await.ok();
    heard(&receiver, 1).await;
    let admin = world.gateway.client().with_key(ADMIN);
    let list = admin.get("/admin/v1/alerts").await.ok();
    let entry = list.json()["data"][0].clone();
    assert_eq!(list.json()["object"], "list");
    let origin = format!("http://{}", receiver.addr);
    assert_eq!(
        (&entry["name"], &entry["on"], &entry["format"], &entry["url"]),
        (&json!("ops"), &json!(["budget:1"]), &json!("json"), &json!(origin))
    );
    let config = admin.get("/admin/v1/config").await.ok();
    let audit = admin.get("/admin/v1/audit").await.ok();
    let logs = world.gateway.stderr().join("\n");
    for text in [list.text(), config.text(), audit.text(), logs] {
        assert!(!text.contains("canary") && !text.contains("whsec_"), "{text}");
    }
    let viewer = world.gateway.client().with_key(KEY).get("/admin/v1/alerts").await;
    assert_eq!((viewer.status, viewer.code().as_str()), (403, "admin_required"));
}

#[tokio::test]
async fn slack_teams_and_pagerduty_get_their_own_shapes() {
    let (slack, teams, duty) = (receiver().await, receiver().await, receiver().await);
    let alerts = format!(
        "[[alerts]]\nname = \"s\"\non = [\"budget:0.8\"]\nformat = \"slack\"\nurl = \"{}\"\n\
         [[alerts]]\nname = \"t\"\non = [\"budget:0.8\"]\nformat = \"teams\"\nurl = \"{}\"\n\
         [[alerts]]\nname = \"p\"\non = [\"budget:0.8\"]\nformat = \"pagerduty\"\nrouting_key = \"rk-1\"\nurl = \"{}\"\n",
        url_of(&slack),
        url_of(&teams),
        url_of(&duty)
    );
    let world = limited("0.000025", &alerts).start().await;
    world.gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await.ok();
    let of = |message: Value, path: &str| message.pointer(path).cloned().unwrap_or_default();
    let slack = heard(&slack, 1).await.remove(0);
    let text = of(slack.json(), "/text");
    assert!(text.as_str().is_some_and(|text| text.contains("limited-by") && text.contains("80%")), "{text}");
    let teams = heard(&teams, 1).await.remove(0);
    let kind = of(teams.json(), "/attachments/0/contentType");
    assert_eq!(
        (of(teams.json(), "/type"), kind),
        (json!("message"), json!("application/vnd.microsoft.card.adaptive"))
    );
    let text = of(teams.json(), "/attachments/0/content").to_string();
    assert!(text.contains("AdaptiveCard") && text.contains("limited-by") && text.contains("80%"), "{text}");
    let duty = heard(&duty, 1).await.remove(0);
    let body = duty.json();
    assert_eq!((&body["routing_key"], &body["event_action"]), (&json!("rk-1"), &json!("trigger")));
    assert_eq!(body["dedup_key"].as_str(), duty.header("webhook-id"));
    let summary = body["payload"]["summary"].as_str().unwrap_or_default();
    assert!(summary.contains("limited-by") && summary.contains("80%"), "{body}");
}

#[tokio::test]
async fn an_alert_of_the_api_may_not_call_private_addresses_unless_it_says_so() {
    let receiver = receiver().await;
    let world = limited("0.00002", "").start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let path = "/admin/v1/config/alerts/ops";
    let put = async |body: Value| {
        admin.send("PUT", path, Some("application/json"), Some(body.to_string().as_bytes())).await
    };
    let body = json!({ "on": ["budget:1"], "url": url_of(&receiver), "secret": SECRET });
    let refused = put(body.clone()).await;
    assert_eq!(refused.status, 400, "{}", refused.text());
    let mut allowed = body.clone();
    allowed["allow_private_network"] = json!(true);
    let made = put(allowed).await;
    assert_eq!(made.status, 201, "{}", made.text());
    assert!(!made.text().contains("canary") && !made.text().contains("whsec_"), "{}", made.text());
    let client = world.gateway.client().with_key("sk-by");
    client.post_json(CHAT, &ask()).await.ok();
    verified(&heard(&receiver, 1).await.remove(0));
    admin.send("DELETE", path, None, None).await.ok();
    let list = admin.get("/admin/v1/alerts").await.ok().json();
    assert_eq!(list["data"], json!([]));
    assert_eq!(by_id(&receiver).len(), 1);
}

#[test]
fn wrong_alerts_are_refused_with_their_place() {
    let check = |lines: &str| {
        let config = format!("[[alerts]]\nname = \"a\"\n{lines}\n");
        let output = Launch::new(binary()).file("gateway.toml", config).arg("check").run();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr),
        )
    };
    let json = format!("on = [\"budget:1\"]\nsecret = \"{SECRET}\"");
    for (lines, words) in [
        (format!("{json}\nurl = \"http://169.254.169.254/x\""), "link-local"),
        (format!("{json}\nurl = \"http://93.184.216.34/x\""), "without TLS"),
        (format!("{json}\nurl = \"http://10.0.0.1/x\"\nallow_private_network = false"), "private address"),
        (json.clone(), "needs 'url'"),
        ("on = [\"budget:1\"]\nurl = \"https://h/x\"".to_owned(), "needs 'secret'"),
        ("on = [\"budget:1\"]\nformat = \"pagerduty\"".to_owned(), "needs 'routing_key'"),
        ("on = [\"budget:80\"]\nformat = \"slack\"\nurl = \"https://h/x\"".to_owned(), "is not an event"),
        ("on = [\"budget:1\"]\nurl = \"https://h/x\"\nsecret = \"whsec_?\"".to_owned(), "whsec_"),
        (
            format!("{json}\nurl = \"https://h/x\"\n[[alerts]]\nname = \"a\"\n{json}\nurl = \"https://h/x\""),
            "already the name",
        ),
    ] {
        let (code, said) = check(&lines);
        assert!(code == Some(2) && said.contains(words), "{lines}\n{said}");
    }
    let (code, said) = check(&format!("{json}\nurl = \"https://h.example/x?sig=y\""));
    assert_eq!(code, Some(0), "{said}");
}
