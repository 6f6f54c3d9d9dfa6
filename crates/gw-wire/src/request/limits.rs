//! Limits on the structure of a request. The body's size limit bounds its bytes; these limits bound the work that the bytes
//! can cause.

use super::fields::Path;
use super::invalid::Invalid;
use crate::json::Bounds;

/// The limits of one request. Each is a setting of the same name in `[server.request_limits]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestLimits {
    /// Maximum number of members of the body's outermost object.
    pub max_members: usize,
    /// Maximum number of JSON values in the body. Numbers in arrays do not count, because token ids are many and cheap.
    pub max_values: usize,
    /// Maximum number of messages.
    pub max_messages: usize,
    /// Maximum number of content parts in all messages.
    pub max_content_parts: usize,
    /// Maximum number of tool calls in all messages.
    pub max_tool_calls: usize,
    /// Maximum number of tools. Providers and models may take fewer.
    pub max_tools: usize,
    /// Maximum number of JSON values in all JSON Schemas: the tools' parameters and `response_format`.
    pub max_schema_nodes: usize,
    /// Maximum nesting of arrays and objects in a JSON Schema.
    pub max_schema_depth: u32,
}

impl Default for RequestLimits {
    fn default() -> Self {
        Self {
            max_members: 1024,
            max_values: 1_000_000,
            max_messages: 20_000,
            max_content_parts: 20_000,
            max_tool_calls: 10_000,
            max_tools: 4096,
            max_schema_nodes: 100_000,
            max_schema_depth: 64,
        }
    }
}

impl RequestLimits {
    /// No limits, for requests made from an already checked one.
    pub const NONE: Self = Self {
        max_members: usize::MAX,
        max_values: usize::MAX,
        max_messages: usize::MAX,
        max_content_parts: usize::MAX,
        max_tool_calls: usize::MAX,
        max_tools: usize::MAX,
        max_schema_nodes: usize::MAX,
        max_schema_depth: u32::MAX,
    };

    /// The bounds that the scan of the text checks.
    pub(super) fn bounds(&self) -> Bounds {
        Bounds { members: self.max_members, values: self.max_values }
    }
}

/// The table of gateway.toml that holds these settings.
const SETTINGS: &str = "server.request_limits";

/// Refuses a body with too many members or values. The scan stops there, so the actual number is unknown.
pub(super) fn body_too_large(what: &str, max: usize, setting: &str) -> Invalid {
    let message = format!(
        "Invalid request body: too many {what}. Expected at most {max} (setting '{SETTINGS}.{setting}'), but got more \
         instead."
    );
    Invalid { code: "invalid_value", message }
}

/// Refuses a list, or several lists together, with too many entries; `got` entries have been counted.
pub(crate) fn too_many(path: &Path<'_>, what: &str, max: usize, got: usize, setting: &str) -> Invalid {
    let message = format!(
        "Invalid '{path}': too many {what}. Expected at most {max} in one request (setting '{SETTINGS}.{setting}'), \
         but got at least {got} instead."
    );
    Invalid { code: "array_above_max_length", message }
}

/// Refuses JSON Schemas with too many values, counted over all schemas up to this one.
pub(super) fn schema_too_large(path: &Path<'_>, max: usize, got: usize) -> Invalid {
    let message = format!(
        "Invalid '{path}': too many JSON Schema nodes. Expected at most {max} in one request (setting \
         '{SETTINGS}.max_schema_nodes'), but got at least {got} instead."
    );
    Invalid { code: "invalid_value", message }
}

/// Refuses a JSON Schema with too many levels.
pub(super) fn schema_too_deep(path: &Path<'_>, max: u32, got: u32) -> Invalid {
    let message = format!(
        "Invalid '{path}': JSON Schema nested too deeply. Expected at most {max} levels (setting \
         '{SETTINGS}.max_schema_depth'), but got {got} instead."
    );
    Invalid { code: "invalid_value", message }
}
