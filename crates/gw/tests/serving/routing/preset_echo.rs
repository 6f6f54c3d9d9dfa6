//! An answer of the Responses API repeats what its client sent, and nothing of the preset that changed the request.

use gw_testkit::wait::eventually_async;
use gw_testkit::{Answer, FakeUpstream};
use serde_json::{Value, json};

use crate::harness::socket::with_key;
use crate::harness::{KEY, Setup, World, serve, with};

const PROMPT: &str = "The operator's own words.";

/// Aliases for a client's own instructions that are kept, and for those that are replaced.
const ALIASES: &str = r#"
[[aliases]]
name = "kind"
targets = "acme/fast"
defaults = { max_tokens = 50 }
overrides = { temperature = 0.5 }
strip = ["top_p"]
system = "The operator's own words."

[[aliases]]
name = "ours"
targets = ["acme/fast"]
system = "The operator's own words."
system_mode = "replace"

[[aliases]]
name = "brief"
targets = ["acme/fast"]
defaults = { max_tokens = 9 }
"#;

/// The members that a client sends, and those that its answer repeats.
fn rows() -> [(&'static str, Value, Value); 4] {
    [
        ("kind", json!({}), json!({"instructions": null, "temperature": 1.0, "max_output_tokens": null})),
        (
            "kind",
            json!({"instructions": "Mine.", "temperature": 0.25, "top_p": 0.75, "max_output_tokens": 40}),
            json!({"instructions": "Mine.", "temperature": 0.25, "top_p": 0.75, "max_output_tokens": 40}),
        ),
        ("ours", json!({"instructions": "Mine."}), json!({"instructions": "Mine."})),
        ("@preset/ours", json!({}), json!({"instructions": null})),
    ]
}

/// A gateway with these aliases.
async fn preset_world(acme: &str) -> World {
    let (upstream, second) = (FakeUpstream::start().await, FakeUpstream::start().await);
    let setup = Setup { acme: acme.to_owned(), extra: ALIASES.to_owned(), ..Setup::default() };
    let config = setup.config(&upstream.base_url(), &second.base_url());
    let gateway = serve(&config.replace("[aliases]\n\"smart\" = \"acme/fast\"\n", "")).await;
    let client = gateway.client().with_key(KEY);
    World { upstream, second, gateway, client }
}

fn assert_repeats(label: &str, object: &Value, expected: &Value) {
    for (name, value) in expected.as_object().expect("an object") {
        assert_eq!(&object[name], value, "{label}: {name} of {object}");
    }
    assert!(!object.to_string().contains(PROMPT), "{label}: {object}");
}

/// The objects in the events of a stream.
fn objects(text: &str) -> Vec<Value> {
    assert!(!text.contains(PROMPT), "{text}");
    let data = text.lines().filter_map(|line| line.strip_prefix("data: ")).filter(|data| *data != "[DONE]");
    let events = data.map(|data| serde_json::from_str::<Value>(data).expect("JSON"));
    events.filter(|event| event["response"].is_object()).map(|event| event["response"].clone()).collect()
}

/// The response, as soon as it is complete.
async fn completed(world: &World, id: &str) -> Value {
    eventually_async("the response is complete", || async {
        let object = world.client.get(&format!("/v1/responses/{id}")).await.ok().json();
        if object["status"] == "completed" {
            return Some(object);
        }
        assert!(!object.to_string().contains(PROMPT), "{object}");
        None
    })
    .await
}

#[tokio::test]
async fn plain_streamed_stored_and_background_answers_repeat_the_clients_own_members() {
    let world = preset_world("responses = false").await;
    for (alias, members, expected) in rows() {
        let body = with(json!({"model": alias, "input": "x"}), members);
        let label = format!("{alias} {body}");
        let answer = world.client.post_json("/v1/responses", &body).await.ok().json();
        assert_repeats(&label, &answer, &expected);
        assert!(world.upstream.last().json()["messages"][0].to_string().contains(PROMPT), "{label}");
        let id = answer["id"].as_str().expect("an id");
        let stored = world.client.get(&format!("/v1/responses/{id}")).await.ok().json();
        assert_repeats(&label, &stored, &expected);
        let items = world.client.get(&format!("/v1/responses/{id}/input_items")).await.ok().text();
        assert!(!items.contains(PROMPT), "{label}: {items}");

        let streamed = with(body.clone(), json!({"stream": true}));
        let text = world.client.stream("/v1/responses", &streamed).await.rest().await.concat();
        let seen = objects(&text);
        assert_eq!(seen.len(), 3, "{text}");
        seen.iter().for_each(|object| assert_repeats(&label, object, &expected));

        let behind = with(body.clone(), json!({"background": true}));
        let queued = world.client.post_json("/v1/responses", &behind).await.ok().json();
        assert_repeats(&label, &queued, &expected);
        let id = queued["id"].as_str().expect("an id");
        assert_repeats(&label, &completed(&world, id).await, &expected);
        let followed = world.client.get(&format!("/v1/responses/{id}?stream=true")).await.ok().text();
        objects(&followed).iter().for_each(|object| assert_repeats(&label, object, &expected));
    }
}

#[tokio::test]
async fn turns_of_a_socket_and_a_streamed_compaction_repeat_the_clients_own_members() {
    let world = preset_world("responses = false").await;
    let mut socket = with_key(world.gateway.addr, KEY).await;
    for (alias, members, expected) in rows() {
        let body = with(json!({"model": alias, "input": "x"}), members);
        socket.send(&with(body.clone(), json!({"type": "response.create", "store": false}))).await;
        let events = socket.turn().await;
        let seen: Vec<&Value> =
            events.iter().map(|event| &event["response"]).filter(|it| it.is_object()).collect();
        assert_eq!(seen.len(), 3, "{events:?}");
        seen.iter().for_each(|object| assert_repeats(alias, object, &expected));
        let streamed = with(body, json!({"stream": true}));
        let text = world.client.stream("/v1/responses/compact", &streamed).await.rest().await.concat();
        objects(&text).iter().for_each(|object| assert_repeats(alias, object, &expected));
    }
}

/// The response object of an upstream, which repeats the request that it got.
fn upstream_object(status: &str, sent: &Value) -> Value {
    json!({"id": "resp_up", "object": "response", "created_at": 1, "status": status, "model": "fast-2026-01", "error": null,
        "incomplete_details": null, "instructions": sent["instructions"], "temperature": sent["temperature"],
        "max_output_tokens": sent["max_output_tokens"], "top_p": sent["top_p"], "future_member": 5,
        "output": [{"type": "message", "id": "msg_up", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "Hi", "annotations": [], "logprobs": []}]}],
        "usage": {"input_tokens": 8, "output_tokens": 2, "total_tokens": 10}})
}

/// The stream of this object. One of its frames comes late.
fn upstream_stream(sent: &Value) -> Answer {
    let item = upstream_object("completed", sent)["output"][0].clone();
    let frames = [
        ("response.created", json!({"response": upstream_object("in_progress", sent)})),
        (
            "response.output_item.added",
            json!({"output_index": 0, "item": with(item.clone(), json!({"content": []}))}),
        ),
        (
            "response.output_text.delta",
            json!({"item_id": "msg_up", "output_index": 0, "content_index": 0, "delta": "Hi", "logprobs": []}),
        ),
        ("response.in_progress", json!({"response": upstream_object("in_progress", sent)})),
        ("response.output_item.done", json!({"output_index": 0, "item": item})),
        ("response.completed", json!({"response": upstream_object("completed", sent)})),
    ];
    let text: String = frames
        .iter()
        .enumerate()
        .map(|(number, (name, data))| {
            let data = with(data.clone(), json!({"type": name, "sequence_number": number}));
            format!("event: {name}\ndata: {data}\n\n")
        })
        .collect();
    Answer::sse().chunk(text).end()
}

#[tokio::test]
async fn what_an_upstream_with_a_responses_api_repeats_is_the_clients_own() {
    let world = preset_world("responses = true").await;
    for (alias, members, expected) in rows() {
        let body = with(json!({"model": alias, "input": "x"}), members);
        // The first answer tells what the upstream gets.
        world.upstream.enqueue(Answer::json(200, &upstream_object("completed", &json!({}))));
        world.client.post_json("/v1/responses", &body).await.ok();
        let sent = world.upstream.last().json();
        assert!(sent["instructions"].to_string().contains(PROMPT), "{sent}");
        world.upstream.enqueue(Answer::json(200, &upstream_object("completed", &sent)));
        let answer = world.client.post_json("/v1/responses", &body).await.ok().json();
        assert_repeats(alias, &answer, &expected);
        assert_eq!(answer["future_member"], 5, "{answer}");
        world.upstream.enqueue(upstream_stream(&sent));
        let streamed = with(body, json!({"stream": true}));
        let text = world.client.stream("/v1/responses", &streamed).await.rest().await.concat();
        let seen = objects(&text);
        assert_eq!(seen.len(), 3, "{text}");
        seen.iter().for_each(|object| assert_repeats(alias, object, &expected));
        let ids: Vec<&Value> = seen.iter().map(|object| &object["id"]).collect();
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    }
    // Without a preset, the upstream's own object stands.
    let sent = json!({"instructions": "Mine.", "temperature": 0.1});
    world.upstream.enqueue(Answer::json(200, &upstream_object("completed", &sent)));
    let body = json!({"model": "acme/fast", "input": "x", "instructions": "Yours."});
    let answer = world.client.post_json("/v1/responses", &body).await.ok().json();
    assert_eq!((&answer["instructions"], &answer["temperature"]), (&json!("Mine."), &json!(0.1)));
}

#[tokio::test]
async fn a_preset_may_ask_for_an_answer_that_is_shorter_than_the_api_allows() {
    for acme in ["responses = true", "responses = false"] {
        let world = preset_world(acme).await;
        let body = json!({"model": "brief", "input": "x"});
        let answer = world.client.post_json("/v1/responses", &body).await.ok().json();
        assert_eq!(answer["max_output_tokens"], Value::Null, "{answer}");
        // An upstream with a Responses API would refuse so few tokens.
        let (path, sent) = (world.upstream.last().path.clone(), world.upstream.last().json());
        assert!(path.ends_with("/chat/completions"), "{path}");
        assert!(sent["max_tokens"] == 9 || sent["max_completion_tokens"] == 9, "{sent}");
        let refused =
            world.client.post_json("/v1/responses", &with(body, json!({"max_output_tokens": 9}))).await;
        assert_eq!((refused.status, refused.code().as_str()), (400, "integer_below_min_value"));
    }
}
