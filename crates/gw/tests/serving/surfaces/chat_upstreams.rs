//! What a client of the Messages or the Responses API means, in the words of upstreams that have a chat only.

use gw_testkit::Answer;
use gw_testkit::upstream::{chat_body, chat_transcript, sse_data};
use serde_json::{Value, json};

use super::{ask_messages, ask_responses, events, message, response};
use crate::harness::providers::{config_of_all, targets};
use crate::harness::{KEY, Setup, chat_with, serve, with, world};

/// The request of a coding agent: system blocks with a cache marker, reminders beside the user's words, an image.
fn agent_request(model: &str) -> Value {
    let text = |text: &str| json!({"type": "text", "text": text});
    let marked = with(text("You write code."), json!({"cache_control": {"type": "ephemeral"}}));
    let image = json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}});
    with(
        message(model),
        json!({"system": [text("You are an agent."), marked], "messages": [
            {"role": "user", "content": [text("<reminder>be brief</reminder>"), text("Hello")]},
            {"role": "assistant", "content": [text("What "), text("is it?")]},
            {"role": "user", "content": [text("This"), image]}]}),
    )
}

#[tokio::test]
async fn several_texts_reach_a_chat_upstream_as_one_string() {
    let world = Setup { acme: "responses = false".to_owned(), ..Setup::default() }.start().await;
    ask_messages(&world.client, &agent_request("acme/fast")).await.ok();
    let sent = world.upstream.last().json();
    let contents: Vec<&Value> =
        sent["messages"].as_array().expect("messages").iter().map(|message| &message["content"]).collect();
    assert_eq!(contents[0], "You are an agent.\n\nYou write code.");
    assert_eq!(contents[1], "<reminder>be brief</reminder>\n\nHello");
    assert_eq!(contents[2], "What is it?");
    assert_eq!(contents[3][0], json!({"type": "text", "text": "This"}));
    assert_eq!(contents[3][1]["type"], "image_url");
    let part = |text: &str| json!({"type": "input_text", "text": text});
    let items = json!({"instructions": "Be brief.", "input": [
        {"role": "user", "content": [part("One."), part("Two.")]},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}, {"type": "output_text", "text": "b"}]},
        {"role": "user", "content": [part("Three.")]}]});
    ask_responses(&world.client, &with(response("acme/fast"), items)).await.ok();
    let sent = world.upstream.last().json();
    let contents: Vec<&Value> =
        sent["messages"].as_array().expect("messages").iter().map(|message| &message["content"]).collect();
    assert_eq!(contents, ["Be brief.", "One.\n\nTwo.", "ab", "Three."]);
    // A client of the chat API has its own bytes sent.
    let parts = json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    let own = json!({"messages": [{"role": "user", "content": parts}]});
    world.chat(&chat_with("acme/fast", own)).await.ok();
    assert_eq!(world.upstream.last().json()["messages"][0]["content"], parts);
}

#[tokio::test]
async fn a_provider_that_takes_parts_gets_the_texts_as_they_came() {
    let acme = "responses = false\ntext_parts = true".to_owned();
    let world = Setup { acme, ..Setup::default() }.start().await;
    ask_messages(&world.client, &agent_request("acme/fast")).await.ok();
    let sent = world.upstream.last().json();
    let text = |text: &str| json!({"type": "text", "text": text});
    assert_eq!(sent["messages"][1]["content"], json!([text("<reminder>be brief</reminder>"), text("Hello")]));
}

#[tokio::test]
async fn the_stop_sequence_that_an_upstream_reports_reaches_the_messages_api() {
    let world = world().await;
    let body = with(message("acme/fast"), json!({"stop_sequences": ["END", "STOP"]}));
    // vLLM's name of the member, and SGLang's. A number is a token of the model, and other words are the template's.
    for (member, value, expected) in [
        ("stop_reason", json!("STOP"), json!("STOP")),
        ("matched_stop", json!("END"), json!("END")),
        ("stop_reason", json!(151_645), Value::Null),
        ("matched_stop", json!("<|im_end|>"), Value::Null),
        ("stop_reason", Value::Null, Value::Null),
    ] {
        let reason = if expected.is_null() { "end_turn" } else { "stop_sequence" };
        let mut answer = chat_body("m", "Well");
        answer["choices"][0][member] = value.clone();
        world.upstream.enqueue(Answer::json(200, &answer));
        let got = ask_messages(&world.client, &body).await.ok().json();
        assert_eq!((&got["stop_reason"], &got["stop_sequence"]), (&json!(reason), &expected), "{got}");
        let mut last = sse_data(&json!({}), Some("stop"));
        last["choices"][0][member] = value.clone();
        world.upstream.enqueue(Answer::sse().all(&chat_transcript(&["Well"])[..2]).data(&last).done());
        let stream = with(body.clone(), json!({"stream": true}));
        let events = events(&world.client, "/v1/messages", &stream).await;
        let (_, delta) = events.iter().find(|(name, _)| name == "message_delta").expect("an end");
        let told = (&delta["delta"]["stop_reason"], &delta["delta"]["stop_sequence"]);
        assert_eq!(told, (&json!(reason), &expected), "{delta}");
        // A chat has no such member.
        world.upstream.enqueue(Answer::json(200, &answer));
        let chat = world.chat_ok(&chat_with("acme/fast", json!({"stop": ["END", "STOP"]}))).await;
        assert!(!chat.to_string().contains("stop_sequence"), "{chat}");
    }
}

#[tokio::test]
async fn top_k_reaches_the_upstreams_that_take_it() {
    let (config, upstreams) = config_of_all("").await;
    let gateway = serve(&config.replace("api = \"openai\"\n", "api = \"openai\"\nresponses = false\n")).await;
    let client = gateway.client().with_key(KEY);
    for ((name, model), upstream) in targets().zip(&upstreams) {
        let body = with(message(&model), json!({"top_k": 7}));
        let answer = ask_messages(&client, &body).await.ok().json();
        let sent = upstream.last().json();
        let found = match name {
            "gemini" | "vertex" => &sent["generationConfig"]["topK"],
            "ollama" => &sent["options"]["top_k"],
            "cohere" => &sent["k"],
            _ => &sent["top_k"],
        };
        let takes = !matches!(name, "openai" | "azure" | "mistral");
        assert_eq!(found, &if takes { json!(7) } else { Value::Null }, "{name}: {sent}");
        let dropped = answer["gateway"]["warnings"].to_string().contains("parameter_dropped:top_k");
        assert_eq!(dropped, !takes, "{name}: {}", answer["gateway"]["warnings"]);
    }
}
