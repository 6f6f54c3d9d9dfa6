//! Streams that fail after their first content: each dialect tells the reason in its own words.

use gw_testkit::Answer;
use gw_testkit::upstream::sse_data;
use serde_json::{Value, json};

use super::{events, message, names, response};
use crate::harness::{Setup, World, with, world};

/// An answer that breaks off with an error of the upstream.
fn broken_by(error: &Value) -> Answer {
    Answer::sse().all(&[sse_data(&json!({"content": "Hel"}), None), json!({"error": error})]).end()
}

fn overload() -> Value {
    json!({"message": "Overloaded", "type": "overloaded_error", "code": "overloaded_error"})
}

#[tokio::test]
async fn an_overload_inside_a_stream_is_told_as_one_on_messages() {
    let world = world().await;
    world.upstream.enqueue(broken_by(&overload()));
    let body = with(message("acme/fast"), json!({"stream": true}));
    let events = events(&world.client, "/v1/messages", &body).await;
    let (name, last) = events.last().expect("an event");
    assert_eq!((name.as_str(), &last["error"]["type"]), ("error", &json!("overloaded_error")), "{last}");
}

#[tokio::test]
async fn a_failed_response_has_the_gateway_object() {
    let world = Setup { acme: "responses = false".to_owned(), ..Setup::default() }.start().await;
    for (plain, expected) in [(false, json!("acme")), (true, Value::Null)] {
        world.upstream.enqueue(broken_by(&overload()));
        let client =
            if plain { world.client.with_header("x-gateway-plain", "true") } else { world.client.clone() };
        let body = with(response("acme/fast"), json!({"stream": true}));
        let events = events(&client, "/v1/responses", &body).await;
        let (name, last) = events.last().expect("an event");
        assert_eq!(name, "response.failed", "{:?}", names(&events));
        assert_eq!(last["response"]["gateway"]["provider"], expected);
        if !plain {
            assert_eq!(
                last["response"]["gateway"]["attempts"][0]["status"], "upstream_stream_error",
                "{last}"
            );
        }
    }
}

#[tokio::test]
async fn chat_clients_see_the_code_of_a_broken_stream_as_before() {
    let world: World = world().await;
    world.upstream.enqueue(broken_by(&overload()));
    let body =
        json!({"model": "acme/fast", "stream": true, "messages": [{"role": "user", "content": "Hello"}]});
    let mut stream = world.client.stream("/v1/chat/completions", &body).await;
    let frames = stream.rest().await;
    let error = frames.iter().find(|frame| frame.contains("\"error\"")).expect("an error event");
    assert!(error.contains("\"code\":\"upstream_stream_error\""), "{error}");
}
