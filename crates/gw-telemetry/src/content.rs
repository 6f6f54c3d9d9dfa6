//! Prompts and answers as attributes: masked first, then written as the semantic conventions describe messages.

use gw_engine::payloads::{CapturedContent, Redactor};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use serde_json::{Value, json};

use crate::attributes::Attributes;

/// The most messages that a span keeps: the last ones. A conversation's beginning is in earlier spans.
const MAX_MESSAGES: usize = 64;

/// The messages of a request and its answer.
#[derive(Debug, Default)]
pub(crate) struct Messages {
    system: Option<Value>,
    tools: Option<Value>,
    input: Vec<Value>,
    output: Vec<Value>,
}

impl Messages {
    /// Masks the bodies and reads them. Media are cut by the masks.
    pub(crate) fn read(content: &CapturedContent, masks: &Redactor) -> Self {
        let request = masks.body(&content.request, false).text;
        let response = masks.body(&content.response, content.is_cut).text;
        let mut messages = Self::default();
        match serde_json::from_str::<Value>(&request) {
            Ok(body) => messages.request(&body),
            // A long body is cut, so it is no JSON any more.
            Err(_) => messages.input.push(message("user", vec![text(request.as_str())])),
        }
        match serde_json::from_str::<Value>(&response) {
            Ok(body) => messages.output = answer(&body),
            Err(_) if response.is_empty() => {}
            Err(_) => messages.output.push(message("assistant", vec![text(response.as_str())])),
        }
        let surplus = messages.input.len().saturating_sub(MAX_MESSAGES);
        messages.input.drain(..surplus);
        messages
    }

    fn request(&mut self, body: &Value) {
        self.tools = body.get("tools").filter(|tools| tools.is_array()).cloned();
        let system = body.get("system").or_else(|| body.get("instructions"));
        self.system = system.filter(|system| !system.is_null()).map(|system| Value::Array(parts(system)));
        let told = body.get("messages").or_else(|| body.get("input")).or_else(|| body.get("prompt"));
        match told {
            Some(Value::Array(items)) => self.input = items.iter().map(input_message).collect(),
            Some(other) if !other.is_null() => self.input.push(message("user", parts(other))),
            _ => {}
        }
    }

    /// Adds the attributes. Langfuse reads one pair of attributes for each message, too.
    pub(crate) fn write(self, to: &mut Vec<KeyValue>, langfuse: bool) {
        let mut about = Attributes::default();
        about.maybe_text("gen_ai.system_instructions", self.system.map(|value| value.to_string()));
        about.maybe_text("gen_ai.tool.definitions", self.tools.map(|value| value.to_string()));
        if langfuse {
            pairs(&mut about, "gen_ai.prompt", &self.input);
            pairs(&mut about, "gen_ai.completion", &self.output);
        }
        for (name, list) in [("gen_ai.input.messages", self.input), ("gen_ai.output.messages", self.output)] {
            if !list.is_empty() {
                about.text(name, Value::Array(list).to_string());
            }
        }
        to.append(&mut about.0);
    }
}

fn pairs(about: &mut Attributes, prefix: &str, messages: &[Value]) {
    for (place, message) in messages.iter().enumerate() {
        about.maybe_text(&format!("{prefix}.{place}.role"), message["role"].as_str());
        let parts = message["parts"].as_array().map_or(&[][..], Vec::as_slice);
        let content = match parts {
            [only] if only["type"] == "text" => only["content"].as_str().map(str::to_owned),
            parts => Some(Value::Array(parts.to_vec()).to_string()),
        };
        about.maybe_text(&format!("{prefix}.{place}.content"), content);
    }
}

fn message(role: &str, parts: Vec<Value>) -> Value {
    let members = [("role", Value::from(role)), ("parts", Value::Array(parts))];
    Value::Object(members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

fn text(content: &str) -> Value {
    json!({ "type": "text", "content": content })
}

fn input_message(item: &Value) -> Value {
    if let Some(words) = item.as_str() {
        return message("user", vec![text(words)]);
    }
    let role = item["role"].as_str().unwrap_or("user");
    if role == "tool" || item["type"] == "function_call_output" {
        let id = item.get("tool_call_id").or_else(|| item.get("call_id"));
        let response = item.get("content").or_else(|| item.get("output"));
        let part = json!({ "type": "tool_call_response", "id": id, "response": response });
        return message("tool", vec![part]);
    }
    if item["type"] == "function_call" {
        return message("assistant", vec![tool_call(&item["call_id"], item)]);
    }
    message(role, spoken(item))
}

/// The content and the tool calls of a message.
fn spoken(item: &Value) -> Vec<Value> {
    let mut found = item.get("content").map(parts).unwrap_or_default();
    let calls = item["tool_calls"].as_array().into_iter().flatten();
    found.extend(calls.map(|call| tool_call(&call["id"], &call["function"])));
    found
}

fn tool_call(id: &Value, function: &Value) -> Value {
    json!({ "type": "tool_call", "id": id, "name": function["name"], "arguments": function["arguments"] })
}

/// The parts of a content: a text, or a list of parts in any dialect.
fn parts(content: &Value) -> Vec<Value> {
    match content {
        Value::Null => Vec::new(),
        Value::String(words) => vec![text(words)],
        Value::Array(items) => items.iter().map(part).collect(),
        other => vec![part(other)],
    }
}

fn part(item: &Value) -> Value {
    match (item["type"].as_str(), item["text"].as_str()) {
        (Some("text" | "input_text" | "output_text") | None, Some(words)) => text(words),
        (Some("tool_use"), _) => {
            json!({ "type": "tool_call", "id": item["id"], "name": item["name"], "arguments": item["input"] })
        }
        (Some("tool_result"), _) => {
            json!({ "type": "tool_call_response", "id": item["tool_use_id"], "response": item["content"] })
        }
        (kind, _) => json!({ "type": kind.unwrap_or("text"), "content": item }),
    }
}

/// The messages of an answer in any of the clients' dialects.
fn answer(body: &Value) -> Vec<Value> {
    // The last event of a stream of the Responses API holds the whole answer.
    let body = body.get("response").filter(|response| response.is_object()).unwrap_or(body);
    if let Some(choices) = body["choices"].as_array() {
        return choices.iter().map(choice).collect();
    }
    if let Some(items) = body["output"].as_array() {
        return items.iter().map(input_message).map(as_assistant).collect();
    }
    match body.get("content") {
        Some(content) => vec![finished("assistant", parts(content), &body["stop_reason"])],
        None => Vec::new(),
    }
}

fn choice(choice: &Value) -> Value {
    let parts = match choice.get("message") {
        Some(message) => spoken(message),
        None => choice.get("text").or_else(|| choice.get("content")).map(parts).unwrap_or_default(),
    };
    finished("assistant", parts, &choice["finish_reason"])
}

fn as_assistant(mut message: Value) -> Value {
    if let Some(members) = message.as_object_mut() {
        members.insert("role".to_owned(), "assistant".into());
    }
    message
}

fn finished(role: &str, parts: Vec<Value>, reason: &Value) -> Value {
    let mut message = message(role, parts);
    if let Some(members) = message.as_object_mut().filter(|_| reason.is_string()) {
        members.insert("finish_reason".to_owned(), reason.clone());
    }
    message
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use gw_engine::payloads::Masks;

    use super::*;

    fn read(request: &Value, response: &Value) -> Messages {
        let bytes = |value: &Value| Bytes::from(value.to_string());
        let content = CapturedContent { request: bytes(request), response: bytes(response), is_cut: false };
        Messages::read(&content, &Redactor::new(Masks::ALL, 64 << 10).unwrap())
    }

    #[test]
    fn a_chat_becomes_messages_with_parts() {
        let request = json!({ "messages": [
            { "role": "system", "content": "Be brief" },
            { "role": "user", "content": [{ "type": "text", "text": "Write to ann@example.com" }] },
            { "role": "tool", "tool_call_id": "c1", "content": "42" },
        ] });
        let call = json!({ "id": "c2", "function": { "name": "add", "arguments": "{}" } });
        let response = json!({ "choices": [
            { "message": { "content": null, "tool_calls": [call] }, "finish_reason": "tool_calls" },
        ] });
        let messages = read(&request, &response);
        assert_eq!(
            messages.input[0],
            json!({ "role": "system", "parts": [{ "type": "text", "content": "Be brief" }] })
        );
        assert!(!messages.input[1].to_string().contains("ann@example.com"));
        assert_eq!(messages.input[2]["parts"][0]["type"], "tool_call_response");
        assert_eq!(messages.output[0]["finish_reason"], "tool_calls");
        assert_eq!(messages.output[0]["parts"][0]["name"], "add");
    }

    #[test]
    fn the_dialects_of_agents_are_read_too() {
        let messages = read(
            &json!({ "system": "Be brief", "messages": [{ "role": "user", "content": "Hi" }] }),
            &json!({ "content": [{ "type": "text", "text": "Ho" }], "stop_reason": "end_turn" }),
        );
        assert_eq!(messages.system, Some(json!([{ "type": "text", "content": "Be brief" }])));
        assert_eq!(messages.output[0]["parts"][0]["content"], "Ho");
        let messages = read(
            &json!({ "instructions": "Be brief", "input": "Hi" }),
            &json!({ "output": [{ "type": "message", "content": [{ "type": "output_text", "text": "Ho" }] }] }),
        );
        assert_eq!(messages.input[0]["parts"][0]["content"], "Hi");
        assert_eq!(messages.output[0], message("assistant", vec![text("Ho")]));
        let item = json!({ "type": "message", "content": [{ "type": "output_text", "text": "Ho" }] });
        let streamed = json!({ "type": "response.completed", "response": { "output": [item] } });
        let messages = read(&json!({ "input": "Hi" }), &streamed);
        assert_eq!(messages.output[0], message("assistant", vec![text("Ho")]));
    }

    #[test]
    fn langfuse_gets_one_pair_of_attributes_for_each_message() {
        let messages = read(
            &json!({ "messages": [{ "role": "user", "content": "Hi" }] }),
            &json!({ "choices": [{ "message": { "content": "Ho" } }] }),
        );
        let mut attributes = Vec::new();
        messages.write(&mut attributes, true);
        let keys: Vec<_> = attributes.iter().map(|attribute| attribute.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "gen_ai.prompt.0.role",
                "gen_ai.prompt.0.content",
                "gen_ai.completion.0.role",
                "gen_ai.completion.0.content",
                "gen_ai.input.messages",
                "gen_ai.output.messages"
            ]
        );
    }
}
