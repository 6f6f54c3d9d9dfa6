//! Stored responses: retrieval, continuation, deletion, and the places where they are kept.

use serde_json::{Value, json};

use super::{ask_responses, response};
use crate::harness::{ADMIN, METERED, Setup, World, with, world};

async fn stored(world: &World, body: &Value) -> String {
    let answer = ask_responses(&world.client, body).await.ok().json();
    answer["id"].as_str().expect("an id").to_owned()
}

#[tokio::test]
async fn a_response_is_retrieved_listed_and_deleted_by_its_key_alone() {
    let world = world().await;
    let id = stored(&world, &response("acme/fast")).await;
    let path = format!("/v1/responses/{id}");
    let object = world.client.get(&path).await.ok().json();
    assert_eq!(object["output"][0]["content"][0]["text"], "Hello from upstream");
    let items = world.client.get(&format!("{path}/input_items")).await.ok().json();
    assert_eq!(items["object"], "list");
    assert_eq!(items["data"][0]["content"][0]["text"], "Hello");
    let other = world.gateway.client().with_key(ADMIN);
    for (method, path) in
        [("GET", path.clone()), ("DELETE", path.clone()), ("POST", format!("{path}/cancel"))]
    {
        let answer = other.send(method, &path, None, None).await;
        assert_eq!((answer.status, answer.code().as_str()), (404, "not_found"), "{method} {}", answer.text());
    }
    let deleted = world.client.send("DELETE", &path, None, None).await.ok().json();
    assert_eq!(deleted, json!({"id": id, "object": "response", "deleted": true}));
    assert_eq!(world.client.get(&path).await.status, 404);
}

#[tokio::test]
async fn a_conversation_goes_on_from_its_last_response() {
    let world = world().await;
    let first = stored(&world, &with(response("acme/fast"), json!({"instructions": "Be brief."}))).await;
    let more = json!({"model": "acme/fast", "input": "And now?", "previous_response_id": first});
    let second = stored(&world, &more).await;
    let expected = json!([
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": "Hello from upstream"},
        {"role": "user", "content": "And now?"}
    ]);
    assert_eq!(world.upstream.last().json()["messages"], expected, "instructions are not inherited");
    let third = json!({"model": "acme/fast", "input": "Last", "previous_response_id": second});
    ask_responses(&world.client, &third).await.ok();
    assert_eq!(world.upstream.last().json()["messages"].as_array().map(Vec::len), Some(5));
}

#[tokio::test]
async fn a_foreign_deleted_or_unstored_response_cannot_be_continued() {
    let world = world().await;
    let own = stored(&world, &response("acme/fast")).await;
    let unstored = stored(&world, &with(response("acme/fast"), json!({"store": false}))).await;
    let other = world.gateway.client().with_key(METERED);
    for (client, id) in [(&other, &own), (&world.client, &unstored), (&world.client, &"resp_none".to_owned())]
    {
        let body = json!({"model": "acme/fast", "input": "x", "previous_response_id": id});
        let answer = ask_responses(client, &body).await;
        let got = (answer.status, answer.code());
        assert_eq!(got, (400, "previous_response_not_found".to_owned()), "{}", answer.text());
        assert_eq!(answer.json()["error"]["param"], "previous_response_id");
    }
}

#[tokio::test]
async fn a_stored_response_is_replayed_as_a_stream() {
    let world = world().await;
    let id = stored(&world, &response("acme/fast")).await;
    let answer = world.client.get(&format!("/v1/responses/{id}?stream=true&starting_after=5")).await.ok();
    assert_eq!(answer.header("content-type"), Some("text/event-stream; charset=utf-8"));
    let text = answer.text();
    let first = text.lines().find_map(|line| line.strip_prefix("data: ")).expect("an event");
    let first: Value = serde_json::from_str(first).expect("JSON");
    assert_eq!(first["sequence_number"], 6);
    assert!(text.contains("event: response.completed") && text.ends_with("data: [DONE]\n\n"), "{text}");
}

/// Every byte of the files in a directory.
fn bytes_below(directory: &std::path::Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(directory).expect("a directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            all.extend(bytes_below(&path));
        } else {
            all.extend(std::fs::read(path).unwrap_or_default());
        }
    }
    all
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn the_memory_store_writes_nothing_to_the_disk_and_the_database_only_what_is_sealed() {
    for (place, survives) in [("memory", false), ("database", true)] {
        let extra = format!("[responses]\nstore = \"{place}\"\n");
        let world = Setup { extra, ..Setup::default() }.start().await;
        let prompt = "a very secret question 4711";
        let id = stored(&world, &json!({"model": "acme/fast", "input": prompt})).await;
        let path = format!("/v1/responses/{id}");
        assert_eq!(world.client.get(&path).await.status, 200, "{place}");
        let bytes = bytes_below(world.gateway.dir());
        assert!(!holds(&bytes, prompt), "{place}: the prompt is on the disk");
        assert_eq!(holds(&bytes, &id), survives, "{place}: the id on the disk");
    }
}

#[tokio::test]
async fn without_a_store_the_answer_says_so_and_names_the_setting() {
    let extra = "[responses]\nstore = \"off\"\n".to_owned();
    let world = Setup { extra, ..Setup::default() }.start().await;
    let answer = ask_responses(&world.client, &response("acme/fast")).await.ok().json();
    assert_eq!(answer["store"], false);
    let body = json!({"model": "acme/fast", "input": "x", "previous_response_id": "resp_1"});
    let refused = ask_responses(&world.client, &body).await;
    assert_eq!(refused.code(), "previous_response_not_found");
    assert!(refused.message().contains("[responses]"), "{}", refused.text());
    let background =
        ask_responses(&world.client, &with(response("acme/fast"), json!({"background": true}))).await;
    assert_eq!(background.status, 400, "{}", background.text());
}

#[tokio::test]
async fn a_page_behind_an_unknown_item_and_too_many_metadata_are_refused() {
    let world = world().await;
    let id = stored(&world, &response("acme/fast")).await;
    let refused = world.client.get(&format!("/v1/responses/{id}/input_items?after=msg_unknown")).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "invalid_value"), "{}", refused.text());
    assert!(refused.message().contains("'after'") && refused.message().contains("msg_unknown"));
    let pairs: serde_json::Map<_, _> = (0..17).map(|at| (format!("key{at}"), json!("v"))).collect();
    let refused =
        ask_responses(&world.client, &with(response("acme/fast"), json!({"metadata": pairs}))).await;
    assert_eq!((refused.status, refused.code().as_str()), (400, "object_above_max_properties"));
    for metadata in [json!({"k".repeat(65): "v"}), json!({"k": "v".repeat(513)})] {
        let refused =
            ask_responses(&world.client, &with(response("acme/fast"), json!({"metadata": metadata}))).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "string_above_max_length"));
    }
}
