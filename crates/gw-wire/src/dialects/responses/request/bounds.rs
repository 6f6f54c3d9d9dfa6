//! Limits on the structure of a request, with faults that name the fields of this API.

use crate::json::View;
use crate::request::fields::Path;
use crate::request::{Invalid, RequestLimits};

/// Counts the parts of one request.
#[derive(Debug)]
pub(super) struct RequestBounds<'l> {
    limits: &'l RequestLimits,
    items: usize,
    parts: usize,
    calls: usize,
    tools: usize,
    schema_nodes: usize,
}

impl<'l> RequestBounds<'l> {
    pub(super) fn new(limits: &'l RequestLimits) -> Self {
        Self { limits, items: 0, parts: 0, calls: 0, tools: 0, schema_nodes: 0 }
    }

    /// Number of items so far.
    pub(super) fn items(&self) -> usize {
        self.items
    }

    /// Counts an item of this list.
    pub(super) fn item(&mut self, list: &str) -> Result<(), Invalid> {
        self.items += 1;
        within(list, "items", self.limits.max_messages, self.items, "max_messages")
    }

    /// Counts content parts of this list's items.
    pub(super) fn parts(&mut self, list: &str, count: usize) -> Result<(), Invalid> {
        self.parts += count;
        within(list, "content parts", self.limits.max_content_parts, self.parts, "max_content_parts")
    }

    /// Counts a tool call of this list's items.
    pub(super) fn call(&mut self, list: &str) -> Result<(), Invalid> {
        self.calls += 1;
        within(list, "tool calls", self.limits.max_tool_calls, self.calls, "max_tool_calls")
    }

    /// Counts a tool.
    pub(super) fn tool(&mut self) -> Result<(), Invalid> {
        self.tools += 1;
        within("tools", "functions and custom tools", self.limits.max_tools, self.tools, "max_tools")
    }

    /// Counts a JSON Schema.
    pub(super) fn schema(&mut self, path: &Path<'_>, schema: Option<View<'_>>) -> Result<(), Invalid> {
        let Some(schema) = schema else { return Ok(()) };
        let extent = schema.extent();
        self.schema_nodes = self.schema_nodes.saturating_add(extent.values);
        let (depth, nodes) = (self.limits.max_schema_depth, self.limits.max_schema_nodes);
        let message = if extent.depth > depth {
            format!(
                "Invalid '{path}': JSON Schema nested too deeply. Expected at most {depth} levels (setting \
                 'server.request_limits.max_schema_depth'), but got {} instead.",
                extent.depth
            )
        } else if self.schema_nodes > nodes {
            format!(
                "Invalid '{path}': too many JSON Schema nodes. Expected at most {nodes} in one request (setting \
                 'server.request_limits.max_schema_nodes'), but got at least {} instead.",
                self.schema_nodes
            )
        } else {
            return Ok(());
        };
        Err(Invalid { code: "invalid_value", message })
    }
}

fn within(list: &str, what: &str, max: usize, got: usize, setting: &str) -> Result<(), Invalid> {
    if got <= max {
        return Ok(());
    }
    let message = format!(
        "Invalid '{list}': too many {what}. Expected at most {max} in one request (setting \
         'server.request_limits.{setting}'), but got at least {got} instead."
    );
    Err(Invalid { code: "array_above_max_length", message })
}
