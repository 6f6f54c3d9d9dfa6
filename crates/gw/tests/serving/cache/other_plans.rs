//! No request gets an answer that the limits of another request have decided, and a deleted answer is gone.

use gw_testkit::upstream::{Step, chat_body, chat_transcript};
use gw_testkit::wait::eventually_async;
use gw_testkit::{Answer, Client, Response, Signal};
use serde_json::{Value, json};

use super::shared_calls::{cached, in_flight};
use crate::harness::answers::cache_result;
use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, Setup, World, chat_with, with, world};

const PATH: &str = "/v1/chat/completions";
const TEAM: &str = "[cache]\nshared_by_teams = [\"search\"]\n";

async fn team(rules: &str) -> World {
    let aliases = "\"cheap\" = \"acme/plain\"\n\"pool\" = [\"acme/fast\", \"beta/fast\"]";
    let world = Setup { aliases, extra: format!("{TEAM}{rules}"), ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    ask(&admin, "PUT", "/admin/v1/teams/search", &json!({})).await;
    world
}

async fn member(world: &World, more: Value) -> Client {
    let admin = world.gateway.client().with_key(ADMIN);
    let key = with(json!({ "team": "search" }), more);
    world.client.with_key(&create(&admin, key).await.0)
}

fn used(answer: &Response) -> (&str, &str) {
    (cache_result(answer), answer.header("x-gateway-model").unwrap_or("none"))
}

/// A threshold has an alias serve, the alias has no room, and the asked model serves after all.
#[tokio::test]
async fn an_answer_of_a_plan_that_was_given_up_is_not_kept() {
    let world = team(
        "[[budgets]]\nname = \"taper\"\nmatch = { key = [\"one\", \"two\"] }\nbudget_usd = 0.1\n\
         thresholds = [{ at = 0.00001, use = \"cheap\" }]\n\
         [[budgets]]\nname = \"full\"\nmatch = { model = \"acme/plain\" }\nrpm = 1\n",
    )
    .await;
    let one = member(&world, json!({ "name": "one" })).await;
    let two = member(&world, json!({ "name": "two", "models": ["beta/fast", "acme/plain"] })).await;
    let pool = |text: &str| {
        let messages = json!([{ "role": "user", "content": text }]);
        chat_with("pool", json!({ "messages": messages, "cache": { "enabled": true } }))
    };
    one.post_json(PATH, &chat_with("acme/fast", json!({}))).await.ok();
    // The first one takes the room of the alias.
    let tapered = eventually_async("the threshold is passed", async || {
        let answer = one.post_json(PATH, &pool("first")).await.ok();
        (answer.header("x-gateway-model") == Some("acme/plain")).then_some(answer)
    })
    .await;
    assert_eq!(cache_result(&tapered), "BYPASS");
    let answer = one.post_json(PATH, &pool("second")).await.ok();
    assert_eq!(used(&answer), ("BYPASS", "acme/fast"));
    let other = two.post_json(PATH, &pool("second")).await.ok();
    assert_eq!(used(&other), ("BYPASS", "beta/fast"), "a key gets no model outside its list");
}

#[tokio::test]
async fn the_alias_of_a_leaders_rule_answers_no_follower() {
    for stream in [false, true] {
        let world = team(
            "[[budgets]]\nname = \"spent\"\nmatch = { key = \"one\" }\nbudget_usd = 0\non_limit = \"fallback:cheap\"\n",
        )
        .await;
        let one = member(&world, json!({ "name": "one" })).await;
        let two = member(&world, json!({ "name": "two", "models": ["acme/fast"] })).await;
        let body = cached(json!({ "stream": stream }));
        let (held, go_on) = (Signal::new(), Signal::new());
        // The leader's call waits, so that the other request finds it.
        for signal in [&held, &go_on] {
            let answer = if stream {
                Answer::sse().wait(signal).all(&chat_transcript(&["Hi"])).done()
            } else {
                Answer::json(200, &chat_body("m", "Hi")).after(Step::Wait(signal.clone()))
            };
            world.upstream.enqueue(answer);
        }
        let ask = |client: Client| {
            let body = body.clone();
            tokio::spawn(async move { client.post_json(PATH, &body).await.ok() })
        };
        let first = ask(one);
        world.upstream.request(0).await;
        let second = ask(two);
        in_flight(&world, 2).await;
        world.upstream.request(1).await;
        held.fire();
        go_on.fire();
        let (first, second) = (first.await.unwrap(), second.await.unwrap());
        let models: Vec<Value> =
            world.upstream.requests().iter().map(|sent| sent.json()["model"].clone()).collect();
        assert_eq!(models, ["plain", "fast-2026-01"], "{stream}: each request has a call of its own");
        let results = [cache_result(&first), cache_result(&second)];
        assert_eq!(results, ["MISS", "MISS"], "{stream}");
        assert!(first.text().contains("budget_fallback:spent"), "{stream}: {}", first.text());
        assert!(!second.text().contains("budget_fallback"), "{stream}: {}", second.text());
        assert!(second.text().contains(r#""model_used":"acme/fast""#), "{stream}: {}", second.text());
    }
}

#[tokio::test]
async fn an_answer_that_is_deleted_during_the_call_does_not_stand_in() {
    let extra = "[cache]\nstale_if_error_seconds = 600\n".to_owned();
    let world = Setup { routing: "retries = 0", extra, ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let body = cached(json!({ "cache": { "enabled": true, "ttl": 1 } }));
    world.chat_ok(&body).await;
    let go_on = Signal::new();
    world.upstream.enqueue(Answer::error(500, "x", "down").after(Step::Wait(go_on.clone())));
    // The answer is fresh for a second. The first request after that asks the upstream.
    let asking = loop {
        let (client, body) = (world.client.clone(), body.clone());
        let mut asking = tokio::spawn(async move { client.post_json(PATH, &body).await });
        tokio::select! {
            answer = &mut asking => assert_eq!(cache_result(&answer.unwrap().ok()), "HIT"),
            _ = world.upstream.request(1) => break asking,
        }
    };
    admin.send("DELETE", "/admin/v1/cache", None, None).await.ok();
    go_on.fire();
    let answer = asking.await.unwrap();
    assert_eq!((answer.status, answer.code().as_str()), (502, "upstream_error"), "{}", answer.text());
}

#[tokio::test]
async fn the_metadata_of_a_request_is_in_no_other_requests_answer() {
    for stream in [false, true] {
        let world = world().await;
        let metadata = json!({ "customer": "alice@example.com" });
        let answer = if stream {
            let mut events = chat_transcript(&["Hi"]);
            events.iter_mut().for_each(|event| event["metadata"] = metadata.clone());
            Answer::sse().all(&events).done()
        } else {
            Answer::json(200, &with(chat_body("m", "Hi"), json!({ "metadata": metadata })))
        };
        world.upstream.enqueue(answer);
        let body = |customer: &str| cached(json!({ "stream": stream, "metadata": { "customer": customer } }));
        let first = world.chat(&body("alice@example.com")).await.ok();
        assert_eq!(cache_result(&first), "MISS");
        for again in [json!({}), json!({ "stream": !stream })] {
            let hit = world.chat(&with(body("bob@example.com"), again)).await.ok();
            assert_eq!(cache_result(&hit), "HIT", "{stream}");
            assert!(!hit.text().contains("alice"), "{stream}: {}", hit.text());
        }
    }
}
