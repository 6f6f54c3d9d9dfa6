//! The content of an answer on each surface, plain and folded from its stream, in one form.

use gw_testkit::sse;
use serde_json::{Value, json};

use super::event;

/// The APIs of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Surface {
    Chat,
    Responses,
    Messages,
}

pub(super) const SURFACES: [Surface; 3] = [Surface::Chat, Surface::Responses, Surface::Messages];

/// The content of an answer.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Content {
    pub(super) text: String,
    /// The name and the arguments of each call.
    pub(super) calls: Vec<(String, Value)>,
    /// `calls` or `words`.
    pub(super) end: &'static str,
    /// The tokens of the prompt and of the answer.
    pub(super) usage: (u64, u64),
}

impl Surface {
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Chat => "/v1/chat/completions",
            Self::Responses => "/v1/responses",
            Self::Messages => "/v1/messages",
        }
    }

    /// A question with a tool, or without one.
    pub(super) fn question(self, model: &str, has_tool: bool) -> Value {
        let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        let question = "What is the weather?";
        let (mut body, tool) = match self {
            Self::Chat => (
                json!({"model": model, "max_tokens": 300, "messages": [{"role": "user", "content": question}],
                    "stream_options": {"include_usage": true}}),
                json!({"type": "function", "function": {"name": "get_weather", "parameters": schema}}),
            ),
            Self::Responses => (
                json!({"model": model, "max_output_tokens": 300, "input": question}),
                json!({"type": "function", "name": "get_weather", "parameters": schema}),
            ),
            Self::Messages => (
                json!({"model": model, "max_tokens": 300, "messages": [{"role": "user", "content": question}]}),
                json!({"name": "get_weather", "input_schema": schema}),
            ),
        };
        if has_tool {
            body["tools"] = json!([tool]);
        }
        body
    }

    /// The content of a plain answer.
    pub(super) fn plain(self, answer: &Value) -> Content {
        match self {
            Self::Chat => chat(
                &answer["choices"][0]["message"],
                &answer["choices"][0]["finish_reason"],
                &answer["usage"],
            ),
            Self::Responses => response(answer),
            Self::Messages => message(answer),
        }
    }

    /// The content of a stream, whose form is checked on the way.
    pub(super) fn folded(self, frames: &[String]) -> Content {
        match self {
            Self::Chat => chat_stream(frames),
            Self::Responses => responses_stream(frames),
            Self::Messages => messages_stream(frames),
        }
    }
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

fn parsed(arguments: &Value) -> Value {
    serde_json::from_str(arguments.as_str().expect("a JSON text")).expect("a JSON text")
}

fn end_of(is_calls: bool) -> &'static str {
    if is_calls { "calls" } else { "words" }
}

fn chat(message: &Value, finish: &Value, usage: &Value) -> Content {
    let calls = message["tool_calls"].as_array().into_iter().flatten();
    let call = |call: &Value| {
        let function = &call["function"];
        (function["name"].as_str().expect("a name").to_owned(), parsed(&function["arguments"]))
    };
    assert!(finish == "stop" || finish == "tool_calls", "{finish}");
    Content {
        text: message["content"].as_str().unwrap_or_default().to_owned(),
        calls: calls.map(call).collect(),
        end: end_of(finish == "tool_calls"),
        usage: (count(&usage["prompt_tokens"]), count(&usage["completion_tokens"])),
    }
}

fn response(object: &Value) -> Content {
    let items = object["output"].as_array().expect("items");
    let mut content = Content { end: "words", ..Content::default() };
    for item in items {
        match item["type"].as_str() {
            Some("message") => {
                for part in item["content"].as_array().into_iter().flatten() {
                    content.text.push_str(part["text"].as_str().unwrap_or_default());
                }
            }
            Some("function_call") => {
                let name = item["name"].as_str().expect("a name").to_owned();
                content.calls.push((name, parsed(&item["arguments"])));
                content.end = "calls";
            }
            _ => {}
        }
    }
    assert_eq!(object["status"], "completed", "{object}");
    content.usage = (count(&object["usage"]["input_tokens"]), count(&object["usage"]["output_tokens"]));
    content
}

fn message(object: &Value) -> Content {
    let blocks = object["content"].as_array().expect("blocks");
    let text = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
    let calls = blocks.iter().filter(|block| block["type"] == "tool_use");
    let calls =
        calls.map(|block| (block["name"].as_str().expect("a name").to_owned(), block["input"].clone()));
    let usage = &object["usage"];
    let prompt = count(&usage["input_tokens"])
        + count(&usage["cache_read_input_tokens"])
        + count(&usage["cache_creation_input_tokens"]);
    let stop = &object["stop_reason"];
    assert!(stop == "end_turn" || stop == "tool_use", "{object}");
    Content {
        text,
        calls: calls.collect(),
        end: end_of(stop == "tool_use"),
        usage: (prompt, count(&usage["output_tokens"])),
    }
}

fn chat_stream(frames: &[String]) -> Content {
    assert_eq!(frames.iter().filter(|frame| *frame == "data: [DONE]\n\n").count(), 1, "{frames:?}");
    assert_eq!(frames.last().map(String::as_str), Some("data: [DONE]\n\n"));
    let (mut text, mut calls, mut finish, mut usage) =
        (String::new(), Vec::<Value>::new(), Value::Null, Value::Null);
    for chunk in sse::chunks(frames) {
        assert!(chunk.get("error").is_none(), "{chunk}");
        if chunk["usage"].is_object() {
            usage = chunk["usage"].clone();
        }
        let Some(choice) = chunk["choices"].get(0) else { continue };
        text.push_str(choice["delta"]["content"].as_str().unwrap_or_default());
        for call in choice["delta"]["tool_calls"].as_array().into_iter().flatten() {
            let at = usize::try_from(count(&call["index"])).expect("a small index");
            assert!(at <= calls.len(), "an index is left out: {call}");
            let more = call["function"]["arguments"].as_str().unwrap_or_default();
            if at == calls.len() {
                calls.push(call.clone());
                calls[at]["function"]["arguments"] = json!("");
            }
            let known = calls[at]["function"]["arguments"].as_str().unwrap_or_default();
            calls[at]["function"]["arguments"] = json!(format!("{known}{more}"));
        }
        if choice["finish_reason"].is_string() {
            assert!(finish.is_null(), "two finish reasons");
            finish = choice["finish_reason"].clone();
        }
    }
    chat(&json!({"content": text, "tool_calls": calls}), &finish, &usage)
}

fn responses_stream(frames: &[String]) -> Content {
    let (done, frames) = frames.split_last().expect("frames");
    assert_eq!(done, "data: [DONE]\n\n");
    let events: Vec<(String, Value)> = frames.iter().filter_map(|frame| event(frame)).collect();
    let (mut items, mut open) = (Vec::<Value>::new(), None);
    for (number, (name, data)) in events.iter().enumerate() {
        assert_eq!(data["sequence_number"], number, "{data}");
        let index = data.get("output_index").map(count);
        match name.as_str() {
            "response.output_item.added" => {
                assert_eq!(open.replace(index), None, "two items are open: {data}");
                assert_eq!(index, Some(items.len() as u64), "{data}");
                items.push(data["item"].clone());
            }
            "response.output_item.done" => {
                assert_eq!(open.take(), Some(index), "{data}");
                // The deltas make up the item.
                let item = items.last_mut().expect("an item");
                let folded = std::mem::replace(item, data["item"].clone());
                match item["type"].as_str() {
                    Some("function_call") => assert_eq!(folded["arguments"], item["arguments"]),
                    _ => assert_eq!(folded["text"], item["content"][0]["text"], "{data}"),
                }
            }
            "response.output_text.delta" | "response.function_call_arguments.delta" => {
                assert_eq!(open, Some(index), "a delta outside of its item: {data}");
                let item = items.last_mut().expect("an item");
                let member = if name.contains("text") { "text" } else { "arguments" };
                let known = item[member].as_str().unwrap_or_default();
                item[member] = json!(format!("{known}{}", data["delta"].as_str().expect("a delta")));
            }
            _ => {}
        }
    }
    let ends = ["response.completed", "response.incomplete", "response.failed"];
    assert_eq!(events.iter().filter(|(name, _)| ends.contains(&name.as_str())).count(), 1);
    let (name, last) = events.last().expect("an event");
    assert_eq!(name, "response.completed", "{last}");
    assert_eq!(last["response"]["output"], json!(items), "the final object repeats the items");
    response(&last["response"])
}

fn messages_stream(frames: &[String]) -> Content {
    let events: Vec<(String, Value)> = frames.iter().filter_map(|frame| event(frame)).collect();
    let of = |wanted: &str| events.iter().filter(|(name, _)| name == wanted).count();
    assert_eq!((of("message_start"), of("message_delta"), of("message_stop"), of("error")), (1, 1, 1, 0));
    assert_eq!(events.first().map(|(name, _)| name.as_str()), Some("message_start"));
    assert_eq!(events.last().map(|(name, _)| name.as_str()), Some("message_stop"));
    let mut object = events[0].1["message"].clone();
    let (mut blocks, mut open) = (Vec::<Value>::new(), None);
    for (name, data) in &events {
        let index = data.get("index").map(count);
        match name.as_str() {
            "content_block_start" => {
                assert_eq!(open.replace(index), None, "two blocks are open: {data}");
                assert_eq!(index, Some(blocks.len() as u64), "{data}");
                blocks.push(data["content_block"].clone());
            }
            "content_block_delta" => {
                assert_eq!(open, Some(index), "a delta outside of its block: {data}");
                let block = blocks.last_mut().expect("a block");
                let (member, more) = match data["delta"]["type"].as_str() {
                    Some("text_delta") => ("text", &data["delta"]["text"]),
                    Some("input_json_delta") => ("json", &data["delta"]["partial_json"]),
                    _ => continue,
                };
                let known = block[member].as_str().unwrap_or_default();
                block[member] = json!(format!("{known}{}", more.as_str().expect("a text")));
            }
            "content_block_stop" => {
                assert_eq!(open.take(), Some(index), "{data}");
                let block = blocks.last_mut().expect("a block");
                if block["json"].is_string() {
                    block["input"] = parsed(&block["json"]);
                }
            }
            "message_delta" => {
                assert_eq!(open, None, "a block is open at the end");
                object["stop_reason"] = data["delta"]["stop_reason"].clone();
                for (name, value) in data["usage"].as_object().expect("usage") {
                    object["usage"][name] = value.clone();
                }
            }
            _ => {}
        }
    }
    object["content"] = json!(blocks);
    message(&object)
}
