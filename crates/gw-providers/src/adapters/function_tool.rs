//! A function tool in the JSON that OpenAI, Cohere, Mistral and Ollama share.

use gw_wire::conversation::Tool;
use gw_wire::json::{ObjectWriter, View};

/// The parameters of a function without any. Providers require the member.
const NO_PARAMETERS: &str = r#"{"type":"object","properties":{}}"#;

/// Writes `type` and `function` of one tool. `strict` is written where it is given.
pub(super) fn write_function(entry: &mut ObjectWriter<'_>, tool: &Tool<'_>, strict: Option<bool>) {
    entry.string("type", "function");
    entry.object("function", |function| {
        function.string("name", &tool.name);
        if let Some(description) = &tool.description {
            function.string("description", description);
        }
        function.raw("parameters", tool.parameters.map_or(NO_PARAMETERS, View::text));
        if let Some(strict) = strict {
            function.boolean("strict", strict);
        }
    });
}
