//! The numbers of replayed events, and conversations whose turns are deleted, on every process of a database.

use std::path::Path;

use gw_testkit::{Client, FakeUpstream, Gateway, Launch};
use serde_json::{Value, json};

use super::{ask_responses, event, response};
use crate::harness::{KEY, Setup, binary, with};

/// The frames of a replay, or its refusal.
async fn replayed(client: &Client, id: &str, query: &str) -> Result<Vec<(String, Value)>, (u16, String)> {
    let answer = client.get(&format!("/v1/responses/{id}?stream=true{query}")).await;
    if answer.status != 200 {
        return Err((answer.status, answer.message()));
    }
    let text = answer.text();
    assert!(text.ends_with("data: [DONE]\n\n"), "{text}");
    Ok(text.split_inclusive("\n\n").filter_map(event).collect())
}

fn numbers(events: &[(String, Value)]) -> Vec<u64> {
    events.iter().filter_map(|(_, data)| data["sequence_number"].as_u64()).collect()
}

/// A process that stores responses in the database of this data directory.
async fn process(config: &str, data: &Path) -> Gateway {
    let launch = Launch::new(binary()).file("gateway.toml", config);
    launch.env("MODEL_GATEWAY_DATA_DIR", &data.to_string_lossy()).start().await
}

#[tokio::test]
async fn a_number_is_that_of_the_live_stream_or_refused() {
    let upstream = FakeUpstream::start().await;
    let extra = "[responses]\nstore = \"database\"\n".to_owned();
    let setup = Setup { acme: "responses = false".to_owned(), extra, ..Setup::default() };
    let config = setup.config(&upstream.base_url(), &upstream.base_url());
    let data = tempfile::tempdir().expect("a directory");
    let gateway = process(&config, data.path()).await;
    let client = gateway.client().with_key(KEY);
    let body = with(response("acme/fast"), json!({"stream": true}));
    let live = super::events(&client, "/v1/responses", &body).await;
    let streamed = live[0].1["response"]["id"].as_str().expect("an id").to_owned();
    let plain = ask_responses(&client, &response("acme/fast")).await.ok().json();
    let plain = plain["id"].as_str().expect("an id").to_owned();
    check(&client, &live, &streamed, &plain).await;
    let _ = gateway.stop();
    let restarted = process(&config, data.path()).await;
    check(&restarted.client().with_key(KEY), &live, &streamed, &plain).await;
}

#[tokio::test]
async fn a_number_is_that_of_the_live_stream_or_refused_on_another_replica() {
    let upstream = FakeUpstream::start().await;
    let database = gw_testkit::postgres::database();
    let extra = format!("[responses]\nstore = \"database\"\n[store]\nurl = \"{database}\"\n");
    let setup = Setup { acme: "responses = false".to_owned(), extra, ..Setup::default() };
    let config = setup.config(&upstream.base_url(), &upstream.base_url());
    let data = [(); 2].map(|()| tempfile::tempdir().expect("a directory"));
    let (one, two) = tokio::join!(process(&config, data[0].path()), process(&config, data[1].path()));
    let client = one.client().with_key(KEY);
    let body = with(response("acme/fast"), json!({"stream": true}));
    let live = super::events(&client, "/v1/responses", &body).await;
    let streamed = live[0].1["response"]["id"].as_str().expect("an id").to_owned();
    let plain = ask_responses(&client, &response("acme/fast")).await.ok().json();
    let plain = plain["id"].as_str().expect("an id").to_owned();
    check(&two.client().with_key(KEY), &live, &streamed, &plain).await;
}

/// Checks the replays of a streamed and of a plain answer.
async fn check(client: &Client, live: &[(String, Value)], streamed: &str, plain: &str) {
    // Each text comes in one piece, so the events are fewer and have numbers of their own.
    let all = replayed(client, streamed, "").await.expect("events");
    assert!(all.len() < live.len());
    assert_eq!(numbers(&all), (0..all.len() as u64).collect::<Vec<_>>());
    assert_eq!(all.last().expect("an end").1["response"], live.last().expect("an end").1["response"]);
    let (status, message) = replayed(client, streamed, "&starting_after=5").await.expect_err("a refusal");
    assert_eq!(status, 400);
    assert!(message.contains("'starting_after'") && message.contains("not known any more"), "{message}");
    // Nobody has seen other numbers of an answer that was not streamed.
    let all = replayed(client, plain, "").await.expect("events");
    let rest = replayed(client, plain, "&starting_after=3").await.expect("events");
    assert_eq!(rest, all[4..]);
}

#[tokio::test]
async fn a_deleted_turn_is_gone_for_its_key_and_stays_for_the_conversation() {
    for place in ["memory", "database"] {
        let extra = format!("[responses]\nstore = \"{place}\"\n");
        let world = Setup { acme: "responses = false".to_owned(), extra, ..Setup::default() }.start().await;
        let ask = async |previous: Option<&str>, input: &str| {
            let body = json!({"model": "acme/fast", "input": input, "previous_response_id": previous});
            let answer = ask_responses(&world.client, &body).await;
            (answer.status, answer.json()["id"].as_str().unwrap_or_default().to_owned())
        };
        let (_, first) = ask(None, "one").await;
        let (_, second) = ask(Some(&first), "two").await;
        let path = format!("/v1/responses/{first}");
        assert_eq!(world.client.send("DELETE", &path, None, None).await.status, 200);
        for path in [path.clone(), format!("{path}?stream=true"), format!("{path}/input_items")] {
            assert_eq!(world.client.get(&path).await.status, 404, "{place}: {path}");
        }
        assert_eq!(ask(Some(&first), "x").await.0, 400, "{place}");
        assert_eq!(ask(Some(&second), "three").await.0, 200, "{place}");
        let sent = world.upstream.last().json();
        let words: Vec<&str> = sent["messages"]
            .as_array()
            .expect("messages")
            .iter()
            .filter(|message| message["role"] == "user")
            .filter_map(|message| message["content"].as_str())
            .collect();
        assert_eq!(words, ["one", "two", "three"], "{place}");
    }
}
