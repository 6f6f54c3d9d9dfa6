//! Receivers that fail, gateways that are killed, and replicas.

use gw_testkit::postgres::Postgres;
use gw_testkit::wait::eventually_async;
use gw_testkit::{Answer, FakeUpstream, Gateway, Launch, Redis, eventually};

use super::{CHAT, alert, ask, by_id, heard, limited, receiver, verified};
use crate::harness::{ADMIN, binary};

async fn start(config: &str, data: &std::path::Path) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await
}

/// Waits until nothing waits for the first alert.
async fn delivered(gateway: &Gateway) {
    let admin = gateway.client().with_key(ADMIN);
    let list = eventually_async("the alerts are delivered", async || {
        let list = admin.get("/admin/v1/alerts").await.ok().json();
        (list["data"][0]["waiting"] == 0).then_some(list)
    })
    .await;
    assert!(list["data"][0]["last_error"].is_null(), "{list}");
}

#[tokio::test]
async fn a_receiver_that_fails_gets_the_message_again_with_its_id_and_body() {
    let receiver = receiver().await;
    let other = FakeUpstream::start().await;
    receiver.enqueue(Answer::full(500, &[], "no"));
    let location = format!("http://{}/elsewhere", other.addr);
    receiver.enqueue(Answer::full(307, &[("location", &location)], ""));
    let world = limited("0.00002", &alert("ops", "\"budget:1\"", &receiver)).start().await;
    world.gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await.ok();
    eventually("three attempts", || (receiver.hits() >= 3).then_some(())).await;
    delivered(&world.gateway).await;
    let all = by_id(&receiver);
    let [attempts] = all.values().collect::<Vec<_>>()[..] else { panic!("{all:?}") };
    assert_eq!((attempts.len(), other.hits()), (3, 0), "redirects are not followed");
    for attempt in attempts {
        assert_eq!(attempt.body, attempts[0].body);
        verified(attempt);
    }
}

#[tokio::test]
async fn a_slow_receiver_does_not_delay_another_one() {
    let (slow, quick) = (receiver().await, receiver().await);
    slow.always(Answer::steps(Vec::new()).hang());
    let slow_alert = alert("slow", "\"budget:0.1\", \"budget:0.2\", \"budget:0.3\"", &slow);
    let quick_alert = alert("quick", "\"budget:0.1\", \"budget:0.2\", \"budget:0.3\"", &quick);
    let alerts = format!("{slow_alert}timeout_ms = 60000\n{quick_alert}");
    let world = limited("0.00002", &alerts).start().await;
    world.gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await.ok();
    eventually("the slow one is called", || (slow.hits() == 1).then_some(())).await;
    heard(&quick, 3).await;
    assert_eq!(slow.hits(), 1, "it has not answered yet");
}

#[tokio::test]
async fn a_killed_gateway_delivers_what_waits_and_tells_nothing_twice() {
    let (data, receiver) = (tempfile::tempdir().expect("a directory"), receiver().await);
    let upstream = FakeUpstream::start().await;
    receiver.always(Answer::full(500, &[], "down"));
    let alerts = alert("ops", "\"budget:0.5\", \"budget:1\"", &receiver);
    let config = limited("0.00002", &alerts).config(&upstream.base_url(), &upstream.base_url());
    let gateway = start(&config, data.path()).await;
    gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await.ok();
    eventually("both are tried", || (by_id(&receiver).len() == 2).then_some(())).await;
    let _ = gateway.stop();
    receiver.respond_with(|_| Answer::full(204, &[], ""));
    let before = receiver.hits();
    let gateway = start(&config, data.path()).await;
    delivered(&gateway).await;
    gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await;
    let _ = gateway.stop();
    // A third process finds the budget spent, and tells nothing.
    let gateway = start(&config, data.path()).await;
    delivered(&gateway).await;
    assert_eq!((by_id(&receiver).len(), receiver.hits()), (2, before + 2));
}

#[tokio::test]
async fn two_replicas_tell_once() {
    let (postgres, receiver, upstream) = (Postgres::start(), receiver().await, FakeUpstream::start().await);
    let url = postgres.database();
    let alerts = alert("ops", "\"budget:0.5\", \"budget:1\"", &receiver);
    let config = limited("0.00002", &format!("{alerts}[store]\nurl = \"{url}\"\n"))
        .config(&upstream.base_url(), &upstream.base_url());
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let gateways = [start(&config, one.path()).await, start(&config, two.path()).await];
    for gateway in &gateways {
        // Each replica counts for itself, so each finds the threshold.
        gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await;
        gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await;
    }
    heard(&receiver, 2).await;
    delivered(&gateways[1]).await;
    assert_eq!((by_id(&receiver).len(), receiver.hits()), (2, 2));
}

/// Over Redis the replicas share the counters, so both see the same threshold at one time.
#[tokio::test]
async fn two_replicas_on_redis_tell_once_for_each_threshold_of_a_key_and_a_rule() {
    let (postgres, redis) = (Postgres::start(), Redis::start().await);
    let (receiver, upstream) = (receiver().await, FakeUpstream::start().await);
    let (url, shared) = (postgres.database(), redis.url());
    let alerts = alert("ops", "\"budget:0.5\", \"budget:1\"", &receiver);
    let rule = "[[budgets]]\nname = \"plain\"\nmatch = { model = \"acme/plain\" }\nbudget_usd = 0.00008\n";
    let stores = format!("[store]\nurl = \"{url}\"\n[redis]\nurl = \"{shared}\"\ntimeout_ms = 5000\n");
    let config = limited("0.00008", &format!("{alerts}{rule}{stores}"))
        .config(&upstream.base_url(), &upstream.base_url());
    let (one, two) = (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let gateways = [start(&config, one.path()).await, start(&config, two.path()).await];
    let mut asking = tokio::task::JoinSet::new();
    for number in 0..8 {
        let client = gateways[number % 2].client().with_key("sk-by");
        asking.spawn(async move { client.post_json(CHAT, &ask()).await.status });
    }
    let served = asking.join_all().await.iter().filter(|status| **status == 200).count();
    assert!((1..=4).contains(&served), "{served}");
    for gateway in gateways.iter().cycle().take(8) {
        gateway.client().with_key("sk-by").post_json(CHAT, &ask()).await;
    }
    assert_eq!(upstream.hits(), 4, "four requests fit");
    let heard = heard(&receiver, 4).await;
    let mut told: Vec<_> = heard
        .iter()
        .map(|message| {
            let body = verified(message);
            let data = &body["data"];
            (data["kind"].to_string(), data["name"].to_string(), data["threshold"].to_string())
        })
        .collect();
    told.sort();
    let of = |kind: &str, name: &str, threshold: &str| {
        (format!("\"{kind}\""), format!("\"{name}\""), threshold.to_owned())
    };
    let key = ["0.5", "1"].map(|threshold| of("key", "limited-by", threshold));
    let rule = ["0.5", "1"].map(|threshold| of("rule", "plain", threshold));
    assert_eq!(told, [key, rule].concat());
    for gateway in &gateways {
        delivered(gateway).await;
    }
    assert_eq!((by_id(&receiver).len(), receiver.hits()), (4, 4));
}
