//! The echo table: reasoning, text, reasoning, a tool call and text, in ten dialects of upstreams, through three APIs of clients,
//! plain and streamed, sent back by hand and by `previous_response_id`. The upstream gets the blocks that it gave.

use gw_testkit::{FakeUpstream, Gateway};
use serde_json::{Value, json};

use super::event;
use super::fold::{SURFACES, Surface};
use crate::api::replay;
use crate::api::replay::answers::{self, DIALECTS, Dialect};
use crate::harness::providers::api;
use crate::harness::{KEY, serve, with};

/// A gateway with one provider of each dialect, of which none has a Responses API.
async fn all() -> (Gateway, Vec<FakeUpstream>) {
    let mut config = format!("[server]\nlisten = \"127.0.0.1:0\"\n[[keys]]\nname = \"k\"\nkey = \"{KEY}\"\n");
    let mut upstreams = Vec::new();
    for Dialect { name, lines, model, .. } in DIALECTS {
        let upstream = FakeUpstream::start().await;
        let responses = if name == "openai" { "responses = false\n" } else { "" };
        config.push_str(&format!(
            "[[providers]]\nname = \"my-{name}\"\napi = \"{}\"\nbase_url = \"http://{}\"\napi_key = \"sk-upstream-key-000\"\n\
             {lines}\n{responses}[[models]]\nid = \"my-{name}/{model}\"\n",
            api(name),
            upstream.addr
        ));
        upstreams.push(upstream);
    }
    (serve(&config).await, upstreams)
}

/// How a client gives the answer back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    ByHand,
    ByPreviousResponseId,
}

/// The first question.
fn question(surface: Surface, model: &str) -> Value {
    let schema = json!({"type": "object", "properties": {"at": {"type": "string"}}});
    let user = json!([{"role": "user", "content": "What is there?"}]);
    match surface {
        Surface::Chat => replay::request(model, &user),
        Surface::Responses => {
            json!({"model": model, "max_output_tokens": 9000, "reasoning": {"effort": "high"}, "input": user,
            "tools": [{"type": "function", "name": "look", "parameters": schema}]})
        }
        Surface::Messages => json!({"model": model, "max_tokens": 9000, "messages": user,
            "thinking": {"type": "enabled", "budget_tokens": 5000},
            "tools": [{"name": "look", "input_schema": schema}]}),
    }
}

/// The answer on each surface: the chat's message, the whole response, or the message with its blocks.
async fn ask(gateway: &Gateway, surface: Surface, body: &Value, stream: bool) -> (Value, Value) {
    if surface == Surface::Chat {
        return replay::ask(gateway, body.clone(), stream).await;
    }
    let client = gateway.client().with_key(KEY);
    if !stream {
        let answer = client.post_json(surface.path(), body).await.ok().json();
        let warnings = answer["gateway"]["warnings"].clone();
        return (answer, warnings);
    }
    let frames =
        client.stream(surface.path(), &with(body.clone(), json!({"stream": true}))).await.rest().await;
    let events: Vec<(String, Value)> = frames.iter().filter_map(|frame| event(frame)).collect();
    let answer = match surface {
        Surface::Responses => folded_response(&events),
        _ => folded_message(&events),
    };
    let warnings = answer["gateway"]["warnings"].clone();
    (answer, warnings)
}

/// The final object, whose items are those of the events.
fn folded_response(events: &[(String, Value)]) -> Value {
    let done = events.iter().filter(|(name, _)| name == "response.output_item.done");
    let items: Vec<Value> = done.map(|(_, data)| data["item"].clone()).collect();
    let (name, last) = events.last().expect("an event");
    assert_eq!(name, "response.completed", "{last}");
    assert_eq!(last["response"]["output"], json!(items));
    last["response"].clone()
}

/// The message as Anthropic's SDKs fold it.
fn folded_message(events: &[(String, Value)]) -> Value {
    let mut message = events[0].1["message"].clone();
    let mut blocks: Vec<Value> = Vec::new();
    for (name, data) in events {
        match name.as_str() {
            "content_block_start" => blocks.push(data["content_block"].clone()),
            "content_block_delta" => {
                let block = blocks.last_mut().expect("a block");
                let (member, of) = match data["delta"]["type"].as_str().expect("a type") {
                    "thinking_delta" => ("thinking", "thinking"),
                    "signature_delta" => ("signature", "signature"),
                    "text_delta" => ("text", "text"),
                    "input_json_delta" => ("json", "partial_json"),
                    other => panic!("{other}"),
                };
                let known = block[member].as_str().unwrap_or_default();
                block[member] = json!(format!("{known}{}", data["delta"][of].as_str().expect("a text")));
            }
            "content_block_stop" => {
                let block = blocks.last_mut().expect("a block").as_object_mut().expect("an object");
                if let Some(json) = block.remove("json") {
                    block["input"] = serde_json::from_str(json.as_str().expect("a text")).expect("JSON");
                }
            }
            "message_delta" => message["gateway"] = data["gateway"].clone(),
            "error" => panic!("{data}"),
            _ => {}
        }
    }
    message["content"] = json!(blocks);
    message
}

/// The blocks of an answer without ids that differ between two answers.
fn content(surface: Surface, answer: &Value) -> Value {
    let mut content = match surface {
        Surface::Chat => return Value::Null,
        Surface::Responses => answer["output"].clone(),
        Surface::Messages => answer["content"].clone(),
    };
    for item in content.as_array_mut().expect("a list") {
        item.as_object_mut().expect("an object").remove("id");
    }
    content
}

/// The content with each run of plain texts as one text.
fn with_joined_texts(content: &Value) -> Value {
    let mut joined: Vec<Value> = Vec::new();
    for block in content.as_array().expect("a list") {
        match (joined.last_mut(), block["text"].as_str()) {
            (Some(last), Some(more)) if block["type"] == "text" && last["type"] == "text" => {
                last["text"] = json!(format!("{}{more}", last["text"].as_str().unwrap_or_default()));
            }
            _ => joined.push(block.clone()),
        }
    }
    json!(joined)
}

/// The next request: the answer, and the result of its call.
fn next(surface: Surface, way: Way, first: &Value, answer: &Value) -> Value {
    let mut body = first.clone();
    match surface {
        Surface::Chat => body["messages"] = replay::history(answer),
        Surface::Responses => {
            let items = answer["output"].as_array().expect("items");
            let call = items.iter().find(|item| item["type"] == "function_call").expect("a call");
            let output =
                json!({"type": "function_call_output", "call_id": call["call_id"], "output": "Dark."});
            if way == Way::ByPreviousResponseId {
                body["previous_response_id"] = answer["id"].clone();
                body["input"] = json!([output]);
            } else {
                let input = body["input"].as_array_mut().expect("items");
                input.extend(items.iter().cloned());
                input.push(output);
            }
        }
        Surface::Messages => {
            let blocks = answer["content"].as_array().expect("blocks");
            let call = blocks.iter().find(|block| block["type"] == "tool_use").expect("a call");
            let result = json!({"type": "tool_result", "tool_use_id": call["id"], "content": "Dark."});
            let messages = body["messages"].as_array_mut().expect("messages");
            messages.push(json!({"role": "assistant", "content": blocks}));
            messages.push(json!({"role": "user", "content": [result]}));
        }
    }
    body
}

/// The assistant's turn that the upstream gets.
fn expected(dialect: &Dialect, surface: Surface) -> Value {
    let mut turn = (dialect.expected)();
    match (dialect.name, surface) {
        (_, Surface::Chat) => {}
        // Claude on Bedrock gets the own bytes of a Messages client, at an address of its own.
        ("bedrock", Surface::Messages) => turn["content"] = answers::anthropic_blocks(),
        // Text of two blocks in a row is one text of a response.
        ("anthropic" | "claude-on-vertex" | "bedrock", Surface::Responses) => {
            let blocks = turn["content"].as_array_mut().expect("blocks");
            blocks.remove(2);
            blocks[1]["text"] = json!(answers::SAID.concat());
        }
        // Neither API has a place for Cohere's plan, so it is text.
        ("cohere", _) => {
            let plan = turn.as_object_mut().expect("an object").remove("tool_plan").expect("a plan");
            let said = format!("{}\n{}", plan.as_str().expect("a text"), answers::SAID.concat());
            turn["content"][1]["text"] = json!(said);
        }
        // OpenAI's message and Ollama's have one text and one reasoning; the details of reasoning are a list.
        _ => {}
    }
    turn
}

#[tokio::test]
async fn an_answer_comes_back_to_its_upstream_as_the_blocks_that_came() {
    let (gateway, upstreams) = all().await;
    let mut wrong: Vec<String> = Vec::new();
    for (dialect, upstream) in DIALECTS.iter().zip(&upstreams) {
        let model = format!("my-{}/{}", dialect.name, dialect.model);
        for surface in SURFACES {
            let is_invoked = dialect.name == "bedrock" && surface == Surface::Messages;
            let answer_of = if is_invoked { answers::bedrock_invoke } else { dialect.answer };
            let mut contents: Vec<Value> = Vec::new();
            for stream in [false, true] {
                upstream.always(answer_of(stream));
                let first = question(surface, &model);
                let (answer, _) = ask(&gateway, surface, &first, stream).await;
                let label = format!("{} {surface:?} stream={stream}", dialect.name);
                if answer.to_string().contains(answers::SIGNATURE) {
                    wrong.push(format!("{label}: a signature is not sealed: {answer}"));
                }
                contents.push(content(surface, &answer));
                let ways: &[Way] = match surface {
                    Surface::Responses => &[Way::ByHand, Way::ByPreviousResponseId],
                    _ => &[Way::ByHand],
                };
                for way in ways {
                    let again = next(surface, *way, &first, &answer);
                    let (_, warnings) = ask(&gateway, surface, &again, stream).await;
                    let turn = (dialect.turn)(&upstream.last().json());
                    let expected = expected(dialect, surface);
                    if turn != expected {
                        wrong.push(format!("{label} {way:?}:\n  came {expected}\n  sent {turn}"));
                    }
                    if warnings.to_string().contains("reasoning_dropped") {
                        wrong.push(format!("{label} {way:?}: {warnings}"));
                    }
                }
            }
            // A plain answer of these does not tell where its calls were, and of the last three where its texts were.
            let is_joined = matches!(dialect.name, "mistral" | "openai" | "azure" | "ollama");
            if contents[0] != contents[1] && !is_joined {
                wrong.push(format!(
                    "{} {surface:?}: plain and streamed differ:\n  {}\n  {}",
                    dialect.name, contents[0], contents[1]
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn a_cached_answer_is_streamed_in_the_order_of_its_blocks() {
    let (gateway, upstreams) = all().await;
    for (dialect, upstream) in DIALECTS.iter().zip(&upstreams) {
        if !["anthropic", "gemini", "mistral", "cohere"].contains(&dialect.name) {
            continue;
        }
        for surface in [Surface::Responses, Surface::Messages] {
            let label = format!("{} {surface:?}", dialect.name);
            let model = format!("my-{}/{}", dialect.name, dialect.model);
            let body = with(question(surface, &model), json!({"cache": {"enabled": true}}));
            upstream.always((dialect.answer)(false));
            let (plain, _) = ask(&gateway, surface, &body, false).await;
            let asked = upstream.hits();
            let (streamed, _) = ask(&gateway, surface, &body, true).await;
            let native = dialect.name == "anthropic" && surface == Surface::Messages;
            assert_eq!(upstream.hits(), asked, "{label}: {native}");
            // A plain answer of the client's own dialect has the upstream's bytes. In a stream, texts in a row are one text.
            assert_eq!(content(surface, &streamed), with_joined_texts(&content(surface, &plain)), "{label}");
        }
    }
}
