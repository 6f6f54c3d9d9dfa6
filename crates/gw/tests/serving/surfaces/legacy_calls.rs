//! Upstreams that call a function in OpenAI's older form, `function_call`, for clients whose dialects have calls of tools alone.

use gw_testkit::Answer;
use gw_testkit::sse::chunks;
use gw_testkit::upstream::{chat_body, sse_data};
use serde_json::{Value, json};

use super::{ask_messages, ask_responses, events, message, response};
use crate::harness::{Setup, World, chat, with};

const ARGUMENTS: &str = r#"{"city":"Oslo"}"#;

async fn chats_only() -> World {
    Setup { acme: "responses = false".to_owned(), ..Setup::default() }.start().await
}

fn messages() -> Value {
    with(message("acme/fast"), json!({"tools": [{"name": "look", "input_schema": {"type": "object"}}]}))
}

fn responses() -> Value {
    let tool = json!({"type": "function", "name": "look", "parameters": {"type": "object"}});
    with(response("acme/fast"), json!({"tools": [tool]}))
}

/// The call in the newer form, as upstreams that send both forms repeat it.
fn repeated() -> Value {
    json!([{"index": 0, "id": "call_own", "type": "function", "function": {"name": "look", "arguments": ARGUMENTS}}])
}

fn plain(is_repeated: bool) -> Answer {
    let mut body = chat_body("m", "Well");
    body["choices"][0]["finish_reason"] = json!(if is_repeated { "tool_calls" } else { "function_call" });
    body["choices"][0]["message"]["function_call"] = json!({"name": "look", "arguments": ARGUMENTS});
    if is_repeated {
        body["choices"][0]["message"]["tool_calls"] = repeated();
    }
    Answer::json(200, &body)
}

fn stream(is_repeated: bool) -> Answer {
    let (first, rest) = ARGUMENTS.split_at(4);
    let mut chunks = vec![
        sse_data(&json!({"role": "assistant", "content": "Well"}), None),
        sse_data(&json!({"function_call": {"name": "look", "arguments": first}}), None),
        sse_data(&json!({"function_call": {"arguments": rest}}), None),
    ];
    if is_repeated {
        chunks.push(sse_data(&json!({"tool_calls": repeated()}), None));
    }
    let finish = if is_repeated { "tool_calls" } else { "function_call" };
    chunks.push(sse_data(&json!({}), Some(finish)));
    Answer::sse().all(&chunks).done()
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// Checks an id that the gateway made, or the upstream's own.
#[track_caller]
fn assert_id(id: &Value, is_repeated: bool) {
    let id = id.as_str().expect("an id");
    assert_eq!(id == "call_own", is_repeated, "{id}");
    assert!(id.len() > "call_00".len(), "{id}");
}

#[tokio::test]
async fn a_plain_answer_with_a_legacy_call_has_one_call_of_a_tool() {
    let world = chats_only().await;
    for is_repeated in [false, true] {
        world.upstream.enqueue(plain(is_repeated));
        let told = ask_messages(&world.client, &messages()).await.ok().json();
        let [text, call] = &list(&told["content"])[..] else { panic!("{told}") };
        assert_eq!((&text["text"], &told["stop_reason"]), (&json!("Well"), &json!("tool_use")), "{told}");
        assert_eq!((&call["type"], &call["name"]), (&json!("tool_use"), &json!("look")), "{told}");
        assert_eq!(call["input"], json!({"city": "Oslo"}), "{told}");
        assert_id(&call["id"], is_repeated);

        world.upstream.enqueue(plain(is_repeated));
        let told = ask_responses(&world.client, &responses()).await.ok().json();
        let [text, call] = &list(&told["output"])[..] else { panic!("{told}") };
        assert_eq!((&text["type"], &told["status"]), (&json!("message"), &json!("completed")), "{told}");
        assert_eq!((&call["type"], &call["name"]), (&json!("function_call"), &json!("look")), "{told}");
        assert_eq!(call["arguments"], ARGUMENTS, "{told}");
        assert_id(&call["call_id"], is_repeated);
    }
}

#[tokio::test]
async fn a_streamed_answer_with_a_legacy_call_has_one_call_of_a_tool() {
    let world = chats_only().await;
    for (is_repeated, cache) in [(false, false), (false, true), (true, false), (true, true)] {
        let more = json!({"stream": true, "cache": {"enabled": cache}});
        world.upstream.enqueue(stream(is_repeated));
        let told = events(&world.client, "/v1/messages", &with(messages(), more.clone())).await;
        let calls: Vec<&Value> = told
            .iter()
            .map(|(_, data)| &data["content_block"])
            .filter(|block| block["type"] == "tool_use")
            .collect();
        let [call] = &calls[..] else { panic!("{told:?}") };
        assert_eq!(call["name"], "look", "{told:?}");
        assert_id(&call["id"], is_repeated);
        let written: String =
            told.iter().filter_map(|(_, data)| data["delta"]["partial_json"].as_str()).collect();
        assert_eq!(written, ARGUMENTS, "{told:?}");
        let [.., (_, delta), (name, _)] = &told[..] else { panic!("{told:?}") };
        assert_eq!((name.as_str(), &delta["delta"]["stop_reason"]), ("message_stop", &json!("tool_use")));

        world.upstream.enqueue(stream(is_repeated));
        let told = events(&world.client, "/v1/responses", &with(responses(), more)).await;
        let (name, last) = told.last().expect("an event");
        assert_eq!(name, "response.completed", "{told:?}");
        let [text, call] = &list(&last["response"]["output"])[..] else { panic!("{told:?}") };
        assert_eq!((&text["type"], &call["type"]), (&json!("message"), &json!("function_call")), "{last}");
        assert_eq!((&call["name"], &call["arguments"]), (&json!("look"), &json!(ARGUMENTS)), "{last}");
        assert_id(&call["call_id"], is_repeated);
    }
}

/// Gemini's dialect, and a chat, which has the older form itself.
#[tokio::test]
async fn a_legacy_call_is_a_function_call_of_gemini_and_stays_what_it_is_in_a_chat() {
    let world = chats_only().await;
    world.upstream.enqueue(plain(false));
    let body = json!({"contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
        "tools": [{"functionDeclarations": [{"name": "look", "parameters": {"type": "OBJECT"}}]}]});
    let told = world.client.post_json("/v1beta/models/acme/fast:generateContent", &body).await.ok().json();
    let call = &told["candidates"][0]["content"]["parts"][1]["functionCall"];
    assert_eq!((&call["name"], &call["args"]), (&json!("look"), &json!({"city": "Oslo"})), "{told}");
    world.upstream.enqueue(plain(false));
    let told = world.chat_ok(&chat("acme/fast")).await;
    let choice = &told["choices"][0];
    assert_eq!(choice["message"]["function_call"], json!({"name": "look", "arguments": ARGUMENTS}), "{told}");
    assert_eq!(
        (&choice["message"]["tool_calls"], &choice["finish_reason"]),
        (&Value::Null, &json!("function_call"))
    );
}

/// A stream with these pieces of a legacy call.
fn pieces(pieces: &[Value]) -> Answer {
    let mut all: Vec<Value> =
        pieces.iter().map(|piece| sse_data(&json!({"function_call": piece}), None)).collect();
    all.push(sse_data(&json!({}), Some("odd")));
    Answer::sse().all(&all).done()
}

#[tokio::test]
async fn a_plain_legacy_call_always_has_arguments_and_its_finish_reason() {
    let world = chats_only().await;
    for call in [json!({"name": "look"}), json!({"name": "look", "arguments": ""})] {
        let mut body = chat_body("m", "");
        body["choices"][0]["finish_reason"] = json!("odd");
        body["choices"][0]["message"]["function_call"] = call;
        world.upstream.enqueue(Answer::json(200, &body));
        let told = world.chat_ok(&chat("acme/fast")).await;
        let choice = &told["choices"][0];
        assert_eq!(choice["message"]["function_call"], json!({"name": "look", "arguments": "{}"}), "{told}");
        assert_eq!(choice["finish_reason"], "function_call", "{told}");
    }
}

#[tokio::test]
async fn a_streamed_legacy_call_has_one_name_and_always_has_arguments() {
    let world = chats_only().await;
    let named = |arguments: &str| json!({"name": "look", "arguments": arguments});
    let cases = [
        (vec![json!({"name": "look"})], "{}"),
        (vec![named("")], "{}"),
        (vec![named("{"), named("\"a\":1"), named("}")], "{\"a\":1}"),
    ];
    for (seed, (sent, arguments)) in cases.iter().enumerate() {
        for is_shared in [false, true] {
            world.upstream.enqueue(pieces(sent));
            let more = json!({"stream": true, "seed": seed, "cache": {"enabled": is_shared}});
            let body = with(chat("acme/fast"), more);
            let all = chunks(&world.client.stream("/v1/chat/completions", &body).await.rest().await);
            let joined = |member: &str| -> String {
                let call = |chunk: &Value| {
                    chunk["choices"][0]["delta"]["function_call"][member].as_str().map(str::to_owned)
                };
                all.iter().filter_map(call).collect()
            };
            assert_eq!((joined("name"), joined("arguments")), ("look".to_owned(), (*arguments).to_owned()));
            let last = all.last().expect("a chunk");
            assert_eq!(last["choices"][0]["finish_reason"], "function_call", "{all:?}");
        }
        // A client whose dialect has calls of tools alone.
        world.upstream.enqueue(pieces(sent));
        let told = events(&world.client, "/v1/messages", &with(messages(), json!({"stream": true}))).await;
        let names: Vec<&str> =
            told.iter().filter_map(|(_, data)| data["content_block"]["name"].as_str()).collect();
        assert_eq!(names, ["look"], "{told:?}");
    }
}
