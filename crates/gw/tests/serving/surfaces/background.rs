//! Responses that are made in the background.

use gw_testkit::upstream::{chat_transcript, sse_data};
use gw_testkit::wait::{eventually_async, within};
use gw_testkit::wire::RawClient;
use gw_testkit::{Answer, Client, Signal};
use serde_json::{Value, json};

use super::{ask_responses, event, events, response};
use crate::harness::ledger::rows;
use crate::harness::{Setup, World, with};

/// A gateway whose upstream has no Responses API.
async fn chat_world() -> World {
    Setup { acme: "responses = false".to_owned(), ..Setup::default() }.start().await
}

/// The response, as soon as it has this status.
pub(super) async fn until(client: &Client, id: &str, status: &str) -> Value {
    let path = format!("/v1/responses/{id}");
    eventually_async("the response has the status", async || {
        let object = client.get(&path).await.ok().json();
        if object["status"] == status {
            return Some(object);
        }
        None
    })
    .await
}

pub(super) fn in_background() -> Value {
    with(response("acme/fast"), json!({"background": true}))
}

#[tokio::test]
async fn a_response_in_the_background_is_queued_and_completes_without_its_client() {
    let world = chat_world().await;
    let hold = Signal::new();
    world.upstream.enqueue(
        Answer::sse()
            .all(&[sse_data(&json!({"content": "Hello"}), None)])
            .wait(&hold)
            .all(&chat_transcript(&[" again"]))
            .done(),
    );
    let queued = ask_responses(&world.client, &in_background()).await.ok().json();
    assert_eq!((&queued["status"], &queued["background"]), (&json!("queued"), &json!(true)));
    let id = queued["id"].as_str().expect("an id");
    assert_eq!(until(&world.client, id, "in_progress").await["output"], json!([]));
    hold.fire();
    let done = until(&world.client, id, "completed").await;
    assert_eq!(done["id"], id);
    assert_eq!(done["output"][0]["content"][0]["text"], "Hello again");
}

#[tokio::test]
async fn a_response_is_not_continued_before_its_end_and_the_refusal_says_so() {
    let world = chat_world().await;
    let hold = Signal::new();
    let first = sse_data(&json!({"content": "Hello"}), None);
    world.upstream.enqueue(Answer::sse().all(&[first]).wait(&hold).all(&chat_transcript(&[" again"])).done());
    let queued = ask_responses(&world.client, &in_background()).await.ok().json();
    let id = queued["id"].as_str().expect("an id");
    until(&world.client, id, "in_progress").await;
    let more = with(response("acme/fast"), json!({"previous_response_id": id}));
    let refused = ask_responses(&world.client, &more).await;
    let told = (refused.status, refused.code());
    assert_eq!(told, (400, "previous_response_not_found".to_owned()), "{}", refused.text());
    assert!(refused.message().contains("has not ended"), "{}", refused.text());
    hold.fire();
    until(&world.client, id, "completed").await;
    ask_responses(&world.client, &more).await.ok();
}

#[tokio::test]
async fn a_cancelled_response_stops_its_upstream() {
    let world = chat_world().await;
    world.upstream.enqueue(Answer::sse().all(&[sse_data(&json!({"content": "Hello"}), None)]).hang());
    let id = ask_responses(&world.client, &in_background()).await.ok().json()["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let upstream = world.upstream.request(0).await;
    let path = format!("/v1/responses/{id}/cancel");
    let cancelled = world.client.send("POST", &path, None, None).await.ok().json();
    assert_eq!(cancelled["status"], "cancelled");
    upstream.until_closed().await;
    assert_eq!(until(&world.client, &id, "cancelled").await["id"], id.as_str());
}

/// The client that began the response, and one that came later, learn the end.
#[tokio::test]
async fn clients_that_follow_a_cancelled_response_get_its_last_event() {
    let world = chat_world().await;
    world.upstream.enqueue(Answer::sse().all(&[sse_data(&json!({"content": "Hello"}), None)]).hang());
    let streamed = with(in_background(), json!({"stream": true}));
    let mut first = world.client.stream("/v1/responses", &streamed).await;
    let created = first.data().await.expect("the first event");
    let (_, data) = created.split_once("data: ").expect("data");
    let created: Value = serde_json::from_str(data.trim()).expect("JSON");
    let id = created["response"]["id"].as_str().expect("an id").to_owned();
    world.upstream.request(0).await;
    let follower = world.client.clone();
    let path = format!("/v1/responses/{id}?stream=true");
    let following = tokio::spawn(async move { follower.get(&path).await.ok().text() });
    let cancel = format!("/v1/responses/{id}/cancel");
    world.client.send("POST", &cancel, None, None).await.ok();
    for text in [first.rest().await.concat(), following.await.expect("an answer")] {
        assert_was_stopped(&text);
    }
}

/// Follows a response that is being made. The head of the answer has come.
pub(super) async fn follow(client: &Client, id: &str) -> RawClient {
    let mut wire = client.open("GET", &format!("/v1/responses/{id}?stream=true"), None, None).await;
    let head = wire.head().await.expect("an answer");
    assert_eq!(head.status, 200);
    wire.expect_body(&head, false);
    wire
}

/// The events that a client that follows gets until the end.
pub(super) async fn rest(mut wire: RawClient) -> String {
    let mut text = Vec::new();
    while let Some(piece) = within("an event", wire.body_chunk()).await.expect("a whole answer") {
        text.extend_from_slice(&piece);
    }
    String::from_utf8(text).expect("UTF-8")
}

/// Checks that the events of a response end because somebody stopped it.
#[track_caller]
pub(super) fn assert_was_stopped(text: &str) {
    let events: Vec<&str> = text.split("\n\n").filter(|event| !event.trim().is_empty()).collect();
    let [.., last, done] = &events[..] else { panic!("{text}") };
    assert!(last.starts_with("event: response.failed\n"), "{text}");
    assert!(last.contains("\"status\":\"cancelled\""), "{last}");
    assert_eq!(*done, "data: [DONE]");
    let terminal = events.iter().filter(|event| event.starts_with("event: response.failed")).count();
    assert_eq!(terminal, 1, "{text}");
}

/// The deletion of a running response stops its upstream, and is charged for what came.
#[tokio::test]
async fn clients_that_follow_a_deleted_response_get_its_last_event() {
    let world = chat_world().await;
    world.upstream.enqueue(Answer::sse().all(&[sse_data(&json!({"content": "Hello"}), None)]).hang());
    let streamed = with(response("acme/plain"), json!({"background": true, "stream": true}));
    let mut first = world.client.stream("/v1/responses", &streamed).await;
    let (_, created) = event(&first.data().await.expect("a frame")).expect("an event");
    let id = created["response"]["id"].as_str().expect("an id").to_owned();
    let upstream = world.upstream.request(0).await;
    let path = format!("/v1/responses/{id}");
    let later = follow(&world.client, &id).await;
    world.client.send("DELETE", &path, None, None).await.ok();
    assert_was_stopped(&first.rest().await.concat());
    assert_was_stopped(&rest(later).await);
    upstream.until_closed().await;
    assert_eq!(world.client.get(&path).await.status, 404);
    let row = rows(&world.gateway, 1).await.remove(0);
    assert_eq!(row.status, "client_closed_request", "{row:?}");
    assert!(row.tokens.prompt > 0 && row.tokens.completion > 0 && row.cost > 0, "{row:?}");
}

#[tokio::test]
async fn only_responses_in_the_background_can_be_cancelled() {
    let world = chat_world().await;
    let id = ask_responses(&world.client, &response("acme/fast")).await.ok().json()["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let answer = world.client.send("POST", &format!("/v1/responses/{id}/cancel"), None, None).await;
    assert_eq!((answer.status, answer.code().as_str()), (400, "invalid_request"), "{}", answer.text());
}

#[tokio::test]
async fn a_failed_response_in_the_background_tells_its_error() {
    let world = chat_world().await;
    world.upstream.always(Answer::error(400, "invalid_value", "No."));
    let id = ask_responses(&world.client, &in_background()).await.ok().json()["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let failed = until(&world.client, &id, "failed").await;
    assert!(failed["error"]["code"].is_string(), "{failed}");
}

#[tokio::test]
async fn the_error_of_a_response_in_the_background_tells_who_is_at_fault() {
    let (acme, routing) = ("responses = false".to_owned(), "retries = 0");
    let world = Setup { acme, routing, ..Setup::default() }.start().await;
    for (status, kind, code) in
        [(400, "invalid_request_error", "invalid_prompt"), (429, "rate_limit_error", "rate_limit_exceeded")]
    {
        world.upstream.always(Answer::error(status, "some_code", "No."));
        let streamed = with(in_background(), json!({"stream": true}));
        let told = events(&world.client, "/v1/responses", &streamed).await;
        let [.., (first, error), (second, failed)] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!((first.as_str(), second.as_str()), ("error", "response.failed"), "{told:?}");
        assert_eq!(
            (&error["error"]["type"], &error["error"]["code"], &error["code"]),
            (&json!(kind), &json!(code), &json!(code)),
            "{error}"
        );
        assert_eq!(failed["response"]["error"]["code"], code, "{failed}");
        let id = failed["response"]["id"].as_str().expect("an id");
        assert_eq!(until(&world.client, id, "failed").await["error"]["code"], code);
    }
}

#[tokio::test]
async fn a_client_follows_a_running_response_from_any_event() {
    let world = chat_world().await;
    let hold = Signal::new();
    world.upstream.enqueue(
        Answer::sse()
            .all(&[sse_data(&json!({"content": "Hello"}), None)])
            .wait(&hold)
            .all(&chat_transcript(&[" again"]))
            .done(),
    );
    let body = with(in_background(), json!({"stream": true}));
    let mut stream = world.client.stream("/v1/responses", &body).await;
    let (_, created) = event(&stream.data().await.expect("a frame")).expect("an event");
    let id = created["response"]["id"].as_str().expect("an id").to_owned();
    stream.close();
    hold.fire();
    until(&world.client, &id, "completed").await;
    let replay =
        world.client.get(&format!("/v1/responses/{id}?stream=true&starting_after=3")).await.ok().text();
    let data = replay.lines().find_map(|line| line.strip_prefix("data: ")).expect("an event");
    let first: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(first["sequence_number"], 4);
    assert!(replay.contains("event: response.completed"), "{replay}");
}

/// The events of an upstream with a Responses API that has searched the web.
fn native_events() -> String {
    let search = json!({"id": "ws_1", "type": "web_search_call", "status": "completed",
        "action": {"type": "search", "query": "q"}});
    let message = json!({"id": "msg_up", "type": "message", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Found", "annotations": []}]});
    let object = |status: &str, output: Value| {
        json!({"id": "resp_up", "object": "response", "created_at": 1, "status": status, "background": false,
            "model": "model-1", "error": null, "incomplete_details": null, "output": output,
            "usage": {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}})
    };
    let events = [
        ("response.created", json!({"response": object("in_progress", json!([]))})),
        ("response.output_item.added", json!({"output_index": 0, "item": search})),
        ("response.output_item.done", json!({"output_index": 0, "item": search})),
        (
            "response.output_item.added",
            json!({"output_index": 1, "item": with(message.clone(), json!({"content": []}))}),
        ),
        (
            "response.output_text.delta",
            json!({"item_id": "msg_up", "output_index": 1, "content_index": 0, "delta": "Found", "logprobs": []}),
        ),
        ("response.output_item.done", json!({"output_index": 1, "item": message})),
        ("response.completed", json!({"response": object("completed", json!([search, message]))})),
    ];
    let numbered = events.iter().enumerate().map(|(number, (name, data))| {
        let data = with(data.clone(), json!({"type": name, "sequence_number": number}));
        format!("event: {name}\ndata: {data}\n\n")
    });
    numbered.collect()
}

#[tokio::test]
async fn a_background_response_has_the_hosted_tools_of_its_provider_and_an_id_of_ours() {
    let acme = "responses = true\nallow_members = [\"web_search\"]".to_owned();
    let world = Setup { acme, ..Setup::default() }.start().await;
    world.upstream.enqueue(Answer::sse().chunk(native_events()).end());
    let tools = json!({"tools": [{"type": "web_search"}]});
    let queued = ask_responses(&world.client, &with(in_background(), tools.clone())).await.ok().json();
    let id = queued["id"].as_str().expect("an id");
    let done = until(&world.client, id, "completed").await;
    let sent = world.upstream.last();
    assert_eq!(sent.path, "/v1/responses");
    let sent = sent.json();
    assert_eq!((&sent["tools"], &sent["stream"]), (&tools["tools"], &json!(true)));
    assert_eq!((&sent["background"], &sent["store"]), (&Value::Null, &json!(false)));
    assert_eq!((&done["id"], &done["background"]), (&json!(id), &json!(true)), "{done}");
    assert_eq!(done["output"][0]["type"], "web_search_call", "{done}");
    assert_eq!(done["output"][1]["content"][0]["text"], "Found", "{done}");
}
