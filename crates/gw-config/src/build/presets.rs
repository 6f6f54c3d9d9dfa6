//! The parameters of presets: their names, and their values as a chat with them would be checked.

use gw_wire::nearest::misspelled;
use gw_wire::request::{RequestLimits, known_parameters, parse_chat};
use serde_json::{Map, Value, json};

use super::super::problems::ProblemReport;
use super::super::tree::{Checked, Table};

/// The members of a request that no preset may set or take out: they choose the model, the question and the form of the answer.
const NOT_PARAMETERS: [&str; 13] = [
    "model",
    "messages",
    "stream",
    "routing",
    "preset",
    "models",
    "fallbacks",
    "fallback_model",
    "input",
    "prompt",
    "contents",
    "instructions",
    "system",
];

/// Whether a name is one of these in any spelling: Google's API reads names in several.
fn is_no_parameter(name: &str) -> bool {
    let plain = |name: &str| name.replace('_', "").to_ascii_lowercase();
    NOT_PARAMETERS.iter().any(|known| plain(known) == plain(name))
}

/// Checks the names of a preset's parameters.
pub(super) fn check_parameters(table: &Table, report: &mut ProblemReport) {
    const FAULT: &str = "is not a parameter that a preset may change";
    for list in ["defaults", "overrides"] {
        for (name, node) in table.map(list) {
            if is_no_parameter(name) {
                report.fault(&node.at, &node.path, FAULT);
            } else if let Some(hint) = report.search(|| misspelled(name, known_parameters())) {
                report.fault_with_hint(&node.at, &node.path, "is not a parameter", Some(hint));
            } else if let Checked::Json(value) = &node.value
                && let Some(fault) = wrong_value(name, value)
            {
                report.fault(&node.at, &node.path, fault);
            }
        }
    }
    if let Some(Checked::List(nodes)) = table.node("strip").map(|node| &node.value) {
        for node in nodes {
            let Some(name) = node.value.text() else { continue };
            if is_no_parameter(name) {
                report.fault(&node.at, &node.path, FAULT);
            } else if let Some(hint) = report.search(|| misspelled(name, known_parameters())) {
                report.fault_with_hint(&node.at, &node.path, "is not a parameter", Some(hint));
            }
        }
    }
}

/// The fault of a parameter's value, as a chat with it would be refused. None: there is none.
fn wrong_value(name: &str, value: &Value) -> Option<String> {
    if value.is_null() {
        return Some("is null; take the parameter out with `strip`".to_owned());
    }
    let mut body = beside(name, value);
    body.insert(name.to_owned(), value.clone());
    let text = Value::Object(body).to_string();
    let fault = parse_chat(text.into(), &RequestLimits::default()).err()?;
    // Another member than the preset's own is the client's.
    let is_own = [format!("'{name}'"), format!("'{name}."), format!("'{name}[")];
    let is_own = is_own.iter().any(|start| fault.message.contains(start.as_str()));
    is_own.then(|| format!("would be refused: {}", fault.message.trim_end_matches('.')))
}

/// A chat with the members without which a parameter has no meaning. A client sends them, or the preset has them, too.
fn beside(name: &str, value: &Value) -> Map<String, Value> {
    let mut body = Map::new();
    body.insert("model".to_owned(), json!("m"));
    body.insert("messages".to_owned(), json!([{ "role": "user", "content": "Hi" }]));
    let function = |place: &str| value.pointer(place).and_then(Value::as_str).unwrap_or("f").to_owned();
    match name {
        "tool_choice" | "parallel_tool_calls" => {
            let tool = json!({ "type": "function", "function": { "name": function("/function/name") } });
            body.insert("tools".to_owned(), json!([tool]));
        }
        "function_call" => {
            body.insert("functions".to_owned(), json!([{ "name": function("/name") }]));
        }
        "top_logprobs" => {
            body.insert("logprobs".to_owned(), json!(true));
        }
        "stream_options" => {
            body.insert("stream".to_owned(), json!(true));
        }
        _ => {}
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_checked_as_a_chat_checks_it() {
        for (name, value) in [
            ("temperature", json!(0.2)),
            ("max_tokens", json!(400)),
            ("stop", json!(["a", "b"])),
            ("tool_choice", json!({ "type": "function", "function": { "name": "weather" } })),
            ("tool_choice", json!("required")),
            ("parallel_tool_calls", json!(false)),
            ("function_call", json!({ "name": "g" })),
            ("top_logprobs", json!(3)),
            ("stream_options", json!({ "include_usage": true })),
            ("response_format", json!({ "type": "json_object" })),
            ("tools", json!([{ "type": "function", "function": { "name": "f" } }])),
            ("user", json!("desk")),
            ("reasoning_effort", json!("low")),
            ("cache", json!({ "enabled": true })),
            ("dimensions", json!(8)),
            ("top_k", json!(40)),
        ] {
            assert_eq!(wrong_value(name, &value), None, "{name} {value}");
        }
        for (name, value, part) in [
            ("temperature", json!("hot"), "'temperature'"),
            ("temperature", json!(9), "'temperature'"),
            ("max_tokens", json!(-1), "'max_tokens'"),
            ("stop", json!({}), "'stop'"),
            ("response_format", json!({ "type": "json_schema" }), "'response_format"),
            ("tools", json!([{ "type": "function" }]), "'tools"),
            ("cache", json!({ "enabled": "yes" }), "'cache"),
            ("seed", Value::Null, "is null"),
        ] {
            let fault = wrong_value(name, &value).unwrap_or_else(|| panic!("{name} {value}"));
            assert!(fault.contains(part), "{name}: {fault}");
        }
    }
}
