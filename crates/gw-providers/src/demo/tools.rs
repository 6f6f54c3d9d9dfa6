//! The tool calls of the demo. It calls a tool when it must, or when the user's last message names one.

use serde_json::{Value, json};

use super::example::{self, FilledMembers};

/// A tool call.
#[derive(Clone, Debug)]
pub(super) struct DemoToolCall {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: String,
}

/// The calls, and whether the tools were offered as legacy functions.
pub(super) fn choose(request: &Value, user_text: &str) -> (Vec<DemoToolCall>, bool) {
    let list = |name: &str| request.get(name).and_then(Value::as_array).filter(|list| !list.is_empty());
    let (offered, legacy): (Vec<&Value>, bool) = match (list("tools"), list("functions")) {
        (Some(tools), _) => (tools.iter().filter_map(|tool| tool.get("function")).collect(), false),
        (None, Some(functions)) => (functions.iter().collect(), true),
        (None, None) => return (Vec::new(), false),
    };
    let choice = request.get(if legacy { "function_call" } else { "tool_choice" });
    let named = choice.and_then(|choice| {
        let name = choice.pointer("/function/name").or_else(|| choice.get("name"))?;
        offered.iter().find(|tool| tool.get("name") == Some(name))
    });
    let mode =
        choice.and_then(|choice| choice.as_str().or_else(|| choice.pointer("/allowed_tools/mode")?.as_str()));
    let mut wanted: Vec<&Value> = match (named, mode) {
        (Some(tool), _) => vec![tool],
        (None, Some("none")) => Vec::new(),
        (None, _) => {
            // Every tool searches the text, so its length is bounded.
            let words = user_text
                .get(user_text.ceil_char_boundary(user_text.len().saturating_sub(MAX_SEARCHED_BYTES))..);
            let words = words.unwrap_or_default().to_lowercase();
            offered.iter().copied().filter(|tool| mentions(&words, tool)).collect()
        }
    };
    if wanted.is_empty() && mode == Some("required") {
        wanted.extend(offered.first());
    }
    if legacy || request.get("parallel_tool_calls").and_then(Value::as_bool) == Some(false) {
        wanted.truncate(1);
    }
    (wanted.into_iter().enumerate().map(|(at, tool)| call(at, tool, user_text)).collect(), legacy)
}

/// The bytes at the end of the user's message that are searched for tool names.
const MAX_SEARCHED_BYTES: usize = 64 << 10;

/// Whether the user's message, in lower case, names the tool.
fn mentions(user_text: &str, tool: &Value) -> bool {
    let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
    let spaced = name.replace(['_', '-'], " ").to_lowercase();
    !name.is_empty() && (user_text.contains(&name.to_lowercase()) || user_text.contains(&spaced))
}

fn call(at: usize, tool: &Value, user_text: &str) -> DemoToolCall {
    let schema = tool.get("parameters").cloned().unwrap_or_else(|| json!({}));
    let arguments = match example::of(&schema, FilledMembers::Required, user_text) {
        arguments @ Value::Object(_) => arguments,
        _ => json!({}),
    };
    let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
    DemoToolCall {
        id: format!("call_demo_{}", at + 1),
        name: name.to_owned(),
        arguments: arguments.to_string(),
    }
}
