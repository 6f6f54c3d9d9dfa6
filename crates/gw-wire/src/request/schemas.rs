//! Limits the size of all JSON Schemas of a request together.

use super::fields::Path;
use super::invalid::Invalid;
use super::limits::{RequestLimits, schema_too_deep, schema_too_large};
use crate::json::{Extent, View};

/// Minimum depth of a schema inside the member that holds it.
const LEVELS_AROUND: u32 = 2;

/// Counts the schemas of one request.
pub(super) struct Schemas<'l> {
    limits: &'l RequestLimits,
    /// The members that hold the schemas are within the limits, so the schemas are too.
    surely_fit: bool,
    nodes: usize,
}

impl<'l> Schemas<'l> {
    /// `around` is the size of all members that hold schemas.
    pub(super) fn new(limits: &'l RequestLimits, around: Extent) -> Self {
        let surely_fit = around.values <= limits.max_schema_nodes
            && around.depth.saturating_sub(LEVELS_AROUND) <= limits.max_schema_depth;
        Self { limits, surely_fit, nodes: 0 }
    }

    /// The limits of the request.
    pub(super) fn limits(&self) -> &'l RequestLimits {
        self.limits
    }

    /// Counts the next schema.
    pub(super) fn take(&mut self, path: &Path<'_>, schema: Option<View<'_>>) -> Result<(), Invalid> {
        let Some(schema) = schema.filter(|_| !self.surely_fit) else { return Ok(()) };
        let extent = schema.extent();
        self.nodes = self.nodes.saturating_add(extent.values);
        if extent.depth > self.limits.max_schema_depth {
            return Err(schema_too_deep(path, self.limits.max_schema_depth, extent.depth));
        }
        if self.nodes > self.limits.max_schema_nodes {
            return Err(schema_too_large(path, self.limits.max_schema_nodes, self.nodes));
        }
        Ok(())
    }
}
