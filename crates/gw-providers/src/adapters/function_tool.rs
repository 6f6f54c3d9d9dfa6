//! A function tool in the JSON that OpenAI, Cohere, Mistral and Ollama share.

use gw_wire::conversation::Tool;
use gw_wire::json::View;

use super::write::Object;

/// The parameters of a function without any. Providers require the member.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// Writes `type` and `function` of one tool. `strict` is written where it is given.
pub(super) fn write_function(entry: &mut Object, tool: &Tool<'_>, strict: Option<bool>) {
    entry.text("type", "function");
    entry.object("function", |function| {
        function.text("name", &tool.name);
        if let Some(description) = &tool.description {
            function.text("description", description);
        }
        function.raw("parameters", tool.parameters.map_or(NO_PARAMETERS, View::text));
        if let Some(strict) = strict {
            function.raw("strict", if strict { "true" } else { "false" });
        }
    });
}
