//! A request counts all items that it brings in from the store, and a reader of a stored response holds the memory that counts for it
//! (C35).

use gw_testkit::upstream::{Recorded, chat_body, sse_data};
use gw_testkit::{Answer, Client};
use serde_json::{Value, json};

use super::ask_responses;
use super::stored_load::stalled;
use crate::harness::{ADMIN, PATIENT, Setup, World, with};

/// A key of one request at a time.
const NARROW: &str = "sk-test-narrow-0002";

async fn stored_in(place: &str, has_responses: bool) -> World {
    let extra = format!(
        "[responses]\nstore = \"{place}\"\n[[keys]]\nname = \"narrow\"\nkey = \"{NARROW}\"\nmax_in_flight = 1\n"
    );
    Setup { acme: format!("responses = {has_responses}"), extra, server: PATIENT, ..Setup::default() }
        .start()
        .await
}

fn request(input: &Value) -> Value {
    json!({"model": "acme/unpriced", "input": input})
}

async fn answered(client: &Client, body: &Value) -> Value {
    ask_responses(client, body).await.ok().json()
}

fn id_of(object: &Value) -> &str {
    object["id"].as_str().expect("an id")
}

async fn read_bytes(world: &World) -> u64 {
    let text = world.gateway.client().with_key(ADMIN).get("/metrics").await.text();
    let name = "gateway_stored_response_read_bytes ";
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    line.expect("the metrics tell it").parse().expect("a number")
}

#[tokio::test]
async fn c35_an_item_counts_as_often_as_a_request_refers_to_it() {
    for place in ["memory", "database"] {
        let world = stored_in(place, false).await;
        world.upstream.enqueue(Answer::json(200, &chat_body("m", &"word ".repeat(200_000))));
        let answer = answered(&world.client, &request(&json!("Write a book."))).await;
        let reference = json!({"type": "item_reference", "id": answer["output"][0]["id"]});
        let refer = |count: usize| request(&json!(vec![reference.clone(); count]));
        answered(&world.client, &refer(5)).await;
        let sent = world.upstream.last().json()["messages"].to_string();
        assert_eq!(sent.matches("word ").count(), 5 * 200_000, "{place}");
        let hits = world.upstream.hits();
        for path in ["", "/input_tokens", "/compact"] {
            let refused = world.client.post_json(&format!("/v1/responses{path}"), &refer(400)).await;
            assert_eq!(
                (refused.status, refused.code().as_str()),
                (413, "request_too_large"),
                "{place}{path}: {}",
                refused.text()
            );
        }
        assert_eq!(world.upstream.hits(), hits, "{place}: nothing is sent");
    }
}

#[tokio::test]
async fn an_answer_that_is_not_stored_continues_the_conversation_at_an_upstream_of_this_dialect() {
    for place in ["memory", "database"] {
        let world = stored_in(place, true).await;
        let native = json!({"id": "resp_68af", "object": "response", "created_at": 1, "status": "completed",
            "model": "m", "error": null, "incomplete_details": null, "output": [
                {"type": "message", "id": "msg_68af", "role": "assistant", "status": "completed",
                 "content": [{"type": "output_text", "text": "Oslo.", "annotations": []}]}],
            "usage": {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}});
        world.upstream.always(Answer::json(200, &native));
        let first = answered(&world.client, &request(&json!("Capital of Norway?"))).await;
        let body = with(
            request(&json!("And of Peru?")),
            json!({"previous_response_id": id_of(&first), "store": false}),
        );
        assert_eq!(answered(&world.client, &body).await["store"], false);
        let sent = world.upstream.last();
        assert!(sent.path.ends_with("/responses"), "{}", sent.path);
        let text = sent.json()["input"].to_string();
        for part in ["Capital of Norway?", "Oslo.", "And of Peru?"] {
            assert!(text.contains(part), "{place}: {text}");
        }
        let refer = request(
            &json!([{"type": "item_reference", "id": "msg_68af"}, {"role": "user", "content": "Sure?"}]),
        );
        answered(&world.client, &with(refer, json!({"store": false}))).await;
        let text = world.upstream.last().json()["input"].to_string();
        assert!(text.contains("Oslo.") && !text.contains("item_reference"), "{place}: {text}");
    }
}

#[tokio::test]
async fn c35_a_deleted_response_counts_for_as_long_as_it_is_read() {
    let world = stored_in("memory", false).await;
    let large = request(&json!("word ".repeat(1_500_000)));
    let mut readers = Vec::new();
    let mut status = 200;
    while status == 200 && readers.len() < 40 {
        let answer = answered(&world.client, &large).await;
        let path = format!("/v1/responses/{}", id_of(&answer));
        let (reader, told) = stalled(&world.client, &format!("{path}/input_items")).await;
        status = told;
        assert_eq!(world.client.send("DELETE", &path, None, None).await.status, 200);
        readers.push(reader);
        assert!(read_bytes(&world).await <= 128 << 20);
    }
    assert_eq!((status, readers.len()), (429, 18), "17 inputs of 7.5 MB are the share of a key");
}

/// An answer that begins and never ends.
fn endless(_: &Recorded) -> Answer {
    Answer::sse().all(&[sse_data(&json!({"content": "Hello"}), None)]).hang()
}

#[tokio::test]
async fn c35_only_polls_of_a_running_response_pass_the_limit_in_flight() {
    let world = stored_in("memory", false).await;
    let narrow = world.gateway.client().with_key(NARROW);
    world.upstream.enqueue(Answer::json(200, &chat_body("m", &"word ".repeat(400_000))));
    let stored = answered(&narrow, &request(&json!("Write a book."))).await;
    world.upstream.respond_with(endless);
    let running = answered(&narrow, &with(request(&json!("hi")), json!({"background": true}))).await;
    let (running, stored) = (id_of(&running), id_of(&stored));
    for path in [
        format!("{stored}?stream=true"),
        stored.to_owned(),
        format!("{stored}/input_items"),
        format!("{running}?stream=true"),
        format!("{running}/input_items"),
    ] {
        let (_reader, status) = stalled(&narrow, &format!("/v1/responses/{path}")).await;
        assert_eq!(status, 429, "{path}");
    }
    assert_eq!(narrow.get(&format!("/v1/responses/{running}")).await.status, 200);
    let cancel = format!("/v1/responses/{running}/cancel");
    assert_eq!(narrow.send("POST", &cancel, None, None).await.ok().json()["status"], "cancelled");
}
