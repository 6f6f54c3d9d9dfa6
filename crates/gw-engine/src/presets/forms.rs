//! The form of a parameter's value on each surface.

use serde_json::{Map, Value, json};

use super::places::PresetSurface;

/// The efforts of Messages.
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// The values for the places of a parameter, in their order. Empty: the surface has no such value.
pub(super) fn values(surface: PresetSurface, name: &str, value: &Value) -> Vec<Value> {
    let found = match (surface, name) {
        (PresetSurface::Messages | PresetSurface::Gemini, "stop") => Some(list(value)),
        (PresetSurface::Messages, "reasoning_effort") => {
            value.as_str().filter(|effort| EFFORTS.contains(effort)).map(Value::from)
        }
        (PresetSurface::Messages | PresetSurface::Responses | PresetSurface::Gemini, "tools") => {
            tools(surface, value)
        }
        (PresetSurface::Messages | PresetSurface::Responses | PresetSurface::Gemini, "tool_choice") => {
            tool_choice(surface, value)
        }
        (PresetSurface::Gemini, "response_format") => return gemini_format(value),
        (PresetSurface::Messages | PresetSurface::Responses, "response_format") => format(surface, value),
        _ => Some(value.clone()),
    };
    found.into_iter().collect()
}

fn list(value: &Value) -> Value {
    if value.is_array() { value.clone() } else { json!([value]) }
}

/// The functions among the tools of a chat.
fn tools(surface: PresetSurface, value: &Value) -> Option<Value> {
    let functions = value.as_array()?.iter().filter_map(|tool| tool.get("function")?.as_object());
    let written = functions.map(|function| of_function(surface, function)).collect::<Vec<_>>();
    Some(match surface {
        PresetSurface::Gemini => json!([{ "functionDeclarations": written }]),
        _ => Value::Array(written),
    })
}

fn of_function(surface: PresetSurface, function: &Map<String, Value>) -> Value {
    let schema = match surface {
        PresetSurface::Messages => "input_schema",
        PresetSurface::Gemini => "parametersJsonSchema",
        _ => "parameters",
    };
    let mut written = Map::new();
    if surface == PresetSurface::Responses {
        written.insert("type".to_owned(), "function".into());
    }
    for (name, value) in function {
        let name = match name.as_str() {
            "parameters" => schema,
            // Only Responses have the others.
            other if surface == PresetSurface::Responses || matches!(other, "name" | "description") => other,
            _ => continue,
        };
        written.insert(name.to_owned(), value.clone());
    }
    if surface == PresetSurface::Messages {
        written.entry(schema).or_insert_with(|| json!({ "type": "object" }));
    }
    Value::Object(written)
}

fn tool_choice(surface: PresetSurface, value: &Value) -> Option<Value> {
    let named = value.get("function").and_then(|function| function.get("name")?.as_str());
    let gemini = |mode: &str, name: Option<&str>| {
        let mut calling = json!({ "mode": mode });
        if let (Some(name), Some(members)) = (name, calling.as_object_mut()) {
            members.insert("allowedFunctionNames".to_owned(), json!([name]));
        }
        json!({ "functionCallingConfig": calling })
    };
    Some(match (surface, value.as_str(), named) {
        (PresetSurface::Responses, Some(word), _) => word.into(),
        (PresetSurface::Responses, None, Some(name)) => json!({ "type": "function", "name": name }),
        (PresetSurface::Messages, Some("required"), _) => json!({ "type": "any" }),
        (PresetSurface::Messages, Some(word), _) => json!({ "type": word }),
        (PresetSurface::Messages, None, Some(name)) => json!({ "type": "tool", "name": name }),
        (PresetSurface::Gemini, Some("required"), _) => gemini("ANY", None),
        (PresetSurface::Gemini, Some("none"), _) => gemini("NONE", None),
        (PresetSurface::Gemini, Some(_), _) => gemini("AUTO", None),
        (PresetSurface::Gemini, None, Some(name)) => gemini("ANY", Some(name)),
        _ => return None,
    })
}

/// The schema of an answer. Plain JSON has a form on Responses only.
fn format(surface: PresetSurface, value: &Value) -> Option<Value> {
    let Some(schema) = value.get("json_schema").and_then(Value::as_object) else {
        return (surface == PresetSurface::Responses).then(|| value.clone());
    };
    if surface == PresetSurface::Messages {
        return Some(json!({ "type": "json_schema", "schema": schema.get("schema")? }));
    }
    let mut written = schema.clone();
    written.insert("type".to_owned(), "json_schema".into());
    Some(Value::Object(written))
}

fn gemini_format(value: &Value) -> Vec<Value> {
    let json_type = Value::from("application/json");
    match value.get("type").and_then(Value::as_str) {
        Some("json_object") => vec![json_type],
        Some("json_schema") => {
            let schema = value.get("json_schema").and_then(|schema| schema.get("schema"));
            std::iter::once(json_type).chain(schema.cloned()).collect()
        }
        _ => Vec::new(),
    }
}
