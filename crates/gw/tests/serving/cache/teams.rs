//! Teams share cached answers only where the operator enables it.

use std::time::Duration;

use gw_testkit::upstream::{Step, chat_transcript, sse_data};
use gw_testkit::wait::within;
use gw_testkit::{Answer, Client, Signal};
use serde_json::{Value, json};

use crate::cache::shared_calls::{cached, remaining_frames, start_stream};
use crate::harness::ledger::rows;
use crate::harness::management::{ask, create};
use crate::harness::{ADMIN, KEY, Setup, World, chat_with};

async fn cache_result_of(client: &Client) -> String {
    let body = chat_with("acme/fast", json!({ "cache": { "enabled": true } }));
    let answer = client.post_json("/v1/chat/completions", &body).await.ok();
    answer.header("x-gateway-cache").unwrap_or("none").to_owned()
}

async fn member(world: &World, team: &Value) -> Client {
    let admin = world.gateway.client().with_key(ADMIN);
    let (secret, _) = create(&admin, json!({ "name": "member", "team": team })).await;
    world.client.with_key(&secret)
}

#[tokio::test]
async fn a_team_that_is_listed_shares_its_answers_and_no_other_does() {
    let extra = "[cache]\nshared_by_teams = [\"search\"]\n".to_owned();
    let world = Setup { extra, ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    for team in ["search", "billing"] {
        assert_eq!(ask(&admin, "PUT", &format!("/admin/v1/teams/{team}"), &json!({})).await.status, 201);
    }
    let (search, billing) = (json!("search"), json!("billing"));
    let (one, two) = (member(&world, &search).await, member(&world, &search).await);
    assert_eq!(
        (cache_result_of(&one).await, cache_result_of(&two).await),
        ("MISS".to_owned(), "HIT".to_owned())
    );
    let (three, four) = (member(&world, &billing).await, member(&world, &billing).await);
    assert_eq!(
        (cache_result_of(&three).await, cache_result_of(&four).await),
        ("MISS".to_owned(), "MISS".to_owned())
    );
    // A key without a team, and a key with the team's name.
    assert_eq!(cache_result_of(&world.client.with_key(KEY)).await, "MISS");
    let (secret, alone) = create(&admin, json!({ "name": "search" })).await;
    assert_eq!(cache_result_of(&world.client.with_key(&secret)).await, "MISS");
    // A purge by one member purges the team's answers.
    let id = alone["id"].as_str().unwrap();
    admin.send("DELETE", &format!("/admin/v1/cache?key={id}"), None, None).await.ok();
    assert_eq!(cache_result_of(&two).await, "HIT");
    let keys = admin.get("/admin/v1/keys").await.ok().json();
    let of_team = keys["data"].as_array().unwrap().iter().find(|key| key["team"] == "search").unwrap();
    let id = of_team["id"].as_str().unwrap();
    admin.send("DELETE", &format!("/admin/v1/cache?key={id}"), None, None).await.ok();
    assert_eq!(
        (cache_result_of(&two).await, cache_result_of(&one).await),
        ("MISS".to_owned(), "HIT".to_owned())
    );
}

#[tokio::test]
async fn a_team_that_is_made_anew_inherits_nothing() {
    let extra = "[cache]\nshared_by_teams = [\"search\"]\n".to_owned();
    let world = Setup { extra, ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    let path = "/admin/v1/teams/search";
    ask(&admin, "PUT", path, &json!({})).await;
    let (secret, key) = create(&admin, json!({ "name": "member", "team": "search" })).await;
    let old = world.client.with_key(&secret);
    assert_eq!(
        (cache_result_of(&old).await, cache_result_of(&old).await),
        ("MISS".to_owned(), "HIT".to_owned())
    );
    let key = format!("/admin/v1/keys/{}", key["id"].as_str().unwrap());
    ask(&admin, "PATCH", &key, &json!({ "team": null })).await.ok();
    assert_eq!(cache_result_of(&old).await, "MISS");
    // The creation time of a team has a resolution of one second.
    let made = admin.get(path).await.ok().json()["created_at"].clone();
    within("a second has passed", async {
        while admin.get(path).await.json()["created_at"] == made {
            admin.send("DELETE", path, None, None).await.ok();
            ask(&admin, "PUT", path, &json!({})).await;
        }
    })
    .await;
    assert_eq!(cache_result_of(&member(&world, &json!("search")).await).await, "MISS");
}

/// An endless stream: the first word comes at once, the others after a signal.
fn endless(more: &Signal) -> Answer {
    let word = |text: &str| sse_data(&json!({ "content": text }), None);
    let again = format!("data: {}\n\n", word("word ")).into_bytes();
    Answer::sse().data(&word("Well")).wait(more).then(Step::Endless(again, Duration::from_micros(200)))
}

#[tokio::test]
async fn a_stream_that_the_budget_of_a_member_may_end_is_not_shared() {
    let extra = "[cache]\nshared_by_teams = [\"search\"]\n".to_owned();
    let mut world = Setup { extra, ..Setup::default() }.start().await;
    let admin = world.gateway.client().with_key(ADMIN);
    ask(&admin, "PUT", "/admin/v1/teams/search", &json!({})).await;
    let poor = json!({ "name": "poor", "team": "search", "budget_usd": "0.0003", "on_budget": "cut" });
    let (poor, rich) = (create(&admin, poor).await.0, member(&world, &json!("search")).await);
    let more = Signal::new();
    world.upstream.enqueue(endless(&more));
    world.upstream.enqueue(Answer::sse().all(&chat_transcript(&["Whole"])).done());
    let body = cached(json!({ "stream": true, "stream_options": { "include_usage": true } }));
    world.client = world.client.with_key(&poor);
    let leader = start_stream(&world, &body, "MISS").await;
    world.client = rich;
    let other = start_stream(&world, &body, "MISS").await;
    more.fire();
    let (cut, whole) = tokio::join!(remaining_frames(leader), remaining_frames(other));
    assert!(cut.iter().any(|frame| frame.contains("insufficient_quota")), "{:?}", cut.last());
    assert!(whole.concat().contains("\"finish_reason\":\"stop\""), "{whole:?}");
    let mut ended: Vec<String> =
        rows(&world.gateway, 2).await.into_iter().map(|row| row.status.into_owned()).collect();
    ended.sort();
    assert_eq!(ended, ["insufficient_quota", "ok"]);
}
